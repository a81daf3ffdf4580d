"""Insight: what was written when, about what, and what it cost.

`activity` has the facts (see `insight.activity`). Two levels of sums stand above it, by hour and by
day of UTC, of channels with models and of topics: any span of time is made of few days, few hours
and few quarters of an hour. `facets` counts the conversations of each channel, topic, model and
participant. Triggers keep all of it in the transaction of the change, whatever changes: a sum
always equals that of its facts. Every answer is read from these sums.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from enum import StrEnum
from typing import NamedTuple

import orjson

from recollect_server.insight.activity import COUNTERS, ActivityCounts
from recollect_server.insight.spans import (
    HOURS_A_DAY,
    QUARTERS_AN_HOUR,
    Bucket,
    Level,
    Span,
    edges,
    offsets,
    quarters_of,
    spans_of,
)
from recollect_server.insight.tables import OF_CHANNELS, OF_TOPICS
from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.domain.time import DAY
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import conditions
from recollect_server.kernel.space.space import Space


class Group(StrEnum):
    """Key that activity is grouped by."""

    SPACE = "space"
    CHANNEL = "channel"
    MODEL = "model"
    TOPIC = "topic"
    CONVERSATION = "number"


class Facet(StrEnum):
    """Property of conversations whose values are counted."""

    CHANNEL = "channel"
    TOPIC = "topic"
    MODEL = "model"
    PARTICIPANT = "participant"


class FacetCount(NamedTuple):
    """A value, and how many conversations have it."""

    value: str
    conversations: int


@dataclass(frozen=True, slots=True)
class TopicCount:
    """A topic, how many conversations have it, and the hour (since 1970) of its last use."""

    label: str
    conversations: int
    last_hour: int


class HourCount(NamedTuple):
    """Activity of a channel in an hour of the week; 0 is Monday's first."""

    channel: str
    hour: int
    turns: int
    messages: int


_NOTHING = ActivityCounts()
_LEVELS = {Level.HOUR: 0, Level.DAY: 1}


