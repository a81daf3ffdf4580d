"""Deletes of very long conversations: they end soon, hold up nobody, and leave nothing."""

import threading
import time
from collections.abc import Iterator
from itertools import islice

import grpc
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import ROLE_USER, Message
from recollect_server.kernel.index.removal import WordRemoval
from structlog.testing import capture_logs

from tests.conftest import RunningServer, Start
from tests.crash.load import connected, process
from tests.server.conftest import Connect, Service, files_with

WORDS = [
    f"{first}{last}"
    for first in ("amber", "basalt", "cinder", "dolmen", "ember")
    for last in ("wing", "fall", "mark", "gate")
]
RARE = "quixotriple"


def long_conversation(service: Service, messages: int) -> str:
    """Write a conversation of messages of some 30 words; a rare word stands in every hundredth."""
    conversation_id = service.create().id

    def texts() -> Iterator[Message]:
        for number in range(messages):
            words = " ".join(f"{WORDS[(number + at) % 20]}{(number * at) % 97}" for at in range(30))
            yield Message(role=ROLE_USER, content=f"{words} {RARE}" if number % 100 == 0 else words)

    waiting = texts()
    for number in range(0, messages, 500):
        service.append(
            conversation_id, *islice(waiting, 500), request_id=f"{conversation_id}-{number}"
        )
    return conversation_id


@pytest.mark.timeout(900)
def test_a_long_conversation_is_deleted_while_appends_and_searches_go_on(
    service: Service, server: RunningServer, scale: int
) -> None:
    """It took 1.5 ms a message and kept searches waiting for seconds; with `scale` 20 it has 60,000
    messages.
    """
    messages = 2000 * scale
    stays = service.conversation_of("zebra stays")
    goes = long_conversation(service, messages)
    service.search("zebra")  # answered once the index has taken in everything
    waits: list[float] = []
    over = threading.Event()

    def others() -> None:
        while not over.is_set():
            began = time.process_time()
            service.append(stays, Message(role=ROLE_USER, content="zebra again"))
            assert service.found("zebra") == [stays]
            waits.append(time.process_time() - began)

    beside = threading.Thread(target=others)
    beside.start()
    began = time.process_time()
    try:
        receipt = service.delete(goes, request_id="d1")
    finally:
        over.set()
        beside.join()
    seconds = time.process_time() - began
    removed = {it.place: it.count for it in receipt.removed}
    assert removed["messages"] == removed["search_terms"] == messages
    assert removed["requests"] == messages / 500
    assert removed["updates"] == 1 + messages / 500
    assert service.delete(goes, request_id="d1") == receipt
    # Ten times the processor time that it takes alone, and a quarter of what it took.
    assert seconds < 1 + messages * 0.0005
    assert max(waits) < max(1.0, seconds / 3), "an append or a search waited for the delete"
    assert files_with(server.data_dir, RARE, RARE[4:]) == []
    assert service.search(RARE).total_matches == 0
    assert service.found("zebra") == [stays]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("point", ["delete.part_removed:2", "index.job_committed:3"])
def test_a_start_after_a_kill_within_a_long_delete_finishes_it_and_says_so(
    start_server: Start, connect: Connect, scale: int, point: str
) -> None:
    before = start_server()
    service = connect(before)
    stays, goes = service.conversation_of("zebra stays"), long_conversation(service, 500 * scale)
    before.stop()
    with (
        process(before.data_dir, point) as killed,
        connected(killed.target) as dying,
        pytest.raises(grpc.RpcError),
    ):
        dying.delete(goes)
    with capture_logs() as logged:
        again = start_server()
    events = [line["event"] for line in logged if line.get("conversation") == goes]
    assert events[0] == "finishing_interrupted_delete"
    assert events[-1] == "interrupted_delete_finished"
    assert files_with(again.data_dir, RARE, RARE[4:]) == []
    assert sorted(path.name for path in again.folder.glob("*.jsonl*")) == [f"{stays}.jsonl"]
    answered = connect(again)
    assert answered.found("zebra") == [stays]
    assert answered.search(WORDS[0] + "0").total_matches == 0


@pytest.fixture
def merges(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables whose words are merged, one entry a merge, as it grows."""
    merges: list[str] = []
    merge = WordRemoval._merge

    def note(removal: WordRemoval) -> None:
        merges.append(removal.words)
        merge(removal)

    monkeypatch.setattr(WordRemoval, "_merge", note)
    return merges


@pytest.mark.files  # over PostgreSQL each delete ends by itself
def test_many_conversations_that_are_long_together_go_by_one_merge(
    service: Service, server: RunningServer, merges: list[str]
) -> None:
    stays = service.conversation_of("zebra stays")
    goes = [long_conversation(service, 30) for _ in range(30)]
    service.search("zebra")
    receipt = service.conversations.DeleteMany(api.DeleteManyRequest(conversation_ids=goes))
    assert {*receipt.conversation_ids} == {*goes}
    removed = {it.place: it.count for it in receipt.removed}
    assert removed["messages"] == removed["search_terms"] == 900
    assert merges == ["turns_fts"]
    assert files_with(server.data_dir, RARE, RARE[4:]) == []
    assert service.search(RARE).total_matches == 0
    assert service.found("zebra") == [stays]


@pytest.mark.files
@pytest.mark.parametrize("point", ["delete.part_removed:1", "delete.part_removed:2"])
def test_a_start_after_a_kill_within_a_delete_of_many_finishes_them_by_one_merge(
    start_server: Start, connect: Connect, merges: list[str], point: str
) -> None:
    before = start_server()
    service = connect(before)
    stays = service.conversation_of("zebra stays")
    goes = [long_conversation(service, 30) for _ in range(20)]
    before.stop()
    with (
        process(before.data_dir, point) as killed,
        connected(killed.target) as dying,
        pytest.raises(grpc.RpcError),
    ):
        dying.conversations.DeleteMany(api.DeleteManyRequest(conversation_ids=goes))
    again = start_server()
    assert merges == ["turns_fts"]
    assert files_with(again.data_dir, RARE, RARE[4:]) == []
    assert sorted(path.name for path in again.folder.glob("*.jsonl*")) == [f"{stays}.jsonl"]
    answered = connect(again)
    assert answered.found("zebra") == [stays]
    assert answered.search(WORDS[0] + "0").total_matches == 0


def test_two_deletes_of_one_conversation_at_once_give_one_receipt(service: Service) -> None:
    """The second waits for the first, without a lock that other conversations share."""
    goes = long_conversation(service, 500)
    calls = [
        service.conversations.Delete.future(
            api.DeleteRequest(conversation_id=goes, request_id="d1")
        ),
        service.conversations.Delete.future(
            api.DeleteRequest(conversation_id=goes, request_id="d1")
        ),
    ]
    receipts = [call.result() for call in calls]
    assert receipts[0] == receipts[1]
    assert {it.place: it.count for it in receipts[0].removed}["messages"] == 500
