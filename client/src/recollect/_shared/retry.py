"""Retries: which failed calls are sent again, and after how long."""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recollect._shared.fill import invalid
from recollect._shared.rpc import Call
from recollect.errors import RecollectError

_WORTH_REPEATING = frozenset({"UNAVAILABLE", "CANCELLED"})
"""UNAVAILABLE says so. CANCELLED, where nobody did, is how a server refuses a burst of calls."""
_LONGEST_PAUSE = 1.0
"""Seconds between two looks for a server that is away: it should be met soon after it is back."""
_LONGEST_RESERVE = 1.0
"""Seconds of a time-out at whose end no attempt begins: its answer would be cut off, and the error
would not say what the attempts before it met. Why a server stays away is found out in them.
"""
MAX_TIMEOUT = 100_000_000
"""Seconds, some three years. gRPC's clock overflows at 10^10 and then answers DEADLINE_EXCEEDED at
once.
"""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The number of attempts of a failed call and the waits between them: exponential back-off with
    full jitter.

    Only what is safe is repeated: a call that changes nothing, or one that carries a `request_id`;
    and only where the server was unavailable or dropped the call, or says (RetryInfo) that it may
    accept the call again within the time-out. The time-out bounds the call as a whole, whatever the
    number of attempts.

    A server that has answered this client before and is gone is being started again, most likely:
    attempts that meet no server do not count then, and go on until the time-out.

    >>> Client(retry=RetryPolicy(max_attempts=10))
    """

    max_attempts: int = 6
    """The most times a call is sent, the first time included. 1 never repeats."""
    initial_delay: float = 0.1
    """The longest wait, in seconds, before the second attempt."""
    multiplier: float = 2.0
    """The factor by which each wait may be longer than the one before."""
    max_delay: float = 5.0
    """No wait is longer than this many seconds, unless the server asks for it."""
    random: Callable[[], float] = random.random
    """The source of the jitter: a number from 0 to 1. A wait is that part of the longest wait."""
    fails_fast: bool = False
    """True: a server that answered before is looked for `max_attempts` times, as any other."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise invalid("max_attempts", "is at least 1")
        if self.initial_delay < 0 or self.max_delay < 0 or self.multiplier < 1:
            raise invalid(
                "retry", "needs delays that are not negative and a multiplier of at least 1"
            )

    def delay(self, failures: int, asked_for: float | None) -> float:
        """Return the seconds to wait after so many failures; never less than the server
        `asked_for`.
        """
        longest = min(self.max_delay, self.initial_delay * self.multiplier ** min(failures - 1, 64))
        return (asked_for or 0.0) + self.random() * longest

    @property
    def waits_for_restarts(self) -> bool:
        """Return whether a server that answered before is waited for."""
        return self.max_attempts > 1 and not self.fails_fast


DEFAULT_RETRY = RetryPolicy()


class Attempts:
    """The attempts of one call: counts them, and keeps its deadline."""

    def __init__(
        self,
        call: Call[Any],
        timeout: float,
        policy: RetryPolicy | None,
        *,
        was_answered: bool,
    ) -> None:
        """Begin a call, of a client whom the server has answered before or not."""
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._policy = policy if call.may_be_repeated else None
        self._waits = was_answered and policy is not None and policy.waits_for_restarts
        self._failures = 0
        self._counted = 0
        """The failures that count towards `max_attempts`."""

    def time_left(self) -> float:
        """Return the seconds that the next attempt may take."""
        return max(self._deadline - time.monotonic(), 0.001)

    def delay_after(self, error: RecollectError) -> float:
        """Return the seconds to wait before the next attempt. Raises the error if there is to be
        none.
        """
        if self._policy is None or not _is_worth_repeating(error):
            raise error
        self._failures += 1
        delay = self._policy.delay(self._failures, error.retry_delay)
        if self._waits and is_away(error):
            delay = min(delay, _LONGEST_PAUSE)
        else:
            self._counted += 1
            if self._counted >= self._policy.max_attempts:
                raise error
        reserve = min(_LONGEST_RESERVE, self._timeout / 10)
        if time.monotonic() + delay >= self._deadline - reserve:
            raise error
        return delay


def is_away(error: RecollectError) -> bool:
    """Return whether a call met no server, as while that is started again."""
    return error.code == "UNAVAILABLE" and error.reason is None and error.retry_delay is None


def is_from_server(outcome: object) -> bool:
    """Return whether the outcome of a call is an answer of Recollect's, and be it a refusal."""
    return not isinstance(outcome, RecollectError) or outcome.reason is not None


def _is_worth_repeating(error: RecollectError) -> bool:
    """Return whether the server names a delay after which it may accept the call, or is away."""
    return error.retry_delay is not None or error.code in _WORTH_REPEATING


def checked_timeout(timeout: float) -> float:
    """Return a time-out in seconds. Raises InvalidArgument for a value that is none."""
    if not (
        isinstance(timeout, int | float) and math.isfinite(timeout) and 0 < timeout <= MAX_TIMEOUT
    ):
        raise invalid(
            "timeout",
            f"must be a number of seconds above 0 and at most {MAX_TIMEOUT}, not {timeout!r:.50}",
        )
    return float(timeout)
