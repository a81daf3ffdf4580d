"""The house's types to those of the `recollect` client, and back: what import sends and what export writes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import recollect

from recollect_server.domain.conversation import NOBODY, Party
from recollect_server.domain.message import Attachment, Message, Role, ToolCall, Usage
from recollect_server.domain.text import one_line

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def time_to(milliseconds: int) -> datetime:
    """A time as the client has it."""
    return _EPOCH + milliseconds * _MILLISECOND


def time_from(moment: datetime) -> int:
    """A time as the house has it. Raises TypeError for one without a time zone."""
    return (moment - _EPOCH) // _MILLISECOND


def party_to(party: Party) -> recollect.Party | None:
    """A party as the client has it."""
    if party == NOBODY:
        return None
    return recollect.Party(
        contact=party.contact,
        group_id=party.group_id,
        thread_id=party.thread_id,
        subject=party.subject,
        contact_name=party.contact_name,
    )


def party_from(party: recollect.Party | None) -> Party:
    """A party as the house has it."""
    if party is None:
        return NOBODY
    return Party(party.contact, party.group_id, party.thread_id, party.subject, party.contact_name)


def message_to(message: Message) -> recollect.Message:
    """A message to append. Its sequence and turn number stay behind: the server gives new ones. A sender stands on one line."""
    return recollect.Message(
        role=recollect.Role(message.role.value),
        content=message.content,
        timestamp=time_to(message.timestamp) if message.timestamp else None,
        thinking_text=message.thinking_text,
        usage=None if message.usage is None else recollect.Usage(message.usage.input, message.usage.output),
        cost=message.cost,
        channel=message.channel,
        sender=one_line(message.sender),
        sender_name=message.sender_name,
        tool_calls=tuple(recollect.ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls),
        tool_call_id=message.tool_call_id,
        attachments=tuple(recollect.Attachment(it.media_type, it.uri, it.bytes_length) for it in message.attachments),
        metadata=message.metadata or {},
    )


def message_from(message: recollect.Message) -> Message:
    """A stored message, with its sequence and turn number."""
    assert message.timestamp is not None, "a stored message has a time"
    return Message(
        role=Role(message.role.value),
        content=message.content,
        timestamp=time_from(message.timestamp),
        sequence=message.sequence,
        turn_number=message.turn_number,
        thinking_text=message.thinking_text,
        usage=None if message.usage is None else Usage(message.usage.input, message.usage.output),
        cost=message.cost,
        channel=message.channel,
        sender=message.sender,
        sender_name=message.sender_name,
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls),
        tool_call_id=message.tool_call_id,
        attachments=tuple(Attachment(it.media_type, it.uri, it.bytes_length) for it in message.attachments),
        metadata=_sorted(message.metadata) if message.metadata else None,
    )


def _sorted(metadata: dict[str, Any]) -> dict[str, Any]:
    """By key, at every depth: on the wire a Struct has no order, and two exports of one conversation shall be equal."""
    value: dict[str, Any] = orjson.loads(orjson.dumps(metadata, option=orjson.OPT_SORT_KEYS))
    return value
