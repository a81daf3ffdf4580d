"""History of the calls with their answers, and the model that the stored messages must fit.

The model is one sentence: what was answered is there once, whole, in order, where the answer said;
what was not answered is there once or not at all.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect.v1 import message_pb2

from tests.streaming import checkers


@dataclass(frozen=True)
class Stored:
    """A message as it is stored."""

    sequence: int
    turn_number: int
    by_user: bool
    content: str


@dataclass
class Call:
    """One call: what was asked, when, and what came back. Times are positions in the order of all
    beginnings and ends.
    """

    kind: str
    request_id: str
    conversation_id: str = ""
    """Of a create: empty until it is answered."""
    texts: tuple[str, ...] = ()
    """The messages of an append, or the first ones of a create; else the title, the notes, …"""
    began: int = 0
    ended: int = 0
    """0: it was never answered."""
    refused: str = ""
    """The code that it was refused with, by a server that lived on."""
    stored: tuple[Stored, ...] = ()
    cursor: str = ""
    seconds: float = 0.0
    """Until it was answered or refused."""

    @property
    def answered(self) -> bool:
        """Return whether the call was answered with success."""
        return bool(self.ended) and not self.refused


@dataclass
class Verdict:
    """Result of the checks."""

    acknowledged: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Everything that must not be."""
        return self.lost + self.duplicated + self.wrong


class History:
    """All calls of all callers. Safe to use from any thread."""

    def __init__(self) -> None:
        self._clock = itertools.count(1)  # counts without a lock
        self._guard = threading.Lock()  # guards `_calls`
        self._calls: list[Call] = []

    def run(
        self,
        call: Call,
        send: Callable[[], Any],
        note: Callable[[Call, Any], None],
        failed: type[Exception],
    ) -> bool:
        """Send a call and record its outcome; `note` copies what matters from the answer. Return
        False if it failed.
        """
        call.began, began = next(self._clock), time.monotonic()
        with self._guard:
            self._calls.append(call)
        try:
            answer = send()
        except failed as error:
            call.seconds = time.monotonic() - began
            call.refused = refusal(error)
            call.ended = next(self._clock) if call.refused else 0
            return False
        call.seconds = time.monotonic() - began
        note(call, answer)
        call.ended = next(self._clock)
        return True

    def now(self) -> int:
        """Return a place in the order of all beginnings and ends."""
        return next(self._clock)

    def copy(self) -> "History":
        """Copy the history, to be continued in another way."""
        other = History()
        other._clock = itertools.count(self.now())
        other._calls = [replace(call) for call in self.calls()]
        return other

    def calls(self) -> list[Call]:
        """Return all calls until now, in the order of their beginnings."""
        with self._guard:
            return list(self._calls)


def refusal(error: Any) -> str:
    """Return the code of a refusal; empty if no answer came, so that the call may have been carried
    out.
    """
    code = error.code().name if hasattr(error, "code") else type(error).__name__
    return "" if code in ("UNAVAILABLE", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN") else str(code)


def stored_messages(messages: Iterable[message_pb2.Message]) -> tuple[Stored, ...]:
    """Return messages of the wire in the model's form."""
    return tuple(
        Stored(m.sequence, m.turn_number, m.role == message_pb2.ROLE_USER, m.content)
        for m in messages
    )


def judge(calls: Sequence[Call], stored: Sequence[Stored]) -> Verdict:
    """Check the stored messages of one conversation against the calls to it."""
    verdict = Verdict()
    places: dict[str, list[int]] = {}
    for place, message in enumerate(stored):
        places.setdefault(message.content, []).append(place)
    there: list[tuple[int, Call]] = []
    for call in calls:
        if call.kind not in ("append", "create") or not call.texts:
            continue
        verdict.acknowledged += len(call.texts) * call.answered
        occurrences = [places.pop(text, []) for text in call.texts]
        verdict.duplicated += [
            text for text, own in zip(call.texts, occurrences, strict=True) if len(own) > 1
        ]
        missing = [text for text, own in zip(call.texts, occurrences, strict=True) if not own]
        if missing and call.answered:
            verdict.lost += missing
        elif missing and len(missing) < len(call.texts):
            verdict.wrong.append(
                f"{call.request_id}: {len(missing)} of {len(call.texts)} messages of a batch are there not"
            )
        if missing:
            continue
        if call.refused:
            verdict.wrong.append(
                f"{call.request_id} was refused with {call.refused}, and is stored"
            )
        own = tuple(stored[place[0]] for place in occurrences)
        there.append((own[0].sequence, call))
        if [m.sequence for m in own] != list(range(own[0].sequence, own[0].sequence + len(own))):
            verdict.wrong.append(f"{call.request_id}: the batch is not in one piece")
        if call.answered and own != call.stored:
            verdict.wrong.append(f"{call.request_id} was answered {call.stored} and is {own}")
    verdict.wrong += [f"nobody wrote {text!r}" for text in places]
    verdict.wrong += _out_of_order([call for _, call in sorted(there, key=lambda item: item[0])])
    return _with_numbers(verdict, stored)


def judge_cursors(calls: Sequence[Call]) -> list[str]:
    """Check that the cursors of one index grow in the order of the answers."""
    wrong: list[str] = []
    by_index: dict[str, list[tuple[int, Call]]] = {}
    for call in calls:
        if call.answered and call.cursor:
            epoch, position = checkers.place(call.cursor)
            by_index.setdefault(epoch, []).append((position, call))
    for own in by_index.values():
        own.sort(key=lambda item: item[0])
        wrong += [
            f"the cursor {a[1].cursor} was given twice"
            for a, b in itertools.pairwise(own)
            if a[0] == b[0]
        ]
        wrong += _out_of_order([call for _, call in own])
    return wrong


def judge_last(calls: Sequence[Call], kind: str, value: str) -> list[str]:
    """Check that a title (or notes, …) is the last one that was set, or one whose call was not
    answered.
    """
    own = [call for call in calls if call.kind == kind and not call.refused]
    setters = [call for call in own if call.texts == (value,)]
    if not setters:
        done = [call.request_id for call in own if call.answered]
        return [f"{kind} is {value!r}, and {done} were answered"] if done or value else []
    latest = setters[-1]
    after = [
        call.request_id
        for call in own
        if call.answered and latest.answered and call.began > latest.ended
    ]
    return [f"{kind} is {value!r}, and {after} came later"] if after else []


def _out_of_order(calls: Sequence[Call]) -> list[str]:
    """Return the calls that were answered before an earlier one was made."""
    wrong: list[str] = []
    newest = 0
    for call in calls:
        if call.answered and call.ended < newest:
            wrong.append(f"{call.request_id} stands behind what was asked after it was answered")
        newest = max(newest, call.began)
    return wrong


def _with_numbers(verdict: Verdict, stored: Sequence[Stored]) -> Verdict:
    turn = sequence = 0
    for message in stored:
        turn += message.by_user or turn == 0
        if message.turn_number != turn or message.sequence <= sequence:
            verdict.wrong.append(
                f"line {message.sequence} is of turn {message.turn_number}; it should be of turn {turn}"
            )
            break
        sequence = message.sequence
    return verdict
