"""RecallService: search, contexts and anchors."""

from collections.abc import Mapping

from recollect.v1 import anchor_pb2, context_pb2, recall_pb2
from recollect.v1 import recall_service_pb2 as api

from recollect_server.anchors.log import Anchor
from recollect_server.anchors.service import Anchors
from recollect_server.context.building import ContextBuilder
from recollect_server.context.context import MAX_DROPPED, Budget, Context, Packed, Source
from recollect_server.context.inquiry import LAST_TURN, CallersParts, ConversationPart, RecallDial
from recollect_server.context.profile import UserProfile
from recollect_server.context.rendering import FORMS
from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import (
    ROLE_NUMBERS,
    TRUST_NUMBERS,
    CursorSeal,
    conversation_to,
    external_message_to,
    fill_message,
    optional_milliseconds,
    optional_timestamp,
    snippet_fields,
    split_to,
    timestamp,
)
from recollect_server.contract.handling import Call, deadline_of
from recollect_server.kernel.domain.conversation import opening_of
from recollect_server.kernel.domain.filters import Filter, SearchScope
from recollect_server.kernel.domain.ids import MAX_LINES
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.time import TimeZones
from recollect_server.recall.model.statement import ProfileStatement
from recollect_server.recall.recall import Answer, Hit, LegScore, Recall, Result, ResultLimits
from recollect_server.text.snippets import plain

_USUAL_LIMIT, _MAX_LIMIT = 10, 100
_MOST_BESIDE = 600  # characters of a message beside a hit
_RECALLING = 0.8
"""Share of a caller's time that recall may take: the rest of a context still reaches it."""


class RecallHandlers:
    def __init__(
        self,
        recall: Recall,
        anchors: Anchors,
        profile: UserProfile,
        builder: ContextBuilder,
        answers: Answers,
        seal: CursorSeal,
        timeout: Live[float],
        zones: Live[TimeZones],
    ) -> None:
        """`timeout` is how many seconds a search or a context may take at most, `zones` the time
        zones of calls that give none.
        """
        self._recall = recall
        self._anchors = anchors
        self._profile = profile
        self._builder = builder
        self._answers = answers
        self._seal = seal
        self._timeout = timeout
        self._zones = zones

    def Search(self, request: api.SearchRequest, call: Call) -> api.SearchResponse:
        deadline = deadline_of(call.context, self._timeout.now)
        zone = self._zones.now.of(request.time_zone, call.principal.space)
        scope = SearchScope(
            Filter(
                channels=(request.channel,) if request.channel else (),
                topics=tuple(request.topics),
                participants=tuple(request.participants),
                conversation_id=request.conversation_id,
            ),
            optional_milliseconds(request.date_range, "start"),
            optional_milliseconds(request.date_range, "end"),
        )
        most = min(request.limit or _USUAL_LIMIT, _MAX_LIMIT)
        limits = ResultLimits(
            most, request.min_score, explain=request.explain, moment=request.moment
        )
        answer = self._recall.search(request.query, scope, limits, deadline, zone)
        return self._answers.cut(answer_to(answer))

    def FetchContext(
        self, request: api.FetchContextRequest, call: Call
    ) -> api.FetchContextResponse:
        turns = (
            (request.turn_range.first, request.turn_range.last)
            if request.HasField("turn_range")
            else None
        )
        with self._answers.room(call.context) as keep:
            after, most = min(request.after_sequence, MAX_LINES), self._answers.max_bytes
            fetched = self._recall.fetch_context(request.conversation_id, turns, after, most)
            answer = api.FetchContextResponse(
                conversation_id=fetched.conversation.id,
                conversation_name=fetched.conversation.name,
                channel=fetched.conversation.channel,
                total_turns=fetched.conversation.turn_count,
                damaged_lines=fetched.turns.damaged,
                has_more=fetched.has_more,
            )
            for message in fetched.turns.messages:
                fill_message(answer.messages.add(), message)
            return keep(answer)

    def Recent(self, request: api.RecentRequest, call: Call) -> api.RecentResponse:
        chosen = Filter(
            channels=(request.channel,) if request.channel else (),
            updated_after=optional_milliseconds(request, "after"),
            updated_before=optional_milliseconds(request, "before"),
        )
        newest_first = request.order != api.RECENT_ORDER_OLDEST_FIRST
        entries = self._recall.recent(
            chosen, min(request.limit or _USUAL_LIMIT, _MAX_LIMIT), newest_first=newest_first
        )
        fitting, more = self._answers.fitting(
            recall_pb2.RecentConversation(conversation=conversation_to(conversation), snippet=words)
            for conversation, words in entries
        )
        return api.RecentResponse(conversations=fitting, has_more=more)

    def BuildContext(
        self, request: api.BuildContextRequest, call: Call
    ) -> api.BuildContextResponse:
        deadline = deadline_of(call.context, self._timeout.now, _RECALLING)
        zone = self._zones.now.of(request.time_zone, call.principal.space)
        budget = _budget_of(request.budget)
        form, group = FORMS[request.format], request.include_group
        with self._answers.room(call.context) as keep:
            built = self._builder.build(
                request.conversation_id,
                request.message,
                budget,
                deadline,
                form=form.marked if request.marks else form,
                query=request.query,
                sender=request.sender,
                parts=CallersParts(
                    tuple(map(_part, request.include)), tuple(map(_part, request.exclude))
                ),
                zone=zone,
                include_group=group,
                explain=request.explain,
                dial=RecallDial(request.recall) if request.recall else None,
            )
            answer = context_to(built)
            answer.system_prompt = form.system_prompt
            return keep(answer)

    def ListTierTransitions(
        self, request: api.ListTierTransitionsRequest, call: Call
    ) -> api.ListTierTransitionsResponse:
        self._seal.place(request, request.page_token)
        return api.ListTierTransitionsResponse()

    def ListAnchors(self, request: api.ListAnchorsRequest, call: Call) -> api.ListAnchorsResponse:
        place = self._seal.place(request, request.page_token)
        first = place[0] if place else 0
        anchors = self._anchors.listed(
            request.key,
            include_superseded=request.include_superseded,
            as_of=optional_milliseconds(request, "as_of"),
        )
        fitting, more = self._answers.fitting(map(anchor_to, anchors[first:]))
        following = (first + len(fitting), "-") if more else None
        return api.ListAnchorsResponse(
            anchors=fitting, next_page_token=self._seal.page_token(request, following)
        )

    def SetAnchor(self, request: api.SetAnchorRequest, call: Call) -> api.SetAnchorResponse:
        source = None
        if request.HasField("source"):
            source = (request.source.conversation_id, request.source.sequence)
        confidence = request.confidence if request.HasField("confidence") else 1.0
        anchor = self._anchors.set(
            request.key, request.value, confidence, source, request.request_id
        )
        return api.SetAnchorResponse(anchor=anchor_to(anchor))

    def DeleteAnchor(
        self, request: api.DeleteAnchorRequest, call: Call
    ) -> api.DeleteAnchorResponse:
        anchors = self._anchors.delete(request.key, request.request_id)
        return api.DeleteAnchorResponse(anchors=[anchor_to(anchor) for anchor in anchors])

    def GetProfile(self, request: api.GetProfileRequest, call: Call) -> api.GetProfileResponse:
        as_of = optional_milliseconds(request, "as_of")
        statements = map(_statement_to, self._profile.statements(as_of))
        return api.GetProfileResponse(statements=statements, degraded=self._profile.lack)

    def RemoveProfileStatement(
        self, request: api.RemoveProfileStatementRequest, call: Call
    ) -> api.RemoveProfileStatementResponse:
        self._profile.leave_out(
            request.conversation_id, request.sequence, request.start, request.request_id
        )
        return api.RemoveProfileStatementResponse()


