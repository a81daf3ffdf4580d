"""Conversions between messages of the contract and domain types that several services share. Input
was checked before. Those of one service alone are in its module. Cursors and page tokens are opaque
to callers and bound to the space that they are of, a page token to its question too.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import (
    context_pb2,
    conversation_pb2,
    conversation_service_pb2,
    message_pb2,
    recall_pb2,
)
from recollect.v1 import external_communication_pb2 as external_pb

from recollect_server.kernel.domain.conversation import (
    CALLER,
    NOBODY,
    Conversation,
    NoteRecord,
    Party,
    Split,
    TurnMemory,
)
from recollect_server.kernel.domain.errors import InvalidField, InvalidPageToken
from recollect_server.kernel.domain.filters import PageEnd
from recollect_server.kernel.domain.message import (
    REDACTED,
    Attachment,
    Message,
    Redaction,
    Role,
    ToolCall,
    Usage,
)
from recollect_server.people.communication import (
    Communication,
    Direction,
    Escalation,
    ExternalMessage,
    Trust,
)
from recollect_server.text.addresses import display_name
from recollect_server.text.snippets import without_marks

_ROLES = {
    message_pb2.ROLE_USER: Role.USER,
    message_pb2.ROLE_ASSISTANT: Role.ASSISTANT,
    message_pb2.ROLE_TOOL: Role.TOOL,
}
UNKNOWN_WRITER = "unknown"
"""The contract's word for who wrote notes that an earlier version kept no record of."""
ROLE_NUMBERS = {role: number for number, role in _ROLES.items()}


# texts of the contract have the same names here, but for the content, which a redaction replaces
_TEXTS_OF_A_MESSAGE = tuple(
    it.name
    for it in message_pb2.Message.DESCRIPTOR.fields
    if it.type == it.TYPE_STRING and it.name != "content"
)
_OPTIONAL_OF_A_CONVERSATION = (
    "name",
    "title",
    "abbreviation",
    "manually_named",
    "pinned",
    "model",
    "cost_total",
    "compressed_through",
    "topics_by_hand",
    "archived",
    "unindexed",
)
_FIELDS_OF_A_PARTY = tuple(conversation_pb2.Party.DESCRIPTOR.fields_by_name)

TRUSTS = {
    external_pb.TRUST_UNTRUSTED: Trust.UNTRUSTED,
    external_pb.TRUST_KNOWN: Trust.KNOWN,
    external_pb.TRUST_BLOCKED: Trust.BLOCKED,
}
TRUST_NUMBERS = {trust: number for number, trust in TRUSTS.items()}
DIRECTIONS = {
    Direction.INBOUND: external_pb.DIRECTION_INBOUND,
    Direction.OUTBOUND: external_pb.DIRECTION_OUTBOUND,
}


def removed_from(removed: Mapping[str, int]) -> list[conversation_service_pb2.RemovedFrom]:
    """Return how much a delete removed from where."""
    return [
        conversation_service_pb2.RemovedFrom(place=place, count=count)
        for place, count in sorted(removed.items())
    ]


def _copy_set(value: ProtoMessage, source: object, names: Sequence[str]) -> None:
    """Copy the fields of these names that are set, which have the same names in both."""
    for name in names:
        if part := getattr(source, name):
            setattr(value, name, part)


def milliseconds(moment: Timestamp) -> int:
    """Return a moment in milliseconds since 1970."""
    return moment.seconds * 1000 + moment.nanos // 1_000_000


def optional_milliseconds(owner: Any, name: str) -> int | None:
    """Return the moment in a field of a message, in milliseconds; None if it is unset."""
    return milliseconds(getattr(owner, name)) if owner.HasField(name) else None


