"""The schema of a database of PostgreSQL: steps in SQL (`migrations`), applied in their order."""

from importlib import resources

import structlog

from recollect_server import __version__
from recollect_server.postgres.connections import Connection, DatabaseRefused, first_row

log = structlog.get_logger("recollect.postgres")

LOCK = 7018351
"""The first number of this program's advisory locks; the second one tells them apart."""
_SCHEMA = 3
_OLDEST = 160000  # the oldest version of PostgreSQL that the steps are written for


def lock_schema(connection: Connection) -> None:
    """Take the lock of who changes the schema, or takes a number, until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, _SCHEMA])


def migrate(connection: Connection, name: str) -> None:
    """Apply the steps of the schema that the database lacks. Raises DatabaseRefused if it has some
    that this version would have to know, or is of an old PostgreSQL.
    """
    if connection.info.server_version < _OLDEST:
        raise DatabaseRefused(
            f"{name} is PostgreSQL {connection.info.server_version // 10000}:"
            f" {_OLDEST // 10000} or newer is needed"
        )
    steps = sorted(
        (int(file.name[:4]), file)
        for file in (resources.files(__package__) / "migrations").iterdir()
        if file.name.endswith(".sql")
    )
    is_said = False
    while True:
        # The lock ends with the transaction: a pooler may give the next one another session.
        with connection.transaction():
            lock_schema(connection)
            applied = _applied(connection)
            newest, version = steps[-1][0], max(applied, default=0)
            if version > newest and (oldest := _oldest_server(connection)) > newest:
                raise DatabaseRefused(
                    f"the database has version {version} of the schema, for servers that know"
                    f" {oldest}, and this server knows {newest}: run the newer server"
                )
            lacking = [step for step in steps if step[0] not in applied]
            if not lacking:
                return
            number, file = lacking[0]
            if applied and not is_said:
                is_said = True
                log.warning(
                    "schema_raised",
                    before=version,
                    now=newest,
                    reason=f"servers older than this one ({__version__}) may be refused by the"
                    " database from here on; only a backup from before leads back to them",
                )
            connection.execute(file.read_text().encode())
            connection.execute(
                "INSERT INTO recollect.schema_version (version) VALUES (%s)", [number]
            )
        log.info("schema_migrated", version=number)


def _oldest_server(connection: Connection) -> int:
    """Return the step of the schema that a server must know."""
    return int(first_row(connection, "SELECT oldest_server FROM recollect.owner")[0])


def _applied(connection: Connection) -> set[int]:
    """Return the steps that were applied, and make their table if it is not there."""
    (table,) = first_row(connection, "SELECT to_regclass('recollect.schema_version')")
    if table is None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS recollect")
        connection.execute(
            "CREATE TABLE recollect.schema_version ("
            "version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
        )
        return set()
    rows = connection.execute("SELECT version FROM recollect.schema_version")
    return {int(version) for (version,) in rows}
