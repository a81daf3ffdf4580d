"""InsightService: counts by time, channel and topic."""

from collections.abc import Sequence
from typing import Any

from recollect.v1 import insight_pb2, message_pb2
from recollect.v1 import insight_service_pb2 as api

from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import (
    CursorSeal,
    fill_conversation,
    optional_milliseconds,
    page_size,
    timestamp,
)
from recollect_server.contract.handling import Call
from recollect_server.insight.activity import NANO, ActivityCounts
from recollect_server.insight.service import (
    ActivityReport,
    Facet,
    FacetCount,
    Group,
    HourCount,
    Insight,
    Range,
)
from recollect_server.insight.spans import Bucket
from recollect_server.kernel.domain.errors import InvalidPageToken
from recollect_server.kernel.domain.filters import Page
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import TimeZones

_USUAL_GROUPS, _MAX_GROUPS = 10, 50
_MAX_BUSIEST = 100
_USUAL_VALUES, _MAX_VALUES = 20, 100
BUCKETS = {
    insight_pb2.TIME_BUCKET_UNSPECIFIED: Bucket.DAY,
    insight_pb2.TIME_BUCKET_DAY: Bucket.DAY,
    insight_pb2.TIME_BUCKET_WEEK: Bucket.WEEK,
    insight_pb2.TIME_BUCKET_MONTH: Bucket.MONTH,
}
GROUPS = {
    insight_pb2.USAGE_GROUP_UNSPECIFIED: Group.SPACE,
    insight_pb2.USAGE_GROUP_CHANNEL: Group.CHANNEL,
    insight_pb2.USAGE_GROUP_TOPIC: Group.TOPIC,
    insight_pb2.USAGE_GROUP_CONVERSATION: Group.CONVERSATION,
    insight_pb2.USAGE_GROUP_MODEL: Group.MODEL,
    insight_pb2.USAGE_GROUP_SPACE: Group.SPACE,
}
FACETS = {
    "channels": Facet.CHANNEL,
    "topics": Facet.TOPIC,
    "models": Facet.MODEL,
    "participants": Facet.PARTICIPANT,
}
"""Lists of an answer of Facets, by their fields."""
_HOURS_A_DAY = 24
_HOUR = 3_600_000  # milliseconds; hours are counted since 1970


class InsightHandlers:
    def __init__(
        self, insight: Insight, answers: Answers, seal: CursorSeal, zones: Live[TimeZones]
    ) -> None:
        self._insight = insight
        self._answers = answers
        self._seal = seal
        self._zones = zones

    def Usage(self, request: api.UsageRequest, call: Call) -> api.UsageResponse:
        within = self._range(request, call)
        bucket = BUCKETS[request.bucket]
        group = GROUPS[request.group_by]
        limit = min(request.max_groups or _USUAL_GROUPS, _MAX_GROUPS)
        return usage_to(self._insight.usage(within, bucket, group, limit), call.principal.space)

    def TopicsOverTime(
        self, request: api.TopicsOverTimeRequest, call: Call
    ) -> api.TopicsOverTimeResponse:
        within = self._range(request, call)
        bucket = BUCKETS[request.bucket]
        limit = min(request.max_topics or _USUAL_GROUPS, _MAX_GROUPS)
        return topics_to(self._insight.usage(within, bucket, Group.TOPIC, limit))

    def ChannelActivity(
        self, request: api.ChannelActivityRequest, call: Call
    ) -> api.ChannelActivityResponse:
        within = self._range(request, call)
        channels = self._insight.channel_activity(within, tuple(request.channels))
        return api.ChannelActivityResponse(channels=[channel_to(*it) for it in channels])

    def BusiestConversations(
        self, request: api.BusiestConversationsRequest, call: Call
    ) -> api.BusiestConversationsResponse:
        within = self._range(request, call)
        limit = min(request.limit or _USUAL_GROUPS, _MAX_BUSIEST)
        answer = api.BusiestConversationsResponse()
        with self._answers.room(call.context) as keep:
            for conversation, activity in self._insight.busiest(
                within, tuple(request.channels), limit
            ):
                row = answer.conversations.add(activity=activity_to(activity))
                fill_conversation(row.conversation, conversation)
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
        page = Page.of(topics, size, lambda it: (it.conversations, it.label.encode().hex()))
        answer = api.ListTopicsResponse(next_page_token=self._seal.page_token(request, page.end()))
        for it in page.entries:
            answer.topics.add(
                label=it.label,
                conversations=it.conversations,
                last_use_time=timestamp(it.last_hour * _HOUR),
            )
        return answer

    def _range(self, request: Any, call: Call) -> Range:
        return Range(
            optional_milliseconds(request.date_range, "start"),
            optional_milliseconds(request.date_range, "end"),
            self._zones.now.of(request.time_zone, call.principal.space),
        )


