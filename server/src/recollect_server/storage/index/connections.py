"""Connections to the index's file: one that writes, one for the reads of each thread, and one from
outside while a server has it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from recollect_server.domain.deadline import UNLIMITED, Deadline

# of SQLite's virtual machine between two looks at the deadline: some 10 ms, up to 100 for many
# words
_STEPS = 50_000
_PATIENCE = 5000  # milliseconds that a connection of the server waits for another one
_PATIENCE_OUTSIDE = 2000


def open_writer(path: Path) -> apsw.Connection:
    """Opens or makes the file, for its owner alone. Raises apsw.Error if it is not a database."""
    connection = apsw.Connection(str(path))
    try:
        # only then: it changes the file's `st_ctime`, by which a copy is told
        if path.stat().st_mode & 0o777 != 0o600:
            path.chmod(0o600)
        connection.set_busy_timeout(_PATIENCE)
        connection.pragma("journal_mode", "wal")
        # NORMAL loses no consistency, only the last transactions of a power failure, and those the
        # transcripts bring back.
        connection.pragma("synchronous", "NORMAL")
        # Freed pages are overwritten with zeros: what was deleted is gone.
        connection.pragma("secure_delete", True)
        connection.pragma("cache_size", -16384)
        # pages: a page that changes often is written back less often
        connection.wal_autocheckpoint(4000)
    except BaseException:
        connection.close(force=True)
        raise
    return connection


@contextmanager
def patience(connection: apsw.Connection, milliseconds: int) -> Iterator[None]:
    """Lets a connection of the server wait for others only so long."""
    connection.set_busy_timeout(milliseconds)
    try:
        yield
    finally:
        connection.set_busy_timeout(_PATIENCE)


class Readers:
    """A connection for each thread that reads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._guard = threading.Lock()  # guards `_all`
        self._all: list[apsw.Connection] = []

    def mine(self) -> apsw.Connection:
        """The one of this thread. Raises apsw.Error."""
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READONLY)
            connection.set_busy_timeout(_PATIENCE)
            connection.pragma("cache_size", -2048)
            connection.pragma("query_only", True)
            connection.create_scalar_function("casefold", _casefold, 1, deterministic=True)
            with self._guard:
                self._all.append(connection)
            self._local.connection = connection
        return connection

    def deadline(self) -> Deadline:
        """Return the deadline of this thread's reads."""
        deadline: Deadline = getattr(self._local, "deadline", UNLIMITED)
        return deadline

    @contextmanager
    def until(self, deadline: Deadline) -> Iterator[None]:
        """Interrupt the queries of this thread once the deadline is over. Raises apsw.Error."""
        connection = self.mine()
        self._local.deadline = deadline
        connection.set_progress_handler(lambda: deadline.is_over, _STEPS)
        try:
            yield
        finally:
            self._local.deadline = UNLIMITED
            connection.set_progress_handler(None)

    def close(self) -> None:
        """Closes all of them. No call may be under way."""
        for connection in self._all:
            connection.close()
        self._all.clear()


@contextmanager
def looking(path: Path) -> Iterator[apsw.Connection]:
    """A connection that only looks, and takes nothing from a server that has the file. Raises
    apsw.Error.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(_PATIENCE_OUTSIDE)
        yield connection
    finally:
        connection.close()


def _casefold(*texts: object) -> str:
    return str(texts[0]).casefold()
