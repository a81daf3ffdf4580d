"""Anchors: what callers set and what was found, which one holds, and what is forgotten for good."""

from collections.abc import Callable

import apsw
import orjson
import pytest
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect.v1 import recall_service_pb2 as api
from recollect_server.domain.conversation import AnchorForgotten, AnchorSet
from recollect_server.storage.transcript.record import Entry, encode

from tests.anchors.conftest import anchors, forget_anchor, set_anchor, values
from tests.cli.conftest import run
from tests.cli.test_upkeep import on
from tests.conftest import MovableClock, RunningServer
from tests.crash.digest import digest, rebuilt_digest
from tests.server.conftest import Service, at_once, delete_index, failure_of, files_with, moment, transcript, user
from tests.waiting import until

Start = Callable[..., RunningServer]
Connect = Callable[[RunningServer], Service]
KEEP, DELETE = conversation_api.ANCHOR_DISPOSITION_KEEP, conversation_api.ANCHOR_DISPOSITION_DELETE


def found(service: Service, server: RunningServer, key: str, value: str, confidence: float, time: int) -> str:
    """A conversation in which the writer of notes found an anchor, in its line 2; the server sees it at the next start."""
    conversation = service.told(f"Something about my {key}.")
    with transcript(server, conversation).open("ab") as file:
        file.write(encode(Entry(AnchorSet(key, value, confidence, 2, time))))
    return conversation


def test_a_caller_sets_an_anchor_and_finds_it(service: Service, clock: MovableClock) -> None:
    conversation = service.told("My name is Alex.")
    anchor = set_anchor(service, "name", "Alex", (conversation, 2), confidence=0.7)
    assert (anchor.key, anchor.value, anchor.confidence) == ("name", "Alex", 0.7)
    assert (anchor.source.conversation_id, anchor.source.sequence) == (conversation, 2)
    assert anchor.create_time == moment(clock.now)
    assert not anchor.HasField("superseded_time")
    assert anchors(service) == [anchor]
    other = set_anchor(service, "city", "Ghent")
    assert (other.confidence, other.HasField("source")) == (1.0, False)
    assert values(service) == [("city", "Ghent"), ("name", "Alex")]
    assert values(service, "name") == [("name", "Alex")]
    assert values(service, "nobody") == []


def test_a_new_value_takes_the_place_of_the_old_and_both_are_remembered(service: Service, clock: MovableClock) -> None:
    set_anchor(service, "name", "Alex")
    clock.move(1000)
    assert set_anchor(service, "name", "Al").supersedes == "Alex"
    assert values(service) == [("name", "Al")]
    now, before = anchors(service, superseded=True)
    assert (now.value, now.supersedes, now.HasField("superseded_time")) == ("Al", "Alex", False)
    assert (before.value, before.superseded_time, before.supersedes) == ("Alex", moment(clock.now), "")


def test_the_same_value_again_supersedes_nothing(service: Service, clock: MovableClock) -> None:
    first = set_anchor(service, "name", "Alex")
    clock.move(1000)
    again = set_anchor(service, "name", "Alex", confidence=0.4)
    assert (again.create_time, again.confidence, again.supersedes) == (first.create_time, 0.4, "")
    assert len(anchors(service, superseded=True)) == 1


def test_what_is_set_later_holds_even_where_the_clock_went_back(service: Service, clock: MovableClock) -> None:
    set_anchor(service, "name", "Alex")
    clock.move(-60_000)
    assert set_anchor(service, "name", "Al").value == "Al"
    assert values(service) == [("name", "Al")]


