"""Backups that administrators ask for: into one folder, which the operator of the machine names,
and where rules of the operator say which older ones are removed.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import structlog

from recollect_server.backup.bucket import BackupBucket
from recollect_server.backup.folder import BackupFolder, MadeBackup, StoredBackup, make_backup
from recollect_server.backup.manifest import (
    ARCHIVE,
    MANIFEST,
    BackupContents,
    CannotCopy,
    read_contents,
)
from recollect_server.backup.names import KeepRule, backup_name
from recollect_server.kernel.domain.errors import InvalidField, NoBackupFolder, StorageUnavailable
from recollect_server.kernel.domain.keys import Keyring
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.store import LogUnavailable

log = structlog.get_logger("recollect.backups")

_REST = 3.0
"""Seconds that a backup within the server rests for a second of work: it shares Python's global
lock with the appends, which would take half as long again beside one that never rests.
"""

_PATIENCE = 10.0
"""Seconds within which a bucket says what it has."""

_UNKNOWN = BackupContents()


@dataclass(frozen=True, slots=True)
class ListedBackup:
    """A backup in the folder, and what can be read of its contents without its key."""

    stored: StoredBackup
    contents: BackupContents = _UNKNOWN
    """None of one that is encrypted, not complete, or cannot be read."""
    bytes: int = 0
    """Bytes of its transcripts; of an encrypted one those of its file."""
    problem: str = ""
    """Why its contents cannot be read, in a sentence; empty: they can, or are encrypted."""

    @property
    def place(self) -> tuple[int, str]:
        """Place in the list. It ascends with the time."""
        milliseconds = round(self.stored.time.timestamp() * 1000)
        return milliseconds, os.fsencode(self.stored.path.name).hex()


class _Pace:
    """Progress of a backup, which pauses at each report."""

    def __init__(self) -> None:
        self._since = time.monotonic()

    def __call__(self, _done: int, _of: int) -> None:
        time.sleep(_REST * (time.monotonic() - self._since))
        self._since = time.monotonic()


class BackupAdministration:
    """Makes backups. Safe to call from any thread."""

    def __init__(
        self,
        folder_of: Callable[[str], FolderStore],
        folder: Path | None,
        rules: Sequence[KeepRule],
        default: str,
        clock: Clock,
        keys: Callable[[], Keyring | None],
        bucket: str,
    ) -> None:
        """`folder_of` returns the logs of a space, or raises NoBackupFolder; `folder` holds the
        backups; None: none is made by calls. `rules` say which of them stay. `keys` returns those
        that encrypt them, or raises CannotCopy. `bucket` is the URL of the bucket that has copies;
        empty: there is none.
        """
        self._folder_of = folder_of
        self._folder = folder
        self._rules = rules
        self._default = default
        self._clock = clock
        self._keys = keys
        self._bucket = bucket
        self._guard = threading.Lock()  # one at a time: they compete for the disk

    def check_folder(self) -> Path:
        """Return the folder that holds the backups. Raises NoBackupFolder if calls make none."""
        self._folder_of(self._default)  # no setting helps where the logs are in a database
        if self._folder is None:
            raise NoBackupFolder(
                "set backup_dir on its machine, or run `recollect-server backup` there"
            )
        return self._folder

    def listed(
        self, is_listed: Callable[[str], bool] | None, before: tuple[int, str] | None, limit: int
    ) -> list[ListedBackup]:
        """Return backups, newest first: at most `limit` of those before a place. Raises
        NoBackupFolder, StorageUnavailable.

        `is_listed` chooses the spaces that a backup may hold; None: any. An encrypted one may hold
        any space, so only who may list any sees it.
        """
        try:
            stored = BackupFolder(self.check_folder()).listed()
            return list(islice(_listed(stored, is_listed, before), limit))
        except OSError as error:
            reason = error.strerror or error
            raise StorageUnavailable(f"the backups cannot be listed: {reason}") from error

    def copies(self, before: str | None, limit: int) -> list[str]:
        """Return the names of complete copies in the bucket, newest first: at most `limit` of those
        after a name. Raises StorageUnavailable.
        """
        if not self._bucket:
            return []
        since, names = time.monotonic(), list[str]()
        try:
            for name in BackupBucket(self._bucket, _PATIENCE).names(before):
                names.append(name)
                if len(names) == limit:
                    break
                if time.monotonic() - since > _PATIENCE:
                    raise CannotCopy(f"{self._bucket} takes longer than {_PATIENCE:g} s to answer")
        except (CannotCopy, OSError) as error:
            raise StorageUnavailable(f"the copies cannot be listed: {error}") from error
        return names

    def make(self, name: str, spaces: list[str], *, is_whole: bool) -> MadeBackup:
        """Copy spaces into a new folder of a name, and compare the copy with what was read; one
        with the time in its name if it is empty. Raises NoBackupFolder, InvalidField,
        StorageUnavailable.

        `is_whole` says that these are all spaces. Then, if it has no name of its own, the rules
        remove older ones.
        """
        folder = self.check_folder()
        now = self._clock()
        target = folder / (name or backup_name(now, is_whole=is_whole))
        # the first one is what a restore puts into the default space
        spaces = sorted(spaces, key=lambda space: (space != self._default, space))
        stores = {space: self._folder_of(space) for space in spaces}
        rules = self._rules if is_whole and not name else None
        with self._guard:
            if target.exists():
                raise InvalidField.of("name", f"there is a backup {target.name} already")
            pace = _Pace()
            try:
                made = make_backup(stores, target, self._keys(), rules, now, pace, pace)
            except (CannotCopy, LogUnavailable, OSError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                advice = ": remove it" if target.exists() else ""
                raise StorageUnavailable(
                    f"the backup {target} is not complete: {reason}{advice}"
                ) from error
        if made.failure is not None:  # logged only: the new one was made all the same
            log.error("backups_not_removed", reason=str(made.failure))
        elif made.removed:
            log.info("backups_removed", names=sorted(it.path.name for it in made.removed))
        return made


def _listed(
    stored: Sequence[StoredBackup],
    is_listed: Callable[[str], bool] | None,
    before: tuple[int, str] | None,
) -> Iterator[ListedBackup]:
    for backup in stored:
        # the manifest of one that no page asks for is not read
        if before is not None and ListedBackup(backup).place >= before:
            continue
        it = _read(backup)
        if is_listed is None or (it.contents.spaces and all(map(is_listed, it.contents.spaces))):
            yield it


def _read(backup: StoredBackup) -> ListedBackup:
    """Return a backup with its contents."""
    contents, size, problem = _UNKNOWN, 0, ""
    if backup.is_complete:
        last = backup.path / (MANIFEST if backup.key_id is None else ARCHIVE)
        try:
            status = last.lstat()
            if backup.key_id is None:
                contents = _contents_of(backup.path, status.st_mtime_ns, status.st_size)
                size = contents.bytes
            else:
                size = status.st_size
        except (CannotCopy, OSError) as error:
            problem = getattr(error, "strerror", None) or str(error)
    return ListedBackup(backup, contents, size, problem)


@lru_cache(maxsize=500)
def _contents_of(backup: Path, _changed: int, _size: int) -> BackupContents:
    """Return the contents of a backup, from memory unless its manifest was changed: those of
    100,000 conversations take 0.1 s to read. Raises CannotCopy, OSError.
    """
    return read_contents(backup)
