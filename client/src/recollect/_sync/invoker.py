"""Runs calls: sends each, waits and sends it again where that is safe, and turns failures into exceptions."""

from collections.abc import Callable
from typing import Any, Generic

import grpc

from recollect._shared import channel
from recollect._shared.failures import failure
from recollect._shared.retry import Attempts, RetryPolicy, checked_timeout
from recollect._shared.rpc import Answer, Call, Method, Request, Response
from recollect.errors import ClientClosed, RecollectError


class Invoker:
    """A connection, and how calls are run over it. Threads may share it."""

    def __init__(
        self,
        target: str,
        timeout: float,
        token: str | None,
        retry: RetryPolicy | None,
        sleep: Callable[[float], object],
    ) -> None:
        self.target = channel.checked_target(target)
        self._timeout = checked_timeout(timeout)
        self._metadata = channel.call_metadata(token)
        self.retry = retry
        self.sleep = sleep
        self._closed = False
        self._channel = grpc.insecure_channel(self.target, channel.CHANNEL_OPTIONS)
        self._methods: dict[str, grpc.UnaryUnaryMultiCallable[Any, Any]] = {}

    def run(self, call: Call[Request, Response, Answer], timeout: float | None) -> Answer:
        """Sends the call, again where that is safe and may help, and answers in plain types."""
        attempts = Attempts(call, self._timeout if timeout is None else checked_timeout(timeout), self.retry)
        while True:
            outcome = self._attempt(call, attempts.time_left())
            if not isinstance(outcome, RecollectError):
                return call.read(outcome)
            self.sleep(attempts.delay_after(outcome))

    def stream(self, method: Method[Request, Response], request: Request) -> "Stream[Response]":
        """Opens a stream. Raises ClientClosed."""
        if self._closed:
            raise ClientClosed("this client is closed")
        try:
            opened = self._channel.unary_stream(method.path, method.serialize, method.parse)
            return Stream(opened(request, metadata=self._metadata), lambda: self._closed)
        except ValueError as error:  # as below
            raise ClientClosed(str(error)) from None

    def close(self) -> None:
        """Ends the connection and what runs over it. A second time does nothing."""
        self._closed = True
        self._channel.close()

    def _attempt(self, call: Call[Request, Response, Answer], timeout: float) -> Response | RecollectError:
        if self._closed:
            raise ClientClosed("this client is closed")
        try:
            return self._method(call)(call.request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            outcome = failure(error)
        except ValueError as error:  # what grpc raises where another thread closed the channel just now
            outcome = RecollectError(str(error))
        return ClientClosed("this client was closed during the call") if self._closed else outcome

    def _method(self, call: Call[Request, Response, Answer]) -> "grpc.UnaryUnaryMultiCallable[Request, Response]":
        method = call.method
        if method.path not in self._methods:
            self._methods[method.path] = self._channel.unary_unary(method.path, method.serialize, method.parse)
        return self._methods[method.path]


class Stream(Generic[Response]):
    """What a server sends, one after the other."""

    def __init__(self, call: Any, closed: Callable[[], bool]) -> None:
        self._call = call
        self._closed = closed

    def read(self) -> Response | None:
        """The next one; None at the end. Raises RecollectError, ClientClosed."""
        try:
            response: Response | None = next(self._call, None)
        except grpc.RpcError as error:
            if self._closed():
                raise ClientClosed("this client was closed") from None
            raise failure(error) from None
        return response

    def cancel(self) -> None:
        """Ends it."""
        self._call.cancel()
