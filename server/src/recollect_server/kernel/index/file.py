"""The index's file: its names, the seal of a closed one, and connections to it: one that writes,
one for the reads of each thread, and one from outside while a server has it.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import TypeVar

import apsw
import orjson

from recollect_server.kernel.domain.time import UNLIMITED, Deadline
from recollect_server.kernel.index.sqlite import FAILURES, connected
from recollect_server.kernel.log.files import (
    open_transcript,
    read_file,
    sync_folder,
    write_private,
)

T = TypeVar("T")

NAME = "conversations.db"
# behind the name: a file that stands where a page of the index was found damaged, for the next
# start
DAMAGED = ".damaged"
# behind the name: how far the logs were in an index that is being made anew
ENDS = ".ends"
SEAL = ".seal"  # behind the name: the checksum of the file as a server closed it
# of SQLite's virtual machine between two looks at the deadline: some 10 ms, up to 100 for many
# words
_STEPS = 50_000
# likewise, within SQLite's look at all pages, which counts hardly any for a table of words
_STEPS_OF_CHECKS = 200
_PATIENCE = 5000  # milliseconds that a connection of the server waits for another one
_PATIENCE_OUTSIDE = 2000


class Seal(Enum):
    """Comparison of an index file that nobody has open with the seal that its last server left."""

    ABSENT = "absent"
    """There is no file, or one of which a page was found damaged."""
    INTACT = "intact"
    """The file is byte for byte what was closed, and this very file."""
    COPIED = "copied"
    """The bytes are those, in another file: a copy was put in its place, or the file was changed
    and changed back.
    """
    MISSING = "missing"
    """No server closed the file after it was compared: it was killed, or an older version did."""
    BROKEN = "broken"
    """The bytes are others."""


def seal(folder: Path) -> None:
    """Record the checksum and the identity of the index file, which nobody may have open. Raises
    OSError.

    A file with a write-ahead log beside it is not sealed: it does not hold everything yet.
    """
    path = folder / NAME
    if _log_size(path):
        return
    sealed = orjson.dumps({"digest": _digest(path), "file": identity(path)})
    write_private(path.with_name(NAME + SEAL), sealed, sync=False)


def read_seal(folder: Path) -> Seal:
    """Compare the index file with its seal. Reads the whole file, at more than 500 MB/s. Raises
    OSError.
    """
    path = folder / NAME
    if not path.exists() or path.with_name(NAME + DAMAGED).exists():
        return Seal.ABSENT
    try:
        sealed = orjson.loads(read_file(path.with_name(NAME + SEAL)))
        # A server before this one could leave a seal of a file that it had not compared to the
        # end, without a digest.
        digest, recorded = sealed["digest"], sealed["file"]
    except (OSError, ValueError, KeyError, TypeError):
        return Seal.MISSING
    if _log_size(path) or _digest(path) != digest:
        return Seal.BROKEN
    return Seal.INTACT if recorded == identity(path) else Seal.COPIED


def break_seal(folder: Path) -> None:
    """Remove the seal: from here on the file changes. Raises OSError."""
    (folder / f"{NAME}{SEAL}").unlink(missing_ok=True)


def _digest(path: Path) -> str:
    # a link to it is followed, as SQLite does
    with os.fdopen(open_transcript(path.resolve(), os.O_RDONLY), "rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def identity(path: Path) -> list[int]:
    """Return what a copy of the file never shares with it, nor the file after a change: no program
    can set the time of a change (`st_ctime_ns`). Raises OSError.
    """
    status = path.stat()
    return [status.st_ino, status.st_ctime_ns]


def _log_size(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def looked_at(folder: Path, question: Callable[[apsw.Connection], T]) -> tuple[str, T | None]:
    """Return what is wrong with the index in a folder, whether a server has it or not, and its
    answer; None: it has none.
    """
    path = folder / NAME
    if not path.exists():
        return "missing: the next start makes it anew", None
    try:
        with looking(path) as connection:
            answer = question(connection)
            query = "SELECT value FROM identity WHERE name = 'rebuild_wanted'"
            reason = connection.execute(query).get
    except FAILURES as error:
        return f"unusable ({error}): the next start makes it anew", None
    if not reason and path.with_name(NAME + DAMAGED).exists():
        reason = "a page of it is damaged"
    return (f"to be made anew at the next start: {reason}" if reason else ""), answer


def look(folder: Path, question: Callable[[apsw.Connection], T], otherwise: T) -> T:
    """Return the answer of the index in a folder, whatever is wrong with it; `otherwise` if it has
    none.
    """
    answer = looked_at(folder, question)[1]
    return otherwise if answer is None else answer


def keep_ends(folder: Path) -> dict[str, int]:
    """Return how many bytes of each log the index in a folder has, or the one before it that was
    not made anew to the end; and write them down for a start after a crash. Call it before the
    index is removed.

    What an index has was acknowledged: a damaged line at a log's end is none of a torn write.
    """
    query = (
        "SELECT id, bytes FROM progress JOIN conversations USING (number)"
        " UNION ALL SELECT id, bytes FROM external_communications"
    )
    ends = kept_ends(folder)
    with suppress(*FAILURES):
        if (folder / NAME).exists():
            with looking(folder / NAME) as connection:
                rows = connection.execute(query).fetchall()
            ends |= {str(name): int(size) for name, size in rows}  # type: ignore[arg-type]  # both columns are what their tables say
    with suppress(OSError):  # a disk that takes nothing: then they are known until the server ends
        write_private(folder / f"{NAME}{ENDS}", orjson.dumps(ends), sync=False)
    return ends


def kept_ends(folder: Path) -> dict[str, int]:
    """Return what `keep_ends` wrote down of an index that was not made anew to the end."""
    try:
        ends = orjson.loads(read_file(folder / f"{NAME}{ENDS}"))
        return {str(name): int(size) for name, size in ends.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def drop_ends(folder: Path) -> None:
    """Remove what `keep_ends` wrote down: an index has all of it. Raises OSError."""
    (folder / f"{NAME}{ENDS}").unlink(missing_ok=True)


def remove_files(folder: Path) -> None:
    """Remove the index's files from the folder, and the mark of damage. Raises OSError."""
    for suffix in (SEAL, "", "-wal", "-shm"):
        (folder / f"{NAME}{suffix}").unlink(missing_ok=True)
    sync_folder(folder)  # the log of the old one must never meet the new one
    (folder / f"{NAME}{DAMAGED}").unlink(missing_ok=True)


