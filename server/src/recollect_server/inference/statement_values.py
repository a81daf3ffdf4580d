"""Values of a statement: what the match of a rule says, as keys and values."""

# ruff: noqa: E501 - a pattern reads better whole

import re
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

from recollect_server.domain.notes import topic_of

Values = Iterator[tuple[str, str]]


def _word_lists() -> dict[str, tuple[str, ...]]:
    """Return the lists of `statement_words.txt` by their names."""
    text = Path(__file__).with_name("statement_words.txt").read_text(encoding="utf-8")
    lists = re.findall(r"^\[(.+)\]\n([^\[]*)", text, re.MULTILINE)
    return {name: tuple(words.split()) for name, words in lists}


def _any_of(words: tuple[str, ...]) -> str:
    """Return a pattern for any of the words, longer ones first."""
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


_WORDS = _word_lists()
_DAYS = frozenset(_WORDS["days"])
TIMES = _DAYS.union(_WORDS["months"])
NO_RELATIVES = _DAYS.union(_WORDS["no relatives"])
NO_NAMES = TIMES.union(NO_RELATIVES, _WORDS["no names"])
NO_LOWER_NAMES = NO_NAMES.union(_WORDS["no lower-case names"])
NO_PLACES = TIMES.union(_WORDS["no places"])
STATES = frozenset(_WORDS["states"])
"""Words behind "I live in" that are no places, checked where nothing is written in capitals."""
NO_ALLERGENS = frozenset(_WORDS["no allergens"])
_POINTING = frozenset(_WORDS["pointing words"])
LANGUAGE = rf"(?:{_any_of(_WORDS['languages'])})"
JOB = rf"(?:{_any_of(_WORDS['jobs'])}|social worker|flight attendant|civil servant|phd candidate)"


def as_value(
    key: str, *, refused: frozenset[str] = frozenset(), title: bool = False
) -> Callable[[re.Match[str]], Values]:
    """Return a reader of the first group as the value of a key, unless its first word is
    refused.
    """

    def read(match: re.Match[str]) -> Values:
        value = match[1].strip(" ,.'’-").removesuffix("'s")
        if value and value.split()[0].lower() not in refused and not value.isupper():
            yield key, " ".join(map(_capital, value.split())) if title else value

    return read


def _capital(word: str) -> str:
    return word if len(word) < 3 else word[:1].upper() + word[1:]


_BEFORE_ITEM = re.compile(
    r"^(?:(?:and|or|to|all kinds of|most|the|any|also|some|certain|gegen|auf|voor|aux?|à la|à|al|a las?|a los|a|às?|aos?|alle|agli|all[ao]|ai) "
    r"|à l['’]|all['’])",
    re.IGNORECASE,
)
# "nuts and live in Porto": what follows the first item may be a statement of its own
_PLACED = re.compile(r" (?:in|at|on|to|from|with|for|a|bei|em|en|na|no|nel|nella) ", re.IGNORECASE)


def as_list(
    key: str, *, refused: frozenset[str] = frozenset(), spelt: str = "{}"
) -> Callable[[re.Match[str]], Values]:
    """Return a reader of the first group as a list, each item with a key of its own."""

    def read(match: re.Match[str]) -> Values:
        items = re.split(r",|;|/| (?:and|or|und|oder|et|ou|y|o|e|en|of) ", match[1])
        for number, item in enumerate(items):
            value = _BEFORE_ITEM.sub("", item.strip(" .'’-"))
            if (
                value
                and not (number and _PLACED.search(value))
                and len(value.split()) <= 3
                and refused.isdisjoint(value.lower().split())
                and (name := slug(value))
            ):
                yield f"{key}.{name}", spelt.format(value)

    return read


def as_fixed(key: str, value: str) -> Callable[[re.Match[str]], Values]:
    """Return a reader that gives a fixed value for any match."""

    def read(match: re.Match[str]) -> Values:  # noqa: ARG001 - that it matched says it
        yield key, value

    return read


def as_languages(match: re.Match[str]) -> Values:
    """Read each language in the match."""
    for language in re.findall(rf"\b{LANGUAGE}\b", match[0], re.IGNORECASE):
        yield f"language.{language.lower()}", language[:1].upper() + language[1:]


