"""An open space that nobody uses rests: its files are closed, and it takes appends without them.
Its index takes them in before anything reads it.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect import Client
from recollect.v1 import channel_service_pb2 as channels
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.channel_pb2 import WhatsappOrigin
from recollect_server.access.token import Grant
from recollect_server.admin.due import DueMarkers
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.index import writer
from recollect_server.kernel.space.events import Resting
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.run import app
from recollect_server.run.jobs.due_work import DueWork
from recollect_server.run.settings import Settings
from recollect_server.run.space import OpenSpace

from tests.at_rest import is_sealed
from tests.conftest import LOOPBACK, MovableClock, RunningServer, Start
from tests.credentials.conftest import Caller, grant, tokens_of
from tests.programs import ran
from tests.server.conftest import agent, at_once, code_of, failure_of, user
from tests.spaces import hour_later
from tests.spaces.conftest import Enter, InSpace
from tests.waiting import until

APPEND = "ConversationService.AppendTurn"
ALL = {"max_turns": 1000, "max_tokens": 1_000_000}


def rest(server: RunningServer, service: InSpace) -> None:
    """Let a space rest as soon as no call and no job uses it."""

    def rests() -> bool:
        server.app.spaces.rest(service.space)
        return is_resting(server, service)

    until(rests)


def is_resting(server: RunningServer, service: InSpace) -> bool:
    """Return whether a space is open, and its files are closed."""
    spaces = server.app.spaces
    awake = {space.name for space in spaces.open_now()}
    return service.space in spaces.names() and service.space not in awake


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Start a server for all tests that need no settings of their own: each has its own space."""
    clock = MovableClock()
    chosen = Settings.load(
        None,
        {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path_factory.mktemp("resting") / "data"},
    )
    running = RunningServer(app.start(chosen, clock=clock, lock_order=LockOrder()), clock, chosen)
    yield running
    running.stop()


def is_answered(caller: Caller, request: api.AppendTurnRequest, outcome: str) -> bool:
    """Return whether an append has an outcome."""
    return caller.outcome(APPEND, request) == outcome


def texts(service: InSpace, name: str) -> list[str]:
    """Return the texts of a conversation, which wakes its space."""
    return [it.content for it in service.load(name, **ALL).messages]


def test_appends_do_not_wake_it_and_the_next_read_has_them(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "reads")
    name = service.conversation_of("The roof leaks")
    rest(shared, service)
    folder = shared.data_dir / "reads" / "conversations"
    assert is_sealed(folder)
    answers = [service.append(name, user(f"Word {at}"), agent("CountingLock")) for at in range(5)]
    assert is_resting(shared, service)
    assert [it.turn_number for it in answers] == [2, 3, 4, 5, 6]
    assert [it.messages[0].sequence for it in answers] == [3, 5, 7, 9, 11]
    assert answers[-1].conversation.message_count == 11
    assert service.found("word") == [name]
    assert not is_resting(shared, service)
    assert not is_sealed(folder)
    (listed,) = service.listed().conversations
    assert (listed.message_count, listed.turn_count) == (11, 6)
    assert texts(service, name)[-2:] == ["Word 4", "CountingLock"]


@pytest.mark.parametrize("read", ["Get", "Load", "List", "Search", "BuildContext", "Stream"])
def test_every_way_of_reading_has_what_was_appended(
    read: str, shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, f"reads-{read.lower()}")
    name = service.conversation_of("First")
    rest(shared, service)
    service.append(name, user("Second zebra"))
    match read:
        case "Get":
            assert service.get(name).message_count == 2
        case "Load":
            assert texts(service, name) == ["First", "Second zebra"]
        case "List":
            assert service.listed().conversations[0].message_count == 2
        case "Search":
            assert service.found("zebra") == [name]
        case "BuildContext":
            assert "Second zebra" in str(service.context(name))
        case _:
            stream = service.conversations.StreamUpdates(
                api.StreamUpdatesRequest(load_conversation_id=name)
            )
            loaded = next(
                it.update.conversation_loaded
                for it in stream
                if it.update.HasField("conversation_loaded")
            )
            assert [it.content for it in loaded.messages] == ["First", "Second zebra"]
            stream.cancel()


