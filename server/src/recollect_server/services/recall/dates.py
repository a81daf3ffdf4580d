"""Dates that a question names, as ranges of time: "last week", "on 13 October", "vor drei Tagen",
"la semaine dernière", "先週".

Fourteen languages are read. The names of months and weekdays and the forms of "three days ago" are
those of Unicode's CLDR (`date_words`); the words for "last" and "yesterday", which no library
offers as data, stand here. The range is that of what is named: a week is Monday to Sunday, a month
a calendar month, all in UTC, and a point of time in the past is the day, week, month or year that
it falls in. What lies ahead ("tomorrow", "next week") names nothing that was said.

A question without a date word costs one look at its words. dateparser was measured first: its
search takes some 200 ms of processor time for a question, and misses "letzte Woche" and "la semaine
dernière" (`docs/decisions/date-parsing.md`).
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from recollect_server.domain.text import composed, folded
from recollect_server.services.recall.date_words import AGO, MONTHS, WEEKDAYS

_READ = 1000  # characters of a question that are read for dates
_QUESTION = 150  # characters of a text that asks of its dates
_MOST = 4
"""Dates in one question. A text with more is a log or a table, and asks about none of them."""
_LONG_AGO = timedelta(300)
"""Age of a history's end from which "in March" means its own March, not that of the time of
asking.
"""

Range = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Mention:
    """A date in a question."""

    first: int
    last: int
    """End of its words in the composed question (NFC), excluded."""
    begin: float
    end: float
    """Its first moment and one past its last, in milliseconds since 1970."""
    is_relative: bool
    """True if it counts from the time of asking, as "last week" does. Its words say nothing about
    the subject.
    """


@dataclass(frozen=True, slots=True)
class _Language:
    """Words of a language for which week, month or year. Regular expressions over folded text."""

    before: str
    """ "last", in front of what is last."""
    after: str
    """ "last", behind it."""
    this: str
    units: dict[str, str]
    """By the unit what it is called."""
    fixed: dict[str, tuple[str, int]]
    """Expressions, each with a unit and how many of them lie between then and now."""
    in_month: str
    """Words before a month that a question names without a year."""
    joins: str
    """Words between the ends of a range."""
    of: str = ""
    """Words that may stand between a day and its month, and a month and its year."""
    never: str = ""
    """Words before a weekday that is to come, or comes again and again."""
    never_after: str = ""
    numbers: str = ""
    """ "one" to "ten", in this order; several forms of one number have a bar between them."""
    months: tuple[str, ...] = ()
    """Forms of the months' names that CLDR lacks."""
    weekdays: tuple[str, ...] = ()
    """The same of weekdays, from Monday; empty for none."""
    weekday_end: str = ""
    """An ending that weekdays may have."""
    month_end: str = ""


