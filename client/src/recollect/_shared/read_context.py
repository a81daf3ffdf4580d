"""Contexts, anchors and tiers of the contract into what a user holds."""

from recollect._shared import read_external
from recollect._shared.read import message, moment
from recollect._types import context as types
from recollect._types.recall import DegradedLeg, TurnRange
from recollect.errors import InternalError
from recollect.v1 import anchor_pb2, context_pb2, recall_service_pb2

TIERS = {
    context_pb2.CONTEXT_TIER_HOT: types.ContextTier.HOT,
    context_pb2.CONTEXT_TIER_WARM: types.ContextTier.WARM,
    context_pb2.CONTEXT_TIER_COLD: types.ContextTier.COLD,
}


def built(it: recall_service_pb2.BuildContextResponse) -> types.BuiltContext:
    """Return the answer to BuildContext."""
    return types.BuiltContext(
        hot=tuple(map(_packed, it.hot)),
        warm=tuple(map(_packed, it.warm)),
        cold=tuple(map(_packed, it.cold)),
        anchors=tuple(map(anchor, it.anchors)),
        compression_summary=it.compression_summary,
        allocation=tuple(
            types.TierAllocation(
                tier=_tier(each.tier),
                budget=each.budget,
                used=each.used,
                considered=each.considered,
                packed=each.packed,
                note=each.note,
            )
            for each in it.allocation
        ),
        dropped=tuple(
            types.DroppedMessage(
                conversation_id=each.conversation_id,
                sequence=each.sequence,
                tier=_tier(each.tier),
                tokens=each.tokens,
                reason=each.reason,
                score=each.score,
            )
            for each in it.dropped
        ),
        rendered=it.rendered,
        sources=tuple(map(_source, it.sources)),
        condensed_messages=it.condensed_messages,
        rendered_tokens=it.rendered_tokens,
        has_more=it.has_more,
        degraded=tuple(DegradedLeg(leg=entry.leg, reason=entry.reason) for entry in it.degraded),
        group=tuple(
            types.GroupMessage(
                communication_id=each.communication_id,
                party=each.party,
                trust=read_external.trust(each.trust),
                message=read_external.message(each.message),
                tokens=each.tokens,
            )
            for each in it.group
        ),
    )


def anchor(it: anchor_pb2.Anchor) -> types.Anchor:
    """Return an anchor."""
    return types.Anchor(
        key=it.key,
        value=it.value,
        confidence=it.confidence,
        source=types.AnchorSource(it.source.conversation_id, it.source.sequence)
        if it.HasField("source")
        else None,
        create_time=moment(it.create_time),
        superseded_time=moment(it.superseded_time) if it.HasField("superseded_time") else None,
        supersedes=it.supersedes,
    )


def transition_page(it: recall_service_pb2.ListTierTransitionsResponse) -> types.TierTransitionPage:
    """Return the answer to ListTierTransitions."""
    return types.TierTransitionPage(
        transitions=tuple(
            types.TierTransition(
                conversation_id=each.conversation_id,
                from_tier=_tier(each.from_tier),
                to_tier=_tier(each.to_tier),
                reason=each.reason,
                time=moment(each.time),
            )
            for each in it.transitions
        ),
        next_page_token=it.next_page_token,
    )


def _packed(it: context_pb2.ContextMessage) -> types.ContextMessage:
    return types.ContextMessage(
        conversation_id=it.conversation_id,
        message=message(it.message),
        tokens=it.tokens,
        relevance=it.relevance,
        reason=it.reason,
        is_excerpt=it.is_excerpt,
        score=it.score,
    )


def _source(it: context_pb2.RecalledSource) -> types.RecalledSource:
    turns = (
        TurnRange(it.turn_range.first, it.turn_range.last) if it.HasField("turn_range") else None
    )
    return types.RecalledSource(
        conversation_id=it.conversation_id,
        title=it.title,
        channel=it.channel,
        start_time=moment(it.start_time),
        end_time=moment(it.end_time),
        turn_range=turns,
        score=it.score,
        abbreviation=it.abbreviation,
        sequences=tuple(it.sequences),
        tokens=it.tokens,
        is_last_conversation=it.is_last_conversation,
    )


def _tier(number: context_pb2.ContextTier.ValueType) -> types.ContextTier:
    try:
        return TIERS[number]
    except KeyError:
        raise InternalError(
            f"the server answered tier {number}, which this client is too old to know"
        ) from None
