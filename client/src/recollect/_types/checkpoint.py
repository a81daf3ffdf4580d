"""Checkpoints: records of programs, by thread."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """A value that a program keeps under a key of a thread."""

    key: str
    """1 to 1024 characters, as the program chooses."""
    value: bytes
    """Any bytes; empty where only keys were asked for."""
    keep_existing: bool = False
    """Leave a record that the thread has under this key as it is. Of a stored one always false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRecordPage:
    """Some of a thread's records."""

    records: tuple[CheckpointRecord, ...]
    """The records."""
    has_more: bool
    """More follow behind the last one."""
    damaged_lines: int
    """Damaged lines of the thread's log, which were not read: records may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCheckpointRecords:
    """Records by their keys."""

    records: tuple[CheckpointRecord, ...]
    """The records, in the order of the keys; none for a key that the thread does not have."""
    keys_answered: int
    """Number of the leading keys that this is about: ask again for the others."""
    damaged_lines: int
    """Damaged lines of the thread's log, which were not read: records may be missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCheckpointRecords:
    """Receipt of removed records."""

    removed: int
    """Number of records."""
    bytes_removed: int
    """Number of bytes by which the log is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointThread:
    """A thread: the records of one run of a program."""

    thread_id: str
    """Name that the program gave it."""
    create_time: datetime
    """Time of its first record."""
    bytes: int
    """Size of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointThreadPage:
    """A page of threads. Iterating over it gives the threads."""

    threads: tuple[CheckpointThread, ...]
    """The threads."""
    next_page_token: str
    """For the next page; empty if this is the last."""

    def __iter__(self) -> Iterator[CheckpointThread]:
        return iter(self.threads)

    def __len__(self) -> int:
        return len(self.threads)
