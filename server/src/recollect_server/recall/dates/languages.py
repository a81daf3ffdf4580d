"""Words of dates in fourteen languages, and the languages in which a text may name a date.

The names of months and weekdays are in `words`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from recollect_server.recall.dates.words import MONTHS, WEEKDAYS

NONE = r"(?!)"
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Language:
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
    seasons: tuple[str, str, str, str]
    """Spring, summer, autumn, winter."""
    rolling: str = NONE
    """ "in the past", in front of a unit that ends now: what `before` names is the whole one."""
    other_day: str = NONE
    """ "the other day": some days ago."""
    of: str = ""
    """Words that may stand between a day and its month, and a month and its year."""
    never: str = ""
    """Words before a weekday that is to come, or comes again and again."""
    never_after: str = ""
    few: str = NONE
    """ "a few", in front of a unit."""
    numbers: str = ""
    """ "one" to "ten", in this order; several forms of one number have a bar between them."""
    months: tuple[str, ...] = ()
    """Forms of the months' names that CLDR lacks."""
    weekdays: tuple[str, ...] = ()
    """The same of weekdays, from Monday; empty for none."""
    weekday_end: str = ""
    """An ending that weekdays may have."""
    month_end: str = ""


LANGUAGES = {
    "en": Language(
        before="last|past|previous",
        after=NONE,
        this="this|current",
        units={
            "day": "days?", "week": "weeks?", "weekend": "weekends?", "month": "months?", "quarter": "quarters?", "year": "years?",
        },
        fixed={
            "the day before yesterday": ("day", -2), "yesterday": ("day", -1), "last (?:night|evening)": ("day", -1),
            "today|tonight|this (?:morning|afternoon|evening)": ("day", 0), "(?:the )?week before last": ("week", -2),
            "(?:on|at|over|during) the weekend": ("weekend", 0), "(?:the )?night before last": ("day", -2),
            "a fortnight ago": ("week", -2),
        },
        rolling="(?:(?:in|over|during|within|for) )?the past|(?:in|over|during|within) the last",
        in_month="in|during|since|of|by|through|early|late|mid",
        joins="and|to|until|till|through|or",
        seasons=("spring|springtime", "summer|summertime", "autumn|fall", "winter|wintertime"),
        other_day="the other (?:day|evening|night)",
        of="of",
        never="every|each|next|coming|all",
        few="a few|few|several|(?:a )?couple(?: of)?",
        numbers="a|an|one two three four five six seven eight nine ten",
    ),
    "de": Language(
        before="letzte[nrms]?|vorige[nrms]?|vergangene[nrms]?",
        after=NONE,
        this="diese[nrms]?",
        units={
            "day": "tag(?:e|en)?", "week": "wochen?", "weekend": "wochenendes?", "month": "monat(?:s|e|en)?",
            "quarter": "quartal(?:s|e|en)?", "year": "jahr(?:es|e|en)?",
        },
        fixed={
            "vorgestern": ("day", -2), "gestern": ("day", -1), "heute": ("day", 0), "vorletzten? woche": ("week", -2),
            "am wochenende": ("weekend", 0),
        },
        in_month="im|in|seit|vom|anfang|mitte|ende|des",
        joins="und|bis(?: zum)?|oder",
        seasons=("fruhlings?|fruhjahrs?", "sommers?", "herbst(?:es)?", "winters?"),
        other_day="neulich",
        never="jede[nrms]?|nachste[nrms]?|kommende[nrms]?",
        few="(?:ein )?paar|einigen?|wenigen?|mehreren?",
        numbers="eine?[nrm]?|1 zwei drei vier funf sechs sieben acht neun zehn",
        weekday_end="s?",
    ),
    "fr": Language(
        before="derniers?|dernieres?",
        after="derniere?s?|passee?s?|precedente?s?",
        this="cette|cet|ce",
        units={
            "day": "jours?", "week": "semaines?", "weekend": "week-?ends?", "month": "mois",
            "quarter": "trimestres?", "year": "ans?|annees?",
        },
        fixed={
            "avant-hier": ("day", -2), "hier": ("day", -1), "aujourd'hui|ce (?:matin|soir)": ("day", 0),
            "ce week-?end": ("weekend", 0),
            "l'an (?:dernier|passe)": ("year", -1),
        },
        in_month="en|de|d'|depuis|mois de|mois d'|debut|fin|mi",
        joins="et|au|a|jusqu'au|ou|et le|au le",
        seasons=("printemps", "etes?", "automnes?", "hivers?"),
        other_day="l'autre jour",
        of="de",
        never="chaque|tous les|toutes les",
        never_after="prochaine?",
        few="quelques|plusieurs",
        numbers="une? deux trois quatre cinq six sept huit neuf dix",
    ),
    "es": Language(
        before="ultim[oa]s?",
        after="pasad[oa]s?|anterior",
        this="est[ea]",
        units={
            "day": "dias?", "week": "semanas?", "weekend": "fin(?:es)? de semana", "month": "mes(?:es)?",
            "quarter": "trimestres?", "year": "anos?",
        },
        fixed={
            "anteayer|antes de ayer|antier": ("day", -2), "ayer|anoche": ("day", -1),
            "hoy|esta (?:manana|tarde|noche)": ("day", 0), "antepasada semana|semana antepasada": ("week", -2),
        },
        in_month="en|de|desde|a finales de|a principios de|mediados de",
        joins="y|al?|hasta(?: el)?|y el|o",
        seasons=("primaveras?", "veranos?", "otonos?", "inviernos?"),
        other_day="el otro dia",
        of="del?",
        never="cada|todos los|proximo|proxima",
        never_after="que viene|proximo|proxima",
        few="un[oa]s(?: pocos)?|algun[oa]s|poc[oa]s|vari[oa]s|un par de",
        numbers="un|una|uno dos tres cuatro cinco seis siete ocho nueve diez",
    ),
    "it": Language(
        before="ultim[oaie]|scors[oaie]",
        after="scors[oaie]|passat[oaie]|precedente",
        this="quest[oa]|quest'",
        units={
            "day": "giorn[oi]", "week": "settiman[ae]", "weekend": "fine settimana|week-?end", "month": "mes[ei]",
            "quarter": "trimestr[ei]", "year": "ann[oi]",
        },
        fixed={"l'altro ieri|altroieri": ("day", -2), "ieri": ("day", -1), "oggi|stamattina|stasera|stamani": ("day", 0)},
        in_month="in|a|ad|di|da|dal|nel mese di|fine|inizio|meta",
        joins="e|al?|fino al?|o|e il",
        seasons=("primavere?|primavera", "estat[ei]", "autunn[oi]", "invern[oi]"),
        other_day="l'altro giorno",
        of="di|del",
        never="ogni|prossim[oa]",
        never_after="prossim[oa]",
        few="qualche|alcun[ie]|poch[ie]|un paio di",
        numbers="un|una|uno due tre quattro cinque sei sette otto nove dieci",
    ),
    "pt": Language(
        before="ultim[oa]s?",
        after="passad[oa]s?|anterior",
        this="(?:d|n)?est[ea]",
        units={
            "day": "dias?", "week": "semanas?", "weekend": "(?:fim|final) de semana", "month": "mes(?:es)?",
            "quarter": "trimestres?", "year": "anos?",
        },
        fixed={"anteontem": ("day", -2), "ontem": ("day", -1), "hoje": ("day", 0), "semana retrasada": ("week", -2)},
        in_month="em|de|desde|inicio de|fim de|meados de",
        joins="e|a|ao?|ate(?: o)?|e o|ou",
        seasons=("primaveras?", "veroes|verao", "outonos?", "invernos?"),
        other_day="(?:no )?outro dia",
        of="de|do",
        never="cada|toda|todas as|proxim[oa]",
        never_after="que vem|proxim[oa]",
        few="algun?s|algumas|uns|umas|pouc[oa]s|vari[oa]s",
        numbers="um|uma dois|duas tres quatro cinco seis sete oito nove dez",
    ),
    "nl": Language(
        before="vorige?|afgelopen|laatste",
        after=NONE,
        this="deze|dit",
        units={
            "day": "dag(?:en)?", "week": "week|weken", "weekend": "weekend", "month": "maand(?:en)?",
            "quarter": "kwartaal|kwartalen", "year": "jaar|jaren",
        },
        fixed={
            "eergisteren": ("day", -2), "gisteren|gisteravond": ("day", -1), "vandaag|vanochtend|vanmorgen|vanavond": ("day", 0),
            "(?:in|dit) het weekend": ("weekend", 0),
        },
        in_month="in|van|sinds|eind|begin|half",
        joins="en|tot(?: en met)?|t/m|of",
        seasons=("voorjaar|lente", "zomer", "herfst|najaar", "winter"),
        never="elke|iedere|volgende|komende",
        few="(?:een )?paar|enkele",
        numbers="een twee drie vier vijf zes zeven acht negen tien",
    ),
    "sv": Language(
        before="forra|senaste",
        after=NONE,
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
        seasons=("varen", "sommaren", "hosten", "vintern"),
        other_day="haromdagen",
        never="varje|nasta",
        few="nagra|ett par",
        numbers="en|ett tva tre fyra fem sex sju atta nio tio",
        weekday_end="(?:en|s)?",
    ),
    "pl": Language(
        before=r"zeszl\w+|ubiegl\w+|ostatni\w*|minion\w+",
        after=NONE,
        this="ten|tym|ta|tego|tej",
        units={
            "day": "dni|dzien|dnia|dniu", "week": r"tydzien|tygodni\w*", "weekend": "weekend|weekendu",
            "month": r"mies(?:iac|iec)\w*",
            "year": r"rok\w*|lat\w?",
        },
        fixed={"przedwczoraj": ("day", -2), "wczoraj": ("day", -1), "dzis|dzisiaj": ("day", 0)},
        in_month="we?|od|do",
        joins="i|do|a|lub",
        seasons=(r"wiosn\w+", "lat(?:o|a|em)|lecie", r"jesien\w*|jesieni\w*", "zim(?:a|y|e|ie)"),
        never=r"kazd\w+|nastepn\w+|przyszl\w+",
        few="kilka|pare",
        numbers="jeden|jedna dwa|dwie trzy cztery piec szesc siedem osiem dziewiec dziesiec",
        months=tuple(
            "styczniu lutym marcu kwietniu maju czerwcu lipcu sierpniu wrzesniu pazdzierniku listopadzie grudniu".split()  # noqa: SIM905
        ),
        weekdays=("", "", "srode", "", "", "sobote", "niedziele"),
    ),
    "ru": Language(
        before=r"прошл\w+|последн\w+",
        after=NONE,
        this=r"эт\w+",
        units={
            "day": "день|дня|дней|дни", "week": r"недел\w+", "weekend": r"выходн\w+", "month": r"месяц\w*",
            "year": r"год\w*|лет",
        },
        fixed={"позавчера": ("day", -2), "вчера": ("day", -1), "сегодня": ("day", 0), "позапрошлой неделе": ("week", -2)},
        in_month="в|с|до|начале|конце|середине",
        joins="и|до|по|или",
        seasons=(r"весн\w+", "лет(?:о|а|ом)", r"осен\w+", r"зим\w+"),
        other_day="на днях",
        never=r"кажд\w+|следующ\w+",
        few="несколько|пару",
        numbers="один|одну два|две три четыре пять шесть семь восемь девять десять",
        months=tuple("январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре".split()),  # noqa: SIM905
        weekdays=("", "", "среду", "", "пятницу", "субботу", ""),
    ),
    "tr": Language(
        before="gecen|onceki|son",
        after=NONE,
        this="bu",
        units={"day": "gun", "week": "hafta(?! sonu)", "weekend": "hafta sonu", "month": "ay", "year": "yil|sene"},
        fixed={"(?:onceki|evvelsi) gun": ("day", -2), "dun(?: gece)?": ("day", -1), "bugun|bu sabah|bu aksam": ("day", 0)},
        in_month="gecen",
        joins="ile|ve",
        seasons=("(?:ilk)?bahar", "yaz", "sonbahar|guz", "kis"),
        other_day="gecen gun",
        never="her|gelecek|onumuzdeki",
        few="birkac",
        numbers="bir iki uc dort bes alti yedi sekiz dokuz on",
        month_end="(?:'?[dt][ae]|(?: ayinda))",
    ),
}  # fmt: skip
SHORT = frozenset(["en", "de", "fr", "nl"])
"""Languages whose short names of months are read; in others some are words of English ("set",
"out", "mar").
"""
_NOT_SHORT = frozenset(["mar", "may"])
AMBIGUOUS = {"fr": re.compile(r"\bhier\b")}
"""A date word of one language that is a plain word of another: it counts with one of the words of
`PLAIN` alone, or by itself.
"""
PLAIN = {
    "fr": re.compile(
        r"\b(?:le|la|les|de|du|des|je|tu|il|elle|on|nous|vous|qu|que|quoi|quel|quelle|est|ai|as|a|avons|avez|dit|d|l|j|c)\b"
    )
}


