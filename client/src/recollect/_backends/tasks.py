"""A connection for the tasks of an event loop, over grpc.aio."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

import grpc
import grpc.aio

from recollect._shared.channel import CHANNEL_OPTIONS
from recollect._shared.diagnosis import diagnosed
from recollect._shared.endpoint import Endpoint
from recollect._shared.failures import failure
from recollect._shared.rpc import Answer, Call, Method
from recollect._shared.tracing import with_trace
from recollect.errors import Cancelled, ClientClosed, RecollectError


class Connection:
    """A gRPC channel for each event loop that makes calls, opened by its first one: a channel
    belongs to its loop, and a program may run one loop after the other (`asyncio.run`).
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.target = endpoint.target
        self._endpoint = endpoint
        self._metadata = endpoint.metadata
        self._closed = False
        self._opened: dict[asyncio.AbstractEventLoop, _Opened] = {}
        self._pauses: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    async def send(self, call: Call[Answer], timeout: float) -> Any:
        """Send a call once and return its response or its failure. Raises ClientClosed."""
        if self._closed:
            raise ClientClosed("this client is closed")
        method = self._method(call.method)
        running = asyncio.ensure_future(
            _response(method(call.request, timeout=timeout, metadata=with_trace(self._metadata)))
        )
        try:
            # grpc.aio answers a cancellation with a CancelledError of its own, which anyio does not
            # take for the one of its scope: the scope would leak it. `wait` raises the original.
            await asyncio.wait({running})
        finally:
            running.cancel()
        if not running.cancelled():
            outcome = running.result()
            if not (self._closed and isinstance(outcome, RecollectError)):
                return outcome
        elif not self._closed:
            return RecollectError("the call was cancelled", code="CANCELLED")
        return ClientClosed("this client was closed during the call")

    def stream(self, method: Method[Any], request: Any) -> "Stream":
        """Open a stream. Raises ClientClosed."""
        if self._closed:
            raise ClientClosed("this client is closed")
        channel = self._connected().channel
        opened = channel.unary_stream(method.path, method.serialize, method.parse)
        return Stream(opened(request, metadata=with_trace(self._metadata)), lambda: self._closed)

    async def diagnosed(self, error: RecollectError, seconds: float) -> RecollectError:
        """Return the error of a call that failed for good, or in its place what is wrong with the
        connection, within some seconds.
        """
        if self._closed:
            return error
        return await asyncio.to_thread(diagnosed, error, self._endpoint, seconds)

    async def pause(self, seconds: float, is_over: Callable[[], bool]) -> None:
        """Wait until the connection is closed, or the pause is over at a `wake`, but no longer than
        these seconds.
        """
        awake = asyncio.Event()
        self._pauses[awake] = asyncio.get_running_loop()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not (self._closed or is_over()):
                        await awake.wait()
                        awake.clear()
        finally:
            del self._pauses[awake]

    def wake(self) -> None:
        """Have every pause look whether it is over, whichever loop it is in."""
        for awake, loop in list(self._pauses.items()):
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(awake.set)

    async def close(self) -> None:
        """End the connection, and the calls and pauses over it. Closing again does nothing."""
        self._closed = True
        self.wake()
        own = asyncio.get_running_loop()
        for loop, opened in list(self._opened.items()):
            if loop is own:
                await opened.channel.close()
            elif loop.is_running():  # of another thread
                asyncio.run_coroutine_threadsafe(opened.channel.close(), loop)

    def _connected(self) -> "_Opened":
        """Return the channel of the running loop."""
        loop = asyncio.get_running_loop()
        opened = self._opened.get(loop)
        if opened is None:
            for other in list(self._opened):
                if other.is_closed():
                    self._opened.pop(other, None)
            tls = self._endpoint.tls
            channel = (
                grpc.aio.insecure_channel(self.target, CHANNEL_OPTIONS)
                if tls is None
                else grpc.aio.secure_channel(self.target, tls.credentials(), CHANNEL_OPTIONS)
            )
            opened = self._opened[loop] = _Opened(channel)
        return opened

    def _method(self, method: Method[Any]) -> "grpc.aio.UnaryUnaryMultiCallable[Any, Any]":
        opened = self._connected()
        if method.path not in opened.methods:
            call = opened.channel.unary_unary(method.path, method.serialize, method.parse)
            opened.methods[method.path] = call
        return opened.methods[method.path]


class _Opened:
    """A channel, and the methods that were called over it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.methods: dict[str, grpc.aio.UnaryUnaryMultiCallable[Any, Any]] = {}


async def _response(
    running: "grpc.aio.UnaryUnaryCall[Any, Any]",
) -> Any:
    """Return the response of a call, or its failure."""
    try:
        return await running
    except grpc.RpcError as error:
        return failure(error)


class Stream:
    """The responses of one streaming call, in order."""

    def __init__(self, call: Any, closed: Callable[[], bool]) -> None:
        self._call = call
        self._closed = closed
        self._cancelled = False

    async def read(self) -> Any:
        """Return the next response, None at the end. Raises RecollectError, ClientClosed."""
        try:
            response = await self._call.read()
        except grpc.RpcError as error:
            if self._closed():
                raise ClientClosed("this client was closed") from None
            raise failure(error) from None
        except asyncio.CancelledError:
            # As in `send`: only a task that was cancelled itself must hear of it.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            if self._closed() or self._cancelled:
                raise ClientClosed("this client was closed") from None
            # An earlier reader gave up waiting, which ended the stream.
            raise Cancelled("the stream was cancelled", code="CANCELLED") from None
        return None if response is grpc.aio.EOF else response

    def cancel(self) -> None:
        """End the stream."""
        self._cancelled = True
        self._call.cancel()


class Done(Awaitable[None]):
    """An awaitable that is done. A coroutine would do nothing, and warn, where nobody awaits it."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()
