"""Counts of what contexts are made of, for the statistics of a space.

They are kept in memory and written behind the calls: nothing that is answered waits for them.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import apsw

from recollect_server.context.context import Context
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.file import look
from recollect_server.kernel.space.space import Space


class ContextCountTable:
    """The counts of a space, by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, counts: Mapping[str, int]) -> None:
        def job(connection: apsw.Connection, _: int) -> None:
            connection.executemany(
                "INSERT INTO tier_hits VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET count = count + ?2",
                list(counts.items()),
            )

        self._database.write(job)


def counts_of(folder: Path) -> dict[str, int]:
    """Return the counts from the index in a folder, without taking it from a server that runs."""

    def read(connection: apsw.Connection) -> dict[str, int]:
        return {
            str(row[0]): int(row[1])
            for row in connection.execute("SELECT name, count FROM tier_hits")
        }

    return look(folder, read, {})


class ContextCounts:
    """The counts of a space. Safe to call from any thread; only `flush` waits for the disk."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._guard = threading.Lock()  # guards the counts; only arithmetic happens under it
        self._waiting: Counter[str] = Counter()
        self._flushing = threading.Lock()  # held while counts are written, so that none is twice

    def built(self, context: Context, *, in_memory: bool) -> None:
        """Count a context."""
        with self._guard:
            self._waiting["contexts"] += 1
            self._waiting["hot_in_memory"] += in_memory
            self._waiting["cold_asked"] += context.cold.considered > 0
            for packed in context.tiers:
                self._waiting[packed.tier.name.lower()] += len(packed.packed)

    def flush(self) -> None:
        """Write the counts. Raises DataUnavailable, and then keeps them for the next call."""
        with self._flushing:
            with self._guard:
                counts = +self._waiting
            if counts:
                ContextCountTable(self._space.index).add(counts)
                with self._guard:
                    self._waiting -= counts
