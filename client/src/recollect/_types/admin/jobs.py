# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, jobs."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """A conversation that a job could not deal with."""

    conversation_id: str = ""
    """The conversation; empty: the failure is of the job as a whole."""
    reason: str = ""
    """Reason, in a sentence."""


class JobState(StrEnum):
    """State of a background job."""

    IDLE = "idle"
    """Nothing is due."""
    WORKING = "working"
    """Work is due, and is being done or waits for its turn."""
    FAILING = "failing"
    """The last try failed. It is tried again."""
    OFF = "off"
    """Settings turn it off."""
    ASLEEP = "asleep"
    """The space is not open: the job goes on when work is due there."""
    UNKNOWN = "unknown"
    """One that this client is too old to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A background job in one space."""

    name: str = ""
    """Name: `repair`, `embedding`, `notes`, `compaction`, `updates` or `tiers`. Later versions
    may have more.
    """
    help: str = ""
    """Description of what it does, in a sentence."""
    space: str = ""
    """The space."""
    state: JobState
    """Its state."""
    due: int = 0
    """Conversations that have work due, or will have once they are idle. Of jobs that do not go
    by conversations 0.
    """
    failed: int = 0
    """Conversations whose last try failed."""
    failures: tuple[JobFailure, ...] = ()
    """Some of them, those with the newest messages first; at most 20."""
    last_run_time: datetime | None = None
    """Time at which it last had a turn, or took up work, since the space was opened; unset: it
    did not.
    """
