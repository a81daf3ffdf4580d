"""Filters: which conversations and messages a call is about; and the pages of what they choose.
Every part of a filter that is set must match. Times are in milliseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from recollect_server.kernel.domain.conversation import NOBODY, Party

T = TypeVar("T")

PageEnd = tuple[int, str]
"""End of a page: a time, a number or a line, and a name."""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    entries: list[T]
    places: list[PageEnd]
    """Place of each entry in the list."""
    is_last: bool

    @staticmethod
    def of(entries: Sequence[T], size: int, place: Callable[[T], PageEnd]) -> "Page[T]":
        """Return the page of the first `size` entries: one more says that there is another page."""
        page = list(entries[:size])
        return Page(page, list(map(place, page)), len(entries) <= size)

    def end(self, count: int | None = None) -> PageEnd | None:
        """Return the place behind which the next page begins, if this one has `count` entries
        (None: all); None if there is no other.
        """
        taken = self.places[:count]
        is_whole = self.is_last and len(taken) == len(self.places)
        return None if is_whole or not taken else taken[-1]


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter of conversations. `updated_before` is excluded."""

    channels: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()
    party: Party = NOBODY
    pinned: bool | None = None
    updated_after: int | None = None
    updated_before: int | None = None
    name: str = ""
    """With this text in it."""
    notes_failed: bool | None = None
    metadata_key: str = ""
    """With a value of their metadata under this key."""
    archived: bool | None = None
    unindexed: bool | None = None
    conversation_id: str = ""
    conversation_ids: tuple[str, ...] = ()
    identities: tuple[tuple[str, str], ...] = ()
    """Channels and addresses there that count as participants."""

    def with_identities(self, identities: tuple[tuple[str, str], ...]) -> "Filter":
        """Return the same filter, where these count as participants too."""
        return replace(self, identities=identities)


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Scope of a search: conversations, and a range of time (`end` excluded)."""

    conversations: Filter = field(default_factory=Filter)
    start: int | None = None
    end: int | None = None
    hidden: frozenset[int] = frozenset()
    """Messages, by id, that are no hits themselves; what stands beside them is still judged by
    them.
    """

    @property
    def timed(self) -> bool:
        """Return True if the scope has a range of time."""
        return self.start is not None or self.end is not None
