"""ConversationService: changes to a conversation that are no messages."""

from google.protobuf import json_format
from recollect.v1 import conversation_service_pb2 as api

from recollect_server.domain.commands import listed_model
from recollect_server.domain.errors import InvalidField
from recollect_server.services.conversations import Conversations
from recollect_server.transport.convert import conversation_to
from recollect_server.transport.handling import Call


class ChangeHandlers:
    def __init__(self, conversations: Conversations, models: tuple[str, ...] = ()) -> None:
        """`models` are those that SetModel may choose; none: any."""
        self._conversations = conversations
        self._models = models

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
