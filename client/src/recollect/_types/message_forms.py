"""The forms of a message that callers build."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from recollect._types.message_parts import Attachment, Role, ToolCall, Usage


class MessageForms:
    """Constructors of `Message`, one for each role."""

    __slots__ = ()
    """None: those of the data class are its fields."""

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
        return cls._of(Role.USER, content, sender, attachments, channel, timestamp, metadata)

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
        return cls._of(
            Role.ASSISTANT,
            content,
            sender,
            attachments,
            channel,
            timestamp,
            metadata,
            thinking_text=thinking_text,
            tool_calls=tuple(tool_calls),
            usage=usage,
            cost=cost,
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
        return cls._of(
            Role.TOOL,
            content,
            sender,
            attachments,
            channel,
            timestamp,
            metadata,
            tool_call_id=tool_call_id,
        )

    @classmethod
    def _of(
        cls,
        role: Role,
        content: str,
        sender: str,
        attachments: Iterable[Attachment],
        channel: str,
        timestamp: datetime | None,
        metadata: Mapping[str, Any] | None,
        **others: Any,
    ) -> Self:
        make: Any = cls  # the data class, which has these fields
        made: Self = make(
            role=role,
            content=content,
            sender=sender,
            attachments=tuple(attachments),
            channel=channel,
            timestamp=timestamp,
            metadata=dict(metadata or {}),
            **others,
        )
        return made
