"""Messages that their transcript refused, held in memory until it takes them.

A caller whose append was refused got UNAVAILABLE and knows nothing for certain: its messages may be written yet, before the next
append of the conversation or when the server stops; if the server is killed before, they are gone. So it repeats the request with
the same `request_id`, and is answered once they are written, which happens once. What is held is bounded; beyond the bound nothing
more is held, and such a caller's messages are only written by its repeat. Only messages are held: what an event says (a title, a
model) is refused for good.
"""

import threading
from dataclasses import dataclass, field

import structlog

from recollect_server.domain.message import Message
from recollect_server.services.space.head import Head, RequestKey

log = structlog.get_logger("recollect.holding")

MAX_MESSAGES = 10_000
MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one append, placed behind what is held before them."""

    messages: list[Message]
    turn_count: int
    """Turns before the batch, when it was placed."""
    request: RequestKey | None
    draft_id: str
    size: int
    """Bytes of its lines."""


@dataclass(slots=True)
class Stuck:
    """A conversation whose transcript refused a write."""

    head: Head
    """The end of what is written. Kept here, for the file may have bytes behind it that never reached the disk."""
    end: Head
    """The end behind what is held."""
    batches: list[Batch] = field(default_factory=list)


class Holding:
    """What is held of a space. What concerns one conversation is called under that conversation's lock."""

    def __init__(self, max_messages: int = MAX_MESSAGES, max_bytes: int = MAX_BYTES) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._stuck: dict[str, Stuck] = {}
        self._guard = threading.Lock()  # guards the totals and the requests; only arithmetic happens under it
        self._requests: dict[str, tuple[RequestKey, str]] = {}
        self.messages = 0
        self.bytes = 0

    def of(self, conversation_id: str) -> Stuck | None:
        """A conversation that is stuck, or None."""
        return self._stuck.get(conversation_id)

    def request(self, request_id: str) -> tuple[RequestKey, str] | None:
        """A request whose messages are held, with its conversation; or None."""
        return self._requests.get(request_id)

    def all(self) -> list[Stuck]:
        """Everything that is stuck."""
        return list(self._stuck.values())

    def keep(self, head: Head) -> Stuck:
        """Remembers where a conversation ends whose transcript refused a write."""
        return self._stuck.setdefault(head.conversation.id, Stuck(head, head))

    def hold(self, stuck: Stuck, end: Head, batch: Batch, reason: str) -> bool:
        """Holds a batch, which ends at `end`. False if there is no room for it."""
        count, conversation_id = len(batch.messages), end.conversation.id
        with self._guard:
            held = self.messages + count <= self._max_messages and self.bytes + batch.size <= self._max_bytes
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

    def written(self, stuck: Stuck, head: Head) -> None:
        """The first batch is written, and the transcript ends here now."""
        self.drop(stuck)
        stuck.head = head
        log.warning("held_messages_written", conversation=head.conversation.id, held_messages=self.messages)

    def drop(self, stuck: Stuck) -> None:
        """Forgets the first batch: it stands in the transcript."""
        batch = stuck.batches.pop(0)
        with self._guard:
            self._count(batch, stuck.head.conversation.id, -1)

    def release(self, conversation_id: str) -> None:
        """The conversation is not stuck any more, or gone: drops what is held of it."""
        stuck = self._stuck.pop(conversation_id, None)
        while stuck and stuck.batches:
            self.drop(stuck)

    def _count(self, batch: Batch, conversation_id: str, sign: int) -> None:
        self.messages += sign * len(batch.messages)
        self.bytes += sign * batch.size
        if batch.request and sign > 0:
            self._requests[batch.request.id] = (batch.request, conversation_id)
        elif batch.request:
            self._requests.pop(batch.request.id, None)
