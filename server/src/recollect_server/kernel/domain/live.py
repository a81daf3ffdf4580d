"""Values that may change while the server runs, such as those of settings.

A user of such a value keeps the `Live`, not the value, and reads `now` at each use: one look at an
attribute. A value that is made from another one is held weakly by it, so parts that come and go
(spaces) leave nothing behind.
"""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")
U = TypeVar("U")


class Live(Generic[T]):
    """A value that may change while it is in use. Safe to call from any thread."""

    now: T
    """The value now. Its users only read it."""

    def __init__(self, value: T) -> None:
        self.now = value
        self._guard = threading.RLock()  # orders changes; `now` needs no lock
        self._views: WeakSet[_View[T, Any]] = WeakSet()

    def view(self, make: Callable[[T], U]) -> "Live[U]":
        """Return a value that is made from this one, anew whenever this one changes."""
        with self._guard:
            view = _View(self, make)
            self._views.add(view)
        return view

    def _change(self, value: T) -> None:
        with self._guard:
            self.now = value
            with ExitStack() as rest:  # which calls all of them, whatever one raises
                for view in self._views:
                    rest.callback(view.renew)


class Holder(Live[T]):
    """Holder of a value, which replaces it. Safe to call from any thread."""

    def __init__(self, value: T) -> None:
        super().__init__(value)
        self._followers: list[Callable[[T], None]] = []

    def set(self, value: T) -> None:
        """Replace the value, and notify its followers. Raises what a view's `make` raises, once all
        others are made.
        """
        with self._guard:
            try:
                self._change(value)
            finally:
                for follower in self._followers:
                    follower(value)

    def follow(self, follower: Callable[[T], None]) -> None:
        """Call a function with the value at each change from now on: for what cannot be read at
        each use. It must not raise.
        """
        with self._guard:
            self._followers.append(follower)


class _View(Live[U], Generic[T, U]):
    """A value that is made from another one, which it keeps alive."""

    def __init__(self, source: Live[T], make: Callable[[T], U]) -> None:
        super().__init__(make(source.now))
        self._source = source
        self._make = make

    def renew(self) -> None:
        """Make the value anew: the other one has changed."""
        self._change(self._make(self._source.now))
