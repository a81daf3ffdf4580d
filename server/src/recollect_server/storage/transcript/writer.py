"""Appends to a transcript: written, synced, then acknowledged.

No file stays open between appends: opening one costs some microseconds beside the sync's hundred, and five thousand active
conversations cost no handle. The caller holds the conversation's lock, so one file has one writer at a time.
"""

import os
from pathlib import Path

from recollect_server.storage.transcript.files import open_transcript, sync_folder


class TranscriptWriter:
    """Writes transcripts. `sync` False trusts the operating system's cache (setting `durability: os`)."""

    def __init__(self, *, sync: bool) -> None:
        self._sync = sync

    def create(self, path: Path, line: bytes) -> None:
        """Makes the file with its first line, durable with its name. Raises FileExistsError, OSError (and leaves no file)."""
        handle = open_transcript(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                _write_all(handle, line)
                if self._sync:
                    os.fsync(handle)
            finally:
                os.close(handle)
            if self._sync:
                sync_folder(path.parent)
        except OSError:
            path.unlink(missing_ok=True)
            raise

    def append(self, path: Path, lines: bytes, size: int) -> None:
        """Adds whole lines behind the first `size` bytes, in one write, durable when it returns.

        What a failed write left behind is cut off before the error (OSError) is raised. After a failed sync the kernel may
        have dropped the pages and would report the next sync as done, so the file is given up: its first `size` bytes are
        copied to a new one that takes its name.
        """
        handle = open_transcript(path, os.O_RDWR)
        try:
            found = os.fstat(handle).st_size
            if found != size:
                raise OSError(f"{path.name} has {found} bytes and should have {size}: something else wrote to it")
            os.lseek(handle, size, os.SEEK_SET)
            try:
                _write_all(handle, lines)
            except OSError:
                os.ftruncate(handle, size)
                raise
            if self._sync:
                try:
                    os.fdatasync(handle)
                except OSError:
                    _replace_with_prefix(handle, path, size)
                    raise
        finally:
            os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def _replace_with_prefix(handle: int, path: Path, size: int) -> None:
    copy = path.with_name(path.name + ".copy")
    copy.unlink(missing_ok=True)
    target = open_transcript(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        offset = 0
        while offset < size:
            part = os.pread(handle, min(1 << 20, size - offset), offset)
            if not part:
                raise OSError(f"{path.name} ended before byte {size} while it was copied")
            _write_all(target, part)
            offset += len(part)
        os.fsync(target)
    finally:
        os.close(target)
    copy.rename(path)
    sync_folder(path.parent)
