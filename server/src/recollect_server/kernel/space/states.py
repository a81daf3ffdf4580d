"""States of conversations at the end of what is written, loaded once and kept in memory, and the
messages that wait to be written behind them.

A state is loaded from the index, which is caught up with the transcript first; where the index
fails, from the transcript alone.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from recollect_server.kernel.compare.comparison import Comparison
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    DataUnavailable,
    IndexUnavailable,
)
from recollect_server.kernel.domain.ids import is_conversation_id
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.log.lines import Line, lines_of
from recollect_server.kernel.log.store import LogNotFound, Version
from recollect_server.kernel.space.conversation_logs import ConversationLogs, ConversationState
from recollect_server.kernel.space.events import CaughtUp, CursorsLost, Reloaded
from recollect_server.kernel.space.logs import (
    IndexAhead,
    RedactedElsewhere,
    RequestKey,
    check_redaction,
)
from recollect_server.kernel.space.projection import Overlay, Projection

log = structlog.get_logger("recollect.pending")

_MAX_MESSAGES = 10_000
_MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one append, placed behind the batches before it."""

    messages: list[Message]
    turn_count: int
    """Number of turns before the batch, when it was placed."""
    request: RequestKey | None
    draft_id: str
    size: int
    """Size of its lines in bytes."""


@dataclass(slots=True)
class Stuck:
    """A conversation whose transcript refused a write."""

    written: ConversationState
    """The end of what is written. Kept here, for the file may have more bytes, which never reached
    the disk.
    """
    end: ConversationState
    """The end behind the pending batches."""
    batches: list[Batch] = field(default_factory=list)
    reason: str = ""
    """Reason that the transcript gave for refusing the last try."""


class PendingWrites:
    """The pending writes of a space: messages that their transcript refused, held in memory until
    it takes them. Methods about one conversation are called under its lock.

    A caller whose append was refused got UNAVAILABLE and cannot know its fate: the messages are
    written before the next append of the conversation, by the job that tries them again, or when
    the server stops; if the server is killed before that, they are gone. So the caller repeats the
    request with the same `request_id` and is answered once they are written, which happens once.
    The amount is bounded; beyond the bound a caller's messages are only written by its repeat. Only
    messages are held: an event (a title, a model) is refused for good.
    """

    def __init__(self, overlay: Overlay) -> None:
        """Make the requests of what is pending known to the overlay."""
        self._overlay = overlay
        self._stuck: dict[str, Stuck] = {}
        self.of = self._stuck.get
        """Returns a conversation that is stuck, or None."""
        self._guard = threading.Lock()  # guards the totals; only arithmetic happens under it
        self.messages = 0
        self.bytes = 0

    def all(self) -> list[Stuck]:
        """Return every conversation that is stuck."""
        return list(self._stuck.values())

    def refused(self, stuck: Stuck, reason: str) -> None:
        """Note what a transcript said to the last try."""
        stuck.reason = self._overlay.held_because = reason

    def reason(self) -> str:
        """Return what a transcript said to the last try; empty if nothing is pending."""
        return next((it.reason for it in self.all() if it.batches), "")

    def keep(self, state: ConversationState) -> Stuck:
        """Remember the end of a conversation whose transcript refused a write."""
        return self._stuck.setdefault(state.conversation.id, Stuck(state, state))

    def hold(self, stuck: Stuck, end: ConversationState, batch: Batch, reason: str) -> bool:
        """Hold a batch, which ends at `end`. Return False if there is no room for it."""
        count, conversation_id = len(batch.messages), end.conversation.id
        with self._guard:
            held = self.messages + count <= _MAX_MESSAGES and self.bytes + batch.size <= _MAX_BYTES
            if held:
                self._count(batch, conversation_id, 1)
        if held:
            if not stuck.batches:
                self.refused(stuck, reason)
            stuck.batches.append(batch)
            stuck.end = end
        log.error(
            "messages_held" if held else "messages_not_held",
            conversation=conversation_id, messages=count, reason=reason, held_messages=self.messages, held_bytes=self.bytes,
        )  # fmt: skip
        return held

    def written(self, stuck: Stuck, state: ConversationState) -> None:
        """Drop the first batch, which is written, and move the written end behind it."""
        self.drop(stuck)
        stuck.written = state
        log.warning(
            "held_messages_written", conversation=state.conversation.id, held_messages=self.messages
        )

    def drop(self, stuck: Stuck) -> None:
        """Drop the first batch: it is in the transcript."""
        batch = stuck.batches.pop(0)
        with self._guard:
            self._count(batch, stuck.written.conversation.id, -1)

    def release(self, conversation_id: str) -> None:
        """Drop all batches of a conversation, which is not stuck any more, or is deleted."""
        stuck = self._stuck.pop(conversation_id, None)
        while stuck and stuck.batches:
            self.drop(stuck)

    def _count(self, batch: Batch, conversation_id: str, sign: int) -> None:
        self.messages += sign * len(batch.messages)
        self.bytes += sign * batch.size
        if batch.request and sign > 0:
            self._overlay.add_pending(
                KnownRequest(batch.request.id, batch.request.hash, conversation_id)
            )
        elif batch.request:
            self._overlay.drop_pending(batch.request.id)


