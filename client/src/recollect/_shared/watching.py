"""The state of a watch: its cursor, its next request, and its delay before connecting again."""

import time
from collections import deque
from typing import Any, Generic, TypeVar

from recollect._shared.retry import DEFAULT_RETRY, RetryPolicy, is_away
from recollect._shared.rpc import Call
from recollect.errors import RecollectError

Item = TypeVar("Item")
Element = list[tuple[str, Item | None]]
"""The updates of one element of a stream, each with its cursor. None: nobody but the cursor needs
it.
"""

_TRANSIENT = frozenset({"UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED"})
_BROKEN = frozenset({"INTERNAL", "UNKNOWN"})
"""The codes of a connection that broke in the middle of something. A fault of the server
itself brings a reason.
"""


class Watching(Generic[Item]):
    """One watch, whatever number of connections it takes."""

    def __init__(self, call: Call[Element[Item]], policy: RetryPolicy | None) -> None:
        """Watch with a call whose request has a `cursor`."""
        self.cursor: str = call.request.cursor
        self._request = call.request
        self._read = call.read
        self._policy = policy
        self._waiting: deque[tuple[str, Item | None]] = deque()
        self._was_connected = False
        self._failures = 0
        self._began: float | None = None
        """The moment of the first failure, while no connection has stood."""

    def request(self) -> Any:
        """Return the request for everything after the updates that were received."""
        request = type(self._request)()
        request.CopyFrom(self._request)
        return request

    def received(self, response: Any) -> None:
        """Add one element of the stream."""
        self._was_connected = True
        self._failures = 0
        for cursor, update in self._read(response):
            if cursor:
                self._request.cursor = cursor
            self._waiting.append((cursor, update))

    def next(self) -> Item | None:
        """Return the next received update; None if there is none."""
        while self._waiting:
            cursor, update = self._waiting.popleft()
            self.cursor = cursor or self.cursor
            if update is not None:
                return update
        return None

    def delay_after(self, error: RecollectError | None, patience: float) -> float:
        """Return the seconds to wait before connecting again; None is a stream that ended. Raises
        the error if there is to be no further attempt.

        The first connection is tried as often as any call, and for `patience` seconds where the
        server is away; one that was there once is made again for as long as it takes.
        """
        self._failures += 1
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        if error is None:
            return (self._policy or DEFAULT_RETRY).delay(self._failures, None)
        transient = error.code in _TRANSIENT or (error.code in _BROKEN and error.reason is None)
        if self._policy is None or not transient:
            raise error
        waits = is_away(error) and now - self._began < patience
        if not (self._was_connected or waits or self._failures < self._policy.max_attempts):
            raise error
        return self._policy.delay(self._failures, error.retry_delay)
