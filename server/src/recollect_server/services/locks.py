"""Locks by name."""

import threading
from collections.abc import Iterable, Iterator
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
    def hold_each(self, names: Iterable[str]) -> Iterator[None]:
        """Holds the locks of several names, in an order that all callers share. The caller must hold none."""
        with ExitStack() as stack:
            for stripe in sorted({hash(name) % _STRIPES for name in names}):
                stack.enter_context(self._locks[stripe])
            yield

    @contextmanager
    def hold_all(self) -> Iterator[None]:
        """Holds every lock: nobody else holds any. The caller must hold none."""
        with ExitStack() as stack:
            for lock in self._locks:
                stack.enter_context(lock)
            yield
