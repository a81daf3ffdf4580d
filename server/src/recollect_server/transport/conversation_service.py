"""ConversationService: check, call, convert, return."""

from functools import partial

from google.protobuf import json_format
from recollect.v1 import conversation_pb2, error_pb2
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import ROLE_USER

from recollect_server.domain.addresses import WEB
from recollect_server.domain.commands import listed_model
from recollect_server.domain.conversation import CALLER, NoteRecord
from recollect_server.domain.errors import InvalidField
from recollect_server.domain.filters import Filter
from recollect_server.domain.ids import MAX_LINES
from recollect_server.domain.routing import pinned_party
from recollect_server.domain.time import Clock
from recollect_server.services.conversations import Conversations
from recollect_server.services.streaming.live import LiveUpdates
from recollect_server.services.streaming.log import Interest
from recollect_server.services.streaming.snapshot import Choice
from recollect_server.services.working_context import Loaded, WorkingContext
from recollect_server.transport.answers import Answers
from recollect_server.transport.checks import MAX_FILTER, Checks, Limits
from recollect_server.transport.checks_message import check_messages, check_metadata
from recollect_server.transport.convert import (
    conversation_to,
    fill_conversation,
    fill_message,
    message_from,
    message_to,
    optional_milliseconds,
    party_from,
    timestamp,
    writer_of,
)
from recollect_server.transport.handling import Call, Send
from recollect_server.transport.pages import Seal, page_size
from recollect_server.transport.streams import Streams

_MAX_TITLE = 80
_MAX_NAME = 128  # of a model, or of a draft
_MAX_QUERY = 256
_MAX_SUMMARY = 1 << 20
_MAX_ABBREVIATION = 16 * 1024
_MAX_TURNS = 1000
_MAX_CONVERSATIONS = 1000
_MAX_BATCH = 1000
_MAX_WRITERS = 8
_USUAL_DELETED = 100


_ARCHIVED: dict[int, bool | None] = {
    conversation_pb2.ARCHIVE_FILTER_UNSPECIFIED: False,
    conversation_pb2.ARCHIVE_FILTER_ARCHIVED: True,
    conversation_pb2.ARCHIVE_FILTER_ALL: None,
}


_LEFT = {
    "ConversationPinned": error_pb2.ERROR_REASON_CONVERSATION_PINNED,
    "AnchorsPresent": error_pb2.ERROR_REASON_ANCHORS_PRESENT,
}


