"""Background jobs of a server."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """A conversation that a job could not deal with."""

    conversation_id: str
    """The conversation. Empty: the failure is of the job as a whole."""
    reason: str
    """The reason."""


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
    """One that this client does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A background job in one space."""

    name: str
    """Its name."""
    help: str
    """Its purpose."""
    space: str
    """The space."""
    state: JobState
    """Its state."""
    due: int
    """Conversations that have work due, or will have once they are idle."""
    failed: int
    """Conversations whose last try failed."""
    failures: tuple[JobFailure, ...]
    """Some of them, and first the failure of the job as a whole, if there is one."""
    last_run_time: datetime | None
    """Time of its last turn. `None`: it had none since the space was opened."""
