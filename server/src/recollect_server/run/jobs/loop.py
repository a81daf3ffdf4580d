"""Loops of background jobs: one round after another until stopped, whatever a round raises. Their
rounds share a few threads.
"""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

log = structlog.get_logger("recollect.jobs")

# to the next round after one that failed as nobody foresaw
_FIRST_SECONDS, _MOST_SECONDS = 1.0, 60.0
_MOST_LEFT = 16  # threads of one loop that are left to a part that hangs
_IDLE = 2  # threads that wait for rounds; a new one for each round would be started all the time


def unforeseen(job: str, work: Callable[[], None]) -> str:
    """Run some work of a job. An unexpected error is logged in full and named in the result; empty
    if there was none.
    """
    try:
        work()
    except Exception as error:
        # the loop of the jobs: it ends this piece of work, and no thread that nobody would miss
        log.exception("job_failed", job=job)
        return f"an unforeseen failure ({type(error).__name__}; the log has all of it)"
    return ""


class Loop:
    """Work that is done round after round, in a thread that nobody waits for."""

    def __init__(
        self,
        job: str,
        work: Callable[[], float],
        *,
        wait: float = 0.0,
        stopping: threading.Event | None = None,
        patience: float = math.inf,
    ) -> None:
        """`work` is one round, and gives the seconds to the next; `wait` is how long the first one
        is waited for. After `patience` seconds in one part of a round (see `part`) another
        thread begins the next round.

        After a round that fails as nobody foresaw the next one comes after a second, then two, at
        the most a minute.
        """
        self.job = job
        self._work = work
        self._wait = wait
        self._next_at = 0.0
        self._after_failure = _FIRST_SECONDS
        self._patience = patience
        self.part_began = math.inf
        self.is_woken = False
        self.leader = 0
        """Thread of the round that counts; 0: none. The crew guards these four."""
        self.threads = 0
        """Number of threads in rounds, also those that hang in a part of an earlier one. The crew
        guards it too.
        """
        self.stopping = stopping or threading.Event()
        """Set once it is to end."""

    def start(self) -> None:
        """Begin the rounds. Call it once."""
        self._next_at = time.monotonic() + self._wait
        _CREW.add(self)

    def wake(self) -> None:
        """Begin the next round at once."""
        _CREW.wake(self)

    def stop(self, seconds: float | None = None) -> None:
        """Stop after the current round, and wait up to `seconds` for it (None: without limit)."""
        self.stopping.set()
        _CREW.remove(self, seconds)

    @property
    def is_running(self) -> bool:
        """True if a round is under way, or a part of an earlier one."""
        return self.threads > 0

    def due_at(self) -> float:
        """Return when the next round is due, or may be, on the monotonic clock."""
        if self.leader:  # then it is looked whether its part hangs
            began = min(self.part_began, time.monotonic())
            return began + self._patience if self.threads < _MOST_LEFT else math.inf
        return 0.0 if self.is_woken else self._next_at

    def take_over(self) -> None:
        """Have this thread do the next round. Hold the crew's lock."""
        self.leader, self.is_woken, self.part_began = threading.get_ident(), False, math.inf
        self.threads += 1

    def part(self, work: Callable[[], None]) -> bool:
        """Do a part of the round, which may hang. Return False if another thread took the rounds
        over meanwhile: then this one ends its round.
        """
        _CREW.note_part(self, time.monotonic())
        try:
            work()
        finally:
            is_mine = _CREW.note_part(self, math.inf)
        return is_mine

    def run_round(self) -> None:
        """Do one round. Raises nothing."""
        wait = self._wait
        failure = ""
        if not self.stopping.is_set():

            def work() -> None:
                nonlocal wait
                wait = self._work()

            failure = unforeseen(self.job, work)
        if self.leader != threading.get_ident():
            self.wake()  # what hung in its part may be due again
            return
        self._wait = wait
        if failure:
            self._wait = self._after_failure
            self._after_failure = min(2 * self._after_failure, _MOST_SECONDS)
        else:
            self._after_failure = _FIRST_SECONDS
        self._next_at = time.monotonic() + self._wait


class _Crew:
    """The threads that run the rounds of all loops of the process: one waits for the next round
    that is due, and each round that is under way has another, so that none waits for a slow one.
    """

    def __init__(self) -> None:
        lock = threading.Lock()  # guards everything below, and the fields of the loops
        self._changed = threading.Condition(lock)
        self._ended = threading.Condition(lock)  # a round has ended
        self._loops: set[Loop] = set()
        self._idle = 0

    def add(self, loop: "Loop") -> None:
        """Run the rounds of a loop from now on."""
        with self._changed:
            self._loops.add(loop)
            if not self._idle:
                self._hire()
            self._changed.notify()

    def wake(self, loop: "Loop") -> None:
        """Have the next round of a loop begin at once, or once the present one is over."""
        if loop.is_woken:
            return
        with self._changed:
            loop.is_woken = True
            self._changed.notify()

    def remove(self, loop: "Loop", seconds: float | None) -> None:
        """Begin no round of a loop any more, and wait up to `seconds` for the present one."""
        with self._changed:
            self._loops.discard(loop)
            self._changed.notify_all()
            self._ended.wait_for(lambda: not loop.is_running, seconds)

    def note_part(self, loop: "Loop", began: float) -> bool:
        """Note when this thread began a part of a loop's round; infinite: that is over. Return
        False, and note nothing, if another thread took the loop over.
        """
        with self._changed:
            is_mine = loop.leader == threading.get_ident()
            if is_mine:
                loop.part_began = began
            return is_mine

    def _hire(self) -> None:
        threading.Thread(target=self._work, name="jobs", daemon=True).start()

    def _work(self) -> None:
        thread = threading.current_thread()
        while (loop := self._next()) is not None:
            thread.name = loop.job
            try:
                loop.run_round()
            finally:
                thread.name = "jobs"
                with self._changed:
                    loop.threads -= 1
                    if loop.leader == thread.ident:
                        loop.leader = 0
                    self._ended.notify_all()

    def _next(self) -> "Loop | None":
        """Wait for a round that is due, and return its loop; None if this thread is not needed."""
        with self._changed:
            self._idle += 1
            try:
                while self._idle <= _IDLE and self._loops:
                    first = min(self._loops, key=Loop.due_at)
                    due, now = first.due_at(), time.monotonic()
                    if due <= now:
                        first.take_over()
                        self._changed.notify()  # somebody looks whether it hangs
                        if self._idle == 1:
                            with suppress(RuntimeError):  # no thread: the others wait for this one
                                self._hire()
                        return first
                    self._changed.wait(None if due == math.inf else due - now)
            finally:
                self._idle -= 1
            self._changed.notify()  # of the round that this thread ran, the next may be due first
            return None


_CREW = _Crew()
