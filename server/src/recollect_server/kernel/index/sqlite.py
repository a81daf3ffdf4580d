"""Opens SQLite's files."""

from pathlib import Path

import apsw

FAILURES = (apsw.Error, UnicodeDecodeError)
"""Raised by queries: SQLite does not notice that a damaged text is no UTF-8."""
DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)
"""Those of `FAILURES` that say that the file is damaged."""

_WRITTEN = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


def connected(path: Path, flags: int = _WRITTEN) -> apsw.Connection:
    """Open a file of SQLite. Raises apsw.Error, also for a pipe, a device or a socket in its place:
    SQLite would wait for somebody to write to a pipe, and nothing ends that.
    """
    if path.exists() and not path.is_file():
        raise apsw.NotADBError(f"{path.name} is no regular file")
    return apsw.Connection(str(path), flags=flags)
