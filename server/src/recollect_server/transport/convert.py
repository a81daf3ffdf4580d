"""Messages of the contract to the house's types, and back. Everything that comes in was checked before."""

from typing import Any

from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import conversation_pb2, message_pb2, recall_pb2

from recollect_server.domain.conversation import Conversation, Party
from recollect_server.domain.message import Attachment, Message, Role, ToolCall, Usage
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
        tool_calls=tuple(ToolCall(call.id, call.name, call.arguments) for call in value.tool_calls),
        tool_call_id=value.tool_call_id,
        attachments=tuple(Attachment(a.media_type, a.uri, a.bytes_length) for a in value.attachments),
        metadata=json_format.MessageToDict(value.metadata) if value.HasField("metadata") else None,
    )


def message_to(message: Message) -> message_pb2.Message:
    """A stored message as it goes out."""
    value = message_pb2.Message(
        sequence=message.sequence,
        turn_number=message.turn_number,
        role=_ROLE_NUMBERS[message.role],
        content=message.content,
        timestamp=timestamp(message.timestamp),
        thinking_text=message.thinking_text,
        channel=message.channel,
        sender=message.sender,
        tool_call_id=message.tool_call_id,
    )
    if message.usage is not None:
        value.usage.input = message.usage.input
        value.usage.output = message.usage.output
        value.usage.SetInParent()
    if message.cost is not None:
        value.cost = message.cost
    for call in message.tool_calls:
        value.tool_calls.add(id=call.id, name=call.name, arguments=call.arguments)
    for attachment in message.attachments:
        value.attachments.add(media_type=attachment.media_type, uri=attachment.uri, bytes_length=attachment.bytes_length)
    if message.metadata is not None:
        value.metadata.update(message.metadata)
        value.metadata.SetInParent()
    return value


def conversation_to(conversation: Conversation) -> conversation_pb2.Conversation:
    """A conversation as it goes out."""
    value = conversation_pb2.Conversation(
        id=conversation.id,
        channel=conversation.channel,
        title=conversation.title,
        topics=conversation.topics,
        create_time=timestamp(conversation.create_time),
        update_time=timestamp(conversation.update_time),
        turn_count=conversation.turn_count,
        message_count=conversation.message_count,
        participants=conversation.participants,
        abbreviation=conversation.abbreviation,
        manually_named=conversation.manually_named,
        pinned=conversation.pinned,
        model=conversation.model,
        usage_total=message_pb2.Usage(input=conversation.usage_total.input, output=conversation.usage_total.output),
        cost_total=conversation.cost_total,
        compressed_through=conversation.compressed_through,
    )
    if conversation.party != Party():
        party = conversation.party
        value.party.MergeFrom(
            conversation_pb2.Party(contact=party.contact, group_id=party.group_id, thread_id=party.thread_id, subject=party.subject)
        )
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
