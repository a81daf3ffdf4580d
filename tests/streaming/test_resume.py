"""A subscriber that comes back with its cursor: what it missed, or a snapshot that says so."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect_server.contract import streams
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.index.file import NAME, remove_files
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.stream import log as update_log
from recollect_server.kernel.stream import ring
from recollect_server.kernel.stream.live import LiveUpdates
from recollect_server.kernel.stream.log import NewUpdates, UpdateLog
from recollect_server.run.jobs.of_space import Bounds, UpdatePruner
from recollect_server.run.parts import upkeep
from structlog.testing import capture_logs

from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import at_once, delete_index, failure_of, user
from tests.streaming.conftest import Recorder, Subscriber
from tests.waiting import until

Subscribe = Callable[..., Subscriber]
Record = Callable[[RunningServer], Recorder]


@pytest.fixture
def spaces(monkeypatch: pytest.MonkeyPatch) -> list[Space]:
    """Collect the spaces that servers open from here on."""
    opened: list[Space] = []
    begin = Space.__init__

    def note(self: Space, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        opened.append(self)

    monkeypatch.setattr(Space, "__init__", note)
    return opened


def test_a_subscriber_that_drops_sees_what_it_missed_and_goes_on(
    subscribe: Subscribe, service: Recorder
) -> None:
    whole, one = subscribe().ready(), subscribe(max_batch=1).ready()
    name = service.conversation_of("One")
    one.until_count("conversation_updated", 1)
    one.drop()
    service.turn(name, "Two")
    service.rename(name, "Counting")
    one.resume()
    one.ready()
    service.turn(name, "Three")
    one.until_count("conversation_updated", 3)
    whole.until_count("conversation_updated", 3)
    assert one.kinds() == whole.kinds()
    assert one.messages() == ["One", "Two", "Noted.", "Three", "Noted."]
    assert [bool(it.reset) for it in one.updates if it.reset] == []


def test_one_that_comes_back_is_not_told_that_it_has_all_before_it_has(
    subscribe: Subscribe, service: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rest in ("_REST", "_REST_OF_A_STREAM", "_LONGEST_REST"):
        monkeypatch.setattr(streams, rest, 0.5)  # so that what comes next is heard late
    one = subscribe().ready()
    name = service.conversation_of("One")
    cursor = one.until_count("conversation_updated", 1) and one.cursor
    service.append(name, user("Two"))
    late = subscribe(cursor=cursor).ready()
    assert [it.WhichOneof("kind") for it in late.updates] == ["conversation_updated", "heartbeat"]


def test_it_does_so_across_a_restart(
    subscribe: Subscribe, start_server: Start, record: Record
) -> None:
    first = start_server()
    service = record(first)
    one = subscribe(first.target).ready()
    name = service.conversation_of("One")
    one.until_count("conversation_updated", 1)
    service.turn(name, "Two")
    first.stop()
    one.until(lambda: one.error)
    assert (one.error.code().name, one.error.details()) == (  # type: ignore[union-attr]
        "UNAVAILABLE",
        "the server stops: come back with the last cursor",
    )
    second = start_server()
    record(second).turn(name, "Three")
    one.resume(second.target)
    one.until(lambda: len(one.messages()) == 5)
    assert one.messages() == ["One", "Two", "Noted.", "Three", "Noted."]


def test_the_cursor_of_an_append_is_a_place_in_the_stream(
    subscribe: Subscribe, service: Recorder
) -> None:
    name = service.create().id
    first, second = service.turn(name, "One"), service.turn(name, "Two")
    one = subscribe(cursor=first.cursor).ready()
    assert (one.kinds(), one.cursor) == (["conversation_updated"], second.cursor)
    assert subscribe(cursor=second.cursor).ready().kinds() == []


def test_one_that_was_away_while_a_conversation_was_deleted_is_told_that_it_is_gone(
    subscribe: Subscribe, service: Recorder
) -> None:
    one, stays = subscribe().ready(), subscribe().ready()
    one.drop()
    deleted, other = (
        service.conversation_of("Nobody may read this"),
        service.conversation_of("This stays"),
    )
    service.delete(deleted)
    stays.until_count("conversation_deleted", 1)
    one.resume()
    one.ready().until_count("conversation_deleted", 1)
    assert one.messages() == ["This stays"]
    assert [it.conversation_id for it in one.updates[2:] if it.conversation_id] == [
        other,
        other,
        deleted,
    ]


@pytest.mark.one_server  # of two, only one is known to have ended what was under way
def test_what_was_said_and_deleted_at_once_is_told_to_nobody(
    subscribe: Subscribe,
    service: Recorder,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, stays = subscribe().ready(), subscribe().ready()
    one.drop()
    waits, go_on, is_known = threading.Event(), threading.Event(), threading.Event()
    advance = UpdateLog.advance

    def late(log: Any) -> NewUpdates:
        waits.set()
        go_on.wait()
        if log.space.store.sharing is not None and not is_known.is_set():
            until(lambda: has_deletion(log))  # a database sends it later
            is_known.set()
        new: NewUpdates = advance(log)
        return new

    def has_deletion(log: Any) -> bool:
        came = [it.action for incoming in list(log._inbox) for it in incoming.changes]
        return Action.DELETE in came

    monkeypatch.setattr(UpdateLog, "advance", late)
    first = service.create().id  # ends what was under way
    assert waits.wait()
    deleted, other = (
        service.conversation_of("Nobody may read this"),
        service.conversation_of("This stays"),
    )
    service.delete(deleted)
    go_on.set()
    stays.until_count("conversation_deleted", 1)
    one.resume()
    one.ready().until_count("conversation_deleted", 1)
    for it in (one, stays):
        assert it.messages() == ["This stays"]
        assert [update.conversation_id for update in it.updates[2:] if update.conversation_id] == [
            first,
            other,
            other,
            deleted,
        ]


@pytest.mark.parametrize("entries", [1, 7, 1000])
def test_one_that_falls_behind_what_is_in_memory_reads_on_from_the_log(
    subscribe: Subscribe, service: Recorder, monkeypatch: pytest.MonkeyPatch, entries: int
) -> None:
    monkeypatch.setattr(ring, "_RING_ENTRIES", entries)
    monkeypatch.setattr(update_log, "_PART", 5)
    whole = subscribe().ready()
    names = [service.create().id for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: [service.turn(names[n % 4], f"{n}") for _ in range(5)], range(8)))
    late = subscribe(cursor=whole.updates[1].cursor, max_batch=3)
    for one in (whole, late):
        one.until_count("conversation_updated", 40)
    assert late.kinds() == whole.kinds()[2:]


def test_one_that_falls_behind_long_messages_of_several_conversations_reads_on_from_the_log(
    subscribe: Subscribe, service: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring, "_RING_ENTRIES", 1)
    monkeypatch.setattr(update_log, "_PART_BYTES", 100)  # fewer than one message has
    whole = subscribe().ready()
    names = [service.create().id for _ in range(3)]
    for number in range(6):
        service.turn(names[number % 3], f"{number}")
    late = subscribe(cursor=whole.updates[1].cursor)
    for one in (whole, late):
        one.until_count("conversation_updated", 6)
    assert late.kinds() == whole.kinds()[2:]


@pytest.mark.files
def test_a_log_that_cannot_be_read_for_a_subscriber_that_is_behind_is_named(
    subscribe: Subscribe, service: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ring, "_RING_ENTRIES", 1)
    whole = subscribe().ready()
    name = service.create().id
    # An answer is kept for all who ask for the same, and then nothing is read: if `whole` got all
    # changes at once, it asked what the late one will ask.
    whole.until_count("conversation_created", 1)
    for text in ("zebra", "walrus"):
        service.turn(name, text)
    whole.until_count("conversation_updated", 2)

    def refuse(_: FolderStore, log: str, *__: Any, **___: Any) -> Any:
        raise LogUnavailable(log, "read", "Input/output error")

    with pytest.MonkeyPatch.context() as damaged, capture_logs() as logged:
        damaged.setattr(FolderStore, "raw", refuse)
        late = subscribe(cursor=whole.updates[1].cursor)
        (reason,) = until(lambda: [it["reason"] for it in logged if it["event"] == "stream_waits"])
    assert name in reason
    late.until_count("conversation_updated", 2)


def test_a_change_whose_updates_cannot_be_made_as_it_comes_is_read_by_those_who_watch(
    subscribe: Subscribe, service: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = subscribe().ready()
    name = service.create().id
    whole.until_count("conversation_created", 1)
    make, failures = LiveUpdates._kinds_of, [ZeroDivisionError("nobody foresaw it")]

    def fail_once(*given: Any) -> Any:
        if failures:
            raise failures.pop()
        return make(*given)

    monkeypatch.setattr(LiveUpdates, "_kinds_of", fail_once)
    service.turn(name, "after it")
    service.turn(name, "and behind")
    whole.until_count("conversation_updated", 2)
    assert failures == []


def test_subscribers_that_come_and_go_while_many_write_miss_nothing(
    subscribe: Subscribe, service: Recorder
) -> None:
    whole = subscribe().ready()
    names = [service.create().id for _ in range(4)]
    comers = [subscribe(max_batch=n % 2 * 100).ready() for n in range(6)]

    def work(number: int) -> None:
        if number < 4:
            for count in range(30):
                service.turn(names[number], f"{number} {count}")
        else:
            for _ in range(4):
                comers[number - 4].resume()
                comers[number - 4].until(lambda: comers[number - 4].runs[-1])

    at_once(10, work)
    for one in (whole, *comers):
        one.until_count("conversation_updated", 120)
    for one in comers:
        assert [
            it.cursor
            for it in one.updates
            if it.cursor and it.WhichOneof("kind") == "conversation_updated"
        ] == [it.cursor for it in whole.updates if it.WhichOneof("kind") == "conversation_updated"]


@pytest.mark.files
def test_a_cursor_of_an_index_that_was_made_anew_gives_a_snapshot_that_says_so(
    subscribe: Subscribe, start_server: Start, record: Record
) -> None:
    first = start_server()
    name = record(first).conversation_of("One")
    one = subscribe(first.target).ready()
    first.stop()
    delete_index(first)
    one.resume(start_server().target)
    one.until_count("conversation_loaded", 2)
    listed, loaded = one.runs[-1][:2]  # a heartbeat may follow
    assert (listed.reset, loaded.reset) == (True, False)
    assert [it.id for it in listed.conversation_list.conversations] == [name]
    assert [it.content for it in loaded.conversation_loaded.messages] == ["One"]


@pytest.mark.files
def test_an_index_that_is_made_anew_under_open_streams_resets_them(
    subscribe: Subscribe, service: Recorder, server: RunningServer
) -> None:
    name = service.conversation_of("One")
    one = subscribe().ready()
    (server.folder / NAME).unlink()
    one.until_count("conversation_list", 2)
    assert [it.reset for it in one.updates if it.WhichOneof("kind") == "conversation_list"] == [
        False,
        True,
    ]
    one.until_count("conversation_loaded", 2)
    service.turn(name, "Two")
    one.until(lambda: one.messages() == ["Two", "Noted."])
    assert one.runs[0][-1].cursor.split("-")[0] != one.runs[0][1].cursor.split("-")[0]


@pytest.mark.files
@pytest.mark.parametrize("how", ["age", "number"])
def test_a_cursor_older_than_what_is_kept_gives_a_snapshot_that_says_so(
    spaces: list[Space],
    subscribe: Subscribe,
    service: Recorder,
    server: RunningServer,
    clock: MovableClock,
    how: str,
) -> None:
    one = subscribe().ready()
    name = service.conversation_of("One", "Two", "Three")
    one.until_count("conversation_updated", 3)
    one.drop()
    service.turn(name, "Four")
    (space,) = spaces
    if how == "age":
        clock.move(7 * 86_400_000 + 1)
        service.turn(name, "Five")
        pruner = UpdatePruner(space, Holder(Bounds(timedelta(days=7), 1000)))
    else:
        service.turn(name, "Five")
        pruner = UpdatePruner(space, Holder(Bounds(timedelta(days=7), 1)))
    assert pruner.prune() == 5
    assert pruner.prune() == 0
    one.resume()
    one.until_count("conversation_loaded", 2)
    assert one.runs[-1][0].reset
    assert subscribe(cursor=one.cursor).ready().kinds() == []


@pytest.mark.files
def test_what_is_kept_is_still_told_after_pruning(
    spaces: list[Space],
    subscribe: Subscribe,
    service: Recorder,
    server: RunningServer,
    start_server: Start,
) -> None:
    name = service.create().id
    cursors = [service.turn(name, str(n)).cursor for n in range(6)]
    (space,) = spaces
    pruner = UpdatePruner(space, Holder(Bounds(timedelta(days=7), 2)))
    assert pruner.prune() == 5
    server.stop()  # what is in memory is gone too
    again = start_server()
    subscriber = subscribe(again.target, cursor=cursors[3]).ready()
    assert [
        it.cursor for it in subscriber.updates if it.WhichOneof("kind") == "conversation_updated"
    ] == cursors[4:]
    assert subscribe(again.target, cursor=cursors[2]).ready().runs[-1][0].reset


@pytest.mark.files
def test_a_cursor_whose_update_a_crash_took_gives_a_snapshot_that_says_so(
    subscribe: Subscribe, start_server: Start, record: Record
) -> None:
    """The index loses its last transactions as a power failure takes them; the transcript has all,
    and is indexed again.
    """
    first = start_server()
    service = record(first)
    name = service.conversation_of("One")
    first.stop()
    before = (first.folder / NAME).read_bytes()
    second = start_server()
    lost = record(second).turn(name, "Two")
    second.stop()
    remove_files(first.folder)
    (first.folder / NAME).write_bytes(before)
    third = start_server()
    one = subscribe(third.target, cursor=lost.cursor)
    one.until_count("conversation_loaded", 1)
    assert one.updates[0].reset
    assert [it.content for it in one.updates[1].conversation_loaded.messages] == [
        "One",
        "Two",
        "Noted.",
    ]


@pytest.mark.files
def test_a_stream_is_refused_while_the_index_cannot_be_read(
    spaces: list[Space], subscribe: Subscribe, service: Recorder, server: RunningServer
) -> None:
    one = subscribe().ready()
    one.drop()
    (space,) = spaces
    with space.exclusive(conversation="any"):  # so nobody replaces it meanwhile
        space.index.give_up("a test")
        failure = failure_of(
            lambda: next(
                service.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=one.cursor))
            )
        )
    assert (failure.code, failure.reason, failure.retry_ms) == (
        "UNAVAILABLE",
        "INDEX_UNAVAILABLE",
        1000,
    )


@pytest.mark.files
def test_the_log_is_pruned_a_little_at_a_time(
    spaces: list[Space], subscribe: Subscribe, service: Recorder
) -> None:
    service.conversation_of("One", "Two", "Three")
    pruner = UpdatePruner(spaces[0], Holder(Bounds(timedelta(days=7), 1)))
    pruned = [pruner.prune(limit=1) for _ in range(10)]
    assert set(pruned) == {0, 1}
    assert pruned == sorted(pruned, reverse=True)


@pytest.mark.files
def test_the_log_is_pruned_now_and_then(
    subscribe: Subscribe,
    start_server: Start,
    record: Record,
    spaces: list[Space],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(upkeep, "UpdatePruner", partial(UpdatePruner, seconds=0.01))
    server = start_server(max_updates=1)
    service = record(server)
    cursor = service.turn(service.create().id, "One").cursor
    service.conversation_of("Two", "Three")
    number = int(cursor.split("-")[1])
    until(lambda: not spaces[-1].index.log.reaches_back_to(number, Kind.CONVERSATION))
    assert subscribe(server.target, cursor=cursor).ready().updates[0].reset


def test_who_is_behind_a_redaction_is_told_of_it_and_not_of_the_text(
    subscribe: Subscribe, service: Recorder
) -> None:
    stays, away = subscribe().ready(), subscribe().ready()
    away.drop()
    name = service.conversation_of("Nobody may read this", "This stays")
    stays.until_count("conversation_updated", 2)
    request = api.RedactMessageRequest(conversation_id=name, turn_number=1)
    done = service.conversations.RedactMessage(request)
    (redacted,) = stays.until_count("messages_redacted", 1)
    assert list(redacted.sequences) == [done.messages[0].sequence]
    assert (redacted.conversation, redacted.redaction) == (
        done.conversation,
        done.messages[0].redaction,
    )
    away.resume()
    away.until_count("messages_redacted", 1)
    assert away.messages() == ["[redacted]", "This stays"]
    assert stays.messages() == ["Nobody may read this", "This stays"]
