"""Spaces that are only watched: they rest and close as others do, and their streams go on."""

import gc
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from recollect import Client
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import external_communication_service_pb2 as external
from recollect.v1.update_pb2 import Update
from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.index.writer import Writer
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.kernel.stream.live import LiveUpdates
from recollect_server.kernel.stream.log import UpdateLog
from recollect_server.run import app
from recollect_server.run.jobs.due_work import StreamKeeper
from recollect_server.run.settings import Settings
from recollect_server.run.space import OpenSpace
from structlog.testing import capture_logs

from tests.conftest import LOOPBACK, MovableClock, RunningServer, Start
from tests.external.conftest import deliver
from tests.postgres import Postgres
from tests.server.conftest import at_once, user
from tests.spaces.conftest import Enter, InSpace
from tests.spaces.test_resting import is_resting, open_files, rest
from tests.waiting import until


class Watch:
    """A stream of one conversation of a space."""

    def __init__(self, service: InSpace, opened: ExitStack) -> None:
        self.service = service
        self.name = service.create().id
        stream = service.conversations.StreamUpdates(
            api.StreamUpdatesRequest(conversation_ids=[self.name], load_conversation_id=self.name)
        )
        opened.callback(stream.cancel)
        self._elements: Iterator[api.StreamUpdatesResponse] = iter(stream)
        while not self.next().HasField("conversation_loaded"):
            pass

    def append(self, text: str) -> None:
        self.service.append(self.name, user(text))

    def next(self) -> Update:
        return next(self._elements).update

    def read(self, count: int) -> list[str]:
        """Return the texts of the next messages. Nothing may come between but heartbeats."""
        texts: list[str] = []
        while len(texts) < count:
            update = self.next()
            if not update.HasField("heartbeat"):
                assert update.WhichOneof("kind") == "conversation_updated"
                texts += [it.content for it in update.conversation_updated.messages]
        return texts


Begin = Callable[[RunningServer, str], Watch]
"""Type of the fixture `watch`, which takes a server and the name of a space."""


@pytest.fixture
def watch(enter: Enter) -> Iterator[Begin]:
    """Make a space and a stream of it, and end the stream."""
    with ExitStack() as opened:
        yield lambda server, space: Watch(enter(server.target, space), opened)


def close(server: RunningServer, space: str) -> None:
    """Close a space as soon as no call, no job and no stream uses it."""
    spaces = server.app.spaces

    def is_closed() -> bool:
        if not any(it.name == space and it.is_delivering for it in spaces.open_now()):
            spaces.evict(space)
        return space not in spaces.names()

    until(is_closed)


def test_spaces_that_are_only_watched_make_room_for_others_and_their_streams_go_on(
    start_server: Start, enter: Enter, watch: Begin
) -> None:
    server = start_server(max_open_spaces=2)
    watches = [watch(server, f"watched-{it}") for it in range(2)]
    left = [weakref.ref(it) for it in server.app.spaces.open_now()]
    assert len(left) == 2
    enter(server.target, "other").conversation_of("There is a place for this")
    enter(server.target, "another").conversation_of("And for this")
    assert set(server.app.spaces.names()) == {"other", "another"}
    gc.collect()
    assert not [it for it in left if it() is not None]
    for text in ("One", "Two", "Three"):
        for it in watches:
            it.append(text)
    for it in watches:
        assert it.read(3) == ["One", "Two", "Three"]


def test_streams_of_more_spaces_than_are_open_miss_nothing_while_many_write(
    start_server: Start, watch: Begin
) -> None:
    server = start_server(max_open_spaces=2)
    watches = [watch(server, f"space-{number}") for number in range(6)]

    def append(caller: int) -> None:
        for turn in range(8):
            for at in range(6):
                watches[(at + 2 * caller) % 6].append(f"{caller} {turn}")

    at_once(3, append)
    for it in watches:
        loaded = it.service.load(it.name, max_turns=100, max_tokens=1_000_000)
        assert it.read(24) == [message.content for message in loaded.messages]


