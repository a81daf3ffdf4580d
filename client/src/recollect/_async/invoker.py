"""Calls with retries: each is sent, and sent again where that is safe and may help."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from recollect._backends.tasks import Connection, Stream
from recollect._shared.diagnosis import named
from recollect._shared.endpoint import Endpoint
from recollect._shared.pages import Item, Page, next_page
from recollect._shared.retry import Attempts, RetryPolicy, checked_timeout, is_from_server
from recollect._shared.rpc import Answer, Call, Method
from recollect.errors import RecollectError


class Invoker:
    """A connection with the time-out and the retries of its calls. Tasks of one event loop may
    share one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        timeout: float,
        retry: RetryPolicy | None,
        sleep: Callable[[float], Awaitable[object]] | None,
        time_zone: str | None,
    ) -> None:
        self._connection = Connection(endpoint)
        self._timeout = checked_timeout(timeout)
        self.retry = retry
        self._sleep = sleep
        self.time_zone = time_zone
        self._was_answered = False

    @property
    def target(self) -> str:
        """Return the server's address."""
        return self._connection.target

    @property
    def patience(self) -> float:
        """Return the seconds for which a server that is away is waited for: 0 for one that never
        answered.
        """
        waits = self.retry is not None and self.retry.waits_for_restarts
        return self._timeout if waits and self._was_answered else 0.0

    def answered(self) -> None:
        """Note that the server answers at this address."""
        self._was_answered = True

    async def run(self, call: Call[Answer], timeout: float | None) -> Answer:
        """Send the call, as often as its retries allow, and return the answer in plain types."""
        seconds = self._timeout if timeout is None else checked_timeout(timeout)
        attempts = Attempts(call, seconds, self.retry, was_answered=self._was_answered)
        while True:
            outcome = await self._connection.send(call, attempts.time_left())
            if is_from_server(outcome):
                self.answered()
            if not isinstance(outcome, RecollectError):
                return call.read(outcome)
            outcome = named(outcome, self.target, seconds)
            try:
                delay = attempts.delay_after(outcome)
            except RecollectError as error:
                raise await self.diagnosed(error, attempts.time_left()) from None
            await self.pause(delay)

    async def iterate(self, call: Call[Page[Item]], timeout: float | None) -> AsyncIterator[Item]:
        """Yield what the call lists, page by page. `timeout` bounds each page."""
        rest: Call[Page[Item]] | None = call
        while rest is not None:
            page = await self.run(rest, timeout)
            for item in page:
                yield item
            rest = next_page(rest, page)

    def stream(self, method: Method[Any], request: Any) -> Stream:
        """Open a stream. Raises ClientClosed."""
        return self._connection.stream(method, request)

    async def diagnosed(self, error: RecollectError, seconds: float) -> RecollectError:
        """Return what to raise for a call that failed for good: where TLS is the reason, that."""
        return await self._connection.diagnosed(error, seconds)

    async def pause(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> None:
        """Wait before a retry: until the client is closed, or the pause is over at a `wake`, but no
        longer than these seconds.
        """
        if self._sleep is None:
            await self._connection.pause(seconds, is_over)
        else:
            await self._sleep(seconds)

    def wake(self) -> None:
        """Have every pause look whether it is over."""
        self._connection.wake()

    async def close(self) -> None:
        """End the connection, and the calls and pauses over it. Closing again does nothing."""
        await self._connection.close()
