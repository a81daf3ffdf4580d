"""Protocols of what can be watched, and of a watcher: the conversations of a space, by `live` and
`subscription`, and its external communications, by `services.external.live`. Senders need not know
which.
"""

from typing import Protocol

from recollect_server.services.streaming.log import Batch, News


class Watcher(Protocol):
    """One watcher's place, and what comes next for it. One thread at a time may call it."""

    def concerned(self, news: News) -> bool:
        """Return whether there may be something for it."""

    def take(self, most: int) -> tuple[Batch, bool]:
        """At most so many updates that come next, and whether more wait. Raises IndexUnavailable,
        StorageUnavailable.
        """

    def heartbeat(self) -> bytes:
        """That nothing happened, with the cursor."""


class Watched(Protocol):
    """Something that is watched. Safe to call from any thread, but for `advance` and `tick`, which
    one thread calls.
    """

    def advance(self, timeout: float) -> News:
        """Waits so many seconds for news."""

    def wake(self) -> None:
        """Lets `advance` return now."""

    def tick(self) -> None:
        """Some time passed."""

    def unsubscribe(self) -> None:
        """One watcher less."""
