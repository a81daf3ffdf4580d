"""Snapshot that a watcher begins with: the newest conversations and the working context of the
first, as of one place in the log.
"""

import threading
from dataclasses import dataclass, replace

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import ConversationNotFound, StorageUnavailable
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.update import ConversationList, ConversationLoaded, Update
from recollect_server.kernel.log.store import START
from recollect_server.kernel.space.turns import read_places
from recollect_server.kernel.space.working_context import LoadLimits, WorkingContext
from recollect_server.kernel.stream.log import Snapshot, UpdateLog
from recollect_server.kernel.stream.ring import Interest

_CONVERSATIONS = 50
_KEPT = 8  # snapshots that many may begin with at once, after a restart


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of conversations in a watcher's snapshot: by default all of them, and the newest one
    loaded.
    """

    load_channel: str = ""
    """Loads the newest conversation on this channel."""
    load_conversation_id: str = ""
    """Loads this conversation."""
    list_channels: tuple[str, ...] = ()
    """Lists those on these channels alone."""


class Snapshots:
    """Takes snapshots. Safe to call from any thread."""

    def __init__(self, log: UpdateLog[Conversation], limits: Live[LoadLimits]) -> None:
        self._log = log
        self._limits = limits
        self._guard = threading.Lock()  # guards `_cache`; nothing slow happens under it
        self._cache: LastUsed[tuple[Interest, Choice, LoadLimits, bool], Snapshot] = LastUsed(_KEPT)

    def take(self, interest: Interest, choice: Choice, max_turns: int, *, reset: bool) -> Snapshot:
        """Take a snapshot as of now.

        Raises DataUnavailable; and, but for a `reset`, ConversationNotFound if the chosen
        conversation is not there, or not wanted.
        """
        limits = self._limits.now  # which may change while the log stands still
        limits = replace(limits, max_turns=max_turns or limits.max_turns)
        key = (interest, choice, limits, reset)
        with self._guard:
            cached = self._cache.get(key)
        # What the index did not take in moves no cursor.
        if (
            cached
            and cached.position == self._log.begin()
            and not self._log.space.overlay.lagging()
        ):
            return cached
        for _ in range(3):
            try:
                taken = self._take(*key)
                break
            except StorageUnavailable:  # the first conversation may have been deleted just now
                continue
        else:
            taken = self._take(*key)
        with self._guard:
            self._cache.keep(key, taken)
        return taken

    def _take(
        self, interest: Interest, choice: Choice, limits: LoadLimits, reset: bool
    ) -> Snapshot:
        space = self._log.space
        start = self._log.begin()
        index = space.index
        chosen = Filter(
            conversation_ids=tuple(sorted(interest.conversation_ids)),
            channels=tuple(sorted(interest.channels)),
            archived=False,
        )
        newest = index.log.newest_conversations(
            replace(chosen, channels=choice.list_channels) if choice.list_channels else chosen,
            _CONVERSATIONS,
            loaded=_loaded(chosen, choice),
            max_turns=limits.max_turns,
            max_tokens=limits.max_tokens,
            max_bytes=limits.max_bytes,
        )
        position, behind = self._log.order.placed(start, newest.cursor)
        loaded = ConversationLoaded()
        if newest.loaded is not None and space.overlay.is_lagging(newest.loaded.id):
            window = WorkingContext(space, self._limits).load(
                newest.loaded.id, max_turns=limits.max_turns
            )
            loaded = ConversationLoaded(
                window.conversation, tuple(window.turns.messages), window.has_more
            )
        elif newest.loaded is not None:
            end = behind.get(newest.loaded.id)
            places = [place for place in newest.places if end is None or place[1] < end]
            messages = read_places(space, newest.loaded.id, places).messages
            conversation = newest.loaded
            if end is not None:
                conversation = self._as_of(conversation.id, end) or conversation
            loaded = ConversationLoaded(conversation, tuple(messages), newest.has_more)
        elif choice.load_conversation_id and not reset:
            raise ConversationNotFound(choice.load_conversation_id)
        now = space.clock()
        listed = Update(
            "",
            "",
            now,
            ConversationList(
                tuple(space.current(it) for it in newest.conversations if behind.get(it.id) != 0)
            ),
            reset=reset,
        )
        second = Update(
            str(position), loaded.conversation.id if loaded.conversation else "", now, loaded
        )
        return Snapshot(position, (self._log.encode(listed), self._log.encode(second)))

    def _as_of(self, conversation_id: str, end: int) -> Conversation | None:
        """Return a conversation as it was up to a byte of its transcript."""
        transcripts = self._log.space.transcripts
        conversation: Conversation | None = None
        for line in transcripts.store.read(conversation_id, START, end):
            conversation = transcripts.folded(conversation, line, conversation_id)
        return conversation


def _loaded(chosen: Filter, choice: Choice) -> Filter:
    """Return which conversations the loaded one is the newest of."""
    if choice.load_conversation_id:
        return replace(chosen, conversation_id=choice.load_conversation_id, archived=None)
    return replace(chosen, channels=(choice.load_channel,)) if choice.load_channel else chosen
