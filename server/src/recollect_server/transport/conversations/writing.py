"""ConversationService: new conversations and new messages."""

from recollect.v1 import conversation_service_pb2 as api

from recollect_server.domain.routing import pinned_party
from recollect_server.services.conversations import Conversations
from recollect_server.transport.convert import (
    conversation_to,
    fill_conversation,
    fill_message,
    message_from,
    optional_milliseconds,
    party_from,
)
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import CursorSeal


class WriteHandlers:
    def __init__(self, conversations: Conversations, batch_bytes: int, seal: CursorSeal) -> None:
        self._conversations = conversations
        self._batch_bytes = batch_bytes
        self._seal = seal

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
        fill_conversation(answer.conversation, beginning.conversation)
        for message in beginning.messages:
            fill_message(answer.messages.add(), message)
        return answer

    def AppendTurn(self, request: api.AppendTurnRequest, call: Call) -> api.AppendTurnResponse:
        in_reply_to_turn = (
            request.in_reply_to_turn if request.HasField("in_reply_to_turn") else None
        )
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
