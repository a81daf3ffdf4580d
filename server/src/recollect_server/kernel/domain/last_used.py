"""A cache of the entries that were used last."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LastUsed(OrderedDict[K, V]):
    """At most so many entries. Not safe to call from several threads."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> None:
        """Set an entry, and drop the oldest one beyond the bound."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)

    def shrink(self, most: int) -> None:
        """Drop all but so many of those that were used last."""
        while len(self) > most:
            self.popitem(last=False)
