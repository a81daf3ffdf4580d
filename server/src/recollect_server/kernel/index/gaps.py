"""Zeros in the gaps of a SQLite file's pages, where copies of deleted rows stay.

SQLite's `secure_delete` writes zeros over the cell of a deleted row and over freed pages. When it
distributes the rows of full pages anew, it leaves copies of those that move in the gap of the page
between its list of cells and the cells. Such a copy outlives its row, through restarts.

`Gaps` writes zeros over the gaps of every page that changed since it did so last; at first of all
pages. No program reads a gap, so each zero may be written in place: nothing is to be undone after a
crash. It writes only while the write-ahead log is empty and the write lock is held: then nobody,
another process included, can be about to put a newer page there. It writes by SQLite's own handle
of the file: to close another one would end the process's locks on it.
"""

import ctypes
from collections import deque
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import ClassVar

import apsw

_CHECKPOINT_AT = 4000  # pages in the write-ahead log: one that changes often is written less often
_STEP = 2048  # pages of one step, some 10 ms
_RUN = 256  # pages that are read at once
_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}
"""Bytes of the header of a page with cells, by its first byte."""
_FIRST = 100  # bytes of the file's header, before that of the first page
_LOG_HEADER, _FRAME_HEADER = 32, 24

_Access = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
)


class _Methods(ctypes.Structure):
    """Beginning of SQLite's `sqlite3_io_methods`."""

    _fields_: ClassVar = [
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", _Access),
        ("write", _Access),
        ("truncate", ctypes.c_void_p),
        ("sync", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)),
    ]


class _Handle(ctypes.Structure):
    """SQLite's `sqlite3_file`."""

    _fields_: ClassVar = [("methods", ctypes.POINTER(_Methods))]


class Wiped(Enum):
    """Outcome of one step of wiping gaps."""

    NONE = "none"
    """Somebody was in the way: try again."""
    PART = "part"
    ALL = "all"
    """No gap is left."""


class Gaps:
    """Gaps of the file of one connection, the only one that writes it. Use it in the thread that
    uses the connection.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        """Take the checkpoints of the connection over, whose log tells which pages change."""
        self._connection = connection
        self._log = Path(connection.filename_wal)
        self._page_size = int(connection.pragma("page_size"))
        self._changed: set[int] | None = None
        """Pages that changed since their gaps were wiped; None: any may have."""
        self._salt = b""  # of the write-ahead log as it was noted last
        self._noted = 0  # frames of it that were noted
        self._is_complete = True  # a checkpoint had all of it: the next commit may begin another
        self._version = 0  # of the content, which changes when another process commits
        connection.set_wal_hook(self._committed)

    def wipe(self) -> Wiped:
        """Empty the write-ahead log, and wipe a part of the gaps. Call it outside of transactions.
        Raises apsw.Error.
        """
        connection = self._connection
        self._note()
        if (version := int(connection.pragma("data_version"))) != self._version:
            self._version, self._changed = version, None
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
            return Wiped.NONE
        self._is_complete = True
        try:
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return Wiped.NONE
        try:
            if self._size_of_log():
                return Wiped.NONE  # another process wrote in between
            if self._changed is None:
                self._changed = set(range(1, int(connection.pragma("page_count")) + 1))
            part = sorted(self._changed)[:_STEP]
            self._wipe(part)
            self._changed.difference_update(part)
        finally:
            connection.execute("ROLLBACK")
            # A page in the cache has its gap as it was, and its next change would write that again.
            connection.execute("PRAGMA shrink_memory")
        return Wiped.PART if self._changed else Wiped.ALL

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if self._is_complete:
            if (salt := self._read_salt()) != self._salt:
                self._salt, self._noted = salt, 0
            self._is_complete = False
        if pages >= _CHECKPOINT_AT:
            self._note()
            # as SQLite's own: a checkpoint that fails fails no commit, and the next one tries again
            with suppress(apsw.Error):
                in_log, written = connection.wal_checkpoint(name)
                self._is_complete = in_log == written
        return apsw.SQLITE_OK

    def _size_of_log(self) -> int:
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

    def _read_salt(self) -> bytes:
        """Return what tells the write-ahead log from the one before; empty if it cannot be read."""
        try:
            with self._log.open("rb") as log:
                return log.read(_LOG_HEADER)[16:24]
        except OSError:
            return b""

    def _note(self) -> None:
        """Note which pages the write-ahead log has."""
        if self._changed is None or not self._size_of_log():
            return
        if self._read_salt() != self._salt:  # another process emptied the one before
            self._changed = None
            return
        try:
            with self._log.open("rb") as log:
                log.seek(_LOG_HEADER + self._noted * (_FRAME_HEADER + self._page_size))
                while (header := log.read(_FRAME_HEADER))[8:16] == self._salt:
                    self._changed.add(int.from_bytes(header[:4], "big"))
                    self._noted += 1
                    log.seek(self._page_size, 1)
        except OSError:
            self._changed = None

    def _wipe(self, pages: list[int]) -> None:
        """Wipe the gaps of some pages."""
        pointer = ctypes.c_void_p()
        self._connection.file_control(
            "main", apsw.SQLITE_FCNTL_FILE_POINTER, ctypes.addressof(pointer)
        )
        assert pointer.value is not None
        methods = _Handle.from_address(pointer.value).methods.contents
        waiting = deque(pages)
        size = self._page_size
        is_written = False
        while waiting:
            first = waiting.popleft()
            count = 1
            while waiting and waiting[0] == first + count and count < _RUN:
                waiting.popleft()
                count += 1
            buffer = ctypes.create_string_buffer(count * size)
            start = (first - 1) * size
            code = methods.read(pointer, buffer, len(buffer), start)
            # short where the file ends before a page that the log had
            if code not in (apsw.SQLITE_OK, apsw.SQLITE_IOERR_SHORT_READ):
                raise apsw.IOError(f"a page could not be read: {code}")
            content = buffer.raw
            for at in range(0, len(content), size):
                begin, end = _gap(content, at, at + size, _FIRST if start + at == 0 else 0)
                if content.count(0, begin, end) == end - begin:
                    continue
                zeros = bytes(end - begin)
                if code := methods.write(pointer, zeros, len(zeros), start + begin):
                    raise apsw.IOError(f"a page could not be written: {code}")
                is_written = True
        if is_written and (code := methods.sync(pointer, apsw.SQLITE_SYNC_NORMAL)):
            raise apsw.IOError(f"the file could not be synced: {code}")


def _gap(content: bytes, start: int, end: int, skipped: int) -> tuple[int, int]:
    """Return the bounds of the gap of a page that is in `content` from `start` to `end`; nothing of
    a page without cells, or one that is damaged.
    """
    header = start + skipped
    size = _HEADERS.get(content[header])
    if size is None:
        return start, start
    cells = int.from_bytes(content[header + 3 : header + 5], "big")
    begin = header + size + 2 * cells
    first = start + (int.from_bytes(content[header + 5 : header + 7], "big") or 65536)
    return (begin, first) if begin <= first <= end else (start, start)
