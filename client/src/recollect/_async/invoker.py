"""Runs calls: sends each, waits and sends it again where that is safe, and turns failures into exceptions."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from recollect._shared import channel
from recollect._shared.failures import failure
from recollect._shared.retry import Attempts, RetryPolicy, checked_timeout
from recollect._shared.rpc import Answer, Call, Request, Response
from recollect.errors import ClientClosed, RecollectError


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
        self._retry = retry
        self._sleep = sleep
        self._closed = False
        self._channel: grpc.aio.Channel | None = None
        self._methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}

    async def run(self, call: Call[Request, Response, Answer], timeout: float | None) -> Answer:
        """Sends the call, again where that is safe and may help, and answers in plain types."""
        attempts = Attempts(call, self._timeout if timeout is None else checked_timeout(timeout), self._retry)
        while True:
            outcome = await self._attempt(call, attempts.time_left())
            if not isinstance(outcome, RecollectError):
                return call.read(outcome)
            await self._sleep(attempts.delay_after(outcome))

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

    def _method(self, call: Call[Request, Response, Answer]) -> "grpc.aio.UnaryUnaryMultiCallable[Request, Response]":
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self.target, channel.CHANNEL_OPTIONS)
        method = call.method
        if method.path not in self._methods:
            self._methods[method.path] = self._channel.unary_unary(method.path, method.serialize, method.parse)
        return self._methods[method.path]
