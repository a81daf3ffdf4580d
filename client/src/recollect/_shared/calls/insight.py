"""The calls of InsightService."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from recollect._shared import read_insight as read
from recollect._shared.calls import parts
from recollect._shared.fill import fill, invalid
from recollect._shared.rpc import Call, Method
from recollect._types.insight import (
    BusyConversation,
    ChannelHours,
    Facets,
    TimeBucket,
    TopicPage,
    TopicReport,
    UsageGroup,
    UsageReport,
)
from recollect._types.recall import DateRange
from recollect.v1 import insight_pb2
from recollect.v1 import insight_service_pb2 as pb

K = TypeVar("K", bound=StrEnum)
V = TypeVar("V")

_SERVICE = pb.DESCRIPTOR.services_by_name["InsightService"]
_USAGE = Method(_SERVICE, "Usage", pb.UsageRequest, pb.UsageResponse)
_TOPICS_OVER_TIME = Method(
    _SERVICE, "TopicsOverTime", pb.TopicsOverTimeRequest, pb.TopicsOverTimeResponse
)
_CHANNEL_ACTIVITY = Method(
    _SERVICE, "ChannelActivity", pb.ChannelActivityRequest, pb.ChannelActivityResponse
)
_BUSIEST = Method(
    _SERVICE,
    "BusiestConversations",
    pb.BusiestConversationsRequest,
    pb.BusiestConversationsResponse,
)
_FACETS = Method(_SERVICE, "Facets", pb.FacetsRequest, pb.FacetsResponse)
_LIST_TOPICS = Method(_SERVICE, "ListTopics", pb.ListTopicsRequest, pb.ListTopicsResponse)

_BUCKETS = {it: insight_pb2.TimeBucket.Value(f"TIME_BUCKET_{it.upper()}") for it in TimeBucket}
_GROUPS = {it: insight_pb2.UsageGroup.Value(f"USAGE_GROUP_{it.upper()}") for it in UsageGroup}


def usage(
    date_range: DateRange | None,
    time_zone: str | None,
    bucket: TimeBucket | None,
    group_by: UsageGroup | None,
    max_groups: int | None,
) -> Call[pb.UsageRequest, pb.UsageResponse, UsageReport]:
    """Return the call of Usage."""
    request = fill(
        pb.UsageRequest(),
        date_range=parts.date_range(date_range),
        time_zone=time_zone,
        bucket=_number("bucket", bucket, _BUCKETS),
        group_by=_number("group_by", group_by, _GROUPS),
        max_groups=max_groups,
    )
    return Call(_USAGE, request, read.usage_report)


def topics_over_time(
    date_range: DateRange | None,
    time_zone: str | None,
    bucket: TimeBucket | None,
    max_topics: int | None,
) -> Call[pb.TopicsOverTimeRequest, pb.TopicsOverTimeResponse, TopicReport]:
    """Return the call of TopicsOverTime."""
    request = fill(
        pb.TopicsOverTimeRequest(),
        date_range=parts.date_range(date_range),
        time_zone=time_zone,
        bucket=_number("bucket", bucket, _BUCKETS),
        max_topics=max_topics,
    )
    return Call(_TOPICS_OVER_TIME, request, read.topic_report)


def channel_activity(
    date_range: DateRange | None, time_zone: str | None, channels: Iterable[str] | None
) -> Call[pb.ChannelActivityRequest, pb.ChannelActivityResponse, tuple[ChannelHours, ...]]:
    """Return the call of ChannelActivity."""
    request = fill(
        pb.ChannelActivityRequest(),
        date_range=parts.date_range(date_range),
        time_zone=time_zone,
        channels=channels,
    )
    return Call(_CHANNEL_ACTIVITY, request, read.channel_activity)


def busiest_conversations(
    date_range: DateRange | None,
    time_zone: str | None,
    channels: Iterable[str] | None,
    limit: int | None,
) -> Call[
    pb.BusiestConversationsRequest, pb.BusiestConversationsResponse, tuple[BusyConversation, ...]
]:
    """Return the call of BusiestConversations."""
    request = fill(
        pb.BusiestConversationsRequest(),
        date_range=parts.date_range(date_range),
        time_zone=time_zone,
        channels=channels,
        limit=limit,
    )
    return Call(_BUSIEST, request, read.busiest)


def facets(max_values: int | None) -> Call[pb.FacetsRequest, pb.FacetsResponse, Facets]:
    """Return the call of Facets."""
    return Call(_FACETS, fill(pb.FacetsRequest(), max_values=max_values), read.facets)


def list_topics(
    query: str | None, page_size: int | None, page_token: str | None
) -> Call[pb.ListTopicsRequest, pb.ListTopicsResponse, TopicPage]:
    """Return the call of ListTopics."""
    request = fill(pb.ListTopicsRequest(), query=query, page_size=page_size, page_token=page_token)
    return Call(_LIST_TOPICS, request, read.topic_page)


def _number(name: str, value: K | None, numbers: Mapping[K, V]) -> V | None:
    """Return the contract's number of a value, at the field of this name."""
    if value is None:
        return None
    if value not in numbers:
        raise invalid(name, f"must be one of {', '.join(numbers)}, not {value!r}")
    return numbers[value]