def test_a_repeated_request_is_answered_as_it_was_and_stores_nothing(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "repeats")
    name, other = service.conversation_of("First"), service.conversation_of("Other")
    before = service.append(name, user("Before"), request_id="before")
    rest(shared, service)
    first = service.append(name, user("Second"), request_id="one")
    assert is_resting(shared, service)
    for request, answer in (("one", first), ("before", before)):
        rest(shared, service)
        again = service.append(name, user(answer.messages[0].content), request_id=request)
        assert again.duplicate
        assert (again.messages, again.cursor) == (answer.messages, answer.cursor)
        rest(shared, service)
        for about, word in ((name, "Another"), (other, "Second")):
            failure = failure_of(partial(service.append, about, user(word), request_id=request))
            assert failure.reason == "REQUEST_ID_REUSED"
    assert texts(service, name) == ["First", "Before", "Second"]
    assert texts(service, other) == ["Other"]


def test_the_checks_of_an_append_hold(shared: RunningServer, enter: Enter) -> None:
    service = enter(shared.target, "checks")
    name = service.conversation_of("First")
    service.channels.AddOwnerIdentity(
        channels.AddOwnerIdentityRequest(channel="whatsapp", identity="+44 7700 900123")
    )
    delivered: Any = service.channels.Receive(
        channels.ReceiveRequest(
            channel="whatsapp",
            provider_message_id="1",
            sender="+44 7700 900123",
            text="Hello",
            whatsapp=WhatsappOrigin(),
        )
    )
    pinned = delivered.conversation.conversation.id
    rest(shared, service)
    calls: dict[str, Callable[[], object]] = {
        "INVALID_FIELD": lambda: service.append(name),
        "TURN_OUT_OF_DATE": lambda: service.append(name, user("Late"), expected_turn=0),
        "CONVERSATION_READ_ONLY": lambda: service.append(pinned, user("Web", channel="web")),
    }
    for reason, call in calls.items():
        assert failure_of(call).reason == reason
        assert is_resting(shared, service)
    unknown = failure_of(lambda: service.append(f"conv-{'0' * 26}", user("Nobody")))
    assert unknown.reason == "CONVERSATION_NOT_FOUND"
    assert texts(service, name) == ["First"]
    assert texts(service, pinned) == ["Hello"]


def test_a_stream_behind_a_cursor_has_every_later_update_once_and_in_order(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "cursors")
    names = [service.conversation_of("First"), service.conversation_of("Second")]
    cursors = []
    for number in range(6):
        if number % 3 == 0:
            rest(shared, service)
        cursors.append(service.append(names[number % 2], user(f"{number}")).cursor)
    assert is_resting(shared, service)
    for after in (0, 3, 4):
        assert updates_behind(service, cursors, after) == [str(it) for it in range(after + 1, 6)]
        rest(shared, service)  # what the stream left in memory is dropped


def updates_behind(service: InSpace, cursors: list[str], after: int) -> list[str]:
    """Return the texts of the updates behind a cursor up to the last, and check theirs."""
    stream = service.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=cursors[after]))
    contents: list[str] = []
    for answer in stream:
        update = answer.update
        if update.HasField("conversation_updated"):
            assert update.cursor == cursors[after + 1 + len(contents)]
            contents += [it.content for it in update.conversation_updated.messages]
        if len(contents) == len(cursors) - 1 - after:
            break
    stream.cancel()
    return contents


def test_a_draft_ends_with_the_append_that_completes_it(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "drafts")
    name = service.conversation_of("Question")
    service.conversations.PublishDelta(
        api.PublishDeltaRequest(conversation_id=name, draft_id="d1", text="An ans")
    )
    rest(shared, service)
    service.append(name, agent("An answer"), draft_id="d1")
    assert is_resting(shared, service)
    more = api.PublishDeltaRequest(conversation_id=name, draft_id="d1", offset=6, text="wer")

    def is_landed() -> bool:
        # refused once the listener of streams, a thread of its own, was told of the append
        return code_of(lambda: service.conversations.PublishDelta(more)) == "INVALID_ARGUMENT"

    until(is_landed)


def test_a_conversation_whose_state_is_not_in_memory_wakes_it(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "many")
    names = [service.conversation_of(f"Number {at}") for at in range(40)]
    rest(shared, service)
    service.append(names[-1], user("In memory"))
    assert is_resting(shared, service)
    service.append(names[0], user("Read again"))
    assert not is_resting(shared, service)
    assert texts(service, names[0]) == ["Number 0", "Read again"]
    assert texts(service, names[-1]) == ["Number 39", "In memory"]


