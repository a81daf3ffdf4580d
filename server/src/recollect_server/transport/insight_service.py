"""InsightService: counts by time, channel and topic."""

from datetime import UTC
from typing import Any

from recollect.v1 import insight_service_pb2 as api

from recollect_server.domain.errors import InvalidPageToken
from recollect_server.domain.time import zone_of
from recollect_server.services.insight import Insight, Range
from recollect_server.storage.index.activity import Group
from recollect_server.transport.answers import Answers
from recollect_server.transport.convert import fill_conversation, optional_milliseconds
from recollect_server.transport.convert_insight import (
    BUCKETS,
    FACETS,
    GROUPS,
    channel_to,
    fill_activity,
    fill_facets,
    hour_start,
    topics_to,
    usage_to,
)
from recollect_server.transport.handling import Call
from recollect_server.transport.pages import CursorSeal, page_size

_USUAL_GROUPS, _MAX_GROUPS = 10, 50
_MAX_BUSIEST = 100
_USUAL_VALUES, _MAX_VALUES = 20, 100


class InsightHandlers:
    def __init__(self, insight: Insight, answers: Answers, seal: CursorSeal) -> None:
        self._insight = insight
        self._answers = answers
        self._seal = seal

    def Usage(self, request: api.UsageRequest, call: Call) -> api.UsageResponse:
        within = _range(request)
        bucket = BUCKETS[request.bucket]
        group = GROUPS[request.group_by]
        limit = min(request.max_groups or _USUAL_GROUPS, _MAX_GROUPS)
        return usage_to(self._insight.usage(within, bucket, group, limit), call.principal.space)

    def TopicsOverTime(
        self, request: api.TopicsOverTimeRequest, call: Call
    ) -> api.TopicsOverTimeResponse:
        within = _range(request)
        bucket = BUCKETS[request.bucket]
        limit = min(request.max_topics or _USUAL_GROUPS, _MAX_GROUPS)
        return topics_to(self._insight.usage(within, bucket, Group.TOPIC, limit))

    def ChannelActivity(
        self, request: api.ChannelActivityRequest, call: Call
    ) -> api.ChannelActivityResponse:
        within = _range(request)
        channels = self._insight.channel_activity(within, tuple(request.channels))
        return api.ChannelActivityResponse(channels=[channel_to(*it) for it in channels])

    def BusiestConversations(
        self, request: api.BusiestConversationsRequest, call: Call
    ) -> api.BusiestConversationsResponse:
        within = _range(request)
        limit = min(request.limit or _USUAL_GROUPS, _MAX_BUSIEST)
        answer = api.BusiestConversationsResponse()
        with self._answers.room(call.context) as keep:
            for conversation, activity in self._insight.busiest(
                within, tuple(request.channels), limit
            ):
                row = answer.conversations.add()
                fill_conversation(row.conversation, conversation)
                fill_activity(row.activity, activity)
            return keep(answer)

    def Facets(self, request: api.FacetsRequest, call: Call) -> api.FacetsResponse:
        limit = min(request.max_values or _USUAL_VALUES, _MAX_VALUES)
        answer = api.FacetsResponse()
        for name, kind in FACETS.items():
            fill_facets(getattr(answer, name), *self._insight.facets(kind, limit))
        return answer

    def ListTopics(self, request: api.ListTopicsRequest, call: Call) -> api.ListTopicsResponse:
        size = page_size(request.page_size)
        after = self._seal.place(request, request.page_token)
        try:  # a label may have characters that end a part of a token
            place = (after[0], bytes.fromhex(after[1]).decode()) if after else None
        except ValueError:
            raise InvalidPageToken from None
        topics = self._insight.topics(request.query, size + 1, place)
        last = topics[size - 1] if len(topics) > size else None
        answer = api.ListTopicsResponse(
            next_page_token=self._seal.page_token(
                request, (last.conversations, last.label.encode().hex()) if last else None
            )
        )
        for it in topics[:size]:
            answer.topics.add(
                label=it.label,
                conversations=it.conversations,
                last_use_time=hour_start(it.last_hour),
            )
        return answer


def _range(request: Any) -> Range:
    return Range(
        optional_milliseconds(request.date_range, "start"),
        optional_milliseconds(request.date_range, "end"),
        zone_of(request.time_zone) or UTC,
    )