def open_writer(path: Path) -> apsw.Connection:
    """Open or make the file, for its owner alone. Raises apsw.Error if it is not a database."""
    connection = connected(path)
    try:
        # only then: it changes the file's `st_ctime`, by which a copy is recognised
        if path.stat().st_mode & 0o777 != 0o600:
            path.chmod(0o600)
        connection.set_busy_timeout(_PATIENCE)
        connection.pragma("journal_mode", "wal")
        # NORMAL loses no consistency, only the last transactions of a power failure, and those the
        # transcripts bring back.
        connection.pragma("synchronous", "NORMAL")
        # Rows and pages that are freed are overwritten with zeros; `Gaps` has the copies of rows.
        connection.pragma("secure_delete", True)
        connection.pragma("cache_size", -16384)
    except BaseException:
        connection.close(force=True)
        raise
    return connection


@contextmanager
def patience(connection: apsw.Connection, milliseconds: int) -> Iterator[None]:
    """Let a connection of the server wait for others only so long."""
    connection.set_busy_timeout(milliseconds)
    try:
        yield
    finally:
        connection.set_busy_timeout(_PATIENCE)


class Readers:
    """Connections for the threads that read: as many as read at the same time.

    A thread has one from `enter` to `leave`, also for what it reads within.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._local = threading.local()
        self._guard = threading.Lock()  # guards `_all` and `_idle`
        self._all: list[apsw.Connection] = []
        self._idle: list[apsw.Connection] = []  # the last used last: its cache is warm

    def enter(self) -> apsw.Connection:
        """Return the connection of this thread. Call `leave` once for it. Raises apsw.Error."""
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._take()
            self._local.depth = 0
        self._local.depth += 1
        return connection

    def leave(self) -> None:
        """Give the connection of this thread back, if this was the outermost use of it."""
        self._local.depth -= 1
        if not self._local.depth:
            with self._guard:
                self._idle.append(self._local.connection)
            self._local.connection = None

    def _take(self) -> apsw.Connection:
        with self._guard:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = connected(self._path, apsw.SQLITE_OPEN_READONLY)
            connection.set_busy_timeout(_PATIENCE)
            connection.pragma("cache_size", -2048)
            connection.pragma("query_only", True)
            connection.create_scalar_function("casefold", _casefold, 1, deterministic=True)
            with self._guard:
                self._all.append(connection)
        return connection

    def deadline(self) -> Deadline:
        """Return the deadline of this thread's reads."""
        deadline: Deadline = getattr(self._local, "deadline", UNLIMITED)
        return deadline

    @contextmanager
    def until(self, deadline: Deadline) -> Iterator[None]:
        """Interrupt the queries of this thread once the deadline is over. Raises apsw.Error."""
        connection = self.enter()
        self._local.deadline = deadline
        connection.set_progress_handler(lambda: deadline.is_over, _STEPS)
        try:
            yield
        finally:
            self._local.deadline = UNLIMITED
            connection.set_progress_handler(None)
            self.leave()

    def close(self) -> None:
        """Close all of them. No call may be under way."""
        for connection in self._all:
            connection.close()
        self._all.clear()
        self._idle.clear()


@contextmanager
def looking(path: Path) -> Iterator[apsw.Connection]:
    """Yield a connection that only looks, and takes nothing from a server that has the file. Raises
    apsw.Error.
    """
    with closing(connected(path, apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.set_busy_timeout(_PATIENCE_OUTSIDE)
        yield connection


@contextmanager
def checked(connection: apsw.Connection, check: Callable[[], None]) -> Iterator[None]:
    """Call `check` often while the connection works: what it raises ends the query."""

    def look() -> bool:
        check()
        return False

    connection.set_progress_handler(look, _STEPS_OF_CHECKS)
    try:
        yield
    finally:
        connection.set_progress_handler(None)


def _casefold(*texts: object) -> str:
    return str(texts[0]).casefold()
