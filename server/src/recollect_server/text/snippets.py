"""Snippets: the part of a message that fits a query best, with the words that match marked.

The work is linear in the text and bounded: a long text is read a chunk at a time, chunks that
cannot have any of the words are skipped, and the reading ends where a stretch has all the words or
a budget is spent.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from recollect_server.kernel.domain.conversation import opening_of
from recollect_server.kernel.domain.time import Deadline
from recollect_server.text.languages import ENGLISH, guess_language, question_stop_words
from recollect_server.text.text import (
    SENTENCE_END,
    UNSPACED_RUN,
    folded,
    normal_form,
    parts_of_identifiers,
    places_of_form,
)

START, END = "\ue000", "\ue001"
"""Around a match. From the private use area: a text that has them loses them in its snippet."""
LENGTH = 240
"""Characters of text in a snippet, at the most."""
CHUNK = 8192
"""Characters of a text that are read at a time: about a millisecond's work."""

_MARKS = re.compile(f"[{START}{END}]")
_ASCII_WORD = re.compile(r"[0-9a-z]+")
"""A word of a lower-cased ASCII text, as SQLite's `unicode61` cuts it."""
# characters at a stem's end that its words need not have: `happi` for happy, `feasibl` for
# feasibility
_CHANGED = 2
_ENGLISH = (ENGLISH, "")  # the languages of texts whose words are stemmed as English ones
_OWN = 4 * CHUNK  # characters that are read of each text, whatever was read of others: some 10 ms
# Looking for a beginning in a text, by its length (others: 1): the shorter, the more words have it
# inside. From 40 on a look at every word of the text takes less.
_EFFORT, _MOST_EFFORT = {1: 10, 2: 3}, 40
_SHARED = 1 << 18  # and of all texts of one answer together, beyond that: some 0.1 s

Token = tuple[int, int, str]
"""A word of a text: its first byte in UTF-8, one past its last byte, its stem."""
Tokenise = Callable[[str, str], list[Token]]
"""Cut a text into words: the text, and the language that its words are stemmed in."""
Match = tuple[int, int, str]
"""Match in a text: first character, one past the last, and the number of the word."""
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Passage:
    """The stretch of a text that is shown, and the matches in it, in order; none overlaps
    another.
    """

    span: Span
    matches: list[Match]

    def rendered(self, text: str) -> str:
        """Return the stretch on one line, with the matches marked."""
        start, end = self.span
        parts: list[str] = ["…" if start > 0 else ""]
        shown, position = text[start:end], start
        show = plain if START in shown or END in shown else str
        for first, last, _ in self.matches:
            parts += [show(text[position:first]), START, show(text[first:last]), END]
            position = last
        parts += [show(text[position:end]), "…" if end < len(text) else ""]
        return " ".join("".join(parts).split())


