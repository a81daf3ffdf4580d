"""The folder of backups: one folder for each, named by its time. A new one is compared with what
was read, then the rules say which older ones are removed.

A backup is a folder of files or one encrypted archive, made while the server writes. Each log is
copied up to the end of a whole batch: everything that was acknowledged before the copy began is in
it.
"""

import io
import os
import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from recollect_server import __version__
from recollect_server.backup import archive
from recollect_server.backup.copying import Copied, copy_log, damage_texts, whole_batches
from recollect_server.backup.manifest import (
    ARCHIVE,
    LISTS,
    MANIFEST,
    CannotCopy,
    Checked,
    NoKey,
    archive_errors,
    check,
)
from recollect_server.backup.names import KeepRule, backup_time, kept
from recollect_server.kernel.compare.recovery import Progress, no_progress
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.keys import Keyring
from recollect_server.kernel.format import FORMAT, mark_format
from recollect_server.kernel.log.files import (
    Syncs,
    make_folder,
    open_transcript,
    opened,
    sync_folder,
)
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.store import LEDGERS


def back_up(
    sources: dict[str, FolderStore],
    target: Path,
    progress: Progress,
    keys: Keyring | None = None,
) -> Copied:
    """Copy the logs of spaces into an empty or new folder, durably; into an archive there if there
    are keys to encrypt it with. What fails leaves nothing there. Raises CannotCopy, OSError.

    The first of the spaces is the one that a restore puts into the default space.
    """
    if target.exists() and any(target.iterdir()):
        raise CannotCopy(f"{target} is not empty: name a new folder")
    done = Copied()
    with _emptied_on_failure(target), _target(target, keys) as writing:
        first, *others = (
            {"space": space}
            | _back_up_space(source, FolderStore.of(target, space), writing, done, progress)
            for space, source in sources.items()
        )
        manifest = first | ({"spaces": others} if others else {})
        manifest |= {"damaged": len(done.problems), "format": FORMAT, "version": __version__}
        writing.finish(orjson.dumps(manifest))
    return done


@contextmanager
def _emptied_on_failure(target: Path) -> Iterator[None]:
    """Remove what was written into an empty or new folder if the block fails: on a full disk it
    would leave no room for the next backup.
    """
    is_new = not target.exists()
    try:
        yield
    except FileExistsError:
        raise  # another process writes there too, and goes on
    except BaseException:
        for path in target.iterdir() if target.is_dir() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if is_new:
            with suppress(OSError):
                target.rmdir()
        raise


@contextmanager
def _target(target: Path, keys: Keyring | None) -> Iterator["_Target"]:
    if keys is None:
        yield _FolderTarget(target)
        return
    make_folder(target)
    with archive_errors():
        writer = archive.ArchiveWriter(target / ARCHIVE, keys.first)
    try:
        yield _ArchiveTarget(target, writer)
    except BaseException:
        writer.discard()
        raise


class _FolderTarget:
    """A backup as a folder of files.

    `folder` makes a folder, whose files are durable at the end of the block. `copy` copies a log up
    to the end of a whole batch, unless it has none, and returns its size and its checksum; its
    damaged lines are added to `damages`. It raises FileNotFoundError, OSError. `finish` ends the
    backup with its manifest, durably.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._syncs: Syncs | None = None

    @contextmanager
    def folder(self, path: Path) -> Iterator[None]:
        make_folder(path)
        with Syncs() as self._syncs:
            yield
        self._syncs = None
        sync_folder(path)

    def copy(self, source: Path, path: Path, damages: list[Line]) -> tuple[int, int]:
        size, checksum = copy_log(source, path, damages, self._syncs)
        if size == 0:
            path.unlink()
        return size, checksum

    def finish(self, manifest: bytes) -> None:
        mark_format(self._root, is_new=True)
        _write(self._root / MANIFEST, manifest)
        sync_folder(self._root)


class _ArchiveTarget:
    """A backup as an archive, by the methods of `_FolderTarget`. Paths are those that a folder
    would have.
    """

    def __init__(self, root: Path, writer: archive.ArchiveWriter) -> None:
        self._root = root
        self._writer = writer

    @contextmanager
    def folder(self, path: Path) -> Iterator[None]:  # noqa: ARG002 - an archive has files only
        yield

    def copy(self, source: Path, path: Path, damages: list[Line]) -> tuple[int, int]:
        with opened(source) as handle:
            # The bytes of whole batches stay as they are in a file that is open: a log only grows,
            # and what replaces lines is another file. Only the size is looked at once.
            size = os.fstat(handle).st_size
            whole = whole_batches(handle, size, damages)
            if whole == 0:
                return 0, 0
            content = _Checksummed(handle)
            self._writer.add(path.relative_to(self._root).as_posix(), whole, content)
        return whole, content.checksum

    def finish(self, manifest: bytes) -> None:
        self._writer.add(MANIFEST, len(manifest), io.BytesIO(manifest))
        self._writer.finish()


_Target = _FolderTarget | _ArchiveTarget


class _Checksummed:
    """Reads a file from its start, by a handle that stays open, and keeps the checksum."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._at = 0
        self.checksum = 0

    def read(self, size: int = -1) -> bytes:
        part = os.pread(self._handle, size, self._at)
        self._at += len(part)
        self.checksum = zlib.crc32(part, self.checksum)
        return part


def _back_up_space(
    source: FolderStore, copy: FolderStore, target: _Target, done: Copied, progress: Progress
) -> dict[str, object]:
    """Copy the logs of one space. Return its part of the manifest."""
    manifest: dict[str, object] = {}
    for kind, key in LISTS.items():
        if kind is Kind.CONVERSATION or source.folder(kind).is_dir():
            manifest[key] = files = _back_up_all(source, copy, kind, target, done, progress)
            done.logs[kind] += len(files)
    # Last: what is deleted while this runs, and so in no copy, must be known as forgotten.
    with target.folder(copy.root.parent):
        ledgers = {
            name: list(target.copy(source.path(name), copy.path(name), []))
            for name in LEDGERS
            if source.path(name).exists()
        }
    manifest["ledgers"] = {name: it for name, it in ledgers.items() if it[0]}
    return manifest


def _back_up_all(
    source: FolderStore,
    copy: FolderStore,
    kind: Kind,
    target: _Target,
    done: Copied,
    progress: Progress,
) -> dict[str, list[int]]:
    """Copy the logs of a kind. Return the size and checksum of each."""
    files: dict[str, list[int]] = {}
    names = sorted(name for name, _ in source.logs(kind))
    with target.folder(copy.folder(kind)):
        for number, name in enumerate(names):
            progress(number, len(names))
            damages: list[Line] = []
            try:
                size, checksum = target.copy(source.path(name), copy.path(name), damages)
            except FileNotFoundError:
                continue  # it was deleted meanwhile
            if size == 0:
                continue  # its first line is being written
            done.bytes += size
            files[name] = [size, checksum]
            done.problems += damage_texts(name, damages)
    return files


def _write(path: Path, data: bytes) -> None:
    handle = open_transcript(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)


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
