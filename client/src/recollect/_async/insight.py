# Generated from proto and scripts/client_methods.toml by scripts/client_methods.py.
"""`client.insight`."""

from collections.abc import AsyncIterator, Iterable

from recollect._async.invoker import Invoker
from recollect._shared import calls
from recollect._types.insight import (
    BusyConversation,
    ChannelHours,
    Facets,
    TimeBucket,
    Topic,
    TopicPage,
    TopicReport,
    UsageGroup,
    UsageReport,
)
from recollect._types.recall import (
    DateRange,
)


class Insight:
    """Calls that count what was written and what it cost, at `client.insight`.

    In all methods an argument that is `None` is left to the server's default, and `timeout` bounds
    the call in seconds, retries included, instead of the client's own. A `date_range` is widened to
    whole days, weeks or months of `time_zone`, a name such as "Asia/Tokyo"; without one the last 30
    days are meant, and UTC.
    """

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def usage(
        self,
        *,
        date_range: DateRange | None = None,
        time_zone: str | None = None,
        bucket: TimeBucket | None = None,
        group_by: UsageGroup | None = None,
        max_groups: int | None = None,
        timeout: float | None = None,
    ) -> UsageReport:
        """Return conversations, turns, messages, tokens and costs by day, week or month, of the
        groups with the most messages.

        >>> report = await client.insight.usage(bucket=TimeBucket.WEEK, group_by=UsageGroup.MODEL)
        >>> for row in report.rows:
        ...     print(row.bucket_start.date(), row.group, row.activity.cost)
        """
        return await self._invoker.run(
            calls.USAGE(
                date_range=date_range,
                time_zone=time_zone or self._invoker.time_zone,
                bucket=bucket,
                group_by=group_by,
                max_groups=max_groups,
            ),
            timeout,
        )

    async def topics_over_time(
        self,
        *,
        date_range: DateRange | None = None,
        time_zone: str | None = None,
        bucket: TimeBucket | None = None,
        max_topics: int | None = None,
        timeout: float | None = None,
    ) -> TopicReport:
        """Return the most common topics of a range, with their messages by day, week or month.

        >>> report = await client.insight.topics_over_time(bucket=TimeBucket.WEEK, max_topics=5)
        >>> for series in report.topics:
        ...     print(series.topic, series.messages)
        """
        return await self._invoker.run(
            calls.TOPICS_OVER_TIME(
                date_range=date_range,
                time_zone=time_zone or self._invoker.time_zone,
                bucket=bucket,
                max_topics=max_topics,
            ),
            timeout,
        )

    async def channel_activity(
        self,
        *,
        date_range: DateRange | None = None,
        time_zone: str | None = None,
        channels: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> tuple[ChannelHours, ...]:
        """Return the activity of each channel by weekday and hour, the busiest channel first.

        >>> for channel in await client.insight.channel_activity(time_zone="Europe/Berlin"):
        ...     print(channel.channel, max(channel.hours, key=lambda hour: hour.messages))
        """
        return await self._invoker.run(
            calls.CHANNEL_ACTIVITY(
                date_range=date_range,
                time_zone=time_zone or self._invoker.time_zone,
                channels=channels,
            ),
            timeout,
        )

    async def busiest_conversations(
        self,
        *,
        date_range: DateRange | None = None,
        time_zone: str | None = None,
        channels: Iterable[str] | None = None,
        limit: int | None = None,
        timeout: float | None = None,
    ) -> tuple[BusyConversation, ...]:
        """Return the conversations that have the most messages in a range.

        >>> for busy in await client.insight.busiest_conversations(limit=5):
        ...     print(busy.conversation.name, busy.activity.messages)
        """
        return await self._invoker.run(
            calls.BUSIEST_CONVERSATIONS(
                date_range=date_range,
                time_zone=time_zone or self._invoker.time_zone,
                channels=channels,
                limit=limit,
            ),
            timeout,
        )

    async def facets(
        self,
        *,
        max_values: int | None = None,
        timeout: float | None = None,
    ) -> Facets:
        """Return how many conversations each channel, topic, model and participant has.

        >>> facets = await client.insight.facets()
        >>> print([(facet.value, facet.conversations) for facet in facets.channels.facets])
        """
        return await self._invoker.run(calls.FACETS(max_values=max_values), timeout)

    def list_topics(
        self,
        *,
        query: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> AsyncIterator[Topic]:
        """Iterate over all topics, those of the most conversations first. `query` is looked for in
        the labels; `timeout` bounds each page.

        >>> async for topic in client.insight.list_topics(query="disk"):
        ...     print(topic.label, topic.conversations, topic.last_use_time)
        """
        return self._invoker.iterate(calls.LIST_TOPICS(query=query, page_size=page_size), timeout)

    async def list_topics_page(
        self,
        *,
        page_token: str | None = None,
        query: str | None = None,
        page_size: int | None = None,
        timeout: float | None = None,
    ) -> TopicPage:
        """Return one page of `list_topics`: the first, or with `page_token` the one after another,
        with the same filters.

        >>> page = await client.insight.list_topics_page(page_size=20)
        >>> token = page.next_page_token
        >>> page = await client.insight.list_topics_page(page_size=20, page_token=token)
        """
        return await self._invoker.run(
            calls.LIST_TOPICS(query=query, page_size=page_size, page_token=page_token), timeout
        )