def test_what_was_found_later_holds_unless_a_caller_was_surer(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    set_anchor(service, "name", "Alex", confidence=0.9)
    set_anchor(service, "city", "Ghent", confidence=0.5)
    clock.move(1000)
    found(service, server, "name", "Al", 0.8, clock.now)
    found(service, server, "city", "Bruges", 0.8, clock.now)
    found(service, server, "pet", "a cat", 0.9, clock.now)
    found(service, server, "pet", "a dog", 0.2, clock.now + 1)
    server.stop()
    again = connect(start_server())
    assert values(again) == [("city", "Bruges"), ("name", "Alex"), ("pet", "a dog")]
    holds, never_held = anchors(again, "name", superseded=True)
    assert (holds.supersedes, never_held.value, never_held.superseded_time) == ("", "Al", never_held.create_time)
    assert [a.value for a in anchors(again, "pet", superseded=True)] == ["a dog", "a cat"]


def test_anchors_that_the_writer_of_notes_finds_are_listed_with_their_message(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    service = connect(start_server(abbreviator="extractive"))
    assert anchors(service) == []
    conversation = service.told("My name is Alex.")
    clock.move(600_000)
    until(lambda: anchors(service))
    [anchor] = anchors(service)
    assert (anchor.key, anchor.value) == ("name", "Alex")
    assert (anchor.source.conversation_id, anchor.source.sequence) == (conversation, 2)
    service.append(conversation, user("Call me Al. I live in Bruges."))
    set_anchor(service, "location", "Ghent", confidence=0.5)
    clock.move(600_000)
    until(lambda: ("location", "Bruges") in values(service))
    assert [a.value for a in anchors(service, "location", superseded=True)] == ["Bruges", "Ghent"]


def test_anchors_survive_a_restart_a_lost_index_and_a_compression(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    conversation = service.told("My name is Alex.", "And more.")
    set_anchor(service, "name", "Alex", (conversation, 2))
    found(service, server, "city", "Ghent", 0.9, clock.now)
    service.compress(conversation, 2, "Alex said more.")
    server.stop()
    expected = values(connect(first := start_server()), superseded=True)
    assert expected == [("city", "Ghent"), ("name", "Alex")]
    first.stop()
    delete_index(first)
    assert values(connect(start_server()), superseded=True) == expected


def test_a_torn_line_of_the_file_is_cut_and_the_rest_survives(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    set_anchor(service, "name", "Alex")
    set_anchor(service, "city", "Ghent")
    server.stop()
    path = server.folder.parent / "anchors.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    again = connect(start_server())
    assert values(again) == [("name", "Alex")]
    assert path.with_name("anchors.jsonl.torn").exists()
    set_anchor(again, "city", "Bruges")
    assert values(again) == [("city", "Bruges"), ("name", "Alex")]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"key": ""}, "key"),
        ({"key": "Name"}, "key"),
        ({"key": "a" * 65}, "key"),
        ({"key": "../x"}, "key"),
        ({"value": ""}, "value"),
        ({"value": "  "}, "value"),
        ({"value": "x" * 1001}, "value"),
        ({"value": "a\0b"}, "value"),
        ({"confidence": 1.1}, "confidence"),
        ({"confidence": -0.1}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"request_id": "a b"}, "request_id"),
        ({"source": {"conversation_id": "conv-x", "sequence": 2}}, "source.conversation_id"),
        ({"source": {"conversation_id": "conv-01J00000000000000000000000", "sequence": 0}}, "source.sequence"),
    ],
)
def test_bad_input_is_refused_by_the_fields_name_and_changes_nothing(
    service: Service, server: RunningServer, fields: dict[str, object], wrong: str
) -> None:
    request = api.SetAnchorRequest(**({"key": "name", "value": "Alex"} | fields))  # type: ignore[arg-type]
    failure = failure_of(lambda: service.recall.SetAnchor(request))
    assert (failure.code, failure.reason, failure.fields) == ("INVALID_ARGUMENT", "INVALID_FIELD", (wrong,))
    assert anchors(service) == []
    assert not (server.folder.parent / "anchors.jsonl").exists()


def test_a_source_must_be_a_message_that_is_there(service: Service) -> None:
    conversation = service.told("My name is Alex.")
    for sequence in (1, 3):
        failure = failure_of(lambda line=sequence: set_anchor(service, "name", "Alex", (conversation, line)))  # type: ignore[misc]
        assert (failure.reason, failure.fields) == ("INVALID_FIELD", ("source.sequence",))
    gone = failure_of(lambda: set_anchor(service, "name", "Alex", ("conv-01J00000000000000000000000", 2)))
    assert gone.reason == "CONVERSATION_NOT_FOUND"
    assert anchors(service) == []


