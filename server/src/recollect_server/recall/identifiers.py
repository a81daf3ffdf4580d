"""Identifiers of a question: an order number, an e-mail address, a path, a version, a hash.

Such a name is not near to another one: a message has it or has not. But the vectors of all messages
with an order number are near to a question with one, and in a store that is full of them the one
message that has the right number is behind them. So messages that have all words of an identifier
are ranked as those of a time that the question names (`fusion.with_identifiers`). Where nobody said
any of them, what fits the other words of the question hardly answers it (`unsaid_share`).
"""

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from recollect_server.recall.dates.dates import Mention
from recollect_server.recall.postings import KeywordScores
from recollect_server.recall.search import Search
from recollect_server.text.ranking import among, union
from recollect_server.text.text import normal_form
from recollect_server.text.words import QueryTerms

_READ = 4_000  # characters of a question that are read for identifiers
_MOST = 8
"""Identifiers of one question. A text with more is a log or a listing, and asks about none."""
_FEW = 20
"""Messages that have an identifier at the most. One that more have is a subject: the answer may
stand in a message without it.
"""
_LEAST_DIGITS = 3  # of a word that mixes letters and digits in one place
_LEAST_LENGTH = 5
_LEAST_WORDS = 3  # of a path or an address without such a word
_RUN = re.compile(r"[0-9A-Za-z\u00c0-\u024f@#$%&+=._:/\\~-]+")
_WORD = re.compile(r"[^\W_]+")
_CHANGE = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
_NUMBER = re.compile(
    r"(?<![\w@.-])(?:[^\W\d_]{2}\d{2}(?:[ -]?[^\W_]{4}){2,7}(?:[ -]?[^\W_]{1,4})?"
    r"|[(+]{0,2}(?:[^\W\d_]{1,8}-?)?\d+(?:[ \u00a0\u202f()/.-]{1,3}\d+)*)(?![\w@])"
)
"""An IBAN, or figures with what may stand between them, behind letters or not."""
_LEAST_NUMBER, _LEAST_MIXED, _MOST_CODE = 7, 4, 34
"""Characters of a number, and of a code that begins with letters, that is looked for in other
spellings.
"""
_ALL_CODES = 64
"""Letters and figures of all such numbers of a question: each is hundreds of looks at the index."""
_YEAR = re.compile(r"[12]\d{3}")
_MEASURE = re.compile(r"\d+[^\W\d_]{1,3}")
"""A number with its unit or its ending: 100km, 1990s, 22nd."""
_JOINED = re.compile(r"[^\W_][@_./\\][^\W_]")


def identifiers_of(question: str, dates: Iterable[Mention] = ()) -> list[tuple[str, ...]]:
    """Return the words of each identifier in a question, in small letters; none of a question with
    more than `_MOST`. Those of its `dates` are none.
    """
    text = normal_form(question[:_READ])
    identifiers: dict[tuple[str, ...], None] = {}
    for run in _RUN.finditer(text):
        if any(it.first <= run.start() and run.end() <= it.last + 1 for it in dates):
            continue
        words = tuple(it.lower() for it in _WORD.findall(run.group()))
        if any(map(_is_code, words)) or (
            len(words) >= _LEAST_WORDS and _JOINED.search(run.group())
        ):
            identifiers[words] = None
    return [*identifiers] if len(identifiers) <= _MOST else []


def _is_code(word: str) -> bool:
    """Return whether a word means nothing but the one thing that it names."""
    if word.isdecimal():
        return len(word) >= _LEAST_DIGITS + 1 and not _YEAR.fullmatch(word)
    if len(word) < _LEAST_LENGTH or _MEASURE.fullmatch(word):
        return False
    changes = len(_CHANGE.findall(word))
    return changes > 1 or (changes == 1 and sum(it.isdecimal() for it in word) >= _LEAST_DIGITS)


def otherwise_spelled(
    search: Search, text: str, dates: Iterable[str]
) -> tuple[str, list[tuple[str, ...]]]:
    """Return a question with its long numbers and its codes as messages write them, and the words
    of each that is written otherwise there: "+4934122" may be "+49 341 22", "ADR016" may be
    "ADR-016", and an IBAN has its blanks or not.

    The words of `dates` are no such numbers, and those of a text with more than `_MOST` numbers, or
    behind `_ALL_CODES` characters of them, are left as they are.
    """
    spelled: list[tuple[str, ...]] = []
    left = _ALL_CODES
    days = [*dates]
    read = text[:_READ]
    if sum(1 for _ in _NUMBER.finditer(read)) > _MOST:
        return text, spelled

    def as_written(run: re.Match[str]) -> str:
        nonlocal left
        words = tuple(it.lower() for it in _WORD.findall(run[0]))
        code = "".join(words)
        least = _LEAST_MIXED if code[:1].isalpha() else _LEAST_NUMBER
        if not least <= len(code) <= _MOST_CODE or any(run[0] in it or it in run[0] for it in days):
            return run[0]
        if len(code) > left:
            return run[0]
        left -= len(code)
        ways = search.spellings(code)
        others = [it for it in ways if it != words]
        spelled.extend(others)
        if not others:
            return run[0]
        # as one run, so that its words stay together
        return " ".join("/".join(it) for it in ways)

    return _NUMBER.sub(as_written, read) + text[_READ:], spelled


def messages_named(
    identifiers: list[tuple[str, ...]], terms: QueryTerms, keyword: KeywordScores
) -> list[NDArray[np.int64]]:
    """Return the messages that have all words of each identifier, ascending; none of an identifier
    that nobody said or that many did.

    Stop words are not looked up: an identifier without a code that has any is none ("and/or").
    """
    named = []
    for words in identifiers:
        telling = [it for it in words if it in terms.rarities]
        if len(telling) < len(words) and not any(map(_is_code, telling)):
            continue
        ids = keyword.with_all(telling)
        if 0 < len(ids) <= _FEW:
            named.append(ids)
    return named


def unsaid_share(
    identifiers: list[tuple[str, ...]], terms: QueryTerms, keyword: KeywordScores
) -> float:
    """Return the share of a question's weight, from 0 to 1, that belongs to words of identifiers
    which no message of the scope has; 0 if a message has any of the identifiers.
    """
    unsaid: set[str] = set()
    for words in identifiers:
        own = [it for it in words if it in terms.rarities]
        if own and len(keyword.with_all(own)):
            return 0.0
        unsaid.update(it for it in own if _is_code(it) and not len(keyword.with_all([it])))
    if not unsaid or not terms.words.is_whole:
        return 0.0
    return sum(terms.rarities[it] for it in unsaid) / terms.words.weight


def shares(ids: NDArray[np.int64], named: list[NDArray[np.int64]]) -> NDArray[np.float64]:
    """Return the share of the identifiers that somebody said which each message has."""
    has = np.zeros(len(ids))
    for each in named:
        has += among(ids, each)
    return has / max(len(named), 1)


def all_named(named: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the messages that have any of the identifiers, ascending."""
    return union(*named) if named else np.zeros(0, np.int64)
