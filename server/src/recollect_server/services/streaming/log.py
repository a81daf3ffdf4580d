"""Update log that watchers read: the newest updates in memory, encoded once for all, and before
them the index's log.

The index passes on its changes in its writer's thread, after they are committed, in the order of
their cursors. Here they only wait in an inbox; `advance` makes updates of them. So no watcher
receives a change before it is in the index, and a change that a watcher received is found behind
every earlier cursor.
"""

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from recollect_server.domain.errors import InvalidField
from recollect_server.domain.update import Deleted, Redacted, Update, Updated
from recollect_server.services.space.events import CursorsLost, IndexReplaced, Suspended
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts
from recollect_server.services.streaming.reading import Placed, placed_updates, read
from recollect_server.services.streaming.ring import Entry, Ring
from recollect_server.services.streaming.watching import (
    About,
    Batch,
    Encode,
    Interest,
    NewUpdates,
    Renewed,
)
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.log import Newest
from recollect_server.storage.logs.order import Mark, Part

_POSITION = re.compile(r"([0-9a-f]{12})-(\d{1,19})", re.ASCII)
_PART = 500  # changes read from the index at once
_PART_BYTES = 4 << 20  # of their messages: a watcher that missed much gets a part at a time
_LONGEST_REST = 1.0  # seconds: the caller of `advance` rests less between two calls


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the log of one index."""

    epoch: str
    cursor: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.cursor}"

    @classmethod
    def of(cls, text: str) -> "Position | None":
        """Return the position that a text names in the form of `str`; None if it names none."""
        match = _POSITION.fullmatch(text)
        return cls(match[1], int(match[2])) if match else None


class UpdateLog:
    """The update log of a space. Safe to call from any thread, but for `advance`, which one thread
    calls.
    """

    def __init__(self, space: Space, drafts: Drafts, encode: Encode) -> None:
        self.space = space
        self.encode = encode
        self.drafts = drafts
        guard = threading.RLock()  # guards everything below; nothing slow happens under it
        self._guard = guard
        self._signal: Callable[[], None] = _ignore
        self._grown = threading.Condition(guard)  # what `settle` waits for
        self._inbox: deque[tuple[int, object]] = deque()
        self._touched: set[About] = set()  # drafts that grew or ended
        self._renewed = False
        self.resets = 0
        """Number of times that every watcher had to begin again with the same index."""
        self._watchers = 0
        # the last one
        self._answered: (
            tuple[tuple[Position, Interest, int, int], tuple[Batch, Position]] | None
        ) = None
        self._waiting = False  # whether the caller of `advance` waits for a signal
        self._ring: Ring[int] = Ring(0)
        self._attach(space.index)
        space.subscribe(IndexReplaced, lambda event: self._attach(event.index))
        space.subscribe(CursorsLost, lambda _: self._reset())
        space.subscribe(Suspended, lambda _: self._shrink())

    def watch(self) -> None:
        """Count one watcher more. Call `unwatch` once at its end."""
        with self._guard:
            self._watchers += 1
            self._hurry()

    def unwatch(self) -> None:
        """Count one watcher less."""
        with self._guard:
            self._watchers -= 1
            self._hurry()

    def publish(self, part: Part) -> None:
        """Add a part to a draft. Raises InvalidField."""
        name, draft_id, channel, offset, text, done = part
        self.drafts.publish(name, channel, draft_id, offset, text, done=done)

    def expired(self, conversation_id: str, draft_id: str) -> None:
        """Do nothing: the drafts were here alone."""

    def touch(self, about: About) -> None:
        """Note that a draft of this conversation grew or ended."""
        with self._guard:
            self._touched.add(about)
            self._signal()

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal` when `advance` has something to do, and now if it has. It must return at
        once.
        """
        with self._guard:
            self._signal = signal
        signal()

    def expect(self) -> None:
        """Note that the caller of `advance` waits for the next signal from now on."""
        with self._guard:
            self._waiting = True
            self._hurry()
            if self._inbox or self._touched or self._renewed:
                self._signal()

    def settle(self) -> None:
        """Wait until every acknowledged change is behind a position of this log. Raises
        IndexUnavailable.
        """
        index = self._index
        end = index.log.last_cursor()
        with self._guard:
            self._grown.wait_for(
                lambda: self._ring.latest >= end or self._index is not index, _LONGEST_REST
            )

    def tick(self) -> None:
        """Do nothing: the index follows itself."""

    def advance(self) -> NewUpdates:
        """Make updates of the changes that came, and return a summary of them."""
        with self._guard:
            self._waiting = False
            self._hurry()
            epoch, taken = self._index.log.epoch, list(self._inbox)
            self._inbox.clear()
            everyone, self._renewed = self._renewed, False
            about, self._touched = self._touched, set()
        entries: list[Entry[int]] = []
        deleted: dict[str, int] = {}
        redacted = False
        for cursor, notice in taken:
            for placed in placed_updates(epoch, cursor, notice):
                entries.append(self._entry(placed))
                end_drafts(self.drafts, placed.update)
                if isinstance(placed.update.kind, Deleted):
                    deleted[placed.update.conversation_id] = placed.cursor
                redacted = redacted or isinstance(placed.update.kind, Redacted)
        with self._guard:
            if epoch == self._index.log.epoch:
                self._extend(entries, deleted)
                if redacted:
                    # The ring may have the text. Watchers that are behind read the transcript.
                    self._shrink()
        if about:
            self.drafts.show({conversation_id for conversation_id, _ in about})
        about.update(entry.about for entry in entries)
        return NewUpdates(about, len(entries), everyone)

    def behind(self, position: Position, interest: Interest, most: int) -> tuple[Batch, Position]:
        """Return the oldest wanted updates behind a position, and the position behind all that were
        examined.

        The last answer is cached, because many streams ask for the same in turn. Raises Renewed if
        the log does not reach back to the position; IndexUnavailable, StorageUnavailable.
        """
        with self._guard:
            if position.epoch != self._index.log.epoch:
                raise Renewed
            index = self._index
            if position.cursor >= self._ring.latest:
                return Batch([]), position
            question = (position, interest, most, self._ring.latest)
            if self._answered and self._answered[0] == question:
                return self._answered[1]
            newest = self._ring.run(position.cursor, most)
        if newest is None:
            return self._older(index, position, interest, min(most, _PART))
        run, last = newest
        batch = Batch([entry.data for entry in run if interest.wants(entry.about)])
        answer = batch, Position(position.epoch, last)
        with self._guard:
            if question[-1] == self._ring.latest:  # else it may hold what was deleted since
                self._answered = question, answer
        return answer

    def _older(
        self, index: Index, position: Position, interest: Interest, most: int
    ) -> tuple[Batch, Position]:
        changes = index.log.changes(
            position.cursor, most, interest.conversation_ids, interest.channels, _PART_BYTES
        )
        if not changes.whole:
            raise Renewed
        placed = read(index.log.epoch, self.space.lines, changes)
        entries = [entry for entry in map(self._entry, placed) if interest.wants(entry.about)]
        last = changes.rows[-1].cursor if changes.more else changes.last
        return Batch([entry.data for entry in entries]), Position(position.epoch, last)

    def _entry(self, placed: Placed) -> Entry[int]:
        return Entry(
            placed.cursor,
            (placed.update.conversation_id, placed.channel),
            self.encode(placed.update),
        )

    def _extend(self, entries: list[Entry[int]], deleted: dict[str, int]) -> None:
        """Append new entries (see `Ring.extend`)."""
        new = [entry for entry in entries if entry.cursor > self._ring.latest]
        if not new:
            return
        self._ring.extend(new, deleted, new[-1].cursor)
        self._grown.notify_all()
        if deleted:
            self._answered = None

    # The index ------------------------------------------------------------------------------------

    def _attach(self, index: Index) -> None:
        """Attach another index, while nothing is written."""
        latest = index.log.last_cursor()
        with self._guard:
            self._index = index
            self._inbox.clear()
            self._ring.clear(latest)
            self._answered = None
            self._renewed = True
            self._hurry()
            self._signal()
            self._grown.notify_all()
        index.log.listen(partial(self._receive, index))

    def _reset(self) -> None:
        """Report that acknowledged cursors will never be delivered: their streams start again."""
        with self._guard:
            self.resets += 1
            self._renewed = True
            self._signal()

    def _hurry(self) -> None:
        """Let the index know whether a watcher waits for changes. If none does, it takes in more
        at a time, at a lower cost per change.
        """
        self._index.log.set_watched(self._waiting and self._watchers > 0)

    def _receive(self, index: Index, notices: Sequence[tuple[int, object]]) -> None:
        with self._guard:
            if index is not self._index:
                return
            if self._watchers or self._inbox or self.drafts.any():
                self._inbox += notices
                self._signal()
                return
            # Without watchers nothing is kept: a new one reads the index's log.
            cursor, last = notices[-1]
            self._shrink(cursor + len(getattr(last, "updates", (last,))))

    def _shrink(self, latest: int | None = None) -> None:
        """Keep no updates in memory: they are read from the index's log again."""
        with self._guard:
            self._ring.clear(self._ring.latest if latest is None else latest)
            self._answered = None

    def position_of(self, cursor: str) -> Position | None:
        """Return the position that a cursor names; None if the log does not reach back to it.
        Raises InvalidField, IndexUnavailable.
        """
        position = Position.of(cursor)
        if position is None and Mark.of(cursor) is None:
            raise InvalidField.of("cursor", "is not a cursor that this service gave out")
        index = self._index
        if position is None or position.epoch != index.log.epoch:
            return None
        if position.cursor > index.log.given_out():
            return None  # this log lost its end: an older copy of it was put back
        self.settle()  # else it would count as having missed nothing
        return position if index.log.changes(position.cursor, 0, (), ()).whole else None

    def begin(self) -> Position:
        """Return the position behind everything that is acknowledged. A snapshot of the index that
        is taken from here on has all of it. Raises IndexUnavailable.
        """
        return Position(self._index.log.epoch, self._index.log.last_cursor())

    def placed(
        self,
        start: Position,  # noqa: ARG002 - of a shared log
        index: Index,
        newest: Newest,
    ) -> tuple[Position, dict[str, int]]:
        """Return the position of a snapshot of an index, and what of it comes behind that position
        (see `SharedLog.placed`): here nothing.
        """
        return Position(index.log.epoch, newest.cursor), {}


def end_drafts(drafts: Drafts, update: Update) -> None:
    """Land the drafts that an update completes before it can be read, so that no stream sends more
    of them after it.
    """
    match update.kind:
        case Updated(draft_id=draft_id) if draft_id:
            drafts.land(update.conversation_id, draft_id)
        case Deleted():
            drafts.forget(update.conversation_id)
        case _:
            pass


def _ignore() -> None:
    """Ignore a signal: nobody listens yet."""
