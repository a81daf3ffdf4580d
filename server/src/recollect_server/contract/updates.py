"""Updates as they go out: bytes, made once for all who are sent them."""

from collections.abc import Sequence

from recollect.v1 import external_communication_pb2 as external_pb
from recollect.v1 import update_pb2 as pb

from recollect_server.contract.convert import (
    CursorSeal,
    communication_to,
    conversation_to,
    escalation_to,
    external_message_to,
    fill_conversation,
    fill_with_messages,
    redaction_to,
    timestamp,
    turn_memory_to,
)
from recollect_server.kernel.domain import update as domain
from recollect_server.kernel.domain.conversation import Split
from recollect_server.people import communication as external

# in one element of a stream with several updates: callers take 4 MiB where they say nothing
_MOST_BYTES = 1 << 20


def encode(seal: CursorSeal, update: domain.Update) -> bytes:
    value = pb.Update(
        cursor=seal.cursor(update.cursor),
        conversation_id=update.log,
        time=timestamp(update.time),
        reset=update.reset,
    )
    match update.kind:
        case domain.ConversationList(conversations):
            value.conversation_list.conversations.extend(
                conversation_to(conversation) for conversation in conversations
            )
            value.conversation_list.SetInParent()
        case domain.ConversationLoaded(conversation, messages, has_more):
            value.conversation_loaded.SetInParent()
            if conversation is not None:
                fill_with_messages(value.conversation_loaded, conversation, messages)
                value.conversation_loaded.has_more = has_more
                value.conversation_loaded.compression_summary = conversation.compression_summary
        case domain.Created(conversation):
            fill_conversation(value.conversation_created.conversation, conversation)
        case domain.Updated(conversation, messages, draft_id, memory):
            fill_with_messages(value.conversation_updated, conversation, messages)
            value.conversation_updated.draft_id = draft_id
            if memory is not None:
                value.conversation_updated.turn_memory.CopyFrom(turn_memory_to(memory))
        case domain.Renamed(title, manually_named, topics):
            value.conversation_renamed.CopyFrom(
                pb.ConversationRenamed(title=title, manually_named=manually_named, topics=topics)
            )
        case domain.NotesWritten(abbreviation, topics):
            value.conversation_abbreviated.CopyFrom(
                pb.ConversationAbbreviated(abbreviation=abbreviation, topics=topics)
            )
        case domain.LogDeleted():
            value.conversation_deleted.SetInParent()
        case domain.TextRedacted(conversation, sequences, redaction):
            redacted = value.messages_redacted
            fill_conversation(redacted.conversation, conversation)
            redacted.sequences.extend(sequences)
            redacted.redaction.CopyFrom(redaction_to(redaction))
        case Split(reason, titles):
            value.split_suggested.CopyFrom(pb.SplitSuggested(reason=reason, titles=titles))
        case domain.Delta(draft_id, offset, text, done, dropped):
            value.message_delta.CopyFrom(
                pb.MessageDelta(
                    draft_id=draft_id, offset=offset, text=text, done=done, dropped=dropped
                )
            )
        case domain.Heartbeat():
            value.heartbeat.SetInParent()
    return value.SerializeToString()


def encode_communication_update(seal: CursorSeal, update: domain.Update) -> bytes:
    value = external_pb.CommunicationUpdate(
        cursor=seal.cursor(update.cursor),
        communication_id=update.log,
        time=timestamp(update.time),
        reset=update.reset,
    )
    match update.kind:
        case external.Listed(communications):
            value.communication_list.communications.extend(map(communication_to, communications))
            value.communication_list.SetInParent()
        case external.Exchanged(communication, message):
            value.communication_message.communication.CopyFrom(communication_to(communication))
            value.communication_message.message.CopyFrom(external_message_to(message))
        case external.Changed(communication):
            value.communication_changed.communication.CopyFrom(communication_to(communication))
        case external.Escalated(escalation):
            value.communication_escalated.escalation.CopyFrom(escalation_to(escalation))
        case external.MessageRedacted(communication, message, escalation):
            redacted = value.external_message_redacted
            redacted.communication.CopyFrom(communication_to(communication))
            if message is not None:
                redacted.message.CopyFrom(external_message_to(message))
            if escalation is not None:
                redacted.escalation.CopyFrom(escalation_to(escalation))
        case domain.LogDeleted():
            value.communication_deleted.SetInParent()
        case domain.Heartbeat():
            value.heartbeat.SetInParent()
    return value.SerializeToString()


def elements(updates: Sequence[bytes], max_batch: int) -> list[bytes]:
    """Return updates as serialized `recollect.v1.StreamUpdatesResponse` elements, at most
    `max_batch` in each.

    Written out, not by protobuf: an element is its fields one behind the other, `update` (1) and
    then `following` (2), and what is in them was encoded once for all who are sent it.
    """
    made: list[bytes] = []
    parts: list[bytes] = []
    count = size = 0
    for data in updates:
        if count and (count >= max_batch or size + len(data) > _MOST_BYTES):
            made.append(b"".join(parts))
            parts, count, size = [], 0, 0
        parts += (b"\x12" if count else b"\x0a", _varint(len(data)), data)
        count += 1
        size += len(data)
    if parts:
        made.append(b"".join(parts))
    return made


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)
