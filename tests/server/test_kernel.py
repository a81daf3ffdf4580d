"""The kernel of a space (log, order, index, erase, stream) without any feature."""

from pathlib import Path

import pytest
from recollect_server.kernel.compare.recovery import no_progress, rebuild, recover
from recollect_server.kernel.compare.verification import verify
from recollect_server.kernel.domain.conversation import Began
from recollect_server.kernel.domain.errors import ConversationNotFound
from recollect_server.kernel.domain.ids import new_ulid
from recollect_server.kernel.domain.live import Holder
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.domain.time import system_clock
from recollect_server.kernel.domain.update import LogDeleted, Update, Updated
from recollect_server.kernel.erase.deletion import DELETE_ANCHORS
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import seal
from recollect_server.kernel.log.store import START
from recollect_server.kernel.space.conversation_logs import placed
from recollect_server.kernel.space.features import Features
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import LoadLimits, turns_of
from recollect_server.kernel.stream.live import Choice, LiveUpdates
from recollect_server.kernel.stream.ring import Interest

from tests.conftest import RunningServer
from tests.server.conftest import Service

NONE = Features()
WORDS = "SELECT count(*) FROM turns_fts WHERE turns_fts MATCH ?"


def opened(folder: Path) -> Space:
    """Open a space as a start does, with an empty list of features."""
    logs = FolderStore(folder, sync=False)
    index = recover(logs, NONE, system_clock, no_progress).index
    return Space(logs, index, NONE, system_clock)


def begun(space: Space, text: str) -> str:
    """Begin a conversation with a message."""
    name, now = f"conv-{new_ulid()}", system_clock()
    space.begin([Began(name, "web", now), Message(Role.USER, text, now, 2, 1)], None)
    return name


def append(space: Space, name: str, text: str) -> None:
    with space.writing(name) as state:
        space.append(state, placed(state, [Message(Role.ASSISTANT, text, 0)], space.clock()))


def texts(space: Space, name: str) -> list[str]:
    turns = turns_of(space, space.read(name), 1, 9)
    return [it.content for it in turns.messages]


def close(space: Space) -> None:
    space.close()
    space.store.close()


def test_it_appends_reads_streams_and_deletes_conversations(tmp_path: Path) -> None:
    folder = tmp_path / "space"
    space = opened(folder)
    updates: list[Update] = []

    def encode(update: Update) -> bytes:
        updates.append(update)
        return b"update"

    limits = Holder(LoadLimits(10, 1000, 1 << 20))
    live = LiveUpdates(space, limits, encode, draft_timeout=60_000, max_draft=1000)
    watcher = live.subscribe(Interest(), Choice(), "", 0)
    watcher.take(10)  # the snapshot
    updates.clear()
    one, other = begun(space, "apricot"), begun(space, "medlar")
    append(space, one, "quince")
    assert texts(space, one) == ["apricot", "quince"]
    space.deletions.delete(other, DELETE_ANCHORS)
    with pytest.raises(ConversationNotFound):
        space.read(other)
    space.index.settle()
    live.advance()
    while watcher.take(10)[1]:
        pass
    kinds = [(it.log, type(it.kind)) for it in updates]
    assert (one, Updated) in kinds
    assert kinds[-1] == (other, LogDeleted)
    live.unsubscribe()
    close(space)
    again = opened(folder)
    assert texts(again, one) == ["apricot", "quince"]
    assert [again.index.value(WORDS, (it,)) for it in ("quince", "medlar")] == [1, 0]
    close(again)
    assert verify(FolderStore(folder), NONE, no_progress).lines() == []


def test_what_a_whole_server_wrote_is_read_and_the_lines_of_features_stay(
    server: RunningServer, service: Service
) -> None:
    name = service.conversation_of("apricot")
    server.stop()
    other = f"ext-{new_ulid()}"
    began = {
        "type": "meta",
        "id": other,
        "channel": "sms",
        "party": "1",
        "created": "2026-11-29T10:00:00Z",
    }
    FolderStore(server.folder).append(other, START, [seal(began)])
    before = {it: it.read_bytes() for it in server.folder.rglob("*.jsonl")}
    rebuild(FolderStore(server.folder), NONE, system_clock, no_progress).index.close(sound=True)
    space = opened(server.folder)
    assert texts(space, name) == ["apricot"]
    close(space)
    assert {it: it.read_bytes() for it in server.folder.rglob("*.jsonl")} == before
