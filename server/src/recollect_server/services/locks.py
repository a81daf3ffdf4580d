"""Locks by name."""

import threading

_STRIPES = 1024


class StripedLocks:
    """A fixed number of locks that share all names between them. Nobody may hold two of one instance."""

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    def hold(self, name: str) -> threading.Lock:
        """The lock that this name falls to, for a `with`."""
        return self._locks[hash(name) % _STRIPES]