@dataclass(slots=True)
class PassageFinder:
    """Finds the passages of one answer. Not safe to share between threads."""

    stems: set[str]
    """The words that are searched for."""
    prefixes: set[str]
    """Single characters of scripts without spaces, and the beginnings of words, in small letters
    without accents.
    """
    tokenise: Tokenise
    deadline: Deadline
    only_english: bool = False
    """True if no text was indexed in another language: then none is guessed."""
    only_stops: bool = False
    """True if nothing but stop words is searched for. Otherwise those of a text's language, in
    small letters, are no match in it if anything else is: the word may say something in the
    question's language, as `a` and `was` do.
    """
    _left: int = _SHARED
    _typed: tuple[str, ...] = field(init=False)
    """The prefixes that are beginnings of words."""
    _beginnings: tuple[str, ...] = field(init=False)
    _stems: dict[str, str] = field(default_factory=dict)
    """The stems of words that were looked at."""
    _likely_words: dict[str, bool] = field(default_factory=dict)
    """True for each word that begins as one that is searched for."""
    _reads_all: bool = field(init=False)

    def __post_init__(self) -> None:
        self._typed = tuple(sorted(it for it in self.prefixes if not UNSPACED_RUN.match(it)))
        beginnings = {stem[: max(1, len(stem) - _CHANGED)] for stem in self.stems}
        self._beginnings = tuple(sorted(beginnings.union(self._typed)))
        lengths = map(len, self._beginnings)
        self._reads_all = sum(_EFFORT.get(length, 1) for length in lengths) > _MOST_EFFORT

    def best(self, text: str, met: Sequence[Span] = ()) -> Passage | None:
        """Return the passage with the most different words; None if no word was found. The words
        that `met` some by their meaning, in order, count as well.

        Of a very long text the part that the budget allows is read. Raises CallerGone,
        DeadlineExceeded.
        """
        most = len(self.stems) + len(self.prefixes) + len(met)
        language = ENGLISH if self.only_english else guess_language(normal_form(text))
        stops = (
            question_stop_words(language) if language and not self.only_stops else frozenset[str]()
        )
        # how many words, the chunk's matches, which is the first one shown
        best: tuple[int, list[Match], int] | None = None
        of_stops: tuple[list[Match], int] | None = None  # where no chunk has anything else
        own = _OWN
        for first, last in _chunks(len(text)) if most else ():
            self.deadline.check()
            # A window that begins in the chunk, and what is shown around it, lies within these
            # margins.
            start, end = max(0, first - LENGTH), min(len(text), last + 2 * LENGTH)
            part = text[start:end]
            others = [(*it, f"\0{it[0]}") for it in met if start <= it[0] and it[1] <= end]
            if not others and not self._may_match(part, language):
                continue
            if own <= 0:
                if self._left <= 0:
                    break
                self._left -= len(part)
            own -= len(part)
            matches = [
                (begin + start, stop + start, stem)
                for begin, stop, stem in self._matches(part, language)
            ]
            meaningful = [it for it in matches if not _is_stop(text[it[0] : it[1]], stops)]
            meaningful = _apart([*meaningful, *others]) if others else meaningful
            count, at = _densest(meaningful, first, last)
            if count > (best[0] if best else 0):
                best = count, meaningful, at
                if count >= most:
                    break
            if best is None and of_stops is None:
                count, at = _densest(matches, first, last)
                of_stops = (matches, at) if count else None
        chosen = best[1:] if best else of_stops
        if chosen is None:
            return None
        matches, at = chosen
        start, end = span = _stretch(text, matches, at)
        return Passage(span, [match for match in matches if start <= match[0] and match[1] <= end])

    def _may_match(self, part: str, language: str) -> bool:
        """Return False if the part certainly has none of the words."""
        if not part.isascii() or language not in _ENGLISH:
            return True
        lower = part.lower()
        return any(beginning in lower for beginning in self._beginnings)

    def _matches(self, text: str, language: str) -> list[Match]:
        """Return where a text matches, in order, none overlapping."""
        if text.isascii() and language in _ENGLISH:
            whole = [
                (first, last, stem)
                for first, last, stem in self._likely(text)
                if stem in self.stems or self._is_begun(text[first:last])
            ]
            parts = self._matching_parts(text, language)
            return _apart([*whole, *parts]) if parts else whole
        form, places = places_of_form(text)
        spaced = UNSPACED_RUN.sub(lambda run: " " * len(run[0]), form)
        place, data = _characters(spaced), spaced.encode()
        matches = [
            (places[place(start)], places[place(end)], stem)
            for start, end, stem in self.tokenise(spaced, language)
            if stem in self.stems or self._is_begun(data[start:end].decode())
        ]
        matches += [
            (places[first], places[last], stem)
            for first, last, stem in self._matching_parts(form, language)
        ]
        for run in UNSPACED_RUN.finditer(form):
            characters = run.group()
            for index in range(len(characters)):
                pair = characters[index : index + 2]
                if (pair in self.stems and len(pair) == 2) or characters[index] in self.prefixes:
                    length = len(pair) if pair in self.stems else 1
                    first = run.start() + index
                    matches.append((places[first], places[first + length], pair))
        return _apart(matches)

    def _matching_parts(self, text: str, language: str) -> list[Match]:
        """Return the words within identifiers that match."""
        spans = parts_of_identifiers(text)
        if not spans:
            return []
        stems = self.tokenise(" ".join(text[at:end] for at, end in spans), language)
        return [
            (*span, stem)
            for span, (_, _, stem) in zip(spans, stems, strict=True)
            if stem in self.stems or self._is_begun(text[slice(*span)])
        ]

    def _is_begun(self, word: str) -> bool:
        """Return whether a word begins as one that is not typed to its end."""
        return bool(self._typed) and folded(word).startswith(self._typed)

    def _likely(self, text: str) -> list[Match]:
        """Return the words of an ASCII text that begin as one that is searched for. Of the others
        no stem is worked out.
        """
        lower = text.lower()
        words = (self._all_words if self._reads_all else self._found_words)(lower)
        # all at once: each asks the index
        if unknown := {likely for _, _, likely in words} - self._stems.keys():
            tokens = self.tokenise(" ".join(unknown), ENGLISH)
            self._stems.update(zip(unknown, (stem for _, _, stem in tokens), strict=True))
        return [(first, last, self._stems[likely]) for first, last, likely in words]

    def _found_words(self, lower: str) -> list[Match]:
        """Return the words that begin as one that is searched for: looks for each beginning."""
        places: set[Span] = set()
        for beginning in self._beginnings:
            at = lower.find(beginning)
            while at >= 0:
                if (word := _ASCII_WORD.match(lower, at)) and not (at and lower[at - 1].isalnum()):
                    places.add(word.span())
                at = lower.find(beginning, at + 1)
        return [(first, last, lower[first:last]) for first, last in sorted(places)]

    def _all_words(self, lower: str) -> list[Match]:
        """Return the same: looks at each word."""
        words: list[Match] = []
        for match in _ASCII_WORD.finditer(lower):
            word = match.group()
            is_likely = self._likely_words.get(word)
            if is_likely is None:
                is_likely = self._likely_words[word] = word.startswith(self._beginnings)
            if is_likely:
                words.append((*match.span(), word))
        return words


