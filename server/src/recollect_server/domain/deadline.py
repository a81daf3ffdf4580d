"""The deadline of a call: how long its work may go on, and whether its caller still waits for
it.
"""

import math
import time

from recollect_server.domain.errors import CallerGone, DeadlineExceeded


class Deadline:
    """A limit of time that a caller can cut short. Safe to call from any thread.

    Long computations call `check` at least every 100 ms.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        """Begin now and end after `seconds`."""
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._cancelled = False

    def cancel(self) -> None:
        """End the work now: nobody waits for its result."""
        self._cancelled = True

    @property
    def is_over(self) -> bool:
        """Return whether the work must end."""
        return self._cancelled or time.monotonic() >= self._end

    def check_caller(self) -> None:
        """Raise CallerGone if nobody waits for the result."""
        if self._cancelled:
            raise CallerGone

    def check(self) -> None:
        """Raise CallerGone or DeadlineExceeded if the work is to end."""
        self.check_caller()
        if time.monotonic() >= self._end:
            raise DeadlineExceeded(self._seconds)


UNLIMITED = Deadline()
"""The deadline of work that no caller waits for. Nobody cancels it."""
