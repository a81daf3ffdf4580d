"""Spans of time: the days, weeks and months of a time zone, and the units that they are summed of.

Sums are kept by quarters of an hour, hours and days of UTC. A day of another zone is made of whole
hours of UTC and, where its zone is not whole hours ahead, of quarters of an hour at both ends.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from typing import NamedTuple

from recollect_server.insight.activity import QUARTER

QUARTERS_AN_HOUR, HOURS_A_DAY = 4, 24
QUARTERS_A_DAY = QUARTERS_AN_HOUR * HOURS_A_DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Bucket(StrEnum):
    """Unit of the calendar that activity is counted by."""

    DAY = "day"
    WEEK = "week"
    """From Monday."""
    MONTH = "month"


class Level(StrEnum):
    """Unit of UTC that sums are kept by."""

    QUARTER = "quarter"
    """Of an hour."""
    HOUR = "hour"
    DAY = "day"


_SIZES = {Level.QUARTER: 1, Level.HOUR: QUARTERS_AN_HOUR, Level.DAY: QUARTERS_A_DAY}
"""Quarters of an hour in each unit."""


class Span(NamedTuple):
    """A part of a bucket in units of one level, from `first` until before `end`."""

    level: Level
    first: int
    end: int
    bucket: int
    """Number of the bucket that it is a part of."""

    def in_quarters(self) -> "Span":
        size = _SIZES[self.level]
        return Span(Level.QUARTER, self.first * size, self.end * size, self.bucket)


def edges(start: int, end: int, bucket: Bucket, zone: tzinfo, most: int) -> list[int] | None:
    """Return the boundaries of the whole buckets that hold the times from `start` until before
    `end`: one more than there are buckets. None if there are more than `most`.

    Times are milliseconds. A day that a zone skipped is no bucket.
    """
    local = datetime.fromtimestamp(start / 1000, zone).replace(
        hour=0, minute=0, second=0, microsecond=0, fold=0, tzinfo=None
    )
    if bucket is Bucket.WEEK:
        local -= timedelta(days=local.weekday())
    elif bucket is Bucket.MONTH:
        local = local.replace(day=1)
    boundaries = [_moment(local, zone)]
    while boundaries[-1] < end:
        if bucket is Bucket.MONTH:
            local = (local + timedelta(days=32)).replace(day=1)
        else:
            local += timedelta(days=7 if bucket is Bucket.WEEK else 1)
        if (boundary := _moment(local, zone)) > boundaries[-1]:
            boundaries.append(boundary)
        if len(boundaries) > most + 1:
            return None
    return boundaries


def spans_of(boundaries: list[int]) -> list[Span]:
    """Return the spans that the buckets between boundaries are made of, of the largest units."""
    return [
        span
        for number in range(len(boundaries) - 1)
        for span in _parts(boundaries[number] // QUARTER, boundaries[number + 1] // QUARTER, number)
    ]


def quarters_of(boundaries: list[int]) -> list[Span]:
    """Return the spans of the buckets between boundaries in quarters of an hour alone."""
    quarters = [boundary // QUARTER for boundary in boundaries]
    return [
        Span(Level.QUARTER, quarters[number], quarters[number + 1], number)
        for number in range(len(quarters) - 1)
    ]


def offsets(first: int, end: int, zone: tzinfo) -> list[tuple[int, int, int]]:
    """Return the parts of a time in which a zone keeps its distance to UTC, each with that
    distance: all in quarters of an hour.
    """
    parts: list[tuple[int, int, int]] = []
    at = first
    while at < end:
        ahead = _ahead(at, zone)
        step = min(at + QUARTERS_A_DAY, end)
        if _ahead(step - 1, zone) != ahead:  # it changes within this day
            low, high = at, step - 1
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _ahead(middle, zone) == ahead else (low, middle)
            step = high
        if parts and parts[-1][2] == ahead:
            parts[-1] = (parts[-1][0], step, ahead)
        else:
            parts.append((at, step, ahead))
        at = step
    return parts


def _parts(first: int, end: int, number: int) -> Iterator[Span]:
    """Yield the spans between two quarters of an hour."""
    level = Level.QUARTER
    behind: list[Span] = []
    for following, units in ((Level.HOUR, QUARTERS_AN_HOUR), (Level.DAY, HOURS_A_DAY)):
        inner_first, inner_end = -(-first // units), end // units
        if inner_first >= inner_end:
            break
        if first < inner_first * units:
            yield Span(level, first, inner_first * units, number)
        if inner_end * units < end:
            behind.append(Span(level, inner_end * units, end, number))
        level, first, end = following, inner_first, inner_end
    if first < end:
        yield Span(level, first, end, number)
    yield from behind


def _moment(local: datetime, zone: tzinfo) -> int:
    """Return the first moment of a local time, down to a quarter of an hour."""
    moment = (local.replace(tzinfo=zone).astimezone(UTC) - _EPOCH) // _MILLISECOND
    return max(moment // QUARTER * QUARTER, 0)


def _ahead(quarter: int, zone: tzinfo) -> int:
    moment = datetime.fromtimestamp(quarter * QUARTER / 1000, zone)
    offset = moment.utcoffset() or timedelta()
    return offset // timedelta(milliseconds=QUARTER)
