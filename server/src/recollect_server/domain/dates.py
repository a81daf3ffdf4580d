"""Dates that an English question names: "in May 2023", "on 3 June", "last week"."""

import re
from datetime import UTC, datetime, timedelta

Span = tuple[float, float]
"""Its first moment and one past its last, in milliseconds since 1970."""

_NAMES = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"]
_MONTHS = {short: number for number, name in enumerate(_NAMES, 1) for short in (name, name[:3])} | {"sept": 9}
_MONTH = "(?P<month>" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_FORMS = [
    re.compile(form)
    for form in (
        r"\b(?P<year>\d{4})-(?P<number>\d\d)-(?P<day>\d\d)\b",
        rf"\b{_DAY}(?: of)? {_MONTH},?(?: {_YEAR})?",
        rf"\b{_MONTH} {_DAY},?(?: {_YEAR})?",
        rf"\b{_MONTH},?(?: of)? {_YEAR}",
        rf"\b(?:in|during|since|of|by) {_MONTH}",
        rf"\b{_YEAR}",
    )
]
_AGO = {"yesterday": (2, 0), "last night": (2, 0), "today": (1, 0), "last week": (14, 3), "last month": (62, 14)}
"""Days before now."""


def span_of(question: str, now: int) -> Span | None:
    """The time that a question names, the first form of those above; None if it names none, or no such day exists.

    A month without a year is the last one that began before `now` (milliseconds).
    """
    text = question.lower()
    try:
        moment = datetime.fromtimestamp(now / 1000, UTC)
        for form in _FORMS:
            if found := form.search(text):
                return _span(found.groupdict(), moment)
        for words, (first, last) in _AGO.items():
            if re.search(rf"\b{words}\b", text):
                return _milliseconds(moment - timedelta(first)), _milliseconds(moment - timedelta(last))
    except (ValueError, OverflowError):
        pass
    return None


def _span(named: dict[str, str | None], now: datetime) -> Span:
    month = int(named.get("number") or 0) or _MONTHS.get(named.get("month") or "", 0)
    year = int(named.get("year") or 0) or (now.year if month <= now.month else now.year - 1)
    if not month:
        return _milliseconds(datetime(year, 1, 1, tzinfo=UTC)), _milliseconds(datetime(year + 1, 1, 1, tzinfo=UTC))
    if day := int(named.get("day") or 0):
        begin = datetime(year, month, day, tzinfo=UTC)
        return _milliseconds(begin), _milliseconds(begin + timedelta(1))
    begin = datetime(year, month, 1, tzinfo=UTC)
    return _milliseconds(begin), _milliseconds((begin + timedelta(31)).replace(day=1))


def _milliseconds(moment: datetime) -> float:
    return 1000 * moment.timestamp()
