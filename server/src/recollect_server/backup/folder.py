"""The folder of backups: one folder for each, named by its time. A new one is compared with what
was read, then the rules say which older ones are removed.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from recollect_server.backup import archive
from recollect_server.backup.copying import Copied
from recollect_server.backup.creation import back_up
from recollect_server.backup.manifest import ARCHIVE, MANIFEST, CannotCopy, Checked, NoKey, check
from recollect_server.backup.names import KeepRule, backup_time, kept
from recollect_server.kernel.compare.recovery import Progress, no_progress
from recollect_server.kernel.domain.keys import Keyring
from recollect_server.kernel.log.files import sync_folder
from recollect_server.kernel.log.folder import FolderStore

_REMOVING = ".removing-"  # before the name of a backup of which only a part may be left
_INTERRUPTED = timedelta(days=1)
"""An incomplete backup that is older was interrupted: none takes that long."""


@dataclass(frozen=True, slots=True)
class StoredBackup:
    """A backup in the folder."""

    path: Path
    time: datetime
    """That in its name; of one with another name, the time at which it was complete."""
    is_complete: bool
    key_id: str | None
    """Id of the key that it is encrypted with; None: it is not encrypted."""


@dataclass(slots=True)
class Pruned:
    """Backups that the rules remove, and those that remain."""

    remaining: list[StoredBackup] = field(default_factory=list)
    removed: list[StoredBackup] = field(default_factory=list)
    good: StoredBackup | None = None
    """The newest good one, which is kept whatever the rules say."""


@dataclass(slots=True)
class MadeBackup:
    """A new backup, and the older ones that were removed after it."""

    path: Path
    spaces: tuple[str, ...]
    copied: Copied
    removed: list[StoredBackup] = field(default_factory=list)
    failure: CannotCopy | OSError | None = None
    """Why older ones could not be removed. The new one was made all the same."""


@dataclass(slots=True)
class Rekeyed:
    """Backups that were encrypted with another key, and why others could not be."""

    changed: list[StoredBackup] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class BackupFolder:
    """Folder of backups. Several processes may remove from it at once, as a timer and the call
    Backup do: what one has removed, the others pass over.
    """

    def __init__(self, path: Path, keys: Keyring | None = None) -> None:
        """`keys` are those of encrypted backups; the first one encrypts."""
        self._path = path
        self._keys = keys

    def stored(self) -> list[StoredBackup]:
        """Return the backups of all spaces that have the time in their name, newest first: those
        that rules remove. Raises OSError.
        """
        return [it for it in self.listed() if backup_time(it.path.name) is not None]

    def listed(self) -> list[StoredBackup]:
        """Return all backups, newest first; of those that have no time in their name the complete
        ones. Raises OSError.
        """
        if not self._path.is_dir():
            return []
        backups: list[StoredBackup] = []
        with os.scandir(self._path) as entries:
            for entry in entries:
                is_name = entry.name.isprintable() and not entry.name.startswith(".")
                if is_name and entry.is_dir(follow_symlinks=False):
                    backups += _backup_at(self._path / entry.name)
        return sorted(backups, key=lambda it: (it.time, it.path.name), reverse=True)

    def prune(
        self,
        rules: Sequence[KeepRule],
        now: int,
        *,
        dry_run: bool = False,
        progress: Progress = no_progress,
    ) -> Pruned:
        """Remove the backups that no rule keeps, and what interrupted ones left. Raises CannotCopy
        if none is good, and then nothing is removed; OSError.

        The newest good one always stays: it is looked for from the newest on, so usually one is
        read.
        """
        backups = self.stored()
        complete = [it for it in backups if it.is_complete]
        chosen = kept((it.time for it in complete), rules)
        time = datetime.fromtimestamp(now / 1000, UTC)
        result = Pruned()
        for backup in backups:
            is_kept = (
                backup.time in chosen if backup.is_complete else time - backup.time < _INTERRUPTED
            )
            (result.remaining if is_kept or not rules else result.removed).append(backup)
        if any(it.is_complete for it in result.removed):
            result.good = self._newest_good(complete, progress)
            if result.good in result.removed:
                result.removed.remove(result.good)
                result.remaining.append(result.good)
        if not dry_run:
            self._remove(result.removed)
        return result

    def _newest_good(self, complete: Sequence[StoredBackup], progress: Progress) -> StoredBackup:
        for backup in complete:
            if is_good(backup.path, progress, self._keys):
                return backup
        raise CannotCopy(
            f"no backup in {self._path} is good: nothing is removed (recollect-server backups verify"
            " says what is wrong with each)"
        )

    def _remove(self, backups: Sequence[StoredBackup]) -> None:
        for backup in backups:
            # under another name first: what a kill leaves of it is not taken for a backup
            with suppress(FileNotFoundError):
                backup.path.rename(backup.path.with_name(_REMOVING + backup.path.name))
        if self._path.is_dir():
            sync_folder(self._path)
            for path in self._path.glob(f"{_REMOVING}recollect-*"):
                while path.exists():  # begin again where another process removed a part of it
                    with suppress(FileNotFoundError):
                        shutil.rmtree(path)

    def encrypt_anew(self, progress: Progress = no_progress) -> Rekeyed:
        """Encrypt all encrypted backups with the first of the keys, whatever their names: without
        the old key nobody could read those that were left out. What a kill interrupts, the next
        call ends; a damaged one, or one whose key is missing, is named and left as it is. Raises
        NoKey if there is no key at all; OSError.
        """
        if self._keys is None:
            raise NoKey(
                "there is no key to encrypt with: name a file of keys with --backup-key-file, or set"
                " RECOLLECT_BACKUP_KEY"
            )
        encrypted = [it for it in self.listed() if it.key_id is not None]
        result = Rekeyed()
        for number, backup in enumerate(encrypted):
            progress(number, len(encrypted))
            try:
                if archive.encrypt_anew(backup.path / ARCHIVE, self._keys):
                    result.changed.append(backup)
            except archive.ArchiveError as error:
                result.problems.append(str(error))
        return result


def make_backup(
    sources: dict[str, FolderStore],
    target: Path,
    keys: Keyring | None,
    rules: Sequence[KeepRule] | None,
    now: int,
    copying: Progress,
    verifying: Progress = no_progress,
) -> MadeBackup:
    """Copy the logs of spaces into an empty or new folder, and compare the copy with what was read;
    then remove the backups beside it that no rule keeps, unless `rules` is None. Raises CannotCopy,
    LogUnavailable, OSError if the new one is not complete.
    """
    copied = back_up(sources, target, copying, keys)
    verified(target, verifying, keys)
    made = MadeBackup(target.absolute(), tuple(sources), copied)
    try:
        if rules is not None:
            made.removed = BackupFolder(target.parent, keys).prune(rules, now).removed
    except (CannotCopy, OSError) as error:
        made.failure = error
    return made


def _backup_at(path: Path) -> Iterator[StoredBackup]:
    """Yield the backup at a path, if there is one. Raises OSError."""
    key_id = _key_id(path)
    last = path / (MANIFEST if key_id is None else ARCHIVE)
    is_complete = key_id is not None or last.is_file()
    time = backup_time(path.name, is_whole=False)
    if time is None and is_complete:
        milliseconds = last.lstat().st_mtime_ns // 1_000_000
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    if time is not None:
        yield StoredBackup(path, time, is_complete, key_id)


def _key_id(backup: Path) -> str | None:
    """Return the id of the key of a backup; None if it is not encrypted. Empty if its start is
    damaged, or cannot be read. Raises PermissionError.
    """
    try:
        return archive.key_id_of(backup / ARCHIVE)
    except FileNotFoundError:
        return None
    except PermissionError:
        raise  # a user who may read it finds it whole: it does not count as damaged
    except (archive.ArchiveError, OSError):
        return ""


def is_good(backup: Path, progress: Progress, keys: Keyring | None = None) -> bool:
    """Return whether a backup is whole and holds no damaged line. Raises NoKey."""
    try:
        return check(backup, progress, keys).is_good
    except NoKey:
        raise
    except (CannotCopy, OSError):
        return False


def verified(
    backup: Path, progress: Progress = no_progress, keys: Keyring | None = None
) -> Checked:
    """Compare a backup that was just made with what was read. Raises CannotCopy if it is not the
    same; OSError.
    """
    checked = check(backup, progress, keys)
    if checked.problems:
        raise CannotCopy(
            f"{backup} is not as it was written, so its disk may be failing: {checked.problems[0]}"
        )
    return checked
