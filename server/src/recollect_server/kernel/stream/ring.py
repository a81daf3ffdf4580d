"""Updates as they are sent, and the newest of them in memory."""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from recollect_server.kernel.log.order import Key, Mark

_RING_BYTES = 32 << 20
_RING_ENTRIES = 50_000

About = tuple[str, str]
"""Subject of an update: the log, and its channel (empty: not known any more)."""


@dataclass(frozen=True, slots=True)
class Interest:
    """Filter of a watcher; an empty part matches all."""

    conversation_ids: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()

    def wants(self, about: About) -> bool:
        """Return whether the filter matches."""
        conversation_id, channel = about
        return (not self.conversation_ids or conversation_id in self.conversation_ids) and (
            not self.channels or not channel or channel in self.channels
        )

    def wants_any(self, them: Collection[About]) -> bool:
        """Return whether the filter matches any of them."""
        return not (self.conversation_ids or self.channels) or any(map(self.wants, them))


@dataclass(slots=True)
class Batch:
    """Updates that follow each other, encoded: the same one for all who are sent the same."""

    updates: list[bytes]
    packed: dict[int, list[bytes]] = field(default_factory=dict)
    """Elements of a stream made of them, by the number of updates in each."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An update as it is sent."""

    about: About
    data: bytes
    mark: Mark
    """Its place, with what was missing at it."""


class Ring:
    """The newest updates of a log, in memory. Its owner guards it with a lock."""

    def __init__(self, latest: Key) -> None:
        self._entries: list[Entry] = []
        self._bytes = 0
        self.after: Key = latest
        """It has everything behind this cursor up to `latest`."""
        self.latest: Key = latest

    def run(self, cursor: Key, most: int) -> tuple[list[Entry], Key] | None:
        """Return the oldest entries behind a cursor, and the cursor behind them; None if it does
        not reach back to it.
        """
        if cursor < self.after:
            return None
        start = bisect_right(self._entries, cursor, key=attrgetter("mark.key"))
        run = self._entries[start : start + most]
        return run, run[-1].mark.key if start + most < len(self._entries) else self.latest

    def extend(self, new: list[Entry], deleted: dict[str, Key], latest: Key) -> None:
        """Append new entries up to a cursor. `deleted`: the cursor of the deletion of each deleted
        conversation.
        """
        self.latest = latest
        self._entries += new
        self._bytes += sum(len(entry.data) for entry in new)
        if deleted:  # as in the log itself: of what is deleted, only that stays
            self._entries = [
                entry
                for entry in self._entries
                if entry.about[0] not in deleted or entry.mark.key >= deleted[entry.about[0]]
            ]
            self._bytes = sum(len(entry.data) for entry in self._entries)
        while self._bytes > _RING_BYTES or len(self._entries) > _RING_ENTRIES:
            # at once: a list gives up its front slowly
            half = self._entries[: len(self._entries) // 2 + 1]
            del self._entries[: len(half)]
            self._bytes -= sum(len(entry.data) for entry in half)
            self.after = half[-1].mark.key

    def clear(self, latest: Key) -> None:
        """Keep nothing, and go on behind a cursor."""
        self._entries.clear()
        self._bytes = 0
        self.after = self.latest = latest


def batch_of(entries: Sequence[Entry], interest: Interest) -> Batch:
    """Return the entries that a watcher wants, to send."""
    return Batch([entry.data for entry in entries if interest.wants(entry.about)])
