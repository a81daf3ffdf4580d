"""A database of PostgreSQL that any number of server processes use: its pool of connections, and
the number of this process among them; and the one connection of a command that runs beside them and
changes no log (`Session`).
"""

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import psycopg
import structlog
from psycopg_pool import ConnectionPool, PoolTimeout

from recollect_server.kernel.domain.setting import without_password
from recollect_server.postgres.connections import (
    Connection,
    DatabaseBusy,
    DatabaseRefused,
    DatabaseUnavailable,
    configure,
    connected,
    conninfo_of,
    enter,
    first_row,
    refused,
    said,
)
from recollect_server.postgres.follower import Follower, sever
from recollect_server.postgres.schema import LOCK, lock_schema, migrate

T = TypeVar("T")

log = structlog.get_logger("recollect.postgres")
# The pool tells each refused connection there; what it means to a call is said by the call.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_ALONE = 1  # the second number of the advisory lock of who is alone (see `schema.LOCK`)
_TRANSACTION_TIMEOUT = 170000  # the first version that has it
_CONNECTIONS = 10
_PATIENCE = 2.0  # seconds that a call waits for a connection
_AWAY = 0.5  # seconds after a failure in which others fail at once
_TRIES = 3  # of a call whose connection is lost
_BEAT = 5.0  # seconds between two signs of life; after 30 the schema takes a replica for gone
_LOOK = 0.25  # seconds between two looks for signs of life of others
_KEPT = 2_000  # milliseconds: PostgreSQL keeps the lock of a killed process for moments
_LAST_PATIENCE = 0.5  # seconds that a call waits for a connection once the server stops
_LAST_ANSWER = 3.0  # seconds that PostgreSQL has for a call then
_GONE = "1 hour"  # without a sign of life; then a replica's number is forgotten

_ENDED = "PostgreSQL does not answer, and the server stops"