_NONE = r"(?!)"
_LANGUAGES = {
    "en": _Language(
        before="last|past|previous",
        after=_NONE,
        this="this|current",
        units={"day": "days?", "week": "weeks?", "weekend": "weekends?", "month": "months?", "year": "years?"},
        fixed={
            "the day before yesterday": ("day", -2), "yesterday": ("day", -1), "last (?:night|evening)": ("day", -1),
            "today|tonight|this (?:morning|afternoon|evening)": ("day", 0), "(?:the )?week before last": ("week", -2),
            "(?:on|at|over|during) the weekend": ("weekend", 0),
        },
        in_month="in|during|since|of|by|through|early|late|mid",
        joins="and|to|until|till|through|or",
        of="of",
        never="every|each|next|coming|all",
        numbers="a|an|one two three four five six seven eight nine ten",
    ),
    "de": _Language(
        before="letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?",
        after=_NONE,
        this="diese[nrms]?",
        units={
            "day": "tag(?:e|en)?", "week": "wochen?", "weekend": "wochenendes?", "month": "monat(?:s|e|en)?",
            "year": "jahr(?:es|e|en)?",
        },
        fixed={
            "vorgestern": ("day", -2), "gestern": ("day", -1), "heute": ("day", 0), "vorletzten? woche": ("week", -2),
            "am wochenende": ("weekend", 0),
        },
        in_month="im|in|seit|vom|anfang|mitte|ende|des",
        joins="und|bis(?: zum)?|oder",
        never="jede[nrms]?|nachste[nrms]?|kommende[nrms]?",
        numbers="eine?[nrm]?|1 zwei drei vier funf sechs sieben acht neun zehn",
        weekday_end="s?",
    ),
    "fr": _Language(
        before="derniers?|dernieres?",
        after="derniere?s?|passee?s?|precedente?s?",
        this="cette|cet|ce",
        units={"day": "jours?", "week": "semaines?", "weekend": "week-?ends?", "month": "mois", "year": "ans?|annees?"},
        fixed={
            "avant-hier": ("day", -2), "hier": ("day", -1), "aujourd'hui|ce (?:matin|soir)": ("day", 0),
            "ce week-?end": ("weekend", 0),
            "l'an (?:dernier|passe)": ("year", -1),
        },
        in_month="en|de|d'|depuis|mois de|mois d'|debut|fin|mi",
        joins="et|au|a|jusqu'au|ou|et le|au le",
        of="de",
        never="chaque|tous les|toutes les",
        never_after="prochaine?",
        numbers="une? deux trois quatre cinq six sept huit neuf dix",
    ),
    "es": _Language(
        before="ultim[oa]s?",
        after="pasad[oa]s?|anterior",
        this="est[ea]",
        units={"day": "dias?", "week": "semanas?", "weekend": "fin(?:es)? de semana", "month": "mes(?:es)?", "year": "anos?"},
        fixed={
            "anteayer|antes de ayer|antier": ("day", -2), "ayer|anoche": ("day", -1),
            "hoy|esta (?:manana|tarde|noche)": ("day", 0), "antepasada semana|semana antepasada": ("week", -2),
        },
        in_month="en|de|desde|a finales de|a principios de|mediados de",
        joins="y|al?|hasta(?: el)?|y el|o",
        of="del?",
        never="cada|todos los|proximo|proxima",
        never_after="que viene|proximo|proxima",
        numbers="un|una|uno dos tres cuatro cinco seis siete ocho nueve diez",
    ),
    "it": _Language(
        before="ultim[oaie]|scors[oaie]",
        after="scors[oaie]|passat[oaie]|precedente",
        this="quest[oa]|quest'",
        units={
            "day": "giorn[oi]", "week": "settiman[ae]", "weekend": "fine settimana|week-?end", "month": "mes[ei]",
            "year": "ann[oi]",
        },
        fixed={"l'altro ieri|altroieri": ("day", -2), "ieri": ("day", -1), "oggi|stamattina|stasera|stamani": ("day", 0)},
        in_month="in|a|ad|di|da|dal|nel mese di|fine|inizio|meta",
        joins="e|al?|fino al?|o|e il",
        of="di|del",
        never="ogni|prossim[oa]",
        never_after="prossim[oa]",
        numbers="un|una|uno due tre quattro cinque sei sette otto nove dieci",
    ),
    "pt": _Language(
        before="ultim[oa]s?",
        after="passad[oa]s?|anterior",
        this="(?:d|n)?est[ea]",
        units={"day": "dias?", "week": "semanas?", "weekend": "(?:fim|final) de semana", "month": "mes(?:es)?", "year": "anos?"},
        fixed={"anteontem": ("day", -2), "ontem": ("day", -1), "hoje": ("day", 0), "semana retrasada": ("week", -2)},
        in_month="em|de|desde|inicio de|fim de|meados de",
        joins="e|a|ao?|ate(?: o)?|e o|ou",
        of="de|do",
        never="cada|toda|todas as|proxim[oa]",
        never_after="que vem|proxim[oa]",
        numbers="um|uma dois|duas tres quatro cinco seis sete oito nove dez",
    ),
    "nl": _Language(
        before="vorige?|afgelopen|laatste",
        after=_NONE,
        this="deze|dit",
        units={"day": "dag(?:en)?", "week": "week|weken", "weekend": "weekend", "month": "maand(?:en)?", "year": "jaar|jaren"},
        fixed={
            "eergisteren": ("day", -2), "gisteren|gisteravond": ("day", -1), "vandaag|vanochtend|vanmorgen|vanavond": ("day", 0),
            "(?:in|dit) het weekend": ("weekend", 0),
        },
        in_month="in|van|sinds|eind|begin|half",
        joins="en|tot(?: en met)?|t/m|of",
        never="elke|iedere|volgende|komende",
        numbers="een twee drie vier vijf zes zeven acht negen tien",
    ),
    "sv": _Language(
        before="forra|senaste",
        after=_NONE,
        this="denna|den har|det har|detta",
        units={
            "day": "dag(?:en|ar|arna)?", "week": "veck(?:a|an|or|orna)", "weekend": "helg(?:en)?", "month": "manad(?:en|er)?",
            "year": "ar(?:et)?",
        },
        fixed={
            "i forrgar": ("day", -2), "i ?gar(?: kvall)?": ("day", -1), "i ?dag|i morse|i kvall": ("day", 0),
            "i fjol": ("year", -1),
            "forrforra veckan": ("week", -2),
        },
        in_month="i|sedan|under",
        joins="och|till|eller",
        never="varje|nasta",
        numbers="en|ett tva tre fyra fem sex sju atta nio tio",
        weekday_end="(?:en|s)?",
    ),
    "pl": _Language(
        before=r"zeszl\w+|ubiegl\w+|ostatni\w*|minion\w+",
        after=_NONE,
        this="ten|tym|ta|tego|tej",
        units={
            "day": "dni|dzien|dnia|dniu", "week": r"tydzien|tygodni\w*", "weekend": "weekend|weekendu",
            "month": r"mies(?:iac|iec)\w*",
            "year": r"rok\w*|lat\w?",
        },
        fixed={"przedwczoraj": ("day", -2), "wczoraj": ("day", -1), "dzis|dzisiaj": ("day", 0)},
        in_month="we?|od|do",
        joins="i|do|a|lub",
        never=r"kazd\w+|nastepn\w+|przyszl\w+",
        numbers="jeden|jedna dwa|dwie trzy cztery piec szesc siedem osiem dziewiec dziesiec",
        months=tuple(
            "styczniu lutym marcu kwietniu maju czerwcu lipcu sierpniu wrzesniu pazdzierniku listopadzie grudniu".split()  # noqa: SIM905
        ),
        weekdays=("", "", "srode", "", "", "sobote", "niedziele"),
    ),
    "ru": _Language(
        before=r"прошл\w+|последн\w+",
        after=_NONE,
        this=r"эт\w+",
        units={
            "day": "день|дня|дней|дни", "week": r"недел\w+", "weekend": r"выходн\w+", "month": r"месяц\w*",
            "year": r"год\w*|лет",
        },
        fixed={"позавчера": ("day", -2), "вчера": ("day", -1), "сегодня": ("day", 0), "позапрошлой неделе": ("week", -2)},
        in_month="в|с|до|начале|конце|середине",
        joins="и|до|по|или",
        never=r"кажд\w+|следующ\w+",
        numbers="один|одну два|две три четыре пять шесть семь восемь девять десять",
        months=tuple("январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре".split()),  # noqa: SIM905
        weekdays=("", "", "среду", "", "пятницу", "субботу", ""),
    ),
    "tr": _Language(
        before="gecen|onceki|son",
        after=_NONE,
        this="bu",
        units={"day": "gun", "week": "hafta", "weekend": "hafta sonu", "month": "ay", "year": "yil|sene"},
        fixed={"(?:onceki|evvelsi) gun": ("day", -2), "dun(?: gece)?": ("day", -1), "bugun|bu sabah|bu aksam": ("day", 0)},
        in_month="gecen",
        joins="ile|ve",
        never="her|gelecek|onumuzdeki",
        numbers="bir iki uc dort bes alti yedi sekiz dokuz on",
        month_end="(?:'?[dt][ae]|(?: ayinda))",
    ),
}  # fmt: skip
_SHORT = frozenset(["en", "de", "fr", "nl"])
"""Languages whose short names of months are read; in others some are words of English ("set",
"out", "mar").
"""
_NOT_SHORT = frozenset(["mar", "may"])
_AMBIGUOUS = {"fr": re.compile(r"\bhier\b")}
"""A date word of one language that is a plain word of another: it counts with one of the words of
`_PLAIN` alone, or by itself.
"""
_PLAIN = {
    "fr": re.compile(
        r"\b(?:le|la|les|de|du|des|je|tu|il|elle|on|nous|vous|qu|que|quoi|quel|quelle|est|ai|as|a|avons|avez|dit|d|l|j|c)\b"
    )
}

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
_EASTERN = re.compile("[年月日号號周週天前昨今去先期礼禮曜きお년월일주달해제께늘]")

