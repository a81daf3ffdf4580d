"""The server as a whole: its version and age, and what it spent and refused today."""

from dataclasses import dataclass
from pathlib import Path

from recollect_server import __version__
from recollect_server.domain.time import DAY, Clock
from recollect_server.services.limits import Limiter
from recollect_server.services.upkeep.statistics import Refused, Spent, limited_today, spent
from recollect_server.storage.spending import SpendingFile
from recollect_server.storage.usage import UsageFile


@dataclass(frozen=True, slots=True)
class ServerState:
    version: str
    started: int
    """Milliseconds since 1970."""
    spent: Spent
    limited: int
    """Tokens and spaces that reached a limit today."""
    most_limited: list[Refused]


class ServerWatch:
    """Tells the state of the server. Safe to call from any thread."""

    def __init__(self, data_dir: Path, limiter: Limiter, clock: Clock) -> None:
        self._spending = SpendingFile(data_dir)
        self._usage = UsageFile(data_dir)
        self._limiter = limiter
        self._clock = clock
        self._started = clock()

    def state(self) -> ServerState:
        self._limiter.save()  # what it counts reaches the file seconds behind
        limited, most = limited_today(self._usage, self._clock() // DAY)
        return ServerState(__version__, self._started, spent(self._spending, None), limited, most)
