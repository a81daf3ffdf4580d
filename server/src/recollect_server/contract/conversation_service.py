"""ConversationService: conversations, their messages and notes, live updates, and removals."""

from google.protobuf import json_format
from recollect.v1 import conversation_pb2, error_pb2
from recollect.v1 import conversation_service_pb2 as api

from recollect_server.channels.parsing import listed_model
from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import (
    CursorSeal,
    conversation_to,
    fill_conversation,
    fill_message,
    fill_with_messages,
    message_from,
    message_to,
    optional_milliseconds,
    page_size,
    party_from,
    removed_from,
    timestamp,
    turn_memory_to,
    writer_of,
)
from recollect_server.contract.handling import Call, Send
from recollect_server.contract.streams import Streams
from recollect_server.conversations.service import Conversations
from recollect_server.kernel.domain.conversation import CALLER, NoteRecord
from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.domain.filters import Filter, Page
from recollect_server.kernel.domain.ids import MAX_LINES
from recollect_server.kernel.erase.bulk_removal import Removals
from recollect_server.kernel.space.turns import LoadResult, WorkingContext
from recollect_server.kernel.stream.live import Choice, LiveUpdates
from recollect_server.kernel.stream.log import Watcher
from recollect_server.kernel.stream.ring import Interest
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.people.identities import Identities
from recollect_server.people.routing import pinned_party

_MAX_BATCH = 1000
_USUAL_DELETED = 100
_LEFT = {
    "ConversationPinned": error_pb2.ERROR_REASON_CONVERSATION_PINNED,
    "AnchorsPresent": error_pb2.ERROR_REASON_ANCHORS_PRESENT,
}
_MAX_TURNS = 1000
_MAX_DELETED = 1000
_ARCHIVED: dict[int, bool | None] = {
    conversation_pb2.ARCHIVE_FILTER_UNSPECIFIED: False,
    conversation_pb2.ARCHIVE_FILTER_ARCHIVED: True,
    conversation_pb2.ARCHIVE_FILTER_ALL: None,
}


