"""Contexts by bare calls, and made-up messages."""

from typing import Any

from recollect.v1 import context_pb2
from recollect.v1 import recall_service_pb2 as api
from recollect_server.context.context import Candidate
from recollect_server.kernel.domain.message import Message, Role, ToolCall

from tests.server.conftest import Service, connect, service
from tests.server_cli.conftest import _logs_apart

__all__ = ["_logs_apart", "connect", "service"]

HOT, WARM, COLD = (
    context_pb2.CONTEXT_TIER_HOT,
    context_pb2.CONTEXT_TIER_WARM,
    context_pb2.CONTEXT_TIER_COLD,
)
HERE = "conv-01J00000000000000000000001"
THERE = "conv-01J00000000000000000000002"


def built(
    service: Service, conversation_id: str, message: str = "", **fields: Any
) -> api.BuildContextResponse:
    """Build a context, of parts unless a form is given. A name that is no field of the request is a
    part of the budget.
    """
    fields.setdefault("format", context_pb2.CONTEXT_FORMAT_PARTS)
    names = ("hot", "warm", "cold", "total", "profile")
    budget = {name: fields.pop(name) for name in names if name in fields}
    request = api.BuildContextRequest(conversation_id=conversation_id, message=message, **fields)
    if budget:
        request.budget.CopyFrom(context_pb2.ContextBudget(**budget))
    return service.recall.BuildContext(request)


def said(messages: Any) -> list[str]:
    """Return the contents of the packed messages."""
    return [packed.message.content for packed in messages]


def allocation(answer: api.BuildContextResponse, tier: int) -> context_pb2.TierAllocation:
    return next(each for each in answer.allocation if each.tier == tier)


def candidate(
    sequence: int,
    content: str = "",
    role: Role = Role.USER,
    *,
    turn: int = 0,
    calls: tuple[str, ...] = (),
    answers: str = "",
    relevance: float = 0.5,
    conversation: str = HERE,
) -> Candidate:
    """Return a message that may be packed."""
    message = Message(
        role,
        content,
        timestamp=sequence + 1,
        sequence=sequence,
        turn_number=turn or sequence,
        tool_calls=tuple(ToolCall(name, "look", "{}") for name in calls),
        tool_call_id=answers,
    )
    return Candidate(conversation, message, relevance, "made up")


def places(messages: object) -> list[tuple[str, int]]:
    return [(it.conversation_id, it.message.sequence) for it in messages]  # type: ignore[attr-defined]
