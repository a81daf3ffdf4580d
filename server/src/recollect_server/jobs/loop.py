"""Loop of a background job: a thread that runs one round after another until stopped, whatever a
round raises.
"""

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger("recollect.jobs")

# to the next round after one that failed as nobody foresaw
_FIRST_SECONDS, _MOST_SECONDS = 1.0, 60.0


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
    """A thread that nobody calls."""

    def __init__(
        self,
        job: str,
        work: Callable[[], float],
        *,
        wait: float = 0.0,
        stopping: threading.Event | None = None,
    ) -> None:
        """`work` is one round, and gives the seconds to the next; `wait` is how long the first one
        is waited for.

        After a round that fails as nobody foresaw the next one comes after a second, then two, at
        the most a minute.
        """
        self._job = job
        self._work = work
        self._wait = wait
        self._after_failure = _FIRST_SECONDS
        self.stopping = stopping or threading.Event()
        """Set once it is to end."""
        self._awake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=job, daemon=True)

    def start(self) -> None:
        """Start the thread. Call it once."""
        self._thread.start()

    def wake(self) -> None:
        """Begin the next round at once."""
        self._awake.set()

    def stop(self, seconds: float | None = None) -> None:
        """Stop after the current round, and wait up to `seconds` for it (None: without limit)."""
        self.stopping.set()
        self._awake.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        while not self.stopping.is_set():
            self._awake.wait(self._wait)
            self._awake.clear()
            if self.stopping.is_set():
                break
            if unforeseen(self._job, self._round):
                self._wait = self._after_failure
                self._after_failure = min(2 * self._after_failure, _MOST_SECONDS)

    def _round(self) -> None:
        self._wait = self._work()
        self._after_failure = _FIRST_SECONDS