def as_relative(kind: str) -> Callable[[re.Match[str]], Values]:
    """Return a reader of a relative or a pet: the first group says which, the others are names."""

    def read(match: re.Match[str]) -> Values:
        for name in re.split(r",| and | & ", " and ".join(filter(None, match.groups()[1:]))):
            if (
                (name := name.strip().removesuffix("'s"))
                and slug(name)
                and name.lower() not in NO_RELATIVES
                and not name.isupper()
            ):
                yield f"{kind}.{slug(name)}", f"{name} ({match[1].lower()})" if match[1] else name

    return read


def as_introduction(match: re.Match[str]) -> Values:
    """Read a name, an occupation and an origin."""
    if match["name"].split()[0].lower() not in NO_NAMES:
        yield "name", match["name"]
        yield from as_job(match)
        if match["origin"]:
            yield "origin", match["origin"].strip(" ,.'’-")


def as_job(match: re.Match[str]) -> Values:
    """Read an occupation and an employer."""
    groups = match.groupdict()
    if (job := groups.get("job")) and not re.match(
        r"(?:team|whole|unit|pair|family|couple|group|result|side|means|way|duo|one)\b", job
    ):
        yield "occupation", re.sub(r"^\d+-years?-old ", "", job.strip())
    if employer := groups.get("employer"):
        yield from employer_values(employer)


def employer_values(value: str) -> Values:
    """Yield an employer, unless the text is a time or an article alone."""
    value = value.strip(" ,.'’-")
    if (value and value.split()[0].lower() not in TIMES | {"the"}) or " " in value:
        yield "employer", value.removeprefix("the ")


_SLOTS = [
    ("spelling", r"(?:british|american|uk|us) (?:english|spelling)"),
    ("currency", r"(?:prices?|costs?|amounts?) in \w+|euros?|dollars?|pounds sterling|usd|eur|gbp|yen|francs?|rupees?"),
    ("units", r"metric|imperial|celsius|fahrenheit|kilomet(?:er|re)s?|miles|kilos?|pounds"),
    ("time-format", r"24[- ]?hours?|12[- ]?hours?|am/pm|iso dates?|date format"),
    ("emojis", r"emojis?|emoticons?"),
    ("language", rf"(?:in|auf|en|em|in het) (?:{LANGUAGE})"),
    ("answer-length", r"(?:short|brief|concise|succinct|terse|long|longer|shorter|detailed|thorough|in-depth|to the point)\b|\b(?:sentences?|words|lines|paragraphs?)\b|\bbrief"),
    ("format", r"bullet(?:s| points?)?|lists|tables?|markdown|plain text|headings|headers|code comments?|step[- ]by[- ]step"),
    ("tone", r"formal(?:ly)?|informal(?:ly)?|casual(?:ly)?|polite(?:ly)?|blunt(?:ly)?|honest(?:ly)?|direct(?:ly)?|friendly|jargon|simple words|plain (?:english|language)|small talk|sugar-?coat\w*"),
]  # fmt: skip
_SLOT = [(name, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for name, words in _SLOTS]


def slug(text: str) -> str:
    """Return a text as the last part of a key: ASCII, in kebab-case; empty if nothing of it is
    left.
    """
    plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    return topic_of(plain)


def _slot(text: str) -> str:
    return next((name for name, words in _SLOT if words.search(text)), "")


def as_instruction(match: re.Match[str]) -> Values:
    """Read a standing instruction about how to answer; one that is about anything else is for the
    task at hand.
    """
    value = re.sub(
        r",? (?:please|pls|plz|thanks|thank you|thx|ok(?:ay)?)$",
        "",
        match[1].strip(),
        flags=re.IGNORECASE,
    )
    if (slot := _slot(value)) and len(value) <= 100:
        yield f"preference.{slot}", value


def as_preference(match: re.Match[str]) -> Values:
    """Read a preference about answers, or for a thing of at most three words."""
    value = re.sub(
        r",? (?:please|pls|plz|always|generally|usually|in general|overall)$",
        "",
        match[1].strip(),
        flags=re.IGNORECASE,
    )
    first = value.split()[0].lower() if value else "the"
    if slot := _slot(value):
        yield f"preference.{slot}", value
    elif (
        first not in _POINTING
        and not first.endswith("ing")
        and not re.search(
            r"\b(?:this|that|these|those|it|one|ones|option|version|first|second|latter|former)\b",
            value,
        )
    ):
        thing = re.split(r" (?:over|to|rather than|instead of) ", value)[0]
        if len(thing.split()) <= 3 and (name := slug(thing)):
            yield f"preference.{name}", value
