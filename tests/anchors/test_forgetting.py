"""Anchors that are forgotten, by themselves or with their conversation: for good, and out of every
file.
"""

from concurrent.futures import Future, ThreadPoolExecutor, wait

import apsw
import orjson
import pytest
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect.v1.anchor_pb2 import Anchor
from recollect_server.anchors.log import AnchorLedger
from recollect_server.kernel.domain.conversation import AnchorForgotten
from recollect_server.kernel.log.lines import Entry, encode

from tests.anchors.conftest import anchors, forget_anchor, found, set_anchor, values
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import Connect, Service, delete_index, failure_of, files_with, transcript
from tests.server_cli.conftest import on

KEEP, DELETE = conversation_api.ANCHOR_DISPOSITION_KEEP, conversation_api.ANCHOR_DISPOSITION_DELETE


def test_a_forgotten_anchor_is_in_no_file_any_more(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    for value in ("quixotriple", "wimblezark"):
        set_anchor(service, "name", value, request_id=f"r{clock.now}")
        clock.move(1000)
    set_anchor(service, "city", "Ghent")
    assert len(files_with(server.data_dir, "quixotriple", "wimblezark")) == 2
    forgotten = forget_anchor(service, "name", request_id="d1")
    assert [anchor.value for anchor in forgotten] == ["wimblezark", "quixotriple"]
    assert files_with(server.data_dir, "quixotriple", "wimblezark") == []
    lines = [
        orjson.loads(line)
        for line in (server.folder.parent / "anchors.jsonl").read_bytes().splitlines()
    ]
    assert [(line["event"], line.get("value")) for line in lines] == [
        ("anchor", "Ghent"),
        ("anchor_forgotten", None),
    ]
    assert values(service, superseded=True) == [("city", "Ghent")]


def test_forgetting_leaves_no_text_of_what_was_found_in_the_index_and_a_rebuild_brings_nothing_back(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    conversation = found(service, server, "name", "snorquibble", 0.9, clock.now)
    server.stop()
    second = start_server()
    again = connect(second)
    assert values(again) == [("name", "snorquibble")]
    assert [anchor.value for anchor in forget_anchor(again, "name")] == ["snorquibble"]
    assert values(again, superseded=True) == []
    second.stop()
    with apsw.Connection(str(second.folder / "conversations.db")) as connection:
        assert connection.execute("SELECT count(*) FROM anchors").get == 0
    # In the conversation stays what was said in it, and what was noted there: its delete takes
    # both.
    assert files_with(second.data_dir, "snorquibble") == [f"{conversation}.jsonl: snorquibble"]
    delete_index(second)
    third = start_server()
    rebuilt = connect(third)
    assert values(rebuilt, superseded=True) == []
    third.stop()
    with apsw.Connection(str(third.folder / "conversations.db")) as connection:
        assert connection.execute("SELECT count(*) FROM anchors").get == 0
    clock.move(1000)
    found(connect(fourth := start_server()), fourth, "name", "grumpfelix", 0.9, clock.now)
    fourth.stop()
    assert values(connect(start_server()), superseded=True) == [("name", "grumpfelix")]


def test_a_start_takes_out_of_the_index_what_was_being_forgotten_when_the_server_ended(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    found(service, server, "name", "snorquibble", 0.9, clock.now)
    server.stop()
    second = start_server()
    assert values(connect(second)) == [("name", "snorquibble")]
    second.stop()
    (second.folder.parent / "anchors.jsonl").write_bytes(
        encode(Entry(AnchorForgotten("name", clock.now)))
    )
    third = start_server()
    assert values(connect(third), superseded=True) == []
    third.stop()
    with apsw.Connection(str(third.folder / "conversations.db")) as connection:
        assert connection.execute("SELECT count(*) FROM anchors").get == 0


def test_what_is_forgotten_is_in_no_list_where_the_index_refuses_to_forget_it(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    found(service, server, "name", "snorquibble", 0.9, clock.now)
    server.stop()
    second = start_server()
    again = connect(second)
    other = apsw.Connection(str(second.folder / "conversations.db"))
    other.execute("BEGIN IMMEDIATE")  # the index's writer waits for this, and gives up
    assert failure_of(lambda: forget_anchor(again, "name")).reason == "INDEX_UNAVAILABLE"
    other.execute("ROLLBACK")
    other.close()
    assert values(again, superseded=True) == []


def test_forgetting_twice_finds_nothing_and_with_the_same_request_does_no_harm(
    service: Service,
) -> None:
    assert failure_of(lambda: forget_anchor(service, "name")).reason == "NOT_FOUND"
    set_anchor(service, "name", "Alex", request_id="a1")
    forget_anchor(service, "name", request_id="d1")
    failure = failure_of(lambda: forget_anchor(service, "name"))
    assert (failure.code, failure.reason, failure.metadata) == (
        "NOT_FOUND",
        "NOT_FOUND",
        {"name": "name"},
    )
    set_anchor(service, "name", "Al")
    assert forget_anchor(service, "name", request_id="d1") == []
    assert values(service) == [("name", "Al")]
    assert (
        failure_of(lambda: set_anchor(service, "name", "Alex", request_id="a1")).reason
        == "NOT_FOUND"
    )
    assert values(service, superseded=True) == [("name", "Al")]


def test_a_delete_that_does_not_say_what_becomes_of_a_callers_anchors_is_refused(
    service: Service,
) -> None:
    conversation = service.conversation_of("My name is Alex.")
    set_anchor(service, "name", "Alex", (conversation, 2))
    failure = failure_of(lambda: service.delete(conversation))
    assert (failure.reason, failure.metadata) == ("ANCHORS_PRESENT", {"anchors": "1"})
    assert service.get(conversation).turn_count == 1
    assert len(anchors(service)) == 1


@pytest.mark.parametrize("lost", [False, True], ids=["with its index", "with the index made anew"])
def test_kept_anchors_outlive_their_conversation_without_their_message(
    lost: bool,
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    conversation = found(service, server, "city", "Ghent", 0.9, clock.now)
    other = found(service, server, "pet", "a cat", 0.9, clock.now)
    server.stop()
    if lost:
        delete_index(server)
    again = connect(second := start_server())
    set_anchor(again, "name", "Alex", (conversation, 2), request_id="a1")
    before = values(again, superseded=True)
    receipt = again.delete(conversation, anchors=KEEP)
    assert {place.place: place.count for place in receipt.removed}.get("transcript")
    assert (
        values(again, superseded=True)
        == before
        == [("city", "Ghent"), ("name", "Alex"), ("pet", "a cat")]
    )
    assert [anchor.source.conversation_id for anchor in anchors(again)] == ["", "", other]
    assert anchors(again, "city")[0].confidence == 0.9
    second.stop()
    third = start_server()
    assert values(connect(third), superseded=True) == before
    third.stop()
    assert on(third, "verify").exit_code == 0


def test_anchors_that_go_with_their_conversation_are_in_no_file_any_more(
    service: Service, server: RunningServer, clock: MovableClock
) -> None:
    conversation = service.conversation_of("I am somebody.")
    set_anchor(service, "name", "florbtangle", (conversation, 2))
    set_anchor(service, "city", "Ghent")
    receipt = service.delete(conversation, anchors=DELETE)
    assert {place.place: place.count for place in receipt.removed}["anchors"] == 1
    assert values(service, superseded=True) == [("city", "Ghent")]
    assert files_with(server.data_dir, "florbtangle") == []


def test_a_start_that_ends_a_delete_takes_the_callers_anchors_out_too(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation = service.conversation_of("I am somebody.")
    set_anchor(service, "name", "florbtangle", (conversation, 2))
    server.stop()
    path = transcript(server, conversation)
    path.rename(path.with_name(path.name + ".deleting"))
    assert anchors(connect(start_server())) == []
    assert files_with(server.data_dir, "florbtangle") == []


def test_one_that_another_call_forgets_at_once_is_answered_as_it_was_set(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = AnchorLedger.append
    with ThreadPoolExecutor(1) as pool:
        forgetting: list[Future[list[Anchor]]] = []

        def and_forget(ledger: AnchorLedger, entry: Entry) -> None:
            append(ledger, entry)
            forgetting.append(pool.submit(forget_anchor, service, "home", request_id="f1"))
            wait(forgetting, 0.3)  # it may have to wait for the answer

        monkeypatch.setattr(AnchorLedger, "append", and_forget)
        assert set_anchor(service, "home", "Ghent").value == "Ghent"
        assert [it.value for it in forgetting[0].result(10)] == ["Ghent"]
