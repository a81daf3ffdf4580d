"""Comparisons of logs with what is derived from them."""

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
    """It ended before it looked at everything."""
    UNKNOWN = "unknown"
    """A newer server's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationProblem:
    """A difference between what is kept and what is derived from it, or damage of either."""

    id: str
    """The conversation, external communication or thread. Empty: the space as a whole."""
    problem: str
    """The problem, in a sentence without text of anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """A comparison of the logs of a space with its index and vectors."""

    space: str
    """The space."""
    state: VerificationState
    """Its state."""
    create_time: datetime
    """The time at which it was asked for."""
    end_time: datetime | None
    """The time of its end. `None`: it goes on."""
    logs: int
    """Logs that it looked at: of conversations, external communications and threads."""
    total_logs: int
    """Logs that there were when it began."""
    conversations: int
    """Conversations that it looked at."""
    messages: int
    """Their messages."""
    external_communications: int
    """External communications that it looked at."""
    threads: int
    """Threads of checkpoints that it looked at."""
    problem_count: int
    """Problems that it found."""
    problems: tuple[VerificationProblem, ...]
    """The first of them."""
    failure: str
    """Reason why it ended early. Empty: it did not."""