class PostgresDatabase:
    """One database, opened. Safe to call from any thread."""

    def __init__(
        self,
        url: str,
        *,
        connections: int = _CONNECTIONS,
        prepares: bool | None = None,
        is_alone: bool = False,
    ) -> None:
        """Connect, bring the schema up to date, and take a number. `is_alone`: with nobody beside;
        `prepares`: whether statements are prepared, None: where no pooler is.

        Raises DatabaseUnavailable, DatabaseRefused; then nothing is left open.
        """
        self.name = without_password(url)
        """The URL without its password."""
        self._conninfo = conninfo_of(url)
        self._configure = partial(configure, prepares=prepares)
        self._away_until = 0.0
        self._away_reason = ""
        self._counts = threading.Lock()  # guards `_in_use` and `_full_at`
        self._in_use: dict[Connection, float] = {}  # with the time since when
        self._full_at = float("-inf")  # the last time at which calls used all connections
        self._stopping = threading.Event()  # soon nobody calls any more
        self._ending = threading.Event()
        self._closed = threading.Event()
        self._leases: dict[tuple[str, str], float] = {}
        self._holder: Connection | None = None  # its transaction holds the lock of who is alone
        try:
            with connected(self._conninfo, self._configure) as connection:
                migrate(connection, self.name)
                enter(connection)
                self.number = self._take_number(connection, is_alone=is_alone)
                """Number of this replica, which every change names."""
                owner = first_row(connection, "SELECT identity::text FROM recollect.owner")
                self.identity = str(owner[0])
                """Name of the database's contents, the same in every copy and backup."""
                self.follower = Follower(self._connected, connection, self.number)
                """Follows the changes, while anybody watches them."""
        except psycopg.Error as error:
            self._release()
            raise DatabaseUnavailable(said(error)) from error
        except BaseException:
            self._release()
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
            configure=self._ready,
            name="recollect",
        )
        self._beats = threading.Thread(target=self._beat, name="replica-beat", daemon=True)
        if not is_alone:
            self._beats.start()

    def expect_close(self, seconds: float) -> None:
        """Let calls wait for PostgreSQL no longer than moments from so many seconds on: the server
        stops, and may not hang because PostgreSQL does.
        """
        threading.Thread(
            target=self._limit, args=[seconds], name="database-limit", daemon=True
        ).start()

    def _limit(self, seconds: float) -> None:
        if self._closed.wait(seconds):
            return
        self._ending.set()
        while not self._closed.wait(_LOOK):
            with self._counts:
                hung = [
                    it
                    for it, since in self._in_use.items()
                    if time.monotonic() - since > _LAST_ANSWER
                ]
                for connection in hung:
                    sever(connection)

    def close(self) -> None:
        """Sign off, and close every connection."""
        self._ending.set()
        self.expect_close(0.0)
        self.follower.close()
        self._stopping.set()
        if self._beats.is_alive():
            self._beats.join()
        with suppress(DatabaseUnavailable):
            self.run(
                lambda connection, _: connection.execute(
                    "DELETE FROM recollect.replicas WHERE number = %s", [self.number]
                )
            )
        self._pool.close(_LAST_PATIENCE)
        self._closed.set()
        self._release()

    def _release(self) -> None:
        if self._holder is not None:
            self._holder.close()

    def _take_number(self, connection: Connection, *, is_alone: bool) -> int:
        """Take a number among the replicas. Raises DatabaseRefused if somebody is there who lets
        nobody in, or, to be alone, anybody at all.
        """
        with connection.transaction():
            lock_schema(connection)
            if is_alone:
                self._holder = self._connected()
                # A transaction that stays open: a pooler leaves it its session.
                self._holder.execute("BEGIN")
                self._holder.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
                if self._holder.info.server_version >= _TRANSACTION_TIMEOUT:
                    self._holder.execute("SET LOCAL transaction_timeout = 0")
                if not _is_locked(self._holder, "pg_advisory_xact_lock"):
                    raise DatabaseRefused(
                        f"a command moves the logs of the database {self.name} already"
                    )
            elif not _is_locked(connection, "pg_advisory_xact_lock_shared"):
                raise DatabaseRefused(
                    f"a command moves the logs of the database {self.name}: wait for its end"
                )
            else:
                return _new_number(connection, "now()")
        # From here on no server starts.
        self._await_silence(connection)
        return _new_number(connection, "'-infinity'")

    def _await_silence(self, connection: Connection) -> None:
        """Wait until every server that gave a sign of life a moment ago is known to be gone. Raises
        DatabaseRefused as soon as one of them is known to be there.
        """
        assert self._holder is not None
        own = [connection.info.backend_pid, self._holder.info.backend_pid]
        signs = first = _last_signs(connection)
        while signs:
            # The connections of a killed server end with it, while its last sign counts on. Those
            # of a pooler say nothing.
            row = connection.execute(
                "SELECT FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = current_setting('application_name')"
                " AND NOT pid = ANY(%s) AND pg_backend_pid() = ANY(%s)",
                [own, own],
            ).fetchone()
            if row is not None or any(moment != first.get(it) for it, moment in signs.items()):
                raise DatabaseRefused(
                    f"another server uses the database {self.name}: stop it, or name another"
                    " database"
                )
            if signs is first:
                log.warning(
                    "server_gone",
                    reason="a server gave a sign of life within the last 30 seconds, and has no"
                    " connection now: waiting until it counts as gone",
                )
            time.sleep(_LOOK)
            signs = _last_signs(connection)

    def _beat(self) -> None:
        """Give signs of life, so that what others delete waits until it is gone here too."""
        while not self._stopping.wait(_BEAT):
            with suppress(DatabaseUnavailable):
                self.run(lambda connection, _: self.sign(connection))

    def sign(self, connection: Connection) -> None:
        """Give a sign of life, and forget replicas that gave none for long."""
        connection.execute(
            "INSERT INTO recollect.replicas (number) OVERRIDING SYSTEM VALUE VALUES (%s)"
            " ON CONFLICT (number) DO UPDATE SET seen = now()",
            [self.number],
        )
        connection.execute(
            f"DELETE FROM recollect.replicas WHERE seen < now() - interval '{_GONE}'".encode()
        )

    def run(self, work: Callable[[Connection, bool], T]) -> T:
        """Return the result of work on a connection, which commits each statement.

        Work whose connection is lost is done again: its second argument says that it may
        have been done already, and must come to the same. Raises DatabaseUnavailable.
        """
        for tried in range(_TRIES):
            if time.monotonic() < self._away_until:
                raise DatabaseUnavailable(self._away_reason)
            try:
                with self._pooled() as connection:
                    try:
                        result = work(connection, tried > 0)
                    except psycopg.Error as error:
                        if not connection.closed:
                            raise refused(error) from error
                        raise
            except PoolTimeout as error:
                raise self._refused() from error
            except psycopg.Error as error:
                log.warning("database_connection_lost", reason=said(error), tried=tried + 1)
                if self._ending.is_set():
                    raise self._refused() from error
                self._pool.check()
                if tried == _TRIES - 1:
                    raise DatabaseUnavailable(said(error)) from error
                continue
            return result
        raise AssertionError("unreachable")

    @contextmanager
    def _pooled(self) -> Iterator[Connection]:
        """Yield a connection of the pool. Raises PoolTimeout."""
        connection = self._pool.getconn(_LAST_PATIENCE if self._ending.is_set() else _PATIENCE)
        with self._counts:
            self._in_use[connection] = time.monotonic()
        try:
            yield connection
        finally:
            with self._counts:
                if len(self._in_use) == self._pool.max_size:
                    self._full_at = time.monotonic()
                del self._in_use[connection]
            self._pool.putconn(connection)

    def horizon_age(self) -> float:
        """Return the seconds since the oldest transaction began that writes, in any database of the
        cluster; 0 if there is none that this role may see. Raises DatabaseUnavailable.
        """
        query = (
            "SELECT extract(epoch FROM clock_timestamp() - min(xact_start)) FROM pg_stat_activity"
            " WHERE backend_xid IS NOT NULL"
        )
        (age,) = self.run(lambda connection, _: first_row(connection, query))
        return max(0.0, float(age or 0.0))

    def note_lease(self, space: str, purpose: str, until: float) -> None:
        """Note that this server holds a lease until a time of the monotonic clock."""
        self._leases[space, purpose] = until

    def leases(self) -> Counter[str]:
        """Return how many leases this server holds, by purpose."""
        now = time.monotonic()
        for key, until in list(self._leases.items()):
            if until < now:
                self._leases.pop(key, None)
        return Counter(purpose.split()[0] for _, purpose in list(self._leases))

    def pool_counts(self) -> dict[str, int]:
        """Return the counts of the pool, as psycopg-pool names them."""
        return self._pool.get_stats()

    def _refused(self) -> DatabaseUnavailable:
        """Return why there is no connection: the error of a new one, that all are in use, or that
        those which the pool makes are not ready. Others fail at once for a moment unless all are
        in use.
        """
        if self._ending.is_set():
            self._away_reason, self._away_until = _ENDED, math.inf
            return DatabaseUnavailable(_ENDED)
        with self._counts:
            is_full = len(self._in_use) == self._pool.max_size
            is_full = is_full or self._full_at > time.monotonic() - _PATIENCE
        try:
            psycopg.connect(self._conninfo, connect_timeout=1).close()
        except psycopg.Error as error:
            return self._away(said(error))
        if not is_full:
            return self._away(
                f"PostgreSQL takes connections, but made none ready for use within {_PATIENCE:g} s,"
                " as where a standby has just taken over: repeat the call"
            )
        return DatabaseBusy(
            f"all {self._pool.max_size} connections to PostgreSQL are in use, and none became free"
            f" within {_PATIENCE:g} s: repeat the call, or raise store_connections"
        )

    def _away(self, reason: str) -> DatabaseUnavailable:
        """Let all calls fail at once for a moment, and return their error."""
        self._away_reason, self._away_until = reason, time.monotonic() + _AWAY
        return DatabaseUnavailable(reason)

    def _connected(self) -> Connection:
        return connected(self._conninfo, self._ready)

    def _ready(self, connection: Connection) -> None:
        self._configure(connection)
        enter(connection)


