"""Readers of dates: in figures, in the forms of a language, in Chinese, Japanese and Korean."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache

from recollect_server.recall.dates.languages import (
    AMBIGUOUS,
    LANGUAGES,
    NONE,
    PLAIN,
    SHORT,
    WORD,
    month_names,
)
from recollect_server.recall.dates.ranges import (
    FEW,
    ONE_DAY,
    WEEK,
    Range,
    calendar_range,
    few_range,
    last_season,
    since_range,
    unit_range,
    weekday_range,
    year_range,
)
from recollect_server.recall.dates.words import AGO, WEEKDAYS

Dates = Iterator[tuple[int, int, Range, bool]]
"""Dates in a text: the span of its words, the range, and whether it is relative."""

# Chinese, Japanese and Korean have no spaces to find words by, and write most dates in figures.
_KANJI = {
    "一": 1,
    "二": 2,
    "两": 2,
    "兩": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
    "十": 10,
}
_N = r"(?P<count>\d{1,3}|[一二两兩三四五六七八九十]{1,3})"
_EASTERN_FIXED = {
    "先々週|先先週|上上个?(?:周|星期|礼拜)|지지난 ?주": ("week", -2),
    "先週末|上个?周末|上週末|지난 ?주말": ("weekend", -1),
    "先週|上[个個]?(?:周|週|星期|礼拜|禮拜)|지난 ?주": ("week", -1),
    "今週|[这這本][个個]?(?:周|週|星期|礼拜|禮拜)|이번 ?주(?!말)": ("week", 0),
    "先々月|先先月|上上[个個]?月|지지난 ?달": ("month", -2),
    "先月|上[个個]?月|지난 ?달": ("month", -1),
    "今月|[这這本][个個]?月|이번 ?달": ("month", 0),
    "一昨年|おととし|前年|재작년": ("year", -2),
    "去年|昨年|작년|지난 ?해": ("year", -1),
    "今年|올해": ("year", 0),
    "一昨日|おととい|前天|그저께|그제": ("day", -2),
    "昨日|昨夜|昨晩|きのう|昨天|昨晚|어제|어젯밤": ("day", -1),
    "今日|今朝|今晩|今天|今早|오늘": ("day", 0),
}
_EASTERN_UNITS = {
    "day": "日|天|일",
    "week": "週間|[个個]?(?:星期|礼拜|禮拜)|周|週|주일?",
    "month": "[かヶヵカケ]月|[个個]月|개월|달",
    "year": "年|년",
}
_EASTERN_DAYS = "月火水木金土日", "一二三四五六日天", "월화수목금토일"
EASTERN = re.compile("[年月日号號周週天前昨今去先期礼禮曜きお년월일주달해제젯께늘칠]")

_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er|re|º|ª|°|\.|e)?"
_UNTIL = r"(?P<until>[0-3]?\d)(?:st|nd|rd|th|er|º|°|\.)?"
_NUMERIC = [
    re.compile(rf"\b{_YEAR}-(?P<number>[01]\d)-(?P<day>[0-3]\d)(?!\d)"),
    re.compile(rf"\b{_YEAR}/(?P<number>[01]?\d)/(?P<day>[0-3]?\d)(?!\d)"),
    re.compile(rf"\b(?P<day>[0-3]?\d)\.(?P<number>[01]?\d)\.(?:{_YEAR}|(?!\d))"),
    re.compile(rf"\b{_YEAR}-(?P<number>[01]\d)(?![\d-])"),
]
_SLASHED = re.compile(
    rf"(?<![\w./-])(?P<one>[0-3]?\d)(?P<sign>[/-])(?P<two>[0-3]?\d)(?P=sign){_YEAR}(?![\d/-])"
)
_ALONE = re.compile(rf"(?<![\w.,:/$€£¥₦₹#+-]){_YEAR}(?![\w%€$£]|[.,:/-]\d)")
_POSSESSIVE = re.compile(r"\b(?:my|your|his|her|its|our|their)\s+$")
_THIS_SEASON = timedelta(300)  # after which "this summer" means the coming one
_SINCE = re.compile(
    r"\b(?:since|seit|depuis|desde|dal|sinds|sedan)\s+(?:(?:the|dem|der|le|la|el|a|o)\s+)?$"
)
_ROUND = re.compile(
    r"\b(?:in|since|of|year|from|until|jahre?|seit|von|en|depuis|desde|nel|dal|em|sinds|i|w|в)\s+$"
)


def numeric_dates(plain: str, last: datetime) -> Dates:
    """Yield the dates that are figures, as 2024-05-01, 1.5.2024, 24/12/2025 or 2024-05. One with
    slashes is not read where the day and the month could change places.
    """
    for it in _SLASHED.finditer(plain):
        lower, higher = sorted((int(it["one"]), int(it["two"])))
        if 1 <= lower <= 12 and (12 < higher <= 31 or higher == lower):
            yield *it.span(), calendar_range(int(it["year"]), lower, higher, last), False
    for form in _NUMERIC:
        for it in form.finditer(plain):
            named = it.groupdict()
            year, day = named.get("year"), named.get("day")
            month = int(named["number"])
            if 1 <= month <= 12 and (day is None or 1 <= int(day) <= 31):
                yield (
                    *it.span(),
                    calendar_range(
                        int(year) if year else None, month, int(day) if day else None, last
                    ),
                    False,
                )


def years_alone(plain: str, now: datetime) -> Dates:
    """Yield the years that stand alone; a round number only behind a word such as "since"."""
    for it in _ALONE.finditer(plain):
        year = int(it["year"])
        if year <= now.year and (year % 100 or _ROUND.search(plain[: it.start()])):
            yield *it.span(), year_range(year), False


def eastern_dates(plain: str, now: datetime, last: datetime) -> Dates:
    """Yield the dates in Chinese, Japanese and Korean."""
    year = r"(?:(?P<year>(?:19|20)\d\d)\s*[年년]\s*)?"
    of_day = re.compile(
        rf"{year}(?P<month>\d{{1,2}}|[一二三四五六七八九十]{{1,2}})\s*[月월]\s*(?P<day>\d{{1,2}}|[一二三四五六七八九十]{{1,3}})\s*[日号號일]"
    )
    of_month = re.compile(
        rf"{year}(?<![\d一二三四五六七八九十个個かヶ])(?P<month>1[0-2]|[1-9]|十[一二]?|[一二三四五六七八九])\s*[月월](?!\d|曜)"
    )
    for form in (of_day, of_month):
        for it in form.finditer(plain):
            month, day = _number(it["month"]), it.groupdict().get("day")
            yield (
                *it.span(),
                calendar_range(
                    int(it["year"]) if it["year"] else None,
                    month,
                    _number(day) if day else None,
                    last,
                ),
                False,
            )
    for it in re.finditer(r"(?<!\d)(?P<year>(?:19|20)\d\d)\s*[年년]", plain):
        yield *it.span(), year_range(int(it["year"])), False
    for unit, words in _EASTERN_UNITS.items():
        for it in re.finditer(rf"{_N}\s*(?:{words})\s*(?:之?前|以前|전)", plain):
            yield *it.span(), unit_range(unit, -_number(it["count"]), now), True
        for it in re.finditer(rf"(?:数|好?[几幾]|몇)\s*(?:{words})\s*(?:之?前|以前|전)", plain):
            yield *it.span(), few_range(unit, now), True
    for it in re.finditer("며칠 ?전", plain):
        yield *it.span(), few_range("day", now), True
    for words, (unit, offset) in _EASTERN_FIXED.items():
        for it in re.finditer(words, plain):
            span = it.span()
            if unit == "week" and (day := re.compile("[一二三四五六日天]").match(plain, span[1])):
                begin = unit_range("week", offset, now)[0] + timedelta(
                    min("一二三四五六日天".index(day[0]), 6)
                )
                yield span[0], day.end(), (begin, begin + ONE_DAY), True
            else:
                yield *span, unit_range(unit, offset, now), True
    for weekday in (
        "([月火水木金土日])曜日?",
        "(?:周|週|星期|礼拜|禮拜)([一二三四五六日天])",
        "([월화수목금토일])요일",
    ):
        for it in re.finditer(weekday, plain):
            if not re.search("[来毎下每다매]$|다음 ?주? ?$|来週の?$|下个?$", plain[: it.start()]):
                number = min(
                    max(days.find(it[1]) for days in _EASTERN_DAYS if days[1] in weekday), 6
                )
                yield *it.span(), weekday_range(number, now, before=False), True


def _number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十") if "十" in text else ("", "", text)
    return (10 * (_KANJI[tens] if tens else 1) if ten else 0) + (_KANJI[ones] if ones else 0)


_Resolve = Callable[[re.Match[str], datetime, datetime], Range | None]


class _LanguageForms:
    """The forms of one language, as regular expressions."""

    def __init__(self, language: str, *, southern: bool = False) -> None:
        """`southern`: seasons are those of the southern hemisphere."""
        self._name = language
        self._language = it = LANGUAGES[language]
        self._months = dict(month_names(language, short=False))
        short = self._months | dict(month_names(language, short=language in SHORT))
        self._short = short
        self._days = {
            name: number for number, names in enumerate(WEEKDAYS[language]) for name in names
        }
        self._days |= {name: number for number, name in enumerate(it.weekdays) if name}
        self._numbers = {
            form: number
            for number, forms in enumerate(it.numbers.split(), start=1)
            for form in forms.split("|")
            if form != "1"
        }
        month, any_month, days = (_any_of(names) for names in (self._months, short, self._days))
        count = rf"(?P<count>\d{{1,3}}|{'|'.join(self._numbers)})"
        unit = "|".join(f"(?P<{name}>{words})" for name, words in it.units.items())
        of = rf"(?:\s+(?:{it.of}))?" if it.of else ""
        article = r"(?:the|den|dem|der|le|el|il|lo|o|de)"
        end = rf"(?:{it.weekday_end})"
        season = "|".join(
            f"(?P<s{(number + 2 * southern) % 4}>{words})"
            for number, words in enumerate(it.seasons)
        )
        relative: list[tuple[str, _Resolve]] = [
            (
                f"(?:{words})",
                lambda _m, now, _l, name=name, offset=offset: unit_range(name, offset, now),  # type: ignore[misc]
            )
            for words, (name, offset) in it.fixed.items()
        ]
        relative += [
            (rf"(?:{it.before})\s+(?:{season})", self._last_season),
            (rf"(?:{season})\s+(?:{it.after})", self._last_season),
            (rf"(?:{it.this})\s*(?:{season})", self._this_season),
            (rf"(?:{it.other_day})", lambda _m, now, _l: few_range("day", now)),
            (rf"(?:{it.rolling})\s+(?:{unit})(?!\s+of\s)", self._until_now),
            (rf"(?:{it.before})\s+{count}\s+(?:{unit})", self._last_some),
            (rf"{count}\s+(?:{it.before}|{it.after})\s+(?:{unit})", self._last_some),
            (rf"{count}\s+(?:{unit})\s+(?:{it.after})", self._last_some),
            (rf"(?:{it.before})\s+(?:{it.few})\s+(?:{unit})", self._last_few),
            (rf"(?:{it.few})\s+(?:{it.before}|{it.after})\s+(?:{unit})", self._last_few),
        ]
        for before, behind, name in AGO[language]:
            leading = rf"{re.escape(before)}\s*" if before else ""
            closing = rf"\s*{re.escape(behind)}" if behind else ""
            relative += [
                (
                    f"{leading}{count}{closing}",
                    lambda m, now, _l, name=name: unit_range(name, -self._count(m["count"]), now),  # type: ignore[misc]
                ),
                (
                    f"{leading}(?:{it.few}){closing}",
                    lambda _m, now, _l, name=name: few_range(name, now),  # type: ignore[misc]
                ),
            ]
        not_of = (
            rf"(?!\s+(?:of|des|du|del|van|{it.of or 'of'})\s)"
            if language not in ("es", "pt", "it", "fr")
            else ""
        )
        relative += [
            (rf"(?:(?:{article})\s+)?(?:{it.before})\s+(?:{unit}){not_of}", self._last_one),
            (
                rf"(?:(?:la|le|les|el|il|lo|o|a|na|no)\s+|l')?(?:{unit})\s+(?:{it.after})",
                self._last_one,
            ),
            (rf"(?:{it.this})\s*(?:{unit})", self._this),
            (
                rf"(?:(?:{it.before})\s+(?P<weekday>{days}){end}|(?P<weekday2>{days})\s+(?:{it.after}))",
                self._last_weekday,
            ),
            (
                rf"(?:(?:{it.before})\s+(?P<month>{month})|(?P<month2>{month})\s+(?:{it.after}))",
                self._last_month,
            ),
        ]
        if language == "en":
            before_last = rf"(?:the\s+)?(?P<weekday>{days})\s+before\s+last"
            relative.append((before_last, self._weekday_before_last))
        ends = rf"(?:{_DAY}\s*(?:-|–|{it.joins})\s*(?:{article}\s+)?)?"
        opening = "between|from|zwischen|von|entre|de|da|tra|fra|desde|van|tussen|mellan|fran|miedzy|od|с|между"
        absolute: list[tuple[str, _Resolve]] = [
            (
                rf"{ends}{_UNTIL}{of}\s+(?P<month>{any_month})\.?(?:,?{of}\s+{_YEAR})?",
                self._day_of_month,
            ),
            (
                rf"(?P<month>{any_month})\.?\s+{_DAY}(?:\s*(?:-|–|{it.joins})\s*{_UNTIL})?(?:(?:,\s*|\s+){_YEAR})?",
                self._day_of_month,
            ),
            (
                rf"(?:(?:{it.in_month})\s+)?(?P<month>{any_month})\.?,?{of}\s+{_YEAR}",
                self._month,
            ),
            (
                rf"(?:{it.in_month})(?:\s+|(?<='))(?P<month>{month})(?!\.?,?\s+\d)",
                self._month,
            ),
            (
                rf"(?:{opening})\s+(?P<month>{month})\s+(?:{it.joins})\s+(?P<until>{month})(?:\s+{_YEAR})?",
                self._months_to,
            ),
        ]
        if it.month_end:
            absolute.append((rf"(?P<month>{month}){it.month_end}", self._month))
        self._forms = [
            (re.compile(rf"(?<!\w){form}(?!\w)"), resolve, is_relative)
            for forms, is_relative in ((relative, True), (absolute, False))
            for form, resolve in forms
        ]
        self._weekday_form = re.compile(rf"(?<!\w)(?P<weekday>{days}){end}(?!\w)")
        self._never = re.compile(rf"(?<!\w)(?:{it.never or NONE})\s+$")
        self._never_after = re.compile(rf"\s+(?:{it.never_after or NONE})(?!\w)")

    def read(self, plain: str, now: datetime, last: datetime) -> Dates:
        """Yield the dates in a folded text: where each stands, its range, and whether it is
        relative.
        """
        ambiguous = AMBIGUOUS.get(self._name)
        for form, resolve, relative in self._forms:
            for it in form.finditer(plain):
                if ambiguous and ambiguous.fullmatch(it[0]) and not self._is_spoken(plain, it):
                    continue
                if self._never.search(plain[: it.start()]):
                    continue
                try:
                    if (span := resolve(it, now, last)) is not None:
                        yield *it.span(), _since(plain[: it.start()], span, now), relative
                except (ValueError, OverflowError):
                    continue  # no such day
        for it in self._weekday_form.finditer(plain):
            if not self._never.search(plain[: it.start()]) and not self._never_after.match(
                plain, it.end()
            ):
                span = weekday_range(self._days[it["weekday"]], now, before=False)
                yield *it.span(), _since(plain[: it.start()], span, now), True

    def _is_spoken(self, plain: str, it: re.Match[str]) -> bool:
        rest = plain[: it.start()] + plain[it.end() :]
        return not WORD.search(rest) or bool(PLAIN[self._name].search(rest))

    def _count(self, text: str) -> int:
        if text.isdecimal():
            return int(text)
        return next(
            (number for form, number in self._numbers.items() if re.fullmatch(form, text)), 1
        )

    def _unit_of(self, it: re.Match[str]) -> str:
        return next(name for name in self._language.units if it[name])

    def _last_some(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        return since_range(self._unit_of(it), self._count(it["count"]), now)

    def _last_few(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        unit = self._unit_of(it)
        return since_range(unit, FEW[unit], now)

    def _until_now(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        unit = self._unit_of(it)
        return None if unit in ("day", "weekend") else since_range(unit, 1, now)

    def _last_season(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        if _POSSESSIVE.search(it.string[: it.start()]):
            return None  # "my last fall"
        return last_season(_season_of(it), now, is_over=True)

    def _this_season(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        begin, end = last_season(_season_of(it), now, is_over=False)
        return None if now - begin > _THIS_SEASON else (begin, end)  # else it is to come

    def _weekday_before_last(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        begin, end = weekday_range(self._days[it["weekday"]], now, before=True)
        return begin - WEEK, end - WEEK

    def _last_one(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        unit = self._unit_of(it)
        return None if unit == "day" else unit_range(unit, -1, now)  # "the last day" of what?

    def _this(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        unit = self._unit_of(it)
        return None if unit == "day" else unit_range(unit, 0, now)

    def _last_weekday(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        return weekday_range(self._days[it["weekday"] or it["weekday2"]], now, before=True)

    def _last_month(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        begin, end = calendar_range(None, self._short[it["month"] or it["month2"]], None, now)
        return (
            (begin, end) if end <= now else calendar_range(begin.year - 1, begin.month, None, now)
        )

    def _month(self, it: re.Match[str], now: datetime, last: datetime) -> Range:
        year = it.groupdict().get("year")
        begin, end = calendar_range(
            int(year) if year else None, self._short[it["month"]], None, last
        )
        return begin, now + ONE_DAY if it[0].startswith(
            ("since ", "seit ", "depuis ", "desde ", "sinds ", "sedan ")
        ) else end

    def _months_to(self, it: re.Match[str], _now: datetime, last: datetime) -> Range | None:
        until = calendar_range(
            int(it["year"]) if it["year"] else None, self._short[it["until"]], None, last
        )
        begin = calendar_range(None, self._short[it["month"]], None, until[0])[0]
        return begin, until[1]

    def _day_of_month(self, it: re.Match[str], _now: datetime, last: datetime) -> Range | None:
        named = it.groupdict()
        year = int(named["year"]) if named["year"] else None
        first, until = named["day"] or named["until"], named["until"] or named["day"]
        month = self._short[named["month"]]
        begin = calendar_range(year, month, int(first), last)[0]
        end = calendar_range(begin.year, month, int(until), last)[1]
        return (begin, end) if begin < end else None


def _season_of(it: re.Match[str]) -> int:
    """Return which season a match names, from 0: that of March to May and those behind it."""
    return next(number for number in range(4) if it[f"s{number}"])


def _since(before: str, span: Range, now: datetime) -> Range:
    """Return a range up to now where the words before it say so: "since Monday"."""
    begin, end = span
    return begin, max(end, now + ONE_DAY) if _SINCE.search(before) else end


def _any_of(names: dict[str, int]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


reader_of = lru_cache(_LanguageForms)
"""Return the reader of a language, made at its first question."""


def _days_ago(days: int) -> str:
    fixed = [(code, *it) for code, of in LANGUAGES.items() for it in of.fixed.items()]
    fixed += [("", *it) for it in _EASTERN_FIXED.items()]
    names = (
        name
        for code, forms, of in fixed
        for name in forms.split("|")
        if of == ("day", -days) and WORD.fullmatch(name)
        if code not in AMBIGUOUS or not AMBIGUOUS[code].search(name)
    )
    return " ".join(names)


days_ago = lru_cache(_days_ago)
"""Returns the single words that name a day so many days before, with spaces between: "yesterday
gestern ayer". None that is a plain word of another language.
"""
