"""The order of the changes of a folder, which its index numbers (see `kernel.log.order`).

One process writes a folder, and its index takes in one change after the other: a change's number
is its place, and everything below the last one that was taken in is complete. The numbers are the
index's own: another index has another order.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from recollect_server.kernel.domain.conversation import Conversation, MessagesRedacted
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.index.columns import UpdateRow
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.index.updates import Added
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.order import (
    Following,
    Key,
    Mark,
    OrderedChange,
    OrderedChanges,
    Take,
)
from recollect_server.kernel.log.store import LogNotFound, LogUnavailable, Position

ReadLines = Callable[[str, Position], Iterator[Line]]
"""Yields the lines of a log behind a position, as `LogStore.read`."""


class IndexOrder:
    """The order of the changes of a folder. Methods raise IndexUnavailable too."""

    def __init__(self, index: Index, lines: ReadLines) -> None:
        self._lines = lines
        self._followed: tuple[_FollowedIndex, ...] = ()
        self._attach(index)

    def _attach(self, index: Index) -> None:
        def receive(notices: Sequence[tuple[int, object]]) -> None:
            for followed in self._followed:
                followed.receive(index, notices)

        self._index = index
        index.writer.listeners.append(receive)

    def timeline(self) -> int:
        """Return the number of the only history."""
        return 0

    def hurry(self) -> None:
        """Do nothing: the index takes in what was added before it is read."""

    def replace(self, index: Index) -> None:
        """Go on with another index. Nothing is written meanwhile."""
        self._attach(index)
        self.renew()

    def renew(self) -> None:
        """Begin again: numbers were given out for changes that never come."""
        for followed in self._followed:
            followed.begin_again(self._index)

    def now(self) -> Mark:
        """Return the position behind everything that is acknowledged."""
        return _mark(self._index, self._index.log.last_cursor())

    def placed(self, start: Mark, cursor: int) -> tuple[Mark, dict[str, int]]:
        """Return the position of a snapshot of the index whose log ended at a cursor; nothing of it
        comes behind that.
        """
        return Mark.numbered(start.epoch, cursor), {}

    def reaches(self, mark: Mark, kind: Kind) -> bool:
        """Return whether every change of a kind of log behind a mark is still here, and what is
        before it was never lost: an older copy of the index may have been put back.
        """
        index, number = self._index, mark.key.transaction
        is_own = mark.epoch == index.log.epoch and number <= index.writer.given_out()
        return is_own and index.log.reaches_back_to(number, kind)

    def after(
        self,
        key: Key,
        kind: Kind,
        limit: int,
        max_bytes: int,
        only: Sequence[int] = (),  # noqa: ARG002 - nothing is ever missing below the last one
    ) -> OrderedChanges:
        """Return the oldest changes behind a key, those of one kind alone. Those of a log that is
        being deleted have no lines: its deletion follows.
        """
        changes = self._index.log.changes(key.transaction, kind, limit, max_bytes)
        last = {row.number: row.last for row in changes.rows}
        lines = {
            number: self._read(state.id, changes.starts.get(number), last[number])
            for number, state in changes.states.items()
            if number in last
        }
        rows: list[OrderedChange] = []
        for row in changes.rows:
            if row.detail:
                rows.append(_deleted(row))
            elif (state := changes.states.get(row.number)) is not None:
                own = [it for it in lines[row.number] if row.first <= it.sequence <= row.last]
                rows.append(_change(row.cursor, row.time, kind, state, own))
        end = changes.last + 1
        if changes.more and changes.rows:
            end = changes.rows[-1].cursor + 1
        return OrderedChanges(rows, changes.more, end, end)

    def _read(self, log: str, start: Place | None, last: int) -> list[Line]:
        """Return the lines of a log from a place (None: from its top) to one of a number; none if
        it is gone.
        """
        sequence, offset, _ = start or (1, 0, 0)
        lines: list[Line] = []
        try:
            for line in self._lines(log, Position(sequence - 1, offset)):
                lines.append(line)
                if line.sequence >= last:
                    break
        except LogNotFound:
            return []
        except LogUnavailable as error:
            raise LogUnavailable(log, "read", f"{log}: {error.reason}") from error
        return lines

    def follow(
        self, kind: Kind, take: Take, lost: Callable[[], None], ready: Callable[[], None]
    ) -> Following:
        """Give the changes of all kinds from now on, when `collect` is called."""
        followed = _FollowedIndex(self, kind, self._index, take, lost, ready)
        self._followed += (followed,)
        try:
            followed.mark = self.now()  # only then: nothing comes between
        except BaseException:
            self.leave(followed)  # nobody would collect what it receives
            raise
        return followed

    def leave(self, followed: "_FollowedIndex") -> None:
        """Follow the changes no more."""
        self._followed = tuple(it for it in self._followed if it is not followed)


class _FollowedIndex:
    """Changes that an index takes in, from its beginning until it is closed."""

    def __init__(
        self,
        order: IndexOrder,
        kind: Kind,
        index: Index,
        take: Take,
        lost: Callable[[], None],
        ready: Callable[[], None],
    ) -> None:
        self._order = order
        self._kind = kind
        self._take = take
        self._lost = lost
        self._ready = ready
        self._gives = threading.Lock()  # guards `mark`; held while changes are given
        self._guard = threading.Lock()  # guards the next two; nothing slow happens under it
        self._index = index
        self._notices: list[tuple[int, object]] = []
        self.mark = _mark(index, 0)

    def receive(self, index: Index, notices: Sequence[tuple[int, object]]) -> None:
        """Keep notices of what an index has just taken in, until they are collected."""
        with self._guard:
            if index is not self._index:
                return
            self._notices += notices
        self._ready()

    def start(self) -> None:
        """Say how far everything is complete."""
        with self._gives:
            self._give([])

    def begin_again(self, index: Index) -> None:
        """Begin behind everything that an index has or will take in by now. Who watches begins with
        a snapshot, which has all of that.
        """
        with self._gives:
            with self._guard:
                self._index = index
                self._notices.clear()
            self.mark = _mark(index, index.writer.given_out())
            self._lost()
            self._give([])

    def await_next(self, *, awaited: bool) -> None:
        """Let the index take in each change of a conversation at once while somebody waits for it.
        Else it takes in more at a time, at a lower cost per change. Those of communications never
        wait for company.
        """
        if self._kind is Kind.CONVERSATION:
            self._index.writer.watched = awaited

    def collect(self) -> None:
        """Give what the index took in since, in the caller's thread."""
        with self._gives:
            with self._guard:
                notices, self._notices = self._notices, []
            rows = [
                change
                for cursor, notice in notices
                for change in _changes(cursor, notice)
                if change.transaction > self.mark.key.transaction
            ]
            if rows:
                self._give(rows)

    def _give(self, rows: list[OrderedChange]) -> None:
        last = rows[-1].transaction if rows else self.mark.key.transaction
        self._take(OrderedChanges(rows, more=False, horizon=last + 1, ceiling=last + 1))
        self.mark = Mark.numbered(self.mark.epoch, last)

    def close(self) -> None:
        """Give no more changes."""
        self.await_next(awaited=False)
        self._order.leave(self)


