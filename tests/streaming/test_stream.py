"""StreamUpdates: a snapshot, then every change, in order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.kernel.domain.conversation import SplitSuggested
from recollect_server.kernel.log.lines import Entry, encode
from recollect_server.kernel.stream.live import LiveUpdates

from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import UNKNOWN, agent, failure_of, moment, transcript, user
from tests.streaming.conftest import Recorder, Subscriber
from tests.waiting import until

Subscribe = Callable[..., Subscriber]
SNAPSHOT = ["conversation_list", "conversation_loaded"]


def test_a_stream_of_nothing_begins_with_an_empty_snapshot(
    subscribe: Subscribe, service: Recorder
) -> None:
    one = subscribe().ready()
    listed, loaded = one.updates
    assert one.kinds() == SNAPSHOT
    assert (
        len(listed.conversation_list.conversations),
        loaded.conversation_loaded.HasField("conversation"),
    ) == (0, False)
    assert (listed.cursor, listed.reset, loaded.reset) == ("", False, False)
    assert loaded.cursor


def test_a_snapshot_has_the_newest_conversations_and_the_working_context_of_the_first(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    old = service.conversation_of("Something old")
    clock.move(1000)
    new = service.conversation_of("One", "Two", "Three")
    service.compress(new, 1, "One was said.")
    one = subscribe(max_turns=1)
    (listed,) = one.until_count("conversation_list", 1)
    (loaded,) = one.until_count("conversation_loaded", 1)
    assert list(listed.conversations) == [service.get(new), service.get(old)]
    answer = service.load(new, max_turns=1)
    assert (loaded.conversation, list(loaded.messages)) == (
        answer.conversation,
        list(answer.messages),
    )
    assert (loaded.has_more, loaded.compression_summary) == (True, "One was said.")
    assert one.updates[0].time == moment(clock.now)


@pytest.mark.one_server  # PostgreSQL dates a change, and the clock of a test stands still
def test_every_change_is_told_in_order(
    subscribe: Subscribe, service: Recorder, clock: MovableClock
) -> None:
    one = subscribe().ready()
    conversation = service.create(model="small")
    clock.move(5)
    appended = service.append(conversation.id, user("How full is it?"), agent("97 %."))
    service.rename(conversation.id, "Disk")
    service.conversations.SetModel(
        api.SetModelRequest(conversation_id=conversation.id, model="large")
    )
    service.compress(conversation.id, 1, "It is full.")
    service.abbreviate(conversation.id, "Disk full.", ["disk"])
    # what was not told by then is not told of what is deleted
    one.until_count("conversation_abbreviated", 1)
    service.delete(conversation.id)
    one.until_count("conversation_deleted", 1)
    assert one.kinds() == [
        *SNAPSHOT,
        "conversation_created",
        "conversation_updated",
        "conversation_renamed",
        "conversation_updated",
        "conversation_updated",
        "conversation_abbreviated",
        "conversation_deleted",
    ]
    created, messages, renamed, model, compression, notes, _ = one.updates[2:]
    assert created.conversation_created.conversation == conversation
    assert list(messages.conversation_updated.messages) == list(appended.messages)
    assert messages.conversation_updated.conversation == appended.conversation
    assert (messages.cursor, messages.time) == (appended.cursor, moment(clock.now))
    title = renamed.conversation_renamed
    assert (title.title, title.manually_named, list(title.topics)) == ("Disk", True, [])
    assert (
        model.conversation_updated.conversation.model,
        len(model.conversation_updated.messages),
    ) == ("large", 0)
    assert compression.conversation_updated.conversation.compressed_through == 1
    assert notes.conversation_abbreviated.abbreviation == "Disk full."
    assert list(notes.conversation_abbreviated.topics) == ["disk"]
    assert {update.conversation_id for update in one.updates[2:]} == {conversation.id}
    assert not any(update.reset for update in one.updates)


def test_what_is_read_from_the_log_is_what_was_told_live(
    subscribe: Subscribe, service: Recorder, server: RunningServer, start_server: Start
) -> None:
    """After a restart nothing is in memory: the index's log and the transcripts say all of it."""
    live = subscribe().ready()
    name = service.conversation_of("One", "Two")
    service.rename(name, "First")
    service.abbreviate(name, "Notes.", ["a-topic"])
    service.rename(name, "Second")
    service.append(name, user("Three"), agent("Four"), draft_id="d")
    live.until_count("conversation_updated", 3)
    server.stop()
    streamed = [
        update
        for update in live.updates
        if update.WhichOneof("kind") not in (*SNAPSHOT, "heartbeat")
    ]
    second = subscribe(start_server().target, cursor=live.updates[1].cursor)
    second.until_count("heartbeat", 1)
    for late, then in zip(second.updates[:-1], streamed, strict=True):
        if late.WhichOneof("kind") == "conversation_updated":  # the conversation as it is now
            then.conversation_updated.conversation.CopyFrom(late.conversation_updated.conversation)
        if late.WhichOneof("kind") == "conversation_renamed":  # its topics now
            then.conversation_renamed.topics[:] = late.conversation_renamed.topics
        assert late == then
    assert second.kinds() == [str(update.WhichOneof("kind")) for update in streamed]


