"""Conversions of InsightService between messages of the contract and domain types."""

from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import insight_pb2
from recollect.v1 import insight_service_pb2 as api

from recollect_server.domain.activity import NANO, ActivityCounts
from recollect_server.domain.spans import Bucket
from recollect_server.services.insight import ActivityReport
from recollect_server.storage.index.activity import Facet, FacetCount, Group, HourCount
from recollect_server.transport.convert import timestamp

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
_HOUR = 3_600_000  # milliseconds


def fill_activity(value: insight_pb2.Activity, activity: ActivityCounts) -> None:
    """Fill an empty message with the counts of a group. Zeros cost nothing."""
    value.conversations = activity.conversations
    value.turns = activity.turns
    value.user_messages = activity.user_messages
    value.assistant_messages = activity.assistant_messages
    value.tool_messages = activity.tool_messages
    value.usage.input = min(activity.input_tokens, _LARGEST)
    value.usage.output = min(activity.output_tokens, _LARGEST)
    value.cost = activity.cost / NANO
    if activity.note_calls:
        value.notes.calls = min(activity.note_calls, _LARGEST)
        value.notes.usage.input = min(activity.note_input_tokens, _LARGEST)
        value.notes.usage.output = min(activity.note_output_tokens, _LARGEST)
        value.notes.cost = activity.note_cost / NANO


_LARGEST = (1 << 63) - 1


def usage_to(usage: ActivityReport, space: str) -> api.UsageResponse:
    """Return an answer of Usage; `space` is the name of the only group, where nothing groups."""
    starts = [timestamp(time) for time in usage.boundaries]
    answer = api.UsageResponse(more_groups=usage.others, bucket_starts=starts[:-1], end=starts[-1])
    for number, key, activity in usage.rows:
        row = answer.rows.add(bucket_start=starts[number], group=key or space)
        fill_activity(row.activity, activity)
    for group in usage.groups:
        total = answer.groups.add(group=group.key or space, label=group.label or space)
        fill_activity(total.activity, group.activity)
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


def hour_start(hour: int) -> Timestamp:
    """Return the beginning of an hour since 1970."""
    return timestamp(hour * _HOUR)