_MAX_STATES = 20_000  # some 1 KiB each
_RESTING_STATES = 16  # of a space at rest, of which there may be many


class States:
    """The states of a space's conversations. Hold a conversation's lock for what concerns it."""

    def __init__(
        self,
        transcripts: ConversationLogs,
        projection: Projection,
        pending: PendingWrites,
        clock: Clock,
        publish: Callable[[object], None],
        *,
        may_index: bool = True,
    ) -> None:
        """`may_index`: a conversation of which the index lacks lines is indexed when it is read."""
        self._may_index = may_index
        self._transcripts = transcripts
        self._projection = projection
        self._pending = pending
        self._clock = clock
        self._publish = publish
        self._guard = threading.Lock()  # guards `_states`; nothing slow happens under it
        self._states: LastUsed[str, ConversationState] = LastUsed(_MAX_STATES)

    def get(self, conversation_id: str) -> ConversationState:
        """Return the state at the end of what is written.

        Raises ConversationNotFound, StorageUnavailable.
        """
        if stuck := self._pending.of(conversation_id):
            if self._projection.overlay.is_lagging(conversation_id):
                return replace(stuck.written, indexed=False)
            return stuck.written
        with self._guard:
            if state := self._states.get(conversation_id):
                self._states.move_to_end(conversation_id)
                return state
        state = self.load(conversation_id)
        self.keep(state)
        return state

    def held(self, conversation_id: str) -> ConversationState | None:
        """Return the state at the end of what is known here, whatever others wrote; None of a
        conversation that is not known.
        """
        with self._guard:
            if state := self._states.get(conversation_id):
                return state
        stored = self._projection.index.conversations.find(conversation_id)
        if stored is None:
            return None
        return ConversationState(
            stored.state,
            stored.bytes,
            stored.lines,
            stored.number,
            indexed=not self._projection.overlay.is_lagging(conversation_id),
        )

    def load(self, conversation_id: str) -> ConversationState:
        """Read a state, and index what the index lacks of the conversation.

        Raises ConversationNotFound, StorageUnavailable.
        """
        if not is_conversation_id(conversation_id):
            raise ConversationNotFound(conversation_id)
        try:
            size = self._transcripts.store.length(conversation_id)
        except LogNotFound:
            raise self._transcripts.not_found(conversation_id) from None
        overlay, index = self._projection.overlay, self._projection.index
        try:
            stored = index.conversations.find(conversation_id)
            if stored is None or stored.bytes != size:
                if not self._may_index:
                    return self._read(conversation_id)
                number, conversation, end = self._transcripts.catch_up(
                    index, conversation_id, stored, time=self._clock(), log_updates=True
                )
                stored = Stored(number, conversation, end.bytes, end.lines)
                if index.writer.note_refused_cursors():
                    self._publish(CursorsLost())
                self._publish(CaughtUp(conversation_id))
            else:
                self._transcripts.check_own(conversation_id)
            overlay.caught_up(conversation_id)
            return ConversationState(
                stored.state, stored.bytes, stored.lines, stored.number, indexed=True
            )
        except IndexUnavailable as error:
            overlay.note_lag(conversation_id, str(error))
            if isinstance(error, IndexAhead) and not self._will_follow(error, conversation_id):
                # The file may grow past what is indexed, and the next start would take that for its
                # own.
                index.condemn(str(error))
            return self._read(conversation_id)

    def _will_follow(self, error: IndexAhead, conversation_id: str) -> bool:
        """Return whether a redaction by another process is still to be followed, and the store has
        the words that the index has: its change comes, and takes them out.
        """
        if not isinstance(error, RedactedElsewhere):
            return False
        with suppress(DataUnavailable):
            stored = self._projection.index.conversations.find(conversation_id)
            store = self._transcripts.store
            if stored is None:
                return False
            old = lines_of(conversation_id, list(store.raw(conversation_id, Version.REPLACED)))
            for line in old[stored.lines :]:
                check_redaction(line, stored.lines, conversation_id)
            return True
        return False

    def _read(self, conversation_id: str) -> ConversationState:
        """Read a state from its transcript alone."""
        lines, conversation = self._transcripts.read_whole(conversation_id)
        if conversation is None:
            raise self._transcripts.not_found(conversation_id)
        return ConversationState(
            conversation, lines[-1].end, lines[-1].sequence, None, indexed=False
        )

    def keep(self, state: ConversationState) -> None:
        """Remember a state, unless the index lacks lines of the conversation.

        It is then loaded again for the next write, which tries again to catch the index up.
        """
        conversation_id = state.conversation.id
        with self._guard:
            self._states.keep(conversation_id, state)
            # Asked only now: the index may refuse lines at any moment, and says so before it drops
            # the state.
            if not state.indexed or self._projection.overlay.is_lagging(conversation_id):
                del self._states[conversation_id]

    def not_indexed(self, conversation_id: str, lines: list[Line], reason: str) -> None:
        """Note that the index refused these lines: the next call on the conversation indexes them
        from its transcript.
        """
        self._projection.overlay.note_lag(conversation_id, reason, lines)
        with self._guard:
            self._states.pop(conversation_id, None)

    def forget(self, conversation_id: str) -> None:
        """Drop what is remembered of a conversation, whose log changed or is deleted."""
        with self._guard:
            self._states.pop(conversation_id, None)
        self._publish(Reloaded(conversation_id))

    def clear(self) -> None:
        """Drop every state."""
        with self._guard:
            self._states.clear()

    def shrink(self) -> None:
        """Drop all but the states of the conversations that were used last."""
        with self._guard:
            self._states.shrink(_RESTING_STATES)

    def is_pinned(self, conversation_id: str) -> bool:
        """Return True if a conversation is known, without a look-up, to be there and pinned."""
        state = self._states.get(conversation_id)
        return state is not None and state.conversation.pinned

    def compare(self, conversation_id: str) -> None:
        """Compare the index with a conversation's transcript, all but the words.

        Raises DataUnavailable, too if the index lags, or if they differ: then nothing believes it
        any more.
        """
        index = self._projection.index
        stored = index.conversations.find(conversation_id)
        if self._projection.overlay.is_lagging(conversation_id) or self._pending.of(
            conversation_id
        ):
            raise IndexUnavailable("the index did not take in the newest lines")
        if stored is None:
            problem = "it is not in the index"
        else:
            compared = Comparison(self._transcripts.store, index).of(
                self._transcripts, conversation_id
            )
            problem = next(iter(compared.differences), "") if compared else ""
        if problem:
            self.distrust(f"{conversation_id}: {problem}")
            raise IndexUnavailable(f"the index is damaged: {problem}")

    def distrust(self, reason: str) -> None:
        """Stop using the index at once, with every number that it gave: it contradicts the logs."""
        self._projection.give_up(reason)
        self.clear()
