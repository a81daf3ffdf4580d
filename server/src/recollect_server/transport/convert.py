"""Messages of the contract to the house's types, and back. Everything that comes in was checked before."""

from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import anchor_pb2, channel_service_pb2, conversation_pb2, message_pb2, recall_pb2

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.conversation import NOBODY, Conversation, Party
from recollect_server.domain.message import Attachment, Message, Role, ToolCall, Usage
from recollect_server.domain.routing import CliOrigin, DiscordOrigin, EmailOrigin, Inbound, Origin, WebOrigin, WhatsappOrigin
from recollect_server.services.recall import Hit, LegScore, Result

_ROLES = {
    message_pb2.ROLE_USER: Role.USER,
    message_pb2.ROLE_ASSISTANT: Role.ASSISTANT,
    message_pb2.ROLE_TOOL: Role.TOOL,
}
_ROLE_NUMBERS = {role: number for number, role in _ROLES.items()}


def milliseconds(moment: Timestamp) -> int:
    """A moment in milliseconds since 1970."""
    return moment.seconds * 1000 + moment.nanos // 1_000_000


def optional_milliseconds(owner: Any, name: str) -> int | None:
    """The moment in a field of a message; None if it is unset."""
    return milliseconds(getattr(owner, name)) if owner.HasField(name) else None