class ConversationHandlers:
    """The handlers of ConversationService."""

    def __init__(
        self,
        conversations: Conversations,
        working_context: WorkingContext,
        live: LiveUpdates,
        streams: Streams,
        limits: Limits,
        answers: Answers,
        seal: Seal,
        clock: Clock,
        models: tuple[str, ...] = (),
    ) -> None:
        """`models` are those that SetModel may choose; none: any."""
        self._conversations = conversations
        self._working_context = working_context
        self._live = live
        self._streams = streams
        self._limits = limits
        self._answers = answers
        self._seal = seal
        self._clock = clock
        self._models = models

    def Create(self, request: api.CreateRequest, call: Call) -> api.CreateResponse:
        """Begin a conversation."""
        checks = Checks()
        checks.label("channel", request.channel, required=True)
        checks.names("participants", request.participants)
        checks.party("party", request.party)
        checks.text("model", request.model, most=_MAX_NAME)
        checks.request_id(request.request_id)
        if request.HasField("create_time"):
            checks.moment("create_time", request.create_time, self._clock())
        checks.conversation_id("conversation_id", request.conversation_id, required=False)
        check_messages(checks, request.messages, self._limits, self._clock(), least=0)
        party = party_from(request.party)
        if request.pinned:
            placed = pinned_party(request.channel, party)
            if isinstance(placed, str):
                checks.refuse("pinned" if request.channel == WEB else "party", placed)
            else:
                party = placed
        checks.done()
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
        fill_conversation(answer.conversation, beginning.conversation)
        for message in beginning.messages:
            fill_message(answer.messages.add(), message)
        return answer

    def Get(self, request: api.GetRequest, call: Call) -> api.GetResponse:
        """Return a conversation."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.done()
        conversation = self._conversations.get(request.conversation_id)
        failures = self._conversations.note_failures([request.conversation_id])
        return api.GetResponse(
            conversation=conversation_to(conversation, failures.get(request.conversation_id, ""))
        )

    def List(self, request: api.ListRequest, call: Call) -> api.ListResponse:
        """Return a page of conversations."""
        checks = Checks()
        checks.not_negative("page_size", request.page_size)
        checks.channels("channels", request.channels)
        checks.topics("topics", request.topics, most=MAX_FILTER)
        checks.party("party", request.party)
        checks.span(request, "updated_after", "updated_before")
        checks.text("query", request.query, most=_MAX_QUERY)
        if request.archived not in _ARCHIVED:
            checks.refuse("archived", f"is {request.archived}, which the contract does not name")
        checks.done()
        chosen = Filter(
            conversation_id=call.principal.conversation_id,
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            party=party_from(request.party),
            pinned=request.pinned if request.HasField("pinned") else None,
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
            title=request.query,
            archived=_ARCHIVED.get(request.archived, False),
            notes_failed=request.notes_failed if request.HasField("notes_failed") else None,
        )
        page = self._conversations.page(
            chosen, page_size(request.page_size), self._seal.place(request, request.page_token)
        )
        values = (conversation_to(it, page.failures.get(it.id, "")) for it in page.conversations)
        fitting, more = self._answers.fitting(values)
        last = page.conversations[len(fitting) - 1] if more else None
        return api.ListResponse(
            conversations=fitting,
            next_page_token=self._seal.page_token(
                request, (last.update_time, last.id) if last else page.next
            ),
        )

    def Load(self, request: api.LoadRequest, call: Call) -> api.LoadResponse:
        """Return the newest turns of a conversation."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id, required=False)
        checks.label("channel", request.channel)
        if not (request.conversation_id or request.channel):
            checks.refuse("channel", "is required where conversation_id is unset")
        for name in ("max_turns", "max_tokens", "before_turn", "before_sequence"):
            checks.not_negative(name, getattr(request, name))
        checks.done()
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

    def AppendTurn(self, request: api.AppendTurnRequest, call: Call) -> api.AppendTurnResponse:
        """Append messages, all or none."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.request_id(request.request_id)
        checks.text("draft_id", request.draft_id, most=_MAX_NAME)
        checks.not_negative("expected_turn", request.expected_turn)
        check_messages(checks, request.messages, self._limits, self._clock())
        in_reply_to_turn = (
            request.in_reply_to_turn if request.HasField("in_reply_to_turn") else None
        )
        if in_reply_to_turn is not None and in_reply_to_turn < 1:
            checks.refuse("in_reply_to_turn", f"is {in_reply_to_turn}; turns begin with 1")
        if in_reply_to_turn is not None and any(
            message.role == ROLE_USER for message in request.messages
        ):
            checks.refuse(
                "in_reply_to_turn", "does not go with user messages: each opens a turn of its own"
            )
        checks.done()
        appended = self._conversations.append(
            request.conversation_id,
            [message_from(message) for message in request.messages],
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
        fill_conversation(answer.conversation, appended.conversation)
        for message in appended.messages:
            fill_message(answer.messages.add(), message)
        return answer

    def StreamUpdates(self, request: api.StreamUpdatesRequest, call: Call, send: Send) -> None:
        """Open a stream of live updates."""
        checks = Checks()
        checks.count("conversation_ids", request.conversation_ids, _MAX_CONVERSATIONS)
        for index, name in enumerate(request.conversation_ids[:_MAX_CONVERSATIONS]):
            checks.conversation_id(f"conversation_ids[{index}]", name)
        checks.channels("channels", request.channels)
        checks.not_negative("max_turns", request.max_turns)
        checks.not_negative("max_batch", request.max_batch)
        _check_choice(checks, request)
        checks.done()
        choice = Choice(
            request.load_channel, request.load_conversation_id, tuple(sorted(request.list_channels))
        )
        interest = Interest(frozenset(request.conversation_ids), frozenset(request.channels))
        turns, batch = (
            min(request.max_turns, _MAX_TURNS),
            min(max(request.max_batch, 1), _MAX_BATCH),
        )
        cursor = self._seal.position(request.cursor)
        subscribe = partial(self._live.subscribe, interest, choice, cursor, turns)
        self._streams.open(self._live, subscribe, batch, call, send, resumed=bool(request.cursor))

    def PublishDelta(
        self, request: api.PublishDeltaRequest, call: Call
    ) -> api.PublishDeltaResponse:
        """Publish more text of an unfinished answer."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.text("draft_id", request.draft_id, least=1, most=_MAX_NAME)
        checks.not_negative("offset", request.offset)
        checks.no_nul("text", request.text)
        if not request.text and not request.done:
            checks.refuse("text", "is empty, and the draft is not done")
        checks.done()
        self._live.publish(
            request.conversation_id,
            request.draft_id,
            request.offset,
            request.text,
            done=request.done,
            speaks_from=call.principal.channel,
        )
        return api.PublishDeltaResponse()

    def Switch(self, request: api.SwitchRequest, call: Call) -> api.SwitchResponse:
        """Leave one conversation and load another."""
        checks = Checks()
        checks.conversation_id("from_conversation_id", request.from_conversation_id, required=False)
        checks.conversation_id("to_conversation_id", request.to_conversation_id, required=False)
        checks.not_negative("max_turns", request.max_turns)
        checks.request_id(request.request_id)
        if not request.from_conversation_id and not request.to_conversation_id:
            checks.refuse("to_conversation_id", "is required where from_conversation_id is unset")
        checks.done()
        answer = api.SwitchResponse()
        if request.to_conversation_id:
            turns = min(request.max_turns, _MAX_TURNS)
            with self._answers.room(call.context) as keep:
                _fill(
                    answer, self._working_context.load(request.to_conversation_id, max_turns=turns)
                )
                keep(answer)
        self._conversations.leave(
            request.from_conversation_id,
            request.to_conversation_id,
            request.max_turns,
            request.request_id,
        )
        return answer

    def Rename(self, request: api.RenameRequest, call: Call) -> api.RenameResponse:
        """Set a title that the server never replaces."""
        title = request.title.strip()
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.text("title", title, least=1, most=_MAX_TITLE)
        if any(character in title for character in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"):
            checks.refuse("title", "is not on one line")
        checks.request_id(request.request_id)
        checks.topics("topics", request.topics)
        if request.topics and not request.automatic:
            checks.refuse("topics", "go with `automatic` alone")
        if request.writer and not request.automatic:
            checks.refuse("writer", "goes with `automatic` alone")
        _check_writer(checks, request)
        checks.done()
        if request.automatic:
            topics = tuple(request.topics)
            conversation = self._conversations.assign_title(
                request.conversation_id, title, topics, _record_of(request, ""), request.request_id
            )
        else:
            conversation = self._conversations.rename(
                request.conversation_id, title, request.request_id
            )
        return api.RenameResponse(conversation=conversation_to(conversation))

    def SetModel(self, request: api.SetModelRequest, call: Call) -> api.SetModelResponse:
        """Set the model that answers."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.text("model", request.model, most=_MAX_NAME)
        model = listed_model(request.model, self._models)
        if model is None:
            checks.refuse(
                "model", f"is none of those that may be chosen here: {', '.join(self._models)}"
            )
        checks.request_id(request.request_id)
        checks.done()
        conversation = self._conversations.set_model(
            request.conversation_id, model or "", request.request_id
        )
        return api.SetModelResponse(conversation=conversation_to(conversation))

    def Fork(self, request: api.ForkRequest, call: Call) -> api.ForkResponse:
        """Begin a conversation as a copy of another one."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.not_negative("through_turn", request.through_turn)
        checks.request_id(request.request_id)
        checks.done()
        forked = self._conversations.fork(
            request.conversation_id,
            request.through_turn,
            self._limits.batch_bytes,
            request.request_id,
        )
        return api.ForkResponse(
            conversation=conversation_to(forked.conversation),
            duplicate=forked.duplicate,
            cursor=self._seal.cursor(forked.cursor),
        )

    def SetTopics(self, request: api.SetTopicsRequest, call: Call) -> api.SetTopicsResponse:
        """Set topics by hand."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.topics("topics", request.topics)
        if len(set(request.topics)) != len(request.topics):
            checks.refuse("topics", "names a topic twice")
        checks.request_id(request.request_id)
        checks.done()
        conversation = self._conversations.set_topics(
            request.conversation_id, tuple(request.topics), request.request_id
        )
        return api.SetTopicsResponse(conversation=conversation_to(conversation))

    def Archive(self, request: api.ArchiveRequest, call: Call) -> api.ArchiveResponse:
        """Archive a conversation, or take it out of the archive."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.request_id(request.request_id)
        checks.done()
        conversation = self._conversations.archive(
            request.conversation_id,
            archived=not request.unarchive,
            request_id=request.request_id,
        )
        return api.ArchiveResponse(conversation=conversation_to(conversation))

    def UpdateMetadata(
        self, request: api.UpdateMetadataRequest, call: Call
    ) -> api.UpdateMetadataResponse:
        """Set values of a conversation's metadata."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.request_id(request.request_id)
        if not request.metadata.fields:
            checks.refuse("metadata", "is empty: give the keys to set, and null to remove one")
        else:
            check_metadata(checks, "metadata", request.metadata)
        checks.done()
        conversation = self._conversations.update_metadata(
            request.conversation_id,
            json_format.MessageToDict(request.metadata),
            request.request_id,
        )
        return api.UpdateMetadataResponse(conversation=conversation_to(conversation))

    def RecordCompression(
        self, request: api.RecordCompressionRequest, call: Call
    ) -> api.RecordCompressionResponse:
        """Record a compression."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        if request.compressed_through < 1:
            checks.refuse(
                "compressed_through", f"is {request.compressed_through}; turns begin with 1"
            )
        checks.said("summary", request.summary, _MAX_SUMMARY)
        checks.request_id(request.request_id)
        checks.done()
        conversation = self._conversations.record_compression(
            request.conversation_id, request.compressed_through, request.summary, request.request_id
        )
        return api.RecordCompressionResponse(conversation=conversation_to(conversation))

    def RecordAbbreviation(
        self, request: api.RecordAbbreviationRequest, call: Call
    ) -> api.RecordAbbreviationResponse:
        """Record notes that the caller wrote."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.said("text", request.text, _MAX_ABBREVIATION)
        checks.topics("topics", request.topics)
        checks.request_id(request.request_id)
        _check_writer(checks, request)
        checks.done()
        conversation = self._conversations.record_abbreviation(
            request.conversation_id,
            request.text,
            tuple(dict.fromkeys(request.topics)),
            _record_of(request, CALLER),
            request.request_id,
        )
        return api.RecordAbbreviationResponse(conversation=conversation_to(conversation))

    def RegenerateNotes(
        self, request: api.RegenerateNotesRequest, call: Call
    ) -> api.RegenerateNotesResponse:
        """Queue conversations whose notes are to be written again."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id, required=False)
        checks.channels("channels", request.channels)
        checks.topics("topics", request.topics, most=MAX_FILTER)
        checks.count("writers", request.writers, _MAX_WRITERS)
        for index, name in enumerate(request.writers[:_MAX_WRITERS]):
            checks.writer(f"writers[{index}]", name)
        checks.span(request, "updated_after", "updated_before")
        checks.request_id(request.request_id)
        filters = (request.conversation_id, request.channels, request.topics, request.writers)
        has_filter = (
            any(filters) or request.HasField("updated_after") or request.HasField("updated_before")
        )
        if has_filter == request.all:
            wrong = "does not go with a filter" if has_filter else "must be set where no filter is"
            checks.refuse("all", wrong)
        checks.done()
        chosen = Filter(
            conversation_id=request.conversation_id,
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
        )
        queued, others = self._conversations.regenerate_notes(
            chosen,
            tuple(map(writer_of, request.writers)),
            dry_run=request.dry_run,
            request_id=request.request_id,
        )
        return api.RegenerateNotesResponse(queued=queued, kept=others)

    def Delete(self, request: api.DeleteRequest, call: Call) -> api.DeleteResponse:
        """Delete a conversation for good."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        if request.anchors not in api.AnchorDisposition.values():
            checks.refuse("anchors", "is not a disposition of this version")
        checks.request_id(request.request_id)
        checks.done()
        receipt = self._conversations.delete(
            request.conversation_id,
            request.anchors,
            request.request_id,
            force=request.force,
            deleting=call.record,
        )
        return api.DeleteResponse(
            conversation_id=receipt.conversation_id,
            removed=[
                api.RemovedFrom(place=place, count=count)
                for place, count in receipt.removed.items()
            ],
            delete_time=timestamp(receipt.time),
        )

    def RedactMessage(
        self, request: api.RedactMessageRequest, call: Call
    ) -> api.RedactMessageResponse:
        """Remove the text of messages for good."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.not_negative("sequence", request.sequence)
        checks.not_negative("turn_number", request.turn_number)
        if bool(request.sequence) == bool(request.turn_number):
            wrong = (
                "does not go with turn_number" if request.sequence else "or turn_number is required"
            )
            checks.refuse("sequence", wrong)
        checks.request_id(request.request_id)
        checks.done()
        done, copies = self._conversations.redact(
            request.conversation_id,
            min(request.sequence, MAX_LINES + 1),
            request.turn_number,
            call.principal.token_id,
            request.request_id,
        )
        return api.RedactMessageResponse(
            conversation=conversation_to(done.conversation),
            messages=map(message_to, done.messages),
            redact_time=timestamp(done.time),
            duplicate=done.duplicate,
            copied_in=copies,
        )

    def DeleteMany(self, request: api.DeleteManyRequest, call: Call) -> api.DeleteManyResponse:
        """Delete conversations by a filter."""
        checks = Checks()
        checks.count("conversation_ids", request.conversation_ids, _MAX_CONVERSATIONS)
        for index, name in enumerate(request.conversation_ids[:_MAX_CONVERSATIONS]):
            checks.conversation_id(f"conversation_ids[{index}]", name)
        checks.channels("channels", request.channels)
        checks.topics("topics", request.topics, most=MAX_FILTER)
        checks.span(request, "updated_after", "updated_before")
        if request.archived not in _ARCHIVED:
            checks.refuse("archived", f"is {request.archived}, which the contract does not name")
        if request.anchors not in api.AnchorDisposition.values():
            checks.refuse("anchors", "is not a disposition of this version")
        checks.not_negative("limit", request.limit)
        checks.request_id(request.request_id)
        archived = request.archived != conversation_pb2.ARCHIVE_FILTER_UNSPECIFIED
        filters = (request.conversation_ids, request.channels, request.topics, archived)
        times = (request.HasField("updated_after"), request.HasField("updated_before"))
        if not any((*filters, *times)):
            checks.refuse("conversation_ids", "is empty, and no other filter is set")
        checks.done()
        chosen = Filter(
            conversation_ids=tuple(request.conversation_ids),
            channels=tuple(request.channels),
            topics=tuple(request.topics),
            updated_after=optional_milliseconds(request, "updated_after"),
            updated_before=optional_milliseconds(request, "updated_before"),
            archived=_ARCHIVED[request.archived] if archived else None,
        )
        receipt = self._conversations.delete_many(
            chosen,
            request.anchors,
            min(request.limit or _USUAL_DELETED, _MAX_CONVERSATIONS),
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
            removed=[
                api.RemovedFrom(place=place, count=count)
                for place, count in receipt.removed.items()
            ],
            has_more=receipt.has_more,
            delete_time=timestamp(receipt.time),
            failure=receipt.failure,
        )


def _check_writer(
    checks: Checks, request: api.RenameRequest | api.RecordAbbreviationRequest
) -> None:
    """Check who wrote notes that a caller brings."""
    if request.writer:
        checks.writer("writer", request.writer)
    elif request.writer_model:
        checks.refuse("writer_model", "goes with `writer` alone")
    checks.text("writer_model", request.writer_model, most=_MAX_NAME)


def _record_of(
    request: api.RenameRequest | api.RecordAbbreviationRequest, otherwise: str
) -> NoteRecord:
    """Return the record of notes that a caller brings; `otherwise` is the writer where none is
    named.
    """
    return NoteRecord(
        writer_of(request.writer) if request.writer else otherwise, request.writer_model
    )


def _check_choice(checks: Checks, request: api.StreamUpdatesRequest) -> None:
    """Check which conversations a snapshot loads and lists; the filters of the stream must not
    exclude them.
    """
    checks.label("load_channel", request.load_channel)
    checks.conversation_id("load_conversation_id", request.load_conversation_id, required=False)
    checks.channels("list_channels", request.list_channels)
    if request.load_channel and request.load_conversation_id:
        checks.refuse(
            "load_channel", "does not go with load_conversation_id: one conversation is loaded"
        )
    if (
        request.load_conversation_id
        and request.conversation_ids
        and request.load_conversation_id not in request.conversation_ids
    ):
        checks.refuse("load_conversation_id", "is not among conversation_ids")
    if request.channels:
        if request.load_channel and request.load_channel not in request.channels:
            checks.refuse("load_channel", "is not among channels")
        for index, channel in enumerate(request.list_channels[:MAX_FILTER]):
            if channel not in request.channels:
                checks.refuse(f"list_channels[{index}]", "is not among channels")


def _fill(answer: api.LoadResponse | api.SwitchResponse, loaded: Loaded) -> None:
    if loaded.conversation is not None:
        fill_conversation(answer.conversation, loaded.conversation)
    for message in loaded.turns.messages:
        fill_message(answer.messages.add(), message)
    answer.has_more = loaded.has_more
    answer.compression_summary = loaded.compression_summary
    answer.damaged_lines = loaded.turns.damaged
    answer.cut_before_sequence = loaded.cut_before
