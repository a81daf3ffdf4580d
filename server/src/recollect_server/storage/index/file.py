"""The index's file: open until it is closed, what is known of its condition, and what it says to whoever looks from outside."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import apsw

from recollect_server.domain.deadline import Deadline
from recollect_server.domain.errors import IndexUnavailable
from recollect_server.storage.index.connections import looking
from recollect_server.storage.index.database import Database
from recollect_server.storage.transcript.files import sync_folder

T = TypeVar("T")

NAME = "conversations.db"
DAMAGED = ".damaged"  # behind the name: a file that stands where a page of the index was found damaged, for the next start


class IndexFile:
    """An open index file, as far as its condition goes."""

    def __init__(self, folder: Path) -> None:
        """Opens or makes the file. Raises IndexUnavailable with the reason, OSError."""
        try:
            self._database = Database(folder / NAME)
        except (apsw.Error, ValueError) as error:  # ValueError: it is of a newer version
            raise IndexUnavailable(str(error)) from error
        self._given_up = ""
        self._lost = ""

    @contextmanager
    def reading(self, *, settled: bool = True) -> Iterator[apsw.Connection]:
        """The reader of this thread, for the modules of this package. It sees what was added before, or, where `settled` is False,
        what is taken in now. Raises IndexUnavailable.
        """
        self._check()
        try:
            yield self._database.read() if settled else self._database.reader()
        except apsw.Error as error:
            if isinstance(error, apsw.InterruptError):
                self._database.readers.deadline().check()
            if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
                self._lost = str(error)
                with suppress(OSError):
                    self._database.path.with_name(NAME + DAMAGED).touch(0o600)
            raise IndexUnavailable(f"the index cannot answer: {error}") from error

    @contextmanager
    def until(self, deadline: Deadline) -> Iterator[None]:
        """Let the reads of this thread raise CallerGone or DeadlineExceeded once the deadline is over.

        Raises IndexUnavailable.
        """
        with self.reading(settled=False):
            pass  # opens the reader, which may fail
        with self._database.readers.until(deadline):
            yield

    def lost(self) -> str:
        """Why this index can never be used again, or nothing: its file was damaged, or is not there any more."""
        return self._given_up or self._lost or self._database.moved()

    def condemn(self, reason: str) -> None:
        """What the index says is not so: it is lost, and goes on until it is given up."""
        self._lost = reason

    def give_up(self, reason: str) -> bool:
        """Answers and takes in nothing any more. False if it was given up before."""
        first, self._given_up = not self._given_up, reason
        return first

    def _check(self) -> None:
        if self._given_up:
            raise IndexUnavailable(f"the index is made anew: {self._given_up}")


def look(folder: Path, question: Callable[[apsw.Connection], T], otherwise: T) -> T:
    """What the index in a folder answers, whether a server has it or not; `otherwise` where there is none or it cannot answer.

    For `stats`, which says of the index itself what is wrong with it (see `checking.state_of`).
    """
    try:
        if not (folder / NAME).exists():
            return otherwise
        with looking(folder / NAME) as connection:
            return question(connection)
    except apsw.Error:
        return otherwise


def remove_files(folder: Path) -> None:
    """Removes the index's files from the folder, and the mark that it is damaged. Raises OSError."""
    for suffix in ("", "-wal", "-shm"):
        (folder / f"{NAME}{suffix}").unlink(missing_ok=True)
    sync_folder(folder)  # the log of the old one must never meet the new one
    (folder / f"{NAME}{DAMAGED}").unlink(missing_ok=True)
