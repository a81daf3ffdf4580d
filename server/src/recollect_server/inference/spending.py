"""What is spent on a model in a day, and when that is enough."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from recollect_server.domain.time import Clock, to_text
from recollect_server.inference.language_model import ModelUnavailable


@dataclass(frozen=True, slots=True)
class Spent:
    """Calls, and tokens read and written."""

    calls: int = 0
    tokens: int = 0


class Spending:
    """Counts the calls of each day (UTC). Safe to call from any thread.

    `read` answers what was spent on a day, `write` keeps it: a restart does not begin anew.
    """

    def __init__(
        self, clock: Clock, max_calls: int, max_tokens: int, read: Callable[[str], Spent], write: Callable[[str, Spent], None]
    ) -> None:
        self._clock = clock
        self._max_calls, self._max_tokens = max_calls, max_tokens
        self._read, self._write = read, write
        self._lock = threading.Lock()  # guards `_day` and `_spent`, and orders what is written
        self._day, self._spent = "", Spent()

    def allow(self) -> None:
        """Counts a call that is about to be made. Raises ModelUnavailable if the day's calls or tokens are spent."""
        with self._lock:
            spent = self._today()
            if spent.calls >= self._max_calls or spent.tokens >= self._max_tokens:
                raise ModelUnavailable(f"the budget of {self._day} is spent: {spent.calls} calls, {spent.tokens} tokens")
            self._set(Spent(spent.calls + 1, spent.tokens))

    def add(self, tokens: int) -> None:
        """Counts the tokens of a call that was answered."""
        with self._lock:
            spent = self._today()
            self._set(Spent(spent.calls, spent.tokens + tokens))

    def _today(self) -> Spent:
        day = to_text(self._clock())[:10]
        if day != self._day:
            self._day, self._spent = day, self._read(day)
        return self._spent

    def _set(self, spent: Spent) -> None:
        self._spent = spent
        self._write(self._day, spent)
