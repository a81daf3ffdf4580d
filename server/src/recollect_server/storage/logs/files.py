"""The folder of a space: which file is whose, and what makes a change of the folder itself durable."""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from recollect_server.domain.ids import is_communication_id, is_conversation_id
from recollect_server.storage.failpoints import hit

SUFFIX = ".jsonl"
DELETING = ".deleting"  # a transcript whose delete has begun: start-up finishes it
TORN = ".torn"  # what was cut off a transcript's tail
COPY = ".copy"  # a transcript's good prefix, until it takes the name (see writer)

_SYNCS = 16  # files that are synced at the same time
_OPEN_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe must not be waited for


class TranscriptFolder:
    """`<data-dir>/<space>/conversations`: one `conv-….jsonl` a conversation, beside the index.

    Also `<data-dir>/<space>/external`, where what is called a conversation here is an external communication, `ext-….jsonl`.
    """

    def __init__(self, root: Path, is_name: Callable[[str], bool] = is_conversation_id) -> None:
        self.root = root
        self._is_name = is_name

    @classmethod
    def of(cls, data_dir: Path, space: str) -> "TranscriptFolder":
        """The conversations of a space in a data folder."""
        return cls(data_dir / space / "conversations")

    @property
    def external(self) -> "TranscriptFolder":
        """The folder of the external communications, beside this one. It is there once there is one."""
        return TranscriptFolder(self.root.with_name("external"), is_communication_id)

    def renamed(self, name: str) -> "TranscriptFolder":
        """The same kind of folder beside this one, of another name."""
        return TranscriptFolder(self.root.with_name(name), self._is_name)

    def create(self) -> None:
        """Makes the folder and its parents, for the owner alone (0700). Harmless if it is there."""
        make_folder(self.root)

    def settle(self) -> None:
        """Makes durable what a killed process may have left to the system's cache: the names here and of the folders above."""
        for folder in (self.root, *self.root.parents[:2]):
            sync_folder(folder)
        with suppress(PermissionError):  # what is above the data folder need not be ours
            sync_folder(self.root.parents[2])

    def path(self, conversation_id: str) -> Path:
        """Where the transcript is. Raises ValueError for a text that is not the name of one: it could be a path."""
        return _path(self.root, conversation_id)

    def ledger_path(self, name: str) -> Path:
        """Where the ledger of this name is: beside the transcripts. Raises ValueError for a text that is no such name."""
        if not name.isidentifier():
            raise ValueError("not the name of a ledger")
        return self.root.parent / f"{name}{SUFFIX}"

    def has(self, conversation_id: str) -> bool:
        """Whether there is a transcript of that name."""
        return is_conversation_id(conversation_id) and self.path(conversation_id).exists()

    def is_taken(self, conversation_id: str) -> bool:
        """Whether anything of a conversation of that name is here: its transcript, a part of it, or a delete that has not ended."""
        paths = (self.path(conversation_id), self.deleting_path(conversation_id), self.torn_path(conversation_id))
        return any(map(os.path.lexists, paths))

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Every conversation that has a transcript, with the file's size in bytes."""
        for name, entry in self._entries(SUFFIX):
            yield name, entry.stat(follow_symlinks=False).st_size

    def deleting(self) -> list[str]:
        """The conversations whose delete has begun and not ended."""
        return [name for name, _ in self._entries(SUFFIX + DELETING)]

    def deleting_path(self, conversation_id: str) -> Path:
        """Where the transcript of a conversation is while it is being deleted."""
        path = self.path(conversation_id)
        return path.with_name(path.name + DELETING)

    def torn_path(self, conversation_id: str) -> Path:
        """Where the cut-off tails of a transcript are kept."""
        path = self.path(conversation_id)
        return path.with_name(path.name + TORN)

    def copy_path(self, conversation_id: str) -> Path:
        """Where a copy of a transcript is that a crash kept from taking its name."""
        path = self.path(conversation_id)
        return path.with_name(path.name + COPY)

    def remove_empty(self, conversation_id: str) -> bool:
        """Removes what a create that was cut short leaves: a file without a byte, of which nobody was told. False if it is not."""
        path = self.path(conversation_id)
        try:
            if path.stat(follow_symlinks=False).st_size:
                return False
            path.unlink()
        except OSError:
            return False
        return True

    def _entries(self, suffix: str) -> Iterator[tuple[str, os.DirEntry[str]]]:
        with os.scandir(self.root) as entries:
            for entry in entries:
                name = entry.name.removesuffix(suffix)
                if name != entry.name and self._is_name(name) and entry.is_file(follow_symlinks=False):
                    yield name, entry


@lru_cache(maxsize=16384)
def _path(root: Path, conversation_id: str) -> Path:
    if not is_conversation_id(conversation_id) and not is_communication_id(conversation_id):
        raise ValueError("not the name of a conversation")
    return root / f"{conversation_id}{SUFFIX}"


def open_transcript(path: Path, flags: int) -> int:
    """Open a regular file, never through a link, and not for the processes started later.

    Raises OSError, also for a pipe, a device, a socket or a folder that somebody put in the file's place.
    """
    handle = os.open(path, flags | _OPEN_FLAGS, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return handle


class Syncs:
    """Syncs of many files, a few at a time: a disk takes several together in the time of one. Leaving the block waits for all."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_SYNCS, "sync")
        self._pending: deque[Future[None]] = deque()

    def sync(self, handle: int) -> None:
        """Syncs and closes a file, soon. Raises OSError, also for one of the files before."""
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


def make_folder(folder: Path) -> None:
    """Makes a folder with its parents, durable, for the owner alone (0700). Harmless if it is there. Raises OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
        hit("folder.made")
        sync_folder(each.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in the folder (a new file, a rename, a removal) durable. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
