"""The calls of ConversationService."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from recollect._shared import read, read_update
from recollect._shared.calls import parts
from recollect._shared.fill import fill, invalid
from recollect._shared.rpc import Call, Method
from recollect._shared.watching import Element
from recollect._types.conversation import (
    AnchorDisposition,
    AppendedTurn,
    ArchiveFilter,
    Conversation,
    ConversationPage,
    DeletedConversations,
    DeletionReceipt,
    LoadedConversation,
    Party,
    RedactedMessages,
    RegeneratedNotes,
)
from recollect._types.message import Message
from recollect._types.update import Update
from recollect.v1 import conversation_pb2
from recollect.v1 import conversation_service_pb2 as pb

K = TypeVar("K", bound=StrEnum)
V = TypeVar("V")

_SERVICE = pb.DESCRIPTOR.services_by_name["ConversationService"]
_CREATE = Method(_SERVICE, "Create", pb.CreateRequest, pb.CreateResponse)
_GET = Method(_SERVICE, "Get", pb.GetRequest, pb.GetResponse)
_LIST = Method(_SERVICE, "List", pb.ListRequest, pb.ListResponse)
_LOAD = Method(_SERVICE, "Load", pb.LoadRequest, pb.LoadResponse)
_APPEND_TURN = Method(_SERVICE, "AppendTurn", pb.AppendTurnRequest, pb.AppendTurnResponse)
_STREAM_UPDATES = Method(
    _SERVICE, "StreamUpdates", pb.StreamUpdatesRequest, pb.StreamUpdatesResponse
)
_PUBLISH_DELTA = Method(_SERVICE, "PublishDelta", pb.PublishDeltaRequest, pb.PublishDeltaResponse)
_SWITCH = Method(_SERVICE, "Switch", pb.SwitchRequest, pb.SwitchResponse)
_RENAME = Method(_SERVICE, "Rename", pb.RenameRequest, pb.RenameResponse)
_DELETE_MANY = Method(_SERVICE, "DeleteMany", pb.DeleteManyRequest, pb.DeleteManyResponse)
_FORK = Method(_SERVICE, "Fork", pb.ForkRequest, pb.ForkResponse)
_SET_TOPICS = Method(_SERVICE, "SetTopics", pb.SetTopicsRequest, pb.SetTopicsResponse)
_ARCHIVE = Method(_SERVICE, "Archive", pb.ArchiveRequest, pb.ArchiveResponse)
_UPDATE_METADATA = Method(
    _SERVICE, "UpdateMetadata", pb.UpdateMetadataRequest, pb.UpdateMetadataResponse
)
_SET_MODEL = Method(_SERVICE, "SetModel", pb.SetModelRequest, pb.SetModelResponse)
_RECORD_COMPRESSION = Method(
    _SERVICE, "RecordCompression", pb.RecordCompressionRequest, pb.RecordCompressionResponse
)
_RECORD_ABBREVIATION = Method(
    _SERVICE, "RecordAbbreviation", pb.RecordAbbreviationRequest, pb.RecordAbbreviationResponse
)
_REGENERATE_NOTES = Method(
    _SERVICE, "RegenerateNotes", pb.RegenerateNotesRequest, pb.RegenerateNotesResponse
)
_REDACT_MESSAGE = Method(
    _SERVICE, "RedactMessage", pb.RedactMessageRequest, pb.RedactMessageResponse
)
_DELETE = Method(_SERVICE, "Delete", pb.DeleteRequest, pb.DeleteResponse)

_BATCH = 1000  # updates in one element of a stream, where so many wait
_ARCHIVED = {
    ArchiveFilter.ARCHIVED: conversation_pb2.ARCHIVE_FILTER_ARCHIVED,
    ArchiveFilter.ALL: conversation_pb2.ARCHIVE_FILTER_ALL,
}
_DISPOSITIONS = {
    AnchorDisposition.KEEP: pb.ANCHOR_DISPOSITION_KEEP,
    AnchorDisposition.DELETE: pb.ANCHOR_DISPOSITION_DELETE,
}

WatchCall = Call[pb.StreamUpdatesRequest, pb.StreamUpdatesResponse, Element[Update]]
ListCall = Call[pb.ListRequest, pb.ListResponse, ConversationPage]


def create(
    channel: str,
    participants: Iterable[str] | None,
    party: Party | None,
    model: str | None,
    create_time: datetime | None,
    messages: Iterable[Message] | None,
    pinned: bool,
    conversation_id: str | None,
    request_id: str | None,
) -> Call[pb.CreateRequest, pb.CreateResponse, Conversation]:
    """Return the call of Create."""
    request = fill(
        pb.CreateRequest(),
        channel=channel,
        participants=participants,
        party=parts.party(party),
        model=model,
        create_time=create_time,
        messages=None if messages is None else parts.messages(messages),
        pinned=pinned,
        conversation_id=conversation_id,
        request_id=parts.request_id(request_id),
    )
    return Call(_CREATE, request, lambda response: read.conversation(response.conversation))


def get(conversation_id: str) -> Call[pb.GetRequest, pb.GetResponse, Conversation]:
    """Return the call of Get."""
    request = fill(pb.GetRequest(), conversation_id=conversation_id)
    return Call(_GET, request, lambda response: read.conversation(response.conversation))


def list_page(
    page_size: int | None,
    page_token: str | None,
    channels: Iterable[str] | None,
    topics: Iterable[str] | None,
    party: Party | None,
    pinned: bool | None,
    updated_after: datetime | None,
    updated_before: datetime | None,
    query: str | None,
    notes_failed: bool | None,
    archived: ArchiveFilter | None,
) -> ListCall:
    """Return the call of List for one page."""
    request = fill(
        pb.ListRequest(),
        page_size=page_size,
        page_token=page_token,
        channels=channels,
        topics=topics,
        party=parts.party(party),
        pinned=pinned,
        updated_after=updated_after,
        updated_before=updated_before,
        query=query,
        notes_failed=notes_failed,
        archived=_number("archived", archived, _ARCHIVED),
    )
    return Call(_LIST, request, read.conversation_page)


def load(
    conversation_id: str | None,
    channel: str | None,
    max_turns: int | None,
    max_tokens: int | None,
    before_turn: int | None,
    before_sequence: int | None,
) -> Call[pb.LoadRequest, pb.LoadResponse, LoadedConversation]:
    """Return the call of Load."""
    request = fill(
        pb.LoadRequest(),
        conversation_id=conversation_id,
        channel=channel,
        max_turns=max_turns,
        max_tokens=max_tokens,
        before_turn=before_turn,
        before_sequence=before_sequence,
    )
    return Call(_LOAD, request, read.loaded)


def append_turn(
    conversation_id: str,
    messages: Iterable[Message],
    expected_turn: int | None,
    in_reply_to_turn: int | None,
    draft_id: str | None,
    request_id: str | None,
) -> Call[pb.AppendTurnRequest, pb.AppendTurnResponse, AppendedTurn]:
    """Return the call of AppendTurn."""
    request = fill(
        pb.AppendTurnRequest(),
        conversation_id=conversation_id,
        messages=parts.messages(messages),
        expected_turn=expected_turn,
        in_reply_to_turn=in_reply_to_turn,
        draft_id=draft_id,
        request_id=parts.request_id(request_id),
    )
    return Call(_APPEND_TURN, request, read.appended)


def watch(
    conversation_ids: Iterable[str] | None,
    channels: Iterable[str] | None,
    cursor: str | None,
    max_turns: int | None,
    load_channel: str | None,
    load_conversation_id: str | None,
    list_channels: Iterable[str] | None,
) -> WatchCall:
    """Return the call of StreamUpdates for the first connection of a watch."""
    request = fill(
        pb.StreamUpdatesRequest(),
        conversation_ids=conversation_ids,
        channels=channels,
        cursor=cursor,
        max_turns=max_turns,
        max_batch=_BATCH,
        load_channel=load_channel,
        load_conversation_id=load_conversation_id,
        list_channels=list_channels,
    )
    return Call(_STREAM_UPDATES, request, read_update.updates_of)


def publish_delta(
    conversation_id: str, draft_id: str, offset: int, text: str, done: bool
) -> Call[pb.PublishDeltaRequest, pb.PublishDeltaResponse, None]:
    """Return the call of PublishDelta."""
    request = fill(
        pb.PublishDeltaRequest(),
        conversation_id=conversation_id,
        draft_id=draft_id,
        offset=offset,
        text=text,
        done=done,
    )
    return Call(_PUBLISH_DELTA, request, lambda _: None)


def switch(
    from_conversation_id: str | None,
    to_conversation_id: str | None,
    max_turns: int | None,
    request_id: str | None,
) -> Call[pb.SwitchRequest, pb.SwitchResponse, LoadedConversation]:
    """Return the call of Switch."""
    request = fill(
        pb.SwitchRequest(),
        from_conversation_id=from_conversation_id,
        to_conversation_id=to_conversation_id,
        max_turns=max_turns,
        request_id=parts.request_id(request_id),
    )
    return Call(_SWITCH, request, read.loaded)


def rename(
    conversation_id: str,
    title: str,
    automatic: bool,
    topics: Iterable[str] | None,
    writer: str | None,
    writer_model: str | None,
    request_id: str | None,
) -> Call[pb.RenameRequest, pb.RenameResponse, Conversation]:
    """Return the call of Rename."""
    request = fill(
        pb.RenameRequest(),
        conversation_id=conversation_id,
        title=title,
        automatic=automatic,
        topics=topics,
        writer=writer,
        writer_model=writer_model,
        request_id=parts.request_id(request_id),
    )
    return Call(_RENAME, request, lambda response: read.conversation(response.conversation))


def set_model(
    conversation_id: str, model: str, request_id: str | None
) -> Call[pb.SetModelRequest, pb.SetModelResponse, Conversation]:
    """Return the call of SetModel."""
    request = fill(
        pb.SetModelRequest(),
        conversation_id=conversation_id,
        model=model,
        request_id=parts.request_id(request_id),
    )
    return Call(_SET_MODEL, request, lambda response: read.conversation(response.conversation))


def fork(
    conversation_id: str, through_turn: int | None, request_id: str | None
) -> Call[pb.ForkRequest, pb.ForkResponse, Conversation]:
    """Return the call of Fork."""
    request = fill(
        pb.ForkRequest(),
        conversation_id=conversation_id,
        through_turn=through_turn,
        request_id=parts.request_id(request_id),
    )
    return Call(_FORK, request, lambda response: read.conversation(response.conversation))


def set_topics(
    conversation_id: str, topics: Iterable[str], request_id: str | None
) -> Call[pb.SetTopicsRequest, pb.SetTopicsResponse, Conversation]:
    """Return the call of SetTopics."""
    request = fill(
        pb.SetTopicsRequest(),
        conversation_id=conversation_id,
        topics=topics,
        request_id=parts.request_id(request_id),
    )
    return Call(_SET_TOPICS, request, lambda response: read.conversation(response.conversation))


def archive(
    conversation_id: str, unarchive: bool, request_id: str | None
) -> Call[pb.ArchiveRequest, pb.ArchiveResponse, Conversation]:
    """Return the call of Archive."""
    request = fill(
        pb.ArchiveRequest(),
        conversation_id=conversation_id,
        unarchive=unarchive or None,
        request_id=parts.request_id(request_id),
    )
    return Call(_ARCHIVE, request, lambda response: read.conversation(response.conversation))


def update_metadata(
    conversation_id: str, metadata: Mapping[str, Any], request_id: str | None
) -> Call[pb.UpdateMetadataRequest, pb.UpdateMetadataResponse, Conversation]:
    """Return the call of UpdateMetadata."""
    request = fill(
        pb.UpdateMetadataRequest(),
        conversation_id=conversation_id,
        metadata=metadata,
        request_id=parts.request_id(request_id),
    )
    return Call(
        _UPDATE_METADATA, request, lambda response: read.conversation(response.conversation)
    )


def record_compression(
    conversation_id: str, compressed_through: int, summary: str, request_id: str | None
) -> Call[pb.RecordCompressionRequest, pb.RecordCompressionResponse, Conversation]:
    """Return the call of RecordCompression."""
    request = fill(
        pb.RecordCompressionRequest(),
        conversation_id=conversation_id,
        compressed_through=compressed_through,
        summary=summary,
        request_id=parts.request_id(request_id),
    )
    return Call(
        _RECORD_COMPRESSION, request, lambda response: read.conversation(response.conversation)
    )


def record_abbreviation(
    conversation_id: str,
    text: str,
    topics: Iterable[str] | None,
    writer: str | None,
    writer_model: str | None,
    request_id: str | None,
) -> Call[pb.RecordAbbreviationRequest, pb.RecordAbbreviationResponse, Conversation]:
    """Return the call of RecordAbbreviation."""
    request = fill(
        pb.RecordAbbreviationRequest(),
        conversation_id=conversation_id,
        text=text,
        topics=topics,
        writer=writer,
        writer_model=writer_model,
        request_id=parts.request_id(request_id),
    )
    return Call(
        _RECORD_ABBREVIATION, request, lambda response: read.conversation(response.conversation)
    )


def regenerate_notes(
    conversation_id: str | None,
    channels: Iterable[str] | None,
    topics: Iterable[str] | None,
    writers: Iterable[str] | None,
    updated_after: datetime | None,
    updated_before: datetime | None,
    all_conversations: bool,
    dry_run: bool,
    request_id: str | None,
) -> Call[pb.RegenerateNotesRequest, pb.RegenerateNotesResponse, RegeneratedNotes]:
    """Return the call of RegenerateNotes."""
    request = fill(
        pb.RegenerateNotesRequest(),
        conversation_id=conversation_id,
        channels=channels,
        topics=topics,
        writers=writers,
        updated_after=updated_after,
        updated_before=updated_before,
        all=all_conversations,
        dry_run=dry_run,
        request_id=parts.request_id(request_id),
    )
    return Call(_REGENERATE_NOTES, request, read.regenerated)


def delete(
    conversation_id: str, anchors: AnchorDisposition | None, force: bool, request_id: str | None
) -> Call[pb.DeleteRequest, pb.DeleteResponse, DeletionReceipt]:
    """Return the call of Delete."""
    request = fill(
        pb.DeleteRequest(),
        conversation_id=conversation_id,
        anchors=_number("anchors", anchors, _DISPOSITIONS),
        force=force or None,
        request_id=parts.request_id(request_id),
    )
    return Call(_DELETE, request, read.receipt)


def redact_message(
    conversation_id: str, sequence: int | None, turn_number: int | None, request_id: str | None
) -> Call[pb.RedactMessageRequest, pb.RedactMessageResponse, RedactedMessages]:
    """Return the call of RedactMessage."""
    request = fill(
        pb.RedactMessageRequest(),
        conversation_id=conversation_id,
        sequence=sequence,
        turn_number=turn_number,
        request_id=parts.request_id(request_id),
    )
    return Call(_REDACT_MESSAGE, request, read.redacted)


def delete_many(
    conversation_ids: Iterable[str] | None,
    channels: Iterable[str] | None,
    topics: Iterable[str] | None,
    updated_after: datetime | None,
    updated_before: datetime | None,
    archived: ArchiveFilter | None,
    anchors: AnchorDisposition | None,
    force: bool,
    dry_run: bool,
    limit: int | None,
    request_id: str | None,
) -> Call[pb.DeleteManyRequest, pb.DeleteManyResponse, DeletedConversations]:
    """Return the call of DeleteMany."""
    request = fill(
        pb.DeleteManyRequest(),
        conversation_ids=conversation_ids,
        channels=channels,
        topics=topics,
        updated_after=updated_after,
        updated_before=updated_before,
        archived=_number("archived", archived, _ARCHIVED),
        anchors=_number("anchors", anchors, _DISPOSITIONS),
        force=force or None,
        dry_run=dry_run or None,
        limit=limit,
        request_id=parts.request_id(request_id),
    )
    return Call(_DELETE_MANY, request, read.deleted)


def _number(name: str, value: K | None, numbers: Mapping[K, V]) -> V | None:
    """Return the contract's number of a value, at the field of this name."""
    if value is None:
        return None
    if value not in numbers:
        raise invalid(name, f"must be one of {', '.join(numbers)}, not {value!r}")
    return numbers[value]
