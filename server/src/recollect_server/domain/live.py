"""Values that may change while the server runs, such as those of settings.

A user of such a value keeps the `Live`, not the value, and reads `now` at each use. There
are no subscriptions, so parts that come and go (spaces) leave nothing behind.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Live(ABC, Generic[T]):
    """A value that may change while it is in use."""

    @property
    @abstractmethod
    def now(self) -> T:
        """The value now. It costs little: read it at each use."""

    def view(self, make: Callable[[T], U]) -> "Live[U]":
        """Return a value that is made from this one, anew once this one has changed."""
        return _View(self, make)


class Holder(Live[T]):
    """Holder of a value, which replaces it. Safe to call from any thread."""

    def __init__(self, value: T) -> None:
        self._value = value
        self._guard = threading.Lock()  # orders changes; `now` needs no lock
        self._followers: list[Callable[[T], None]] = []

    @property
    def now(self) -> T:
        """The value now."""
        return self._value

    def set(self, value: T) -> None:
        """Replace the value, and notify its followers."""
        with self._guard:
            self._value = value
            for follower in self._followers:
                follower(value)

    def follow(self, follower: Callable[[T], None]) -> None:
        """Call a function with the value at each change from now on: for what cannot be read at
        each use. It must not raise.
        """
        with self._guard:
            self._followers.append(follower)


class _View(Live[U], Generic[T, U]):
    """A value that is made from another one, and kept until that one changes."""

    def __init__(self, source: Live[T], make: Callable[[T], U]) -> None:
        self._source = source
        self._make = make
        first = source.now
        self._made: tuple[T, U] = first, make(first)

    @property
    def now(self) -> U:
        """The value now."""
        source = self._source.now
        made = self._made  # one read, for another thread may replace it
        if made[0] is not source:
            made = self._made = source, self._make(source)
        return made[1]
