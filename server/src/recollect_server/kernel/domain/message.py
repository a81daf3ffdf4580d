"""One line of a conversation."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from recollect_server.kernel.domain.frozen import frozen


class Role(StrEnum):
    """Speaker of a message. The values are those of the transcript."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model read and wrote."""

    input: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A reference to a file; `bytes_length` 0 means unknown."""

    media_type: str
    uri: str
    bytes_length: int = 0


@dataclass(frozen=True, slots=True)
class Redaction:
    """Record that a message's text was removed for good: by which token, and when."""

    by: str = ""
    """Id of the token; empty: a caller without one, or the line had no room for it."""
    time: int = 0
    """In milliseconds; 0: the line had no room for it."""


REDACTED = "[redacted]"
"""Text that stands for a redacted message wherever messages are shown."""


@frozen
class Message:
    """A message as stored, or, with sequence 0, as a caller gave it.

    Of the latter `timestamp` may be 0: unset; and `turn_number` is 0 but for a late one, which has
    that of its turn.
    """

    role: Role
    content: str = ""
    timestamp: int = 0
    sequence: int = 0
    turn_number: int = 0
    thinking_text: str = ""
    usage: Usage | None = None
    cost: float | None = None
    channel: str = ""
    sender: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    attachments: tuple[Attachment, ...] = ()
    metadata: dict[str, Any] | None = field(default=None, hash=False)
    arrived: int = 0
    """The server's time when it came, where that decides the recency (see
    `kernel.domain.time.arrival`); else 0.
    """
    sender_name: str = ""
    """The sender's display name, for people."""
    redaction: Redaction | None = None
    """Set if its text was removed: what is left is a tombstone."""

    @property
    def shown(self) -> str:
        """Return the text that people and models are shown."""
        return self.content if self.redaction is None else REDACTED


def reading_order(message: Message) -> tuple[int, int]:
    """Return the sort key of a message in its conversation: a late one is read in its turn, not
    where it was stored.
    """
    return message.turn_number, message.sequence
