"""Types that logs of updates and their watchers share: filters, summaries of new updates, batches
of updates, snapshots.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from recollect_server.domain.update import Update
from recollect_server.storage.logs.order import Mark

Encode = Callable[[Update], bytes]
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
        return self.everything or any(map(self.wants, them))

    @property
    def everything(self) -> bool:
        """Return whether the filter excludes nothing."""
        return not self.conversation_ids and not self.channels


@dataclass(slots=True)
class Batch:
    """Updates that follow each other, encoded: the same one for all who are sent the same."""

    updates: list[bytes]
    packed: dict[int, list[bytes]] = field(default_factory=dict)
    """Elements of a stream made of them, by the number of updates in each."""


@dataclass(frozen=True, slots=True)
class NewUpdates:
    """Summary of the updates that came since the last call of `advance`."""

    about: Collection[About]
    updates: int
    everyone: bool
    """True if the index is another one now: it concerns every watcher."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The beginning of a watch, encoded, and its place in the log."""

    position: Mark
    parts: tuple[bytes, ...]


class Renewed(Exception):
    """The index is another one, or its log no longer reaches back: begin again."""
