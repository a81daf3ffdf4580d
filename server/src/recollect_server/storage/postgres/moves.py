"""The mark of a database that all logs are copied to (see `storage.logs.moves`)."""

from recollect_server.storage.logs.moves import MoveMark
from recollect_server.storage.postgres.database import Connection, Database


class DatabaseMark:
    """The mark of a database. Raises DatabaseUnavailable."""

    def __init__(self, database: Database) -> None:
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


def users_of(database: Database) -> int:
    """Return how many connections other processes of this program have to the database."""

    def work(connection: Connection, _: bool) -> int:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'recollect-%'"
            " AND application_name <> current_setting('application_name')"
        ).fetchone()
        assert row is not None
        return int(row[0])

    return database.run(work)


def is_newest(database: Database) -> bool:
    """Return whether no server began to use the database after this process did."""

    def work(connection: Connection, _: bool) -> bool:
        row = connection.execute("SELECT last_value FROM recollect.replicas_number_seq").fetchone()
        assert row is not None
        return int(row[0]) == database.number

    return database.run(work)