class ConversationHandlers:
    def __init__(
        self,
        conversations: Conversations,
        notes: ConversationNotes,
        working_context: WorkingContext,
        identities: Identities,
        removals: Removals,
        live: LiveUpdates,
        streams: Streams,
        answers: Answers,
        seal: CursorSeal,
        batch_bytes: int,
        models: tuple[str, ...],
    ) -> None:
        """`models` are those that SetModel may choose; none: any."""
        self._conversations = conversations
        self._notes = notes
        self._working_context = working_context
        self._identities = identities
        self._removals = removals
        self._live = live
        self._streams = streams
        self._answers = answers
        self._seal = seal
        self._batch_bytes = batch_bytes
        self._models = models

    # Writing --------------------------------------------------------------------------------------

    def Create(self, request: api.CreateRequest, call: Call) -> api.CreateResponse:
        party = party_from(request.party)
        if request.pinned:
            placed = pinned_party(request.channel, party)
            party = party if isinstance(placed, str) else placed
        beginning = self._conversations.create(
            channel=request.channel,
            participants=tuple(request.participants),
            party=party,
            model=request.model,
            create_time=optional_milliseconds(request, "create_time"),
            conversation_id=request.conversation_id,
            request_id=request.request_id,
            messages=[message_from(message) for message in request.messages],
            pinned=request.pinned,
        )
        answer = api.CreateResponse(
            duplicate=beginning.duplicate, cursor=self._seal.cursor(beginning.cursor)
        )
        fill_with_messages(answer, beginning.conversation, beginning.messages)
        return answer

    def AppendTurn(self, request: api.AppendTurnRequest, call: Call) -> api.AppendTurnResponse:
        in_reply_to_turn = (
            request.in_reply_to_turn if request.HasField("in_reply_to_turn") else None
        )
        appended = self._conversations.append(
            request.conversation_id,
            list(map(message_from, request.messages)),
            request_id=request.request_id,
            expected_turn=request.expected_turn if request.HasField("expected_turn") else None,
            draft_id=request.draft_id,
            in_reply_to_turn=in_reply_to_turn,
        )
        answer = api.AppendTurnResponse(
            turn_number=appended.messages[-1].turn_number if appended.messages else 0,
            cursor=self._seal.cursor(appended.cursor),
            duplicate=appended.duplicate,
        )
        # written out: an append makes as few calls as it can
        fill_conversation(answer.conversation, appended.conversation)
        for message in appended.messages:
            fill_message(answer.messages.add(), message)
        return answer

    def Fork(self, request: api.ForkRequest, call: Call) -> api.ForkResponse:
        forked = self._conversations.fork(
            request.conversation_id,
            request.through_turn,
            self._batch_bytes,
            request.request_id,
        )
        return api.ForkResponse(
            conversation=conversation_to(forked.conversation),
            duplicate=forked.duplicate,
            cursor=self._seal.cursor(forked.cursor),
        )

    # Reading --------------------------------------------------------------------------------------

    def Get(self, request: api.GetRequest, call: Call) -> api.GetResponse:
        conversation = self._conversations.get(request.conversation_id)
        failures = self._notes.failures([request.conversation_id])
        return api.GetResponse(
            conversation=conversation_to(conversation, failures.get(request.conversation_id, ""))
        )

    def List(self, request: api.ListRequest, call: Call) -> api.ListResponse:
        chosen = Filter(
            conversation_id=call.principal.conversation_id,
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            participants=tuple(request.participants),
            party=party_from(request.party),
            pinned=request.pinned if request.HasField("pinned") else None,
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
            name=request.query,
            archived=_ARCHIVED.get(request.archived, False),
            notes_failed=request.notes_failed if request.HasField("notes_failed") else None,
            metadata_key=request.metadata_key,
        )
        page = self._conversations.page(
            self._identities.widened(chosen),
            page_size(request.page_size),
            self._seal.place(request, request.page_token),
        )
        failures = self._notes.failures([it.id for it in page.entries])
        fitting, following = self._answers.fitting_page(
            page, lambda it: conversation_to(it, failures.get(it.id, ""))
        )
        return api.ListResponse(
            conversations=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def Load(self, request: api.LoadRequest, call: Call) -> api.LoadResponse:
        conversation_id = request.conversation_id or self._working_context.most_recent(
            request.channel
        )
        if conversation_id is None:
            return api.LoadResponse()
        with self._answers.room(call.context) as keep:
            loaded = self._working_context.load(
                conversation_id,
                max_turns=min(request.max_turns, _MAX_TURNS),
                max_tokens=request.max_tokens,
                before_turn=request.before_turn,
                before_sequence=min(request.before_sequence, MAX_LINES),
            )
            if (
                request.channel
                and loaded.conversation
                and loaded.conversation.channel != request.channel
            ):
                raise InvalidField.of(
                    "channel", f"the conversation is on {loaded.conversation.channel}"
                )
            answer = api.LoadResponse()
            _fill(answer, loaded)
            return keep(answer)

    def Switch(self, request: api.SwitchRequest, call: Call) -> api.SwitchResponse:
        answer = api.SwitchResponse()
        if request.to_conversation_id:
            turns = min(request.max_turns, _MAX_TURNS)
            with self._answers.room(call.context) as keep:
                _fill(
                    answer, self._working_context.load(request.to_conversation_id, max_turns=turns)
                )
                keep(answer)
        self._notes.leave(
            request.from_conversation_id,
            request.to_conversation_id,
            request.max_turns,
            request.request_id,
        )
        return answer

    # Streaming ------------------------------------------------------------------------------------

    def StreamUpdates(self, request: api.StreamUpdatesRequest, call: Call, send: Send) -> None:
        choice = Choice(
            request.load_channel, request.load_conversation_id, tuple(sorted(request.list_channels))
        )
        interest = Interest(frozenset(request.conversation_ids), frozenset(request.channels))
        turns, batch = (
            min(request.max_turns, _MAX_TURNS),
            min(max(request.max_batch, 1), _MAX_BATCH),
        )
        cursor = self._seal.position(request.cursor)

        def subscribe(live: LiveUpdates, cursor: str) -> Watcher:
            return live.subscribe(interest, choice, cursor, turns)

        self._streams.open(self._live, subscribe, cursor, batch, call, send)

    def PublishDelta(
        self, request: api.PublishDeltaRequest, call: Call
    ) -> api.PublishDeltaResponse:
        self._live.publish(
            request.conversation_id,
            request.draft_id,
            request.offset,
            request.text,
            done=request.done,
            speaks_from=call.principal.channel,
        )
        return api.PublishDeltaResponse()

    # Changing -------------------------------------------------------------------------------------

    def SetModel(self, request: api.SetModelRequest, call: Call) -> api.SetModelResponse:
        model = listed_model(request.model, self._models)
        if model is None:
            raise InvalidField.of(
                "model", f"is none of those that may be chosen here: {', '.join(self._models)}"
            )
        conversation = self._conversations.set_model(
            request.conversation_id, model, request.request_id
        )
        return api.SetModelResponse(conversation=conversation_to(conversation))

    def SetTopics(self, request: api.SetTopicsRequest, call: Call) -> api.SetTopicsResponse:
        conversation = self._conversations.set_topics(
            request.conversation_id, tuple(request.topics), request.request_id
        )
        return api.SetTopicsResponse(conversation=conversation_to(conversation))

    def Archive(self, request: api.ArchiveRequest, call: Call) -> api.ArchiveResponse:
        conversation = self._conversations.archive(
            request.conversation_id,
            archived=not request.unarchive,
            request_id=request.request_id,
        )
        return api.ArchiveResponse(conversation=conversation_to(conversation))

    def UpdateMetadata(
        self, request: api.UpdateMetadataRequest, call: Call
    ) -> api.UpdateMetadataResponse:
        conversation = self._conversations.update_metadata(
            request.conversation_id,
            json_format.MessageToDict(request.metadata),
            request.request_id,
        )
        return api.UpdateMetadataResponse(conversation=conversation_to(conversation))

    # Notes ----------------------------------------------------------------------------------------

    def Rename(self, request: api.RenameRequest, call: Call) -> api.RenameResponse:
        title = request.title.strip()
        if request.automatic:
            topics = tuple(request.topics)
            conversation = self._notes.assign_title(
                request.conversation_id, title, topics, _record_of(request, ""), request.request_id
            )
        else:
            conversation = self._conversations.rename(
                request.conversation_id, title, request.request_id
            )
        return api.RenameResponse(conversation=conversation_to(conversation))

    def RecordCompression(
        self, request: api.RecordCompressionRequest, call: Call
    ) -> api.RecordCompressionResponse:
        conversation = self._notes.record_compression(
            request.conversation_id, request.compressed_through, request.summary, request.request_id
        )
        return api.RecordCompressionResponse(conversation=conversation_to(conversation))

    def RecordAbbreviation(
        self, request: api.RecordAbbreviationRequest, call: Call
    ) -> api.RecordAbbreviationResponse:
        conversation = self._notes.record_abbreviation(
            request.conversation_id,
            request.text,
            tuple(dict.fromkeys(request.topics)),
            _record_of(request, CALLER),
            request.request_id,
        )
        return api.RecordAbbreviationResponse(conversation=conversation_to(conversation))

    def SetTurnMemory(
        self, request: api.SetTurnMemoryRequest, call: Call
    ) -> api.SetTurnMemoryResponse:
        conversation = self._notes.set_turn_memory(
            request.conversation_id,
            request.turn_number,
            request.tier if request.tier or request.reset_tier else None,
            request.summary.strip() if request.HasField("summary") else None,
            request.request_id,
        )
        return api.SetTurnMemoryResponse(conversation=conversation_to(conversation))

    def ListTurnMemory(
        self, request: api.ListTurnMemoryRequest, call: Call
    ) -> api.ListTurnMemoryResponse:
        size = page_size(request.page_size)
        place = self._seal.place(request, request.page_token)
        after = place[0] if place else 0
        memories = self._notes.turn_memories(request.conversation_id, after, size + 1)
        page = Page.of(memories, size, lambda it: (it.turn, "-"))
        fitting, following = self._answers.fitting_page(page, turn_memory_to)
        return api.ListTurnMemoryResponse(
            turn_memories=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def RegenerateNotes(
        self, request: api.RegenerateNotesRequest, call: Call
    ) -> api.RegenerateNotesResponse:
        chosen = Filter(
            conversation_id=request.conversation_id,
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
        )
        queued, others = self._notes.regenerate(
            chosen,
            tuple(map(writer_of, request.writers)),
            dry_run=request.dry_run,
            request_id=request.request_id,
        )
        return api.RegenerateNotesResponse(queued=queued, kept=others)

    # Removing -------------------------------------------------------------------------------------

    def Delete(self, request: api.DeleteRequest, call: Call) -> api.DeleteResponse:
        receipt = self._removals.delete(
            request.conversation_id,
            request.anchors,
            request.request_id,
            force=request.force,
            deleting=call.record,
        )
        return api.DeleteResponse(
            conversation_id=receipt.conversation_id,
            removed=removed_from(receipt.removed),
            delete_time=timestamp(receipt.time),
        )

    def DeleteMany(self, request: api.DeleteManyRequest, call: Call) -> api.DeleteManyResponse:
        archived = request.archived != conversation_pb2.ARCHIVE_FILTER_UNSPECIFIED
        chosen = Filter(
            conversation_ids=tuple(request.conversation_ids),
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            participants=tuple(request.participants),
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
            archived=_ARCHIVED[request.archived] if archived else None,
        )
        receipt = self._removals.delete_many(
            self._identities.widened(chosen),
            request.anchors,
            min(request.limit or _USUAL_DELETED, _MAX_DELETED),
            request.request_id,
            force=request.force,
            dry_run=request.dry_run,
            deleting=call.record,
        )
        return api.DeleteManyResponse(
            conversation_ids=receipt.conversations,
            left=[
                api.LeftConversation(conversation_id=name, reason=_LEFT[reason])
                for name, reason in receipt.left
            ],
            removed=removed_from(receipt.removed),
            has_more=receipt.has_more,
            delete_time=timestamp(receipt.time),
            failure=receipt.failure,
        )

    def RedactMessage(
        self, request: api.RedactMessageRequest, call: Call
    ) -> api.RedactMessageResponse:
        done, copies = self._removals.redact(
            request.conversation_id,
            min(request.sequence, MAX_LINES + 1),
            request.turn_number,
            call.principal.token_id,
            request.request_id,
        )
        return api.RedactMessageResponse(
            conversation=conversation_to(done.state),
            messages=map(message_to, done.messages),
            redact_time=timestamp(done.time),
            duplicate=done.duplicate,
            copied_in=copies,
        )


def _fill(answer: api.LoadResponse | api.SwitchResponse, loaded: LoadResult) -> None:
    fill_with_messages(answer, loaded.conversation, loaded.turns.messages)
    answer.has_more = loaded.has_more
    answer.compression_summary = loaded.compression_summary
    answer.damaged_lines = loaded.turns.damaged
    answer.cut_before_sequence = loaded.cut_before


def _record_of(
    request: api.RenameRequest | api.RecordAbbreviationRequest, otherwise: str
) -> NoteRecord:
    """Return the record of notes that a caller brings; `otherwise` is the writer where none is
    named.
    """
    return NoteRecord(
        writer_of(request.writer) if request.writer else otherwise, request.writer_model
    )
