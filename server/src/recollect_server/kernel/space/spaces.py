"""The open spaces of a server: opened on demand, closed when others need their place.

A space is used by leases. One that somebody has a lease of is never closed; of the others the least
recently used one is, once as many are open as may be; one that holds messages, which its logs
refused, only if every other one is used or does too. A stream has a lease only while it is opened,
and the space is closed between two of its updates. While too many open ones have their files
open, the least recently used of them rests: its files are closed, and opened again when they are
used. Opening, resting and closing happen outside of the lock, one of them per name at a time: a
space that is slow or fails holds up no other.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Generic, TypeVar

import structlog

from recollect_server.kernel.domain.errors import (
    RecollectError,
    SpaceBeingDeleted,
    SpaceNotFound,
    Stopping,
    StorageUnavailable,
    TooManySpaces,
)
from recollect_server.kernel.space.opened import S

log = structlog.get_logger("recollect.spaces")

EMPTY = ""
"""Name of the space that stands for those that nobody wrote to."""

_QUIET = 5.0  # seconds without a call after which background work rests
_EARLY = 2.0  # seconds that a search waits for a space that is being read
_EARLY_AGAIN = 0.25  # seconds until it asks again for a part of it
_WATCHED = 60.0  # seconds after its last use in which a space that is watched does not rest
_PATIENCE = 5.0  # seconds that a call waits for the place of a space that others use
_RECENT = 5.0  # seconds after its last use in which background work takes no space's place
_DRAIN = 5.0  # seconds that a stop takes for the indexes of spaces at rest; the rest is caught up
# seconds from the end of the calls to that of all waits for an index, at the least: where the calls
# took all of the grace, jobs can still end, and indexes take in what is queued
_CLOSING = 2.0
_DELIVERING = 0.05  # seconds between two looks at spaces that have something for their streams
_LAST = 2.0  # seconds in which those end whose wait for an index a stop ended


R = TypeVar("R")


class Lease(Generic[S]):
    """Use of an open space: it is not closed before `end`."""

    __slots__ = ("_end", "space")

    def __init__(self, space: S, end: Callable[[], None]) -> None:
        """`end` is called once, at the end."""
        self.space = space
        self._end: Callable[[], None] | None = end

    def end(self) -> None:
        """End the use. It waits for nothing, and a second time does nothing."""
        end, self._end = self._end, None
        if end is not None:
            end()

    def __enter__(self) -> S:
        return self.space

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()


class _Activity:
    """Calls that are under way, and the time of the last one. `Spaces` guards it."""

    def __init__(self) -> None:
        self._calls = 0  # streams apart, which may last for hours
        self._used = time.monotonic()  # beginning or end of the last of them
        self._is_resting = False  # whether somebody who is to be woken rests
        self._wakes: list[Callable[[], None]] = []

    def note(self, calls: int = 0) -> float:
        """Note something that gives background work to do, wake it, and return the time. `calls`
        begin with it, or end if it is below 0.
        """
        self._calls += calls
        self._used = time.monotonic()
        if self._is_resting:
            self._is_resting = False
            for wake in self._wakes:
                wake()
        return self._used

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever something is noted after `is_quiet` was True. It may wait for
        nothing.
        """
        self._wakes.append(wake)

    def is_quiet(self) -> bool:
        """Return whether no call came for some seconds and none is under way: then background work
        rests until it is woken.
        """
        if self._calls or time.monotonic() - self._used < _QUIET:
            return False
        self._is_resting = True
        return True