_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|er|re|º|ª|°|\.|e)?"
_UNTIL = r"(?P<until>[0-3]?\d)(?:st|nd|rd|th|er|º|°|\.)?"
_NUMERIC = [
    re.compile(rf"\b{_YEAR}-(?P<number>[01]\d)-(?P<day>[0-3]\d)(?!\d)"),
    re.compile(rf"\b{_YEAR}/(?P<number>[01]?\d)/(?P<day>[0-3]?\d)(?!\d)"),
    re.compile(rf"\b(?P<day>[0-3]?\d)\.(?P<number>[01]?\d)\.(?:{_YEAR}|(?!\d))"),
    re.compile(rf"\b{_YEAR}-(?P<number>[01]\d)(?![\d-])"),
]
_ALONE = re.compile(rf"(?<![\w.,:/$€£¥₦₹#+-]){_YEAR}(?![\w%€$£]|[.,:/-]\d)")
_ROUND = re.compile(
    r"\b(?:in|since|of|year|from|until|jahre?|seit|von|en|depuis|desde|nel|dal|em|sinds|i|w|в)\s+$"
)
_WORDS = re.compile(r"[^\W\d_]+")

Found = Iterator[tuple[int, int, Range, bool]]


def read_dates(question: str, now: int, newest: int | None = None) -> tuple[Mention, ...]:
    """Return the dates that a question names, in its order.

    `now` is the time of asking, in milliseconds. A month or day without a year is the last one that
    began before it; where the history ended long before, at `newest`, the last one before that.
    """
    text = composed(question[:_READ])
    plain = folded(text)
    languages = _languages_of(plain)
    if not languages and not _has_figures(plain) and not _EASTERN.search(plain):
        return ()
    return _read(plain, languages, now, newest)


