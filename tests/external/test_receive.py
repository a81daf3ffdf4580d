"""Outcomes of a third party's message."""

import stat
from typing import Any

import grpc
import pytest
from recollect.v1.external_communication_pb2 import DIRECTION_INBOUND
from recollect.v1.message_pb2 import Attachment
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.log.writer import LogWriter
from recollect_server.people.communication_table import ExternalIndex

from tests.conftest import RunningServer, Start
from tests.external.conftest import (
    BLOCKED,
    KNOWN,
    UNTRUSTED,
    Meet,
    Outside,
    answers,
    folder_of,
    transcript,
)
from tests.server.conftest import at_once, delete_index, moment
from tests.waiting import until


def test_a_stranger_is_kept_and_the_owner_is_asked(outside: Outside) -> None:
    received = outside.write(
        "Is the flat\nstill free?", party="1555000", delivered="wamid-7", time=1_789_999_000_000
    )
    communication, message, escalation = (
        received.communication,
        received.message,
        received.escalation,
    )
    assert (
        communication.channel,
        communication.party,
        communication.trust,
        communication.message_count,
    ) == (
        "whatsapp",
        "1555000",
        UNTRUSTED,
        1,
    )
    sent = moment(1_789_999_000_000)
    assert (communication.create_time, communication.update_time) == (sent, sent)
    assert (message.direction, message.text, message.timestamp) == (
        DIRECTION_INBOUND, "Is the flat\nstill free?", sent,
    )  # fmt: skip
    assert escalation is not None
    assert (
        escalation.question
        == "1555000 wrote on whatsapp: Is the flat still free?\nWhat should be answered?"
    )
    assert (escalation.communication_id, escalation.sequence) == (
        communication.id,
        message.sequence,
    )
    assert not escalation.HasField("resolve_time")
    assert not received.duplicate

    stored = outside.get(communication.id)
    assert stored.communication.open_escalations == 1
    assert [(it.text, it.provider_message_id, it.sequence) for it in stored.messages] == [
        ("Is the flat\nstill free?", "wamid-7", message.sequence)
    ]
    assert [it.id for it in outside.escalations()] == [escalation.id]


def test_one_question_waits_however_much_a_stranger_writes(outside: Outside) -> None:
    first = outside.write("One")
    later = [outside.write(text) for text in ("Two", "Three")]
    assert [received.escalation for received in later] == [None, None]
    assert {received.communication.id for received in later} == {first.communication.id}
    assert outside.texts(first.communication.id) == ["One", "Two", "Three"]
    assert len(outside.escalations()) == 1

    outside.resolve(outside.escalations()[0].id)
    again = outside.write("Four").escalation
    assert again is not None
    assert again.question.startswith("1555000 wrote on whatsapp: Four")
    assert [it.id for it in outside.escalations()] == [again.id]


def test_a_known_party_is_kept_and_nobody_is_asked(outside: Outside) -> None:
    name = outside.write().communication.id
    outside.resolve(outside.escalations()[0].id)
    outside.trust(name, KNOWN, "viewings")
    received = outside.write("When may I come?")
    assert received.escalation is None
    assert received.communication.trust == KNOWN
    assert outside.texts(name) == ["Hello?", "When may I come?"]
    assert outside.escalations() == []


def test_a_blocked_party_is_kept_and_nothing_more_happens(outside: Outside) -> None:
    name = outside.write().communication.id
    outside.trust(name, BLOCKED)
    received = outside.write("Buy now!")
    assert received.escalation is None
    assert outside.texts(name) == ["Hello?", "Buy now!"]
    assert outside.escalations() == []

    # of what came meanwhile nobody is asked, of what comes now the owner is
    outside.trust(name, UNTRUSTED)
    assert outside.escalations() == []
    assert outside.write("Sorry").escalation is not None


def test_parties_and_channels_are_kept_apart(outside: Outside) -> None:
    names = {
        outside.write("x", party=party, channel=channel).communication.id
        for party in ("ann@example.org", "bob@example.org")
        for channel in ("email", "discord")
    }
    assert len(names) == 4
    assert len(list(folder_of(outside.server).glob("ext-*.jsonl"))) == 4
    assert outside.write("y", party="ann@example.org", channel="email").communication.id in names


