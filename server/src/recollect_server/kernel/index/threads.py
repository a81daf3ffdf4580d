"""The threads that write the indexes of all spaces.

At rest there is one. While every thread is at work and another index has something to do, one more
is started: a space whose disk is slow or hangs keeps one thread, and holds up no other space. One
index is written by one thread at a time, a batch in its turn, so that a busy space waits behind the
others after each batch. There are never more threads than indexes with work, and one.
"""

import heapq
import itertools
import math
import threading
import time
from contextlib import suppress
from typing import Protocol

import structlog

log = structlog.get_logger("recollect.index")

_IDLE = 5.0  # seconds without work after which a thread ends, but for the last one

NEVER = math.inf
"""Time of work that there is not."""


class Work(Protocol):
    """One index's changes that wait. `Threads` guards its fields by `changed`."""

    due: float
    """Time of the next batch, on the monotonic clock; NEVER: nothing waits."""
    is_running: bool
    """A thread is at a batch of it."""

    def run_batch(self) -> None:
        """Do the next part of the work. It sets when more is due by `Threads.end`."""


class Threads:
    """Threads that run batches when they are due, the first due first."""

    def __init__(self) -> None:
        # the lock of all queues, held for a few statements
        self.changed = threading.Lock()
        self._needed = threading.Condition(self.changed)  # idle threads wait to lead
        self._queue: list[tuple[float, int, Work]] = []  # also entries that are out of date
        self._number = itertools.count()
        self._waiting = 0  # indexes that have something to do, and none of the threads
        self._idle = 0
        # one idle thread waits for the first batch, so that the others sleep on
        self._leading = threading.Condition(self.changed)
        self._is_led = False

    def begin(self) -> None:
        """Have a thread for another index. Raises RuntimeError if none can be started."""
        with self.changed:
            if not self._idle:
                self._start()

    def expect(self, work: Work, due: float) -> None:
        """Run a batch at a time at the latest. Hold the lock."""
        if due >= work.due or work.is_running:  # then it looks itself for what is next
            return
        self._waiting += work.due == NEVER
        work.due = due
        is_first = not self._queue or due < self._queue[0][0]
        heapq.heappush(self._queue, (due, next(self._number), work))
        if not self._is_led:
            self._call()
        elif is_first:
            self._leading.notify()

    def end(self, work: Work, due: float) -> None:
        """Note that a batch is over, and when the next one is due. Hold the lock."""
        work.is_running = False
        self.expect(work, due)

    def _call(self) -> None:
        """Have a thread wait for the first batch."""
        if self._idle:
            self._needed.notify()
        else:
            with suppress(RuntimeError):  # no thread: those at work look for it
                self._start()

    def _start(self) -> None:
        threading.Thread(target=self._run, name="index", daemon=True).start()
        self._idle += 1

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work.run_batch()
            except Exception:
                # the thread serves other indexes; this one refuses everything from here on
                log.exception("index_writer_failed")
            with self.changed:
                self._idle += 1

    def _next(self) -> Work | None:
        """Wait for the first batch that is due; None if this thread is not needed."""
        with self.changed:
            while self._is_led:
                if not self._needed.wait(_IDLE) and self._is_led:
                    self._idle -= 1
                    return None
            self._is_led = True
            while (due := self._first()) > (now := time.monotonic()):
                self._leading.wait(None if due == NEVER else due - now)
            self._is_led = False
            self._idle -= 1
            work = heapq.heappop(self._queue)[2]
            work.due, work.is_running = NEVER, True
            self._waiting -= 1
            if self._waiting:
                self._call()
            return work

    def _first(self) -> float:
        """Return when the first batch is due, NEVER if there is none."""
        while self._queue and self._queue[0][0] != self._queue[0][2].due:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else NEVER


THREADS = Threads()
"""Those of this process."""
