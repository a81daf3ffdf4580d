"""The calendar of insight: days, weeks and months of a time zone, and the units they are summed
of.
"""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st
from recollect_server.insight.activity import QUARTER
from recollect_server.insight.spans import (
    QUARTERS_A_DAY,
    QUARTERS_AN_HOUR,
    Bucket,
    Level,
    edges,
    offsets,
    quarters_of,
    spans_of,
)

from tests.cases import each
from tests.conftest import examples

DAY = 86_400_000
SIZES = {Level.QUARTER: 1, Level.HOUR: QUARTERS_AN_HOUR, Level.DAY: QUARTERS_A_DAY}
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",  # 5:30 ahead
    "Asia/Kathmandu",  # 5:45 ahead
    "Australia/Lord_Howe",  # half an hour of summer time
    "America/Sao_Paulo",  # midnight is skipped when summer begins
    "Pacific/Apia",  # 2011-12-30 is skipped
    "Africa/Casablanca",
]
MOMENTS = st.integers(63_072_000_000, 4_102_444_800_000)  # 1972 to 2100


def ms(*date: int, zone: str = "UTC") -> int:
    return int(datetime(*date, tzinfo=ZoneInfo(zone)).timestamp() * 1000)  # type: ignore[arg-type,misc]


@given(
    MOMENTS,
    st.integers(1, 200 * DAY),
    st.sampled_from(ZONES),
    st.sampled_from(Bucket),
)
@settings(max_examples=examples(80))
def test_buckets_are_whole_units_of_the_zones_calendar(
    start: int, length: int, name: str, bucket: Bucket
) -> None:
    zone = ZoneInfo(name)
    boundaries = edges(start, start + length, bucket, zone, 300)
    assert boundaries is not None
    assert boundaries == sorted(set(boundaries))
    assert boundaries[0] <= start < boundaries[1]
    assert boundaries[-2] < start + length <= boundaries[-1]

    def unit(moment: int) -> object:
        day = datetime.fromtimestamp(moment / 1000, zone).date()
        if bucket is Bucket.WEEK:
            return day - timedelta(days=day.weekday())
        return (day.year, day.month) if bucket is Bucket.MONTH else day

    for first, end in pairwise(boundaries):
        assert unit(first) == unit(end - QUARTER), "one unit"
        assert unit(first - 1) != unit(first), "from its first moment"
        assert unit(end) != unit(end - 1), "to its last"


@given(MOMENTS, st.integers(1, 20 * DAY), st.sampled_from(ZONES), st.sampled_from(Bucket))
@settings(max_examples=examples(80))
def test_the_spans_of_buckets_cover_each_quarter_of_an_hour_once(
    start: int, length: int, name: str, bucket: Bucket
) -> None:
    boundaries = edges(start, start + length, bucket, ZoneInfo(name), 100)
    assert boundaries is not None
    covered: dict[int, int] = {}
    for span in spans_of(boundaries):
        size = SIZES[span.level]
        for quarter in range(span.first * size, span.end * size):
            assert quarter not in covered
            covered[quarter] = span.bucket
    expected = {
        quarter: span.bucket
        for span in quarters_of(boundaries)
        for quarter in range(span.first, span.end)
    }
    assert covered == expected


def test_a_long_bucket_is_made_of_few_spans() -> None:
    boundaries = edges(ms(2026, 3, 1), ms(2026, 5, 1), Bucket.MONTH, ZoneInfo("Asia/Kolkata"), 9)
    assert boundaries is not None
    assert len(spans_of(boundaries)) <= 5 * (len(boundaries) - 1)
    assert sum(span.level is Level.DAY for span in spans_of(boundaries)) == len(boundaries) - 1


def test_a_day_that_a_zone_skipped_is_no_bucket() -> None:
    zone = ZoneInfo("Pacific/Apia")
    boundaries = edges(
        ms(2011, 12, 29, zone="Pacific/Apia"),
        ms(2012, 1, 1, zone="Pacific/Apia"),
        Bucket.DAY,
        zone,
        9,
    )
    assert boundaries is not None
    days = [datetime.fromtimestamp(it / 1000, zone).day for it in boundaries]
    assert days == [29, 31, 1]


@each("name", ZONES)
def test_offsets_are_those_of_the_zone_at_every_quarter(name: str) -> None:
    zone = ZoneInfo(name)
    first, end = ms(2011, 1, 1) // QUARTER, ms(2012, 2, 1) // QUARTER
    parts = offsets(first, end, zone)
    assert [part[0] for part in parts] == [first, *(part[1] for part in parts[:-1])]
    assert parts[-1][1] == end
    for begin, stop, ahead in parts:
        for quarter in {begin, stop - 1, *range(begin, stop, 3 * QUARTERS_A_DAY)}:
            moment = datetime.fromtimestamp(quarter * QUARTER / 1000, zone)
            assert moment.utcoffset() == timedelta(milliseconds=ahead * QUARTER)


def test_more_buckets_than_allowed_are_none() -> None:
    assert edges(0, 400 * DAY, Bucket.DAY, UTC, 400) is not None
    assert edges(0, 400 * DAY + 1, Bucket.DAY, UTC, 400) is None
