"""Answers of InsightService into what a user holds."""

from recollect._shared.read import conversation, moment
from recollect._types import insight
from recollect._types.message import Usage
from recollect.v1 import insight_pb2, message_pb2
from recollect.v1 import insight_service_pb2 as pb


def usage_report(it: pb.UsageResponse) -> insight.UsageReport:
    """Return activity by time and group."""
    return insight.UsageReport(
        rows=tuple(
            insight.UsageRow(
                bucket_start=moment(row.bucket_start),
                group=row.group,
                activity=_activity(row.activity),
            )
            for row in it.rows
        ),
        groups=tuple(
            insight.UsageTotal(
                group=total.group, label=total.label, activity=_activity(total.activity)
            )
            for total in it.groups
        ),
        more_groups=it.more_groups,
        bucket_starts=tuple(map(moment, it.bucket_starts)),
        end=moment(it.end),
    )


def topic_report(it: pb.TopicsOverTimeResponse) -> insight.TopicReport:
    """Return topics over time."""
    return insight.TopicReport(
        bucket_starts=tuple(map(moment, it.bucket_starts)),
        end=moment(it.end),
        topics=tuple(
            insight.TopicSeries(
                topic=series.topic, messages=tuple(series.messages), turns=tuple(series.turns)
            )
            for series in it.topics
        ),
        more_topics=it.more_topics,
    )


def channel_activity(it: pb.ChannelActivityResponse) -> tuple[insight.ChannelHours, ...]:
    """Return channels by the hours of the week."""
    return tuple(
        insight.ChannelHours(
            channel=channel.channel,
            messages=channel.messages,
            hours=tuple(
                insight.HourActivity(
                    weekday=hour.weekday, hour=hour.hour, turns=hour.turns, messages=hour.messages
                )
                for hour in channel.hours
            ),
        )
        for channel in it.channels
    )


def busiest(it: pb.BusiestConversationsResponse) -> tuple[insight.BusyConversation, ...]:
    """Return the busiest conversations."""
    return tuple(
        insight.BusyConversation(
            conversation=conversation(row.conversation), activity=_activity(row.activity)
        )
        for row in it.conversations
    )


def facets(it: pb.FacetsResponse) -> insight.Facets:
    """Return conversations by their properties."""
    return insight.Facets(
        channels=_facet_list(it.channels),
        topics=_facet_list(it.topics),
        models=_facet_list(it.models),
        participants=_facet_list(it.participants),
    )


def topic_page(it: pb.ListTopicsResponse) -> insight.TopicPage:
    """Return a page of topics."""
    return insight.TopicPage(
        topics=tuple(
            insight.Topic(
                label=topic.label,
                conversations=topic.conversations,
                last_use_time=moment(topic.last_use_time),
            )
            for topic in it.topics
        ),
        next_page_token=it.next_page_token,
    )


def _activity(it: insight_pb2.Activity) -> insight.Activity:
    return insight.Activity(
        conversations=it.conversations,
        turns=it.turns,
        user_messages=it.user_messages,
        assistant_messages=it.assistant_messages,
        tool_messages=it.tool_messages,
        usage=_usage(it.usage),
        cost=it.cost,
        notes=insight.NoteActivity(
            calls=it.notes.calls, usage=_usage(it.notes.usage), cost=it.notes.cost
        ),
    )


def _usage(it: message_pb2.Usage) -> Usage:
    return Usage(it.input, it.output)


def _facet_list(it: insight_pb2.FacetList) -> insight.FacetList:
    return insight.FacetList(
        facets=tuple(
            insight.Facet(value=facet.value, conversations=facet.conversations)
            for facet in it.facets
        ),
        total=it.total,
    )
