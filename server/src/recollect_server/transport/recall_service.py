"""RecallService: search, contexts and anchors."""

from datetime import UTC

from recollect.v1 import context_pb2, recall_pb2
from recollect.v1 import recall_service_pb2 as api

from recollect_server.domain.context import Budget
from recollect_server.domain.filters import Filter, SearchScope
from recollect_server.domain.ids import MAX_LINES
from recollect_server.domain.live import Live
from recollect_server.domain.rendering import FORMS
from recollect_server.domain.time import zone_of
from recollect_server.services.anchors import Anchors
from recollect_server.services.context.building import ContextBuilder
from recollect_server.services.context.parts import LAST_TURN, CallersParts, ConversationPart
from recollect_server.services.recall.recall import Recall
from recollect_server.services.recall.results import ResultLimits
from recollect_server.services.tiers import Tiers
from recollect_server.transport.answers import Answers
from recollect_server.transport.convert import conversation_to, fill_message, optional_milliseconds
from recollect_server.transport.convert_recall import (
    anchor_to,
    answer_to,
    context_to,
    transition_to,
)
from recollect_server.transport.handling import Call, deadline_of
from recollect_server.transport.pages import CursorSeal, page_size

_USUAL_LIMIT, _MAX_LIMIT = 10, 100
_RECALLING = 0.8
"""Share of a caller's time that recall may take: the rest of a context still reaches it."""


class RecallHandlers:
    def __init__(
        self,
        recall: Recall,
        anchors: Anchors,
        builder: ContextBuilder,
        tiers: Tiers,
        answers: Answers,
        seal: CursorSeal,
        timeout: Live[float],
        zone: Live[str],
    ) -> None:
        """`timeout` is how many seconds a search or a context may take at most, `zone` the time
        zone of calls that give none.
        """
        self._recall = recall
        self._anchors = anchors
        self._builder = builder
        self._tiers = tiers
        self._answers = answers
        self._seal = seal
        self._timeout = timeout
        self._zone = zone

    def Search(self, request: api.SearchRequest, call: Call) -> api.SearchResponse:
        deadline = deadline_of(call.context, self._timeout.now)
        zone = zone_of(request.time_zone or self._zone.now) or UTC
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
        limits = ResultLimits(most, request.min_score, explain=request.explain)
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
        zone = zone_of(request.time_zone or self._zone.now) or UTC
        budget = Budget(
            request.budget.hot, request.budget.warm, request.budget.cold, request.budget.total
        )
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
            )
            answer = context_to(built)
            answer.system_prompt = form.system_prompt
            return keep(answer)

    def ListTierTransitions(
        self, request: api.ListTierTransitionsRequest, call: Call
    ) -> api.ListTierTransitionsResponse:
        size = page_size(request.page_size)
        place = self._seal.place(request, request.page_token)
        transitions = self._tiers.listed(
            request.conversation_id, place[0] if place else 0, size + 1
        )
        following = (transitions[size - 1].id, "-") if len(transitions) > size else None
        return api.ListTierTransitionsResponse(
            transitions=[transition_to(it) for it in transitions[:size]],
            next_page_token=self._seal.page_token(request, following),
        )

    def ListAnchors(self, request: api.ListAnchorsRequest, call: Call) -> api.ListAnchorsResponse:
        place = self._seal.place(request, request.page_token)
        first = place[0] if place else 0
        anchors = self._anchors.listed(request.key, include_superseded=request.include_superseded)
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


def _part(part: context_pb2.ConversationPart) -> ConversationPart:
    """Return a part of a conversation; its range is checked."""
    turns = part.turn_range
    return ConversationPart(part.conversation_id, turns.first or 1, turns.last or LAST_TURN)
