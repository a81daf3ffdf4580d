"""`client.conversations.watch` and `client.external.watch`."""

from collections.abc import AsyncIterator, Awaitable, Generator
from types import TracebackType
from typing import Any, Self

from recollect._async.invoker import Invoker, Stream
from recollect._shared.rpc import Call
from recollect._shared.watching import Element, Item, Watching
from recollect.errors import ClientClosed, RecollectError


class Done(Awaitable[None]):
    """An awaitable with nothing left to wait for. Not a coroutine: one that nobody awaits would do nothing, and warn."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class Watch(AsyncIterator[Item]):
    """Live updates, one after the other. When the connection breaks it is made again, and goes on where it was.

    It ends when it is closed, or the client is. A failure that connecting again does not mend is raised.
    """

    def __init__(self, invoker: Invoker, call: Call[Any, Any, Element[Item]]) -> None:
        self._invoker = invoker
        self._call = call
        self._watching = Watching(call, invoker.retry)
        self._stream: Stream[Any] | None = None
        self._closed = False

    @property
    def cursor(self) -> str:
        """The position behind the last update that was yielded: give it to another `watch` to go on there."""
        return self._watching.cursor

    def close(self) -> Awaitable[None]:
        """Ends the watch; whoever waits for its next update is told that there is none. A second time does nothing.

        >>> await watch.close()
        """
        self._closed = True
        if self._stream is not None:
            self._stream.cancel()
        return Done()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while not self._closed:
            if (found := self._watching.next()) is not None:
                return found
            try:
                if self._stream is None:
                    self._stream = self._invoker.stream(self._call.method, self._watching.request())
                response, error = await self._stream.read(), None
            except ClientClosed:
                break
            except RecollectError as failed:
                response, error = None, failed
            if response is not None:
                self._watching.received(response)
            elif not self._closed:
                self._stream = None
                await self._invoker.sleep(self._watching.delay_after(error))
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
