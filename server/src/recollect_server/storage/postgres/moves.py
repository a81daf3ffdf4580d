"""The mark of a database that all logs are copied to (see `storage.logs.moves`)."""

from recollect_server.storage.logs.moves import MoveMark
from recollect_server.storage.postgres.connections import Connection
from recollect_server.storage.postgres.database import PostgresDatabase


class DatabaseMark:
    """The mark of a database. Raises DatabaseUnavailable."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def mark(self) -> MoveMark | None:
        """Return the mark."""

        def work(connection: Connection, _: bool) -> MoveMark | None:
            row = connection.execute("SELECT source, ended FROM recollect.moved_from").fetchone()
            return MoveMark(*row) if row is not None else None

        return self._database.run(work)

    def set_mark(self, mark: MoveMark) -> None:
        """Replace the row."""

        def work(connection: Connection, _: bool) -> None:
            connection.execute(
                "INSERT INTO recollect.moved_from (source, ended) VALUES (%s, %s)"
                " ON CONFLICT (alone) DO UPDATE"
                " SET source = excluded.source, ended = excluded.ended",
                [mark.source, mark.ended],
            )

        self._database.run(work)
