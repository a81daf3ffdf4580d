"""Where a watch stands: what it was told, what it asks for when it connects again, and when it does."""

from collections import deque

from recollect._shared.read_update import update
from recollect._shared.retry import RetryPolicy
from recollect._types.update import Update
from recollect.errors import RecollectError
from recollect.v1 import conversation_service_pb2 as pb

_TRANSIENT = frozenset({"UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED"})
_BROKEN = frozenset({"INTERNAL", "UNKNOWN"})
"""What a connection that broke in the middle of something may look like. A fault of the server itself brings a reason."""


class Watching:
    """One watch, whatever number of connections it takes."""

    def __init__(self, request: pb.StreamUpdatesRequest, policy: RetryPolicy | None) -> None:
        self.cursor = request.cursor
        self._request = request
        self._policy = policy
        self._waiting: deque[tuple[str, Update | None]] = deque()
        self._was_connected = False
        self._failures = 0

    def request(self) -> pb.StreamUpdatesRequest:
        """What to ask for now: what comes behind everything that was received."""
        request = pb.StreamUpdatesRequest()
        request.CopyFrom(self._request)
        return request

    def received(self, response: pb.StreamUpdatesResponse) -> None:
        """One element of the stream."""
        self._was_connected = True
        self._failures = 0
        for it in (response.update, *response.following):
            if it.cursor:
                self._request.cursor = it.cursor
            self._waiting.append((it.cursor, update(it)))

    def next(self) -> Update | None:
        """The next update that was received; None if there is none."""
        while self._waiting:
            cursor, found = self._waiting.popleft()
            self.cursor = cursor or self.cursor
            if found is not None:
                return found
        return None

    def delay_after(self, error: RecollectError | None) -> float:
        """The seconds to wait before connecting again; None is a stream that just ended. Raises the error if there is to be none.

        The first connection is tried as often as any call; one that was there once is made again for as long as it takes.
        """
        self._failures += 1
        if self._policy is None and error is not None:
            raise error
        if error is not None:
            transient = error.code in _TRANSIENT or (error.code in _BROKEN and error.reason is None)
            assert self._policy is not None
            if not transient or (not self._was_connected and self._failures >= self._policy.max_attempts):
                raise error
        policy = self._policy or RetryPolicy()
        return policy.delay(self._failures, error.retry_delay if error else None)
