"""A connection that threads share, over grpc."""

import threading
from collections.abc import Callable
from typing import Any

import grpc

from recollect._shared.channel import CHANNEL_OPTIONS
from recollect._shared.diagnosis import diagnosed
from recollect._shared.endpoint import Endpoint
from recollect._shared.failures import failure
from recollect._shared.rpc import Answer, Call, Method
from recollect._shared.tracing import with_trace
from recollect.errors import ClientClosed, RecollectError


class Connection:
    """A gRPC channel. It connects with the first call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.target = endpoint.target
        self._endpoint = endpoint
        self._metadata = endpoint.metadata
        self._closed = False
        self._changed = threading.Condition()
        self._channel = (
            grpc.insecure_channel(self.target, CHANNEL_OPTIONS)
            if endpoint.tls is None
            else grpc.secure_channel(self.target, endpoint.tls.credentials(), CHANNEL_OPTIONS)
        )
        self._methods: dict[str, grpc.UnaryUnaryMultiCallable[Any, Any]] = {}

    def send(self, call: Call[Answer], timeout: float) -> Any:
        """Send a call once and return its response or its failure. Raises ClientClosed."""
        if self._closed:
            raise ClientClosed("this client is closed")
        try:
            method = self._method(call.method)
            return method(call.request, timeout=timeout, metadata=with_trace(self._metadata))
        except grpc.RpcError as error:
            outcome = failure(error)
        except (
            ValueError
        ) as error:  # raised by grpc where another thread has just closed the channel
            outcome = RecollectError(str(error))
        return ClientClosed("this client was closed during the call") if self._closed else outcome

    def stream(self, method: Method[Any], request: Any) -> "Stream":
        """Open a stream. Raises ClientClosed."""
        if self._closed:
            raise ClientClosed("this client is closed")
        try:
            opened = self._channel.unary_stream(method.path, method.serialize, method.parse)
            return Stream(
                opened(request, metadata=with_trace(self._metadata)), lambda: self._closed
            )
        except ValueError as error:  # as in `send`
            raise ClientClosed(str(error)) from None

    def diagnosed(self, error: RecollectError, seconds: float) -> RecollectError:
        """Return the error of a call that failed for good, or in its place what is wrong with the
        connection, within some seconds.
        """
        return error if self._closed else diagnosed(error, self._endpoint, seconds)

    def pause(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Wait until the connection is closed, or the pause is over at a `wake`, but no longer than
        these seconds.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or is_over(), seconds)

    def wake(self) -> None:
        """Have every pause look whether it is over."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the connection, and the calls and pauses over it. Closing again does nothing."""
        self._closed = True
        self.wake()
        self._channel.close()

    def _method(self, method: Method[Any]) -> "grpc.UnaryUnaryMultiCallable[Any, Any]":
        if method.path not in self._methods:
            opened = self._channel.unary_unary(method.path, method.serialize, method.parse)
            self._methods[method.path] = opened
        return self._methods[method.path]


class Stream:
    """The responses of one streaming call, in order."""

    def __init__(self, call: Any, closed: Callable[[], bool]) -> None:
        self._call = call
        self._closed = closed

    def read(self) -> Any:
        """Return the next response, None at the end. Raises RecollectError, ClientClosed."""
        try:
            response: Any = next(self._call, None)
        except grpc.RpcError as error:
            if self._closed():
                raise ClientClosed("this client was closed") from None
            raise failure(error) from None
        return response

    def cancel(self) -> None:
        """End the stream."""
        self._call.cancel()