@pytest.mark.files
def test_a_split_that_is_suggested_is_told(
    start_server: Any, record: Any, subscribe: Subscribe
) -> None:
    first = start_server()
    name = record(first).conversation_of("The disk", "And the holidays")
    one = subscribe(first.target).ready()
    first.stop()
    line = encode(Entry(SplitSuggested("Two topics.", ("Disk", "Holidays"), first.clock.now)))
    with transcript(first, name).open("ab") as file:
        file.write(line)
    one.resume(start_server().target)
    (split,) = one.until_count("split_suggested", 1)
    assert (split.reason, list(split.titles)) == ("Two topics.", ["Disk", "Holidays"])
    assert orjson.loads(line)["event"] == "split_suggested"


def test_a_stream_of_one_conversation_is_told_of_no_other(
    subscribe: Subscribe, service: Recorder
) -> None:
    mine, other = service.conversation_of("Mine"), service.conversation_of("Other")
    one = subscribe(conversation_ids=[mine])
    (listed,) = one.until_count("conversation_list", 1)
    service.turn(other, "Not for me")
    service.rename(other, "Not for me")
    service.delete(other)
    service.turn(mine, "For me")
    one.until_count("conversation_updated", 1)
    assert [it.id for it in listed.conversations] == [mine]
    assert one.messages() == ["For me", "Noted."]
    assert "conversation_deleted" not in one.kinds()


def test_a_stream_of_a_channel_is_told_of_its_conversations_those_that_begin_later_too(
    subscribe: Subscribe, service: Recorder
) -> None:
    old = service.conversation_of("Old", channel="email")
    one = subscribe(channels=["email", "cli"]).ready()
    service.conversation_of("Web", channel="web")
    service.delete(service.conversation_of("Web, gone", channel="web"))
    service.conversation_of("Cli", channel="cli")
    service.delete(old)
    one.until_count("conversation_deleted", 1)
    assert one.kinds()[2:] == [
        "conversation_created",
        "conversation_updated",
        "conversation_deleted",
    ]
    # The same, read from the log.
    two = subscribe(channels=["email", "cli"], cursor=one.updates[1].cursor)
    two.until_count("heartbeat", 1)
    assert two.kinds() == one.kinds()[2:]
    assert two.messages() == ["Cli"]


def test_both_filters_must_match(subscribe: Subscribe, service: Recorder) -> None:
    web, email = service.conversation_of("Web"), service.conversation_of("Email", channel="email")
    one = subscribe(conversation_ids=[web, email], channels=["email"])
    (listed,) = one.until_count("conversation_list", 1)
    service.turn(web, "No")
    service.turn(email, "Yes")
    one.until_count("conversation_updated", 1)
    assert ([it.id for it in listed.conversations], one.messages()) == ([email], ["Yes", "Noted."])


