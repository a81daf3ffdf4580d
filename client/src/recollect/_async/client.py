"""`recollect.AsyncClient`."""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from recollect._async.channels import Channels
from recollect._async.conversations import Conversations
from recollect._async.external import External
from recollect._async.invoker import Invoker
from recollect._async.recall import Recall
from recollect._shared.channel import DEFAULT_TARGET, DEFAULT_TIMEOUT
from recollect._shared.retry import DEFAULT_RETRY, RetryPolicy


class AsyncClient:
    """A connection to a Recollect server. Tasks of one event loop may share one.

    >>> async with AsyncClient("127.0.0.1:50051") as client:
    ...     conversation = await client.conversations.create("web")

    `target` is the server's address, or `unix:PATH`. `timeout` bounds every call in seconds, its
    retries included; each method takes another. `token` goes with every call as a bearer token.
    `retry` says how calls are repeated, `None` never to. `sleep` is how it waits before a retry;
    tests give their own.

    Nothing is connected before the first call. Every failure is a `RecollectError`.
    """

    conversations: Conversations
    """Begin, write, read, name and delete conversations."""
    recall: Recall
    """Find conversations and messages again."""
    channels: Channels
    """Bring messages of any provider to their conversations; say who is an owner."""
    external: External
    """Read, trust and answer third parties."""

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        token: str | None = None,
        retry: RetryPolicy | None = DEFAULT_RETRY,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._invoker = Invoker(target, timeout, token, retry, sleep)
        self.conversations = Conversations(self._invoker)
        self.recall = Recall(self._invoker)
        self.channels = Channels(self._invoker)
        self.external = External(self._invoker)

    async def close(self) -> None:
        """End the connection, and running calls with `ClientClosed`. Closing again does nothing.

        >>> await client.close()
        """
        await self._invoker.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._invoker.target}>"