def test_attachments_alone_are_a_message(outside: Outside) -> None:
    files = (
        Attachment(media_type="image/png", uri="https://files.example/1.png", bytes_length=17),
        Attachment(media_type="text/plain", uri="file:2"),
    )
    received = outside.write("", attachments=files)
    assert tuple(received.message.attachments) == files
    stored = outside.messages(received.communication.id)[0].attachments
    assert [(it.media_type, it.uri, it.bytes_length) for it in stored] == [
        ("image/png", "https://files.example/1.png", 17), ("text/plain", "file:2", 0),
    ]  # fmt: skip
    assert "(2 attachments)" in outside.escalations()[0].question


def test_a_message_that_is_delivered_three_times_is_stored_once(outside: Outside) -> None:
    first = outside.write("Hello", delivered="wamid-x")
    assert first.escalation is not None
    again = outside.write("Hello", delivered="wamid-x")
    assert again.duplicate
    assert (again.communication, again.message, again.escalation) == (
        first.communication,
        first.message,
        first.escalation,
    )
    # another text under the same id: the answer does not repeat what is stored
    again = outside.write("Hello, but changed on the way", delivered="wamid-x")
    assert (again.duplicate, again.message.text) == (True, "")
    assert outside.texts(first.communication.id) == ["Hello"]
    # another channel's provider counts for itself
    other = outside.write("Hello", delivered="wamid-x", channel="signal")
    assert not other.duplicate


def test_it_is_stored_once_when_it_is_delivered_many_times_at_once(outside: Outside) -> None:
    received = at_once(8, lambda number: outside.write("Hello", delivered=f"wamid-{number % 2}"))
    assert sum(not it.duplicate for it in received) == 2
    assert len({it.communication.id for it in received}) == 1
    assert len(outside.messages(received[0].communication.id)) == 2
    assert len(outside.escalations()) == 1


def test_it_is_stored_once_across_a_restart_and_without_the_index(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    first = meet(running).write("Hello", delivered="wamid-x")
    running.stop()
    for lost in (False, True):
        running = start_server()
        again = meet(running).write("Hello", delivered="wamid-x")
        assert (again.duplicate, again.message, again.escalation) == (
            True,
            first.message,
            first.escalation,
        )
        assert meet(running).texts(first.communication.id) == ["Hello"]
        running.stop()
        if not lost:
            delete_index(running)


def test_the_folder_is_made_when_the_first_comes_and_is_the_owners_alone(outside: Outside) -> None:
    folder = folder_of(outside.server)
    assert not folder.exists()
    name = outside.write().communication.id
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / f"{name}.jsonl").stat().st_mode) == 0o600