class _Opening:
    """An opening of a space in a thread of its own. `Spaces` guards it."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: BaseException | None = None


class _Slot(Generic[S]):
    """Place of a space among the open ones. `Spaces` guards it."""

    __slots__ = ("holds", "leases", "makes", "name", "opened", "space", "used")

    def __init__(self, name: str, *, makes: bool = True) -> None:
        self.name = name
        self.makes = makes or name == EMPTY
        """True if the space is made where there is none."""
        self.space: S | None = None
        """None while it is being opened, put to rest or closed."""
        self.opened: S | None = None
        """The same, and also while it is being put to rest or closed."""
        self.leases = 0
        self.holds = 0
        """Those of the leases that may last for hours."""
        self.used = 0.0
        """Last use by a call, on the monotonic clock."""


class Spaces(Generic[S]):
    """All open spaces. Safe to call from any thread."""

    def __init__(
        self,
        open_space: Callable[[str], S],
        exists: Callable[[str], bool],
        most: int,
        most_awake: int,
        partial: Callable[[str], Any | None] = lambda _: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`open_space` opens the space of a name, and makes it if there is none; `exists` tells
        whether there is one. At most `most` are open at a time; `most_awake` of them have their
        files open, unless more are used at once. `partial` returns what can be read already of a
        space that is being opened, for one call. `check` raises an OSError that keeps every call
        from every space.
        """
        self._check = check
        self._partial = partial
        self._open_space = open_space
        self._exists = exists
        self._most = most
        self._most_awake = most_awake
        # guards everything below; nothing slow happens under it
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._places: OrderedDict[str, _Slot[S]] = OrderedDict()  # least recently used first
        self._promised: set[object] = set()  # calls that make a place free, and will take it
        self._barred: set[str] = set()  # names of those that are being removed
        self._stopping = False
        self._waiting = 0  # how many wait for the end of a lease
        self._grace_ends = 0.0
        self._abandon_at: float | None = None
        self._is_abandoned = False
        self._activity = _Activity()
        self._closed = threading.Event()

    def use(
        self,
        name: str,
        *,
        reads: bool = False,
        appends: bool = False,
        partly: bool = False,
    ) -> Lease[S]:
        """Return a lease of a space, opened if it is not open.

        `reads`: the call only reads; a space that does not exist is not made, and answers like one
        without anything. `appends`: the call only appends, and a space at rest that has room stays
        so. `partly`: the call is content with a part of a space that takes seconds to open.

        Raises TooManySpaces, Stopping, StorageUnavailable, and what opening it raises.
        """
        try:
            self._check()
        except OSError as error:
            raise StorageUnavailable(str(error.strerror)) from error
        lease = None
        with self._lock:
            place = self._places.get(name)
            space = place.space if place is not None else None
            is_given_out = not self._stopping and name not in self._barred
            if place is not None and space is not None and is_given_out:
                self._places.move_to_end(name)
                lease = self._lease(place, space, is_hold=False)
        if place is None and reads and not self._exists(name):
            name = EMPTY
        until = time.monotonic() + _PATIENCE
        try:
            if lease is None:
                lease = self._opened(name, until, 0.0, holds=False, partly=partly, makes=not reads)
            if lease.space.is_resting and not (appends and lease.space.takes_appends):
                lease = self._awake(lease, holds=False, makes=not reads)
        except SpaceNotFound:  # it was deleted while this waited
            lease = self._opened(EMPTY, until, 0.0, holds=False)
        return lease

    def use_behind(self, name: str) -> Lease[S] | None:
        """Return a lease of an existing space for background work; None if there is none of that
        name.

        It takes no place of a space that was just used. Raises as `use`.
        """
        if not self._exists(name):
            return None
        try:
            lease = self._opened(name, time.monotonic(), _RECENT, holds=True, makes=False)
            if lease.space.is_resting:
                lease = self._awake(lease, holds=True, makes=False)
        except SpaceNotFound:
            return None
        return lease

    def borrow(self, space: S) -> Lease[S] | None:
        """Return a lease of an open space, for background work; None if it is closed now."""
        with self._lock:
            place = self._places.get(space.name)
            if place is None or place.space is not space:
                return None
            if self._stopping or space.name in self._barred:
                return None
            return self._lease(place, space, is_hold=False, is_use=False)

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever a call comes, or a space is opened, after `is_quiet` was True. It
        may wait for nothing.
        """
        with self._lock:
            self._activity.wake_by(wake)

    def is_quiet(self) -> bool:
        """Return whether no call came for some seconds and none is under way, streams apart:
        background work that only calls give something to do may rest until it is woken.
        """
        with self._lock:
            return self._activity.is_quiet()

    def note_work(self) -> None:
        """Wake background work: others than calls gave it something to do."""
        with self._lock:
            self._activity.note()

    def open_now(self, *, at_rest: bool = False) -> list[S]:
        """Return the open spaces, without a lease; those at rest only if `at_rest` is True."""
        with self._lock:
            spaces = [place.space for place in self._places.values()]
            return [it for it in spaces if it is not None and (at_rest or not it.is_resting)]

    def names(self) -> list[str]:
        """Return the names of the open spaces, the least recently used first."""
        with self._lock:
            return [name for name, place in self._places.items() if place.space is not None]

    def is_leaving(self, name: str) -> bool:
        """Return whether a space is to be deleted, or all are to be closed: long work that has a
        lease of it is to end.
        """
        with self._lock:
            return self._stopping or name in self._barred

    def rest(self, name: str) -> None:
        """Let a space rest that nobody uses. One that is used goes on."""
        with self._lock:
            place = self._places.get(name)
            space = self._unused_space(place) if place is not None else None
        if place is not None and space is not None:
            self._put_to_rest(place, space)

    def evict(self, name: str) -> None:
        """Close a space that nobody uses. One that is used stays open."""
        with self._lock:
            place = self._places.get(name)
            if place is None or place.space is None or place.leases:
                return
            space, place.space = place.space, None
        self._close(place, space)

    def remove(self, name: str, patience: float, remove: Callable[[], R]) -> R:
        """Close a space, wait up to `patience` seconds for the calls that use it, and run `remove`
        while nobody can open it. Return its result.

        Raises SpaceBeingDeleted if others go on using it, Stopping, and what `remove` raises.
        """
        with self._lock:
            if self._stopping:
                raise Stopping
            if name in self._barred:
                raise SpaceBeingDeleted(f"the space {name} is being deleted")
            self._barred.add(name)
        place: _Slot[S] | None = None
        try:
            with self._lock:
                place, space = self._taken(name, time.monotonic() + patience)
            if space is not None:
                space.close()
            return remove()
        finally:
            with self._lock:
                self._barred.discard(name)
                if place is not None:
                    del self._places[name]
                self._changed.notify_all()

    def _taken(self, name: str, until: float) -> tuple[_Slot[S], S | None]:
        """Take a space out of use, once nobody uses it. Hold the lock. Raises SpaceBeingDeleted."""
        while True:
            place = self._places.get(name)
            if place is None:
                place = self._places[name] = _Slot(name)
                return place, None
            if place.space is not None and not place.leases:
                space, place.space = place.space, None
                return place, space
            left = until - time.monotonic()
            if left <= 0:
                raise SpaceBeingDeleted(f"calls go on using the space {name}: try again")
            self._waiting += 1
            self._changed.wait(left)
            self._waiting -= 1

    def expect_close(self, grace: float) -> None:
        """Let nobody wait for an index for long from so many seconds on: the server stops, and may
        not hang because an index does. Call `calls_are_over` once they are.
        """
        with self._lock:
            self._grace_ends = time.monotonic() + grace
        self._abandon(self._grace_ends + _CLOSING)

    def calls_are_over(self) -> None:
        """Let the jobs and the close of the spaces take what is left of the grace."""
        self._abandon(max(time.monotonic() + _CLOSING, self._grace_ends - _LAST))

    def _abandon(self, at: float) -> None:
        """Let nobody wait for an index from a time on."""
        with self._lock:
            self._abandon_at = min(at, self._abandon_at or at)
        threading.Thread(target=self._limit, args=[at], name="index-limit", daemon=True).start()

    def patience(self) -> float | None:
        """Return the seconds for which a stop waits for those who use a space; None: without limit.

        Waits for an index end before that. What still hangs then, in a file say, is left
        behind: the process ends, as if it were killed.
        """
        with self._lock:
            return self._patience()

    def _patience(self) -> float | None:
        if self._abandon_at is None:
            return None
        return max(0.0, self._abandon_at + _LAST - time.monotonic())

    def _limit(self, at: float) -> None:
        if self._closed.wait(max(0.0, at - time.monotonic())):
            return
        with self._lock:
            if self._is_abandoned:
                return
            self._is_abandoned = True
            opened = [place.opened for place in self._places.values() if place.opened is not None]
        log.warning("indexes_abandoned", spaces=len(opened))
        for space in opened:
            space.abandon()

    def close(self) -> None:
        """Wait for the leases, as long as there is `patience`, and close every space. Nothing can
        be opened any more.
        """
        try:
            self._close_all()
        finally:
            self._closed.set()

    def _close_all(self) -> None:
        with self._lock:
            self._stopping = True
            self._changed.notify_all()
        until = time.monotonic() + _DRAIN
        while True:
            with self._lock:
                self._wait(lambda: not self._places or self._unused() is not None, self._patience())
                if not self._places:
                    break
                if self._unused() is None:
                    log.warning("spaces_left_open", spaces=list(self._places))
                    break
                place = self._unused()
                assert place is not None
                space, place.space = place.space, None
            if space is not None:
                self._close(place, space, drains=time.monotonic() < until)

    # Opening and closing --------------------------------------------------------------------------

    def _awake(self, lease: Lease[S], *, holds: bool, makes: bool) -> Lease[S]:
        """Open the files of a space at rest, once others have closed theirs. If they cannot be,
        open the space anew. `makes`: see `_opened`.
        """
        try:
            self._make_room()
            lease.space.wake()
        except RecollectError as error:
            name, holds_messages = lease.space.name, lease.space.held()[0] > 0
            log.warning("space_not_woken", space=name, reason=str(error))
            lease.end()
            if holds_messages:  # closed, it would lose them
                raise
            self.evict(name)
            until = time.monotonic() + _PATIENCE
            return self._opened(name, until, 0.0, holds=holds, makes=makes)
        except BaseException:
            lease.end()
            raise
        return lease

    def _make_room(self) -> None:
        """Let the least recently used spaces rest while too many have their files open."""
        while True:
            with self._lock:
                awake = [
                    place
                    for place in self._places.values()
                    if place.space is not None and not place.space.is_resting
                ]
                if len(awake) < self._most_awake:
                    return
                recent = time.monotonic() - _WATCHED
                may_rest = (it for it in awake if _may_rest(it) and not _is_watched(it, recent))
                if (place := next(may_rest, None)) is None:
                    return
                space = self._unused_space(place)
            if space is not None:
                self._put_to_rest(place, space)

    def _unused_space(self, place: _Slot[S]) -> S | None:
        """Take a space out of use that nobody uses, to let it rest; None if it is used, rests, or
        holds messages. Hold the lock.
        """
        space = place.space
        if space is None or not _may_rest(place) or space.is_resting or self._stopping:
            return None
        place.space = None
        return space

    def _put_to_rest(self, place: _Slot[S], space: S) -> None:
        """Let a space rest, or close it if it cannot. Raises nothing."""
        try:
            rests = space.rest()
        except Exception:
            # whatever one space raises, the others are served
            log.exception("space_not_put_to_rest", space=place.name)
            rests = False
        if not rests:
            self._close(place, space)
            return
        with self._lock:
            place.space = space
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], object], seconds: float | None) -> None:
        """Wait until leases end and the condition holds, so many seconds at most. Hold the lock."""
        self._waiting += 1
        try:
            self._changed.wait_for(condition, seconds)
        finally:
            self._waiting -= 1

    def _lease(self, place: _Slot[S], space: S, *, is_hold: bool, is_use: bool = True) -> Lease[S]:
        """Return a new lease. Hold the lock."""
        place.leases += 1
        place.holds += is_hold
        if is_use:
            place.used = self._activity.note(0 if is_hold else 1)
        return Lease(space, partial(self._end, place, is_hold=is_hold, is_use=is_use))

    def _unused(self, recent: float = 0.0) -> _Slot[S] | None:
        """Return the least recently used space without a lease, of those that were not used within
        so many seconds. For a call that is one that holds messages, if there is no other. Hold the
        lock.
        """
        before = time.monotonic() - recent
        holding: _Slot[S] | None = None
        for place in self._places.values():
            if _may_rest(place) and (not recent or place.used < before):
                return place
            if not recent and _is_idle(place):
                holding = holding or place
        return holding

    def _opened(
        self,
        name: str,
        until: float,
        recent: float,
        *,
        holds: bool,
        partly: bool = False,
        makes: bool = True,
    ) -> Lease[S]:
        """Open a space, once there is a place for it. `recent`: see `_unused`. Unless it `makes`
        one, raises SpaceNotFound if there is none by then.
        """
        promise = object()
        try:
            return self._placed(
                promise, name, until, recent, holds=holds, partly=partly, makes=makes
            )
        finally:
            with self._lock:
                self._give_up(promise)

    def _give_up(self, promise: object) -> None:
        """Leave a place that was promised to others. Hold the lock."""
        if promise in self._promised:
            self._promised.remove(promise)
            self._changed.notify_all()

    def _placed(
        self,
        promise: object,
        name: str,
        until: float,
        recent: float,
        *,
        holds: bool,
        partly: bool,
        makes: bool,
    ) -> Lease[S]:
        """Open a space. The place that it makes free is promised to it: background work
        that waits for the space which has to leave would be in it first, and hold it.
        """
        opening: _Opening | None = None
        partly_at = time.monotonic() + _EARLY
        while True:
            if partly and time.monotonic() >= partly_at:
                if (lease := self._partly(name)) is not None:
                    return lease
                partly_at = time.monotonic() + _EARLY_AGAIN
            with self._lock:
                if opening is not None and opening.error is not None:
                    raise opening.error
                if self._stopping:
                    raise Stopping
                if name in self._barred:
                    raise SpaceBeingDeleted(f"the space {name} is being deleted")
                place = self._places.get(name)
                if place is not None and place.space is not None:
                    self._places.move_to_end(name)
                    return self._lease(place, place.space, is_hold=holds)
                if place is not None:  # somebody opens or closes it
                    self._give_up(promise)
                    left = max(0.0, partly_at - time.monotonic())
                    self._changed.wait(left if partly else None)
                    continue
                if len(self._places) + len(self._promised - {promise}) < self._most:
                    self._promised.discard(promise)
                    place = self._places[name] = _Slot(name, makes=makes)
                    if not partly:
                        break
                    opening = _Opening()
                    threading.Thread(
                        target=self._open_beside, args=(place, opening), name="space-open"
                    ).start()
                    continue
                evicted = self._unused(recent)
                if evicted is None or (_holds_messages(evicted) and self._may_wait(until)):
                    self._wait_for_a_place(until)
                    continue
                space, evicted.space = evicted.space, None
                self._promised.add(promise)
            if space is not None:
                self._close(evicted, space)
        return self._open(place, holds=holds)

    def _open_beside(self, place: _Slot[S], opening: _Opening) -> None:
        """Open a space that a call waits for, which may go on before."""
        with suppress(BaseException):  # those who wait for it raise what it raises
            self._open(place, holds=False, failed=opening).end()

    def _partly(self, name: str) -> Lease[S] | None:
        """Return a lease of a part of a space that is being opened; None if there is none yet."""
        space = self._partial(name)
        with self._lock:
            place = self._places.get(name)
            if space is None or place is None or place.space is not None or self._stopping:
                return None
            return self._lease(place, space, is_hold=False)

    def _wait_for_a_place(self, until: float) -> None:
        """Wait for a lease to end, or a space to close. Hold the lock. Raises TooManySpaces."""
        if not self._may_wait(until):
            raise TooManySpaces(self._most)
        self._waiting += 1
        self._changed.wait(min(until - time.monotonic(), _DELIVERING))
        self._waiting -= 1

    def _may_wait(self, until: float) -> bool:
        """Return whether a place is likely to be free in time. Hold the lock."""
        passes = any(
            it.space is None or it.leases > it.holds or it.space.is_delivering
            for it in self._places.values()
        )
        return time.monotonic() < until and (passes or bool(self._promised))

    def _open(self, place: _Slot[S], *, holds: bool, failed: _Opening | None = None) -> Lease[S]:
        """Open a space; `failed` has the error of an opening beside the call."""
        self._make_room()
        began = time.monotonic()
        try:
            if not place.makes and not self._exists(place.name):
                raise SpaceNotFound(place.name)
            space = self._open_space(place.name)
        except BaseException as error:
            log.warning("space_not_opened", space=place.name, reason=str(error))
            if failed is not None:
                failed.error = error
            self._remove(place)
            raise
        log.debug("space_opened", space=place.name, ms=round((time.monotonic() - began) * 1000, 1))
        with self._lock:
            place.space = place.opened = space
            if self._is_abandoned:
                space.abandon()
            self._changed.notify_all()
            return self._lease(place, space, is_hold=holds)

    def _close(self, place: _Slot[S], space: S, *, drains: bool = True) -> None:
        try:
            space.close(drains=drains)
        except Exception:
            # whatever one space raises, the others are served
            log.exception("space_not_closed", space=place.name)
        finally:
            self._remove(place)

    def _remove(self, place: _Slot[S]) -> None:
        with self._lock:
            del self._places[place.name]
            self._changed.notify_all()

    def _end(self, place: _Slot[S], *, is_hold: bool, is_use: bool) -> None:
        with self._lock:
            place.leases -= 1
            place.holds -= is_hold
            if is_use and not is_hold:
                self._activity.note(-1)
            if not place.leases and self._waiting:
                self._changed.notify_all()


def _is_idle(place: _Slot[Any]) -> bool:
    """Return whether nobody uses an open space, and its streams have everything. Hold the lock."""
    return place.space is not None and not place.leases and not place.space.is_delivering


def _holds_messages(place: _Slot[Any]) -> bool:
    """Return whether an open space has messages that its logs refused: closed now, it would lose
    them. Hold the lock.
    """
    return place.space is not None and place.space.held()[0] > 0


def _may_rest(place: _Slot[Any]) -> bool:
    """Return whether a space may be closed, or rest, without a loss. Hold the lock."""
    return _is_idle(place) and not _holds_messages(place)


def _is_watched(place: _Slot[Any], recent: float) -> bool:
    """Return whether a space was used since a time and has streams: its next append would wake it.
    Hold the lock.
    """
    return place.used > recent and place.space is not None and place.space.has_streams
