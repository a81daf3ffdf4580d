"""The data folder: its lock, and errors that say why a server cannot start on it."""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from recollect_server.settings import Settings
from recollect_server.storage.logs.files import make_folder, open_transcript
from recollect_server.storage.logs.store import LogUnavailable

LOCK = "recollect.lock"


class CannotStart(Exception):
    """The server cannot start; the text says why and what to do."""


class OutOfMemory(CannotStart):
    """The system gives this process less memory, or fewer threads, than a server needs."""


NO_MEMORY = (
    "there is not enough memory, or there may be no more threads: "
    "raise the limit (ulimit -v, ulimit -u), or lower --threads"
)
_OTHER_THREADS = 40  # beside those of the calls: gRPC's, the jobs', the streams'
_OTHER_BYTES = 256 << 20  # address space that a start takes beside the stacks of its threads
_USUAL_STACK = 8 << 20
_ARENA_MAX = -8  # glibc's M_ARENA_MAX


def check_address_space(settings: Settings) -> None:
    """Check that a limited address space holds the stacks of all threads, now and not when calls
    need them. Raises OutOfMemory.

    gRPC aborts the process, after some seconds and with a page of text, when it cannot start a
    thread.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    with suppress(AttributeError, OSError):
        # glibc would take 64 MiB for each of many threads, and leave none for the stacks of others.
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 2)
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    stack = _USUAL_STACK if stack == resource.RLIM_INFINITY else stack
    required = (
        settings.threads + settings.write_threads + settings.search_threads + _OTHER_THREADS
    ) * stack + _OTHER_BYTES
    try:
        mmap.mmap(-1, required).close()
    except (OSError, OverflowError) as error:
        raise OutOfMemory(
            f"the limit of this process's memory leaves less than the {required >> 20} MiB of address space that a start takes:"
            " raise it (ulimit -v), or lower --threads"
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the system refused memory or a thread."""
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EAGAIN))
        or (isinstance(error, RuntimeError) and "can't start new thread" in str(error))
    )


def cannot_use(
    data_dir: Path, failure: OSError | LogUnavailable, flag: str = "--data-dir"
) -> CannotStart:
    """Turn what the data folder's disk refused into a start-up error with advice. `flag` names the
    folder.
    """
    error = failure if isinstance(failure, OSError) else failure.__cause__
    if not isinstance(error, OSError):  # a database refuses, which says what it is about
        return CannotStart(str(failure))
    what = (error.strerror or str(error)).lower()
    place = (
        f" ({error.filename})"
        if error.filename and Path(error.filename) not in (data_dir, data_dir / LOCK)
        else ""
    )
    match error.errno:
        case errno.EACCES | errno.EPERM:
            todo = "let this user read and write there"
        case errno.ENOTDIR | errno.EEXIST:
            todo = "move the file that is in its place away"
        case errno.ENOSPC | errno.EDQUOT:
            todo = "make room there"
        case _:
            todo = "repair that"
    return CannotStart(
        f"cannot use the data folder {data_dir}: {what}{place}: {todo}, or name another folder with"
        f" {flag}"
    )


class FolderLock:
    """Holds a data folder for one process. The kernel lets go of it when the process ends, however
    it ends.

    The file says where the server listens, while the lock is held: a client of the same machine
    finds the server of a folder by it.
    """

    def __init__(self, data_dir: Path, flag: str = "--data-dir") -> None:
        """Take the lock of the folder that a flag names. Raises CannotStart if another process has
        it, or the folder cannot be written.
        """
        try:
            make_folder(data_dir)
            self._handle = open_transcript(data_dir / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise cannot_use(data_dir, error, flag) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._handle)
            raise CannotStart(
                f"another server uses the data folder {data_dir}: stop it, or name another folder"
                f" with {flag}"
            ) from None
        try:
            self._write(b"")  # what a killed server left
        except BaseException:
            os.close(self._handle)
            raise

    def publish(self, addresses: Sequence[str]) -> None:
        """Write down where the server listens."""
        self._write(json.dumps({"addresses": [*addresses]}).encode())

    def release(self) -> None:
        """Release the lock of the folder."""
        try:
            self._write(b"")
        finally:
            os.close(self._handle)

    def _write(self, text: bytes) -> None:
        """Replace the text of the file. A full disk keeps nobody from calling the server."""
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, text, 0)