def asks_of_dates(question: str) -> bool:
    """Return whether a text is short enough for a date in it to say when what is asked for was
    said.

    In a long message "today" and "Saturday" mostly tell of something new.
    """
    return len(question) <= _QUESTION


def without_dates(question: str, dates: tuple[Mention, ...]) -> str:
    """Return the question without the words of its relative dates, if it asks of them.

    "Last week" is no matter that was spoken about; "13 October" may be.
    """
    if not asks_of_dates(question):
        return question
    text = composed(question)
    for it in sorted(dates, key=lambda it: -it.first):
        if it.is_relative:
            text = f"{text[: it.first]} {text[it.last :]}"
    return text


@lru_cache(64)  # a search reads its question for its words, its candidates and its weights
def _read(
    plain: str, languages: tuple[str, ...], now: int, newest: int | None
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
    readers: list[Callable[[], Found]] = [lambda: _numeric(plain, last)]
    readers += [lambda it=it: _reader(it).read(plain, moment, last) for it in languages]  # type: ignore[misc]
    if _EASTERN.search(plain):
        readers.append(lambda: _eastern(plain, moment, last))
    readers.append(lambda: _years(plain, moment))
    for reader in readers:
        try:
            read.extend(reader())
        except (ValueError, OverflowError):
            continue  # no such day
    claimed: list[Mention] = []
    # the longest wins
    for first, end_, (begin, after), relative in sorted(read, key=lambda it: it[0] - it[1]):
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
        ["-", "–", "から", "到", "至", "~", "〜", *(_LANGUAGES[it].joins for it in languages)]
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
    week = _WEEK / _MILLISECOND
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
_ONE_DAY, _WEEK, _MILLISECOND = timedelta(1), timedelta(7), timedelta(milliseconds=1)
_YEAR_LONG = timedelta(365) / _MILLISECOND


def _milliseconds(moment: datetime) -> float:
    return 1000 * moment.timestamp()


def _has_figures(text: str) -> bool:
    return any("0" <= it <= "9" for it in text)


# Ranges -------------------------------------------------------------------------------------------


def _unit(unit: str, offset: int, now: datetime) -> Range:
    """Return the day, week, weekend, month or year that lies `offset` units from now."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        begin = today + timedelta(offset)
        return begin, begin + _ONE_DAY
    if unit == "week":
        begin = today - timedelta(today.weekday()) + offset * _WEEK
        return begin, begin + _WEEK
    if unit == "weekend":  # 0: the last one that has begun
        begin = today - timedelta((today.weekday() - 5) % 7)
        begin += _WEEK * (offset + 1 if offset < 0 and today.weekday() < 5 else offset)
        return begin, begin + timedelta(2)
    if unit == "month":
        year, month = divmod(12 * today.year + today.month - 1 + offset, 12)
        begin = datetime(year, month + 1, 1, tzinfo=UTC)
        return begin, _next_month(begin)
    return _years_from(today.year + offset)


def _years_from(year: int) -> Range:
    return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)


def _next_month(begin: datetime) -> datetime:
    return (begin + timedelta(31)).replace(day=1)


def _since(unit: str, count: int, now: datetime) -> Range:
    """Return the last `count` days, weeks, months or years, today included."""
    days = {"day": 1, "week": 7, "weekend": 7, "month": 31, "year": 366}[unit]
    return _unit("day", -days * count, now)[0], now + _ONE_DAY


def _calendar(year: int | None, month: int, day: int | None, last: datetime) -> Range:
    """Return a month or a day of it; without a year, the last one that began before `last`. Raises
    ValueError.
    """
    begin = datetime(year or last.year, month, day or 1, tzinfo=UTC)
    if year is None and begin > last:
        begin = begin.replace(year=begin.year - 1)
    return begin, begin + _ONE_DAY if day else _next_month(begin)


def _weekday(number: int, now: datetime, *, before: bool) -> Range:
    """Return the last such weekday. Today counts, unless the day must lie `before`."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    back = (today.weekday() - number) % 7
    begin = today - timedelta(back or (7 if before else 0))
    return begin, begin + _ONE_DAY


# Readers ------------------------------------------------------------------------------------------


def _numeric(plain: str, last: datetime) -> Found:
    for form in _NUMERIC:
        for it in form.finditer(plain):
            named = it.groupdict()
            year, day = named.get("year"), named.get("day")
            month = int(named["number"])
            if 1 <= month <= 12 and (day is None or 1 <= int(day) <= 31):
                yield (
                    *it.span(),
                    _calendar(int(year) if year else None, month, int(day) if day else None, last),
                    False,
                )


def _years(plain: str, now: datetime) -> Found:
    for it in _ALONE.finditer(plain):
        year = int(it["year"])
        if year <= now.year and (year % 100 or _ROUND.search(plain[: it.start()])):
            yield *it.span(), _years_from(year), False


def _eastern(plain: str, now: datetime, last: datetime) -> Found:
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
                _calendar(
                    int(it["year"]) if it["year"] else None,
                    month,
                    _number(day) if day else None,
                    last,
                ),
                False,
            )
    for it in re.finditer(r"(?<!\d)(?P<year>(?:19|20)\d\d)\s*[年년]", plain):
        yield *it.span(), _years_from(int(it["year"])), False
    for unit, words in _EASTERN_UNITS.items():
        for it in re.finditer(rf"{_N}\s*(?:{words})\s*(?:之?前|以前|전)", plain):
            yield *it.span(), _unit(unit, -_number(it["count"]), now), True
    for words, (unit, offset) in _EASTERN_FIXED.items():
        for it in re.finditer(words, plain):
            span = it.span()
            if unit == "week" and (day := re.compile("[一二三四五六日天]").match(plain, span[1])):
                begin = _unit("week", offset, now)[0] + timedelta(
                    min("一二三四五六日天".index(day[0]), 6)
                )
                yield span[0], day.end(), (begin, begin + _ONE_DAY), True
            else:
                yield *span, _unit(unit, offset, now), True
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
                yield *it.span(), _weekday(number, now, before=False), True


