"""Update log that watchers read: the newest updates in memory, encoded once for all, and before
them the index's log.

The index tells its news in its writer's thread, after they are committed, in the order of their
cursors. Here they only wait in an inbox; whoever calls `advance` makes updates of them. So nobody
is told of a change before it is in the index, and a change that a watcher was told of is found
behind every earlier cursor.
"""

import re
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from recollect_server.domain.update import Deleted, Redacted, Update, Updated
from recollect_server.services.space.events import CursorsLost, IndexReplaced, Suspended
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts
from recollect_server.services.streaming.reading import Placed, read, told
from recollect_server.storage.index.index import Index

_POSITION = re.compile(r"([0-9a-f]{12})-(\d{1,19})", re.ASCII)
_RING_BYTES = 32 << 20
_RING_ENTRIES = 50_000
_PART = 500  # changes read from the index at once
_PART_BYTES = 4 << 20  # of their messages: whoever missed much is read for a part at a time
_LONGEST_REST = 1.0  # seconds: whoever calls `advance` rests less between two calls

Encode = Callable[[Update], bytes]
About = tuple[str, str]
"""Subject of an update: the conversation's id, and its channel (empty: not known any more)."""


@dataclass(frozen=True, slots=True)
class Interest:
    """Filter of a watcher; an empty part matches all."""

    conversation_ids: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()

    def wants(self, about: About) -> bool:
        """Return whether the filter matches."""
        conversation_id, channel = about
        return (not self.conversation_ids or conversation_id in self.conversation_ids) and (
            not self.channels or not channel or channel in self.channels
        )

    def wants_any(self, them: Collection[About]) -> bool:
        """Return whether the filter matches any of them."""
        return self.everything or any(map(self.wants, them))

    @property
    def everything(self) -> bool:
        """Return whether the filter excludes nothing."""
        return not self.conversation_ids and not self.channels


@dataclass(frozen=True, slots=True)
class Entry:
    """An update as it is sent."""

    cursor: int
    about: About
    data: bytes


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


@dataclass(slots=True)
class Batch:
    """Updates that follow each other, encoded: the same one for all who are sent the same."""

    updates: list[bytes]
    packed: dict[int, list[bytes]] = field(default_factory=dict)
    """As elements of a stream, by how many updates each holds: kept here by whoever makes them."""


@dataclass(frozen=True, slots=True)
class News:
    """Changes since the last call of `advance`."""

    about: Collection[About]
    updates: int
    everyone: bool
    """True if the index is another one now: it concerns every watcher."""


