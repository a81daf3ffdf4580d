"""Condenses a conversation without a model: sentences of its every part, each on a line with its
turn and its speaker.

    [1 user] Why was the web server so slow last night?
    [2 agent] The disk /dev/sda1 is at 97 %.

A summary replaces the one before it, so what one summary leaves out no later one can tell. The
lines of the last summary and the sentences said since are therefore chosen from together, and first
those that leave no gap of more than a tenth of all turns between two lines: a set without such gaps
always has a subset of at most twenty that has none either once there are more turns. What room is
left goes to the parts that have less than their share, of which the newest tenth has twice the
oldest's.

Text that is on no such line was written by somebody else, a model or a caller. It stands first, for
the turns before the lines.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from math import log, sqrt

from recollect_server.domain.budget import BYTES_PER_TOKEN, estimate_tokens
from recollect_server.domain.message import Message, Role
from recollect_server.domain.notes import clipped
from recollect_server.domain.text import one_line, sentences
from recollect_server.inference.sentences import (
    Sentence,
    is_question,
    names_in,
    sentences_of,
    spoken,
    stemmed,
    topical,
)
from recollect_server.inference.tools import LIST

_TENTHS = 10
_COVERING = 2 * _TENTHS + 1  # lines at most that leave no gap of more than a tenth
_COVERS = 0.85  # of the room at most is for these; the rest is for the newer parts
_MAX_SPEAKER = 24  # characters of a name
_QUESTION = 0.6  # what a question is worth beside a statement: its answer says more
_LEANING = 0.5  # what a sentence is worth that refers to the one before it
_FRAGMENT = 0.2  # what a heading, an exclamation or a picture is worth beside a sentence
_AGENT = 0.6  # what the agent's words are worth beside the user's, of which there are fewer
_DENIES = 1.3  # what it is worth that the user refuses or takes back what was said just before
_DENIED = 0.6  # what a sentence of the agent is worth that the user refuses
_CUT = 0.6  # what a sentence is worth of which only the beginning is kept
_KEPT = 1.3  # what a line of the last summary is worth: it was the best of its turns
_COVERED = 0.15  # a word's weight once a chosen line has it
_NAME = 1.6  # how much more a name or a figure weighs
_MIN_SPACES = 4  # a shorter sentence says little by itself
_LINE = re.compile(r"^\[(\d{1,9})(?: ([^\]\n]{1,40}))?\] (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A sentence that may stand in the summary."""

    turn: int
    label: str
    text: str
    words: tuple[str, ...]
    names: tuple[str, ...]
    worth: float
    tokens: int
    order: int

    @property
    def shown(self) -> str:
        return f"{self.label} {self.text}"


def condensed(
    messages: Sequence[Message], earlier: str, room: int, breathe: Callable[[], None]
) -> str:
    """Return a summary of at most `room` tokens: of `earlier`, the last summary, and of the
    messages after it.
    """
    first = _LINE.search(earlier)
    freely = _LINE.sub("", earlier).strip()
    numbers = count()
    lines: list[_Line] = []
    for turn, speaker, text in _LINE.findall(earlier):
        worth = _KEPT * (_CUT if text.endswith("…") else 1)
        words = tuple(dict.fromkeys(topical(text)))
        lines.append(_line(int(turn), speaker, text, words, names_in(text), worth, next(numbers)))
    begins = min(
        [line.turn for line in lines]
        or [min((message.turn_number for message in messages), default=1)]
    )
    speaking = spoken(messages)
    everything: list[Sentence] = []
    for sentence in sentences_of(messages):
        breathe()
        everything.append(sentence)
    users = [it for it in everything if it.role is Role.USER]
    # Who writes without capitals begins every sentence so: it is no fragment.
    without_capitals = sum(it.text[0].islower() for it in users) * 2 > len(users)
    denied = _denied(everything)
    for sentence in everything:
        if LIST not in sentence.text:  # a conversation contains no list of tools
            message = speaking[sentence.message]
            speaker = sentence.speaker or ("user" if sentence.role is Role.USER else "agent")
            worth = _worth(sentence, without_capitals=without_capitals)
            worth *= _DENIED if sentence.order in denied else 1
            lines.append(
                _line(
                    message.turn_number,
                    speaker,
                    sentence.text,
                    sentence.words,
                    sentence.names,
                    worth,
                    next(numbers),
                )
            )
    turns = max([line.turn for line in lines] + [message.turn_number for message in messages] + [1])
    # A writer without a form knew what matters: the text stays whole at first, and later keeps the
    # share of the turns it stands for.
    share = _share(min(1.0, (begins - 1) / turns)) if first else 0.5
    freely = _thinned(freely, int(room * min(0.5, max(share, 1 / _TENTHS))))
    room -= estimate_tokens(freely) + 1 if freely else 0
    chosen = _chosen(lines, begins - 1 if freely else 0, turns, room, breathe)
    return "\n".join(
        filter(
            None,
            (freely, *(line.shown for line in sorted(chosen, key=lambda it: (it.turn, it.order)))),
        )
    )