def test_heartbeats_carry_the_cursor_on_where_nothing_passes_the_filters(
    start_server: Start, record: Any, subscribe: Subscribe
) -> None:
    running = start_server(heartbeat="50ms")
    service = record(running)
    mine, other = service.conversation_of("Mine"), service.conversation_of("Other")
    one = subscribe(running.target, conversation_ids=[mine]).ready()
    appended = service.turn(other, "Not for me")
    one.until(lambda: one.updates[-1].cursor == appended.cursor)
    assert one.kinds(beats=True)[2:][-1] == "heartbeat"
    assert one.kinds() == SNAPSHOT
    one.resume()
    service.turn(mine, "For me")
    one.until_count("conversation_updated", 1)
    assert one.messages() == ["For me", "Noted."]


def test_several_updates_come_in_one_element_where_that_is_asked_for(
    subscribe: Subscribe, service: Recorder
) -> None:
    begin = subscribe().ready()
    name = service.conversation_of(*map(str, range(30)))
    begin.until_count("conversation_updated", 30)
    alone, many = (
        subscribe(cursor=begin.updates[1].cursor),
        subscribe(cursor=begin.updates[1].cursor, max_batch=10),
    )
    alone.until_count("heartbeat", 1)
    many.until_count("heartbeat", 1)
    assert many.updates == alone.updates
    assert alone.elements == len(alone.updates) == 32
    assert many.elements == 5
    assert service.get(name).turn_count == 30


REFUSED: dict[str, dict[str, Any]] = {
    "conversation_ids": {"conversation_ids": [UNKNOWN] * 1001},
    "conversation_ids[1]": {"conversation_ids": [UNKNOWN, "../etc/passwd"]},
    "channels": {"channels": ["web"] * 65},
    "channels[0]": {"channels": ["Web"]},
    "max_turns": {"max_turns": -1},
    "max_batch": {"max_batch": -1},
    "cursor": {"cursor": "nonsense"},
}


@each("field", REFUSED)
def test_a_stream_that_cannot_be_is_refused_by_the_fields_name(
    service: Recorder, field: str
) -> None:
    failure = failure_of(
        lambda: next(
            service.conversations.StreamUpdates(api.StreamUpdatesRequest(**REFUSED[field]))
        )
    )
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        (field,),
    )


@each("change", ["{}\n", " {}", "x{}", "{}-1", "{}99999999999999999999"])
def test_a_cursor_that_was_not_given_out_is_refused(service: Recorder, change: str) -> None:
    cursor = service.turn(service.create().id, "One").cursor
    wrong = change.format(cursor)
    failure = failure_of(
        lambda: next(service.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=wrong)))
    )
    assert (failure.code, failure.fields) == ("INVALID_ARGUMENT", ("cursor",)), wrong


def test_nothing_is_followed_once_nobody_watches(
    subscribe: Subscribe, service: Recorder, server: RunningServer
) -> None:
    one = subscribe().ready()
    assert subscribe(load_conversation_id=UNKNOWN).ended().error
    [space] = server.app.spaces.open_now()
    updates = space.service(LiveUpdates)
    assert updates._following is not None
    one.drop()
    until(lambda: updates._following is None)
    subscribe().ready().until_count("conversation_list", 1)


def test_the_folder_has_no_trace_of_a_stream(
    subscribe: Subscribe, service: Recorder, server: RunningServer
) -> None:
    one = subscribe().ready()
    before = sorted(path.name for path in Path(server.folder).iterdir())
    service.publish(service.create().id, "d", 0, "a word that is nowhere")
    one.until_count("message_delta", 1)
    server.stop()
    assert not any(
        b"a word that is nowhere" in path.read_bytes()
        for path in server.data_dir.rglob("*")
        if path.is_file()
    )
    assert before
