"""Excerpts: the part of a long text that fits a question, cut where sentences end. Code blocks and
tables stay whole Markdown (`markdown`).

The work is linear in the text: each word is looked for by its beginning, which finds its other
forms too, and one window is moved over the matches.
"""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from recollect_server.context import markdown
from recollect_server.kernel.domain.message import BYTES_PER_TOKEN, estimate_tokens
from recollect_server.text.text import SENTENCE_END, UNSPACED_RUN

MARK = "…"
"""Stands where text is left out."""

_WORDS = 24
"""Words that are looked for, the rarest first, of equal ones the longest: each is one pass over the
text.
"""
_ENDING = 2
"""Characters at a word's end that the text need not have: `arrive` finds `arrived` and
`arriving`.
"""
_STEM = 4
"""Characters of a word that the text must have, unless the word is shorter."""
_MATCHES = 500
"""Places of one word that are looked at."""
_LEAD = 0.3
"""Share of the spare room that goes to the text before the matches."""
_COMMON = 0.2
"""The least that a word weighs beside the rarest one of the question."""
_EQUAL = 1e-9  # windows whose weights differ by less are equal
_MARKS = len(f"{MARK} {MARK} ".encode())
_REPAIR = 0.35
"""Share of an excerpt that the fences of code and the header of a table may take."""
_REST_OF_WORD = re.compile(r"\w{1,32}")

Match = tuple[int, int, str]
"""The first character of a match, one past the last, and the word."""


def excerpt(
    text: str, tokens: int, words: frozenset[str], rarities: Mapping[str, float] | None = None
) -> str:
    """Return the stretch of the text with the most of the words in it, at most `tokens` long, its
    marks included.

    The words are those of `relevance.words_of`. A word that is rare in the text counts more, and
    one that is rare in all that is stored: `rarities` has those of the words that were looked up.
    Without any of the words it is the beginning of the text. A text that fits is returned as it is.
    Empty where not even a mark and a character fit.
    """
    if estimate_tokens(text) <= tokens:
        return text
    room = tokens * BYTES_PER_TOKEN - _MARKS
    if room <= 0:
        return ""
    given = rarities or {}
    windows = _Windows(_matches(text, words, given), given)
    part = _part(text, room, windows)
    if part.repair > room - part.size:
        if part.repair <= _REPAIR * room:
            part = _part(text, room - part.repair, windows)
        if part.repair > room - part.size:
            part = part._replace(before="", after="")
    if part.start >= part.end:
        return ""
    is_begun, is_ended = not text[: part.start].strip(), not text[part.end :].strip()
    shown = f"{part.before}{text[part.start : part.end]}{part.after}"
    return markdown.joined("" if is_begun else MARK, shown, "" if is_ended else MARK)


class _Part(NamedTuple):
    """A stretch of a text, and before and behind it what makes its code and its tables whole."""

    start: int
    end: int
    size: int
    """Bytes of the stretch."""
    before: str
    after: str

    @property
    def repair(self) -> int:
        """Return the bytes of what is added."""
        return len(f"{self.before}{self.after}".encode())


class _Windows:
    """The windows over matches, which are in order. What does not depend on a window's length is
    worked out once.
    """

    def __init__(self, matches: list[Match], rarities: Mapping[str, float]) -> None:
        counts = Counter(word for _, _, word in matches)
        rarest = max(rarities.values(), default=1.0)
        weights = {
            word: count**-0.5 * max(_COMMON, rarities.get(word, rarest) / rarest)
            for word, count in counts.items()
        }
        self._matches = matches
        self._weights = [weights[word] for _, _, word in matches]
        self._whole = sum(weights.values())
        self._before = [-1] * len(matches)
        """For each match the number of the one before that has the same word."""
        self._next = [len(matches)] * len(matches)
        """For each match the number of the next one that has the same word."""
        last: dict[str, int] = {}
        for number, (_, _, word) in enumerate(matches):
            if (before := last.get(word, -1)) >= 0:
                self._before[number] = before
                self._next[before] = number
            last[word] = number

    def densest(self, characters: int) -> tuple[int, int]:
        """Return the ends of the window whose different words weigh most; (0, 0) without matches.
        Of equal windows the first one.
        """
        matches, weights, following = self._matches, self._weights, self._next
        best, ends, weight, oldest = 0.0, (0, 0), 0.0, 0
        for at, (start, end, _) in enumerate(matches):
            if self._before[at] < oldest:
                weight += weights[at]
            # A word that stands again further on would only make the window wider.
            while matches[oldest][0] < start and (
                end - matches[oldest][0] > characters or following[oldest] <= at
            ):
                if following[oldest] > at:
                    weight -= weights[oldest]
                oldest += 1
            if weight > best + _EQUAL:
                best, ends = weight, (matches[oldest][0], end)
                if best >= self._whole - _EQUAL / 2:  # it has all words
                    break
        return ends


