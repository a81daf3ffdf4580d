"""The state of a database that has the logs of a server."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """State of a database that has the logs, at the last look."""

    problem: str = ""
    """Reason why it did not answer; empty if it did."""
    idle: int = 0
    """Connections that no call uses."""
    used: int = 0
    waiting: int = 0
    """Calls that wait for a connection."""
    lost: int = 0
    """Connections lost since the start."""
    horizon_age: float = 0.0
    """Seconds since the oldest transaction began that writes; 0: there is none."""
    leases: Mapping[str, int] = field(default_factory=dict)
    """Leases of work that this server holds, counted by purpose."""
