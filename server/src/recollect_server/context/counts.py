"""Counts of what contexts are made of, for the statistics of a space.

They are kept in memory and written behind the calls: nothing that is answered waits for them.
"""

import threading
from collections import Counter
from pathlib import Path

import apsw
import orjson

from recollect_server.context.context import Context
from recollect_server.kernel.index.file import look
from recollect_server.kernel.space.space import Space


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
                self._space.index.execute(
                    (
                        "INSERT INTO tier_hits SELECT key, value FROM json_each(?) WHERE true"
                        " ON CONFLICT(name) DO UPDATE SET count = count + excluded.count",
                        (orjson.dumps(counts).decode(),),
                    )
                )
                with self._guard:
                    self._waiting -= counts