def _number(text: str) -> int:
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.rpartition("十") if "十" in text else ("", "", text)
    return (10 * (_KANJI[tens] if tens else 1) if ten else 0) + (_KANJI[ones] if ones else 0)


class _Reader:
    """The forms of one language, as regular expressions."""

    def __init__(self, language: str) -> None:
        self._name = language
        self._language = it = _LANGUAGES[language]
        self._months = dict(_months(language, short=False))
        short = self._months | dict(_months(language, short=language in _SHORT))
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
        month, any_month, days = (_any(names) for names in (self._months, short, self._days))
        count = rf"(?P<count>\d{{1,3}}|{'|'.join(self._numbers)})"
        unit = "|".join(f"(?P<{name}>{words})" for name, words in it.units.items())
        of = rf"(?:\s+(?:{it.of}))?" if it.of else ""
        article = r"(?:the|den|dem|der|le|el|il|lo|o|de)"
        end = rf"(?:{it.weekday_end})"
        self._forms: list[
            tuple[
                re.Pattern[str], Callable[[re.Match[str], datetime, datetime], Range | None], bool
            ]
        ] = []

        def add(
            form: str,
            resolve: Callable[[re.Match[str], datetime, datetime], Range | None],
            *,
            relative: bool,
        ) -> None:
            self._forms.append((re.compile(rf"(?<!\w){form}(?!\w)"), resolve, relative))

        for words, (name, offset) in it.fixed.items():
            add(
                f"(?:{words})",
                lambda _m, now, _l, name=name, offset=offset: _unit(name, offset, now),  # type: ignore[misc]
                relative=True,
            )
        add(rf"(?:{it.before})\s+{count}\s+(?:{unit})", self._last_some, relative=True)
        add(rf"{count}\s+(?:{it.before}|{it.after})\s+(?:{unit})", self._last_some, relative=True)
        add(rf"{count}\s+(?:{unit})\s+(?:{it.after})", self._last_some, relative=True)
        for before, behind, name in AGO[language]:
            parts = [
                rf"{re.escape(before)}\s*" if before else "",
                count,
                rf"\s*{re.escape(behind)}" if behind else "",
            ]
            resolve = lambda m, now, _l, name=name: _unit(name, -self._count(m["count"]), now)  # noqa: E731
            add("".join(parts), resolve, relative=True)
        not_of = (
            rf"(?!\s+(?:of|des|du|del|van|{it.of or 'of'})\s)"
            if language not in ("es", "pt", "it", "fr")
            else ""
        )
        add(
            rf"(?:(?:{article})\s+)?(?:{it.before})\s+(?:{unit}){not_of}",
            self._last_one,
            relative=True,
        )
        add(
            rf"(?:(?:la|le|les|el|il|lo|o|a|na|no)\s+|l')?(?:{unit})\s+(?:{it.after})",
            self._last_one,
            relative=True,
        )
        add(rf"(?:{it.this})\s*(?:{unit})", self._this, relative=True)
        add(
            rf"(?:(?:{it.before})\s+(?P<weekday>{days}){end}|(?P<weekday2>{days})\s+(?:{it.after}))",
            self._last_weekday,
            relative=True,
        )
        add(
            rf"(?:(?:{it.before})\s+(?P<month>{month})|(?P<month2>{month})\s+(?:{it.after}))",
            self._last_month,
            relative=True,
        )
        ends = rf"(?:{_DAY}\s*(?:-|–|{it.joins})\s*(?:{article}\s+)?)?"
        add(
            rf"{ends}{_UNTIL}{of}\s+(?P<month>{any_month})\.?(?:,?{of}\s+{_YEAR})?",
            self._day_of_month,
            relative=False,
        )
        add(
            rf"(?P<month>{any_month})\.?\s+{_DAY}(?:\s*(?:-|–|{it.joins})\s*{_UNTIL})?(?:(?:,\s*|\s+){_YEAR})?",
            self._day_of_month,
            relative=False,
        )
        add(
            rf"(?:(?:{it.in_month})\s+)?(?P<month>{any_month})\.?,?{of}\s+{_YEAR}",
            self._month,
            relative=False,
        )
        add(
            rf"(?:{it.in_month})(?:\s+|(?<='))(?P<month>{month})(?!\.?,?\s+\d)",
            self._month,
            relative=False,
        )
        opening = "between|from|zwischen|von|entre|de|da|tra|fra|desde|van|tussen|mellan|fran|miedzy|od|с|между"
        add(
            rf"(?:{opening})\s+(?P<month>{month})\s+(?:{it.joins})\s+(?P<until>{month})(?:\s+{_YEAR})?",
            self._months_to,
            relative=False,
        )
        if it.month_end:
            add(rf"(?P<month>{month}){it.month_end}", self._month, relative=False)
        self._weekday_form = re.compile(rf"(?<!\w)(?P<weekday>{days}){end}(?!\w)")
        self._never = re.compile(rf"(?<!\w)(?:{it.never or _NONE})\s+$")
        self._never_after = re.compile(rf"\s+(?:{it.never_after or _NONE})(?!\w)")

    def read(self, plain: str, now: datetime, last: datetime) -> Found:
        """Yield the dates in a folded text: where each stands, its range, and whether it is
        relative.
        """
        ambiguous = _AMBIGUOUS.get(self._name)
        for form, resolve, relative in self._forms:
            for it in form.finditer(plain):
                if ambiguous and ambiguous.fullmatch(it[0]) and not self._is_spoken(plain, it):
                    continue
                if self._never.search(plain[: it.start()]):
                    continue
                try:
                    if (span := resolve(it, now, last)) is not None:
                        yield *it.span(), span, relative
                except (ValueError, OverflowError):
                    continue  # no such day
        for it in self._weekday_form.finditer(plain):
            if not self._never.search(plain[: it.start()]) and not self._never_after.match(
                plain, it.end()
            ):
                yield *it.span(), _weekday(self._days[it["weekday"]], now, before=False), True

    def _is_spoken(self, plain: str, it: re.Match[str]) -> bool:
        rest = plain[: it.start()] + plain[it.end() :]
        return not _WORDS.search(rest) or bool(_PLAIN[self._name].search(rest))

    def _count(self, text: str) -> int:
        if text.isdecimal():
            return int(text)
        return next(
            (number for form, number in self._numbers.items() if re.fullmatch(form, text)), 1
        )

    def _unit_of(self, it: re.Match[str]) -> str:
        return next(name for name in self._language.units if it[name])

    def _last_some(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        return _since(self._unit_of(it), self._count(it["count"]), now)

    def _last_one(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        unit = self._unit_of(it)
        return None if unit == "day" else _unit(unit, -1, now)  # "the last day" of what?

    def _this(self, it: re.Match[str], now: datetime, _last: datetime) -> Range | None:
        unit = self._unit_of(it)
        return None if unit == "day" else _unit(unit, 0, now)

    def _last_weekday(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        return _weekday(self._days[it["weekday"] or it["weekday2"]], now, before=True)

    def _last_month(self, it: re.Match[str], now: datetime, _last: datetime) -> Range:
        begin, end = _calendar(None, self._short[it["month"] or it["month2"]], None, now)
        return (begin, end) if end <= now else _calendar(begin.year - 1, begin.month, None, now)

    def _month(self, it: re.Match[str], now: datetime, last: datetime) -> Range:
        year = it.groupdict().get("year")
        begin, end = _calendar(int(year) if year else None, self._short[it["month"]], None, last)
        return begin, now + _ONE_DAY if it[0].startswith(
            ("since ", "seit ", "depuis ", "desde ", "sinds ", "sedan ")
        ) else end

    def _months_to(self, it: re.Match[str], _now: datetime, last: datetime) -> Range | None:
        until = _calendar(
            int(it["year"]) if it["year"] else None, self._short[it["until"]], None, last
        )
        begin = _calendar(None, self._short[it["month"]], None, until[0])[0]
        return begin, until[1]

    def _day_of_month(self, it: re.Match[str], _now: datetime, last: datetime) -> Range | None:
        named = it.groupdict()
        year = int(named["year"]) if named["year"] else None
        first, until = named["day"] or named["until"], named["until"] or named["day"]
        month = self._short[named["month"]]
        begin = _calendar(year, month, int(first), last)[0]
        end = _calendar(begin.year, month, int(until), last)[1]
        return (begin, end) if begin < end else None


def _months(language: str, *, short: bool) -> Iterator[tuple[str, int]]:
    longer = {"mai", "maj", "mei", "may"}
    for number, names in enumerate(MONTHS[language], start=1):
        for name in names:
            if (
                len(name) > 4
                or name in longer
                or name in _FULL_OF_FOUR
                or (short and name not in _NOT_SHORT)
            ):
                yield name, number
        if short and language == "en" and number == 9:
            yield "sept", number
    for number, name in enumerate(_LANGUAGES[language].months, start=1):
        yield name, number


_FULL_OF_FOUR = frozenset(
    (
        *(
            "june",
            "july",
            "juni",
            "juli",
            "mars",
            "juin",
            "aout",
            "mayo",
            "maio",
            "maja",
            "marz",
            "mart",
            "ekim",
            "ocak",
        ),
        *("май", "мая", "мае", "июнь", "июня", "июне", "июль", "июля", "июле", "март"),
    )
)
"""Whole names of months that are as short as short ones."""


def _any(names: dict[str, int]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))


def _vocabulary() -> dict[str, tuple[str, ...]]:
    """Return the languages in which each word may be part of a date."""
    words: dict[str, dict[str, None]] = {}

    def note(language: str, text: str) -> None:
        for word in _WORDS.findall(text):
            words.setdefault(word, {})[language] = None

    for language, it in _LANGUAGES.items():
        for name, _ in _months(language, short=language in _SHORT):
            note(language, name)
        for names in (*WEEKDAYS[language], it.weekdays):
            for name in names:
                note(language, name.split("-")[0])
    return {word: tuple(languages) for word, languages in words.items()}


_NAMES = _vocabulary()


def _cue_of(language: str) -> re.Pattern[str]:
    """Return the pattern of words without which a text has no date of a language, beside the names
    of months and weekdays.
    """
    it = _LANGUAGES[language]
    words = [*it.units.values(), *it.fixed]
    if it.month_end:
        words.append(
            f"(?:{'|'.join(name for name, _ in _months(language, short=False))}){it.month_end}"
        )
    if it.weekday_end:
        words.append(
            f"(?:{'|'.join(name for names in WEEKDAYS[language] for name in names)}){it.weekday_end}"
        )
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)")


_cue = lru_cache(_cue_of)  # made at the first question, not at the start
_reader = lru_cache(_Reader)


def _languages_of(plain: str) -> tuple[str, ...]:
    """Return the languages in which a folded text may name a date."""
    named = {language for word in _WORDS.findall(plain) for language in _NAMES.get(word, ())}
    return tuple(it for it in _LANGUAGES if it in named or _cue(it).search(plain))
