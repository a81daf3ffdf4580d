"""Locks by name."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_STRIPES = 1024


class StripedLocks:
    """A fixed number of locks that share all names between them. Nobody may hold two of one instance."""

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    def hold(self, name: str) -> threading.Lock:
        """The lock that this name falls to, for a `with`."""
        return self._locks[hash(name) % _STRIPES]

    @contextmanager
    def hold_all(self) -> Iterator[None]:
        """Holds every lock: nobody else holds any. The caller must hold none."""
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            yield
