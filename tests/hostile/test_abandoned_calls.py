"""Calls whose callers gave up: their work stops, and nobody else waits for it."""

import threading
import time
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from recollect.v1 import recall_service_pb2 as api
from recollect.v1.context_pb2 import RECALL_DIAL_LIKELY
from recollect_server.kernel.domain.errors import CallerGone, DeadlineExceeded
from recollect_server.kernel.domain.time import UNLIMITED, Deadline
from recollect_server.kernel.index.index import Index
from recollect_server.run.features import FEATURES

from tests.conftest import Start
from tests.server.conftest import Connect, Service, code_of, failure_of, user

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
CALLERS = 32


def fill(service: Service, scale: int) -> str:
    """Store texts whose snippets cost as much as any can. Return the conversation's id."""
    conversation = service.create().id
    lines = " ".join(f"error {'x ' * 200}" for _ in range(400))
    for number in range(min(10 * scale, 60)):
        service.append(conversation, user(f"{number} {lines}"))
    service.search("error")
    return conversation


def test_searches_that_nobody_waits_for_do_not_hold_up_others(
    start_server: Start, connect: Connect, scale: int
) -> None:
    service = connect(start_server())
    conversation = fill(service, scale)
    request = api.SearchRequest(query="error refused connection q", limit=100)
    began = time.process_time()
    service.recall.Search(request)
    alone = time.process_time() - began
    calls = [service.recall.Search.future(request, timeout=0.2) for _ in range(CALLERS)]
    began = time.process_time()
    service.get(conversation)
    assert time.process_time() - began < max(2.0, 4 * alone), "Get waits behind searches"
    assert {call.code().name for call in calls} <= {"DEADLINE_EXCEEDED", "OK"}
    began = time.process_time()
    service.recall.Search(request)
    # A search of its own beside what of the others cannot stop at once, on two processors; not
    # behind some thirty of them. Of processor time, for others may keep the machine busy.
    assert time.process_time() - began < 16 * alone + 1


def test_a_search_whose_caller_cancels_stops(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(threads=1))
    conversation = fill(service, 1)
    calls = [
        service.recall.Search.future(api.SearchRequest(query="error refused q", limit=100))
        for _ in range(CALLERS)
    ]
    for call in calls:
        call.cancel()
    # One thread serves: what is asked next waits for whatever of these goes on.
    began = time.process_time()
    assert service.get(conversation).id == conversation
    assert time.process_time() - began < 2


def test_a_slow_search_ends_with_a_reason_and_a_context_says_that_it_recalls_nothing(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(search_timeout=timedelta(milliseconds=1)))
    service.conversation_of("We fly to Osaka in May")
    conversation = service.conversation_of("We fly to Kyoto in April")
    # to look that many words up takes more than a millisecond
    long = " ".join(f"Kyoto{number}" for number in range(5000))
    failure = failure_of(lambda: service.search(long))
    assert (failure.code, failure.reason) == ("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")
    assert "ask for less" in failure.text
    answer = service.recall.BuildContext(
        api.BuildContextRequest(
            conversation_id=conversation,
            message=long,
            recall=RECALL_DIAL_LIKELY,  # else all that is stored is given, without a search
        )
    )
    assert [it.message.content for it in answer.hot] == ["We fly to Kyoto in April"]
    assert [(it.leg, it.reason) for it in answer.degraded] == [
        ("cold", "recall timed out: it had 0.001 s")
    ]


def test_a_caller_with_less_time_than_the_server_allows_gets_the_code_of_grpc(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server())
    service.conversation_of("We fly to Kyoto in April")
    request = api.SearchRequest(query="Kyoto")
    assert (
        code_of(lambda: service.recall.Search(request, timeout=0.000_001))
        == grpc.StatusCode.DEADLINE_EXCEEDED.name
    )


def test_a_query_of_the_index_stops_where_the_caller_gives_up(tmp_path: Path) -> None:
    index = Index(tmp_path, FEATURES.tables)
    deadline, over = Deadline(), threading.Event()
    stopped: list[float] = []

    def ask() -> None:
        with pytest.raises(CallerGone), index.until(deadline), index.reading() as connection:
            connection.execute(ENDLESS).fetchall()
        stopped.append(time.process_time())
        over.set()

    thread = threading.Thread(target=ask)
    thread.start()
    began = time.process_time()
    deadline.cancel()
    assert over.wait()
    assert stopped[0] - began < 1
    with (
        pytest.raises(DeadlineExceeded),
        index.until(Deadline(0.01)),
        index.reading() as connection,
    ):
        connection.execute(ENDLESS).fetchall()
    with index.until(UNLIMITED), index.reading() as connection:
        assert connection.execute("SELECT 1").get == 1, "the connection answers again"
    thread.join()
    index.close()
