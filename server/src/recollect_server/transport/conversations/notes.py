"""ConversationService: titles, summaries and notes."""

from recollect.v1 import conversation_service_pb2 as api

from recollect_server.domain.conversation import CALLER, NoteRecord
from recollect_server.domain.filters import Filter
from recollect_server.services.conversation_notes import ConversationNotes
from recollect_server.services.conversations import Conversations
from recollect_server.transport.checks import MAX_FILTER, Checks
from recollect_server.transport.conversations.bounds import MAX_NAME
from recollect_server.transport.convert import conversation_to, optional_milliseconds, writer_of
from recollect_server.transport.handling import Call

_MAX_TITLE = 80
_MAX_SUMMARY = 1 << 20
_MAX_ABBREVIATION = 16 * 1024
_MAX_WRITERS = 8


class NoteHandlers:
    """The handlers of the calls about notes."""

    def __init__(self, conversations: Conversations, notes: ConversationNotes) -> None:
        self._conversations = conversations
        self._notes = notes

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
        conversation = self._notes.record_compression(
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
        conversation = self._notes.record_abbreviation(
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
        queued, others = self._notes.regenerate(
            chosen,
            tuple(map(writer_of, request.writers)),
            dry_run=request.dry_run,
            request_id=request.request_id,
        )
        return api.RegenerateNotesResponse(queued=queued, kept=others)


def _check_writer(
    checks: Checks, request: api.RenameRequest | api.RecordAbbreviationRequest
) -> None:
    """Check who wrote notes that a caller brings."""
    if request.writer:
        checks.writer("writer", request.writer)
    elif request.writer_model:
        checks.refuse("writer_model", "goes with `writer` alone")
    checks.text("writer_model", request.writer_model, most=MAX_NAME)


def _record_of(
    request: api.RenameRequest | api.RecordAbbreviationRequest, otherwise: str
) -> NoteRecord:
    """Return the record of notes that a caller brings; `otherwise` is the writer where none is
    named.
    """
    return NoteRecord(
        writer_of(request.writer) if request.writer else otherwise, request.writer_model
    )
