"""Panel of external communications: a watcher's place in their log (`live`)."""

from collections.abc import Callable
from typing import Protocol

from recollect_server.domain.external import CommunicationUpdate
from recollect_server.domain.update import Heartbeat
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.streaming.watching import Batch, NewUpdates, Renewed
from recollect_server.storage.logs.order import Mark

LISTED = 50  # communications in a snapshot
OURS = "x"  # before a position: a cursor of this stream is never one of the conversations' updates

EncodeChange = Callable[[CommunicationUpdate], bytes]


class CommunicationLog(Protocol):
    """The log of changes of external communications."""

    store: CommunicationStore
    encode: EncodeChange

    def behind(self, position: Mark, most: int) -> tuple[Batch, Mark]:
        """Return the oldest updates behind a position, and the position behind them. Raises
        Renewed, IndexUnavailable, StorageUnavailable.
        """

    def snapshot(self, *, reset: bool) -> tuple[bytes, Mark]:
        """Return the newest communications, and the position that they belong to. Raises
        IndexUnavailable, StorageUnavailable.
        """

    def position_of(self, cursor: str) -> Mark | None:
        """Return the position that a cursor names; None if the log does not have it. Raises
        InvalidField, IndexUnavailable, StorageUnavailable.
        """


class CommunicationWatcher:
    """One watcher's place in the log."""

    __slots__ = ("_first", "_live", "_position")

    def __init__(self, live: CommunicationLog, cursor: str) -> None:
        self._live = live
        self._first: bytes | None = None
        self._position: Mark
        position = live.position_of(cursor) if cursor else None
        if position is None:
            self._begin(reset=bool(cursor))
        else:
            self._position = position

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""
        return new.everyone

    def take(self, most: int) -> tuple[Batch, bool]:
        """Return at most `most` updates that come next, and whether more wait. Raises
        IndexUnavailable, StorageUnavailable.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return Batch([first]), True
        before = self._position
        try:
            batch, self._position = self._live.behind(before, most)
        except Renewed:
            self._begin(reset=True)
            return self.take(most)
        # Changes of other logs may have been passed: then there may be more behind them.
        if batch.updates or self._position != before:
            return batch, True
        # An answer is shared by those who ask the same; to an empty one a heartbeat may be added.
        return Batch([]), False

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the cursor."""
        now = self._live.store.space.clock()
        return self._live.encode(
            CommunicationUpdate(cursor_text(self._position), "", now, Heartbeat())
        )

    def _begin(self, *, reset: bool) -> None:
        self._first, self._position = self._live.snapshot(reset=reset)


def cursor_text(position: Mark) -> str:
    """Return a position in the log in the form that callers see."""
    return f"{OURS}{position}"
