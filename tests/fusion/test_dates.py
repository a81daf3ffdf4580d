"""Which time a question names."""

from datetime import UTC, datetime

import pytest
from recollect_server.domain.dates import span_of

NOW = int(datetime(2023, 8, 20, 12, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("Where was she in May 2022?", "2022-05-01", "2022-06-01"),
        ("Where was she in December 2022?", "2022-12-01", "2023-01-01"),
        ("What happened on 3 June, 2022?", "2022-06-03", "2022-06-04"),
        ("What happened on June 3rd?", "2023-06-03", "2023-06-04"),
        ("What happened on the 3rd of October?", "2022-10-03", "2022-10-04"),
        ("What was on 2023-02-28?", "2023-02-28", "2023-03-01"),
        ("What did he plan in September?", "2022-09-01", "2022-10-01"),
        ("What did he buy in 2021?", "2021-01-01", "2022-01-01"),
    ],
)
def test_a_day_a_month_or_a_year_is_the_time_of_it(question: str, first: str, last: str) -> None:
    span = span_of(question, NOW)
    assert span is not None
    assert [datetime.fromtimestamp(moment / 1000, UTC).date().isoformat() for moment in span] == [first, last]


def test_last_week_is_before_now() -> None:
    span = span_of("What did we decide last week?", NOW)
    assert span is not None
    assert NOW - 15 * 86_400_000 < span[0] < span[1] < NOW


@pytest.mark.parametrize(
    "question",
    ["", "You may march on", "What is the plan?", "31 February 2022", "on 0000-13-99", "99 May 2020", "room 1234"],
)
def test_what_is_no_time_is_none(question: str) -> None:
    assert span_of(question, NOW) is None


@pytest.mark.parametrize("now", [2**62, -(2**62)])
def test_a_moment_that_no_calendar_has_names_no_time(now: int) -> None:
    assert span_of("What was in May?", now) is None