def test_a_repeated_set_is_answered_as_it_was_and_sets_nothing(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    first = set_anchor(service, "name", "Alex", request_id="a1")
    clock.move(1000)
    set_anchor(service, "name", "Al", request_id="a2")
    assert set_anchor(service, "name", "Alex", request_id="a1") == first
    assert values(service) == [("name", "Al")]
    server.stop()
    again = connect(start_server())
    assert set_anchor(again, "name", "Alex", request_id="a1") == first
    assert len(anchors(again, superseded=True)) == 2


def test_a_request_id_of_another_request_is_refused_on_both_sides(service: Service) -> None:
    conversation = service.told("one")
    set_anchor(service, "name", "Alex", request_id="a1")
    assert failure_of(lambda: set_anchor(service, "name", "Al", request_id="a1")).reason == "REQUEST_ID_REUSED"
    assert failure_of(lambda: service.append(conversation, user("x"), request_id="a1")).reason == "REQUEST_ID_REUSED"
    service.append(conversation, user("x"), request_id="r1")
    assert failure_of(lambda: set_anchor(service, "name", "Al", request_id="r1")).reason == "REQUEST_ID_REUSED"
    assert values(service) == [("name", "Alex")]


def test_of_16_callers_with_one_request_one_sets(service: Service) -> None:
    answers = at_once(16, lambda _: set_anchor(service, "name", "Alex", request_id="a1"))
    assert all(answer == answers[0] for answer in answers)
    assert len(anchors(service, superseded=True)) == 1


def test_a_forgotten_anchor_is_in_no_file_any_more(service: Service, server: RunningServer, clock: MovableClock) -> None:
    for value in ("quixotriple", "wimblezark"):
        set_anchor(service, "name", value, request_id=f"r{clock.now}")
        clock.move(1000)
    set_anchor(service, "city", "Ghent")
    assert len(files_with(server.data_dir, "quixotriple", "wimblezark")) == 2
    gone = forget_anchor(service, "name", request_id="d1")
    assert [anchor.value for anchor in gone] == ["wimblezark", "quixotriple"]
    assert files_with(server.data_dir, "quixotriple", "wimblezark") == []
    lines = [orjson.loads(line) for line in (server.folder.parent / "anchors.jsonl").read_bytes().splitlines()]
    assert [(line["event"], line.get("value")) for line in lines] == [("anchor", "Ghent"), ("anchor_forgotten", None)]
    assert values(service, superseded=True) == [("city", "Ghent")]


def test_forgetting_leaves_no_text_of_what_was_found_in_the_index_and_a_rebuild_brings_nothing_back(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
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
    # In the conversation stays what was said in it, and what was noted there: its delete takes both.
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
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    found(service, server, "name", "snorquibble", 0.9, clock.now)
    server.stop()
    second = start_server()
    assert values(connect(second)) == [("name", "snorquibble")]
    second.stop()
    (second.folder.parent / "anchors.jsonl").write_bytes(encode(Entry(AnchorForgotten("name", clock.now))))
    third = start_server()
    assert values(connect(third), superseded=True) == []
    third.stop()
    with apsw.Connection(str(third.folder / "conversations.db")) as connection:
        assert connection.execute("SELECT count(*) FROM anchors").get == 0


def test_what_is_forgotten_is_in_no_list_where_the_index_refuses_to_forget_it(
    service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
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


def test_forgetting_twice_finds_nothing_and_with_the_same_request_does_no_harm(service: Service) -> None:
    assert failure_of(lambda: forget_anchor(service, "name")).reason == "NOT_FOUND"
    set_anchor(service, "name", "Alex", request_id="a1")
    forget_anchor(service, "name", request_id="d1")
    failure = failure_of(lambda: forget_anchor(service, "name"))
    assert (failure.code, failure.reason, failure.metadata) == ("NOT_FOUND", "NOT_FOUND", {"name": "name"})
    set_anchor(service, "name", "Al")
    assert forget_anchor(service, "name", request_id="d1") == []
    assert values(service) == [("name", "Al")]
    assert failure_of(lambda: set_anchor(service, "name", "Alex", request_id="a1")).reason == "NOT_FOUND"
    assert values(service, superseded=True) == [("name", "Al")]


def test_a_delete_that_does_not_say_what_becomes_of_a_callers_anchors_is_refused(service: Service) -> None:
    conversation = service.told("My name is Alex.")
    set_anchor(service, "name", "Alex", (conversation, 2))
    failure = failure_of(lambda: service.delete(conversation))
    assert (failure.reason, failure.metadata) == ("ANCHORS_PRESENT", {"anchors": "1"})
    assert service.get(conversation).turn_count == 1
    assert len(anchors(service)) == 1


@pytest.mark.parametrize("lost", [False, True], ids=["with its index", "with the index made anew"])
def test_kept_anchors_outlive_their_conversation_without_their_message(
    lost: bool, service: Service, server: RunningServer, start_server: Start, connect: Connect, clock: MovableClock
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
    assert values(again, superseded=True) == before == [("city", "Ghent"), ("name", "Alex"), ("pet", "a cat")]
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
    conversation = service.told("I am somebody.")
    set_anchor(service, "name", "florbtangle", (conversation, 2))
    set_anchor(service, "city", "Ghent")
    receipt = service.delete(conversation, anchors=DELETE)
    assert {place.place: place.count for place in receipt.removed}["anchors"] == 1
    assert values(service, superseded=True) == [("city", "Ghent")]
    assert files_with(server.data_dir, "florbtangle") == []


def test_a_start_that_ends_a_delete_takes_the_callers_anchors_out_too(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    conversation = service.told("I am somebody.")
    set_anchor(service, "name", "florbtangle", (conversation, 2))
    server.stop()
    path = transcript(server, conversation)
    path.rename(path.with_name(path.name + ".deleting"))
    assert anchors(connect(start_server())) == []
    assert files_with(server.data_dir, "florbtangle") == []


def test_a_disk_that_refuses_changes_nothing_and_is_asked_again(service: Service, server: RunningServer) -> None:
    path = server.folder.parent / "anchors.jsonl"
    path.mkdir()
    failure = failure_of(lambda: set_anchor(service, "name", "Alex", request_id="a1"))
    assert (failure.code, failure.reason, values(service)) == ("UNAVAILABLE", "STORAGE_UNAVAILABLE", [])
    path.rmdir()
    set_anchor(service, "name", "Alex", request_id="a1")
    copy = path.with_name("anchors.jsonl.copy")
    copy.mkdir()
    assert failure_of(lambda: forget_anchor(service, "name")).reason == "STORAGE_UNAVAILABLE"
    assert values(service) == [("name", "Alex")]
    copy.rmdir()
    forget_anchor(service, "name")
    assert values(service, superseded=True) == []


def test_a_file_that_something_else_wrote_to_is_read_again(service: Service, server: RunningServer, clock: MovableClock) -> None:
    set_anchor(service, "name", "Alex")
    with (server.folder.parent / "anchors.jsonl").open("ab") as file:
        file.write(encode(Entry(AnchorSet("city", "Ghent", 1.0, 0, clock.now, by_caller=True))))
    assert failure_of(lambda: set_anchor(service, "pet", "a cat")).reason == "STORAGE_UNAVAILABLE"
    set_anchor(service, "pet", "a cat")
    assert values(service) == [("city", "Ghent"), ("name", "Alex"), ("pet", "a cat")]


def test_the_index_of_anchors_is_that_of_a_rebuild(
    service: Service, server: RunningServer, start_server: Start, clock: MovableClock
) -> None:
    found(service, server, "city", "Ghent", 0.9, clock.now)
    server.stop()
    second = start_server()
    second.stop()
    assert digest(second.folder)["anchors"] == rebuilt_digest(second.folder, second.data_dir / "beside")["anchors"] != []


def test_verify_compares_anchors_with_the_transcripts(
    service: Service, server: RunningServer, start_server: Start, clock: MovableClock
) -> None:
    found(service, server, "city", "Ghent", 0.9, clock.now)
    set_anchor(service, "name", "Alex")
    server.stop()
    second = start_server()
    second.stop()
    assert on(second, "verify").exit_code == 0
    with apsw.Connection(str(second.folder / "conversations.db")) as connection:
        connection.execute("UPDATE anchors SET value = 'Bruges'")
    path = second.folder.parent / "anchors.jsonl"
    path.write_bytes(path.read_bytes().replace(b"Alex", b"Alix"))
    result = on(second, "verify")
    assert result.exit_code == 1
    assert "the index has another anchor than the transcript" in result.output
    assert "anchors.jsonl: " in result.output


def test_a_backup_brings_the_anchors_back(service: Service, server: RunningServer, start_server: Start, connect: Connect) -> None:
    service.told("one")
    set_anchor(service, "name", "Alex")
    beside = server.data_dir.parent
    assert on(server, "backup", beside / "copy").exit_code == 0
    server.stop()
    target = beside / "new"
    assert run("restore", beside / "copy", "--data-dir", target).exit_code == 0
    assert values(connect(start_server(data_dir=target))) == [("name", "Alex")]
    assert run("restore", beside / "copy", "--data-dir", target).exit_code == 1