def _part(part: context_pb2.ConversationPart) -> ConversationPart:
    """Return a part of a conversation; its range is checked."""
    turns = part.turn_range
    return ConversationPart(part.conversation_id, turns.first or 1, turns.last or LAST_TURN)


def _budget_of(budget: context_pb2.ContextBudget) -> Budget:
    tiers = (
        getattr(budget, name) if budget.HasField(name) else None
        for name in ("hot", "warm", "cold", "profile")
    )
    hot, warm, cold, profile = tiers
    return Budget(hot, warm, cold, budget.total, profile)


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
        snippet_from_notes=result.from_notes,
        **snippet_fields(result.snippet),
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
        **snippet_fields(hit.snippet),
        date=timestamp(hit.message.timestamp),
        score=hit.score,
        explanation=[_leg_score_to(score) for score in hit.explanation],
        before=_beside_to(hit.before),
        after=_beside_to(hit.after),
    )


def _beside_to(message: Message | None) -> recall_pb2.BesideMessage | None:
    if message is None or not message.content:
        return None
    return recall_pb2.BesideMessage(
        sequence=message.sequence,
        turn_number=message.turn_number,
        role=ROLE_NUMBERS[message.role],
        sender=message.sender,
        date=timestamp(message.timestamp),
        text=opening_of(plain(message.content), _MOST_BESIDE),
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
            message = messages.add(
                conversation_id=candidate.conversation_id,
                tokens=candidate.tokens,
                relevance=candidate.relevance,
                reason=candidate.reason,
                is_excerpt=candidate.is_excerpt,
                score=candidate.score,
                is_later=candidate.is_later,
                is_summary=candidate.is_summary,
            )
            fill_message(message.message, candidate.message)
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
    answer.profile.extend(map(_statement_to, context.profile))
    answer.profile_left_out = context.profile_left_out
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
        is_unsure=source.is_unsure,
    )


def _statement_to(it: ProfileStatement) -> context_pb2.ProfileStatement:
    return context_pb2.ProfileStatement(
        text=it.text,
        kind=context_pb2.StatementKind.ValueType(it.kind),
        conversation_id=it.conversation_id,
        sequence=it.sequence,
        time=timestamp(it.time),
        sender=it.sender,
        score=it.probability,
        start=it.start,
    )