def _is_locked(connection: Connection, function: str) -> bool:
    """Take the lock of who is alone with a function of PostgreSQL, until the transaction ends.
    Return False where another one keeps it.
    """
    connection.execute(f"SET LOCAL lock_timeout = {_KEPT}".encode())
    try:
        connection.execute(f"SELECT {function}(%s, %s)".encode(), [LOCK, _ALONE])
    except psycopg.errors.LockNotAvailable:
        return False
    return True


def _new_number(connection: Connection, moment: str) -> int:
    """Add a replica that was last seen at a time, and return its number."""
    insert = f"INSERT INTO recollect.replicas (seen) VALUES ({moment}) RETURNING number"
    return int(first_row(connection, insert.encode())[0])


def _last_signs(connection: Connection) -> dict[int, Any]:
    """Return the replicas that count as being there, with the time of each one's last sign."""
    rows = connection.execute(
        "SELECT number, seen FROM recollect.replicas WHERE seen > now() - interval '30 seconds'"
    )
    return {int(number): moment for number, moment in rows}


Work: TypeAlias = Callable[[Connection, bool], T]
"""Work on a connection, with whether it may have been done already."""


class Runs(Protocol):
    """Protocol of what runs work on a connection."""

    def run(self, work: Work[T]) -> T:
        """Return the result of work. Raises DatabaseUnavailable."""


class Session:
    """One connection, with the schema up to date."""

    def __init__(self, url: str) -> None:
        """Connect. Raises DatabaseUnavailable, DatabaseRefused."""
        conninfo = conninfo_of(url)
        try:
            self._connection: Connection = connected(conninfo, configure)
            try:
                migrate(self._connection, without_password(url))
                enter(self._connection)
            except BaseException:
                self._connection.close()
                raise
        except psycopg.Error as error:
            raise DatabaseUnavailable(said(error)) from error

    def run(self, work: Work[T]) -> T:
        """Return the result of work on the connection. Raises DatabaseUnavailable."""
        try:
            return work(self._connection, False)
        except psycopg.Error as error:
            raise DatabaseUnavailable(said(error)) from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
