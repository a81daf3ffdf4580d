# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: message."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from recollect._types.message_forms import MessageForms
from recollect._types.message_parts import Attachment, Redaction, Role, ToolCall, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(MessageForms):
    """One message of a conversation: a user's words, the agent's, or a tool call's result.

    The whole message, as it is encoded in the request, may be 1 MiB (setting
    `max_message_bytes`). No text field may hold the character NUL. In a request the fields
    marked "output only" are ignored.

    Build one to append with `Message.user`, `Message.assistant` or `Message.tool`.

    >>> Message.user("Is the disk full again?", sender="Caroline")
    """

    role: Role
    """The role of the speaker. Required."""
    content: str = ""
    """The text. A user message needs content or an attachment; an assistant message needs
    content, thinking, a tool call or an attachment, unless its request also has tool calls or
    tool results; a tool result may be empty.
    """
    timestamp: datetime | None = None
    """Time at which it was said. Unset means the server's clock at the moment it is stored; an
    import or a delayed channel sets its own. After 1970-01-01T00:00:00Z, at most one day ahead
    of the server's clock. Stored to the millisecond.
    """
    thinking_text: str = ""
    """The model's thinking, only with Role.ASSISTANT. Stored and answered, not searched."""
    usage: Usage | None = None
    """Tokens that the message cost. Unset means unknown."""
    cost: float | None = None
    """US dollars that the message cost. Finite, not negative. Unset means unknown."""
    channel: str = ""
    """The channel it came over, if that is not the conversation's; of the same form. Unset
    means the conversation's.
    """
    sender: str = ""
    """The speaker's name or address, if the role alone does not tell ("Caroline"). At most 256
    characters on one line, without control characters. Searchable.
    """
    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that the agent called, only with Role.ASSISTANT. At most 128."""
    tool_call_id: str = ""
    """The call that this result answers, only with Role.TOOL and required there: the id of an
    earlier call that is not answered yet. The newest turn with such a call takes the result.
    Among earlier turns, the conversation's last 256 unanswered calls can still be answered, and
    any call of the turn that AppendTurnRequest.in_reply_to_turn names.
    """
    attachments: tuple[Attachment, ...] = ()
    """Files that came with the message. At most 64."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    """Anything else that the caller wants back with the message. Stored and answered, not
    searched. At most 64 KiB as JSON and 24 levels deep. Its numbers are doubles.
    """
    sender_name: str = ""
    """The display name of the sender, as the channel gives it ("Hanan"). It is for people and
    proves nothing: two senders may have one name. At most 256 characters; line breaks and
    control characters become spaces. Stored and answered, not searched.
    """
    sequence: int = 0
    """The number of the message's line in the transcript, from 2 (line 1 describes the
    conversation). It grows with every message and never changes. It is not dense: events of the
    conversation have lines of their own.
    """
    turn_number: int = 0
    """The turn that the message belongs to, from 1. One user message and everything the agent
    produced in answer share one number. A first message that is not the user's opens turn 1. A
    late tool result, or a late answer (see AppendTurnRequest.in_reply_to_turn), has the number
    of an earlier turn than the messages stored before it: read in the order of turn number,
    then sequence.
    """
    redaction: Redaction | None = None
    """Set if the text was removed by RedactMessage: a tombstone stays. Its `content` is
    `[redacted]`; of its tool calls the ids stay, for results name them; thinking, sender,
    attachments and metadata are gone. A line that was very short may have no room for `by` and
    `time`: the update and the answer of RedactMessage have both.
    """
