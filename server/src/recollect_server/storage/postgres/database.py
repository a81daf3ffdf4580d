"""A database of PostgreSQL that one server process uses: its connections, its schema, and the right
to write to it.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from typing import Any, TypeVar

import psycopg
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect_server.domain.store_url import without_password

T = TypeVar("T")
Connection = psycopg.Connection[Any]

log = structlog.get_logger("recollect.postgres")
# The pool tells each refused connection there; what it means to a call is said by the call.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_LOCK = 7018351  # of this program's advisory locks; the second number tells them apart
_SERVER, _SCHEMA = 1, 3  # 2 is that of the functions of the schema
_OLDEST = 160000
_CONNECTIONS = 10  # of the pool, beside the one that holds the lock
_PATIENCE = 2.0  # seconds that a call waits for a connection
_AWAY = 0.5  # seconds after a failure in which others fail at once
_RENEW_EVERY = 5.0  # seconds between two tries to have the lock again
_TRIES = 3  # of a call whose connection is lost
_TAKE_OVER = 2.0  # seconds that a start waits for a server that is just ending

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
_SESSION = """
    SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')
               WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false),
           set_config('default_transaction_isolation', 'read committed', false),
           set_config('lock_timeout', '10s', false),
           set_config('idle_in_transaction_session_timeout', '60s', false)
"""
# The lock of a server whose machine is gone ends within half a minute.
_HOLDER = """
    SELECT set_config('tcp_keepalives_idle', '10', false),
           set_config('tcp_keepalives_interval', '5', false),
           set_config('tcp_keepalives_count', '3', false)
"""


class DatabaseUnavailable(Exception):
    """PostgreSQL cannot be reached, or refused a statement. The text says why."""


class DatabaseRefused(Exception):
    """The database cannot be used as it is. The text says why, and what to do."""


class Fenced(DatabaseUnavailable):
    """Another server took the database over: this one may not change it any more."""

    def __init__(self) -> None:
        super().__init__("another server has taken the database over: restart one of them alone")


class Database:
    """One database, opened. Safe to call from any thread."""

    def __init__(
        self, url: str, *, connections: int = _CONNECTIONS, patience: float = _TAKE_OVER
    ) -> None:
        """Connect, bring the schema up to date, and take the right to write. A server that has it
        may take `patience` seconds to end.

        Raises DatabaseUnavailable, DatabaseRefused; then nothing is left open.
        """
        self.name = without_password(url)
        """The URL without its password."""
        try:
            given = conninfo_to_dict(url)
        except psycopg.ProgrammingError:
            # Its own text may hold the password.
            raise DatabaseRefused(f"{self.name} is no URL of PostgreSQL") from None
        missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
        self._conninfo = make_conninfo(url, **missing)
        self._guard = threading.Lock()  # guards everything below
        self._away_until = 0.0
        self._renew_at = 0.0
        try:
            self._holder = self._connected()
        except psycopg.Error as error:
            raise DatabaseUnavailable(said(error)) from error
        try:
            self._take_lock(patience)
            _migrate(self._holder)
            row = self._holder.execute("SELECT recollect.take_over()").fetchone()
            assert row is not None
            self.number = int(row[0])
            """Number of this server, which every change names."""
            row = self._holder.execute("SELECT identity::text FROM recollect.owner").fetchone()
            assert row is not None
            self.identity = str(row[0])
            """Name of the database's contents, the same in every copy and backup."""
        except psycopg.Error as error:
            self._holder.close()
            raise DatabaseUnavailable(said(error)) from error
        except BaseException:
            self._holder.close()
            raise
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self._conninfo,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=connections,
            open=True,
            timeout=_PATIENCE,
            reconnect_timeout=_PATIENCE,
            max_lifetime=3600.0,
            max_idle=300.0,
            configure=_configure,
            name="recollect",
        )

    def close(self) -> None:
        """Close every connection, and let another server have the database."""
        self._pool.close()
        with suppress(psycopg.Error):
            self._holder.close()

    def run(self, work: Callable[[Connection, bool], T]) -> T:
        """Return the result of work on a connection, which commits each statement.

        Work whose connection is lost is done again: it is told by its second argument that it may
        have been done already, and must come to the same. Raises DatabaseUnavailable.
        """
        for tried in range(_TRIES):
            if time.monotonic() < self._away_until:
                raise DatabaseUnavailable("PostgreSQL cannot be reached")
            try:
                with self._pool.connection() as connection:
                    try:
                        result = work(connection, tried > 0)
                    except psycopg.Error as error:
                        if not connection.closed:
                            raise DatabaseUnavailable(said(error)) from error
                        raise
            except PoolTimeout as error:
                self._is_away()
                raise DatabaseUnavailable(self._reason()) from error
            except psycopg.Error as error:
                log.warning("database_connection_lost", reason=said(error), tried=tried + 1)
                self._pool.check()
                self._renew_lock()
                if tried == _TRIES - 1:
                    raise DatabaseUnavailable(said(error)) from error
                continue
            if self._holder.closed and time.monotonic() > self._renew_at:
                self._renew_lock()
            return result
        raise AssertionError("unreachable")

    def _is_away(self) -> None:
        self._away_until = time.monotonic() + _AWAY

    def _reason(self) -> str:
        """Return why there is no connection: the error of a new one, or that all are in use."""
        try:
            psycopg.connect(self._conninfo, connect_timeout=1).close()
        except psycopg.Error as error:
            return said(error)
        return f"no connection became free within {_PATIENCE:g} s"

    def _connected(self) -> Connection:
        connection: Connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            _configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _take_lock(self, patience: float) -> None:
        """Take the lock of the one server. Raises DatabaseRefused if another one has it."""
        if self._holder.info.server_version < _OLDEST:
            raise DatabaseRefused(
                f"{self.name} is PostgreSQL {self._holder.info.server_version // 10000}:"
                f" {_OLDEST // 10000} or newer is needed"
            )
        end = time.monotonic() + patience
        while not _try_lock(self._holder):
            if time.monotonic() > end:
                raise DatabaseRefused(
                    f"another server{_address_of_holder(self._holder)} uses the database {self.name}:"
                    " stop it, or name another database with --store"
                )
            time.sleep(0.05)

    def _renew_lock(self) -> None:
        """Take the lock again if its connection was lost too. A server that was replaced meanwhile
        is told so by its next change.
        """
        with self._guard:
            try:
                if not self._holder.closed:
                    self._holder.execute("SELECT 1")
                    return
                self._renew_at = time.monotonic() + _RENEW_EVERY
            except psycopg.Error:
                self._holder.close()
            try:
                self._holder = self._connected()
                if not _try_lock(self._holder):
                    # The session that was lost may still have it. The number protects the data.
                    log.warning("database_lock_not_renewed", database=self.name)
                    self._holder.close()
            except psycopg.Error:
                return  # tried again at the next call


