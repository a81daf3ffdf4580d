"""The server as a whole: its version and age, and what it spent and refused today."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recollect_server import __version__
from recollect_server.access.usage_file import UsageFile
from recollect_server.kernel.domain.time import DAY, Clock
from recollect_server.notes.hosted.spending import DailySpending, SpendingFile

_MOST_LIMITED = 10


@dataclass(frozen=True, slots=True)
class Refused:
    """A token or a space that reached a limit."""

    of: str
    """`token` or `space`."""
    name: str
    limit: str
    count: int


@dataclass(frozen=True, slots=True)
class ServerState:
    version: str
    started: int
    """Milliseconds since 1970."""
    spent: DailySpending
    """On the models of notes, on the last day that one was called."""
    limited: int
    """Tokens and spaces that reached a limit today."""
    most_limited: list[Refused]


class ServerWatch:
    """Tells the state of the server. Safe to call from any thread."""

    def __init__(self, data_dir: Path, save: Callable[[], None], clock: Clock) -> None:
        """`save` writes what the limits count, which reaches the file seconds behind."""
        self._spending = SpendingFile(data_dir)
        self._usage = UsageFile(data_dir)
        self._save = save
        self._clock = clock
        self._started = clock()

    def state(self) -> ServerState:
        self._save()
        today = self._usage.read()
        refused = today.refused.items() if today.day == self._clock() // DAY else ()
        rows = sorted(refused, key=lambda row: -row[1])
        most = [Refused(*key, count) for key, count in rows[:_MOST_LIMITED]]
        return ServerState(__version__, self._started, self._spending.last(), len(rows), most)
