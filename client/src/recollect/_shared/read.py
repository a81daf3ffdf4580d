"""Messages of the contract into what a user holds."""

from datetime import UTC, datetime
from typing import Any

from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from recollect._types import conversation as conversations
from recollect._types import message as messages
from recollect._types import recall
from recollect.errors import InternalError
from recollect.v1 import (
    conversation_pb2,
    conversation_service_pb2,
    error_pb2,
    message_pb2,
    recall_pb2,
    recall_service_pb2,
)

ROLES = {
    message_pb2.ROLE_USER: messages.Role.USER,
    message_pb2.ROLE_ASSISTANT: messages.Role.ASSISTANT,
    message_pb2.ROLE_TOOL: messages.Role.TOOL,
}


def moment(value: Timestamp) -> datetime:
    """Return a time of the contract, in UTC."""
    return value.ToDatetime(tzinfo=UTC)


def message(it: message_pb2.Message) -> messages.Message:
    """Return a stored message."""
    return messages.Message(
        role=_role(it.role),
        content=it.content,
        timestamp=moment(it.timestamp) if it.HasField("timestamp") else None,
        thinking_text=it.thinking_text,
        usage=_usage(it.usage) if it.HasField("usage") else None,
        cost=it.cost if it.HasField("cost") else None,
        channel=it.channel,
        sender=it.sender,
        sender_name=it.sender_name,
        tool_calls=tuple(
            messages.ToolCall(call.id, call.name, call.arguments) for call in it.tool_calls
        ),
        tool_call_id=it.tool_call_id,
        attachments=tuple(
            messages.Attachment(file.media_type, file.uri, file.bytes_length)
            for file in it.attachments
        ),
        metadata=_struct(it.metadata),
        sequence=it.sequence,
        turn_number=it.turn_number,
        redaction=redaction(it.redaction) if it.HasField("redaction") else None,
    )


def redaction(it: message_pb2.Redaction) -> messages.Redaction:
    """Return by whom and when text was removed."""
    return messages.Redaction(it.by, moment(it.time) if it.HasField("time") else None)


def conversation(it: conversation_pb2.Conversation) -> conversations.Conversation:
    """Return a conversation, without its messages."""
    return conversations.Conversation(
        id=it.id,
        channel=it.channel,
        title=it.title,
        topics=tuple(it.topics),
        create_time=moment(it.create_time),
        update_time=moment(it.update_time),
        turn_count=it.turn_count,
        message_count=it.message_count,
        participants=tuple(it.participants),
        abbreviation=it.abbreviation,
        manually_named=it.manually_named,
        pinned=it.pinned,
        model=it.model,
        party=_party(it.party) if it.HasField("party") else None,
        usage_total=_usage(it.usage_total),
        cost_total=it.cost_total,
        compressed_through=it.compressed_through,
        notes=_notes(it.notes) if it.HasField("notes") else None,
        topics_by_hand=it.topics_by_hand,
        archived=it.archived,
        unindexed=it.unindexed,
        metadata=_struct(it.metadata),
        origin=conversations.ForkOrigin(
            conversation_id=it.origin.conversation_id, turn_number=it.origin.turn_number
        )
        if it.HasField("origin")
        else None,
        name=it.name,
    )


def regenerated(
    it: conversation_service_pb2.RegenerateNotesResponse,
) -> conversations.RegeneratedNotes:
    """Return the answer to RegenerateNotes."""
    return conversations.RegeneratedNotes(queued=it.queued, kept=it.kept)


def conversation_page(it: conversation_service_pb2.ListResponse) -> conversations.ConversationPage:
    """Return the answer to List."""
    return conversations.ConversationPage(
        conversations=tuple(map(conversation, it.conversations)), next_page_token=it.next_page_token
    )


def loaded(
    it: conversation_service_pb2.LoadResponse | conversation_service_pb2.SwitchResponse,
) -> conversations.LoadedConversation:
    """Return the answer to Load, and to Switch."""
    return conversations.LoadedConversation(
        conversation=conversation(it.conversation) if it.HasField("conversation") else None,
        messages=tuple(map(message, it.messages)),
        has_more=it.has_more,
        compression_summary=it.compression_summary,
        damaged_lines=it.damaged_lines,
        cut_before_sequence=it.cut_before_sequence,
    )


def appended(it: conversation_service_pb2.AppendTurnResponse) -> conversations.AppendedTurn:
    """Return the answer to AppendTurn."""
    return conversations.AppendedTurn(
        conversation=conversation(it.conversation),
        messages=tuple(map(message, it.messages)),
        turn_number=it.turn_number,
        cursor=it.cursor,
        duplicate=it.duplicate,
    )


def receipt(it: conversation_service_pb2.DeleteResponse) -> conversations.DeletionReceipt:
    """Return the answer to Delete."""
    return conversations.DeletionReceipt(
        conversation_id=it.conversation_id,
        removed=tuple(conversations.RemovedFrom(entry.place, entry.count) for entry in it.removed),
        delete_time=moment(it.delete_time),
    )


