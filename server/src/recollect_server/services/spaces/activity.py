"""Calls of the server, and background work that rests while there are none."""

import time
from collections.abc import Callable

_QUIET = 5.0  # seconds without a call after which background work rests


class Activity:
    """Calls that are under way, and the time of the last one. `Spaces` guards it."""

    def __init__(self) -> None:
        self._calls = 0  # streams apart, which may last for hours
        self._used = time.monotonic()  # beginning or end of the last of them
        self._is_resting = False  # whether somebody who is to be woken rests
        self._wakes: list[Callable[[], None]] = []

    def begin_call(self) -> float:
        """Note a call that begins, and return the time."""
        self._calls += 1
        return self.note()

    def end_call(self) -> None:
        self._calls -= 1
        self._used = time.monotonic()

    def note(self) -> float:
        """Note something that gives background work to do, wake it, and return the time."""
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
