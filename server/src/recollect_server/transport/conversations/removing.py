"""ConversationService: deletes and redactions."""

from recollect.v1 import conversation_pb2, error_pb2
from recollect.v1 import conversation_service_pb2 as api

from recollect_server.domain.filters import Filter
from recollect_server.domain.ids import MAX_LINES
from recollect_server.services.channels.identities import Identities
from recollect_server.services.removals import Removals
from recollect_server.transport.conversations.bounds import ARCHIVED, MAX_CONVERSATIONS
from recollect_server.transport.convert import (
    conversation_to,
    message_to,
    optional_milliseconds,
    timestamp,
)
from recollect_server.transport.handling import Call

_USUAL_DELETED = 100
_LEFT = {
    "ConversationPinned": error_pb2.ERROR_REASON_CONVERSATION_PINNED,
    "AnchorsPresent": error_pb2.ERROR_REASON_ANCHORS_PRESENT,
}


class RemovalHandlers:
    def __init__(self, removals: Removals, identities: Identities) -> None:
        self._identities = identities
        self._removals = removals

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
            removed=[
                api.RemovedFrom(place=place, count=count)
                for place, count in receipt.removed.items()
            ],
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
            archived=ARCHIVED[request.archived] if archived else None,
        )
        receipt = self._removals.delete_many(
            self._identities.widened(chosen),
            request.anchors,
            min(request.limit or _USUAL_DELETED, MAX_CONVERSATIONS),
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
            conversation=conversation_to(done.conversation),
            messages=map(message_to, done.messages),
            redact_time=timestamp(done.time),
            duplicate=done.duplicate,
            copied_in=copies,
        )
