"""Pending writes: messages that their transcript refused, held in memory until it takes them.

A caller whose append was refused got UNAVAILABLE and cannot know its fate: the messages may be
written before the next append of the conversation or when the server stops; if the server is killed
before that, they are gone. So the caller repeats the request with the same `request_id` and is
answered once they are written, which happens once. The amount is bounded; beyond the bound a
caller's messages are only written by its repeat. Only messages are held: an event (a title, a
model) is refused for good.
"""

import threading
from dataclasses import dataclass, field

import structlog

from recollect_server.domain.message import Message
from recollect_server.services.space.conversation_logs import ConversationState
from recollect_server.services.space.logs import RequestKey
from recollect_server.services.space.overlay import Overlay
from recollect_server.storage.index.columns import KnownRequest

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


class PendingWrites:
    """The pending writes of a space. Methods about one conversation are called under its lock."""

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
