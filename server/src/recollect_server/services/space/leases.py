"""Leases of the work that one process does at a time."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from recollect_server.domain.errors import StorageUnavailable
from recollect_server.storage.logs.store import Sharing

_REFUSED_SECONDS = 5.0  # until a lease is asked for again that another process has


class Leases:
    """The leases of one process on a store that processes share, by purpose."""

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._refused: dict[str, float] = {}
        """Until when leases that others have are not asked for again."""

    @contextmanager
    def hold(self, purpose: str, seconds: float) -> Iterator[bool]:
        """Yield True with the lease held, False while another process has it (see
        `Space.alone`).
        """
        if not (number := self._take(purpose, seconds)):
            yield False
            return
        with self._sharing.holding(purpose, number):
            yield True

    def _take(self, purpose: str, seconds: float) -> int:
        """Return the number of the lease; 0 if another process has it."""
        if self._refused.get(purpose, 0.0) >= time.monotonic():
            return 0
        number = 0
        with suppress(StorageUnavailable):
            number = self._sharing.lease(purpose, seconds)
        if not number:
            self._refused[purpose] = time.monotonic() + min(_REFUSED_SECONDS, seconds)
        return number
