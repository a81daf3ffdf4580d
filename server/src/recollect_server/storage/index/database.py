"""The database under the index: one writer connection, and a reader connection for each thread."""

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import apsw

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.storage.index.migrations import migrate

T = TypeVar("T")

_BATCH = 64  # writes of waiting callers that share one transaction at the most: bounds how long the last of them waits


_BROKEN_OFF = apsw.Error("the writer broke off")  # what a write ends with unless it is known to have ended otherwise


def _casefold(*texts: object) -> str:
    return str(texts[0]).casefold()


class _Ticket(Generic[T]):
    """One caller's write, handed to whoever holds the writer."""

    __slots__ = ("done", "error", "job", "result")

    def __init__(self, job: Callable[[apsw.Connection], T]) -> None:
        self.job = job
        self.done = False
        self.result: T | None = None
        self.error: apsw.Error | None = _BROKEN_OFF


class Database:
    """An open index file.

    Every write is a transaction. Callers that write at the same time share one: whoever gets the writer runs all that wait, so
    nobody waits for a thread to wake that is not its own.
    """

    def __init__(self, path: Path) -> None:
        """Opens or makes the file. Raises apsw.Error if it is not a database, ValueError if it is of a newer version."""
        self.path = path
        self._readers: list[apsw.Connection] = []
        self._local = threading.local()
        self._guard = threading.Lock()  # guards `_readers`
        self._writing = threading.Lock()  # guards `_writer`; held for one transaction; nobody waits for another lock under it
        self._waiting: deque[_Ticket[object]] = deque()
        self._writer = apsw.Connection(str(path))
        try:
            path.chmod(0o600)
            self._writer.set_busy_timeout(5000)
            self._writer.pragma("journal_mode", "wal")
            # NORMAL loses no consistency, only the last transactions of a power failure, and those the transcripts bring back.
            self._writer.pragma("synchronous", "NORMAL")
            # Freed pages are overwritten with zeros: what was deleted is gone.
            self._writer.pragma("secure_delete", True)
            self._writer.pragma("cache_size", -16384)
            migrate(self._writer)
        except BaseException:
            self._writer.close(force=True)
            raise

    def read(self) -> apsw.Connection:
        """The reader of this thread. It sees everything that was written before."""
        connection: apsw.Connection | None = getattr(self._local, "reader", None)
        if connection is None:
            connection = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)
            connection.set_busy_timeout(5000)
            connection.pragma("cache_size", -2048)
            connection.pragma("query_only", True)
            connection.create_scalar_function("casefold", _casefold, 1, deterministic=True)
            with self._guard:
                self._readers.append(connection)
            self._local.reader = connection
        return connection

    def write(self, job: Callable[[apsw.Connection], T]) -> T:
        """Runs the job in a transaction and returns what it returns, once that is committed. Raises IndexUnavailable.

        A job may be run twice: if another caller's job fails in the shared transaction, each is run again alone.
        """
        ticket: _Ticket[T] = _Ticket(job)
        self._waiting.append(ticket)  # type: ignore[arg-type]  # a deque of all kinds of tickets
        with self._writing:
            while not ticket.done:
                self._run_waiting()
        if ticket.error is not None:
            raise IndexUnavailable(f"the index refused a write: {ticket.error}") from ticket.error
        return ticket.result  # type: ignore[return-value]  # set before done

    def _run_waiting(self) -> None:
        tickets: list[_Ticket[object]] = []
        while self._waiting and len(tickets) < _BATCH:
            tickets.append(self._waiting.popleft())
        try:
            self._run(tickets)
        except apsw.Error as error:
            if len(tickets) == 1:
                tickets[0].error = error
            else:
                for ticket in tickets:
                    try:
                        self._run([ticket])
                    except apsw.Error as own:
                        ticket.error = own
        finally:
            for ticket in tickets:
                ticket.done = True

    def _run(self, tickets: list[_Ticket[object]]) -> None:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            for ticket in tickets:
                ticket.result = ticket.job(self._writer)
            self._writer.execute("COMMIT")
            for ticket in tickets:
                ticket.error = None
        except BaseException:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise

    def empty_log(self) -> bool:
        """Moves the write-ahead log into the database and cuts it to nothing. False if a reader was in the way."""
        with self._writing:
            busy = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
            return not busy

    def close(self) -> None:
        """Closes every connection. No call may be under way."""
        with self._guard:
            for connection in self._readers:
                connection.close()
            self._readers.clear()
        with self._writing:
            self._writer.close()
