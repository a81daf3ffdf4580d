"""Appends to a transcript: written, synced, then acknowledged.

A file is opened with O_DSYNC, so one system call writes and syncs: each call costs a change of
Python's global lock, and under load those changes are what an append takes longest for. The last
files stay open. The caller holds the conversation's lock, so one file has one writer at a time.
"""

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import structlog

from recollect_server.kernel.failpoints import hit, hit_half_way
from recollect_server.kernel.log.files import COPY, open_transcript, opened, sync_folder

log = structlog.get_logger("recollect.writer")

_MAX_OPEN = 256
# nothing reached the disk that a later sync could be wrong about
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class TranscriptChanged(OSError):
    """The file is not as this writer left it: something else wrote to it. Nothing was added."""


class _File:
    """An open transcript. It closes when nobody uses it any more: it may be dropped from the cache
    in the middle of a write.
    """

    __slots__ = ("handle", "inode")

    def __init__(self, path: Path, flags: int) -> None:
        self.handle = open_transcript(path, flags)
        self.inode = os.fstat(self.handle).st_ino

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            os.close(self.handle)


class LogWriter:
    """Writes transcripts. `sync` False trusts the operating system's cache (setting `durability:
    os`).
    """

    def __init__(self, *, sync: bool) -> None:
        self._sync = sync
        self._flags = os.O_DSYNC if sync else 0
        self._guard = threading.Lock()  # guards `_files`; no file is opened or written under it
        self._files: OrderedDict[Path, _File] = OrderedDict()
        self._unclean: dict[Path, bool] = {}  # with bytes behind the good ones; True: given up

    def create(self, path: Path, line: bytes) -> None:
        """Create the file with its first line, durable with its name. Tries twice; raises OSError,
        and leaves no file then.
        """
        try:
            self._create(path, line)
        except OSError as error:
            self._try_again(path, error, lambda: self._create(path, line))

    def append(self, path: Path, lines: bytes, size: int) -> None:
        """Append whole lines behind the first `size` bytes, durable on return. Tries twice.

        Raises TranscriptChanged if the file is not as it was left, else OSError: then nothing is
        added. What a failed write left behind is cut off, if the disk allows it now, else before
        the next append. After an error that may be the sync's, the kernel may have dropped the
        pages and would report the next sync as done: so the file is given up, its first `size`
        bytes are copied to a new one that takes its name, and the second try writes there.
        """
        try:
            self._append(path, lines, size)
        except TranscriptChanged:
            raise
        except OSError as error:
            self._try_again(path, error, lambda: self._append(path, lines, size))

    def forget(self, path: Path) -> None:
        """Close the file, because it was renamed, removed or repaired."""
        with self._guard:
            self._files.pop(path, None)

    def close(self) -> None:
        """Close every file that no append uses."""
        with self._guard:
            self._files.clear()

    def _create(self, path: Path, line: bytes) -> None:
        hit("create.begun")
        file = _File(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | self._flags)
        hit("create.file_made")
        hit_half_way("create.half_written", line, lambda part: os.pwrite(file.handle, part, 0))
        try:
            _write_all(file.handle, line, 0)
            hit("create.written")
            if self._sync:
                os.fsync(file.handle)
                sync_folder(path.parent)
            hit("create.synced")
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self._keep(path, file)

    def _append(self, path: Path, lines: bytes, size: int) -> None:
        if (give_up := self._unclean.get(path)) is not None:
            self._clean(path, size, give_up=give_up)
        file = self._open(path, size)
        hit("append.begun")
        hit_half_way("append.half_written", lines, lambda part: os.pwrite(file.handle, part, size))
        try:
            _write_all(file.handle, lines, size)
            hit("append.written")
        except OSError as error:
            self.forget(path)
            give_up = self._sync and error.errno not in _NO_ROOM
            self._unclean[path] = give_up
            self._clean(path, size, give_up=give_up)
            raise

    def _clean(self, path: Path, size: int, *, give_up: bool) -> None:
        """Cut off the remains of failed writes behind the first `size` bytes. Raises OSError; then
        it must be repeated.
        """
        with opened(path, os.O_RDWR) as handle:
            if give_up:
                _replace_with_prefix(handle, path, size)
            else:
                os.ftruncate(handle, size)
        self._unclean.pop(path, None)

    def _try_again(self, path: Path, error: OSError, write: Callable[[], None]) -> None:
        """Write once more, and log that it was needed. What fails again is its caller's to log."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            self.close()  # opened again as they are needed
        write()
        log.warning(
            "transcript_write_tried_again", file=path.name, reason=error.strerror or str(error)
        )

    def _open(self, path: Path, size: int) -> _File:
        with self._guard:
            file = self._files.get(path)
            if file:
                self._files.move_to_end(path)
        if not file:
            file = _File(path, os.O_RDWR | self._flags)
            self._keep(path, file)
        # One look at the name tells whether the file is still the one that is open, and as long as
        # it was.
        try:
            status = path.stat(follow_symlinks=False)
        except OSError:
            self.forget(path)
            raise
        if status.st_size != size or status.st_ino != file.inode:
            self.forget(path)
            raise TranscriptChanged(
                errno.EIO, f"{path.name} is not as this server left it: something else wrote to it"
            )
        return file

    def _keep(self, path: Path, file: _File) -> None:
        with self._guard:
            self._files[path] = file
            while len(self._files) > _MAX_OPEN:
                self._files.popitem(last=False)


def _write_all(handle: int, data: bytes, offset: int) -> None:
    written = os.pwrite(handle, data, offset)
    while written < len(data):
        written += os.pwrite(handle, memoryview(data)[written:], offset + written)


def _replace_with_prefix(handle: int, path: Path, size: int) -> None:
    copy = path.with_name(path.name + COPY)
    copy.unlink(missing_ok=True)
    with opened(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as target:
        offset = 0
        while offset < size:
            part = os.pread(handle, min(1 << 20, size - offset), offset)
            if not part:
                raise OSError(
                    errno.EIO, f"{path.name} ended before byte {size} while it was copied"
                )
            _write_all(target, part, offset)
            offset += len(part)
        os.fsync(target)
    copy.rename(path)
    sync_folder(path.parent)
