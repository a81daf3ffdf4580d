"""`client.conversations.watch` and `client.external.watch`."""

from collections.abc import AsyncIterator, Awaitable
from types import TracebackType
from typing import Self

from recollect._async.invoker import Invoker
from recollect._backends import tasks  # async only
from recollect._backends.tasks import Stream
from recollect._shared.channel import DEFAULT_TIMEOUT
from recollect._shared.rpc import Call
from recollect._shared.watching import Element, Item, Watching
from recollect.errors import ClientClosed, RecollectError


class Watch(AsyncIterator[Item]):
    """Stream of live updates, in order. When its connection breaks it connects again, and goes on
    behind the last update: none is missed, and none comes twice.

    Save `cursor` after an update to go on there later, also in another process. The iteration ends
    when the watch or its client is closed, and raises only what a new connection cannot solve, such
    as `PermissionDenied`. Close a watch that you leave early, or use it in a `with` block.

    >>> async with client.conversations.watch() as watch:
    ...     async for update in watch:
    ...         save(watch.cursor)
    """

    def __init__(self, invoker: Invoker, call: Call[Element[Item]]) -> None:
        self._invoker = invoker
        self._call = call
        self._watching = Watching(call, invoker.retry)
        self._stream: Stream | None = None
        self._closed = False

    @property
    def cursor(self) -> str:
        """Return the position after the newest yielded update. Another `watch` with it goes on
        there.
        """
        return self._watching.cursor

    def close(self) -> Awaitable[None]:
        """End the watch, also for a caller that waits for its next update. Closing again does
        nothing.

        >>> await watch.close()
        """
        self._closed = True
        if self._stream is not None:
            self._stream.cancel()
        self._invoker.wake()
        return tasks.Done()  # async only

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while not self._closed:
            if (item := self._watching.next()) is not None:
                return item
            try:
                if self._stream is None:
                    request = self._watching.request()
                    self._stream = self._invoker.stream(self._call.method, request)
                response, failure = await self._stream.read(), None
            except ClientClosed:
                break
            except RecollectError as error:
                response, failure = None, error
            if response is not None:
                self._invoker.answered()
                self._watching.received(response)
            elif not self._closed:
                self._stream = None
                try:
                    delay = self._watching.delay_after(failure, self._invoker.patience)
                except RecollectError as error:
                    raise await self._invoker.diagnosed(error, DEFAULT_TIMEOUT) from None
                await self._invoker.pause(delay, lambda: self._closed)
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