def timestamp(time: int) -> Timestamp:
    """The moment as the contract has it."""
    return Timestamp(seconds=time // 1000, nanos=time % 1000 * 1_000_000)


def _set_moment(value: Timestamp, time: int) -> None:
    value.seconds, value.nanos = time // 1000, time % 1000 * 1_000_000


def party_from(value: conversation_pb2.Party) -> Party:
    """A party that came in."""
    return Party(value.contact, value.group_id, value.thread_id, value.subject)


def message_from(value: message_pb2.Message) -> Message:
    """A message that came in, without sequence and turn number."""
    return Message(
        role=_ROLES[value.role],
        content=value.content,
        timestamp=milliseconds(value.timestamp) if value.HasField("timestamp") else 0,
        thinking_text=value.thinking_text,
        usage=Usage(value.usage.input, value.usage.output) if value.HasField("usage") else None,
        cost=value.cost if value.HasField("cost") else None,
        channel=value.channel,
        sender=value.sender,
        tool_calls=tuple(ToolCall(c.id, c.name, c.arguments) for c in value.tool_calls) if value.tool_calls else (),
        tool_call_id=value.tool_call_id,
        attachments=_attachments(value.attachments) if value.attachments else (),
        metadata=json_format.MessageToDict(value.metadata) if value.HasField("metadata") else None,
    )


def _attachments(values: Iterable[message_pb2.Attachment]) -> tuple[Attachment, ...]:
    return tuple(Attachment(a.media_type, a.uri, a.bytes_length) for a in values)


def inbound_from(request: channel_service_pb2.ReceiveRequest, sender: str) -> Inbound:
    """A message of a channel that came in, of a sender in normal form."""
    return Inbound(
        request.channel,
        request.provider_message_id,
        sender,
        request.text,
        _attachments(request.attachments),
        optional_milliseconds(request, "time"),
        _origin_from(request),
    )


def _origin_from(request: channel_service_pb2.ReceiveRequest) -> Origin | None:
    match request.WhichOneof("origin"):
        case "whatsapp":
            return WhatsappOrigin(request.whatsapp.group_id)
        case "email":
            mail = request.email
            return EmailOrigin(mail.message_id, mail.in_reply_to, tuple(mail.references), mail.subject)
        case "discord":
            place = request.discord.WhichOneof("place") or ""
            return DiscordOrigin(place.partition("_")[0], getattr(request.discord, place).strip())
        case "cli":
            return CliOrigin(request.cli.session_name)
        case "web":
            return WebOrigin(request.web.conversation_id)
    return None


def message_to(message: Message) -> message_pb2.Message:
    """A stored message as it goes out."""
    value = message_pb2.Message()
    fill_message(value, message)
    return value


def fill_message(value: message_pb2.Message, message: Message) -> None:
    """The same, into an empty message that is part of an answer already: what is unset costs nothing, and nothing is copied."""
    value.sequence = message.sequence
    value.turn_number = message.turn_number
    value.role = _ROLE_NUMBERS[message.role]
    value.content = message.content
    _set_moment(value.timestamp, message.timestamp)
    if message.thinking_text:
        value.thinking_text = message.thinking_text
    if message.channel:
        value.channel = message.channel
    if message.sender:
        value.sender = message.sender
    if message.tool_call_id:
        value.tool_call_id = message.tool_call_id
    if message.usage is not None:
        _fill_usage(value.usage, message.usage)
    if message.cost is not None:
        value.cost = message.cost
    for call in message.tool_calls:
        value.tool_calls.add(id=call.id, name=call.name, arguments=call.arguments)
    for attachment in message.attachments:
        value.attachments.add(media_type=attachment.media_type, uri=attachment.uri, bytes_length=attachment.bytes_length)
    if message.metadata is not None:
        value.metadata.update(message.metadata)
        value.metadata.SetInParent()


def conversation_to(conversation: Conversation) -> conversation_pb2.Conversation:
    """A conversation as it goes out."""
    value = conversation_pb2.Conversation()
    fill_conversation(value, conversation)
    return value


def fill_conversation(value: conversation_pb2.Conversation, conversation: Conversation) -> None:
    """The same, into an empty message that is part of an answer already: what is unset costs nothing, and nothing is copied."""
    value.id = conversation.id
    value.channel = conversation.channel
    if conversation.title:
        value.title = conversation.title
    if conversation.topics:
        value.topics.extend(conversation.topics)
    _set_moment(value.create_time, conversation.create_time)
    _set_moment(value.update_time, conversation.update_time)
    value.turn_count = conversation.turn_count
    value.message_count = conversation.message_count
    value.participants.extend(conversation.participants)
    if conversation.abbreviation:
        value.abbreviation = conversation.abbreviation
    if conversation.manually_named:
        value.manually_named = True
    if conversation.pinned:
        value.pinned = True
    if conversation.model:
        value.model = conversation.model
    _fill_usage(value.usage_total, conversation.usage_total)
    if conversation.cost_total:
        value.cost_total = conversation.cost_total
    if conversation.compressed_through:
        value.compressed_through = conversation.compressed_through
    if conversation.party is not NOBODY and conversation.party != NOBODY:
        party, there = conversation.party, value.party
        there.contact, there.group_id, there.thread_id, there.subject = (
            party.contact,
            party.group_id,
            party.thread_id,
            party.subject,
        )


def _fill_usage(value: message_pb2.Usage, usage: Usage) -> None:
    value.SetInParent()
    value.input, value.output = usage.input, usage.output


def anchor_to(anchor: Anchor) -> anchor_pb2.Anchor:
    """An anchor as it goes out."""
    value = anchor_pb2.Anchor(
        key=anchor.key, value=anchor.value, confidence=anchor.confidence, create_time=timestamp(anchor.create_time)
    )
    if anchor.conversation_id:
        value.source.conversation_id, value.source.sequence = anchor.conversation_id, anchor.sequence
    if anchor.superseded_time is not None:
        value.superseded_time.CopyFrom(timestamp(anchor.superseded_time))
    if anchor.supersedes:
        value.supersedes = anchor.supersedes
    return value


def result_to(result: Result) -> recall_pb2.SearchResult:
    """A conversation that was found, as it goes out."""
    conversation = result.conversation
    return recall_pb2.SearchResult(
        conversation_id=conversation.id,
        conversation_name=conversation.name,
        channel=conversation.channel,
        snippet=result.snippet,
        turn_range=recall_pb2.TurnRange(first=min(result.matched_turns), last=max(result.matched_turns)),
        matched_turns=result.matched_turns,
        date=timestamp(result.date),
        score=result.score,
        topics=conversation.topics,
        abbreviation=conversation.abbreviation,
        explanation=[_leg_score_to(score) for score in result.explanation],
    )


def hit_to(hit: Hit) -> recall_pb2.SearchHit:
    """A message that was found, as it goes out."""
    return recall_pb2.SearchHit(
        conversation_id=hit.conversation.id,
        sequence=hit.message.sequence,
        turn_number=hit.message.turn_number,
        role=_ROLE_NUMBERS[hit.message.role],
        sender=hit.message.sender,
        snippet=hit.snippet,
        date=timestamp(hit.message.timestamp),
        score=hit.score,
        explanation=[_leg_score_to(score) for score in hit.explanation],
    )


def _leg_score_to(score: LegScore) -> recall_pb2.LegScore:
    return recall_pb2.LegScore(leg=score.leg, rank=score.rank, score=score.score)
