"""The update log of one kind of log, and its watchers: every change in the order of the space, the
newest in memory, encoded once for all who watch.

Changes are followed while somebody watches, below the horizon of the order, where nothing can come
in between any more. No watcher receives a change before that, and a change that a watcher received
is found behind every earlier cursor. Where several processes share a store, the index of each takes
in what is committed as soon as it sees it, so its numbers are in an order that no other process
has; streams read the changes of the order, and the lines that these wrote.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar, cast

import structlog

from recollect_server.kernel.domain.errors import DataUnavailable, InvalidField
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.domain.update import Heartbeat, LogDeleted, Update
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.order import Following, Key, Mark, OrderedChange, OrderedChanges
from recollect_server.kernel.log.store import Position
from recollect_server.kernel.space.events import Resting
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.stream.replaying import Replaying, State
from recollect_server.kernel.stream.ring import About, Batch, Entry, Interest, Ring, batch_of

Encode = Callable[[Update], bytes]


@dataclass(frozen=True, slots=True)
class NewUpdates:
    """Summary of the updates that came since the last call of `advance`."""

    about: Collection[About]
    updates: int
    everyone: bool
    """True if the index is another one now: it concerns every watcher."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The beginning of a watch, encoded, and its place in the log."""

    position: Mark
    parts: tuple[bytes, ...]


class Renewed(Exception):
    """The index is another one, or its log no longer reaches back: begin again."""


log = structlog.get_logger("recollect.streams")

_PART = 500  # changes read from the store at once
_PART_BYTES = 4 << 20  # of their lines
_LONGEST_WAIT = 1.0  # seconds that a watcher which comes back waits for the horizon


Begun = TypeVar("Begun")


@dataclass(frozen=True, slots=True)
class _Incoming:
    """Changes that wait for `advance`, with their updates, up to a mark."""

    changes: list[OrderedChange]
    entries: list[Entry] | None
    """None: watchers read them from the store."""
    latest: Mark
    horizon: int


