"""One line of a conversation, estimates of its size, and the turns that fit into a budget."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

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


T = TypeVar("T")

BYTES_PER_TOKEN = 4
"""The usual rule of thumb for English prose. Other scripts take more bytes a character and fewer
characters a token.
"""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one for every four bytes of UTF-8, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def message_tokens(message: Message) -> int:
    """Estimate the tokens of a message in a working context: its content and tool calls, without
    its thinking.
    """
    calls = sum(
        estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in message.tool_calls
    )
    return estimate_tokens(message.content) + calls


def newest_turns(
    messages: Iterable[tuple[int, int, int, T]],
    *,
    after_turn: int,
    max_turns: int,
    max_tokens: int,
    max_bytes: int,
) -> tuple[list[T], bool]:
    """Return the newest whole turns within the limits, oldest first, and whether the only turn is
    cut.

    `messages` are `(turn number, tokens, bytes, anything)`, newest first, and are read no further
    than needed. Turns up to `after_turn` are not taken. The newest turn is taken even with more
    tokens than allowed; with more bytes it is cut: its last messages are taken, one at the least.
    """
    chosen: list[T] = []
    turn: list[T] = []  # the messages of a turn that is not known to fit yet
    turn_number = tokens = turns = total = 0
    for number, size, length, message in messages:
        if number <= after_turn:
            break
        if number != turn_number:
            chosen += turn
            turn, turn_number = [], number
            turns += 1
            if turns > max_turns:
                break
        tokens += size
        total += length
        if turns > 1 and (tokens > max_tokens or total > max_bytes):
            turn = []
            break
        if total > max_bytes and turn:
            return turn[::-1], True
        turn.append(message)
    return (chosen + turn)[::-1], False


def first_turns(messages: Iterable[tuple[int, int, T]], max_bytes: int) -> tuple[list[T], bool]:
    """Return the first messages that have so many bytes together, oldest first, and whether there
    are more.

    `messages` are `(turn number, bytes, anything)`, oldest first, and are read no further than
    needed. Turns are whole, unless the first alone is larger: of that its first messages are taken,
    one at the least.
    """
    taken: list[tuple[int, T]] = []
    total = 0
    for turn, length, message in messages:
        total += length
        if taken and total > max_bytes:
            whole = [it for number, it in taken if number != turn]
            return whole or [it for _, it in taken], True
        taken.append((turn, message))
    return [it for _, it in taken], False


def message_bytes(message: Message) -> int:
    """Estimate the bytes of a message in an answer or in memory."""
    texts = [
        message.content,
        message.thinking_text,
        *(call.arguments for call in message.tool_calls),
    ]
    rest = len(str(message.metadata)) if message.metadata else 0
    return 100 + sum(len(text.encode()) for text in texts) + 300 * len(message.attachments) + rest
