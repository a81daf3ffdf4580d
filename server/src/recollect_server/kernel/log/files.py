"""Files and folders: opened safely, and made durable with their names."""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from recollect_server.kernel.failpoints import hit

SUFFIX = ".jsonl"
DELETING = ".deleting"  # a transcript whose delete has begun: start-up finishes it
REQUEST = ".request"  # the request that deletes a transcript, until the delete has ended
TORN = ".torn"  # what was cut off a transcript's tail
REDACTING = ".redacting"  # a transcript as it was before a redaction that has not ended
COPY = ".copy"  # a transcript's good prefix, until it takes the name (see writer)

_SYNCS = 16  # files that are synced at the same time
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe must not be waited for


def open_transcript(path: Path, flags: int) -> int:
    """Open a regular file, never through a link, and not for the processes started later.

    Raises OSError, also for a pipe, a device, a socket or a folder that somebody put in the file's
    place.
    """
    handle = os.open(path, flags | _OPEN_FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return handle


def read_file(path: Path) -> bytes:
    """Return the bytes of a regular file. Raises OSError, as `open_transcript`."""
    with os.fdopen(open_transcript(path, os.O_RDONLY), "rb") as file:
        return file.read()


def exposure(key: Path) -> str:
    """Return a warning if every user of the machine can read a file of keys; empty if not."""
    with suppress(OSError):
        if key.stat().st_mode & stat.S_IROTH:
            return f"every user of this machine can read the key in {key}: chmod o= {key}"
    return ""


@contextmanager
def opened(file: Path | int, flags: int = os.O_RDONLY) -> Iterator[int]:
    """Yield a handle of a file, as `open_transcript` opens it. One that is given stays open. Raises
    OSError.
    """
    if isinstance(file, int):
        yield file
        return
    handle = open_transcript(file, flags)
    try:
        yield handle
    finally:
        os.close(handle)


class Syncs:
    """Syncs of many files, a few at a time: a disk takes several together in the time of one.
    Leaving the block waits for all.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_SYNCS, "sync")
        self._pending: deque[Future[None]] = deque()

    def sync(self, handle: int) -> None:
        """Sync and close a file in the background. Raises OSError, also for an earlier file."""
        self._pending.append(self._pool.submit(_sync_and_close, handle))
        while len(self._pending) > 4 * _SYNCS:
            self._pending.popleft().result()

    def __enter__(self) -> "Syncs":
        return self

    def __exit__(self, *raised: object) -> None:
        self._pool.shutdown()
        for pending in self._pending if raised[0] is None else ():
            pending.result()


def _sync_and_close(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_private(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a small file that only its owner may read, whole or not at all; durably, unless `sync`
    is False. Raises OSError.
    """
    copy = path.with_name(path.name + COPY)
    copy.unlink(missing_ok=True)
    write_new(copy, [data], sync=sync)
    copy.rename(path)
    if sync:
        sync_folder(path.absolute().parent)


def write_new(path: Path, lines: Iterable[bytes], *, sync: bool = True) -> None:
    """Make a file of these lines, durable but for its name, unless `sync` is False. Raises
    OSError.
    """
    handle = open_transcript(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(handle, "wb") as file:
        file.writelines(lines)
        if sync:
            file.flush()
            os.fsync(handle)


def make_folder(folder: Path) -> None:
    """Make a folder with its parents, durable, for the owner alone (0700). Harmless if it exists.
    Raises OSError.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        hit("folder.made")
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Make changes of names in the folder (a new file, a rename, a removal) durable. Raises
    OSError.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
