"""Insight: what was written when, about what, and what it cost.

Every answer is read from sums that the index keeps (`insight.queries`).
"""

from dataclasses import dataclass
from datetime import tzinfo

from recollect_server.insight.activity import ActivityCounts
from recollect_server.insight.queries import (
    ActivityTable,
    Facet,
    FacetCount,
    Group,
    HourCount,
    TopicCount,
)
from recollect_server.insight.spans import Bucket, Span, edges, offsets, quarters_of, spans_of
from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.domain.time import DAY
from recollect_server.kernel.space.space import Space

MAX_BUCKETS = 400
MAX_CHANNELS = 50
"""Channels of an answer about channels."""
_USUAL_DAYS = 30


@dataclass(frozen=True, slots=True)
class Range:
    """A range of time and its calendar. Times are milliseconds; None: the usual one."""

    start: int | None
    end: int | None
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class GroupTotal:
    """A group with its activity in a whole range."""

    key: str
    label: str
    activity: ActivityCounts


@dataclass(frozen=True, slots=True)
class ActivityReport:
    boundaries: list[int]
    """Of the buckets: one more than there are."""
    rows: list[tuple[int, str, ActivityCounts]]
    """Number of the bucket, key of the group, and what they have."""
    groups: list[GroupTotal]
    others: int
    """Groups that were left out."""


class Insight:
    """The work of InsightService. Raises InvalidField, DataUnavailable; safe to call from any
    thread.
    """

    def __init__(self, space: Space) -> None:
        self._space = space

    def usage(self, within: Range, bucket: Bucket, group: Group, limit: int) -> ActivityReport:
        """Return the activity of the `limit` groups that have the most messages, by bucket.

        The key of a conversation is its id, that of the space is empty.
        """
        table = ActivityTable(self._space.index)
        boundaries = self._boundaries(within, bucket)
        whole = [boundaries[0], boundaries[-1]]
        if group is Group.CONVERSATION:
            [span] = quarters_of(whole)
            numbers, count = table.busiest(span.first, span.end, (), limit)
            sums = table.sums(quarters_of(boundaries), group, numbers)
            totals = _totals(sums)
        elif group is Group.TOPIC:  # there may be many: only the chosen ones by bucket
            totals = _totals(table.sums(spans_of(whole), group))
            count = len(totals)
        else:
            sums = table.sums(spans_of(boundaries), group)
            totals = _totals(sums)
            count = len(totals)
        labels = self._labels(totals, group)
        order = sorted(labels, key=lambda key: (-totals[key].messages, labels[key][0]))[:limit]
        if group is Group.TOPIC:
            sums = table.sums(spans_of(boundaries), group, order)
        rank = {key: at for at, key in enumerate(order)}
        rows = sorted((number, rank[key], key) for number, key in sums if key in rank)
        return ActivityReport(
            boundaries,
            [(number, labels[key][0], sums[number, key]) for number, _, key in rows],
            [GroupTotal(*labels[key], totals[key]) for key in order],
            count - len(order),
        )

    def channel_activity(
        self, within: Range, channels: tuple[str, ...]
    ) -> list[tuple[str, int, list[HourCount]]]:
        """Return channels (none: all) with their messages and their hours of the week, the one with
        the most messages first.
        """
        span = self._days(within)
        parts = offsets(span.first, span.end, within.zone)
        counts: dict[str, list[HourCount]] = {}
        for count in ActivityTable(self._space.index).hours_of_week(parts, channels):
            counts.setdefault(count.channel, []).append(count)
        sums = {channel: sum(it.messages for it in hours) for channel, hours in counts.items()}
        order = sorted((it for it in counts if sums[it]), key=lambda it: (-sums[it], it))
        return [
            (channel, sums[channel], [it for it in counts[channel] if it.messages])
            for channel in order[:MAX_CHANNELS]
        ]

    def busiest(
        self, within: Range, channels: tuple[str, ...], limit: int
    ) -> list[tuple[Conversation, ActivityCounts]]:
        """Return the conversations with the most messages (of these channels; none: all), each with
        its activity there.
        """
        index = self._space.index
        span = self._days(within)
        numbers, _ = ActivityTable(index).busiest(span.first, span.end, channels, limit)
        sums = ActivityTable(index).sums([span], Group.CONVERSATION, numbers, channels)
        conversations = index.conversations.by_number(set(numbers))
        return [
            (self._space.current(conversations[number]), sums[0, number])
            for number in numbers
            if number in conversations and (0, number) in sums
        ]

    def facets(self, kind: Facet, limit: int) -> tuple[list[FacetCount], int]:
        """Return the most common values of a property, and how many there are."""
        return ActivityTable(self._space.index).facets(kind, limit)

    def topics(self, text: str, limit: int, after: tuple[int, str] | None) -> list[TopicCount]:
        """Return topics whose label contains a text, the most common first, behind the place
        `after`.
        """
        return ActivityTable(self._space.index).topics(text.casefold(), limit, after)

    def _days(self, within: Range) -> Span:
        """Return the whole days of a range, in quarters of an hour."""
        boundaries = self._boundaries(within, Bucket.DAY)
        [span] = quarters_of([boundaries[0], boundaries[-1]])
        return span

    def _boundaries(self, within: Range, bucket: Bucket) -> list[int]:
        end = self._space.clock() if within.end is None else within.end
        start = max(end - _USUAL_DAYS * DAY, 0) if within.start is None else within.start
        if start >= end:
            raise InvalidField.of("date_range.start", "is not before the end of the range")
        boundaries = edges(start, end, bucket, within.zone, MAX_BUCKETS)
        if boundaries is None:
            raise InvalidField.of(
                "date_range", f"has more than {MAX_BUCKETS} {bucket}s; ask for less, or for larger"
            )
        return boundaries

    def _labels(
        self, totals: dict[str | int, ActivityCounts], group: Group
    ) -> dict[str | int, tuple[str, str]]:
        """Return the name of each group to callers, and its label for people. A conversation that
        is gone has none.
        """
        if group is not Group.CONVERSATION:
            return {key: (str(key), str(key)) for key in totals}
        conversations = self._space.index.conversations.by_number({int(key) for key in totals})
        return {number: (it.id, it.name) for number, it in conversations.items()}


def _totals(sums: dict[tuple[int, str | int], ActivityCounts]) -> dict[str | int, ActivityCounts]:
    totals: dict[str | int, ActivityCounts] = {}
    for (_, key), activity in sums.items():
        before = totals.get(key)
        totals[key] = before.plus(activity) if before else activity
    return totals