class ActivityTable:
    """The tables of activity."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sums(
        self,
        spans: Iterable[Span],
        group: Group,
        keys: Sequence[str | int] | None = None,
        channels: Sequence[str] = (),
    ) -> dict[tuple[int, str | int], ActivityCounts]:
        """Return the activity within spans, by the spans' bucket and the group's key (empty for the
        space).

        `keys`: of these groups alone. A conversation's key is its number. `channels`: of these
        alone, where conversations are the groups; none: of all.
        """
        levels: dict[str, list[tuple[int, int, int]]] = {}
        for span in spans:
            of = _table_of(span, group, chosen=keys is not None)
            span = span.in_quarters() if of == "activity" else span
            levels.setdefault(of, []).append((span.first, span.end, span.bucket))
        sums: dict[tuple[int, str | int], ActivityCounts] = {}
        with self._database.reading() as connection:
            for of, rows in levels.items():
                values = [orjson.dumps(rows).decode()]
                if keys is not None:
                    values.append(orjson.dumps(keys).decode())
                if channels:
                    values.append(orjson.dumps(channels).decode())
                query = _sums_of(of, group, chosen=keys is not None, of_channels=bool(channels))
                for bucket, key, *counters in connection.execute(query, values):
                    activity = ActivityCounts(*map(int, counters))
                    sums[bucket, key] = sums.get((bucket, key), _NOTHING).plus(activity)
        return sums

    def busiest(
        self, first: int, end: int, channels: Sequence[str], limit: int
    ) -> tuple[list[int], int]:
        """Return the numbers of the conversations with the most messages between two slots, and how
        many have any.

        Ties are ordered by the conversation's id, for a new index gives other numbers.
        """
        condition = ""
        values: list[int | str] = [first, end]
        if channels:
            condition = " AND channel IN (SELECT value FROM json_each(?3))"
            values.append(orjson.dumps(channels).decode())
        rows = self._database.rows(
            "WITH counts AS MATERIALIZED (SELECT number,"
            " sum(user_messages + assistant_messages + tool_messages) AS messages"
            f" FROM activity WHERE slot >= ?1 AND slot < ?2{condition} GROUP BY number),"
            " least AS (SELECT messages FROM counts"
            f" ORDER BY messages DESC LIMIT 1 OFFSET {limit - 1})"
            " SELECT c.number, (SELECT count(*) FROM counts WHERE messages > 0)"
            " FROM counts n JOIN conversations c ON c.number = n.number"
            " WHERE n.messages > 0 AND n.messages >= coalesce((SELECT messages FROM least), 0)"
            f" ORDER BY n.messages DESC, c.id LIMIT {limit}",
            values,
        )
        return [row[0] for row in rows], rows[0][1] if rows else 0

    def hours_of_week(
        self, spans: Iterable[tuple[int, int, int]], channels: Sequence[str]
    ) -> list[HourCount]:
        """Return the activity of channels (none: all) by hour of the week.

        A span is its first slot, its end and what the local time is ahead of UTC, all in quarters
        of an hour.
        """
        sums: dict[tuple[str, int], list[int]] = {}
        with self._database.reading() as connection:
            for first, end, ahead in spans:
                whole = not (first | end | ahead) % QUARTERS_AN_HOUR
                of = "activity_by_hour" if whole else "activity"
                time, each = ("hour", QUARTERS_AN_HOUR) if whole else ("slot", 1)
                # The week of 1970 began on a Thursday: three days after its Monday.
                hour = f"(({time} * {each} + ?3) / {QUARTERS_AN_HOUR} + {10 * HOURS_A_DAY}) % {7 * HOURS_A_DAY}"
                values: list[int | str] = [first // each, end // each, ahead]
                condition = ""
                if channels:
                    condition = " AND channel IN (SELECT value FROM json_each(?4))"
                    values.append(orjson.dumps(channels).decode())
                for channel, at, turns, messages in connection.execute(
                    f"SELECT channel, {hour}, sum(turns), sum(user_messages + assistant_messages + tool_messages)"
                    f" FROM {of} WHERE {time} >= ?1 AND {time} < ?2{condition} GROUP BY 1, 2",
                    values,
                ):
                    counts = sums.setdefault((str(channel), int(at)), [0, 0])
                    counts[0] += turns
                    counts[1] += messages
        return [HourCount(*key, *counts) for key, counts in sorted(sums.items())]


def _table_of(span: Span, group: Group, *, chosen: bool) -> str:
    """Return the table that a span is summed of; `chosen`: of few groups, which are known."""
    if group is Group.CONVERSATION or span.level not in _LEVELS:
        return "activity"
    if group is not Group.TOPIC:
        return OF_CHANNELS[_LEVELS[span.level]].table
    # the hours of one topic stand together, those of all are far apart
    is_far = span.level is Level.HOUR and not chosen
    return "activity" if is_far else OF_TOPICS[_LEVELS[span.level]].table


def _sums_of(table: str, group: Group, *, chosen: bool, of_channels: bool) -> str:
    """Return the query of the sums of a table: bucket, key and counters."""
    key = "''" if group is Group.SPACE else f"t.{group.value}"
    if group is Group.TOPIC and table == "activity":
        key = "o.topic"
    sums = ", ".join(f"total(t.{name})" for name in COUNTERS)
    time = {"activity": "slot"}.get(table, table.rpartition("_")[2])
    joined = " CROSS JOIN topics o ON o.number = t.number" if key == "o.topic" else ""
    where = f" WHERE {key} IN (SELECT value FROM json_each(?2))" if chosen else ""
    if of_channels:
        assert chosen, "callers name the conversations too"
        where += " AND t.channel IN (SELECT value FROM json_each(?3))"
    return (
        "WITH spans AS MATERIALIZED (SELECT value ->> 0 AS first, value ->> 1 AS end, value ->> 2 AS bucket FROM json_each(?1))"
        f" SELECT bucket, {key}, {sums} FROM spans CROSS JOIN {table} t"
        f" ON t.{time} >= first AND t.{time} < spans.end{joined}{where} GROUP BY 1, 2"
    )


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
        """Return the most common values of a property, and how many there are. An empty one is
        none.
        """
        with self._space.index.reading() as connection:
            where = "FROM facets WHERE kind = ? AND value <> ''"
            rows: list[tuple[str, int]] = connection.execute(
                f"SELECT value, conversations {where} ORDER BY conversations DESC, value LIMIT ?",
                (kind.value, limit),
            ).fetchall()  # type: ignore[assignment]  # the table's types
            total = connection.execute(f"SELECT count(*) {where}", (kind.value,)).get
        return [FacetCount(*row) for row in rows], int(total)

    def topics(self, text: str, limit: int, after: tuple[int, str] | None) -> list[TopicCount]:
        """Return topics whose label contains a text, the most common first, behind the place
        `after` = (conversations, label).
        """
        where, values = conditions(
            [
                ("instr(casefold(value), ?) > 0", text.casefold() or None),
                (
                    "(conversations < ? OR (conversations = ? AND value > ?))",
                    after and (after[0], *after),
                ),
            ]
        )
        rows = self._space.index.rows(
            "SELECT value, conversations, coalesce((SELECT max(hour) FROM topics_by_hour WHERE topic = value), 0)"
            f" FROM facets WHERE kind = 'topic' AND {where} ORDER BY conversations DESC, value LIMIT ?",
            (*values, limit),
        )
        return [TopicCount(row[0], row[1], row[2]) for row in rows]

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
        totals[key] = totals.get(key, _NOTHING).plus(activity)
    return totals
