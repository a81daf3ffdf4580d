"""Ranges of time of a calendar: the day, week, month or year that words name. All are in UTC;
for another zone its clock time stands as if it were UTC.
"""

from datetime import UTC, datetime, timedelta

Range = tuple[datetime, datetime]
ONE_DAY, WEEK = timedelta(1), timedelta(7)


def unit_range(unit: str, offset: int, now: datetime) -> Range:
    """Return the day, week, weekend, month, quarter or year that lies `offset` units from now."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        begin = today + timedelta(offset)
        return begin, begin + ONE_DAY
    if unit == "week":
        begin = today - timedelta(today.weekday()) + offset * WEEK
        return begin, begin + WEEK
    if unit == "weekend":  # 0: the last one that has begun
        begin = today - timedelta((today.weekday() - 5) % 7)
        begin += WEEK * (offset + 1 if offset < 0 and today.weekday() < 5 else offset)
        return begin, begin + timedelta(2)
    if unit == "month":
        year, month = divmod(12 * today.year + today.month - 1 + offset, 12)
        begin = datetime(year, month + 1, 1, tzinfo=UTC)
        return begin, _next_month(begin)
    if unit == "quarter":
        year, quarter = divmod(4 * today.year + (today.month - 1) // 3 + offset, 4)
        return quarter_of(datetime(year, 1, 1, tzinfo=UTC), quarter)
    return year_range(today.year + offset)


def quarter_of(year: datetime, number: int) -> Range:
    """Return a quarter, from 0, of the year that begins then."""
    begin = year.replace(month=3 * number + 1)
    return begin, _next_month(begin + timedelta(62))


def season_of(year: datetime, number: int) -> Range:
    """Return spring, summer, autumn or winter, from 0, that begins in the year that begins then:
    three whole months, those of the northern hemisphere.
    """
    begin = year.replace(month=3 * number + 3)
    return begin, _next_month(begin + timedelta(62))


def last_season(number: int, now: datetime, *, is_over: bool) -> Range:
    """Return the last such season that has begun; that is over, if it has to be."""
    begin, end = season_of(year_range(now.year)[0], number)
    while (end if is_over else begin) > now:
        begin, end = season_of(begin.replace(year=begin.year - 1, month=1), number)
    return begin, end


FEW = {"day": 7, "week": 5, "weekend": 5, "month": 6, "quarter": 4, "year": 6}
"""The most that "a few" of a unit are."""


def year_range(year: int) -> Range:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _next_month(begin: datetime) -> datetime:
    return (begin + timedelta(31)).replace(day=1)


def since_range(unit: str, count: int, now: datetime) -> Range:
    """Return the last `count` days, weeks, months, quarters or years, today included."""
    days = {"day": 1, "week": 7, "weekend": 7, "month": 31, "quarter": 92, "year": 366}[unit]
    return unit_range("day", -days * count, now)[0], now + ONE_DAY


def few_range(unit: str, now: datetime) -> Range:
    """Return the time that is "a few" days, weeks, months or years ago."""
    return unit_range(unit, -FEW[unit], now)[0], unit_range(unit, -2, now)[1]


def calendar_range(year: int | None, month: int, day: int | None, last: datetime) -> Range:
    """Return a month or a day of it; without a year, the last one that began before `last`. Raises
    ValueError.
    """
    begin = datetime(year or last.year, month, day or 1, tzinfo=UTC)
    if year is None and begin > last:
        begin = begin.replace(year=begin.year - 1)
    return begin, begin + ONE_DAY if day else _next_month(begin)


def weekday_range(number: int, now: datetime, *, before: bool) -> Range:
    """Return the last such weekday. Today counts, unless the day must lie `before`."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    back = (today.weekday() - number) % 7
    begin = today - timedelta(back or (7 if before else 0))
    return begin, begin + ONE_DAY
