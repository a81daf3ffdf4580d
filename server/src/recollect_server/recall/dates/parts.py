"""Parts of a month, a year or a week that a question names: "early June", "the second week of
January", "by the end of March", "the weekend of 12 May".

The words are folded (`text.text.folded`), and those of all languages are read together: they
count only right before, or in some languages right behind, what a reader took for a date.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo

from recollect_server.recall.dates.languages import LANGUAGES
from recollect_server.recall.dates.ranges import ONE_DAY, WEEK, Range, quarter_of, season_of

# ruff: noqa: E501 - a table reads better whole

_MONTH = timedelta(27), timedelta(32)
_YEAR = timedelta(365), timedelta(367)
_REACH = 40  # characters before a date in which words of its part stand
_LINK = re.compile(
    r"(?:[\s'-]|\b(?:of|in|the|der|des|dem|den|vom|von|im|jahres?|de|du|del|la|le|l|d|el|il|do|di|dell|da|o|van|av|het|года|w)\b)*"
)
_QUARTER = r"\s+(?:quarter|quartals?|trimestre|kwartaal|kvartalet|kwartal\w*|квартал\w*)"
_WEEK = r"\s+(?:week|woche|semaine|semana|settimana|veckan?|tydzien|tygodni\w*|недел\w+)"
_HALF = r"\s+(?:half|halfte|moitie|mitad|meta|metade|helft|halvan|polow\w+|половин\w+)"
_FIRST = r"(?:first|1st|erste[nrs]?|premiere?|primera?|prim[ao]|primeir[ao]|eerste|forsta|pierwsz\w+|перв\w+)"
_SECOND = r"(?:second|2nd|zweite[nrs]?|deuxieme|seconde?|segund[ao]|second[ao]|tweede|andra|drug\w+|втор\w+)"
_THIRD = r"(?:third|3rd|dritte[nrs]?|troisieme|tercera?|terz[ao]|terceir[ao]|derde|tredje|trzec\w+|трет\w+)"
_FOURTH = (
    r"(?:fourth|4th|vierte[nrs]?|quatrieme|cuart[ao]|quart[ao]|vierde|fjarde|czwart\w+|четверт\w+)"
)
_LAST = r"(?:last|final|letzte[nr]?|derniere|ultima|laatste|sista|ostatni\w*|последн\w+)"


def _thirds(begin: datetime, end: datetime) -> Range:
    """Return the second of three parts of a month or a year."""
    if end - begin > _MONTH[1]:
        return begin.replace(month=5), begin.replace(month=9)
    return begin.replace(day=11), begin.replace(day=21)


def _middle(begin: datetime, end: datetime) -> datetime:
    return begin.replace(month=7) if end - begin > _MONTH[1] else begin.replace(day=16)


def _nth_week(number: int) -> Callable[[datetime, datetime], Range]:
    return lambda begin, _: (begin + (number - 1) * WEEK, begin + number * WEEK)


def _early(begin: datetime, end: datetime) -> Range:
    return begin, _thirds(begin, end)[0]


def _late(begin: datetime, end: datetime) -> Range:
    return _thirds(begin, end)[1], end


def _last_week(_begin: datetime, end: datetime) -> Range:
    return end - WEEK, end


def _quarter(number: int) -> Callable[[datetime, datetime], Range]:
    return lambda begin, end: quarter_of(begin, number) if _is_year(begin, end) else (begin, end)


def _is_year(begin: datetime, end: datetime) -> bool:
    return _YEAR[0] <= end - begin < _YEAR[1]


def _first_half(begin: datetime, end: datetime) -> Range:
    return begin, _middle(begin, end)


def _second_half(begin: datetime, end: datetime) -> Range:
    return _middle(begin, end), end


_BEFORE = [
    (re.compile(rf"(?<!\w)(?:{words})(?!\w)"), narrow)
    for words, narrow in (
        (_FIRST + _WEEK, _nth_week(1)),
        (_SECOND + _WEEK, _nth_week(2)),
        (_THIRD + _WEEK, _nth_week(3)),
        (_FOURTH + _WEEK, _nth_week(4)),
        (_LAST + _WEEK, _last_week),
        (rf"q1|t1|(?:{_FIRST}|1[.º]?){_QUARTER}", _quarter(0)),
        (rf"q2|t2|(?:{_SECOND}|2[.º]?){_QUARTER}", _quarter(1)),
        (rf"q3|t3|(?:{_THIRD}|3[.º]?){_QUARTER}", _quarter(2)),
        (rf"q4|t4|(?:{_FOURTH}|{_LAST}|4[.º]?){_QUARTER}", _quarter(3)),
        (_FIRST + _HALF, _first_half),
        (_SECOND + _HALF, _second_half),
        (r"early|beginning|start|anfang|beginn|debut|principios|comienzos|inicios?|inizio|comeco|begin|borjan|poczatk\w+|начал\w+", _early),
        (r"mid|middle|mitte|mi|milieu|mediados|meta|meados|half|midden|mitten|polowi\w+|середин\w+", _thirds),
        (r"late|end|ende|fin|finales?|fine|fim|eind|einde|slutet|kon(?:iec|cu)|кон(?:ец|це)", _late),
    )
]  # fmt: skip
# Behind the date: Chinese, Japanese, Korean and Turkish.
_BEHIND = [
    (re.compile(rf"\s*(?:的|の)?\s*(?:{words})"), narrow)
    for words, narrow in (
        (r"第[一1](?:[个個])?(?:周|週|星期)|첫째? ?주|'?[iu]?n ilk haftasi", _nth_week(1)),
        (r"第[二2](?:[个個])?(?:周|週|星期)|둘째 ?주|'?[iu]?n ikinci haftasi", _nth_week(2)),
        (r"第[三3](?:[个個])?(?:周|週|星期)|셋째 ?주|'?[iu]?n ucuncu haftasi", _nth_week(3)),
        (r"第[四4](?:[个個])?(?:周|週|星期)|넷째 ?주|'?[iu]?n dorduncu haftasi", _nth_week(4)),
        (r"最[后後]一?(?:[个個])?(?:周|週|星期)|最後の週|마지막 ?주|'?[iu]?n son haftasi", _last_week),
        (r"第?[一1](?:季度|四半期)|1분기", _quarter(0)),
        (r"第?[二2](?:季度|四半期)|2분기", _quarter(1)),
        (r"第?[三3](?:季度|四半期)|3분기", _quarter(2)),
        (r"第?[四4](?:季度|四半期)|4분기", _quarter(3)),
        (r"上旬|初め|初|초순|초|(?:'?[iu]n )?basinda", _early),
        (r"中旬|半ば|中頃|중순|(?:'?[iu]n )?ortasinda", _thirds),
        (r"下旬|底|末|하순|말|(?:'?[iu]n )?sonunda", _late),
    )
]  # fmt: skip
_SEASONS = [
    (
        re.compile(rf"(?<!\w)(?:{'|'.join(it.seasons[number] for it in LANGUAGES.values())})(?!\w)"),
        re.compile(rf"\s*(?:的|の)?\s*(?:{eastern})"),
    )
    for number, eastern in enumerate((r"春[天季]?|봄", r"夏[天季]?|여름", r"秋[天季]?|가을", r"冬[天季]?|겨울"))
]  # fmt: skip
"""Spring, summer, autumn and winter: before a year, and behind it."""
_TURNING = 3
"""The season in which a year ends. That of a year may be the one which begins in it, or the one
before: the year it stays.
"""
_SOUTH = (
    *(
        "Africa/Gaborone",
        "Africa/Harare",
        "Africa/Johannesburg",
        "Africa/Maseru",
        "Africa/Windhoek",
    ),
    *("America/Argentina/", "America/Asuncion", "America/Buenos_Aires", "America/Montevideo"),
    *("America/Punta_Arenas", "America/Santiago", "America/Sao_Paulo", "Antarctica/", "Australia/"),
    *("Indian/Reunion", "Pacific/Auckland", "Pacific/Chatham"),
)
"""Time zones of the southern hemisphere outside the tropics, where seasons are named."""
_AROUND_DAY = [
    (re.compile(rf"(?<!\w)(?:{words})(?!\w)"), days)
    for words, days in (
        (r"(?:(?:on|over|at|during) )?(?:the )?weekend|(?:am )?wochenende|week-?end|fin de semana|fine settimana|fim de semana|helgen", 2),
        (r"(?:the )?week|(?:der )?woche|semaine|semana|settimana|veckan", 7),
    )
]  # fmt: skip


def is_southern(zone: tzinfo) -> bool:
    """Return whether a time zone is one where summer begins in December."""
    return getattr(zone, "key", "").startswith(_SOUTH)


def part_of(
    plain: str, first: int, last: int, span: Range, *, southern: bool = False
) -> tuple[int, int, Range]:
    """Return a date of a folded text, narrowed to the part of it that the words right before or
    behind it name, with these words; the date itself if they name none. `southern`: seasons are
    those of the southern hemisphere.
    """
    begin, end = span
    length = end - begin
    if length == ONE_DAY:
        for form, days in _AROUND_DAY:
            if (start := _start_of(form, plain, first, last)) is not None:
                return start, last, _around(begin, days)
    is_whole = begin.day == 1 and (
        _MONTH[0] < length < _MONTH[1] or (_YEAR[0] <= length < _YEAR[1] and begin.month == 1)
    )
    if not is_whole:
        return first, last, span
    for number, (before, behind) in enumerate(_SEASONS if _is_year(begin, end) else ()):
        season = (number + 2 * southern) % 4
        named = begin, end
        if season != _TURNING:
            named = season_of(begin, season)
        if (start := _start_of(before, plain, first, last)) is not None:
            return start, last, named
        if it := behind.match(plain, last):
            return first, it.end(), named
    for form, narrow in _BEFORE:
        if (start := _start_of(form, plain, first, last)) is not None:
            return start, last, narrow(begin, end)
    for form, narrow in _BEHIND:
        if it := form.match(plain, last):
            return first, it.end(), narrow(begin, end)
    return first, last, span


def _start_of(form: re.Pattern[str], plain: str, first: int, last: int) -> int | None:
    """Return where words begin that stand right before a date, or open it; None without them."""
    for it in form.finditer(plain, max(0, first - _REACH), last):
        if it.start() < first and not _LINK.fullmatch(plain, it.end(), max(first, it.end())):
            continue
        if it.end() < last:
            return min(it.start(), first)
    return None


def _around(day: datetime, days: int) -> Range:
    """Return the week of a day, or the weekend that is nearest to it."""
    if days == 7:
        monday = day - timedelta(day.weekday())
        return monday, monday + WEEK
    saturday = day + timedelta((5 - day.weekday() + 3) % 7 - 3)
    return min(day, saturday), max(day + ONE_DAY, saturday + timedelta(2))