def _mark(index: Index, number: int) -> Mark:
    return Mark.numbered(index.log.epoch, number)


def _changes(cursor: int, notice: object) -> list[OrderedChange]:
    """Return the changes that an index has just taken in behind a cursor."""
    if isinstance(notice, UpdateRow):
        return [_deleted(notice)]
    if not isinstance(notice, Added):
        return []
    changes: list[OrderedChange] = []
    for at, (time, first, last) in enumerate(notice.updates, start=cursor + 1):
        lines = [line for line in notice.lines if first <= line.sequence <= last]
        changes.append(_change(at, time, notice.kind, notice.state, lines))
    return changes


def _change(number: int, time: int, kind: Kind, state: Any, lines: list[Line]) -> OrderedChange:
    """Return a change that wrote lines, or of which none can be read any more."""
    last = lines[-1].entry if lines else None
    is_redaction = last is not None and isinstance(last.content, MessagesRedacted)
    start, until = (lines[0].offset, lines[-1].end) if lines else (0, 0)
    return OrderedChange(
        transaction=number,
        number=0,
        tag=0,
        log=state.id,
        kind=kind,
        action=Action.REDACT if is_redaction else Action.APPEND,
        start=start,
        until=until,
        time=time,
        channel="",
        lines=lines,
        is_last=True,
        state=state if isinstance(state, Conversation) else None,
    )


def _deleted(row: UpdateRow) -> OrderedChange:
    log, _, channel = row.detail.partition(" ")
    return OrderedChange(
        transaction=row.cursor,
        number=0,
        tag=0,
        log=log,
        kind=row.kind,
        action=Action.DELETE,
        start=0,
        until=0,
        time=row.time,
        channel=channel,
        lines=[],
        is_last=True,
    )