def _denied(sentences: Sequence[Sentence]) -> set[int]:
    """Return the orders of the agent's sentences that the user's next message denies."""
    denials: defaultdict[int, set[str]] = defaultdict(set)
    for sentence in sentences:
        if sentence.denies:
            denials[sentence.message - 1].update(stemmed(sentence.words))
    return {
        it.order
        for it in sentences
        if it.role is not Role.USER and not denials[it.message].isdisjoint(stemmed(it.words))
    }


def _worth(sentence: Sentence, *, without_capitals: bool) -> float:
    text = sentence.text
    is_lower = text[0].islower() and not (without_capitals and sentence.role is Role.USER)
    worth = sentence.worth * (1.0 if sentence.role is Role.USER or sentence.speaker else _AGENT)
    worth *= _LEANING if sentence.leans else 1
    worth *= _DENIES if sentence.denies else 1
    if is_question(text):
        worth *= _QUESTION
    elif (
        not sentence.whole
        or is_lower
        or text[0] == "["
        or (text.isascii() and text.count(" ") < _MIN_SPACES)
    ):
        worth *= _FRAGMENT
    return worth


def _line(
    turn: int,
    speaker: str,
    text: str,
    words: tuple[str, ...],
    names: tuple[str, ...],
    worth: float,
    order: int,
) -> _Line:
    name = one_line(speaker).replace("]", "").replace("[", "")[:_MAX_SPEAKER].strip()
    label = f"[{turn} {name}]" if name else f"[{turn}]"
    text = one_line(text)
    return _Line(turn, label, text, words, names, worth, _tokens(label, text), order)


