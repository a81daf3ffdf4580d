"""`recollect.AsyncClient`."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from recollect._async.access import Access
from recollect._async.admin import Admin
from recollect._async.channels import Channels
from recollect._async.checkpoints import Checkpoints
from recollect._async.conversations import Conversations
from recollect._async.external import External
from recollect._async.insight import Insight
from recollect._async.invoker import Invoker
from recollect._async.recall import Recall
from recollect._shared.channel import DEFAULT_TIMEOUT
from recollect._shared.endpoint import Endpoint, Pem
from recollect._shared.retry import DEFAULT_RETRY, RetryPolicy


class AsyncClient:
    """A connection to a Recollect server. Tasks of one event loop may share one.

    >>> async with AsyncClient("127.0.0.1:50051") as client:
    ...     conversation = await client.conversations.create("web")

    `target` is the server's address, or `unix:PATH` (else RECOLLECT_ADDRESS, else
    127.0.0.1:50051). `timeout` bounds every call in seconds, its retries included; each method
    takes another. `retry` says how calls are repeated, `None` never to. `sleep` is how it waits
    before a retry; tests give their own, which `close` does not end.

    `token` goes with every call (else RECOLLECT_TOKEN), and `space` names whose data is meant (else
    RECOLLECT_SPACE, else what the token is for). `ca` turns TLS on: a file with the authority of
    the server's certificate, its PEM as bytes, or `"system"` for authorities that this machine
    trusts (else RECOLLECT_CA). `cert` is a certificate of the client's own and its key, for servers
    that ask for one. A token goes over the network in plain text only if `insecure` is true.

    `time_zone` is that of the dates in questions, contexts and reports whose calls name none, such
    as "Asia/Tokyo" (else the server's).

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
    insight: Insight
    """Count what was written and what it cost."""
    checkpoints: Checkpoints
    """Keep the state of programs, by thread."""
    access: Access
    """Tell what this client may do."""
    admin: Admin
    """Administer the server: settings, spaces, tokens, and the state of what it keeps."""

    def __init__(
        self,
        target: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        token: str | None = None,
        space: str | None = None,
        ca: Pem | None = None,
        cert: tuple[Pem, Pem] | None = None,
        insecure: bool = False,
        time_zone: str | None = None,
        retry: RetryPolicy | None = DEFAULT_RETRY,
        sleep: Callable[[float], Awaitable[object]] | None = None,
    ) -> None:
        endpoint = Endpoint.of(
            target, token=token, space=space, ca=ca, cert=cert, insecure=insecure
        )
        self._invoker = Invoker(endpoint, timeout, retry, sleep, time_zone)
        self.conversations = Conversations(self._invoker)
        self.recall = Recall(self._invoker)
        self.channels = Channels(self._invoker)
        self.external = External(self._invoker)
        self.insight = Insight(self._invoker)
        self.checkpoints = Checkpoints(self._invoker)
        self.access = Access(self._invoker)
        self.admin = Admin(self._invoker)

    @property
    def time_zone(self) -> str | None:
        """Return the time zone of the dates of calls that name none; None: the server's."""
        return self._invoker.time_zone

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