def timestamp(time: int) -> Timestamp:
    return Timestamp(seconds=time // 1000, nanos=time % 1000 * 1_000_000)


def optional_timestamp(time: int | None) -> Timestamp | None:
    """Return a time as the contract has it; None, which leaves the field unset, for none."""
    return None if time is None else timestamp(time)


def _set_moment(value: Timestamp, time: int) -> None:
    value.seconds, value.nanos = time // 1000, time % 1000 * 1_000_000


def party_from(value: conversation_pb2.Party) -> Party:
    return Party(
        value.contact,
        value.group_id,
        value.thread_id,
        value.subject,
        display_name(value.contact_name),
        display_name(value.group_name),
    )


def message_from(value: message_pb2.Message) -> Message:
    """Return the domain type of a message, without sequence and turn number."""
    return Message(
        role=_ROLES[value.role],
        content=value.content,
        timestamp=milliseconds(value.timestamp) if value.HasField("timestamp") else 0,
        thinking_text=value.thinking_text,
        usage=Usage(value.usage.input, value.usage.output) if value.HasField("usage") else None,
        cost=value.cost if value.HasField("cost") else None,
        channel=value.channel,
        sender=value.sender,
        tool_calls=tuple(ToolCall(c.id, c.name, c.arguments) for c in value.tool_calls)
        if value.tool_calls
        else (),
        tool_call_id=value.tool_call_id,
        attachments=attachments_from(value.attachments) if value.attachments else (),
        metadata=json_format.MessageToDict(value.metadata) if value.HasField("metadata") else None,
        sender_name=display_name(value.sender_name) if value.sender_name else "",
    )


def attachments_from(values: Iterable[message_pb2.Attachment]) -> tuple[Attachment, ...]:
    return tuple(Attachment(a.media_type, a.uri, a.bytes_length) for a in values)


def message_to(message: Message) -> message_pb2.Message:
    value = message_pb2.Message()
    fill_message(value, message)
    return value


def fill_message(value: message_pb2.Message, message: Message) -> None:
    """Fill an empty message inside an answer with a stored message. Unset fields cost nothing, and
    nothing is copied.
    """
    value.sequence = message.sequence
    value.turn_number = message.turn_number
    value.role = ROLE_NUMBERS[message.role]
    if message.redaction is None:
        value.content = message.content
    else:
        value.content = REDACTED
        value.redaction.CopyFrom(redaction_to(message.redaction))
    _set_moment(value.timestamp, message.timestamp)
    _copy_set(value, message, _TEXTS_OF_A_MESSAGE)
    if message.usage is not None:
        _fill_usage(value.usage, message.usage)
    if message.cost is not None:
        value.cost = message.cost
    for call in message.tool_calls:
        value.tool_calls.add(id=call.id, name=call.name, arguments=call.arguments)
    for attachment in message.attachments:
        value.attachments.add(
            media_type=attachment.media_type,
            uri=attachment.uri,
            bytes_length=attachment.bytes_length,
        )
    if message.metadata is not None:
        value.metadata.update(message.metadata)
        value.metadata.SetInParent()


def redaction_to(redaction: Redaction) -> message_pb2.Redaction:
    return message_pb2.Redaction(
        by=redaction.by, time=timestamp(redaction.time) if redaction.time else None
    )


def conversation_to(
    conversation: Conversation, notes_failure: str = ""
) -> conversation_pb2.Conversation:
    value = conversation_pb2.Conversation()
    fill_conversation(value, conversation)
    if notes_failure:
        value.notes.failure = notes_failure
    return value


def fill_conversation(value: conversation_pb2.Conversation, conversation: Conversation) -> None:
    """Fill an empty message inside an answer with a conversation. Unset fields cost nothing, and
    nothing is copied.
    """
    value.id = conversation.id
    value.channel = conversation.channel
    value.topics.extend(conversation.topics)
    _set_moment(value.create_time, conversation.create_time)
    _set_moment(value.update_time, conversation.update_time)
    value.turn_count = conversation.turn_count
    value.message_count = conversation.message_count
    value.participants.extend(conversation.participants)
    if conversation.abbreviation:
        _fill_record(value.notes.abbreviation, conversation.abbreviation_record)
    if conversation.title:
        by_hand = conversation.manually_named
        _fill_record(
            value.notes.title, NoteRecord(CALLER) if by_hand else conversation.title_record
        )
    _fill_usage(value.usage_total, conversation.usage_total)
    _copy_set(value, conversation, _OPTIONAL_OF_A_CONVERSATION)
    if conversation.split.reason:
        value.split_suggestion.CopyFrom(split_to(conversation.split))
    if (latest := conversation.latest_message).text:
        value.latest_message.role = ROLE_NUMBERS[latest.role]
        value.latest_message.sender = latest.sender
        value.latest_message.text = latest.text
    if conversation.metadata is not None:
        value.metadata.update(conversation.metadata)
    if conversation.origin_id:
        value.origin.conversation_id = conversation.origin_id
        value.origin.turn_number = conversation.origin_turn
    if conversation.party is not NOBODY and conversation.party != NOBODY:
        _copy_set(value.party, conversation.party, _FIELDS_OF_A_PARTY)


def fill_with_messages(
    value: Any, conversation: Conversation | None, messages: Iterable[Message]
) -> None:
    """Fill the fields `conversation` (None: leave it unset) and `messages` of an answer."""
    if conversation is not None:
        fill_conversation(value.conversation, conversation)
    for message in messages:
        fill_message(value.messages.add(), message)


def split_to(split: Split) -> conversation_pb2.SplitSuggestion:
    return conversation_pb2.SplitSuggestion(reason=split.reason, titles=split.titles)


def snippet_fields(snippet: str) -> dict[str, Any]:
    """Return the fields of a result that hold its snippet."""
    text, matches = without_marks(snippet)
    ranges = [recall_pb2.TextRange(start=start, end=end) for start, end in matches]
    return {"snippet": snippet, "snippet_text": text, "snippet_matches": ranges}


def turn_memory_to(memory: TurnMemory) -> context_pb2.TurnMemory:
    tier = context_pb2.ContextTier.ValueType(memory.tier) if memory.tier else None
    return context_pb2.TurnMemory(turn_number=memory.turn, tier=tier, summary=memory.summary)


def writer_of(name: str) -> str:
    """Return a writer as the contract names it, as a record has it: empty for one that is not
    known.
    """
    return "" if name == UNKNOWN_WRITER else name


def _fill_record(value: conversation_pb2.NoteRecord, record: NoteRecord) -> None:
    value.writer = record.writer or UNKNOWN_WRITER
    value.model = record.model
    if record.time:
        _set_moment(value.write_time, record.time)


def _fill_usage(value: message_pb2.Usage, usage: Usage) -> None:
    value.SetInParent()
    value.input, value.output = usage.input, usage.output


def communication_to(communication: Communication) -> external_pb.ExternalCommunication:
    return external_pb.ExternalCommunication(
        id=communication.id,
        channel=communication.channel,
        party=communication.party,
        trust=TRUST_NUMBERS[communication.trust],
        scopes=communication.scopes,
        create_time=timestamp(communication.create_time),
        update_time=timestamp(communication.update_time),
        message_count=communication.message_count,
        open_escalations=len(communication.open),
        party_name=communication.party_name,
        subject=communication.subject,
        acknowledged=communication.acknowledged,
    )


def external_message_to(message: ExternalMessage) -> external_pb.ExternalMessage:
    mail = message.origin.email
    return external_pb.ExternalMessage(
        sequence=message.sequence,
        direction=DIRECTIONS[message.direction],
        text=message.shown_text,
        timestamp=timestamp(message.timestamp),
        redaction=None if message.redaction is None else redaction_to(message.redaction),
        attachments=[
            message_pb2.Attachment(
                media_type=it.media_type, uri=it.uri, bytes_length=it.bytes_length
            )
            for it in message.attachments
        ],
        provider_message_id=message.provider_message_id,
        scope=message.scope,
        sender_name=message.origin.sender_name,
        group_id=message.origin.group_id,
        thread_id=message.origin.thread_id,
        acknowledgement=message.acknowledgement,
        email=None
        if mail is None
        else external_pb.EmailHeaders(
            message_id=mail.message_id,
            in_reply_to=mail.in_reply_to,
            references=mail.references,
            subject=mail.subject,
        ),
    )


def escalation_to(escalation: Escalation) -> external_pb.Escalation:
    return external_pb.Escalation(
        id=escalation.id,
        communication_id=escalation.communication_id,
        sequence=escalation.sequence,
        question=escalation.question,
        answer=escalation.answer,
        create_time=timestamp(escalation.create_time),
        resolve_time=optional_timestamp(escalation.resolve_time),
    )


_USUAL, _MOST = 50, 500


def page_size(size: int) -> int:
    """Return the size of a page, limited to the maximum."""
    return min(size or _USUAL, _MOST)


def _tag_of(space: str) -> str:
    return f"{hashlib.sha256(space.encode()).hexdigest()[:10]}."


_EMPTY = _tag_of("")
_TAG = re.compile(r"^[0-9a-f]{10}\.")


class CursorSeal:
    """Binds the cursors and page tokens of one space to it, so that no other space accepts them."""

    def __init__(self, space: str, *, is_default: bool) -> None:
        """Those of the default space look as they did before there were others."""
        self._own = _tag_of(space)
        self._tag = "" if is_default else self._own
        self._is_empty = not space

    def cursor(self, position: str) -> str:
        """Return the cursor of a position; empty for none."""
        return f"{self._tag}{position}" if position else ""

    def position(self, cursor: str) -> str:
        """Return the position of a cursor; empty for none. Raises InvalidField.

        A cursor of the empty space, which stands in for one that does not exist, leads into every
        space, and every cursor into the empty one: a stream goes on where a space is made or gone.
        """
        if cursor.startswith(_EMPTY) or self._is_empty:
            return _TAG.sub("", cursor)
        if cursor and not cursor.startswith(self._own) and self._tag:
            raise InvalidField.of("cursor", "is not a cursor that this space gave out")
        return cursor.removeprefix(self._own)

    def page_token(self, request: ProtoMessage, place: PageEnd | None) -> str:
        """Return the token for the page after a place; empty for none."""
        if place is None:
            return ""
        text = f"{place[0]}.{place[1]}.{self._hash(request, place)}"
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def place(self, request: ProtoMessage, token: str) -> PageEnd | None:
        """Return the place that a page token names; None without one. Raises InvalidPageToken."""
        if not token:
            return None
        try:
            text = base64.b64decode(
                token + "=" * (-len(token) % 4), altchars=b"-_", validate=True
            ).decode()
            time, name, _ = text.split(".")
            place = int(time), name
        except (binascii.Error, ValueError):
            raise InvalidPageToken from None
        if token != self.page_token(request, place) or abs(place[0]) >= 1 << 62:
            raise InvalidPageToken
        return place

    def _hash(self, request: ProtoMessage, place: PageEnd) -> str:
        """Return a hash of the space, the request and the place: of the method's name and its
        filters, not of the page size.
        """
        bare = type(request)()
        bare.CopyFrom(request)
        for name in ("page_token", "page_size"):
            if name in request.DESCRIPTOR.fields_by_name:
                bare.ClearField(name)
        text = (
            f"{self._tag}{place[0]}.{place[1]}.{request.DESCRIPTOR.full_name}".encode()
            + bare.SerializeToString(deterministic=True)
        )
        return hashlib.sha256(text).hexdigest()[:16]
