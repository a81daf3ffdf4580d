"""Work that is due in spaces that are closed or at rest: notes whose idle time ends, words to
embed, updates to prune.

An open space does its own work. When it rests or closes it says when more will be due; a marker in
the data folder keeps that over a restart. `DueKeeper` opens the spaces whose work is due, a few at
a time, and lets them rest when it is done.
"""

import heapq
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from recollect_server.admin.due import DueMarkers
from recollect_server.kernel.domain.errors import (
    RecollectError,
    SpaceBeingDeleted,
    StorageUnavailable,
    TooManySpaces,
)
from recollect_server.kernel.domain.ids import is_space_name
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.space.spaces import Lease, Spaces
from recollect_server.run.jobs.loop import Loop, unforeseen

log = structlog.get_logger("recollect.spaces")

_SECONDS = 0.5  # between two looks,
_RESTING_SECONDS = 60.0  # and while nothing will be due
_AT_ONCE = 2  # spaces that are open for their work alone
_LONGEST = 60.0  # seconds that one of them is open while others wait
_OUT_OF_DATE = 100  # entries of the queue beyond twice those that count
_AWAITED_SECONDS = 2.0  # between two looks for what others wait for
_PATIENCE = 0.5  # seconds of an opening after which another thread opens the others
_MOST_PAUSE = 10.0  # seconds between two tries of a space that cannot be opened for its streams
_NO_PAUSE = 0.0, _SECONDS
_LATER = 60_000  # milliseconds to the next try of a space that cannot be opened


class DueWork:
    """Due times of closed spaces, in milliseconds. Safe to call from any thread."""

    def __init__(self, markers: DueMarkers, default_space: str) -> None:
        """`default_space` has no marker: every start opens it."""
        self._markers = markers
        self._default_space = default_space
        self._guard = threading.Lock()  # guards everything below
        self._wake: Callable[[], None] = lambda: None
        self._times: dict[str, int] = {}
        self._opened: set[str] | None = set()  # before the markers were read; None: they were
        self._queue: list[tuple[int, str]] = []  # of `_times`, and entries that are out of date

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Call `wake` when something will be due and nothing was. It may wait for nothing."""
        self._wake = wake

    def load(self) -> None:
        """Read the markers that an earlier server left, but for those of spaces that were opened
        since: these are this server's.
        """
        left = self._markers.all().items()
        with self._guard:
            opened, self._opened = self._opened or set(), None
            for space, due in left:
                if is_space_name(space) and space not in opened and space not in self._times:
                    self._add(space, due)

    def opened(self, space: str, now: int) -> None:
        """Note that a space is open. If this process is killed, it has work due."""
        with self._guard:
            self._times.pop(space, None)
            if self._opened is not None:
                self._opened.add(space)
        if space != self._default_space:
            self._markers.set(space, now)

    def closed(self, space: str, due: int | None) -> None:
        """Note that a space is closed; None: nothing will be due."""
        if due is None:
            self._markers.remove(space)
            return
        if space != self._default_space:
            self._markers.set(space, due)
        with self._guard:
            self._add(space, due)

    def request(self, space: str, due: int) -> None:
        """Have a space opened at a time: others wait for its work."""
        with self._guard:
            self._add(space, due)

    def postpone(self, space: str, due: int) -> None:
        """Try a space later: it cannot be opened now. No thread is woken: the one that took it
        looks again by itself, and a space that finds no place would be tried without a pause.
        """
        with self._guard:
            self._add(space, due, wakes=False)

    def take(self, now: int) -> str | None:
        """Return the space whose work is due for longest, and forget it; None if nothing is due."""
        with self._guard:
            while self._queue and self._queue[0][0] <= now:
                due, space = heapq.heappop(self._queue)
                if self._times.get(space) == due:
                    del self._times[space]
                    return space
        return None

    def is_empty(self) -> bool:
        """Return whether nothing will be due."""
        with self._guard:
            return not self._times

    def __len__(self) -> int:
        """Return the number of entries in the queue, those that are out of date included."""
        return len(self._queue)

    def _add(self, space: str, due: int, *, wakes: bool = True) -> None:
        if wakes and not self._times:
            self._wake()
        self._times[space] = due
        heapq.heappush(self._queue, (due, space))
        # A space that opens and closes leaves an entry behind each time, for days.
        if len(self._queue) > 2 * len(self._times) + _OUT_OF_DATE:
            self._queue = [(due, space) for space, due in self._times.items()]
            heapq.heapify(self._queue)


class DueKeeper:
    """A thread that looks after closed spaces. Started when made."""

    def __init__(self, spaces: Spaces[Any], due: DueWork, clock: Clock) -> None:
        self._spaces = spaces
        self._due = due
        self._clock = clock
        self._leases: dict[str, tuple[Lease[Any], float]] = {}
        self._is_loaded = False
        self._loop = Loop("due-keeper", self._look)
        due.wake_by(self._loop.wake)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread; the spaces that it has open are left to be closed."""
        self._loop.stop(self._spaces.patience())
        for lease, _ in self._leases.values():
            lease.end()

    def _look(self) -> float:
        if not self._is_loaded:
            self._due.load()
            self._is_loaded = True
        now = self._clock()
        for name, (lease, since) in list(self._leases.items()):
            due = lease.space.due_at()
            if due is None or due > now or time.monotonic() - since > _LONGEST:
                del self._leases[name]
                lease.end()
                self._spaces.rest(name)
        while len(self._leases) < _AT_ONCE:
            due_now = self._due.take(now)
            if due_now is None or not self._open(due_now):
                break
        return _RESTING_SECONDS if not self._leases and self._due.is_empty() else _SECONDS

    def _open(self, name: str) -> bool:
        """Open a space for its work. Return False if there is no place for it now."""
        if name in self._leases:  # it became due again while it was opened
            return True
        try:
            lease = self._spaces.use_behind(name)
        except TooManySpaces:
            self._due.postpone(name, self._clock())
            return False
        except RecollectError:  # it is in the log
            self._due.postpone(name, self._clock() + _LATER)
            return True
        if lease is None:
            self._due.closed(name, None)  # its folder was taken away
        else:
            self._leases[name] = lease, time.monotonic()
        return True


