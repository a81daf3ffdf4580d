"""Protocols of what can be watched, and of a watcher: the conversations of a space, by `live` and
`subscription`, and its external communications, by `services.external.live`. Senders need not know
which. And the types they share: filters, summaries of new updates, batches of updates.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

from recollect_server.domain.update import Update
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.log import Newest
from recollect_server.storage.logs.order import Part

Place = Any
"""A place in an update log, which alone knows what it is. Its text is the cursor."""
Encode = Callable[[Update], bytes]
About = tuple[str, str]
"""Subject of an update: the conversation's id, and its channel (empty: not known any more)."""


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


class Renewed(Exception):
    """The index is another one, or its log no longer reaches back: begin again."""


class Log(Protocol):
    """The update log of a space: that of its index (`log`), or one that several processes share
    (`shared`). Safe to call from any thread, but for `advance`, which one thread calls.
    """

    space: Space
    drafts: Drafts
    encode: Encode
    resets: int
    """Number of times that every watcher had to begin again."""

    def watch(self) -> None:
        """Count one watcher more. Raises StorageUnavailable."""

    def unwatch(self) -> None:
        """Count one watcher less."""

    def publish(self, part: Part) -> None:
        """Add a part to a draft. Raises InvalidField, StorageUnavailable. The conversation's lock
        is held.
        """

    def expired(self, conversation_id: str, draft_id: str) -> None:
        """Note that a draft was dropped, which did not grow for too long."""

    def touch(self, about: About) -> None:
        """Note that a draft of this conversation grew or ended."""

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which returns at once, when `advance` has something to do."""

    def expect(self) -> None:
        """Note that the caller of `advance` waits for the next signal from now on."""

    def tick(self) -> None:
        """Do the periodic work."""

    def advance(self) -> NewUpdates:
        """Make updates of the changes that came, and return a summary of them."""

    def behind(self, position: Place, interest: Interest, most: int) -> tuple[Batch, Place]:
        """Return the oldest wanted updates behind a position, and the position behind all that were
        examined. Raises Renewed, IndexUnavailable, StorageUnavailable.
        """

    def position_of(self, cursor: str) -> Place | None:
        """Return the position that a cursor names; None if the log does not reach back to it.
        Raises InvalidField, IndexUnavailable, StorageUnavailable.
        """

    def begin(self) -> Place:
        """Return the position behind everything that is acknowledged, which a snapshot of the index
        has that is taken from here on. Raises IndexUnavailable, StorageUnavailable.
        """

    def placed(self, start: Place, index: Index, newest: Newest) -> tuple[Place, dict[str, int]]:
        """Return the position of a snapshot of an index, taken after `start`; and what of it comes
        behind that position: the byte at which it begins, by conversation.
        """


class Watcher(Protocol):
    """One watcher's place, and what comes next for it. One thread at a time may call it."""

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""

    def take(self, most: int) -> tuple[Batch, bool]:
        """Return at most `most` updates that come next, and whether more wait. Raises
        IndexUnavailable, StorageUnavailable.
        """

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the cursor."""


class Watched(Protocol):
    """Something that is watched. Safe to call from any thread, but for `advance` and `tick`, which
    one thread calls.
    """

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which returns at once, whenever `advance` has something to do."""

    def expect(self) -> None:
        """Note that the caller of `advance` is idle: the next change is to be signalled soon."""

    def advance(self) -> NewUpdates:
        """Take the changes that came, and return a summary of them."""

    def tick(self) -> None:
        """Do the periodic work."""

    def unsubscribe(self) -> None:
        """Count one watcher less."""