ASKING = frozenset(
    "ask asked asking say said saying tell told telling talk talked talking speak spoke spoken discuss discussed discussing "  # noqa: SIM905 - a list would be a word a line
    "mention mentioned happen happened happening do does did done doing go going went new up anything something things "
    "gefragt fragte gesagt sagte gesprochen besprochen geredet unterhalten erzahlt passiert geschehen gemacht getan los gab alles "
    "dit demande parle raconte discute fait passe dije dijo dijimos dijiste dicho pregunte pregunto hablamos hable hablado "
    "paso pasado hice hizo hicimos hecho detto chiesto parlato fatto successo discusso disse dissemos dito perguntei falamos "
    "falei fiz fizemos aconteceu feito gezegd gevraagd gesproken besproken gedaan gebeurd verteld".split()
)
"""Words, folded, that ask of what was said or done and name nothing of it."""


def month_names(language: str, *, short: bool) -> Iterator[tuple[str, int]]:
    """Yield the names of months with their numbers; `short`: the short ones too."""
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
    for number, name in enumerate(LANGUAGES[language].months, start=1):
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


def _vocabulary() -> dict[str, tuple[str, ...]]:
    """Return the languages in which each word may be part of a date."""
    words: dict[str, dict[str, None]] = {}

    def note(language: str, text: str) -> None:
        for word in WORD.findall(text):
            words.setdefault(word, {})[language] = None

    for language, it in LANGUAGES.items():
        for name, _ in month_names(language, short=language in SHORT):
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
    it = LANGUAGES[language]
    words = [*it.units.values(), *it.fixed, *it.seasons, it.other_day]
    if it.month_end:
        words.append(
            f"(?:{'|'.join(name for name, _ in month_names(language, short=False))}){it.month_end}"
        )
    if it.weekday_end:
        words.append(
            f"(?:{'|'.join(name for names in WEEKDAYS[language] for name in names)}){it.weekday_end}"
        )
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)")


_cue = lru_cache(_cue_of)  # made at the first question, not at the start


def languages_of(plain: str) -> tuple[str, ...]:
    """Return the languages in which a folded text may name a date."""
    named = {language for word in WORD.findall(plain) for language in _NAMES.get(word, ())}
    return tuple(it for it in LANGUAGES if it in named or _cue(it).search(plain))
