# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: checkpoint."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A value that a program keeps under a key of a thread."""

    key: str
    """Key: 1 to 1024 characters without NUL, as the program chooses. Keys are ordered by their
    code points, so that those of one kind share a prefix and are listed in their order.
    """
    value: bytes = b""
    """Value: any bytes, which the service does not look into."""
    keep_existing: bool = False
    """Leave a record that the thread has under this key as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecordPage:
    """Some of a thread's records."""

    records: tuple[CheckpointRecord, ...] = ()
    """The records."""
    has_more: bool = False
    """More follow behind the last one."""
    damaged_lines: int = 0
    """Number of damaged lines of the thread's log, which were not read: records may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpointRecords:
    """Records by their keys."""

    records: tuple[CheckpointRecord, ...] = ()
    """The records, in the order of the keys; none for a key that the thread does not have."""
    keys_answered: int = 0
    """Number of the leading keys that this answer is about, at least one: an answer has a
    largest size (setting `max_answer_bytes`). Ask again for the others.
    """
    damaged_lines: int = 0
    """Number of damaged lines of the thread's log, which were not read: records may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCheckpointRecords:
    """Receipt of removed records."""

    removed: int = 0
    """Number of records removed."""
    bytes_removed: int = 0
    """Number of bytes by which the log is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointThread:
    """A thread: the records of one run of a program, in a log of its own."""

    thread_id: str = ""
    """Name that the program gave it."""
    create_time: datetime
    """Time at which its first record was stored."""
    bytes: int = 0
    """Size of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointThreadPage:
    """A page of threads. Iterating over it gives the threads."""

    threads: tuple[CheckpointThread, ...] = ()
    """The threads."""
    next_page_token: str = ""
    """For the next page; empty if this is the last."""

    def __iter__(self) -> Iterator[CheckpointThread]:
        return iter(self.threads)

    def __len__(self) -> int:
        return len(self.threads)