class UpdateLog(ABC, Generic[State]):
    """The update log of one kind of log. Safe to call from any thread, but for `advance`, which one
    thread calls.
    """

    kind: ClassVar[Kind]
    prefix: ClassVar[str] = ""
    """Text before a position in a cursor."""
    giver: ClassVar[str]
    """Name for what gives cursors out, in the error of another one."""
    keeps_newest: ClassVar[bool] = True
    """True if the newest updates are made as the changes come. False where a change may need all
    lines of its log: all streams wait for the thread that takes the changes, so watchers read them.
    """

    def __init__(self, space: Space, encode: Encode) -> None:
        """`encode` makes what is sent."""
        self.space = space
        self.encode = encode
        self.heartbeat: Callable[[str], bytes] = partial(_heartbeat, encode, space.clock)
        """Returns a heartbeat with a cursor. It goes on once the space is closed."""
        self.order = space.order
        self.resets = 0
        """Number of times that every watcher had to begin again."""
        self._makes = threading.Lock()  # guards `_states`; held while lines are read
        self._states = Replaying(space.store, self._folded, self._indexed)
        self._begins = threading.Lock()  # held while the following begins or ends
        # guards everything below; nothing slow happens under it
        self._guard = threading.Condition()
        self._following: Following | None = None
        self._watchers = 0
        self._signal: Callable[[], None] = _ignore
        self._is_awaited = False  # whether the caller of `advance` waits for a signal
        self._is_collecting = False  # whether it will see what comes, without a signal
        self._inbox: deque[_Incoming] = deque()
        self._touched: set[About] = set()  # what concerns watchers beside updates
        self._is_redacted = False  # what waits in the inbox may have a text that was removed
        self._renewed = False
        self._answered: tuple[tuple[Mark, Interest, int, Mark], tuple[Batch, Mark]] | None = None
        """The last answer: many ask for the same in turn."""
        self._timeline = 0
        self._latest = Mark("", 0, Key(), 0)
        self._horizon = 0  # everything below it can be read here
        self._ring = Ring(Key())
        space.subscribe(Resting, lambda _: self._shrink())

    # What differs between the kinds ---------------------------------------------------------------

    @abstractmethod
    def _folded(self, before: State | None, line: Line, name: str) -> State | None:
        """Return the state of a log behind a line."""

    def _indexed(self, name: str) -> tuple[Position, State] | None:  # noqa: ARG002
        """Return what the index has of a log, and up to where, if that is the whole state."""
        return None

    @abstractmethod
    def _kinds_of(self, change: OrderedChange, state: State) -> Iterator[tuple[int, int, object]]:
        """Yield the updates of lines that were written: the last line of each, its time, and what
        it says by the state behind the change, or a later one.
        """

    def _delivers(self, changes: list[OrderedChange]) -> None:
        """Take note of changes whose updates can be read from now on. Nobody reads meanwhile."""

    # Watchers -------------------------------------------------------------------------------------

    def subscribed(self, begin: Callable[[], Begun]) -> Begun:
        """Count one watcher more, follow the changes from the first one on, and return what `begin`
        makes for it. Raises what that raises, StorageUnavailable.
        """
        with self._begins:
            if self._following is None:
                following = self.order.follow(self.kind, self._take, self._lost, self._ready)
                self._begin(following)
                following.start()
            with self._guard:
                self._watchers += 1
                self._await()
        try:
            return begin()
        except BaseException:
            self.unsubscribe()
            raise

    def unsubscribe(self) -> None:
        """Count one watcher less. It waits for nothing: the end of a call calls it."""
        with self._guard:
            self._watchers -= 1
            self._await()

    def tick(self) -> None:
        """Follow nothing if nobody watches."""
        if self._following is None or self._watchers:
            return  # and it waits for nobody who begins
        with self._begins:
            if not self._watchers:
                self._unfollow()

    @property
    def is_unfinished(self) -> bool:
        """Return whether something is on its way to the watchers, or a draft may still grow."""
        # Streams of a folder get an append that its index refused once the index takes it, which
        # only an open space tries again.
        is_lagging = self.space.store.order is None and self.space.overlay.is_any_lagging
        return is_lagging or self.space.index.waiting()[0] > 0

    def leave(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Follow nothing any more although somebody watched: the space is to be closed. `wake` is
        called, from any thread and perhaps at once, when something comes that no watcher had.
        Return the function that ends this.
        """
        is_first = True

        def take(changes: OrderedChanges) -> None:
            nonlocal is_first
            # Parts that come first were published before: with one that may still grow the space
            # is not closed.
            if changes.rows or (changes.parts and not is_first):
                wake()
            is_first = False

        following: Following | None = None
        try:
            if shared := self.space.store.order:
                following = shared.follow(self.kind, take, wake, _ignore)
            end = following.mark if following else self.order.now()
            with self._guard:
                latest = self._latest
                is_level = (latest.epoch, latest.timeline) == (end.epoch, end.timeline)
                is_level = is_level and latest.key >= end.key
                is_level = is_level and not (self._inbox or self._touched or self._renewed)
        except DataUnavailable:
            is_level = False
        with self._begins:
            self._unfollow()
        if not is_level:
            wake()
        if following is None:
            return _ignore
        following.start()
        return following.close

    def _unfollow(self) -> None:
        """Follow nothing. Hold `_begins`."""
        following, self._following = self._following, None
        if following is not None:
            following.await_next(awaited=False)
            following.close()
            self._clear_states()
            self._drop()

    def listen(self, signal: Callable[[], None]) -> None:
        """Register the function that is called whenever `advance` has something to do. It must
        return at once. It is called once now, because something may wait already.
        """
        with self._guard:
            self._signal = signal
        signal()

    def expect(self) -> None:
        """Note that the caller of `advance` waits for the next signal from now on."""
        with self._guard:
            self._is_awaited = True
            self._await()
            if self._inbox or self._touched or self._renewed:
                self._signal()

    def _await(self) -> None:
        """Tell what is followed whether somebody waits for the next change."""
        if self._following is not None:
            self._following.await_next(awaited=self._is_awaited and self._watchers > 0)

    def _begin(self, following: Following) -> None:
        with self._guard:
            self._following, self._horizon = following, 0
            self._latest = following.mark
            self._timeline = following.mark.timeline
            self._drop()

    def _clear_states(self) -> None:
        with self._makes:
            self._states.clear()

    def _drop(self) -> None:
        """Keep nothing in memory, what `advance` did not take neither."""
        with self._guard:
            self._inbox.clear()
            self._ring.clear(self._latest.key)
            self._answered = None

    def _shrink(self) -> None:
        """Keep no updates in memory: they are read from the store again."""
        with self._guard:
            self._ring.clear(self._ring.latest)
            self._answered = None

    def _redacted(self, name: str) -> None:
        """Keep no text in memory of a log that was redacted here."""
        with self._makes:
            self._states.forget(name)
        with self._guard:
            self._is_redacted = True
            self._shrink()

    # What comes -----------------------------------------------------------------------------------

    def _ready(self) -> None:
        """Have the caller of `advance` collect what came."""
        with self._guard:
            self._signal()

    def _take(self, changes: OrderedChanges) -> None:
        """Take the next changes. Raises StorageUnavailable if a copy of the store took over that
        cannot be read.
        """
        following = self._following
        if following is None:
            return
        if following.mark.timeline != self._timeline:
            # A copy of the store took over. The states may be of the index, which may have more.
            self.space.follow()
            self._clear_states()
            self._timeline = following.mark.timeline
        latest = _behind(following.mark, changes.rows)
        own = [it for it in changes.rows if it.kind == self.kind]
        entries: list[Entry] | None = None
        if self.keeps_newest:
            try:
                entries = self._entries(following.mark, own)
            except Exception as error:  # whatever it is: the changes must not be kept for it
                is_foreseen = isinstance(error, DataUnavailable)
                log.warning("updates_not_made", reason=str(error), exc_info=not is_foreseen)
        with self._guard:
            if not changes.rows and not self._inbox:
                # Nothing for `advance`, in many spaces at once.
                self._latest, self._horizon = latest, changes.complete_before
                self._guard.notify_all()
                return
            self._inbox.append(_Incoming(own, entries, latest, changes.complete_before))
            if not self._is_collecting:
                self._signal()

    def _lost(self) -> None:
        """Begin again: a copy of the store lacks some delivered changes, or there is another
        index.
        """
        self._clear_states()
        with self._guard:
            self.resets += 1
            self._renewed = True
            if self._following is not None:
                self._latest = self._following.mark
            self._drop()
            self._guard.notify_all()
            self._signal()

    def advance(self) -> NewUpdates:
        """Make the updates that came readable, and return a summary of them."""
        with self._guard:
            self._is_awaited, self._is_collecting = False, True
            self._await()
        if (following := self._following) is not None:
            following.collect()
        with self._guard:
            self._is_collecting = False
            taken = list(self._inbox)
            self._inbox.clear()
            everyone, self._renewed = self._renewed, False
            about, self._touched = self._touched, set()
            count = 0
            for incoming in taken:
                actions = {it.action for it in incoming.changes}
                deleted = {it.log: it.end for it in incoming.changes if it.action is Action.DELETE}
                if deleted:
                    self._answered = None
                self._latest, self._horizon = incoming.latest, incoming.horizon
                if incoming.entries is None:
                    about.update((it.log, it.channel) for it in incoming.changes)
                    count += len(incoming.changes)
                    self._ring.clear(incoming.latest.key)
                else:
                    about.update(entry.about for entry in incoming.entries)
                    count += len(incoming.entries)
                    self._ring.extend(incoming.entries, deleted, incoming.latest.key)
                if Action.REDACT in actions or self._is_redacted:
                    # The ring may have the text. Watchers that are behind read the log.
                    self._shrink()
            self._is_redacted = False
            self._delivers([it for incoming in taken for it in incoming.changes])
            if taken:
                self._guard.notify_all()
        return NewUpdates(about, count, everyone)

    # What is read ---------------------------------------------------------------------------------

    def behind(self, position: Mark, interest: Interest, most: int) -> tuple[Batch, Mark]:
        """Return the oldest wanted updates behind a position, and the position behind all that were
        examined. Raises Renewed, StorageUnavailable.
        """
        with self._guard:
            latest, horizon = self._latest, self._horizon
            if latest.epoch != position.epoch:
                raise Renewed
        if position.timeline != latest.timeline:
            # One of the two is from before a takeover.
            self._check(position)
            if self.order.timeline() != latest.timeline:
                return Batch([]), position  # until what took over is followed
            position = replace(position, timeline=latest.timeline)
        with self._guard:
            if not position.missing:
                if position.key >= latest.key:
                    return Batch([]), position
                question = (position, interest, most, latest)
                if self._answered and self._answered[0] == question:
                    return self._answered[1]
                if newest := self._ring.run(position.key, most):
                    run, key = newest
                    end = latest if key == latest.key or not run else run[-1].mark
                    self._answered = question, (batch_of(run, interest), end)
                    return self._answered[1]
        if position.missing:
            entries, end = self._missed(position, horizon, interest, most)
        else:
            entries, end = self._older(position, latest, interest, most)
        answer = batch_of(entries, interest), end
        with self._guard:
            if not position.missing and self._latest == latest and not self._is_redacted:
                self._answered = (position, interest, most, latest), answer
        return answer

    def _older(
        self, position: Mark, latest: Mark, interest: Interest, most: int
    ) -> tuple[list[Entry], Mark]:
        """Read updates from the store, up to what is in memory."""
        changes = self._read(position, position.key, most)
        rows = [row for row in changes.rows if row.transaction <= latest.key.transaction]
        entries = self._entries(position, _watched(rows, interest))
        is_cut = changes.more and len(rows) == len(changes.rows)
        end = _behind(position, rows) if is_cut else latest
        return [it for it in entries if it.mark.key > position.key], end

    def _missed(
        self, position: Mark, horizon: int, interest: Interest, most: int
    ) -> tuple[list[Entry], Mark]:
        """Read the oldest updates of transactions that had not ended when a cursor was given out,
        and have now. Each brings a cursor that says so.
        """
        ended = position.ended(horizon)
        if not ended:
            return [], position
        changes = self._read(position, ended[0], most, [it.transaction for it in ended])
        entries = self._entries(
            position,
            _watched(changes.rows, interest),
            lambda mark: self.cursor(position.without(mark.key)),
        )
        end = changes.rows[-1].end if changes.more else Key(horizon)
        return [it for it in entries if position.lacks(it.mark.key)], position.without(end)

    def _read(
        self, position: Mark, key: Key, most: int, only: Sequence[int] = ()
    ) -> OrderedChanges:
        """Read the oldest changes behind a key, for a watcher at a position. Raises Renewed if
        some of them were pruned, or lost with a server of PostgreSQL, before they were read.
        """
        changes = self.order.after(key, self.kind, min(most, _PART), _PART_BYTES, only)
        self._check(position)
        return changes

    def _check(self, position: Mark) -> None:
        if not self.order.reaches(position, self.kind):
            raise Renewed

    def _entries(
        self,
        before: Mark,
        changes: Sequence[OrderedChange],
        cursor: Callable[[Mark], str] | None = None,
    ) -> list[Entry]:
        """Return the updates of changes. `before` is a mark before them; `cursor` makes the cursors
        that they have.
        """
        with self._makes:
            return [
                entry
                for change in changes
                if change.kind == self.kind
                for entry in self._entries_of(
                    change, _behind(before, [change]), cursor or self.cursor
                )
            ]

    def _entries_of(
        self, change: OrderedChange, end: Mark, cursor: Callable[[Mark], str]
    ) -> Iterator[Entry]:
        """Yield the updates of a change. One of a line before its last one has its own mark, even
        if it comes last since lines behind it were redacted.
        """
        if change.action is Action.DELETE:
            self._states.forget(change.log)
            deletion = Update(cursor(end), change.log, change.time, LogDeleted())
            yield Entry((change.log, change.channel), self.encode(deletion), end)
            return
        if not change.lines:
            return
        state = cast("State | None", change.state) or self._states.behind(change)
        if state is None:
            return
        for last, at_time, kind in self._kinds_of(change, state):
            mark = end
            if last < change.lines[-1].sequence:
                mark = replace(end, key=Key(change.transaction, change.number, last))
            update = Update(cursor(mark), change.log, at_time, kind)
            yield Entry((change.log, state.channel), self.encode(update), mark)

    # Positions ------------------------------------------------------------------------------------

    def cursor(self, mark: Mark) -> str:
        """Return a position in the form that callers see."""
        return f"{self.prefix}{mark}"

    def position_of(self, cursor: str) -> Mark | None:
        """Return the position that a cursor names; None if the store does not reach back to it.
        Raises InvalidField, DataUnavailable.
        """
        is_own = cursor.startswith(self.prefix)
        mark = Mark.of(cursor.removeprefix(self.prefix)) if is_own else None
        if mark is None:
            raise InvalidField.of("cursor", f"is not a cursor that this {self.giver} gave out")
        if not self.order.reaches(mark, self.kind):
            return None  # it is too old, or of another store or index
        self._settle()  # else it would count as having missed nothing
        return mark

    def _settle(self) -> None:
        """Wait until everything that is visible now is delivered, but not for a transaction that
        stays open.
        """
        end = self.order.now().key.transaction
        until = time.monotonic() + _LONGEST_WAIT
        self.order.hurry()
        with self._guard:
            self._guard.wait_for(lambda: self._has(end), until - time.monotonic())

    def _has(self, end: int) -> bool:
        """Return whether everything up to a transaction can be read here. Before the horizon is
        known, nothing can that had not ended when a cursor was given out.
        """
        is_level = self._horizon > 0 and self._latest.key.transaction >= end
        return is_level or self._horizon > end or self._renewed

    def begin(self) -> Mark:
        """Return the position behind everything that is visible now, and let the index have that.
        Raises DataUnavailable.
        """
        mark = self.order.now()
        self.space.follow()
        return mark


class Watcher:
    """One watcher: its place in a log, and what comes next for it. It holds no update. One thread
    at a time may call it.
    """

    __slots__ = ("_log", "_parts", "_position", "_resets", "_snapshot", "interest")

    def __init__(
        self,
        log: UpdateLog[Any],
        snapshot: Callable[..., Snapshot],
        cursor: str,
        interest: Interest,
    ) -> None:
        """Begins behind a cursor, or with what `snapshot` returns; its argument `reset` is True if
        a cursor is void.

        Raises InvalidField, ConversationNotFound, DataUnavailable.
        """
        self.interest = interest
        self._log = log
        self._snapshot = snapshot
        self._parts: tuple[bytes, ...] = ()
        self._resets = log.resets
        self._position: Mark
        if cursor and (position := log.position_of(cursor)):
            self._position = position
        else:
            self._begin(reset=bool(cursor))

    def take(self, most: int) -> tuple[Batch, bool]:
        """Return at most `most` updates that come next, and whether more wait. Raises
        DataUnavailable.

        The returned updates count as delivered.
        """
        if self._parts:
            parts, self._parts = self._parts, ()
            return Batch(list(parts)), True
        before = self._position
        try:
            if self._resets != self._log.resets:
                raise Renewed
            batch, self._position = self._log.behind(before, self.interest, most)
        except Renewed:
            self._begin(reset=True)
            return self.take(most)
        # Changes of other logs may have been passed: then there may be more behind them.
        if batch.updates or self._position != before:
            return batch, True
        # An answer is shared by those who ask the same; to an empty one a heartbeat may be added.
        return Batch(self._unplaced()), False

    @property
    def cursor(self) -> str:
        """Return the position behind what was taken; empty before the snapshot is."""
        return "" if self._parts else self._log.cursor(self._position)

    def end(self) -> None:
        """Watch no more. It waits for nothing."""
        self._log.unsubscribe()

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""
        return new.everyone or (bool(new.about) and self.interest.wants_any(new.about))

    def _unplaced(self) -> list[bytes]:
        """Return what comes at no place."""
        return []

    def _begin(self, *, reset: bool) -> None:
        """Begin with a snapshot."""
        resets = self._log.resets
        snapshot = self._snapshot(reset=reset)
        self._resets = resets  # only now: a snapshot that fails is taken again
        self._position, self._parts = snapshot.position, snapshot.parts


def _heartbeat(encode: Encode, clock: Clock, cursor: str) -> bytes:
    return encode(Update(cursor, "", clock(), Heartbeat()))


def _behind(before: Mark, changes: Sequence[OrderedChange]) -> Mark:
    """Return the mark behind changes; `before` is one before them."""
    if not changes:
        return before
    return Mark(before.epoch, before.timeline, changes[-1].end, changes[-1].tag)


def _watched(changes: Sequence[OrderedChange], interest: Interest) -> list[OrderedChange]:
    """Return the changes without the appends to logs that a watcher does not want: nothing is read
    for those, so over a shared store such a log that cannot be read delays its own watchers alone.
    Deletes and redactions stay, for the states that are kept for others.
    """
    return [
        it
        for it in changes
        if it.action is not Action.APPEND or interest.wants((it.log, it.channel))
    ]


def _ignore() -> None:
    """Ignore a signal: nobody listens yet."""
