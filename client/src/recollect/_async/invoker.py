"""Runs calls: sends each, waits and sends it again where that is safe, and turns failures into exceptions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic

import grpc
import grpc.aio

from recollect._shared import channel
from recollect._shared.failures import failure
from recollect._shared.retry import Attempts, RetryPolicy, checked_timeout
from recollect._shared.rpc import Answer, Call, Method, Request, Response
from recollect.errors import Cancelled, ClientClosed, RecollectError


class Invoker:
    """A connection, and how calls are run over it. Tasks of one event loop may share it.

    The connection is made with the first call, because it belongs to the event loop that runs then.
    """

    def __init__(
        self,
        target: str,
        timeout: float,
        token: str | None,
        retry: RetryPolicy | None,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self.target = channel.checked_target(target)
        self._timeout = checked_timeout(timeout)
        self._metadata = channel.call_metadata(token)
        self.retry = retry
        self.sleep = sleep
        self._closed = False
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    async def run(self, call: Call[Request, Response, Answer], timeout: float | None) -> Answer:
        """Sends the call, again where that is safe and may help, and answers in plain types."""
        attempts = Attempts(call, self._timeout if timeout is None else checked_timeout(timeout), self.retry)
        while True:
            outcome = await self._attempt(call, attempts.time_left())
            if not isinstance(outcome, RecollectError):
                return call.read(outcome)
            await self.sleep(attempts.delay_after(outcome))

    def stream(self, method: Method[Request, Response], request: Request) -> "Stream[Response]":
        """Opens a stream. Raises ClientClosed."""
        if self._closed:
            raise ClientClosed("this client is closed")
        opened = self._connected().unary_stream(method.path, method.serialize, method.parse)
        return Stream(opened(request, metadata=self._metadata), lambda: self._closed)

    async def close(self) -> None:
        """Ends the connection and what runs over it. A second time does nothing."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close()

    async def _attempt(self, call: Call[Request, Response, Answer], timeout: float) -> Response | RecollectError:
        if self._closed:
            raise ClientClosed("this client is closed")
        try:
            return await self._method(call)(call.request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            outcome = failure(error)
        except asyncio.CancelledError:
            # close() cancels what runs. A task that was cancelled itself must hear of it; one that was not, must not.
            task = asyncio.current_task()
            if not self._closed or task is None or task.cancelling():
                raise
            outcome = RecollectError("cancelled")
        return ClientClosed("this client was closed during the call") if self._closed else outcome

    def _connected(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self.target, channel.CHANNEL_OPTIONS)
        return self._channel

    def _method(self, call: Call[Request, Response, Answer]) -> "grpc.aio.UnaryUnaryMultiCallable[Request, Response]":
        method = call.method
        if method.path not in self._methods:
            self._methods[method.path] = self._connected().unary_unary(method.path, method.serialize, method.parse)
        return self._methods[method.path]


class Stream(Generic[Response]):
    """What a server sends, one after the other."""

    def __init__(self, call: Any, closed: Callable[[], bool]) -> None:
        self._call = call
        self._closed = closed
        self._cancelled = False

    async def read(self) -> Response | None:
        """The next one; None at the end. Raises RecollectError, ClientClosed."""
        try:
            response = await self._call.read()
        except grpc.RpcError as error:
            if self._closed():
                raise ClientClosed("this client was closed") from None
            raise failure(error) from None
        except asyncio.CancelledError:
            # As in `_attempt`: only a task that was cancelled itself must hear of it.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            if self._closed() or self._cancelled:
                raise ClientClosed("this client was closed") from None
            # Somebody gave up waiting for it before, which ended the stream.
            raise Cancelled("the stream was cancelled", code="CANCELLED") from None
        return None if response is grpc.aio.EOF else response

    def cancel(self) -> None:
        """Ends it."""
        self._cancelled = True
        self._call.cancel()