def test_what_was_received_is_the_same_after_the_index_is_made_anew(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    before = everything_that_can_happen(meet(running), running)
    running.stop()
    delete_index(running)
    running = start_server()
    assert running.app.recovered.rebuilt
    assert running.app.recovered.others == 4
    assert answers(meet(running)) == before


def test_an_index_that_is_lost_under_a_running_server_comes_back_with_them(
    outside: Outside, server: RunningServer
) -> None:
    before = everything_that_can_happen(outside, server)
    for path in server.folder.glob("conversations.db*"):
        path.unlink()
    until(lambda: (server.folder / "conversations.db").exists() and not is_made_anew(outside))
    assert answers(outside) == before
    assert outside.write("Hello?", party="1555001", delivered="wamid-1").duplicate


def is_made_anew(outside: Outside) -> bool:
    """Return whether the index is being rebuilt."""
    try:
        return len(outside.listed()) < 4
    except grpc.RpcError as error:
        return "the index is made anew" in str(error)


def everything_that_can_happen(outside: Outside, server: RunningServer) -> dict[str, Any]:
    """Treat four parties in four ways, and return what the service answers about them."""
    names = []
    for number in range(1, 5):
        server.clock.move(1000)
        names.append(
            outside.write(party=f"155500{number}", delivered=f"wamid-{number}").communication.id
        )
    server.clock.move(1000)
    outside.trust(names[1], KNOWN, "billing", "viewings")
    outside.reply(names[1], "With pleasure.", scope="billing")
    outside.trust(names[2], BLOCKED)
    escalation = next(it for it in outside.escalations() if it.communication_id == names[3])
    server.clock.move(1000)
    outside.resolve(escalation.id, "Tell it no.")
    outside.reply(names[3], "No.")
    outside.write("Why?", party="1555004", delivered="wamid-5")
    return answers(outside)


def test_a_cut_at_any_byte_of_the_last_batch_takes_all_of_it_or_nothing(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    outside = meet(running)
    name = outside.write("One").communication.id
    outside.resolve(outside.escalations()[0].id)
    whole = transcript(running, name).read_bytes()
    outside.write("Two", delivered="wamid-x")
    running.stop()
    data = transcript(running, name).read_bytes()
    assert data[len(whole) :].count(b"\n") == 2  # the message and the question that it opened
    for end in range(len(whole) + 1, len(data), 23):
        transcript(running, name).write_bytes(data[:end])
        running = start_server()
        assert running.app.recovered.bytes_cut == end - len(whole)
        outside = meet(running)
        assert (outside.texts(name), outside.escalations()) == (["One"], [])
        assert not outside.write("Two", delivered="wamid-x").duplicate
        assert (outside.texts(name), len(outside.escalations())) == (["One", "Two"], 1)
        running.stop()


def test_a_damaged_line_is_passed_over_and_the_rest_is_there(
    start_server: Start, meet: Meet
) -> None:
    running = start_server()
    outside = meet(running)
    name = outside.write("One", delivered="wamid-x").communication.id
    outside.write("Two")
    outside.write("Three")
    running.stop()
    path = transcript(running, name)
    path.write_bytes(path.read_bytes().replace(b"Two", b"Too"))
    delete_index(running)
    running = start_server()
    assert running.app.recovered.damaged == 1
    assert meet(running).texts(name) == ["One", "Three"]
    assert meet(running).write("One", delivered="wamid-x").duplicate


def test_a_message_that_the_index_refused_is_stored_once_when_it_comes_again(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside.write("Zero")

    def refuse(*_: object, **__: object) -> None:
        raise IndexUnavailable("it is ill")

    for party in ("1555000", "1555999"):  # one that is there, and one that begins
        with monkeypatch.context() as ill:
            ill.setattr(ExternalIndex, "add", refuse)
            with pytest.raises(grpc.RpcError, match="it is ill"):
                outside.write("One", party=party, delivered=f"wamid-{party}")
        again = outside.write("One", party=party, delivered=f"wamid-{party}")
        assert again.duplicate
        assert outside.texts(again.communication.id).count("One") == 1
    assert len(outside.listed()) == 2


def test_a_space_whose_index_refused_a_message_of_a_third_party_does_not_rest(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside.write("Zero")
    spaces = outside.server.app.spaces

    def refuse(*_: object, **__: object) -> None:
        raise IndexUnavailable("it is ill")

    with monkeypatch.context() as ill:
        ill.setattr(ExternalIndex, "add", refuse)
        with pytest.raises(grpc.RpcError, match="it is ill"):
            outside.write("One", delivered="wamid-one")
        [space] = spaces.open_now()
        assert not space.rest()
    assert outside.write("One", delivered="wamid-one").duplicate
    assert space.rest()


def test_a_message_that_the_disk_refused_is_stored_when_it_comes_again(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(LogWriter, "_create", refuse)
        with pytest.raises(grpc.RpcError, match="No space left on device"):
            outside.write("One", delivered="wamid-1")
    assert outside.listed() == []
    first = outside.write("One", delivered="wamid-1")
    with monkeypatch.context() as full:
        full.setattr(LogWriter, "_append", refuse)
        with pytest.raises(grpc.RpcError, match="No space left on device"):
            outside.write("Two", delivered="wamid-2")
    assert outside.texts(first.communication.id) == ["One"]
    assert not outside.write("Two", delivered="wamid-2").duplicate
    assert outside.texts(first.communication.id) == ["One", "Two"]
