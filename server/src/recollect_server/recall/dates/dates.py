"""Dates that a question names, as ranges of time: "last week", "on 13 October", "vor drei Tagen",
"la semaine dernière", "先週".

Fourteen languages are read. The names of months and weekdays and the forms of "three days ago" are
those of Unicode's CLDR (`words`); the words for "last" and "yesterday", which no library offers as
data, are in `languages`. A range covers what is named: a week is Monday to Sunday, a month a
calendar month, a season three whole months of the hemisphere, all in one time zone, and a point of
time in the past is the day, week, month or year that contains it. The future ("tomorrow", "next
week") is not read, because no message is from it.

A question without a date word costs one look at its words. dateparser was measured first: its
search takes some 200 ms of processor time for a question, and misses "letzte Woche" and "la semaine
dernière" (`docs/decisions/languages.md`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial

from recollect_server.kernel.domain.time import from_wall, to_wall
from recollect_server.recall.dates.languages import ASKING, LANGUAGES, languages_of
from recollect_server.recall.dates.parts import is_southern, part_of
from recollect_server.recall.dates.ranges import ONE_DAY, WEEK, Range
from recollect_server.recall.dates.readers import (
    EASTERN,
    Dates,
    days_ago,
    eastern_dates,
    numeric_dates,
    reader_of,
    years_alone,
)
from recollect_server.text.languages import STOP_WORDS, guess_language, question_stop_words
from recollect_server.text.text import UNSPACED_RUN, folded, normal_form

_READ = 1000  # characters of a question that are read for dates
_QUESTION = 150  # characters of a text that asks of its dates
_WORD = re.compile(r"[^\W_]+")
_MOST = 4
"""Dates in one question. A text with more is a log or a table, and asks about none of them."""
_LONG_AGO = timedelta(300)
"""Age of a history's end from which "in March" means its own March, not that of the time of
asking.
"""


_LOOKING_BACK = (1, 2)
"""Days behind one on which a single word names it."""


@dataclass(frozen=True, slots=True)
class Mention:
    first: int
    last: int
    """End of its words in the question in normal form, excluded."""
    begin: float
    end: float
    """Its first moment and one past its last, in milliseconds since 1970."""
    is_relative: bool
    """True if it counts from the time of asking, as "last week" does. Its words say nothing about
    the subject.
    """


@dataclass(frozen=True, slots=True)
class LookBack:
    """Words that name a day in messages of a time behind it."""

    words: str
    begin: int
    end: int
    """The time of those messages, in milliseconds since 1970."""


def read_dates(
    question: str, now: int, newest: int | None = None, zone: tzinfo = UTC
) -> tuple[Mention, ...]:
    """Return the dates that a question names, in its order.

    `now` is the time of asking, in milliseconds. A month or day without a year is the last one that
    began before it; where the history ended long before, at `newest`, the last one before that.
    Days begin and end as in the zone.
    """
    text = normal_form(question[:_READ])
    plain = folded(text)
    languages = languages_of(plain)
    if not languages and not _has_figures(plain) and not EASTERN.search(plain):
        return ()
    newest = newest if newest is None else to_wall(newest, zone)
    return tuple(
        replace(it, begin=from_wall(it.begin, zone), end=from_wall(it.end, zone))
        for it in _read(plain, languages, to_wall(now, zone), newest, southern=is_southern(zone))
    )


def asks_of_dates(question: str) -> bool:
    """Return whether a text is short enough for a date in it to say when what is asked for was
    said.

    In a long message "today" and "Saturday" mostly tell of something new.
    """
    return len(question) <= _QUESTION


def asks_only_of_dates(question: str, dates: Sequence[Mention], now: int) -> bool:
    """Return whether a question names nothing but times in the past: "What did we do on Monday?".

    Its other words are near to anything that was said, whenever that was. Of today ("How are you
    today?") nothing is asked so.
    """
    if not dates or not asks_of_dates(question) or any(it.end > now for it in dates):
        return False
    text = normal_form(question)
    rest = _without(text, dates)
    if UNSPACED_RUN.search(rest):
        return False  # no words to look at one by one
    languages = {guess_language(text), *languages_of(folded(text))}
    stop_words = STOP_WORDS.union(*map(question_stop_words, languages))
    return all(it in stop_words or folded(it) in ASKING for it in _WORD.findall(rest.lower()))


def is_only_of_dates(question: str, dates: Sequence[Mention]) -> bool:
    """Return whether a question is nothing but dates that do not count from the time of asking:
    "2025" may be a word of a title.
    """
    is_relative = any(it.is_relative for it in dates)
    return not is_relative and not _WORD.search(_without(normal_form(question), dates))


def days_named(question: str, dates: Sequence[Mention]) -> list[str]:
    """Return the words of each day that a question names by its date: "13 October"."""
    text = normal_form(question)
    one_day = ONE_DAY / _MILLISECOND
    return [
        text[it.first : it.last]
        for it in dates
        if not it.is_relative and it.end - it.begin <= one_day
    ]


def looks_back(date: Mention, zone: tzinfo = UTC) -> Iterator[LookBack]:
    """Yield how messages behind a day name it: "yesterday" on the next one. Nothing of a time that
    is longer than a day.
    """
    if date.end - date.begin > ONE_DAY / _MILLISECOND:
        return
    day = ONE_DAY // _MILLISECOND
    begin = to_wall(int(date.begin), zone)
    begin -= begin % day
    for days in _LOOKING_BACK:
        start, end = (from_wall(begin + it * day, zone) for it in (days, days + 1))
        yield LookBack(days_ago(days), int(start), int(end))


def words_of_dates(question: str, dates: Sequence[Mention]) -> frozenset[str]:
    """Return the words and figures of the dates in a question, in small letters."""
    spoken = normal_form(question).lower()
    named = (spoken[it.first : it.last] for it in dates)
    return frozenset(word for text in named for word in _WORD.findall(text))


def without_dates(question: str, dates: Sequence[Mention]) -> str:
    """Return the question without the words of its relative dates, if it asks of them.

    "Last week" is no matter that was spoken about; "13 October" may be.
    """
    if not asks_of_dates(question):
        return question
    return _without(normal_form(question), [it for it in dates if it.is_relative])


def _without(text: str, dates: Sequence[Mention]) -> str:
    for it in sorted(dates, key=lambda it: -it.first):
        text = f"{text[: it.first]} {text[it.last :]}"
    return text


@lru_cache(64)  # a search reads its question for its words, its candidates and its weights
def _read(
    plain: str, languages: tuple[str, ...], now: int, newest: int | None, *, southern: bool
) -> tuple[Mention, ...]:
    try:
        last = moment = datetime.fromtimestamp(now / 1000, UTC)
        if (
            newest is not None
            and moment - (end := datetime.fromtimestamp(newest / 1000, UTC)) > _LONG_AGO
        ):
            last = end
    except (ValueError, OverflowError):
        return ()  # a clock that no calendar has
    read: list[tuple[int, int, Range, bool]] = []
    readers: list[Callable[[], Dates]] = [lambda: numeric_dates(plain, last)]
    readers += [
        partial(reader_of(it, southern=southern).read, plain, moment, last) for it in languages
    ]
    if EASTERN.search(plain):
        readers.append(lambda: eastern_dates(plain, moment, last))
    readers.append(lambda: years_alone(plain, moment))
    for reader in readers:
        try:
            read.extend(reader())
        except (ValueError, OverflowError):
            continue  # no such day
    claimed: list[Mention] = []
    parts = [(*part_of(plain, *it[:3], southern=southern), it[3]) for it in read]
    # the longest wins
    for first, end_, (begin, after), relative in sorted(parts, key=lambda it: it[0] - it[1]):
        if not any(it.first < end_ and first < it.last for it in claimed):
            claimed.append(
                Mention(first, end_, _milliseconds(begin), _milliseconds(after), relative)
            )
    claimed.sort(key=lambda it: it.first)
    try:
        joined = tuple(_joined(plain, claimed, languages))
    except ValueError:  # the 29th of February in another year
        joined = tuple(claimed)
    return joined if len(joined) <= _MOST else ()


def _joined(plain: str, mentions: list[Mention], languages: tuple[str, ...]) -> Iterator[Mention]:
    """Make one range of two dates with "to" or "and" between them, and one date of two that stand
    together.
    """
    joins = "|".join(
        ["-", "–", "から", "到", "至", "~", "〜", *(LANGUAGES[it].joins for it in languages)]
    )
    between = re.compile(rf"\s*(?:{joins})\s*(?:the |dem |den |le |el |il |o |al )?")
    held: Mention | None = None
    for it in mentions:
        if held is None:
            held = it
            continue
        gap = plain[held.last : it.first]
        if between.fullmatch(gap):
            held = _before(held, it)  # "from 28 April to 3 May 2024"
        if between.fullmatch(gap) and held.end <= it.end:
            held = replace(
                held, last=it.last, end=it.end, is_relative=held.is_relative and it.is_relative
            )
        elif gap.strip(" ,.の'(") in _GLUE and (narrower := _within(held, it)):
            held = replace(narrower, first=held.first, last=it.last)
        else:
            yield held
            held = it
    if held:
        yield held


def _before(one: Mention, other: Mention) -> Mention:
    """Return a date in the year of the one behind it, if it is later than that."""
    if one.end <= other.end or one.is_relative:
        return one
    begin, end, behind = (
        datetime.fromtimestamp(it / 1000, UTC) for it in (one.begin, one.end, other.end)
    )
    moved = begin.replace(
        year=behind.year if begin.replace(year=behind.year) < behind else behind.year - 1
    )
    return replace(one, begin=_milliseconds(moved), end=_milliseconds(moved + (end - begin)))


def _within(one: Mention, other: Mention) -> Mention | None:
    """Return the narrower of two dates: a weekday of a week is moved into it. None where they have
    nothing in common.
    """
    narrow, wide = sorted((one, other), key=lambda it: it.end - it.begin)
    week = WEEK / _MILLISECOND
    if wide.end - wide.begin == week and narrow.end - narrow.begin < week:
        days = (narrow.begin - wide.begin) % week
        length = narrow.end - narrow.begin
        return replace(narrow, begin=wide.begin + days, end=wide.begin + days + length)
    # "in May last year"
    if wide.end - wide.begin >= _YEAR_LONG and narrow.end - narrow.begin <= _YEAR_LONG / 10:
        year = datetime.fromtimestamp(wide.begin / 1000, UTC).year
        begin, end = (datetime.fromtimestamp(it / 1000, UTC) for it in (narrow.begin, narrow.end))
        with suppress(ValueError):  # the 29th of February
            moved = begin.replace(year=year)
            return replace(
                narrow, begin=_milliseconds(moved), end=_milliseconds(moved + (end - begin))
            )
    return (
        narrow
        if wide.begin <= narrow.begin < wide.end
        or wide.end - wide.begin == narrow.end - narrow.begin
        else None
    )


_GLUE = frozenset(["", "of", "in", "im", "des", "en", "de", "del", "di", "do", "van"])
"""Words that may stand between two parts of one date."""
_MILLISECOND = timedelta(milliseconds=1)
_YEAR_LONG = timedelta(365) / _MILLISECOND


def _milliseconds(moment: datetime) -> float:
    return 1000 * moment.timestamp()


def _has_figures(text: str) -> bool:
    return any("0" <= it <= "9" for it in text)
