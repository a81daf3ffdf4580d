"""The mark of a database that all logs are copied to (see `kernel.log.moves`)."""

from recollect_server.kernel.log.moves import MoveMark
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.sharing import fetched


class DatabaseMark:
    """The mark of a database. Raises LogUnavailable."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def mark(self) -> MoveMark | None:
        """Return the mark."""
        select = "SELECT source, ended FROM recollect.moved_from"
        rows = fetched(self._database, "shared", "read", select)
        return MoveMark(*rows[0]) if rows else None

    def set_mark(self, mark: MoveMark) -> None:
        """Replace the row."""
        fetched(
            *(self._database, "shared", "written"),
            "INSERT INTO recollect.moved_from (source, ended) VALUES (%s, %s)"
            " ON CONFLICT (alone) DO UPDATE"
            " SET source = excluded.source, ended = excluded.ended",
            *(mark.source, mark.ended),
        )
