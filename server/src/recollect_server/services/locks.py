"""Locks by name."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_STRIPES = 1024


class StripedLocks:
    """A fixed number of locks that share all names between them. Nobody may hold two of one instance."""

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        """Holds the lock that this name falls to."""
        with self._locks[hash(name) % _STRIPES]:
            yield
