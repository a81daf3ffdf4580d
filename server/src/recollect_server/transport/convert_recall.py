"""Conversions of search results, anchors, contexts and tiers to the contract."""

from collections.abc import Mapping

from recollect.v1 import anchor_pb2, context_pb2, recall_pb2
from recollect.v1 import recall_service_pb2 as api

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.context import MAX_DROPPED, Candidate, Context, Packed, Source
from recollect_server.services.recall.recall import Answer
from recollect_server.services.recall.results import Hit, LegScore, Result
from recollect_server.storage.index.tiers import Transition
from recollect_server.transport.convert import (
    ROLE_NUMBERS,
    fill_message,
    optional_timestamp,
    split_to,
    timestamp,
)
from recollect_server.transport.convert_external import TRUST_NUMBERS, external_message_to


def answer_to(answer: Answer) -> api.SearchResponse:
    return api.SearchResponse(
        results=[_result_to(result) for result in answer.results],
        hits=[_hit_to(hit) for hit in answer.hits],
        total_matches=answer.total_matches,
        legs_run=answer.legs_run,
        degraded=_degraded_to(answer.degraded),
    )


def anchor_to(anchor: Anchor) -> anchor_pb2.Anchor:
    return anchor_pb2.Anchor(
        key=anchor.key,
        value=anchor.value,
        confidence=anchor.confidence,
        create_time=timestamp(anchor.create_time),
        source=anchor_pb2.AnchorSource(
            conversation_id=anchor.conversation_id, sequence=anchor.sequence
        )
        if anchor.conversation_id
        else None,
        superseded_time=optional_timestamp(anchor.superseded_time),
        supersedes=anchor.supersedes,
    )


def _result_to(result: Result) -> recall_pb2.SearchResult:
    conversation = result.conversation
    return recall_pb2.SearchResult(
        conversation_id=conversation.id,
        conversation_name=conversation.name,
        channel=conversation.channel,
        snippet=result.snippet,
        snippet_from_notes=result.from_notes,
        turn_range=recall_pb2.TurnRange(first=result.turn_range[0], last=result.turn_range[1])
        if result.turn_range
        else None,
        matched_turns=result.matched_turns,
        date=timestamp(result.date),
        score=result.score,
        topics=conversation.topics,
        abbreviation=conversation.abbreviation,
        explanation=[_leg_score_to(score) for score in result.explanation],
    )


def _hit_to(hit: Hit) -> recall_pb2.SearchHit:
    return recall_pb2.SearchHit(
        conversation_id=hit.conversation.id,
        sequence=hit.message.sequence,
        turn_number=hit.message.turn_number,
        role=ROLE_NUMBERS[hit.message.role],
        sender=hit.message.sender,
        snippet=hit.snippet,
        date=timestamp(hit.message.timestamp),
        score=hit.score,
        explanation=[_leg_score_to(score) for score in hit.explanation],
    )


def _leg_score_to(score: LegScore) -> recall_pb2.LegScore:
    return recall_pb2.LegScore(leg=score.leg, rank=score.rank, score=score.score)


def _degraded_to(degraded: Mapping[str, str]) -> list[recall_pb2.DegradedLeg]:
    return [recall_pb2.DegradedLeg(leg=leg, reason=why) for leg, why in degraded.items()]


def context_to(context: Context) -> api.BuildContextResponse:
    """Return a context as a response. Of many dropped messages it names the first; the tier's note
    has their number.
    """
    answer = api.BuildContextResponse(
        anchors=[anchor_to(anchor) for anchor in context.anchors],
        compression_summary=context.summary,
        allocation=[_allocation(packed) for packed in context.tiers],
        rendered=context.rendered,
        rendered_tokens=context.rendered_tokens,
        degraded=_degraded_to(context.degraded),
        has_more=context.has_more,
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
                score=it.score,
            )
    answer.sources.extend(map(_source_to, context.sources))
    answer.condensed_messages = context.condensed
    if context.split.reason:
        answer.split_suggestion.CopyFrom(split_to(context.split))
    for piece in context.group:
        answer.group.add(
            communication_id=piece.communication.id,
            party=piece.communication.party,
            trust=TRUST_NUMBERS[piece.communication.trust],
            message=external_message_to(piece.message),
            tokens=piece.tokens,
        )
    return answer


def transition_to(it: Transition) -> context_pb2.TierTransition:
    """Return a move between tiers as a message of the contract."""
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
    value.is_excerpt = candidate.is_excerpt
    value.score = candidate.score
    value.is_later = candidate.is_later


def _source_to(source: Source) -> context_pb2.RecalledSource:
    start, end = source.times
    turns = source.turns
    return context_pb2.RecalledSource(
        conversation_id=source.conversation_id,
        title=source.about.title,
        channel=source.about.channel,
        start_time=timestamp(start),
        end_time=timestamp(end),
        turn_range=recall_pb2.TurnRange(first=turns[0], last=turns[1]) if turns else None,
        score=source.score,
        abbreviation=source.abbreviation,
        sequences=[it.message.sequence for it in source.messages],
        tokens=source.tokens,
        is_last_conversation=not source.messages,
    )
