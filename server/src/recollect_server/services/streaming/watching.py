"""Protocols of what can be watched, and of a watcher: the conversations of a space, by `live` and
`subscription`, and its external communications, by `services.external.live`. Senders need not know
which.
"""

from collections.abc import Callable
from typing import Protocol

from recollect_server.services.streaming.log import Batch, News


class Watcher(Protocol):
    """One watcher's place, and what comes next for it. One thread at a time may call it."""

    def concerned(self, news: News) -> bool:
        """Return whether there may be something for it."""

    def take(self, most: int) -> tuple[Batch, bool]:
        """Return at most `most` updates that come next, and whether more wait. Raises
        IndexUnavailable, StorageUnavailable.
        """

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the cursor."""


class Watched(Protocol):
    """Something that is watched. Safe to call from any thread, but for `advance` and `tick`, which
    one thread calls.
    """

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which returns at once, whenever there is news for `advance`."""

    def expect(self) -> None:
        """Note that nothing else is done before news comes: it is signalled soon."""

    def advance(self) -> News:
        """Take the news that came."""

    def tick(self) -> None:
        """Do the periodic work."""

    def unsubscribe(self) -> None:
        """Count one watcher less."""
