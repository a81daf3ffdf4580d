"""Counts of what contexts were made of, since the index was made."""

from collections.abc import Mapping
from pathlib import Path

import apsw

from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.file import look


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