def test_a_full_backlog_is_taken_in_by_the_next_append(shared: RunningServer, enter: Enter) -> None:
    service = enter(shared.target, "backlog")
    name = service.conversation_of("First")
    rest(shared, service)
    for number in range(16):
        service.append(name, user(f"{number}"))
        assert is_resting(shared, service)
    service.append(name, user("One more"))
    assert not is_resting(shared, service)
    assert service.get(name).message_count == 18


def test_a_backlog_is_taken_in_soon_though_nobody_calls(
    start_server: Start, clock: MovableClock, enter: Enter
) -> None:
    server = start_server()
    service = enter(server.target, "waits")
    name = service.conversation_of("First")
    rest(server, service)
    service.append(name, user("Second"))
    path = server.data_dir / ".due" / "waits"
    assert path.stat().st_mtime_ns == (clock.now + 5_000) * 1_000_000
    clock.move(5_000)
    space = None

    def is_taken_in() -> bool:
        nonlocal space
        opened = {it.name: it for it in server.app.spaces.open_now()}
        space = opened.get("waits", space)
        return space is not None and not space._has_backlog and is_resting(server, service)

    until(is_taken_in)
    assert is_sealed(server.data_dir / "waits" / "conversations")


class CountingLock:
    """A lock that notes how often somebody wanted it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.times = 0

    def __enter__(self) -> None:
        self.times += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_an_append_that_is_overtaken_by_a_wake_leaves_nothing_due(
    shared: RunningServer, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = enter(shared.target, "raced")
    name = service.conversation_of("First")
    rest(shared, service)
    space = open_space(shared, "raced")
    changing = CountingLock()
    monkeypatch.setattr(space, "_changing", changing)
    is_noting, may_go_on = threading.Event(), threading.Event()
    close = DueWork.closed

    def slow(due: DueWork, name: str, at: int | None) -> None:
        if name == "raced" and not is_noting.is_set():
            is_noting.set()
            may_go_on.wait()
        close(due, name, at)

    monkeypatch.setattr(DueWork, "closed", slow)
    with ThreadPoolExecutor(2) as pool:
        append = pool.submit(service.append, name, user("Second"))
        is_noting.wait()
        waking = pool.submit(space.wake)
        until(lambda: waking.done() or changing.times == 2)
        may_go_on.set()
        append.result()
        waking.result()
    assert "raced" not in space._shared.due._times
    assert not space._is_due


def test_an_append_to_a_space_that_is_being_woken_leaves_nothing_due(
    shared: RunningServer, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = enter(shared.target, "overtaken")
    name = service.conversation_of("First")
    rest(shared, service)
    service.append(name, user("Second zebra"))
    space = open_space(shared, "overtaken")

    def woken() -> None:
        space._woken()
        assert space._has_backlog  # the index takes it in once everything is awake
        space._note_backlog()  # as an append does that began before

    monkeypatch.setattr(space._space.index.writer, "woken", woken)
    assert service.found("zebra") == [name]
    assert "overtaken" not in space._shared.due._times
    assert not space._is_due


def open_space(server: RunningServer, name: str) -> OpenSpace:
    """Return an open space."""
    (space,) = [it for it in server.app.spaces.open_now(at_rest=True) if it.name == name]
    return space


def test_a_space_whose_index_takes_in_nothing_any_more_is_closed_instead(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "stopped")
    name = service.conversation_of("The roof leaks")
    space = open_space(shared, "stopped")
    # as a failure that nobody foresaw stops it, here in what is left to be taken in
    space._space.subscribe(Resting, lambda _: space._space.index.writer._stop())

    def is_put_away() -> bool:
        shared.app.spaces.rest("stopped")
        return space not in shared.app.spaces.open_now()

    until(is_put_away)
    until(lambda: "stopped" not in shared.app.spaces.names())
    service.append(name, user("A zebra"))
    assert service.found("zebra") == [name]


def test_an_index_that_cannot_be_opened_again_stays_sealed(
    shared: RunningServer, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = enter(shared.target, "sealed")
    name = service.conversation_of("The roof leaks")
    rest(shared, service)

    def fail(_: Path) -> apsw.Connection:
        raise apsw.CantOpenError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "open_writer", fail)
        with pytest.raises(IndexUnavailable):
            open_space(shared, "sealed").wake()
    assert is_sealed(shared.data_dir / "sealed" / "conversations")
    assert service.found("roof") == [name]
    assert not is_sealed(shared.data_dir / "sealed" / "conversations")


def test_it_survives_a_restart_with_its_cursors(start_server: Start, enter: Enter) -> None:
    server = start_server()
    service = enter(server.target, "restarts")
    name = service.conversation_of("First")
    rest(server, service)
    cursor = service.append(name, user("Second"), request_id="two").cursor
    service.append(name, user("Third"))
    server.stop()
    assert is_sealed(server.data_dir / "restarts" / "conversations")
    service = enter(start_server().target, "restarts")
    assert service.append(name, user("Second"), request_id="two").duplicate
    stream = service.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=cursor))
    update = next(it.update for it in stream if it.update.WhichOneof("kind") != "heartbeat")
    assert not update.reset
    assert [it.content for it in update.conversation_updated.messages] == ["Third"]
    stream.cancel()


def test_one_whose_index_was_changed_meanwhile_is_opened_anew(
    shared: RunningServer, enter: Enter
) -> None:
    for change in ("touched", "removed"):
        service = enter(shared.target, change)
        name = service.conversation_of("First")
        rest(shared, service)
        service.append(name, user("Second zebra"), request_id="two")
        index = shared.data_dir / change / "conversations" / "conversations.db"
        if change == "removed":
            index.unlink()
        else:
            index.write_bytes(index.read_bytes()[:-1] + b"x")
        assert service.found("zebra") == [name]
        assert service.append(name, user("Second zebra"), request_id="two").duplicate
        assert texts(service, name) == ["First", "Second zebra"]


def test_one_whose_transcript_was_changed_meanwhile_writes_nothing_over_it(
    shared: RunningServer, enter: Enter
) -> None:
    service = enter(shared.target, "changed")
    name = service.conversation_of("First")
    path = shared.data_dir / "changed" / "conversations" / f"{name}.jsonl"
    rest(shared, service)
    before = path.read_bytes()
    path.write_bytes(before + b"something else\n")
    failure = failure_of(lambda: service.append(name, user("Second")))
    assert failure.reason == "STORAGE_UNAVAILABLE"
    assert path.read_bytes() == before + b"something else\n"


def test_the_oldest_of_too_many_is_closed_with_everything(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=2)
    services = [enter(server.target, f"space-{number}") for number in range(6)]
    names = [service.conversation_of("First") for service in services]
    for service, name in zip(services, names, strict=True):
        service.append(name, user("Second"))
    assert len(server.app.spaces.names()) <= 2
    for service, name in zip(services, names, strict=True):
        assert texts(service, name) == ["First", "Second"]


@pytest.mark.skipif(sys.platform != "linux", reason="open files are counted in /proc")
def test_a_space_at_rest_has_no_open_file_until_it_is_used(
    start_server: Start, enter: Enter
) -> None:
    server = start_server()
    services = [enter(server.target, f"space-{number}") for number in range(5)]
    names = [service.conversation_of("The roof leaks") for service in services]
    assert all(open_files(server.data_dir / service.space) for service in services)
    for service in services:
        rest(server, service)
    assert len(server.app.spaces.names()) == 6
    assert [open_files(server.data_dir / service.space) for service in services] == [[]] * 5
    for service, name in zip(services, names, strict=True):
        assert service.found("roof") == [name]
    assert all(open_files(server.data_dir / service.space) for service in services)


def test_a_space_that_nobody_uses_for_an_hour_does_not_rest(tmp_path: Path) -> None:
    code, output, errors = ran(hour_later.__name__, [str(tmp_path / "data")])
    assert (code, errors) == (0, "")
    expected = {f"space-{number}" for number in range(hour_later.SPACES)}
    assert expected <= set(output.split())


def test_a_stream_that_begins_while_another_call_wakes_the_space_has_its_updates(
    shared: RunningServer, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, follower = (enter(shared.target, "woken") for _ in range(2))
    name = reader.conversation_of("The roof leaks")
    rest(shared, reader)
    is_waking, may_go_on = threading.Event(), threading.Event()
    mark = DueMarkers.set

    def slow(markers: DueMarkers, space: str, time: int) -> None:
        if space == "woken" and not is_waking.is_set():
            is_waking.set()
            may_go_on.wait()
        mark(markers, space, time)

    monkeypatch.setattr(DueMarkers, "set", slow)
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(reader.found, "roof")
        is_waking.wait()
        try:
            assert is_resting(shared, reader)
            stream = follower.conversations.StreamUpdates(
                api.StreamUpdatesRequest(load_conversation_id=name)
            )
            first = pool.submit(next, stream)
            until(lambda: is_held(shared, "woken", 2))
        finally:
            may_go_on.set()
        assert answer.result() == [name]
        assert first.result().update.WhichOneof("kind")
        stream.cancel()


def is_held(server: RunningServer, space: str, calls: int) -> bool:
    """Return whether so many calls have a lease of a space."""
    return server.app.spaces._places[space].leases >= calls


def test_the_least_recently_used_rest_while_too_many_are_awake(
    tmp_path: Path, clock: MovableClock, enter: Enter
) -> None:
    chosen = Settings.load(None, {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path / "data"})
    server = RunningServer(app.start(chosen, clock=clock, most_awake=2), clock, chosen)
    services = [enter(server.target, f"space-{number}") for number in range(5)]
    names = [service.conversation_of("First") for service in services]
    spaces = server.app.spaces
    assert len(spaces.names()) == 5  # the default one, which nobody wrote to, was closed
    assert [it.name for it in spaces.open_now()] == ["space-3", "space-4"]
    assert texts(services[0], names[0]) == ["First"]
    assert [it.name for it in spaces.open_now()] == ["space-4", "space-0"]
    services[1].append(names[1], user("Second"))  # without its files
    assert [it.name for it in spaces.open_now()] == ["space-4", "space-0"]
    server.stop()


def open_files(folder: Path) -> list[str]:
    """Return the files of a folder that this process has open."""
    links = (it.readlink() for it in Path("/proc/self/fd").iterdir() if it.is_symlink())
    return [str(link) for link in links if link.is_relative_to(folder)]


def test_a_list_of_spaces_counts_what_its_index_has_not_taken_in(
    start_server: Start, enter: Enter
) -> None:
    server = start_server()
    service = enter(server.target, "listed")
    name = service.conversation_of("First")
    rest(server, service)
    service.append(name, user("Second"))
    assert is_resting(server, service)
    with Client(server.target) as client:
        (listed,) = [it for it in client.admin.list_spaces() if it.name == "listed"]
    assert (listed.state, listed.messages) == ("open", 2)


def test_limits_of_what_a_space_stores_hold(start_server: Start, enter: Enter) -> None:
    server = start_server(space_stored_bytes=20_000)
    service = enter(server.target, "limited")
    name = service.conversation_of("First")
    rest(server, service)
    outcomes = []
    for _ in range(20):
        rest(server, service)
        outcomes.append(code_of(lambda: service.append(name, user("x" * 1000))))
    assert outcomes[:8] == ["OK"] * 8
    assert outcomes[-1] == "RESOURCE_EXHAUSTED"
    path = server.data_dir / "limited" / "conversations" / f"{name}.jsonl"
    assert path.stat().st_size <= 20_000


def test_a_project_token_appends_to_its_own_conversation_alone(
    start_server: Start, enter: Enter
) -> None:
    server = start_server()
    service = enter(server.target, "projects")
    names = [service.conversation_of("Own"), service.conversation_of("Other")]
    rest(server, service)
    granted: Grant = grant("project", "projects", conversation_id=names[0])
    _, text = tokens_of(server.data_dir, server.clock).create(granted)
    caller = Caller(server.target, text)
    with caller.channel:
        for name, outcome in zip(names, ("OK", "PERMISSION_DENIED"), strict=True):
            request = api.AppendTurnRequest(conversation_id=name, messages=[user("More")])
            # the server was open to everybody until it saw its first token
            until(partial(is_answered, caller, request, outcome))
    assert is_resting(server, service)


def test_appends_and_reads_at_once_lose_nothing_and_double_nothing(
    start_server: Start, enter: Enter
) -> None:
    server = start_server(max_open_spaces=4)
    services = [enter(server.target, f"space-{number}") for number in range(6)]
    names = [service.conversation_of("First") for service in services]

    def work(caller: int) -> None:
        for turn in range(12):
            at = (turn * 5 + caller) % 6
            request = f"{caller}-{turn}"
            for _ in range(2):
                services[at].append(names[at], user(request), request_id=request)
            if turn % 4 == caller % 4:
                assert request in texts(services[at], names[at])

    at_once(4, work)
    for at, (service, name) in enumerate(zip(services, names, strict=True)):
        expected = {f"{c}-{t}" for c in range(4) for t in range(12) if (t * 5 + c) % 6 == at}
        stored = service.load(name, **ALL).messages
        assert sorted(it.content for it in stored) == sorted({"First", *expected})
        assert [it.sequence for it in stored] == list(range(2, len(stored) + 2))
        assert service.get(name).message_count == len(stored)
