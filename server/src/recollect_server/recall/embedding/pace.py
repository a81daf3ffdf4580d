"""The pace of embedding: how much a turn takes, and its pauses beside appends."""

import threading
import time

from recollect_server.kernel.space.space import Space

# Bytes of their lines: so many that a turn takes a thread about `_TURN` seconds of a processor, of
# which newer messages and other spaces wait for one. By the clock, a turn on a busy machine would
# be made the smaller the less of the processor it gets, down to one message.
_LEAST_BYTES, _BYTES, _MOST_BYTES = 2 << 10, 8 << 10, 128 << 10
_TURN = 0.7
_CALM = 0.3  # seconds without an append, after which it works at full speed
_SHARE = 1 / 3  # of a thread's time that it takes while appends are under way
_MOST_PAUSE = 5.0
_PACE_MEMORY = 0.8  # weight of the pace before in that which is reported


class Stopped(Exception):
    """The server stops: what was embedded is kept, the rest is left to the next start."""


class Pace:
    """The pace of embedding in one space. One thread calls it."""

    def __init__(self, space: Space, stopping: threading.Event) -> None:
        self._space = space
        self._stopping = stopping
        self.turn_bytes = _BYTES
        """Bytes of the lines that a turn takes."""
        self._bytes_per_second = 0.0
        self._processor = 0.0  # seconds of the turn under way
        self._ended = 0.0  # when the turn before ended, if something still waited then
        self._puts, self._put_at = -1, -_CALM

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
        """Pause while appends are under way, and return whether there are any. Embedding then takes
        a third of one thread's time, and no less on a busy machine: what it waited for a processor
        counts as a pause.

        Raises Stopped.
        """
        self._processor += processor
        end = time.monotonic() + pause_after(worked, processor)
        while (
            (busy := self._is_busy())
            and (left := end - time.monotonic()) > 0
            and not self._stopping.is_set()
        ):
            self._stopping.wait(min(left, _CALM))
        if self._stopping.is_set():
            raise Stopped
        return busy

    def _is_busy(self) -> bool:
        """Return whether something was appended just now."""
        puts, now = self._space.index.taken()[1], time.monotonic()
        if puts != self._puts:
            self._puts, self._put_at = puts, now
        return now - self._put_at < _CALM


def pause_after(worked: float, processor: float) -> float:
    """Return the seconds that a thread pauses after it worked for some seconds, in which it had a
    processor for so long, to take its share of the time and no more.
    """
    return min(max(0.0, processor / _SHARE - worked), _MOST_PAUSE)