def request_awaited(
    awaited: Callable[[], list[str]], spaces: Spaces[Any], due: DueWork, clock: Clock
) -> float:
    """Have closed spaces opened where other processes wait for this one: they keep what was deleted
    until no index has words of it. Return the seconds until the next look.

    `awaited` returns the names of such spaces; it raises StorageUnavailable.
    """
    with suppress(StorageUnavailable):
        for name in set(awaited()).difference(it.name for it in spaces.open_now()):
            due.request(name, clock())
    return _AWAITED_SECONDS


class StreamKeeper:
    """A thread that opens spaces that are at rest or closed, where something came for their
    streams. Started when made.
    """

    def __init__(self, awaited: Callable[[], set[str]], spaces: Spaces[Any]) -> None:
        """`awaited` returns the names of such spaces; call `wake` when there is another one."""
        self._awaited = awaited
        self._spaces = spaces
        self._opening: set[str] = set()
        self._pauses: dict[str, tuple[float, float]] = {}  # each with its end, and the next one
        self._loop = Loop("stream-keeper", self._look, patience=_PATIENCE)
        self.wake = self._loop.wake
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop(self._spaces.patience())

    def _look(self) -> float:
        awaited, now = self._awaited(), time.monotonic()
        for name in self._pauses.keys() - awaited:
            del self._pauses[name]
        for name in awaited.difference(self._opening):
            if now < self._pauses.get(name, _NO_PAUSE)[0]:
                continue
            if not self._loop.part(partial(self._open, name)):
                break  # it took long: another thread looks after the others
        return _SECONDS if self._awaited() else _RESTING_SECONDS

    def _open(self, name: str) -> None:
        """Open a space. One that cannot be opened is tried again, later each time."""
        self._opening.add(name)
        is_refused = True

        def use() -> None:
            nonlocal is_refused
            try:
                self._spaces.use(name, reads=True).end()
                is_refused = False
            except (TooManySpaces, SpaceBeingDeleted):  # for a moment
                is_refused = False
            except RecollectError:
                pass  # it is in the log

        unforeseen(self._loop.job, use)
        pause = self._pauses.get(name, _NO_PAUSE)[1]
        self._pauses[name] = _NO_PAUSE
        if is_refused:
            self._pauses[name] = time.monotonic() + pause, min(2 * pause, _MOST_PAUSE)
        self._opening.discard(name)
