# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: admin, verifications."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class VerificationState(StrEnum):
    """State of a verification."""

    WAITING = "waiting"
    """It waits for the verification of another space."""
    RUNNING = "running"
    """It goes on."""
    DONE = "done"
    """It looked at everything."""
    FAILED = "failed"
    """It ended before it looked at everything (`failure`)."""
    UNKNOWN = "unknown"
    """One that this client is too old to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationProblem:
    """A difference between what is kept and what is derived from it, or damage of either."""

    id: str = ""
    """The conversation, external communication or thread of checkpoints; empty: it is of the
    space as a whole.
    """
    problem: str = ""
    """Description of the problem, in a sentence without text of anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison of the logs of a space with its index and vectors."""

    space: str = ""
    """The space."""
    state: VerificationState
    """Its state."""
    create_time: datetime
    """Time at which it was asked for."""
    end_time: datetime | None = None
    """Time at which it ended; unset: it did not."""
    logs: int = 0
    """Logs that it looked at: of conversations, external communications and threads."""
    total_logs: int = 0
    """Logs that there were when it began."""
    conversations: int = 0
    """Conversations that it looked at."""
    messages: int = 0
    """Their messages."""
    external_communications: int = 0
    """External communications that it looked at."""
    threads: int = 0
    """Threads of checkpoints that it looked at."""
    problem_count: int = 0
    """Problems that it found."""
    problems: tuple[VerificationProblem, ...] = ()
    """The first of them, at most 100."""
    failure: str = ""
    """Reason why it ended early, in a sentence; empty: it did not."""