def _usage(read: int, written: int) -> message_pb2.Usage:
    return message_pb2.Usage(input=min(read, _LARGEST), output=min(written, _LARGEST))


def activity_to(activity: ActivityCounts) -> insight_pb2.Activity:
    """Return the counts of a group as the contract has them. Zeros cost nothing."""
    notes = insight_pb2.NoteActivity(
        calls=min(activity.note_calls, _LARGEST),
        usage=_usage(activity.note_input_tokens, activity.note_output_tokens),
        cost=activity.note_cost / NANO,
    )
    return insight_pb2.Activity(
        conversations=activity.conversations,
        turns=activity.turns,
        user_messages=activity.user_messages,
        assistant_messages=activity.assistant_messages,
        tool_messages=activity.tool_messages,
        usage=_usage(activity.input_tokens, activity.output_tokens),
        cost=activity.cost / NANO,
        notes=notes if activity.note_calls else None,
    )


_LARGEST = (1 << 63) - 1


def usage_to(usage: ActivityReport, space: str) -> api.UsageResponse:
    """Return an answer of Usage; `space` is the name of the only group, where nothing groups."""
    starts = [timestamp(time) for time in usage.boundaries]
    answer = api.UsageResponse(more_groups=usage.others, bucket_starts=starts[:-1], end=starts[-1])
    for number, key, activity in usage.rows:
        answer.rows.add(
            bucket_start=starts[number], group=key or space, activity=activity_to(activity)
        )
    for group in usage.groups:
        answer.groups.add(
            group=group.key or space,
            label=group.label or space,
            activity=activity_to(group.activity),
        )
    return answer


def topics_to(usage: ActivityReport) -> api.TopicsOverTimeResponse:
    starts = [timestamp(time) for time in usage.boundaries]
    answer = api.TopicsOverTimeResponse(
        more_topics=usage.others, bucket_starts=starts[:-1], end=starts[-1]
    )
    counts = {(number, key): activity for number, key, activity in usage.rows}
    nothing = ActivityCounts()
    for group in usage.groups:
        rows = [counts.get((number, group.key), nothing) for number in range(len(starts) - 1)]
        answer.topics.add(
            topic=group.key,
            messages=[row.messages for row in rows],
            turns=[row.turns for row in rows],
        )
    return answer


def channel_to(channel: str, messages: int, hours: Sequence[HourCount]) -> insight_pb2.ChannelHours:
    """Return a channel's activity by the hours of the week."""
    return insight_pb2.ChannelHours(
        channel=channel,
        messages=messages,
        hours=[
            insight_pb2.HourActivity(
                weekday=it.hour // _HOURS_A_DAY + 1,
                hour=it.hour % _HOURS_A_DAY,
                turns=it.turns,
                messages=it.messages,
            )
            for it in hours
        ],
    )


def fill_facets(value: insight_pb2.FacetList, counts: Sequence[FacetCount], total: int) -> None:
    value.total = total
    for count in counts:
        value.facets.add(value=count.value, conversations=count.conversations)
