"""Delivered updates are in the index already, and a snapshot is of exactly one place in the log."""

import itertools
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from recollect_server.kernel.domain.conversation import Began, Conversation, fold
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.updates import Added
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Entry, Line
from recollect_server.kernel.log.order import Mark
from recollect_server.kernel.space.space import Space
from recollect_server.run.features import FEATURES

from tests.at_rest import opened
from tests.streaming.conftest import Recorder, Subscriber

Subscribe = Callable[..., Subscriber]
ID = "conv-01J00000000000000000000000"


def lines(*sequences: int) -> list[Line]:
    """Return lines of ten bytes each: the first one, or messages."""
    began, text = Began(ID, "web", 1), Message(Role.USER, "x", 1, turn_number=1)
    return [Line(s, s * 10 - 10, 10, Entry(began if s == 1 else text)) for s in sequences]


def test_what_is_told_can_be_read_and_what_was_refused_is_not_told(tmp_path: Path) -> None:
    index = Index(tmp_path, FEATURES.tables)
    delivered: list[tuple[int, int]] = []
    readable: list[bool] = []
    refused: list[str] = []

    def receive(notices: Sequence[tuple[int, object]]) -> None:
        with apsw.Connection(
            str(tmp_path / "conversations.db"), flags=apsw.SQLITE_OPEN_READONLY
        ) as other:
            for cursor, what in notices:
                assert isinstance(what, Added)
                delivered.append((cursor, what.lines[0].sequence))
                readable.append(
                    other.execute("SELECT 1 FROM updates WHERE cursor = ?", (cursor + 1,)).get == 1
                )

    index.writer.listeners.append(receive)
    state = fold(None, Began(ID, "web", 1))
    assert isinstance(state, Conversation)
    add = partial(index.add, time=1, failed=refused.append)
    number, first = add(None, None, state, lines(1))
    add(number, state, state, lines(2))
    add(number, state, state, lines(4))  # line 3 is missing: refused, alone
    _, last = add(number, state, state, lines(3))
    index.settle()
    before = first - 1
    assert last == before + 4
    assert delivered == [(before, 1), (before + 1, 2), (before + 3, 3)]
    assert readable == [True] * 3
    assert len(refused) == 1
    index.close()


def test_a_snapshot_and_what_follows_it_are_everything_once(
    subscribe: Subscribe, service: Recorder
) -> None:
    name = service.create().id
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            service.turn(name, str(number))

    writer = threading.Thread(target=write)
    writer.start()
    many = [subscribe(max_turns=1000).ready() for _ in range(12)]
    for one in many:
        one.until_count("conversation_updated", 5)
    stop.set()
    writer.join()
    for one in many:
        (loaded,) = one.of("conversation_loaded")
        before = [message.sequence for message in loaded.messages]
        after = [
            message.sequence
            for updated in one.of("conversation_updated")
            for message in updated.messages
        ]
        assert before + after == list(range(2, 2 + len(before + after)))
        assert loaded.conversation.message_count == len(before)


def test_what_was_not_written_when_an_append_was_answered_comes_behind_its_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that reads after an answer, and streams from its cursor, misses nothing."""
    here = opened(tmp_path, sync=False)
    slow, quick = ID, ID[:-1] + "1"
    for name in (slow, quick):
        here.space.begin([Began(name, "web", 1)], None)
    is_writing, goes_on = threading.Event(), threading.Event()
    append = FolderStore.append

    def hang(store: FolderStore, name: str, *args: Any) -> str:
        if name == slow:
            is_writing.set()
            goes_on.wait()
        return append(store, name, *args)

    monkeypatch.setattr(FolderStore, "append", hang)
    thread = threading.Thread(target=write, args=(here.space, slow))
    thread.start()
    is_writing.wait()
    cursor = Mark.of(write(here.space, quick))
    goes_on.set()
    thread.join()
    assert cursor is not None
    here.index.settle()
    changes = here.space.order.after(cursor.key, Kind.CONVERSATION, 10, 1 << 20)
    here.close()
    assert [change.log for change in changes.rows] == [slow]


def write(space: Space, name: str) -> str:
    """Append a message, and return the cursor of the answer."""
    with space.writing(name) as state:
        message = Message(Role.USER, "x", 1, turn_number=1, sequence=state.lines + 1)
        return space.append(state, [message]).cursor