def test_the_last_update_is_delivered_though_its_space_is_closed_at_once(
    start_server: Start, watch: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    # so that nothing waits for the delivery: as where a batch of the index is just being written
    monkeypatch.setattr("recollect_server.run.space.OpenSpace.is_delivering", False)
    server = start_server(max_open_spaces=1)
    one, other = watch(server, "one"), watch(server, "other")
    for number in range(20):
        one.append(str(number))
        other.append(str(number))
        assert (one.read(1), other.read(1)) == ([str(number)], [str(number)])


def test_a_space_at_rest_has_no_open_file_while_it_is_watched_and_an_append_wakes_it(
    start_server: Start, watch: Begin
) -> None:
    server = start_server()
    watched = watch(server, "watched")
    for text in ("One", "Two"):
        rest(server, watched.service)
        assert open_files(server.data_dir / "watched") == []
        watched.append(text)
        assert watched.read(1) == [text]
        assert not is_resting(server, watched.service)


def test_watched_spaces_that_nobody_used_for_a_minute_rest_before_others(
    tmp_path: Path, clock: MovableClock, enter: Enter, watch: Begin
) -> None:
    chosen = Settings.load(None, {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path / "data"})
    server = RunningServer(app.start(chosen, clock=clock, most_awake=2), clock, chosen)
    spaces = server.app.spaces

    def awake() -> list[str]:
        return [it.name for it in spaces.open_now()]

    watches = [watch(server, f"watched-{number}") for number in range(3)]
    assert awake() == ["watched-0", "watched-1", "watched-2"]
    spaces._places["watched-1"].used -= 61
    until(lambda: not any(it.is_delivering for it in spaces.open_now()))
    enter(server.target, "other").conversation_of("Needs open files")
    assert awake() == ["watched-0", "watched-2", "other"]
    for it in watches:
        it.append("Hello")
        assert it.read(1) == ["Hello"]
    server.stop()


def test_heartbeats_go_on_while_the_space_is_closed_and_their_cursor_leads_on(
    start_server: Start, watch: Begin
) -> None:
    server = start_server(heartbeat="50ms")
    watched = watch(server, "watched")
    watched.append("One")
    assert watched.read(1) == ["One"]
    close(server, "watched")
    beats = [watched.next() for _ in range(3)]
    assert {it.WhichOneof("kind") for it in beats} == {"heartbeat"}
    assert "watched" not in server.app.spaces.names()
    watched.append("Two")
    resumed = watched.service.conversations.StreamUpdates(
        api.StreamUpdatesRequest(cursor=beats[-1].cursor)
    )
    first = next(iter(resumed)).update
    assert [it.content for it in first.conversation_updated.messages] == ["Two"]
    resumed.cancel()


def test_panels_of_external_communications_go_on_too(server: RunningServer, enter: Enter) -> None:
    service = enter(server.target, "watched")
    service.create()
    stream = service.external.StreamCommunicationUpdates(
        external.StreamCommunicationUpdatesRequest()
    )
    panel = iter(stream)
    assert next(panel).update.HasField("communication_list")
    for text in ("First", "Second"):
        close(server, "watched")
        deliver(service.channels, "whatsapp", sender="+491", provider_message_id=text, text=text)
        while not (update := next(panel).update).HasField("communication_message"):
            pass
        assert update.communication_message.message.text == text
    stream.cancel()


def test_a_space_with_an_unfinished_answer_that_somebody_watches_stays_open(
    start_server: Start, enter: Enter, watch: Begin
) -> None:
    server = start_server(max_open_spaces=2)
    watched = watch(server, "watched")
    for offset, text in ((0, "The "), (4, "roof "), (9, "leaks")):
        watched.service.conversations.PublishDelta(
            api.PublishDeltaRequest(
                conversation_id=watched.name, draft_id="draft", offset=offset, text=text
            )
        )
        for number in range(3):
            enter(server.target, f"other-{number}").conversation_of("Takes a place")
        assert "watched" in server.app.spaces.names()
        assert watched.next().message_delta.text == text


def test_a_stream_of_a_closed_space_ends_with_the_space_or_the_server(
    start_server: Start, watch: Begin
) -> None:
    server = start_server()
    deleted, left = (watch(server, it) for it in ("deleted", "left"))
    for it in ("deleted", "left"):
        close(server, it)
    with Client(server.target) as client:
        client.admin.delete_space("deleted")
    with pytest.raises(grpc.RpcError, match="there is no space deleted"):
        deleted.next()
    assert server.app.spaces.names() == ["default"]
    server.stop()
    with pytest.raises(grpc.RpcError, match="the server stops"):
        left.next()


def test_what_another_server_writes_to_a_space_that_is_closed_here_is_streamed_here(
    postgres: Postgres, start_server: Start, enter: Enter, watch: Begin, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (start_server(store=url, data_dir=tmp_path / it) for it in ("one", "two"))
    watched = watch(one, "watched")
    elsewhere = enter(two.target, "watched")
    for number in range(4):
        close(one, "watched")
        elsewhere.append(watched.name, user(f"{number}"))
        assert watched.read(1) == [f"{number}"]
    close(one, "watched")
    watched.append("Here")
    assert watched.read(1) == ["Here"]
    rest(one, watched.service)
    elsewhere.append(watched.name, user("At rest"))
    assert watched.read(1) == ["At rest"]


def test_streams_of_more_spaces_than_are_open_miss_nothing_that_two_servers_write(
    postgres: Postgres, start_server: Start, enter: Enter, watch: Begin, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one, two = (
        start_server(store=url, data_dir=tmp_path / it, max_open_spaces=2) for it in ("one", "two")
    )
    watches = [watch(one, f"space-{number}") for number in range(4)]
    elsewhere = [enter(two.target, it.service.space) for it in watches]

    def append(caller: int) -> None:
        for turn in range(4):
            for at, it in enumerate(watches):
                service = elsewhere[at] if caller else it.service
                service.append(it.name, user(f"{caller} {turn}"))

    at_once(2, append)
    for it in watches:
        loaded = it.service.load(it.name, max_turns=100, max_tokens=1_000_000)
        assert it.read(8) == [message.content for message in loaded.messages]


def test_a_stream_whose_space_lost_its_index_while_it_was_closed_begins_anew(
    start_server: Start, watch: Begin
) -> None:
    server = start_server()
    watched = watch(server, "watched")
    close(server, "watched")
    (server.data_dir / "watched" / "conversations" / "conversations.db").unlink()
    watched.append("One")
    update = watched.next()
    assert (update.reset, update.WhichOneof("kind")) == (True, "conversation_list")


def resume(watched: Watch, cursor: str, opened: ExitStack) -> Iterator[Update]:
    """Open a stream of a space behind a cursor."""
    stream = watched.service.conversations.StreamUpdates(api.StreamUpdatesRequest(cursor=cursor))
    opened.callback(stream.cancel)
    return (it.update for it in stream)


@pytest.mark.files
def test_a_stream_that_could_not_read_what_it_missed_has_it_though_its_space_was_closed(
    start_server: Start, watch: Begin
) -> None:
    def refuse(_: FolderStore, log: str, *__: Any, **___: Any) -> Any:
        raise LogUnavailable(log, "read", "Input/output error")

    server = start_server()
    watched = watch(server, "watched")
    watched.append("One")
    cursor = watched.next().cursor
    watched.append("Two")
    close(server, "watched")
    assert watched.service.get(watched.name).message_count == 2  # opens it: nothing is in memory
    with ExitStack() as opened:
        with pytest.MonkeyPatch.context() as damaged, capture_logs() as logged:
            damaged.setattr(FolderStore, "raw", refuse)
            late = resume(watched, cursor, opened)
            until(lambda: any(it["event"] == "stream_waits" for it in logged))
            close(server, "watched")
        first, second = next(late), next(late)
        assert [it.content for it in first.conversation_updated.messages] == ["Two"]
        assert second.WhichOneof("kind") == "heartbeat"


def test_a_space_whose_index_lacks_what_its_streams_wait_for_stays_open_until_they_have_it(
    start_server: Start, enter: Enter, watch: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(max_open_spaces=2)
    watched = watch(server, "watched")
    take_in = Writer._take_in

    def refuse(writer: Writer, documents: Any) -> None:
        if "watched" not in writer.path.parts:
            return take_in(writer, documents)
        for document in documents:
            document.failed("database or disk is full")
        return None

    with pytest.MonkeyPatch.context() as full:
        full.setattr(Writer, "_take_in", refuse)
        watched.append("One")
        for number in range(3):
            enter(server.target, f"other-{number}").conversation_of("Takes a place")
        assert "watched" in server.app.spaces.names()
    assert watched.read(1) == ["One"]


@pytest.mark.parametrize("event", ["an index that is another one", "a part of a draft"])
def test_a_space_is_opened_again_where_something_comes_while_it_is_closed(
    event: str, start_server: Start, watch: Begin
) -> None:
    leave = UpdateLog.leave

    def leave_late(log: UpdateLog[Any], wake: Callable[[], None]) -> Callable[[], None]:
        if event == "a part of a draft":
            cast(LiveUpdates, log)._touch((watched.name, "web"))
        else:
            log._lost()
        return leave(log, wake)

    server = start_server()
    watched = watch(server, "watched")
    with pytest.MonkeyPatch.context() as late:
        late.setattr(UpdateLog, "leave", leave_late)
        close(server, "watched")
    assert until(lambda: "watched" in server.app.spaces.names())


def test_streams_go_on_behind_a_close_of_their_space_that_fails(
    start_server: Start, watch: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: OpenSpace) -> int | None:
        raise ZeroDivisionError("nobody foresaw it")

    server = start_server()
    watched = watch(server, "watched")
    with pytest.MonkeyPatch.context() as failing, capture_logs() as logged:
        failing.setattr(OpenSpace, "due_at", fail)
        close(server, "watched")
    assert [it["event"] for it in logged if it["log_level"] == "error"] == ["space_not_closed"]
    watched.append("One")
    assert watched.read(1) == ["One"]


def keep(opens: Callable[[str], bool], names: set[str]) -> tuple[StreamKeeper, set[str]]:
    """Start a keeper of streams of spaces of these names, and return it and those that it opened.
    `opens` raises what keeps a space from being opened.
    """
    opened: set[str] = set()

    def open_space(name: str) -> Any:
        if opens(name):
            opened.add(name)
        return SimpleNamespace(name=name, is_resting=False)

    spaces: Spaces[Any] = Spaces(open_space, lambda _: True, 10, 10)
    return StreamKeeper(lambda: names - opened, spaces), opened


def test_an_opening_that_fails_as_nobody_foresaw_holds_up_the_streams_of_no_other_space() -> None:
    names = {f"space-{number}" for number in range(5)}
    broken = next(iter(names))
    keeper, opened = keep(lambda name: bool(name != broken or 1 / 0), names)
    assert until(lambda: opened == names - {broken})
    keeper.stop()


def test_a_space_that_cannot_be_opened_for_its_streams_is_tried_later_each_time() -> None:
    tries: list[float] = []

    def refuse(name: str) -> bool:
        tries.append(time.monotonic())
        raise StorageUnavailable(f"the space {name} is damaged")

    keeper, _ = keep(refuse, {"damaged"})
    until(lambda: len(tries) == 3)
    keeper.stop()
    assert tries[2] - tries[1] >= 1
