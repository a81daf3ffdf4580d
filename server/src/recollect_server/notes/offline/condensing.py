"""Condenses a conversation without a model: sentences of its every part, each on a line with its
turn and its speaker.

    [1 user] Why was the web server so slow last night?
    [2 agent] The disk /dev/sda1 is at 97 %.

A summary replaces the one before it, so what one summary leaves out no later one can tell. The
lines of the last summary and the sentences said since are therefore thinned out together, and no
line goes whose loss leaves a gap of more than a tenth of all turns: a set without such gaps always
has a subset of at most twenty that has none either once there are more turns. Newer lines are worth
up to twice what older ones are.

Text that is on no such line was written by somebody else, a model or a caller. It stands first, for
the turns before the lines.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from math import log, sqrt

from recollect_server.kernel.domain.message import BYTES_PER_TOKEN, Message, Role, estimate_tokens
from recollect_server.notes.notes import clipped
from recollect_server.notes.offline.sentences import (
    Sentence,
    names_in,
    sentences_of,
    spoken,
    topical,
)
from recollect_server.notes.offline.tools import LIST
from recollect_server.text.text import is_question, one_line, sentences

_TENTHS = 10
_COVERING = 2 * _TENTHS + 1  # lines at most that leave no gap of more than a tenth
_LONGEST = 7  # of a line: this part of the room
_BLOCK = 60  # lines that are looked at together with those that were chosen before them
_SAME_TURN = 0.3  # the hole that a line leaves between two of its own turn, in turns
_MAX_SPEAKER = 24  # characters of a name
_QUESTION = 0.6  # what a question is worth beside a statement: its answer says more
_LEANING = 0.5  # what a sentence is worth that refers to the one before it
_FRAGMENT = 0.2  # what a heading, an exclamation or a picture is worth beside a sentence
_AGENT = 0.6  # what the agent's words are worth beside the user's, of which there are fewer
_CUT = 0.6  # what a sentence is worth of which only the beginning is kept
_KEPT = 1.3  # what a line of the last summary is worth: it was the best of its turns
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
    for sentence in everything:
        if LIST not in sentence.text:  # a conversation contains no list of tools
            message = speaking[sentence.message]
            speaker = sentence.speaker or ("user" if sentence.role is Role.USER else "agent")
            worth = _worth(sentence, without_capitals=without_capitals)
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


def _worth(sentence: Sentence, *, without_capitals: bool) -> float:
    text = sentence.text
    is_lower = text[0].islower() and not (without_capitals and sentence.role is Role.USER)
    worth = sentence.worth * (1.0 if sentence.role is Role.USER or sentence.speaker else _AGENT)
    worth *= _LEANING if sentence.leans else 1
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
    """Return lines that fit, of every part of the turns after `before`: the one goes first whose
    loss leaves the smallest hole, and one whose loss leaves more than a tenth only when all are
    short.
    """
    weights = _weights(lines)
    gap = max(1, turns // _TENTHS)
    chosen: list[_Line] = []
    for at in range(0, len(lines), _BLOCK):
        chosen += (_shortened(it, room // _LONGEST) for it in lines[at : at + _BLOCK])
        chosen.sort(key=lambda it: (it.turn, it.order))
        while sum(it.tokens for it in chosen) > room and len(chosen) > 1:
            breathe()
            bounds = [before, *(it.turn for it in chosen), turns + 1]
            losses: list[tuple[bool, float, int]] = []
            for place, it in enumerate(chosen):
                hole = bounds[place + 2] - bounds[place]
                loss = _score(it, weights) * (1 + it.turn / turns) * max(hole, _SAME_TURN)
                losses.append((hole > gap or place == 0, loss, place))
            is_needed, _, place = min(losses)
            longest = max(chosen, key=lambda it: it.tokens)
            shorter = longest
            if is_needed and longest.tokens > room // _COVERING:
                shorter = _shortened(longest, longest.tokens * 4 // 5)
            if shorter.tokens < longest.tokens:  # a long name stays as long as it is
                chosen[chosen.index(longest)] = shorter
            else:
                del chosen[place]
    return chosen


def _shortened(line: _Line, most: int) -> _Line:
    if line.tokens <= most:
        return line
    text = clipped(line.text, max(4, most - _tokens(line.label, "")))
    words = tuple(word for word in line.words if word in text.lower())
    tokens = _tokens(line.label, text)
    return replace(line, text=text, words=words, worth=line.worth * _CUT, tokens=tokens)


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


def _score(line: _Line, weights: dict[str, float]) -> float:
    return line.worth * sum(weights[word] for word in line.words) / sqrt(line.tokens + 6)


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
