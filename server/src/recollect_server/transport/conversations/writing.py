"""ConversationService: new conversations and new messages."""

from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import ROLE_USER

from recollect_server.domain.addresses import WEB
from recollect_server.domain.routing import pinned_party
from recollect_server.domain.time import Clock
from recollect_server.services.conversations import Conversations
from recollect_server.transport.checks import Checks, Limits
from recollect_server.transport.checks_message import check_messages
from recollect_server.transport.conversations.bounds import MAX_NAME
from recollect_server.transport.convert import (
    conversation_to,
    fill_conversation,
    fill_message,
    message_from,
    optional_milliseconds,
    party_from,
)
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import Seal


class WriteHandlers:
    """The handlers of the calls that add messages."""

    def __init__(
        self, conversations: Conversations, limits: Limits, seal: Seal, clock: Clock
    ) -> None:
        self._conversations = conversations
        self._limits = limits
        self._seal = seal
        self._clock = clock

    def Create(self, request: api.CreateRequest, call: Call) -> api.CreateResponse:
        """Begin a conversation."""
        checks = Checks()
        checks.label("channel", request.channel, required=True)
        checks.names("participants", request.participants)
        checks.party("party", request.party)
        checks.text("model", request.model, most=MAX_NAME)
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

    def AppendTurn(self, request: api.AppendTurnRequest, call: Call) -> api.AppendTurnResponse:
        """Append messages, all or none."""
        checks = Checks()
        checks.conversation_id("conversation_id", request.conversation_id)
        checks.request_id(request.request_id)
        checks.text("draft_id", request.draft_id, most=MAX_NAME)
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
