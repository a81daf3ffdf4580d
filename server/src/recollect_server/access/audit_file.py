"""The audit log: `<data-dir>/audit.jsonl`, a sealed JSON line a record, for its owner alone (0600).

Several processes write it: the server, and commands beside it. Each holds an advisory lock on the
file while it writes. A file that would grow beyond `most_bytes` becomes `audit.jsonl.1`, that one
`audit.jsonl.2` and so on; the oldest is removed. A line that a writer left half-written is ended by
the next writer, and its checksum shows that it is no record.
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from recollect_server.kernel.failpoints import hit, hit_half_way
from recollect_server.kernel.log.files import open_transcript, sync_folder
from recollect_server.kernel.log.lines import fields_of, seal

NAME = "audit.jsonl"
_PATIENCE_SECONDS = 1.0  # of waiting for the lock: a write takes some 20 us
_PAUSE_SECONDS = 0.002


class AuditLog:
    """The audit log of a data folder, as its writers see it. Safe to call from any thread."""

    def __init__(
        self,
        data_dir: Path,
        most_bytes: int,
        most_files: int,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        """Open nothing yet. `most_files` old files are kept beside the current one. A write waits
        for `patience` seconds while another process writes.
        """
        self._patience = patience
        self._path = data_dir / NAME
        self._most_bytes = most_bytes
        self._most_files = most_files
        self._guard = threading.Lock()  # one write at a time; guards `_handle`
        self._handle: int | None = None

    def append(self, *records: Mapping[str, Any], durable: bool = False) -> None:
        """Add records, all or none. `durable`: they are on the disk on return. Raises OSError."""
        data = b"".join(seal(dict(record)) for record in records)
        with self._guard:
            try:
                handle = self._locked()
                try:
                    self._write(handle, data, durable=durable)
                finally:
                    fcntl.flock(handle, fcntl.LOCK_UN)
            except OSError:
                self._close()  # the next write looks at the file anew
                raise

    def close(self) -> None:
        with self._guard:
            self._close()

    def _locked(self) -> int:
        """Return the file that has the name, locked; begin a new one if the next line is beyond its
        size.
        """
        while True:
            handle = self._open()
            self._lock(handle)
            with suppress(FileNotFoundError):
                now, ours = self._path.lstat(), os.fstat(handle)
                if (now.st_dev, now.st_ino) == (ours.st_dev, ours.st_ino):
                    if ours.st_size < self._most_bytes:
                        return handle
                    self._rotate()
            self._close()  # another writer, or this one, gave the file another name

    def _lock(self, handle: int) -> None:
        """Take the lock that writers share. A writer that stands still must not hold up others."""
        end = time.monotonic() + self._patience
        while True:
            with suppress(BlockingIOError):
                return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.monotonic() > end:
                raise OSError(errno.EBUSY, "another process holds its lock", str(self._path))
            time.sleep(_PAUSE_SECONDS)

    def _open(self) -> int:
        if self._handle is None:
            is_new = not self._path.exists()
            self._handle = open_transcript(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            if is_new:
                sync_folder(self._path.parent)
        return self._handle

    def _write(self, handle: int, data: bytes, *, durable: bool) -> None:
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":
            data = b"\n" + data
        hit_half_way("audit.half_written", data, lambda part: os.write(handle, part))
        written = os.write(handle, data)
        if written < len(data):
            os.ftruncate(handle, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        if durable:
            os.fdatasync(handle)

    def _rotate(self) -> None:
        """Rename every file to the next older name. The lock on the current one is held."""
        for number in range(self._most_files, 0, -1):
            with suppress(FileNotFoundError):
                _old(self._path, number - 1).replace(_old(self._path, number))
        if not self._most_files:
            self._path.unlink()
        hit("audit.rotated")
        sync_folder(self._path.parent)

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_audit(data_dir: Path) -> Iterator[tuple[str, int, dict[str, Any] | None]]:
    """Yield every whole line of the audit log, oldest first: its file, its number and its record,
    None for a damaged one.

    A half-written line at the end of a file is no line yet. Raises OSError.
    """
    path = data_dir / NAME
    older = (file for file in data_dir.glob(f"{NAME}.*") if file.suffix[1:].isdecimal())
    files: dict[tuple[int, int], tuple[str, int]] = {}
    try:
        # Newest first: a file that is renamed meanwhile is met twice, and left out once.
        for file in (path, *sorted(older, key=lambda file: int(file.suffix[1:]))):
            with suppress(FileNotFoundError):
                handle = open_transcript(file, os.O_RDONLY)
                status = os.fstat(handle)
                if (identity := (status.st_dev, status.st_ino)) in files:
                    os.close(handle)
                else:
                    files[identity] = (file.name, handle)
        for name, handle in reversed(files.values()):
            with os.fdopen(os.dup(handle), "rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.endswith(b"\n"):
                        yield name, number, fields_of(line[:-1])
    finally:
        for _, handle in files.values():
            os.close(handle)


def _old(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path