class Renewed(Exception):
    """The index is another one, or its log no longer reaches back: begin again."""


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
        self._signal: Callable[[], None] = _unheard
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
        self._waiting = False  # whether whoever calls `advance` waits for news
        self._ring: list[Entry] = []
        self._ring_bytes = 0
        self._after = 0  # the ring has everything behind this cursor up to `_latest`
        self._latest = 0
        self._attach(space.index)
        space.subscribe(IndexReplaced, lambda event: self._attach(event.index))
        space.subscribe(CursorsLost, lambda _: self._reset())
        space.subscribe(Suspended, lambda _: self._shrink())

    @property
    def epoch(self) -> str:
        """Of the index that is used now."""
        return self._index.log.epoch

    @property
    def latest(self) -> int:
        """The last cursor that was told."""
        return self._latest

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

    def touch(self, about: About) -> None:
        """Note that a draft of this conversation grew or ended."""
        with self._guard:
            self._touched.add(about)
            self._signal()

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal` when there is news for `advance`, and now if there is some. It must return
        at once.
        """
        with self._guard:
            self._signal = signal
        signal()

    def expect(self) -> None:
        """Note that whoever calls `advance` waits for news from now on."""
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
                lambda: self._latest >= end or self._index is not index, _LONGEST_REST
            )

    def advance(self) -> News:
        """Make updates of the news that came, and return what they are about."""
        with self._guard:
            self._waiting = False
            self._hurry()
            epoch, taken = self._index.log.epoch, list(self._inbox)
            self._inbox.clear()
            everyone, self._renewed = self._renewed, False
            about, self._touched = self._touched, set()
        entries: list[Entry] = []
        deleted: dict[str, int] = {}
        redacted = False
        for cursor, news in taken:
            for placed in told(epoch, cursor, news):
                entries.append(self._entry(placed))
                self._end_drafts(placed.update)
                if isinstance(placed.update.kind, Deleted):
                    deleted[placed.update.conversation_id] = placed.cursor
                redacted = redacted or isinstance(placed.update.kind, Redacted)
        with self._guard:
            if epoch == self._index.log.epoch:
                self._extend(entries, deleted)
                if redacted:
                    # It may have the text. The transcript has not: who is behind reads that.
                    self._shrink()
        if about:
            self.drafts.show({conversation_id for conversation_id, _ in about})
        about.update(entry.about for entry in entries)
        return News(about, len(entries), everyone)

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
            if position.cursor >= self._latest:
                return Batch([]), position
            question = (position, interest, most, self._latest)
            if self._answered and self._answered[0] == question:
                return self._answered[1]
            ring = self._ring if position.cursor >= self._after else None
            if ring is not None:
                start = bisect_right(ring, position.cursor, key=attrgetter("cursor"))
                run = ring[start : start + most]
                last = run[-1].cursor if start + most < len(ring) else self._latest
        if ring is None:
            return self._older(index, position, interest, min(most, _PART))
        batch = Batch([entry.data for entry in run if interest.wants(entry.about)])
        answer = batch, Position(position.epoch, last)
        with self._guard:
            if question[-1] == self._latest:  # else it may hold what was deleted since
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

    def _entry(self, placed: Placed) -> Entry:
        return Entry(
            placed.cursor,
            (placed.update.conversation_id, placed.channel),
            self.encode(placed.update),
        )

    def _end_drafts(self, update: Update) -> None:
        """Land the drafts that an update completes before it can be read, so that no stream sends
        more of them after it.
        """
        match update.kind:
            case Updated(draft_id=draft_id) if draft_id:
                self.drafts.land(update.conversation_id, draft_id)
            case Deleted():
                self.drafts.forget(update.conversation_id)
            case _:
                pass

    def _extend(self, entries: list[Entry], deleted: dict[str, int]) -> None:
        """Append new entries. `deleted`: the cursor of the deletion of each deleted
        conversation.
        """
        new = [entry for entry in entries if entry.cursor > self._latest]
        if not new:
            return
        self._latest = new[-1].cursor
        self._grown.notify_all()
        self._ring += new
        self._ring_bytes += sum(len(entry.data) for entry in new)
        if deleted:  # as in the index's log: of what is deleted, only that stays
            self._ring = [
                entry for entry in self._ring if entry.cursor >= deleted.get(entry.about[0], 0)
            ]
            self._ring_bytes = sum(len(entry.data) for entry in self._ring)
            self._answered = None
        while self._ring_bytes > _RING_BYTES or len(self._ring) > _RING_ENTRIES:
            # at once: a list gives up its front slowly
            half = self._ring[: len(self._ring) // 2 + 1]
            del self._ring[: len(half)]
            self._ring_bytes -= sum(len(entry.data) for entry in half)
            self._after = half[-1].cursor

    # The index ------------------------------------------------------------------------------------

    def _attach(self, index: Index) -> None:
        """Attach another index, while nothing is written."""
        latest = index.log.last_cursor()
        with self._guard:
            self._index = index
            self._inbox.clear()
            self._ring.clear()
            self._answered = None
            self._ring_bytes = 0
            self._after = self._latest = latest
            self._renewed = True
            self._hurry()
            self._signal()
            self._grown.notify_all()
        index.log.listen(partial(self._hear, index))

    def _reset(self) -> None:
        """Report that acknowledged cursors will never be delivered: their streams start again."""
        with self._guard:
            self.resets += 1
            self._renewed = True
            self._signal()

    def _hurry(self) -> None:
        """Tell the index whether anybody waits for news. If nobody does, it takes in more at a
        time, at a lower cost per change.
        """
        self._index.log.set_watched(self._waiting and self._watchers > 0)

    def _hear(self, index: Index, news: Sequence[tuple[int, object]]) -> None:
        with self._guard:
            if index is not self._index:
                return
            if self._watchers or self._inbox or self.drafts.any():
                self._inbox += news
                self._signal()
                return
            # Without watchers nothing is kept: a new one reads the index's log.
            cursor, last = news[-1]
            self._latest = cursor + len(getattr(last, "updates", (last,)))
            self._shrink()

    def _shrink(self) -> None:
        """Keep no updates in memory: whoever asks for one reads the index's log."""
        with self._guard:
            self._after = self._latest
            self._ring.clear()
            self._answered = None
            self._ring_bytes = 0


def _unheard() -> None:
    """Take a signal that nobody listens for."""
