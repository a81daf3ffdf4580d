# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, spaces."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SpaceState(StrEnum):
    """State of a space in the server."""

    OPEN = "open"
    """It is in memory, with its files open or at rest."""
    SUSPENDED = "suspended"
    """No longer sent: such a space is open, and at rest."""
    CLOSED = "closed"
    """It is opened with the next call to it."""
    UNKNOWN = "unknown"
    """One that this client is too old to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """One owner's data."""

    name: str = ""
    """Name: 1 to 64 lower-case letters, digits, `_` and `-`, or an e-mail address in lower
    case.
    """
    state: SpaceState
    """State in the server."""
    is_default: bool = False
    """True if it is the space of calls that name none."""
    conversations: int = 0
    """Conversations."""
    messages: int = 0
    """Messages of conversations, as the index knows them."""
    bytes: int = 0
    """Bytes of the transcripts, those of third parties included."""
    external_communications: int = 0
    """External communications."""
    index_problem: str = ""
    """Problem with its index, in a sentence; empty: none. The transcripts are intact, and the
    server makes the index anew.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePage:
    """A page of spaces. Iterating over it gives the spaces."""

    spaces: tuple[Space, ...] = ()
    """The spaces, by name."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[Space]:
        return iter(self.spaces)

    def __len__(self) -> int:
        return len(self.spaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSpace:
    """A space that was made, or was there."""

    space: Space
    """The space."""
    created: bool = False
    """True if this call made it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReceipt:
    """Receipt of a deleted space."""

    name: str = ""
    """Name that it had."""
    delete_time: datetime
    """Time at which it was deleted."""
    conversations: int = 0
    """Conversations that it had."""
    external_communications: int = 0
    """External communications that it had."""
    bytes: int = 0
    """Bytes of its transcripts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that the server made."""

    path: str = ""
    """Its folder, on the server's machine."""
    spaces: tuple[str, ...] = ()
    """Spaces in it."""
    conversations: int = 0
    """Conversations in it."""
    external_communications: int = 0
    """External communications in it."""
    bytes: int = 0
    """Bytes of the copied transcripts."""
    problem_count: int = 0
    """Damaged lines that were met, and copied as they are."""
    problems: tuple[str, ...] = ()
    """The first of them, at most 100, each in a sentence with its conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBackup:
    """A backup in the server's folder of backups, or a copy in its bucket."""

    name: str = ""
    """Name of its folder."""
    path: str = ""
    """That folder, on the server's machine: `recollect-server restore` takes it. Unset of a
    copy in the bucket: `recollect-server backups fetch` brings it.
    """
    create_time: datetime
    """Time in its name; of one with a name of its own, the time at which it was complete."""
    complete: bool = False
    """True if it can be restored. False: it is being made, or was interrupted; or its contents
    cannot be read (`problem`).
    """
    encrypted: bool = False
    """True if it is encrypted. Then what it holds (`spaces`, the counts) is not set."""
    key_id: str = ""
    """Id of the key that it is encrypted with, which is no secret; empty: it is not encrypted,
    or its start is damaged.
    """
    spaces: tuple[str, ...] = ()
    """Spaces in it, the one that a restore puts into the default space first."""
    conversations: int = 0
    """Conversations in it."""
    external_communications: int = 0
    """External communications in it."""
    bytes: int = 0
    """Bytes of the copied transcripts; of an encrypted one, those of its file."""
    damaged_lines: int = 0
    """Lines that were damaged when it was made, and copied as they were."""
    problem: str = ""
    """Reason why it cannot be read, in a sentence; empty: none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPage:
    """A page of backups, the newest first. Iterating over it gives the backups."""

    backups: tuple[StoredBackup, ...] = ()
    """The backups, the newest first."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[StoredBackup]:
        return iter(self.backups)

    def __len__(self) -> int:
        return len(self.backups)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceReceiptPage:
    """A page of the receipts of deleted spaces, the newest first. Iterating over it gives the
    receipts.
    """

    receipts: tuple[SpaceReceipt, ...] = ()
    """The receipts, the newest first."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[SpaceReceipt]:
        return iter(self.receipts)

    def __len__(self) -> int:
        return len(self.receipts)
