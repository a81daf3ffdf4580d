"""A server that reads a space for the first time: searches are answered before all of it is read,
and say so.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

import grpc
import pytest
from recollect import Client, Message
from recollect.v1.recall_service_pb2 import SearchRequest
from recollect.v1.recall_service_pb2_grpc import RecallServiceStub
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK, MovableClock, RunningServer, Start
from tests.postgres import Postgres
from tests.server.conftest import failure_of
from tests.waiting import until

SPACE, CONVERSATIONS = "cold", 3
BOUND = 2.0  # seconds that a search waits
READING = "the index is being made: 2 of 3 conversations are read, the oldest first"

Cold = Callable[[Callable[[int], None]], RunningServer]


@pytest.fixture
def names(start_server: Start, store: str, tmp_path: Path) -> list[str]:
    """Fill a space, and return the names of its conversations, the oldest first."""
    server = start_server(store=store, data_dir=tmp_path / "warm")
    with Client(server.target, space=SPACE) as client:
        return [
            client.conversations.create("web", messages=[Message.user(f"apricot {number}")]).id
            for number in range(CONVERSATIONS)
        ]


@pytest.fixture
def store(postgres: Postgres) -> str:
    return postgres.new_database()


@pytest.fixture
def start_cold(store: str, tmp_path: Path) -> Iterator[Cold]:
    """Start a server without an index, which calls a function before it reads a conversation of the
    space.
    """
    running: list[RunningServer] = []

    def start(reads: Callable[[int], None]) -> RunningServer:
        values = {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path / "cold", "store": store}
        settings, clock = Settings.load(None, values), MovableClock()

        def progress(done: int, of: int) -> None:
            if of == CONVERSATIONS:
                reads(done)

        opened = app.start(settings, clock=clock, progress=progress, lock_order=LockOrder())
        running.append(RunningServer(opened, clock, settings))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def test_searches_are_answered_by_what_is_read_so_far_and_say_so(
    names: list[str], start_cold: Cold, start_server: Start, store: str, tmp_path: Path
) -> None:
    go_on = threading.Event()

    def reads(done: int) -> None:
        if done == CONVERSATIONS - 1:
            go_on.wait(30)

    server = start_cold(reads)
    warm = start_server(store=store, data_dir=tmp_path / "other")
    with (
        Client(server.target, space=SPACE) as client,
        Client(warm.target, space=SPACE) as other,
        ThreadPoolExecutor(6) as pool,
    ):
        try:
            began = monotonic()
            search = pool.submit(client.recall.search, "apricot", timeout=20)
            context = pool.submit(client.recall.build_context, names[2], "apricot", timeout=20)
            fetched = pool.submit(client.recall.fetch_context, names[2], timeout=20)
            listed = pool.submit(lambda: list(client.conversations.list(timeout=20)))
            written = pool.submit(
                client.conversations.append_turn, names[0], [Message.user("late")], timeout=20
            )
            answer = search.result()
            assert {it.conversation_id for it in answer.hits} == set(names[:2])
            assert {it.leg: it.reason for it in answer.degraded} == dict.fromkeys(
                ("keyword_messages", "keyword_conversations"), READING
            )
            built = context.result()
            assert [it.message.content for it in built.hot] == ["apricot 2"]
            assert {it.leg for it in built.degraded} >= {"cold", "anchors"}
            assert [it.content for it in fetched.result().messages] == ["apricot 2"]
            assert BOUND <= monotonic() - began < BOUND + 10
            assert not listed.done()
            assert not written.done()  # what needs all of it waits for it
            other.conversations.delete(names[0])
            again = pool.submit(client.recall.search, "apricot", timeout=20)
            with pytest.raises(TimeoutError):  # the part has what was deleted: nobody is given it
                again.result(BOUND + 1)
        finally:
            go_on.set()
        assert {it.conversation_id for it in again.result().hits} == set(names[1:])
        assert {it.id for it in listed.result()} >= set(names[1:])
        until(lambda: not client.recall.search("apricot").degraded)


def test_a_search_of_a_space_that_cannot_be_opened_says_why_and_the_next_one_tries_again(
    names: list[str], start_cold: Cold
) -> None:
    failures = [StorageUnavailable("the disk is on fire")]

    def reads(_: int) -> None:
        if failures:
            raise failures.pop()

    server = start_cold(reads)
    with grpc.insecure_channel(server.target) as channel:
        request, space = SearchRequest(query="apricot"), (("recollect-space", SPACE),)
        stub = RecallServiceStub(channel)
        refused = failure_of(lambda: stub.Search(request, metadata=space))
        assert (refused.code, "the disk is on fire" in refused.text) == ("UNAVAILABLE", True)
        answer = stub.Search(request, metadata=space)
        assert {it.conversation_id for it in answer.results} == set(names)
        assert not answer.degraded
