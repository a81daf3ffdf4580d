"""A message of a conversation."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from recollect._types.message_parts import Attachment, Redaction, Role, ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One line of a conversation: a user's words, the agent's, or a tool call's result.

    Build one to append with `Message.user`, `Message.assistant` or `Message.tool`. What the server
    gives it (`sequence`, `turn_number` and, where none is brought, `timestamp`) is in the message
    that `append_turn` answers.

    >>> Message.user("Is the disk full again?", sender="Caroline")
    """

    role: Role
    """The speaker."""
    content: str = ""
    """The text."""
    timestamp: datetime | None = None
    """The time of the message, to the millisecond. `None` in a message to append: the server's
    clock sets it.
    """
    thinking_text: str = ""
    """The model's thinking, only of the assistant. Stored and answered, not searched."""
    usage: Usage | None = None
    """The tokens used. `None` means unknown."""
    cost: float | None = None
    """The cost in US dollars. `None` means unknown."""
    channel: str = ""
    """The channel it came over, where that differs from the conversation's."""
    sender: str = ""
    """The speaker's name or address, where the role alone does not tell. Searchable."""
    sender_name: str = ""
    """The sender's display name, as the channel gives it. For people: it proves nothing and is not
    searched.
    """
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that the assistant called."""
    tool_call_id: str = ""
    """The call that a tool's result answers."""
    attachments: tuple[Attachment, ...] = ()
    """Files that came with the message."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    """Anything else that the caller wants back with it, as JSON can hold it. Whole numbers come
    back as `int`.
    """
    sequence: int = 0
    """The number of its line in the transcript, which grows and never changes. 0 until it is
    stored.
    """
    turn_number: int = 0
    """The turn it belongs to, from 1. 0 until it is stored."""
    redaction: Redaction | None = None
    """Set if its text was removed for good: its `content` is then `[redacted]`. Not sent."""

    @classmethod
    def user(
        cls,
        content: str = "",
        *,
        sender: str = "",
        attachments: Iterable[Attachment] = (),
        channel: str = "",
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make a user's message, which opens a new turn. It needs content or an attachment.

        >>> Message.user("Good morning!")
        """
        return cls(
            role=Role.USER,
            content=content,
            sender=sender,
            attachments=tuple(attachments),
            channel=channel,
            timestamp=timestamp,
            metadata=dict(metadata or {}),
        )

    @classmethod
    def assistant(
        cls,
        content: str = "",
        *,
        thinking_text: str = "",
        tool_calls: Iterable[ToolCall] = (),
        usage: Usage | None = None,
        cost: float | None = None,
        sender: str = "",
        attachments: Iterable[Attachment] = (),
        channel: str = "",
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make an agent's message. It needs content, thinking or a tool call.

        >>> calls = [ToolCall("call-1", "df", "{}")]
        >>> Message.assistant("Let me look.", tool_calls=calls, usage=Usage(1200, 35))
        """
        return cls(
            role=Role.ASSISTANT,
            content=content,
            thinking_text=thinking_text,
            tool_calls=tuple(tool_calls),
            usage=usage,
            cost=cost,
            sender=sender,
            attachments=tuple(attachments),
            channel=channel,
            timestamp=timestamp,
            metadata=dict(metadata or {}),
        )

    @classmethod
    def tool(
        cls,
        content: str = "",
        *,
        tool_call_id: str,
        sender: str = "",
        attachments: Iterable[Attachment] = (),
        channel: str = "",
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Self:
        """Make the result of a tool call made earlier in the same turn. Its content may be empty.

        >>> Message.tool("/dev/sda1  97%", tool_call_id="call-1")
        """
        return cls(
            role=Role.TOOL,
            content=content,
            tool_call_id=tool_call_id,
            sender=sender,
            attachments=tuple(attachments),
            channel=channel,
            timestamp=timestamp,
            metadata=dict(metadata or {}),
        )
