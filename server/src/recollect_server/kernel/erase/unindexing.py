"""Unindexing: a conversation stays, and searches find nothing of it until somebody writes to it.

The transcript says so, in an event: a new index leaves the conversation out too, whatever the rules
of retention are by then. The words go right after the event, a part at a time: the conversation's
lock is held for a part, so that writers of it wait for no more; what a crash interrupts is
finished by the next start, before anybody searches. A message makes the conversation searchable
again: it is indexed at once as every message is, and a job brings the words of the earlier ones
back.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate

from recollect_server.kernel.domain import conversation as domain
from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import ConversationPinned
from recollect_server.kernel.erase.deletion import NotConfirmed
from recollect_server.kernel.erase.erasing import (
    EDITED_PART_BYTES,
    PART,
    lines_as_indexed,
    part_bytes,
)
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place, searchable_text
from recollect_server.kernel.index.removal import Words
from recollect_server.kernel.log.lines import line_of, messages_of, over
from recollect_server.kernel.log.store import LogNotFound, LogStore, lines_at
from recollect_server.kernel.space.events import Unindexed
from recollect_server.kernel.space.parts import Parts

# Seconds between two parts: a lock that is taken again at once leaves no turn to a thread that
# waits for it, such as an append to the conversation.
_TURN = 0.001


class Unindexing:
    """Takes the words of a space's conversations out of the index, and brings them back."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def unindex(self, conversation_id: str, confirm: Callable[[Conversation], bool]) -> None:
        """Take a conversation out of searches until somebody writes to it.

        `confirm` is asked under the conversation's lock: NotConfirmed is raised if it returns
        False, if the conversation is unindexed already, or if the index lacks lines of it. Raises
        ConversationPinned, ConversationNotFound, DataUnavailable. Hold no lock.
        """
        with self._parts.locks.conversations.hold(conversation_id):
            state = self._parts.writes.end(conversation_id)
            if self._parts.pending.of(conversation_id) or not state.indexed:
                raise NotConfirmed
            if state.conversation.pinned:
                raise ConversationPinned(conversation_id)
            if state.conversation.unindexed or not confirm(state.conversation):
                raise NotConfirmed
            self._parts.writes.append(state, [domain.ConversationUnindexed(self._parts.clock())])
            hit("unindex.recorded")
        self._settle(conversation_id)

    def settle(self) -> bool:
        """Make the words in the index follow one conversation's state. Return False if nothing is
        to do. Raises DataUnavailable.
        """
        due = self._parts.projection.index.removal.unsettled()
        for conversation_id in due[:1]:
            self._settle(conversation_id)
        return bool(due)

    def _settle(self, conversation_id: str) -> None:
        """Take out all words, or bring all back. Hold no lock."""
        index = self._parts.projection.index
        with suppress(LogNotFound):
            while self._settle_part(index, conversation_id):
                time.sleep(_TURN)
        if (stored := index.conversations.find(conversation_id)) is not None:
            index.removal.purge_words(stored.number)

    def _settle_part(self, index: Index, conversation_id: str) -> bool:
        """Take out or bring back a part of the words. Return True if there is more to do."""
        with self._parts.locks.conversations.hold(conversation_id):
            stored = index.conversations.find(conversation_id)
            if stored is None:
                return False
            if not stored.state.unindexed:
                return bring_back_part(self._parts.store, index, conversation_id, stored)
            if take_out_part(self._parts.store, index, conversation_id, stored):
                return True
            hit("unindex.words_gone")
            self._parts.publish(Unindexed(conversation_id, stored.number))
            return False


def settle_all(store: LogStore, index: Index) -> None:
    """Take out what an index has of the words of conversations that are unindexed. Nobody may write
    meanwhile. Raises DataUnavailable.
    """
    for conversation_id in index.conversations.unindexed():
        if (stored := index.conversations.find(conversation_id)) is not None:
            with suppress(LogNotFound):
                while take_out_part(store, index, conversation_id, stored):
                    pass
                index.removal.purge_words(stored.number)


def take_out_part(
    store: LogStore, index: Index, conversation_id: str, stored: Stored[Conversation]
) -> bool:
    """Take out the first words of a conversation that are there. Return False if none is left.
    Hold its lock. Raises LogNotFound.
    """
    number, lines = stored.number, stored.lines
    if (before := index.removal.wordless_line(number)) >= lines:
        return False
    mark = index.removal.is_long([conversation_id])
    last = min(before + PART, lines)
    places = index.messages.of_lines(number, before + 1, last)
    part = _first_part(places, part_bytes(mark=mark))
    if len(part) < len(places):
        last = part[-1][0]
    spoken = _spoken(store, index, conversation_id, part, stored)
    if len(spoken) < len(part):
        # Its words are in the index and cannot be named any more.
        index.want_rebuild(f"a line of {conversation_id} is damaged")
    index.removal.take_out(number, spoken, last, mark=mark)
    hit("unindex.part")
    return last < lines


def bring_back_part(
    store: LogStore, index: Index, conversation_id: str, stored: Stored[Conversation]
) -> bool:
    """Bring back the last words that a conversation lacks in the index. Return False if it lacks
    none. Hold its lock. Raises LogNotFound.
    """
    number = stored.number
    if not (line := index.removal.wordless_line(number)):
        return False
    first = max(1, line - PART + 1)
    newest = index.messages.of_lines(number, first, line)[::-1]
    part = _first_part(newest, EDITED_PART_BYTES)
    before = part[-1][0] - 1 if len(part) < len(newest) else first - 1
    spoken = _spoken(store, index, conversation_id, part[::-1], stored)
    index.removal.bring_back(number, spoken, before)
    hit("reindex.part")
    return before > 0


def _first_part(places: list[Place], most: int) -> list[Place]:
    """Return the first places, until their messages have about `most` bytes together."""
    ends = accumulate(length for _, _, length in places)
    return places[: next((at for at, end in enumerate(ends, 1) if end >= most), None)]


def _spoken(
    store: LogStore,
    index: Index,
    conversation_id: str,
    places: list[Place],
    stored: Stored[Conversation],
) -> list[Words]:
    """Return what the lines at these places say, but for damaged ones, as the index has them."""
    there = lines_at(store, conversation_id, places)
    if (old := lines_as_indexed(store, index, conversation_id, stored)) is not None:
        raw = (line_of(old[place[0] - 1], place[0], place[1]) for place in places)
        there = [*over(conversation_id, old).lines(raw)]
    messages = messages_of(there)
    analysis = index.tables.analysis
    return [(it.sequence, searchable_text(analysis, it)) for it in messages]
