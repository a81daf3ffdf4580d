"""Log of the changes of one kind, followed in the order of a space while somebody watches.

Where several processes share a store, the index of each takes in what is committed as soon as it
sees it, so its numbers are in an order that no other process has. Streams read the changes of the
order below its horizon, where nothing can come in between any more, and the lines that these wrote.
No watcher receives a change before that, and a change that a watcher received is found behind every
earlier cursor.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from recollect_server.domain.errors import InvalidField
from recollect_server.domain.external import CommunicationUpdate
from recollect_server.domain.update import Heartbeat, Update
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.replaying import Replaying, State
from recollect_server.services.streaming.watching import Batch, NewUpdates, Renewed
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.order import (
    Following,
    Key,
    Mark,
    Order,
    OrderedChange,
    OrderedChanges,
)

_PART = 500  # changes read from the store at once
_PART_BYTES = 4 << 20  # of their lines
_LONGEST_WAIT = 1.0  # seconds that a watcher which comes back waits for the horizon

Value = TypeVar("Value", bound=Update | CommunicationUpdate)
Begun = TypeVar("Begun")


@dataclass(frozen=True, slots=True)
class Placed(Generic[Value]):
    """An update with its place in the order."""

    mark: Mark
    update: Value
    channel: str = ""


class FollowedLog(ABC, Generic[State, Value]):
    """Base of the logs that streams read. Safe to call from any thread."""

    kind: ClassVar[Kind]
    prefix: ClassVar[str] = ""
    """Text before a position in a cursor."""
    giver: ClassVar[str]
    """Name for what gives cursors out, in the error of another one."""
    value: ClassVar[type[Update | CommunicationUpdate]]
    """Type of its updates."""

    def __init__(
        self, space: Space, order: Order, states: Replaying[State], encode: Callable[[Value], bytes]
    ) -> None:
        """`encode` makes what is sent."""
        self.space = space
        self.encode = encode
        self.order = order
        self._makes = threading.Lock()  # guards `_states`; held while lines are read
        self._states = states
        self._begins = threading.Lock()  # held while the following begins or ends
        # guards everything below; nothing slow happens under it
        self._guard = threading.Condition()
        self._following: Following | None = None
        self._watchers = 0
        self._signal: Callable[[], None] = _ignore
        self._horizon = 0  # everything below it can be read here

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
            if self._watchers or self._following is None:
                return
            following, self._following = self._following, None
            following.await_next(awaited=False)
            following.close()
            self._clear()

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which returns at once, when `advance` has something to do; and now, for it
        may have.
        """
        with self._guard:
            self._signal = signal
        signal()

    @abstractmethod
    def expect(self) -> None:
        """Note that the caller of `advance` is idle: the next change is to be signalled soon."""

    @abstractmethod
    def advance(self) -> NewUpdates:
        """Take the changes that came, and return a summary of them. One thread calls it."""

    def _collect(self) -> None:
        if (following := self._following) is not None:
            following.collect()

    def _ready(self) -> None:
        """Have the caller of `advance` collect what came."""
        with self._guard:
            self._signal()

    def _begin(self, following: Following) -> None:
        with self._guard:
            self._following, self._horizon = following, 0

    def _await(self) -> None:
        """Tell what is followed whether somebody waits for the next change."""

    def _clear(self) -> None:
        """Keep no states in memory."""
        with self._makes:
            self._states.clear()

    @abstractmethod
    def _take(self, changes: OrderedChanges) -> None:
        """Take the next changes, in the thread of the store. Raises StorageUnavailable."""

    @abstractmethod
    def _lost(self) -> None:
        """Begin again: a copy of the store lacks some delivered changes, or there is another
        index.
        """

    # What is read ---------------------------------------------------------------------------------

    def heartbeat(self, position: Mark) -> bytes:
        """Return a heartbeat with a position."""
        now = self.space.clock()
        return self.encode(cast(Value, self.value(self.cursor(position), "", now, Heartbeat())))

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
        if not self.order.reaches(position):
            raise Renewed

    def _missed(self, position: Mark, horizon: int, most: int) -> tuple[list[Placed[Value]], Mark]:
        """Read the oldest updates of transactions that had not ended when a cursor was given out,
        and have now. Each brings a cursor that says so.
        """
        ended = position.ended(horizon)
        if not ended:
            return [], position
        changes = self._read(position, ended[0], most, [it.transaction for it in ended])
        missed = [
            replace(
                it, update=replace(it.update, cursor=self.cursor(position.without(it.mark.key)))
            )
            for it in self._updates(position, changes.rows)[0]
            if position.lacks(it.mark.key)
        ]
        end = changes.rows[-1].end if changes.more else Key(horizon)
        return missed, position.without(end)

    def _updates(
        self, before: Mark, changes: Sequence[OrderedChange]
    ) -> tuple[list[Placed[Value]], Mark]:
        """Return the updates of changes, and the mark behind them. `before` is one before them."""
        placed: list[Placed[Value]] = []
        mark = before
        with self._makes:
            for change in changes:
                mark = Mark(before.epoch, before.timeline, change.end, change.tag)
                if change.kind == self.kind:
                    placed += self._updates_of(change, mark)
        return placed, mark

    @abstractmethod
    def _updates_of(self, change: OrderedChange, end: Mark) -> list[Placed[Value]]:
        """Return the updates of a change. That of its last line has the mark of its end."""

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
        if not self.order.reaches(mark):
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
        """Return whether everything up to a transaction can be read here."""
        return self._horizon > end

    def begin(self) -> Mark:
        """Return the position behind everything that is visible now, and let the index have that.
        Raises DataUnavailable.
        """
        mark = self.order.now()
        self.space.follow()
        return mark


class Watcher(ABC):
    """One watcher: its place in a log, and what comes next for it. It holds no update. One thread
    at a time may call it.
    """

    __slots__ = ("_log", "_parts", "_position")

    def __init__(self, log: FollowedLog[Any, Any], cursor: str) -> None:
        """Begins with a snapshot, or behind a cursor.

        Raises InvalidField, ConversationNotFound, DataUnavailable.
        """
        self._log = log
        self._parts: tuple[bytes, ...] = ()
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
            batch, self._position = self._behind(before, most)
        except Renewed:
            self._begin(reset=True)
            return self.take(most)
        # Changes of other logs may have been passed: then there may be more behind them.
        if batch.updates or self._position != before:
            return batch, True
        # An answer is shared by those who ask the same; to an empty one a heartbeat may be added.
        return Batch(self._unplaced()), False

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the cursor."""
        return self._log.heartbeat(self._position)

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""
        return new.everyone

    def _unplaced(self) -> list[bytes]:
        """Return what comes at no place."""
        return []

    @abstractmethod
    def _begin(self, *, reset: bool) -> None:
        """Begin with a snapshot."""

    @abstractmethod
    def _behind(self, position: Mark, most: int) -> tuple[Batch, Mark]:
        """Return what comes behind a position, and the position behind that. Raises Renewed."""


def _ignore() -> None:
    """Ignore a signal: nobody listens yet."""
