"""The order of the changes of a folder, which its index numbers (see `storage.logs.order`).

One process writes a folder, and its index takes in one change after the other: a change's number
is its place, and everything below the last one that was taken in is complete. The numbers are the
index's own: another index has another order.
"""

import threading
from collections.abc import Callable, Iterator, Sequence

from recollect_server.domain.conversation import Conversation
from recollect_server.storage.index.columns import UpdateRow
from recollect_server.storage.index.incoming import Added
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.updates import UpdateKind
from recollect_server.storage.logs.kinds import Action, Kind
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.order import (
    Following,
    Key,
    Mark,
    OrderedChange,
    OrderedChanges,
    Take,
)
from recollect_server.storage.logs.store import LogNotFound, Position

ReadLines = Callable[[str, Position], Iterator[Line]]
"""Yields the lines of a log behind a position, as `LogStore.read`."""

_NO_END = 1 << 62  # everything that is in the index is complete


class Numbered:
    """An order by the numbers of an index, of one kind of log. Methods raise IndexUnavailable
    too.
    """

    def __init__(self, index: Index, lines: ReadLines) -> None:
        self._index = index
        self._lines = lines

    def timeline(self) -> int:
        """Return the number of the only history."""
        return 0

    def placed(self, start: Mark, cursor: int) -> tuple[Mark, dict[str, int]]:
        """Return the position of a snapshot of the index whose log ended at a cursor; nothing of it
        comes behind that.
        """
        return Mark.numbered(start.epoch, cursor), {}

    def hurry(self) -> None:
        """Do nothing: the index takes in what was added before it is read."""

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
        return lines


class IndexOrder(Numbered):
    """The order of the conversations' changes in a folder."""

    def __init__(self, index: Index, lines: ReadLines) -> None:
        super().__init__(index, lines)
        self._following: _FollowedIndex | None = None

    def replace(self, index: Index) -> None:
        """Go on with another index. Nothing is written meanwhile."""
        self._index = index
        self.renew()

    def renew(self) -> None:
        """Begin again: numbers were given out for changes that never come."""
        if self._following is not None:
            self._following.begin_again(self._index)

    def now(self) -> Mark:
        """Return the position behind everything that is acknowledged."""
        return _mark(self._index, self._index.log.last_cursor())

    settled = now

    def reaches(self, mark: Mark) -> bool:
        """Return whether everything behind a mark is still here, and what is before it was never
        lost: an older copy of the index may have been put back.
        """
        log = self._index.log
        number = mark.key.transaction
        return mark.epoch == log.epoch and number <= log.given_out() and log.reaches_back_to(number)

    def after(
        self,
        key: Key,
        kind: Kind,  # noqa: ARG002 - it has conversations alone
        limit: int,
        max_bytes: int,
        only: Sequence[int] = (),  # noqa: ARG002 - nothing is ever missing below the last one
    ) -> OrderedChanges:
        """Return the oldest changes behind a key. Those of a conversation that is being deleted
        have no lines: its deletion follows.
        """
        changes = self._index.log.changes(key.transaction, limit, max_bytes)
        last = {row.number: row.last for row in changes.rows}
        lines = {
            number: self._read(conversation.id, changes.starts.get(number), last[number])
            for number, conversation in changes.conversations.items()
        }
        rows: list[OrderedChange] = []
        for row in changes.rows:
            if row.kind == UpdateKind.DELETED:
                rows.append(_deleted(row))
            elif (conversation := changes.conversations.get(row.number)) is not None:
                own = [it for it in lines[row.number] if row.first <= it.sequence <= row.last]
                rows.append(_change(row, conversation, own))
        end = changes.last + 1
        if changes.more and changes.rows:
            end = changes.rows[-1].cursor + 1
        return OrderedChanges(rows, changes.more, end, end)

    def follow(
        self,
        kind: Kind,  # noqa: ARG002 - it has conversations alone
        take: Take,
        lost: Callable[[], None],
        ready: Callable[[], None],
    ) -> Following:
        """Give the changes from now on, when `collect` is called. One follows at a time."""
        self._following = _FollowedIndex(self._index, take, lost, ready)
        return self._following


class CommunicationOrder(Numbered):
    """The order of the changes of external communications in a folder."""

    def __init__(self, index: Index, lines: ReadLines) -> None:
        super().__init__(index, lines)
        self._following: _FollowedCommunications | None = None

    def replace(self, index: Index) -> None:
        """Go on with another index."""
        self._index = index
        if self._following is not None:
            self._following.begin_again(self.now())

    def note(self) -> None:
        """Note that the index took in a change."""
        if self._following is not None:
            self._following.start()

    def now(self) -> Mark:
        """Return the position behind everything that is acknowledged."""
        return _mark(self._index, self._index.external.last())

    settled = now

    def reaches(self, mark: Mark) -> bool:
        """Return whether everything behind a mark is still here."""
        return mark.epoch == self._index.log.epoch and self._index.external.reaches_back_to(
            mark.key.transaction
        )

    def after(
        self,
        key: Key,
        kind: Kind,  # noqa: ARG002 - it has communications alone
        limit: int,
        max_bytes: int,
        only: Sequence[int] = (),  # noqa: ARG002 - nothing is ever missing below the last one
    ) -> OrderedChanges:
        """Return the oldest changes behind a key."""
        changes = self._index.external.changes(key.transaction, limit, max_bytes)
        last = {row.number: row.sequence for row in changes.rows}
        lines = {
            number: {
                line.sequence: line
                for line in self._read(log, changes.starts.get(number), last[number])
            }
            for number, log in changes.logs.items()
        }
        rows: list[OrderedChange] = []
        for row in changes.rows:
            line = lines[row.number].get(row.sequence)
            rows.append(
                _ordered(
                    row.cursor,
                    changes.logs[row.number],
                    Kind.COMMUNICATION,
                    row.time,
                    lines=[line] if line else [],
                )
            )
        return OrderedChanges(rows, more=False, horizon=_NO_END, ceiling=_NO_END)

    def follow(
        self,
        kind: Kind,  # noqa: ARG002 - it has communications alone
        take: Take,
        lost: Callable[[], None],
        ready: Callable[[], None],  # noqa: ARG002
    ) -> Following:
        """Say from now on that there are changes. One follows at a time."""
        self._following = _FollowedCommunications(self.now(), take, lost)
        return self._following


