"""Retries with back-off, and a circuit breaker: after too many failures in a row the service is not
called for a while.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)
from tenacity.nap import sleep_using_event

from recollect_server.notes.hosted.language_model import CannotWrite, ModelUnavailable

log = structlog.get_logger("recollect.model")

T = TypeVar("T")

_LONGEST = 60.0  # seconds: a service that says to come back later than this is not waited for


class TryLater(Exception):
    """The service refused in a way that may pass; `after` is how many seconds it said to wait, if
    it did.
    """

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class TookTooLong(TryLater):
    """The service did not answer in time. It may be this conversation that it hangs on, so others
    are not held up by retries.
    """


@dataclass(frozen=True, slots=True)
class Backoff:
    """Settings of the retries and of the circuit breaker; durations are in seconds."""

    first: float = 1.0
    longest: float = 30.0
    tries: int = 4
    failures: int = 3
    """So many calls in a row that failed with all their tries open the circuit."""
    rest: float = 120.0
    """Duration for which the circuit stays open. Then one call is let through, and closes it on
    success.
    """


class CircuitBreaker:
    """Calls with tries and a circuit breaker. `now` answers seconds that only grow. Safe to call
    from any thread.
    """

    def __init__(self, backoff: Backoff, now: Callable[[], float]) -> None:
        self._backoff = backoff
        self._now = now
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards what follows
        self._failed = 0
        self._failure = ""
        """Reason of the last failure."""
        self._open_until = 0.0

    def call(self, work: Callable[[], T]) -> T:
        """Return what the work returns. It raises TryLater for what may pass.

        Raises ModelUnavailable once it is given up; CannotWrite if it took too long, as long as the
        circuit is closed.
        """
        with self._lock:
            if self._failed >= self._backoff.failures:
                if self._now() < self._open_until:
                    raise ModelUnavailable(
                        f"the model is left alone for a while, after {self._failed} failures in a row, the last"
                        f" of them: {self._failure}"
                    )
                # the others wait for what becomes of this one
                self._open_until = self._now() + self._backoff.rest
        retrying = Retrying(
            retry=retry_if_exception_type(TryLater),
            stop=self._given_up,
            wait=self._wait,
            sleep=sleep_using_event(self._closing),
            before_sleep=_say_why,
            reraise=True,
        )
        try:
            done = retrying(work)
        except TryLater as error:
            with self._lock:
                self._failed += 1
                self._failure = str(error)
                self._open_until = self._now() + self._backoff.rest
                is_open = self._failed >= self._backoff.failures
            if isinstance(error, TookTooLong) and not is_open:
                raise CannotWrite(str(error)) from error
            raise ModelUnavailable(str(error)) from error
        except Exception as error:  # what the SDK raises whose connections are closed
            if self._closing.is_set():
                raise ModelUnavailable("the server stops") from error
            raise
        with self._lock:
            self._failed = 0
        return done

    def close(self) -> None:
        """Stop all retries for good: what is at work raises ModelUnavailable."""
        self._closing.set()

    def _given_up(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome else None
        if self._closing.is_set() or isinstance(error, TookTooLong):
            return True
        return stop_after_attempt(self._backoff.tries)(state) or (_asked(state) or 0) > _LONGEST

    def _wait(self, state: RetryCallState) -> float:
        backoff = wait_random_exponential(
            multiplier=self._backoff.first, max=self._backoff.longest
        )(state)
        return max(backoff, _asked(state) or 0)


def _say_why(state: RetryCallState) -> None:
    reason = str(state.outcome.exception()) if state.outcome else ""
    log.info("model_asked_again", reason=reason, seconds=round(state.upcoming_sleep, 1))


def _asked(state: RetryCallState) -> float | None:
    error = state.outcome.exception() if state.outcome else None
    return error.after if isinstance(error, TryLater) else None
