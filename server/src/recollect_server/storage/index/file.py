"""The index's file as seen from outside: its names, the seal of a closed file, and a look into one
that a server may have open.
"""

import hashlib
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TypeVar

import apsw
import orjson

from recollect_server.storage.index.connections import looking
from recollect_server.storage.logs.files import sync_folder

T = TypeVar("T")

NAME = "conversations.db"
# behind the name: a file that stands where a page of the index was found damaged, for the next
# start
DAMAGED = ".damaged"
SEAL = ".seal"  # behind the name: the checksum of the file as a server closed it


class Seal(Enum):
    """Comparison of an index file that nobody has open with the seal that its last server left."""

    INTACT = "intact"
    """The file is byte for byte what was closed, and this very file."""
    COPIED = "copied"
    """The bytes are those, in another file: a copy was put in its place, or the file was changed
    and changed back.
    """
    MISSING = "missing"
    """No server closed the file: it was killed, or an older version did."""
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
    sealed = orjson.dumps({"digest": _digest(path), "file": _identity(path)})
    temporary = path.with_name(f"{NAME}{SEAL}.new")
    temporary.write_bytes(sealed)
    temporary.chmod(0o600)
    temporary.replace(path.with_name(NAME + SEAL))


def read_seal(folder: Path) -> Seal:
    """Compare the index file with its seal. Reads the whole file, at more than 500 MB/s. Raises
    OSError.
    """
    path = folder / NAME
    try:
        sealed = orjson.loads(path.with_name(NAME + SEAL).read_bytes())
        digest, identity = sealed["digest"], sealed["file"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Seal.MISSING
    if _log_size(path) or _digest(path) != digest:
        return Seal.BROKEN
    return Seal.INTACT if identity == _identity(path) else Seal.COPIED


def break_seal(folder: Path) -> None:
    """Remove the seal: from here on the file changes. Raises OSError."""
    (folder / f"{NAME}{SEAL}").unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


def _identity(path: Path) -> list[int]:
    """Return what a copy of the file never shares with it: no program can set the time of a change
    (`st_ctime_ns`).
    """
    status = path.stat()
    return [status.st_ino, status.st_ctime_ns]


def _log_size(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0


def look(folder: Path, question: Callable[[apsw.Connection], T], otherwise: T) -> T:
    """Return the answer of the index in a folder, whether a server has it or not; `otherwise` where
    there is none or it cannot answer.

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
    """Removes the index's files from the folder, and the mark that it is damaged. Raises
    OSError.
    """
    for suffix in (SEAL, "", "-wal", "-shm"):
        (folder / f"{NAME}{suffix}").unlink(missing_ok=True)
    sync_folder(folder)  # the log of the old one must never meet the new one
    (folder / f"{NAME}{DAMAGED}").unlink(missing_ok=True)