class Passages:
    """The passages of a text that fit a question. Its words are looked for once, for any length."""

    def __init__(self, text: str, words: frozenset[str]) -> None:
        self._text = text
        self._words = words

    @cached_property
    def _windows(self) -> _Windows:
        return _Windows(_matches(self._text, self._words, {}), {})

    def best(self, characters: int) -> tuple[int, int]:
        """Return the ends of the window with the most of the words; (0, 0) where it has none."""
        return self._windows.densest(characters)

    def around(self, first: int, last: int, characters: int) -> tuple[int, int]:
        """Return the ends of the stretch of about so many characters around a window."""
        start, end = _stretch(self._text, first, last, characters)
        return markdown.without_marks(self._text, start, end)


def _stretch(text: str, first: int, last: int, characters: int) -> tuple[int, int]:
    """Return the ends of the stretch of at most about so many characters around the words that
    stand from `first` to `last`: sentences, else words.
    """
    sentence = _start(text, first, last, characters)
    start = markdown.beginning(text, sentence, first)
    if start < sentence and last > start + characters:
        start = sentence  # the words themselves would be cut off
    end = _end(text, start, last, start + characters)
    end = markdown.ending(text, start, end, last if last <= end else start)
    start += _blank(text, start, end)
    return start, start + len(text[start:end].rstrip())


def _part(text: str, room: int, windows: _Windows) -> _Part:
    """Return the stretch of at most `room` bytes with the most of the words."""
    characters = max(1, room * len(text) // len(text.encode()))
    start, end = _stretch(text, *windows.densest(characters), characters)
    if len(text[start:end].encode()) > room:  # it has wider characters than the rest of the text
        end = _within(text, start, end, room)
        end = markdown.ending(text, start, end, start)
    start, end = markdown.without_marks(text, start, end)
    size = len(text[start:end].encode())
    return _Part(start, end, size, *markdown.around(text, start, end))


def _blank(text: str, start: int, end: int) -> int:
    """Return how many blank characters an excerpt begins with. The first line of code keeps its
    indentation.
    """
    stretch = text[start:end]
    blank = len(stretch) - len(stretch.lstrip())
    line = markdown.line_start(text, start + blank)
    return line - start if line >= start and markdown.code_at(text, line) else blank


def _within(text: str, start: int, end: int, room: int) -> int:
    """Return where an excerpt ends that has at most `room` bytes: with a word, where it has any."""
    shown = text[start:end].encode()[:room].decode(errors="ignore")
    limit = start + len(shown)
    if not (text[limit].isspace() or UNSPACED_RUN.match(text, limit)):
        blank = max(text.rfind(" ", start, limit), text.rfind("\n", start, limit))
        limit = blank if blank > start else limit
    return start + len(text[start:limit].rstrip())


def _matches(text: str, words: frozenset[str], rarities: Mapping[str, float]) -> list[Match]:
    """Return where the words stand in the text, in order."""
    lower = text.lower()
    if len(lower) != len(text):  # a character that has more than one in lower case
        lower = text
    matches: list[Match] = []
    ranked = sorted(words, key=lambda word: (-rarities.get(word, 0.0), -len(word), word))
    for word in ranked[:_WORDS]:
        is_spaced = not UNSPACED_RUN.match(word)
        stem = word[: max(_STEM, len(word) - _ENDING)] if is_spaced else word
        at = lower.find(stem)
        count = 0
        while at >= 0 and count < _MATCHES:
            if not is_spaced or at == 0 or not lower[at - 1].isalnum():
                matches.append((at, at + len(stem), word))
                count += 1
            at = lower.find(stem, at + len(stem))
    return sorted(matches)


def _start(text: str, first: int, last: int, characters: int) -> int:
    """Return where the excerpt begins: with a sentence before the matches, else with a word."""
    spare = max(0, characters - (last - first))
    earliest = max(0, first - spare)
    earliest_wanted = max(0, first - int(_LEAD * spare))
    if earliest_wanted == 0:
        return 0
    if len(text) - earliest_wanted < characters:
        earliest_wanted = max(earliest, len(text) - characters)
    starts = [earliest + match.end() for match in SENTENCE_END.finditer(text[earliest:first])]
    if starts:
        return min(starts, key=lambda start: abs(start - earliest_wanted))
    space = text.find(" ", earliest_wanted, first)
    return space + 1 if space >= 0 else earliest_wanted


def _end(text: str, start: int, last: int, limit: int) -> int:
    """Return where the excerpt ends: with a sentence behind the matches, else with a word."""
    if limit >= len(text):
        return len(text)
    behind = max(last, (start + limit) // 2)
    if ends := [behind + match.end() for match in SENTENCE_END.finditer(text[behind:limit])]:
        return ends[-1]
    space = text.rfind(" ", behind, limit)
    if space > start:
        return space
    # The limit may stand in the last of the words: the excerpt has all of it, or none.
    if (rest := _REST_OF_WORD.match(text, limit)) and not UNSPACED_RUN.match(text, limit):
        return rest.end()
    return limit
