"""Which log a line belongs to, and its place there.

A file can be renamed and lines can be copied, and each keeps a good checksum. So a line that is
written carries a mark (`at`): its number, and a checksum of the log's name. It is not read under
another log's name, nor twice. Lines of earlier versions have no mark: for them the log's first line
speaks, which names the log. Lines in the plain form, which people write, belong where they stand.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import get_args

from recollect_server.domain.checkpoint import ThreadBegan, ThreadContent, log_of
from recollect_server.domain.conversation import Began, Content
from recollect_server.domain.entry import Unknown
from recollect_server.domain.external import CommunicationBegan, ExternalContent
from recollect_server.domain.ids import is_communication_id, is_conversation_id, is_thread_log
from recollect_server.domain.message import Message, Role
from recollect_server.storage.logs.lines import Line, line_of
from recollect_server.storage.logs.record import tag_of

_CONTENTS: tuple[tuple[Callable[[str], bool], tuple[type, ...]], ...] = (
    (is_conversation_id, (*get_args(Content), Unknown)),
    (is_communication_id, (*get_args(ExternalContent), Unknown)),
    (is_thread_log, (*get_args(ThreadContent), Unknown)),
)
_ANY = (object,)  # of a ledger
_ELSEWHERE = "it belongs to "


class Belonging:
    """The look at lines of one log, in the order in which they are read."""

    def __init__(
        self,
        log: str,
        first: Callable[[], Line | None],
        whole: Callable[[], Iterable[Line]],
        after: int | None = None,
    ) -> None:
        """`first` reads the log's first line, and `whole` all of them, where either is needed.
        `after`: the lines come in their order, behind so many; None: in any order.
        """
        self._log = log
        self._tag = tag_of(log)
        self._contents = next((it for is_name, it in _CONTENTS if is_name(log)), _ANY)
        self._first = first
        self._whole = whole
        self._last = after
        self._elsewhere: str | None = None
        self._turns: dict[int, int] | None = None

    def lines(self, lines: Iterable[Line]) -> Iterator[Line]:
        """Yield lines as `check` returns each."""
        return map(self.check, lines)

    def check(self, line: Line) -> Line:
        """Return a line as one of this log: damaged if it belongs elsewhere, and with the number of
        its turn if it is a message that does not say it.
        """
        if line.entry is None:
            return line
        content, mark = line.entry.content, line.entry.mark
        if mark is not None and (reason := self._reason(content, mark)):
            return replace(line, entry=None, damage=reason)
        if isinstance(content, Message) and not content.turn_number:
            if self._turns is None:
                self._turns = dict(_turns(self._whole()))
            turn = self._turns.get(line.sequence, 1)
            return replace(
                line, entry=replace(line.entry, content=replace(content, turn_number=turn))
            )
        return line

    def _reason(self, content: object, mark: str) -> str:
        """Return why a line with this mark belongs elsewhere; empty if it does not."""
        if not isinstance(content, self._contents):
            return "it is a line of another kind of log"
        if not mark:
            if self._elsewhere is None:
                first = self._first()
                self._elsewhere = _elsewhere(first, self._log) if first else ""
            # What follows the beginning of another log was copied with it.
            self._elsewhere = self._elsewhere or _named_elsewhere(content, self._log)
            return self._elsewhere
        number = mark.removesuffix(self._tag)
        if number == mark or not number.isdecimal():
            return _elsewhere_text(_beginning_of(content))
        if self._last is not None:
            if int(number) <= self._last:
                return f"it was written as line {number}, and stands behind line {self._last}"
            self._last = int(number)
        return ""


def over(log: str, raw: Sequence[bytes], after: int | None = None) -> Belonging:
    """Return the look at lines of a log whose bytes, without newlines, are these."""

    def whole() -> Iterator[Line]:
        return (line_of(text, sequence, 0) for sequence, text in enumerate(raw, 1))

    return Belonging(log, lambda: next(whole(), None), whole, after)


def lines_of(
    log: str, raw: Sequence[bytes], before: tuple[Sequence[bytes], Sequence[Line]] = ((), ())
) -> list[Line]:
    """Return the lines of a log whose bytes, without newlines, are these. `before`: the bytes and
    lines of an earlier call, of which what is as it was is not decoded again.
    """
    check = over(log, raw, 0).check
    lines: list[Line] = []
    offset = 0
    for sequence, text in enumerate(raw, 1):
        is_same = sequence <= len(before[0]) and before[0][sequence - 1] == text
        line = before[1][sequence - 1] if is_same else None
        if line is None or line.offset != offset:
            line = line_of(text, sequence, offset)
        lines.append(check(line))
        offset += len(text) + 1
    return lines


def misplacement(lines: Iterable[Line]) -> str:
    """Return why the first of a log's lines that can be read belongs to another log; empty if it
    does not.
    """
    for line in lines:
        if line.entry is not None:
            return ""
        if line.damage.startswith(_ELSEWHERE):
            return line.damage
    return ""


def _elsewhere(first: Line, log: str) -> str:
    if first.entry is None or first.entry.mark is None:
        return ""
    return _named_elsewhere(first.entry.content, log)


def _named_elsewhere(content: object, log: str) -> str:
    name = _beginning_of(content)
    return _elsewhere_text(name) if name not in ("", log) else ""


def _beginning_of(content: object) -> str:
    """Return the log that a first line begins; empty for another line."""
    match content:
        case Began(id=name) | CommunicationBegan(id=name):
            return name
        case ThreadBegan(thread_id=thread_id):
            return log_of(thread_id)
        case _:
            return ""


def _elsewhere_text(name: str) -> str:
    return _ELSEWHERE + (name or "another log")


def _turns(lines: Iterable[Line]) -> Iterator[tuple[int, int]]:
    """Yield the lines of messages that do not say their turn, with its number: a user's message
    opens a turn, and so does the first message.
    """
    turn = 0
    for line in lines:
        message = line.entry.content if line.entry else None
        if not isinstance(message, Message):
            continue
        number = message.turn_number
        if not number:
            number = turn + 1 if message.role is Role.USER or not turn else turn
            yield line.sequence, number
        turn = max(turn, number)