def _tokens(label: str, text: str) -> int:
    # With the line's end; each line is counted by itself, so the whole has no more than the sum.
    return -(-(len(label) + len(text.encode()) + 2) // BYTES_PER_TOKEN)


def _share(part: float) -> float:
    """Return the share of a summary that belongs to the first `part` of the turns; the newest turn
    has twice the oldest's.
    """
    return (part + part * part / 2) / 1.5


def _chosen(
    lines: list[_Line], before: int, turns: int, room: int, breathe: Callable[[], None]
) -> list[_Line]:
    """Return lines that fit, of every part of the turns after `before`."""
    weights = _weights(lines)
    size = 3 * room // _COVERING  # longer sentences where few lines cover everything
    covering = _covering(lines, weights, before, turns, size, breathe)
    while sum(line.tokens for line in covering) > room * _COVERS and size > room // _COVERING:
        size = max(room // _COVERING, size * 4 // 5)
        covering = _covering(lines, weights, before, turns, size, breathe)
    while covering and sum(line.tokens for line in covering) > room:
        # only where names of tools and free text leave hardly any room
        covering.pop(len(covering) // 2)
    chosen = list(covering)
    room -= sum(line.tokens for line in chosen)
    orders = {line.order for line in chosen}
    for line in chosen:
        _tell(line, weights)
    used: defaultdict[int, int] = defaultdict(int)
    heaps: defaultdict[int, list[tuple[float, int, _Line]]] = defaultdict(list)
    for line in chosen:
        used[_tenth(line, turns)] += line.tokens
    for line in lines:
        if line.order not in orders and line.tokens <= room:
            heaps[_tenth(line, turns)].append((-_score(line, weights), line.order, line))
    for heap in heaps.values():
        heapq.heapify(heap)
    while heaps:
        breathe()
        tenth = min(
            heaps, key=lambda it: used[it] / (_share((it + 1) / _TENTHS) - _share(it / _TENTHS))
        )
        heap = heaps[tenth]
        while heap:
            _, order, line = heapq.heappop(heap)
            if line.tokens > room:
                continue
            score = -_score(line, weights)
            if heap and score > heap[0][0]:  # lines chosen since made it worth less
                heapq.heappush(heap, (score, order, line))
                continue
            chosen.append(line)
            room -= line.tokens
            used[tenth] += line.tokens
            _tell(line, weights)
            break
        if not heap:
            del heaps[tenth]
    return chosen


def _covering(
    lines: list[_Line],
    weights: dict[str, float],
    before: int,
    turns: int,
    size: int,
    breathe: Callable[[], None],
) -> list[_Line]:
    """Return few lines that leave no gap of more than a tenth of the turns, as far as there are
    any; the first one is among them.

    Lines of more than `size` tokens are shortened, and are worth less then.
    """
    by_turn: defaultdict[int, list[_Line]] = defaultdict(list)
    for line in lines:
        by_turn[line.turn].append(line)
    stops = sorted(by_turn)
    window = max(1, turns // _TENTHS)
    chosen: list[_Line] = []
    reached, at = before, 0
    while at < len(stops):
        breathe()
        end = at + 1  # at least one turn, however far away it is
        while end < len(stops) and stops[end] <= reached + window:
            end += 1
        late = [stop for stop in stops[at:end] if stop > reached + window // 2] or [stops[end - 1]]
        candidates = [
            line
            for stop in (late if chosen or before else stops[at:end][:1])
            for line in by_turn[stop]
        ]
        fitting = [line if line.tokens <= size else _shortened(line, size) for line in candidates]
        line = max(fitting, key=lambda it: (_score(it, weights), -it.order))
        chosen.append(line)
        reached = line.turn
        while at < len(stops) and stops[at] <= reached:
            at += 1
    return chosen


def _shortened(line: _Line, size: int) -> _Line:
    text = clipped(line.text, max(4, size - _tokens(line.label, "")))
    words = tuple(word for word in line.words if word in text.lower())
    return _Line(
        line.turn,
        line.label,
        text,
        words,
        line.names,
        line.worth * _CUT,
        _tokens(line.label, text),
        line.order,
    )


def _thinned(text: str, room: int) -> str:
    """Return a text that fits: whole, or its sentences evenly spread, the first one among them."""
    if estimate_tokens(text) <= room:
        return text
    parts = sentences(text)
    keep = len(parts)
    while keep > 1:
        keep = min(
            keep - 1, max(1, int(keep * room / estimate_tokens(" ".join(_spread(parts, keep)))))
        )
        if estimate_tokens(shortened := " ".join(_spread(parts, keep))) <= room:
            return shortened
    return clipped(text, room)


def _spread(parts: list[str], keep: int) -> list[str]:
    return [parts[number * len(parts) // keep] for number in range(keep)]


def _tenth(line: _Line, turns: int) -> int:
    return min(_TENTHS - 1, max(0, line.turn - 1) * _TENTHS // turns)


def _score(line: _Line, weights: dict[str, float]) -> float:
    return line.worth * sum(weights[word] for word in line.words) / sqrt(line.tokens + 6)


def _tell(line: _Line, weights: dict[str, float]) -> None:
    for word in line.words:
        weights[word] *= _COVERED


def _weights(lines: list[_Line]) -> dict[str, float]:
    counts: defaultdict[str, int] = defaultdict(int)
    names: set[str] = set()
    for line in lines:
        names.update(name.lower() for name in line.names)
        for word in line.words:
            counts[word] += 1
    return {
        word: (1 + log(number)) * (_NAME if word in names else 1) * min(1.3, 0.6 + len(word) / 12)
        for word, number in counts.items()
    }
