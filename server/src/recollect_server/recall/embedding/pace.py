"""The pace of embedding: how much a turn takes, and its pauses beside appends."""

import threading
import time
from weakref import WeakSet

from recollect_server.kernel.space.space import Space

# Bytes of their lines: so many that a turn takes a thread about `_TURN` seconds of a processor, of
# which newer messages and other spaces wait for one. By the clock, a turn on a busy machine would
# be made the smaller the less of the processor it gets, down to one message.
_LEAST_BYTES, _BYTES, _MOST_BYTES = 2 << 10, 8 << 10, 128 << 10
_TURN = 0.7
_CALM = 0.3  # seconds without an append, after which it works at full speed
SHARE = 1 / 3
"""Share of one thread's time that all spaces' embedding takes while appends are under way in any of
them.
"""
_MOST_PAUSE = 5.0
_PACE_MEMORY = 0.8  # weight of the pace before in that which is reported


class Stopped(Exception):
    """The server stops: what was embedded is kept, the rest is left to the next start."""


class Share:
    """The share of a thread's time that the embedding of all spaces takes together while appends
    are under way in any of them. Safe to call from any thread.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards what is below
        self._paces: WeakSet[Pace] = WeakSet()
        self._resumes_at = 0.0

    def add(self, pace: "Pace") -> None:
        """Look for appends in the space of a pace too, as long as it is there."""
        with self._guard:
            self._paces.add(pace)

    def is_busy(self) -> bool:
        """Return whether something was appended just now in any space."""
        with self._guard:
            busy = [it for it in self._paces if it.has_appends()]  # all are to look
            return bool(busy)

    def resumes_at(self, pause: float) -> float:
        """Put a pause behind those that other spaces owe, and return when they are all over, on
        the monotonic clock.
        """
        with self._guard:
            now = time.monotonic()
            self._resumes_at = min(max(self._resumes_at, now) + pause, now + _MOST_PAUSE)
            return self._resumes_at


class Pace:
    """The pace of embedding in one space. One thread calls it."""

    def __init__(self, space: Space, share: Share, stopping: threading.Event) -> None:
        """Embed beside other spaces, which have the same `share`."""
        self._space = space
        self._share = share
        self._stopping = stopping
        self.turn_bytes = _BYTES
        """Bytes of the lines that a turn takes."""
        self._bytes_per_second = 0.0
        self._processor = 0.0  # seconds of the turn under way
        self._ended = 0.0  # when the turn before ended, if something still waited then
        self._puts, self._put_at = -1, -_CALM
        share.add(self)

    def adapt(self, size: int, began: float, *, is_last: bool) -> float:
        """Adapt the size of a turn (`turn_bytes`) to the processor time that the last turn took,
        and return the pace in bytes a second of elapsed time, the turns of other spaces included.

        The turn embedded `size` bytes and began at `began` (seconds of the monotonic clock);
        `is_last`: nothing waits any more.
        """
        factor = min(2.0, max(0.5, _TURN / max(self._processor, 1e-3)))
        self.turn_bytes = round(min(_MOST_BYTES, max(_LEAST_BYTES, self.turn_bytes * factor)))
        now = time.monotonic()
        last = size / max(now - (self._ended or began), 1e-3)
        before = self._bytes_per_second
        self._processor, self._ended = 0.0, 0.0 if is_last else now
        self._bytes_per_second = (
            _PACE_MEMORY * before + (1 - _PACE_MEMORY) * last if before else last
        )
        return self._bytes_per_second

    def rest(self, worked: float, processor: float) -> bool:
        """Pause while appends are under way, and return whether there are any. The embedding of
        all spaces then takes a third of one thread's time, and no less on a busy machine: what it
        waited for a processor counts as a pause.

        Raises Stopped.
        """
        self._processor += processor
        busy, end = self._share.is_busy(), time.monotonic()
        if busy:
            end = self._share.resumes_at(pause_after(worked, processor))
        while busy and (left := end - time.monotonic()) > 0 and not self._stopping.is_set():
            self._stopping.wait(min(left, _CALM))
            busy = self._share.is_busy()
        if self._stopping.is_set():
            raise Stopped
        return busy

    def has_appends(self) -> bool:
        """Return whether something was appended to the space just now. The share guards it."""
        if self._space.is_resting:
            return False
        puts, now = self._space.index.taken()[1], time.monotonic()
        if puts != self._puts:
            self._puts, self._put_at = puts, now
        return now - self._put_at < _CALM


def pause_after(worked: float, processor: float) -> float:
    """Return the seconds that a thread pauses after it worked for some seconds, in which it had a
    processor for so long, to take its share of the time and no more.
    """
    return min(max(0.0, processor / SHARE - worked), _MOST_PAUSE)
