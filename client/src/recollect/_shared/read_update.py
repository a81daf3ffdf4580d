"""Updates of the contract into what a user holds."""

from recollect._shared import read
from recollect._types import update as updates
from recollect._types.conversation import LoadedConversation
from recollect.v1 import conversation_service_pb2, update_pb2


def updates_of(
    it: conversation_service_pb2.StreamUpdatesResponse,
) -> list[tuple[str, updates.Update | None]]:
    """Return the updates of one element of a stream, each with its cursor."""
    return [(each.cursor, update(each)) for each in (it.update, *it.following)]


def update(it: update_pb2.Update) -> updates.Update | None:
    """Return an update. None for a heartbeat, and for kinds that this client is too old to know:
    only their cursors count.
    """
    kind = _kind(it)
    if kind is None:
        return None
    return updates.Update(
        cursor=it.cursor,
        conversation_id=it.conversation_id,
        time=read.moment(it.time),
        reset=it.reset,
        kind=kind,
    )


def _kind(
    it: update_pb2.Update,
) -> (
    updates.ConversationList
    | LoadedConversation
    | updates.ConversationCreated
    | updates.ConversationUpdated
    | updates.ConversationRenamed
    | updates.ConversationAbbreviated
    | updates.ConversationDeleted
    | updates.MessagesRedacted
    | updates.SplitSuggested
    | updates.MessageDelta
    | None
):
    match it.WhichOneof("kind"):
        case "conversation_list":
            return updates.ConversationList(
                conversations=tuple(map(read.conversation, it.conversation_list.conversations))
            )
        case "conversation_loaded":
            loaded = it.conversation_loaded
            return LoadedConversation(
                conversation=read.conversation(loaded.conversation)
                if loaded.HasField("conversation")
                else None,
                messages=tuple(map(read.message, loaded.messages)),
                has_more=loaded.has_more,
                compression_summary=loaded.compression_summary,
                damaged_lines=0,
            )
        case "conversation_created":
            return updates.ConversationCreated(
                conversation=read.conversation(it.conversation_created.conversation)
            )
        case "conversation_updated":
            changed = it.conversation_updated
            return updates.ConversationUpdated(
                conversation=read.conversation(changed.conversation),
                messages=tuple(map(read.message, changed.messages)),
                draft_id=changed.draft_id,
            )
        case "conversation_renamed":
            renamed = it.conversation_renamed
            return updates.ConversationRenamed(
                title=renamed.title,
                manually_named=renamed.manually_named,
                topics=tuple(renamed.topics),
            )
        case "conversation_abbreviated":
            notes = it.conversation_abbreviated
            return updates.ConversationAbbreviated(
                abbreviation=notes.abbreviation, topics=tuple(notes.topics)
            )
        case "conversation_deleted":
            return updates.ConversationDeleted()
        case "messages_redacted":
            redacted = it.messages_redacted
            return updates.MessagesRedacted(
                conversation=read.conversation(redacted.conversation),
                sequences=tuple(redacted.sequences),
                redaction=read.redaction(redacted.redaction),
            )
        case "split_suggested":
            return updates.SplitSuggested(
                reason=it.split_suggested.reason, titles=tuple(it.split_suggested.titles)
            )
        case "message_delta":
            delta = it.message_delta
            return updates.MessageDelta(
                draft_id=delta.draft_id,
                offset=delta.offset,
                text=delta.text,
                done=delta.done,
                dropped=delta.dropped,
            )
        case _:
            return None
