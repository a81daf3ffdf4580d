"""The open index file of a space, shared by the parts of the index: readers, the writer, and the
file's condition.

A change is queued (see `writer`), and a read first waits until everything queued before is
taken in: what was acknowledged is found, always.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.time import Deadline
from recollect_server.kernel.index.file import NAME, Readers
from recollect_server.kernel.index.sqlite import FAILURES
from recollect_server.kernel.index.writer import Writer

T = TypeVar("T")


class Database:
    """An open index file. Safe to call from any thread. What reads or writes it raises
    IndexUnavailable: errors of SQLite become that here.
    """

    def __init__(self, folder: Path, schema: str = "") -> None:
        """Open or make `conversations.db` in the folder (see `Writer`). Raise OSError."""
        self.folder = folder
        self.path = folder / NAME
        try:
            self.writer = Writer(self.path, schema)
            """Thread that takes changes in, and its queue."""
        except (apsw.Error, ValueError) as error:  # ValueError: the file is of a newer version
            raise IndexUnavailable(str(error)) from error
        self._readers = Readers(self.path)
        self._given_up = ""

    @contextmanager
    def reading(self, *, settled: bool = True) -> Iterator[apsw.Connection]:
        """Yield this thread's reader. It sees everything queued before, or, where `settled` is
        False, what is taken in now.

        Within a `moment` of this thread it is that moment's.
        """
        self.check()
        if self.writer.is_resting:
            self.wake()
        try:
            connection = self._readers.enter()
            try:
                if settled and not connection.in_transaction:
                    self.writer.settle()
                yield connection
            finally:
                self._readers.leave()
        except FAILURES as error:
            if isinstance(error, apsw.InterruptError):
                self._readers.deadline().check()
            self.writer.note_damage(error)
            raise IndexUnavailable(f"the index cannot answer: {error}") from error

    def rows(self, query: str, values: Any = (), *, settled: bool = True) -> list[Any]:
        """Return the rows of a query."""
        with self.reading(settled=settled) as connection:
            return connection.execute(query, values).fetchall()

    def row(self, query: str, values: Any = (), *, settled: bool = True) -> Any:
        """Return the first row of a query, or None."""
        with self.reading(settled=settled) as connection:
            return connection.execute(query, values).fetchone()

    def value(self, query: str, values: Any = (), *, settled: bool = True) -> Any:
        """Return the value that a query returns; a row or a list of several; None without a row."""
        with self.reading(settled=settled) as connection:
            return connection.execute(query, values).get

    @contextmanager
    def moment(self, *, settled: bool = False) -> Iterator[apsw.Connection]:
        """Yield this thread's reader for several queries of one state of the index: what is taken
        in now, or, where `settled` is True, with everything queued before.
        """
        with self.reading(settled=settled) as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("COMMIT")

    def write(self, work: Callable[[apsw.Connection, int], T]) -> T:
        """Run the work in a transaction of its own and return its result (see `Writer.write`)."""
        return self.writer.write(work)

    def execute(self, *statements: tuple[str, Any]) -> None:
        """Execute statements, each with its values, in a transaction of their own."""

        def work(connection: apsw.Connection, _: int) -> None:
            for statement, values in statements:
                connection.execute(statement, values)

        self.write(work)

    @contextmanager
    def until(self, deadline: Deadline) -> Iterator[None]:
        """Let the reads of this thread raise CallerGone or DeadlineExceeded once the deadline is
        over.
        """
        with self.reading(settled=False):
            pass  # opens the reader, which may fail
        with self._readers.until(deadline):
            yield

    def lost(self) -> str:
        """Return why this index can never be used again, or nothing: its file was damaged, removed
        or replaced.
        """
        return self._given_up or self.writer.damage or self.writer.moved()

    def give_up(self, reason: str) -> bool:
        """Refuse every further read and addition. Return False if that was done before."""
        first, self._given_up = not self._given_up, reason
        return first

    def check(self) -> None:
        """Raise IndexUnavailable if the index was given up."""
        if self._given_up:
            raise IndexUnavailable(f"the index is made anew: {self._given_up}")

    def rest(self) -> None:
        """Execute what is queued and close the file, until it is used again (see `Writer.rest`)."""
        self.writer.rest(self._readers)

    def wake(self) -> None:
        """Open the file, if it is closed."""
        try:
            self.writer.wake()
        except apsw.Error as error:
            raise IndexUnavailable(str(error)) from error

    def abandon(self) -> None:
        """Take in nothing more, and let nobody wait (see `Writer.abandon`)."""
        self.writer.abandon()

    def close(self) -> bool:
        """Execute what is queued, then close every connection. No call may be under way. Return
        False if the file lacks something that was queued.
        """
        return self.writer.close(self._readers)
