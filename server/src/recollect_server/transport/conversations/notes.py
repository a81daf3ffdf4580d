"""ConversationService: titles, summaries and notes."""

from recollect.v1 import conversation_service_pb2 as api

from recollect_server.domain.conversation import CALLER, NoteRecord
from recollect_server.domain.filters import Filter
from recollect_server.services.conversation_notes import ConversationNotes
from recollect_server.services.conversations import Conversations
from recollect_server.transport.convert import conversation_to, optional_milliseconds, writer_of
from recollect_server.transport.handling import Call


class NoteHandlers:
    def __init__(self, conversations: Conversations, notes: ConversationNotes) -> None:
        self._conversations = conversations
        self._notes = notes

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


def _record_of(
    request: api.RenameRequest | api.RecordAbbreviationRequest, otherwise: str
) -> NoteRecord:
    """Return the record of notes that a caller brings; `otherwise` is the writer where none is
    named.
    """
    return NoteRecord(
        writer_of(request.writer) if request.writer else otherwise, request.writer_model
    )
