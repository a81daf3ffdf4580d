# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: message parts."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """Role of a speaker. System prompts are not stored, so they have no role."""

    USER = "user"
    """The person. A user message opens a new turn."""
    ASSISTANT = "assistant"
    """The agent: its text, its thinking, its tool calls."""
    TOOL = "tool"
    """The result of a tool call. `Message.tool_call_id` names the call."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model read and wrote, as the caller counted them."""

    input: int = 0
    """Tokens read. Not negative. Unset means 0."""
    output: int = 0
    """Tokens written. Not negative. Unset means 0."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, made by an assistant message."""

    id: str
    """The caller's id of this call. No two calls of a turn may wait for results under one id;
    it may be used again once its result is there. 1 to 256 characters. A Role.TOOL message
    answers the call by this id.
    """
    name: str
    """The tool's name. 1 to 256 characters."""
    arguments: str = ""
    """The arguments as JSON text, stored exactly as the model wrote them, even if they are
    invalid. May be empty. Counts towards the message's limit.
    """


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message. Only the reference is stored, never the bytes."""

    media_type: str
    """The media type, as in `image/png`. 1 to 255 characters."""
    uri: str
    """Place of the bytes. 1 to 8192 characters. Not fetched, not checked."""
    bytes_length: int = 0
    """The length of the file in bytes. Not negative. Unset means unknown."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """Record of the removal of a message's text."""

    by: str = ""
    """The id of the token that asked for it. Unset for a caller without a token."""
    time: datetime | None = None
    """Time at which it was removed."""
