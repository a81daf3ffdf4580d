"""Unindexing: a conversation stays, and searches find nothing of it until somebody writes to it.

The transcript says so, in an event: a new index leaves the conversation out too, whatever the rules
of retention are by then. The words go right after the event, under the conversation's lock; what a
crash interrupts is finished by the next start, before anybody searches. A message makes the
conversation searchable again: it is indexed at once as every message is, and a job brings the words
of the earlier ones back.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise

from recollect_server.domain import conversation as domain
from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import (
    ConversationNotFound,
    ConversationPinned,
)
from recollect_server.domain.ids import MAX_LINES
from recollect_server.domain.time import Clock
from recollect_server.services.space.deletion import NotConfirmed
from recollect_server.services.space.events import Unindexed
from recollect_server.services.space.locks import Locks
from recollect_server.services.space.pending import PendingWrites
from recollect_server.services.space.projection import Projection
from recollect_server.services.space.writes import Writes
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.removal import Spoken
from recollect_server.storage.logs.lines import messages_of
from recollect_server.storage.logs.store import LogNotFound, LogStore

# messages of one transaction, and bytes of their lines: other writers take their turn between
_PART, _PART_SIZE = 1000, 16 << 10
_MARKED_PART_SIZE = 256 << 10  # where words are only marked, which takes a fiftieth of the time


class Unindexing:
    """Takes the words of a space's conversations out of the index, and brings them back."""

    def __init__(
        self,
        store: LogStore,
        projection: Projection,
        pending: PendingWrites,
        writes: Writes,
        locks: Locks,
        clock: Clock,
        publish: Callable[[object], None],
    ) -> None:
        self._store = store
        self._projection = projection
        self._pending = pending
        self._writes = writes
        self._locks = locks
        self._clock = clock
        self._publish = publish

    def unindex(self, conversation_id: str, confirm: Callable[[Conversation], bool]) -> None:
        """Unindex a conversation (see `Space.unindex`)."""
        with self._locks.conversations.hold(conversation_id):
            state = self._writes.end(conversation_id)
            if self._pending.of(conversation_id) or not state.indexed:
                raise NotConfirmed
            if state.conversation.pinned:
                raise ConversationPinned(conversation_id)
            if state.conversation.unindexed or not confirm(state.conversation):
                raise NotConfirmed
            self._writes.append(state, [domain.Unindexed(self._clock())], None, "")
            hit("unindex.recorded")
            self._settle(conversation_id)

    def settle(self) -> bool:
        """Make the words in the index follow one conversation's state. Return False if nothing is
        to do. Raises IndexUnavailable, StorageUnavailable.
        """
        due = self._projection.index.wordless.due()
        for conversation_id in due[:1]:
            with self._locks.conversations.hold(conversation_id), suppress(ConversationNotFound):
                self._settle(conversation_id)
        return bool(due)

    def _settle(self, conversation_id: str) -> None:
        index = self._projection.index
        if (number := settle_words(self._store, index, conversation_id)) is not None:
            self._publish(Unindexed(conversation_id, number))


def settle_all(store: LogStore, index: Index) -> None:
    """Take out what an index has of the words of conversations that are unindexed. Nobody may
    write meanwhile. Raises IndexUnavailable, StorageUnavailable.
    """
    for conversation_id in index.conversations.unindexed():
        with suppress(ConversationNotFound):
            settle_words(store, index, conversation_id)


def settle_words(store: LogStore, index: Index, conversation_id: str) -> int | None:
    """Take out the words of a conversation that is unindexed, or bring back those of one that is
    not. Return its number if it is unindexed. Hold its lock.
    """
    stored = index.conversations.find(conversation_id)
    if stored is None:
        return None
    number, line = stored.number, index.wordless.line(stored.number)
    try:
        if stored.conversation.unindexed:
            mark = index.removal.is_long(number)
            most = _MARKED_PART_SIZE if mark else _PART_SIZE
            places = index.messages.of_lines(number, line + 1, MAX_LINES)
            for part in _parts(places, most):
                spoken = _spoken(store, conversation_id, part)
                if len(spoken) < len(part):
                    # Its words are in the index and cannot be named any more.
                    index.want_rebuild(f"a line of {conversation_id} is damaged")
                index.wordless.take_out(number, spoken, part[-1][0], mark=mark)
                hit("unindex.part")
            index.removal.purge_words(number)
            index.removal.end(number)
            return number
        if line:
            places = index.messages.of_lines(number, 1, line)
            parts = [[], *_parts(places, _PART_SIZE)]
            for before, part in reversed([*pairwise(parts)]):
                last = before[-1][0] if before else 0
                index.wordless.bring_back(number, _spoken(store, conversation_id, part), last)
                hit("reindex.part")
    except LogNotFound:
        raise ConversationNotFound(conversation_id) from None
    return None


def _parts(places: list[Place], most: int) -> Iterator[list[Place]]:
    """Yield places a part at a time, each with about `most` bytes."""
    part: list[Place] = []
    size = 0
    for place in places:
        part.append(place)
        size += place[2]
        if len(part) == _PART or size >= most:
            yield part
            part, size = [], 0
    if part:
        yield part


def _spoken(store: LogStore, conversation_id: str, places: list[Place]) -> list[Spoken]:
    """Return what the lines at these places say, but for damaged ones."""
    messages = messages_of(store.read_at(conversation_id, places))
    return [(it.sequence, it.sender, it.content) for it in messages]
