"""Spaces of a server, and their backups."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SpaceState(StrEnum):
    """State of a space in the server."""

    OPEN = "open"
    """Its files are open."""
    SUSPENDED = "suspended"
    """It is in memory without open files."""
    CLOSED = "closed"
    """It is opened with the next call to it."""
    UNKNOWN = "unknown"
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One owner's data."""

    name: str
    """Its name."""
    state: SpaceState
    """Its state in the server."""
    is_default: bool
    """It is the space of calls that name none."""
    conversations: int
    """Conversations."""
    messages: int
    """Messages of conversations."""
    bytes: int
    """Bytes of the transcripts."""
    external_communications: int
    """External communications."""
    index_problem: str
    """Problem of its index. Empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePage:
    """A page of spaces. Iterating over it gives the spaces."""

    spaces: tuple[Space, ...]
    """The spaces, by name."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""

    def __iter__(self) -> Iterator[Space]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSpace:
    """A space that was made, or was there."""

    space: Space
    """The space."""
    created: bool
    """This call made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReceipt:
    """Receipt of a deleted space."""

    name: str
    """Name that it had."""
    delete_time: datetime
    """Time of its deletion."""
    conversations: int
    """Conversations that it had."""
    external_communications: int
    """External communications that it had."""
    bytes: int
    """Bytes of its transcripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that the server made."""

    path: str
    """Its folder, on the server's machine."""
    spaces: tuple[str, ...]
    """Spaces in it."""
    conversations: int
    """Conversations in it."""
    external_communications: int
    """External communications in it."""
    bytes: int
    """Bytes of the copied transcripts."""
    problem_count: int
    """Damaged lines that were met."""
    problems: tuple[str, ...]
    """The first of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReceiptPage:
    """A page of the receipts of deleted spaces, the newest first. Iterating over it gives the
    receipts.
    """

    receipts: tuple[SpaceReceipt, ...]
    """The receipts."""
    next_page_token: str
    """Asks for the page that follows. Empty: there is none."""

    def __iter__(self) -> Iterator[SpaceReceipt]:
        return iter(self.receipts)

    def __len__(self) -> int:
        return len(self.receipts)
