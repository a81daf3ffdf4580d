"""The data folder: its lock, and errors that say why a server cannot start on it."""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import resource
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from operator import attrgetter
from pathlib import Path

import structlog

from recollect_server.kernel.log.files import make_folder, open_transcript, opened
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.run.settings import Settings

log = structlog.get_logger("recollect.folder")

LOCK = "recollect.lock"
_GITIGNORE = ".gitignore"
# in a folder that no server has used yet: of an embedded client, and of commands beside the server
_BEFOREHAND = {".embedded", "tokens.jsonl", "audit.jsonl", "recollect.yaml"}


class CannotStart(Exception):
    """The server cannot start; the text says why and what to do."""


class FolderInUse(CannotStart):
    """Another process has the data folder."""


class OutOfMemory(CannotStart):
    """The system gives this process less memory, or fewer threads, than a server needs."""


NO_MEMORY = (
    "there is not enough memory, or there may be no more threads: "
    "raise the limit (ulimit -v, ulimit -u), or lower --threads"
)
# beside those of the calls: of writes, gRPC's, the jobs', the streams'
_OTHER_THREADS = 43
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
    required = (settings.threads + settings.search_threads + _OTHER_THREADS) * stack + _OTHER_BYTES
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
    # The lock stands for the folder, unless something else is in its place.
    locked_paths = () if error.errno == errno.EINVAL else (data_dir, data_dir / LOCK)
    place = (
        f" ({error.filename})"
        if error.filename and Path(error.filename) not in locked_paths
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

    Two things are locked: the folder itself, and a file in it, which older servers look at. The
    file says where the server listens, while the lock is held: a client of the same machine finds
    the server of a folder by it. A file that is removed opens the folder to no other server, and to
    another folder in its place this process does not write.
    """

    def __init__(self, data_dir: Path, flag: str = "--data-dir") -> None:
        """Take the lock of the folder that a flag names. Raises CannotStart if another process has
        it, or the folder cannot be written.
        """
        self._data_dir = data_dir
        self._path = data_dir / LOCK
        self._name = str(self._path)
        self._guard = threading.Lock()  # guards what follows, and the file's text
        self._text = b""
        self._loss = ""
        """Why the folder is not held any more, when it was looked at last."""
        with ExitStack() as closing:
            try:
                make_folder(data_dir)
                self._folder = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                closing.callback(os.close, self._folder)
                _lock_folder(self._folder)
                _hide_from_git(data_dir, self._folder)
                self._handle = open_transcript(self._path, os.O_RDWR | os.O_CREAT)
                self._identity = _identity(os.fstat(self._handle))
                closing.callback(os.close, self._handle)
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FolderInUse(
                    f"another server uses the data folder {data_dir}: stop it, or name another"
                    f" folder with {flag}"
                ) from None
            except OSError as error:
                raise cannot_use(data_dir, error, flag) from error
            self._write(b"")  # what a killed server left
            closing.pop_all()

    def publish(self, addresses: Sequence[str]) -> None:
        """Write down where the server listens."""
        with self._guard:
            self._write(json.dumps({"addresses": [*addresses]}).encode())

    def release(self) -> None:
        with self._guard:
            try:
                self._write(b"")
            finally:
                os.close(self._handle)
                os.close(self._folder)

    def check(self) -> None:
        """Look whether the folder is still held. A write to it calls this before: it costs one look
        at a name. Raises OSError if it is not held.
        """
        try:
            is_held = _identity(os.stat(self._name)) == self._identity  # noqa: PTH116 - every append asks
        except OSError:
            is_held = False
        if self._loss or not is_held:
            self.look()
        if self._loss:
            raise OSError(errno.ESTALE, self._loss, str(self._data_dir))

    def look(self) -> None:
        """Look closely whether the folder is still held, and lock the file anew if it was
        removed.
        """
        with self._guard:
            loss = self._find_loss()
            if loss != self._loss:
                self._loss = loss
                if loss:
                    log.error("folder_lost", reason=loss)
                else:
                    log.warning("folder_held_again", folder=str(self._data_dir))

    def _find_loss(self) -> str:
        """Return why the folder is not held any more; empty if it is. `_guard` is held."""
        if not _has(self._data_dir, self._folder):
            return (
                f"the data folder {self._data_dir} was moved, removed or replaced under this"
                " server: put it back, or start the server again"
            )
        if _has(self._path, self._handle):
            return ""
        with suppress(OSError):  # what cannot be opened now is tried again
            handle = open_transcript(self._path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return (
                    f"another server has the lock of the data folder {self._data_dir}, whose file"
                    f" {LOCK} was removed under this server: stop one of them"
                )
            os.close(self._handle)
            self._handle = handle
            self._identity = _identity(os.fstat(handle))
            self._write(self._text)
            log.warning("folder_lock_restored", file=str(self._path))
        return ""

    def _write(self, text: bytes) -> None:
        """Replace the text of the file. A full disk keeps nobody from calling the server."""
        self._text = text
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, text, 0)


def _hide_from_git(data_dir: Path, handle: int) -> None:
    """Keep git from offering conversations for commit, in a folder that is new. One that has files
    already may have others' beside the server's.
    """
    if set(os.listdir(handle)) <= _BEFOREHAND:
        with (
            suppress(OSError),  # whatever refuses it refuses what matters more
            opened(data_dir / _GITIGNORE, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as made,
        ):
            os.write(made, b"# Made by Recollect: conversations are not for commit.\n*\n")


def _lock_folder(handle: int) -> None:
    """Lock a folder itself. Raises BlockingIOError if another process has it locked.

    One that other users may open is not locked: any of them could keep it locked. Some network
    file systems lock no folders; then the file in it is all that is locked.
    """
    if os.fstat(handle).st_mode & 0o044:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        log.info("folder_not_locked", reason=error.strerror)


def _has(path: Path, handle: int) -> bool:
    """Return whether a name still stands for what a descriptor was opened for."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


_identity = attrgetter("st_dev", "st_ino")
"""Returns what tells a file from others by its status."""
