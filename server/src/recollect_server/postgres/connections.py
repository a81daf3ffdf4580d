"""Connections to a database of PostgreSQL: their parameters, the settings of their sessions, and
what their failures are called.
"""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from recollect_server.kernel.domain.setting import without_password

Connection = psycopg.Connection[Any]

_CLAIMED = "RC001"  # SQLSTATE of a claim that is not free
# Of each connection, unless the URL says otherwise: a server that is gone is noticed in seconds.
_DEFAULTS = {
    "application_name": "recollect-server",
    "connect_timeout": "3",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "target_session_attrs": "read-write",
}
# What a role or a database has set must not weaken what an answer promises; `remote_apply` stays.
# Behind a pooler nothing is set, for its sessions are also those of others: there the schema's
# functions and triggers do the same for one transaction (migrations/0008_poolers.sql).
_SESSION = """
    SELECT CASE WHEN pg_backend_pid() = %s THEN concat(
               set_config('synchronous_commit', CASE current_setting('synchronous_commit')
                   WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
               set_config('default_transaction_isolation', 'read committed', false),
               set_config('lock_timeout', '10s', false),
               set_config('idle_in_transaction_session_timeout', '60s', false)) END,
           current_setting('default_transaction_isolation')
"""

BRIEFLY = b"SET LOCAL lock_timeout = '100ms'"
"""Lets a transaction about many spaces wait for no lock for long: one may be of a single space."""


class DatabaseUnavailable(Exception):
    """PostgreSQL cannot be reached, or refused a statement. The text says why."""


class DatabaseTaken(DatabaseUnavailable):
    """A claim or a lease that a statement names is another process's."""


class DatabaseBusy(DatabaseUnavailable):
    """All connections are in use by calls; PostgreSQL can be reached."""


class DatabaseRefused(Exception):
    """The database cannot be used as it is. The text says why, and what to do."""


def conninfo_of(url: str) -> str:
    """Return the parameters of connections to a database. Raises DatabaseRefused."""
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Its own text may hold the password.
        raise DatabaseRefused(f"{without_password(url)} is no URL of PostgreSQL") from None
    missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
    return make_conninfo(url, **missing)


def connected(conninfo: str, configured: Callable[[Connection], None]) -> Connection:
    """Return a new connection, which commits each statement. Raises psycopg.Error,
    DatabaseRefused.
    """
    connection: Connection = psycopg.connect(conninfo, autocommit=True)
    try:
        configured(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def refused(error: psycopg.Error) -> DatabaseUnavailable:
    """Return what is to be raised for an error of PostgreSQL."""
    kind = DatabaseTaken if error.sqlstate == _CLAIMED else DatabaseUnavailable
    return kind(said(error))


def said(error: BaseException) -> str:
    """Return the text of an error of PostgreSQL on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__).rstrip(".")
    for opening in ("connection is bad: ", "connection failed: "):
        text = text.removeprefix(opening)
    return f"PostgreSQL: {text}"


def configure(connection: Connection, prepares: bool | None = None) -> None:
    """Let the settings of a session be those that the statements count on.

    A pooler (PgBouncer, also of others) gives each transaction a session of its choice. It shows by
    the process that serves the connection, which is not the one that the connection knows.
    Statements are not prepared there unless that is asked for, and nothing is set.
    """
    if prepares is not None:
        connection.prepare_threshold = 5 if prepares else None
    row = first_row(connection, _SESSION, [connection.info.backend_pid])
    if row[0] is None:
        if prepares is None:
            connection.prepare_threshold = None
        if row[1] != "read committed":
            raise DatabaseRefused(
                f"the pooler's sessions have default_transaction_isolation = '{row[1]}', and the"
                " server cannot set what a pooler shares: ALTER ROLE"
                f" {connection.info.user} SET default_transaction_isolation = 'read committed'"
            )


def first_row(
    connection: Connection, statement: str | bytes, values: Sequence[object] = ()
) -> tuple[Any, ...]:
    """Return the first row of a statement that always gives one. Raises psycopg.Error."""
    row: tuple[Any, ...] | None = connection.execute(statement, values).fetchone()
    assert row is not None
    return row


def enter(connection: Connection) -> None:
    """Note whether a standby took over, before a connection is used."""
    connection.execute("SELECT recollect.enter()")
