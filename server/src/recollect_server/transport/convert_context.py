"""Contexts and tiers as they go out."""

from recollect.v1 import context_pb2, recall_pb2
from recollect.v1 import recall_service_pb2 as api

from recollect_server.domain.context import MAX_DROPPED, Candidate, Context, Packed
from recollect_server.storage.index.tier_log import Transition
from recollect_server.transport.convert import anchor_to, fill_message, timestamp


def context_to(context: Context, rendered: str) -> api.BuildContextResponse:
    """A context, with what was left out of it: of much that was, the first, and the tier's note says how much."""
    answer = api.BuildContextResponse(
        anchors=[anchor_to(anchor) for anchor in context.anchors],
        compression_summary=context.summary,
        allocation=[_allocation(packed) for packed in context.tiers],
        rendered=rendered,
        degraded=[recall_pb2.DegradedLeg(leg=leg, reason=why) for leg, why in context.degraded.items()],
    )
    for packed, messages in zip(context.tiers, (answer.hot, answer.warm, answer.cold), strict=True):
        for candidate in packed.packed:
            _fill(messages.add(), candidate)
        for it in packed.dropped[:MAX_DROPPED]:
            answer.dropped.add(
                conversation_id=it.conversation_id,
                sequence=it.sequence,
                tier=context_pb2.ContextTier.ValueType(it.tier),
                tokens=it.tokens,
                reason=it.reason,
            )
    return answer


def transition_to(it: Transition) -> context_pb2.TierTransition:
    """A move between tiers."""
    return context_pb2.TierTransition(
        conversation_id=it.conversation_id,
        from_tier=context_pb2.ContextTier.ValueType(it.from_tier),
        to_tier=context_pb2.ContextTier.ValueType(it.to_tier),
        reason=it.reason,
        time=timestamp(it.time),
    )


def _allocation(packed: Packed) -> context_pb2.TierAllocation:
    note = packed.note
    if (more := len(packed.dropped) - MAX_DROPPED) > 0:
        note = f"{note}; {more} more were left out than are named".removeprefix("; ")
    return context_pb2.TierAllocation(
        tier=context_pb2.ContextTier.ValueType(packed.tier),
        budget=packed.budget,
        used=packed.used,
        considered=packed.considered,
        packed=len(packed.packed),
        note=note,
    )


def _fill(value: context_pb2.ContextMessage, candidate: Candidate) -> None:
    value.conversation_id = candidate.conversation_id
    fill_message(value.message, candidate.message)
    value.tokens = candidate.tokens
    value.relevance = candidate.relevance
    value.reason = candidate.reason