class _FollowedCommunications:
    """Follower that hears of changes, and reads them by `after`."""

    def __init__(self, mark: Mark, take: Take, lost: Callable[[], None]) -> None:
        self.mark = mark
        self._take = take
        self._lost = lost
        self._is_closed = False

    def start(self) -> None:
        """Say that there may be changes."""
        if not self._is_closed:
            self._take(OrderedChanges([], more=False, horizon=_NO_END, ceiling=_NO_END))

    def begin_again(self, mark: Mark) -> None:
        """Go on in another index."""
        self.mark = mark
        self._lost()
        self.start()

    def collect(self) -> None:
        """Do nothing: changes are read."""

    def await_next(self, *, awaited: bool) -> None:
        """Do nothing: each change is taken in at once."""

    def close(self) -> None:
        """Say nothing more."""
        self._is_closed = True


class _FollowedIndex:
    """Changes that an index takes in, from its beginning until it is closed."""

    def __init__(
        self, index: Index, take: Take, lost: Callable[[], None], ready: Callable[[], None]
    ) -> None:
        self._take = take
        self._lost = lost
        self._ready = ready
        self._gives = threading.Lock()  # guards `mark`; held while changes are given
        self._guard = threading.Lock()  # guards the next two; nothing slow happens under it
        self._index = index
        self._notices: list[tuple[int, object]] = []
        self._attach(index)  # before its end is read: nothing comes between
        self.mark = _mark(index, index.log.last_cursor())

    def _attach(self, index: Index) -> None:
        def receive(notices: Sequence[tuple[int, object]]) -> None:
            with self._guard:
                if index is not self._index:
                    return
                self._notices += notices
            self._ready()

        with self._guard:
            self._index = index
            self._notices.clear()
        index.log.listen(receive)

    def start(self) -> None:
        """Say how far everything is complete."""
        with self._gives:
            self._give([])

    def begin_again(self, index: Index) -> None:
        """Begin behind everything that an index has or will take in by now. Who watches begins with
        a snapshot, which has all of that.
        """
        with self._gives:
            self._attach(index)
            self.mark = _mark(index, index.log.given_out())
            self._lost()
            self._give([])

    def await_next(self, *, awaited: bool) -> None:
        """Let the index take in each change at once while somebody waits for it. Else it takes in
        more at a time, at a lower cost per change.
        """
        self._index.log.set_watched(awaited)

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
        self._index.log.set_watched(False)
        self._index.log.listen(_ignore)


def _mark(index: Index, number: int) -> Mark:
    return Mark.numbered(index.log.epoch, number)


def _changes(cursor: int, notice: object) -> list[OrderedChange]:
    """Return the changes that an index has just taken in behind a cursor."""
    if isinstance(notice, UpdateRow):
        return [_deleted(notice)]
    assert isinstance(notice, Added)
    changes: list[OrderedChange] = []
    for at, (kind, time, first, last) in enumerate(notice.updates, start=cursor + 1):
        row = UpdateRow(at, notice.number, kind, time, first, last, "")
        lines = [line for line in notice.lines if first <= line.sequence <= last]
        changes.append(_change(row, notice.conversation, lines))
    return changes


def _change(row: UpdateRow, conversation: Conversation, lines: list[Line]) -> OrderedChange:
    return _ordered(
        row.cursor,
        conversation.id,
        Kind.CONVERSATION,
        row.time,
        channel=conversation.channel,
        lines=lines,
        state=conversation,
    )


def _deleted(row: UpdateRow) -> OrderedChange:
    conversation_id, _, channel = row.detail.partition(" ")
    return _ordered(
        row.cursor,
        conversation_id,
        Kind.CONVERSATION,
        row.time,
        action=Action.DELETE,
        channel=channel,
    )


def _ordered(
    number: int,
    log: str,
    kind: Kind,
    time: int,
    *,
    action: Action = Action.APPEND,
    channel: str = "",
    lines: Sequence[Line] = (),
    state: Conversation | None = None,
) -> OrderedChange:
    start, until = (lines[0].offset, lines[-1].end) if lines else (0, 0)
    return OrderedChange(
        transaction=number,
        number=0,
        tag=0,
        log=log,
        kind=kind,
        action=action,
        start=start,
        until=until,
        time=time,
        channel=channel,
        lines=list(lines),
        is_last=True,
        state=state,
    )


def _ignore(_: Sequence[tuple[int, object]]) -> None:
    """Ignore notices."""