def passage_at(text: str, position: int) -> str:
    """Return the beginning of the sentence or line that is nearest to a position, without marks."""
    if len(text) <= LENGTH or position <= 0:
        return opening_of(plain(text))
    start = position
    near = text[max(0, position - LENGTH) : position + LENGTH]
    if ends := [match.end() for match in SENTENCE_END.finditer(near)]:
        start = min(ends, key=lambda end: abs(end - min(position, LENGTH))) + max(
            0, position - LENGTH
        )
    elif (space := text.find(" ", position, position + LENGTH)) >= 0:
        start = space + 1
    shown = opening_of(plain(text[start:].lstrip()[: 8 * LENGTH]))
    return f"…{shown}" if shown else opening_of(plain(text))


def _is_stop(word: str, stops: frozenset[str]) -> bool:
    """Return whether a word is one of the stop words, in small letters: `will` but not `Will`."""
    return bool(stops) and normal_form(word) in stops


def _apart(matches: list[Match]) -> list[Match]:
    """Return the matches in order, those that overlap as one."""
    apart: list[Match] = []
    for first, last, stem in sorted(matches):
        if apart and first < apart[-1][1]:
            first_before, last_before, before = apart[-1]
            apart[-1] = (first_before, max(last, last_before), max(before, stem))
        else:
            apart.append((first, last, stem))
    return apart


def _chunks(length: int) -> Iterator[Span]:
    for first in range(0, length, CHUNK):
        yield first, min(length, first + CHUNK)


def _densest(matches: list[Match], first: int, last: int) -> tuple[int, int]:
    """Return how many different words the best window of `LENGTH` characters has, and which match
    it begins with.

    It begins from `first` on and before `last`; of equal windows the first one. 0 if there is none.
    """
    best, best_at = 0, 0
    inside: dict[str, int] = {}
    behind = 0  # the first match that is not in the window
    for at, (begin, _, stem) in enumerate(matches):
        if begin >= last:
            break
        if behind <= at:
            behind = at + 1
            inside[stem] = inside.get(stem, 0) + 1
        while behind < len(matches) and matches[behind][1] - begin <= LENGTH:
            inside[matches[behind][2]] = inside.get(matches[behind][2], 0) + 1
            behind += 1
        if begin >= first and len(inside) > best:
            best, best_at = len(inside), at
        inside[stem] -= 1
        if not inside[stem]:
            del inside[stem]
    return best, best_at


def _stretch(text: str, matches: list[Match], at: int) -> Span:
    """Return the window of at most `LENGTH` characters that begins with a match, widened to where
    words end.
    """
    begin, last, _ = matches[at]
    for _, end, _ in matches[at + 1 :]:
        if end - begin > LENGTH:
            break
        last = end
    room = max(0, LENGTH - (last - begin))
    start = max(0, begin - room // 3)
    end = min(len(text), max(last, start + LENGTH))
    if start > 0 and (space := text.find(" ", start, begin)) >= 0:
        start = space + 1
    if end < len(text) and (space := text.rfind(" ", last, end)) >= 0:
        end = space
    return start, end


def _characters(text: str) -> Callable[[int], int]:
    """Return a function from an offset in the text's UTF-8 to the offset in the text. Call it with
    growing offsets.
    """
    if text.isascii():
        return lambda offset: offset
    data = text.encode()
    last = [0, 0]

    def place(offset: int) -> int:
        last[1] += len(data[last[0] : offset].decode())
        last[0] = offset
        return last[1]

    return place


def without_marks(snippet: str) -> tuple[str, list[Span]]:
    """Return a snippet's text, and where the words that were marked stand in it, in order."""
    parts = _MARKS.split(snippet)
    ends = [*accumulate(map(len, parts))]
    marked = zip(ends[::2], ends[1::2], strict=False)
    return "".join(parts), [(start, end) for start, end in marked if start < end]


def plain(text: str) -> str:
    return text.replace(START, "").replace(END, "")