def redacted(it: conversation_service_pb2.RedactMessageResponse) -> conversations.RedactedMessages:
    """Return the answer to RedactMessage."""
    return conversations.RedactedMessages(
        conversation=conversation(it.conversation),
        messages=tuple(map(message, it.messages)),
        redact_time=moment(it.redact_time),
        duplicate=it.duplicate,
        copied_in=tuple(it.copied_in),
    )


def deleted(it: conversation_service_pb2.DeleteManyResponse) -> conversations.DeletedConversations:
    """Return the answer to DeleteMany."""
    return conversations.DeletedConversations(
        conversation_ids=tuple(it.conversation_ids),
        left=tuple(
            (
                left.conversation_id,
                error_pb2.ErrorReason.Name(left.reason).removeprefix("ERROR_REASON_"),
            )
            for left in it.left
        ),
        removed=tuple(conversations.RemovedFrom(entry.place, entry.count) for entry in it.removed),
        has_more=it.has_more,
        delete_time=moment(it.delete_time),
        failure=it.failure,
    )


def search_answer(it: recall_service_pb2.SearchResponse) -> recall.SearchAnswer:
    """Return the answer to Search."""
    return recall.SearchAnswer(
        results=tuple(map(_search_result, it.results)),
        hits=tuple(map(_search_hit, it.hits)),
        total_matches=it.total_matches,
        legs_run=tuple(it.legs_run),
        degraded=tuple(
            recall.DegradedLeg(leg=entry.leg, reason=entry.reason) for entry in it.degraded
        ),
        has_more=it.has_more,
    )


def fetched_context(it: recall_service_pb2.FetchContextResponse) -> recall.FetchedContext:
    """Return the answer to FetchContext."""
    return recall.FetchedContext(
        conversation_id=it.conversation_id,
        conversation_name=it.conversation_name,
        channel=it.channel,
        messages=tuple(map(message, it.messages)),
        total_turns=it.total_turns,
        damaged_lines=it.damaged_lines,
        has_more=it.has_more,
    )


def recent(it: recall_service_pb2.RecentResponse) -> recall.RecentPage:
    """Return the answer to Recent."""
    entries = (
        recall.RecentConversation(
            conversation=conversation(entry.conversation), snippet=entry.snippet
        )
        for entry in it.conversations
    )
    return recall.RecentPage.of(entries, has_more=it.has_more)


def _search_result(it: recall_pb2.SearchResult) -> recall.SearchResult:
    return recall.SearchResult(
        conversation_id=it.conversation_id,
        conversation_name=it.conversation_name,
        channel=it.channel,
        snippet=it.snippet,
        turn_range=recall.TurnRange(it.turn_range.first, it.turn_range.last)
        if it.HasField("turn_range")
        else None,
        matched_turns=tuple(it.matched_turns),
        date=moment(it.date),
        score=it.score,
        topics=tuple(it.topics),
        abbreviation=it.abbreviation,
        explanation=tuple(map(_leg_score, it.explanation)),
        snippet_from_notes=it.snippet_from_notes,
    )


def _search_hit(it: recall_pb2.SearchHit) -> recall.SearchHit:
    return recall.SearchHit(
        conversation_id=it.conversation_id,
        sequence=it.sequence,
        turn_number=it.turn_number,
        role=_role(it.role),
        sender=it.sender,
        snippet=it.snippet,
        date=moment(it.date),
        score=it.score,
        explanation=tuple(map(_leg_score, it.explanation)),
    )


def _leg_score(it: recall_pb2.LegScore) -> recall.LegScore:
    return recall.LegScore(leg=it.leg, rank=it.rank, score=it.score)


def _role(number: message_pb2.Role.ValueType) -> messages.Role:
    try:
        return ROLES[number]
    except KeyError:
        raise InternalError(
            f"the server answered role {number}, which this client is too old to know"
        ) from None


def _usage(it: message_pb2.Usage) -> messages.Usage:
    return messages.Usage(it.input, it.output)


def _party(it: conversation_pb2.Party) -> conversations.Party:
    return conversations.Party(
        contact=it.contact,
        group_id=it.group_id,
        thread_id=it.thread_id,
        subject=it.subject,
        contact_name=it.contact_name,
    )


def _notes(it: conversation_pb2.Notes) -> conversations.Notes:
    return conversations.Notes(
        abbreviation=_note_record(it.abbreviation) if it.HasField("abbreviation") else None,
        title=_note_record(it.title) if it.HasField("title") else None,
        failure=it.failure,
    )


def _note_record(it: conversation_pb2.NoteRecord) -> conversations.NoteRecord:
    time = moment(it.write_time) if it.HasField("write_time") else None
    return conversations.NoteRecord(writer=it.writer, model=it.model, write_time=time)


def _struct(it: Struct) -> dict[str, Any]:
    return {key: _value(value) for key, value in it.fields.items()}


def _value(it: Value) -> Any:
    match it.WhichOneof("kind"):
        case "string_value":
            return it.string_value
        case "number_value":
            return int(it.number_value) if it.number_value.is_integer() else it.number_value
        case "bool_value":
            return it.bool_value
        case "struct_value":
            return _struct(it.struct_value)
        case "list_value":
            return [_value(item) for item in it.list_value.values]
        case _:
            return None