def said(error: BaseException) -> str:
    """Return the text of an error of PostgreSQL on one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines[0] if lines else type(error).__name__).rstrip(".")
    for opening in ("connection is bad: ", "connection failed: "):
        text = text.removeprefix(opening)
    return f"PostgreSQL: {text}"


def _configure(connection: Connection) -> None:
    connection.execute(_SESSION)


def _try_lock(connection: Connection) -> bool:
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", [_LOCK, _SERVER]).fetchone()
    if row is None or not row[0]:
        return False
    connection.execute(_HOLDER)
    return True


def _address_of_holder(connection: Connection) -> str:
    row = connection.execute(
        "SELECT host(a.client_addr) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s"
        " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        [_LOCK, _SERVER],
    ).fetchone()
    return f" at {row[0]}" if row and row[0] else ""


def _migrate(connection: Connection) -> None:
    """Apply the steps of the schema that the database lacks. Raises DatabaseRefused if it has some
    that this version does not know.
    """
    steps = sorted(
        (int(file.name[:4]), file)
        for file in (resources.files(__package__) / "migrations").iterdir()
        if file.name.endswith(".sql")
    )
    connection.execute("SELECT pg_advisory_lock(%s, %s)", [_LOCK, _SCHEMA])
    try:
        row = connection.execute("SELECT to_regclass('recollect.schema_version')").fetchone()
        applied: set[int] = set()
        if row is None or row[0] is None:
            with connection.transaction():
                connection.execute("CREATE SCHEMA IF NOT EXISTS recollect")
                connection.execute(
                    "CREATE TABLE recollect.schema_version ("
                    "version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())"
                )
        else:
            rows = connection.execute("SELECT version FROM recollect.schema_version")
            applied = {int(version) for (version,) in rows}
        version, newest = max(applied, default=0), steps[-1][0]
        if version > newest:
            raise DatabaseRefused(
                f"the database has version {version} of the schema, and this server knows {newest}:"
                " run the newer server"
            )
        for number, file in steps:
            if number not in applied:
                with connection.transaction():
                    connection.execute(file.read_text().encode())
                    connection.execute(
                        "INSERT INTO recollect.schema_version (version) VALUES (%s)", [number]
                    )
                log.info("schema_migrated", version=number)
    finally:
        with suppress(psycopg.Error):
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", [_LOCK, _SCHEMA])
