"""The way back: a backup into the logs of a data folder.

A restore marks the data folder until all is there, so that nobody serves a part of it. One that was
killed is begun anew by its repeat, which removes what the first one brought. An encrypted backup is
decrypted into the new data folder first.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from recollect_server.backup import archive
from recollect_server.backup.copying import CHUNK, Copied, change_text, copy_log, damage_texts
from recollect_server.backup.manifest import ARCHIVE, Backup, CannotCopy, archive_errors
from recollect_server.kernel.compare.recovery import Progress
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.keys import Keyring
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.format import mark_format
from recollect_server.kernel.log.files import Syncs, make_folder, open_transcript, sync_folder
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.moves import RestoreMark, restore_mark, set_restore_mark
from recollect_server.kernel.log.store import LEDGERS

_RESTORING = ".restoring"  # behind a folder's name until all of it is there
_STAGING = ".restoring"  # folder in the data folder for what a restore decrypts


@contextmanager
def decrypted(source: Path, data_dir: Path, keys: Keyring | None) -> Iterator[Path]:
    """Yield the folder of a backup. An encrypted one is decrypted into a folder in the data folder,
    which is removed afterwards, and before if a kill left it. Raises CannotCopy, NoKey, OSError.
    """
    staging = data_dir / _STAGING
    if staging.is_symlink():
        staging.unlink()
    shutil.rmtree(staging, ignore_errors=True)
    if not (source / ARCHIVE).is_file():
        yield source
        return
    try:
        with archive_errors():
            for name, content in archive.members(source / ARCHIVE, keys):
                _extract(staging, name, content)
        hit("restore.decrypted")
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _extract(folder: Path, name: str, content: IO[bytes]) -> None:
    """Write a file of an archive. Raises OSError."""
    path = folder / name
    make_folder(path.parent)
    with os.fdopen(open_transcript(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        shutil.copyfileobj(content, file, CHUNK)


class Restoring:
    """A restore into a data folder, which is marked until it ends. What fails before anything is
    copied leaves no mark.
    """

    def __init__(self, source: Path, data_dir: Path) -> None:
        """Nobody else may use the data folder. Raises OSError."""
        self._source = os.fsencode(source.resolve()).decode(errors="replace")  # for people
        self._data_dir = data_dir
        self._earlier = restore_mark(data_dir)
        self._is_begun = False

    def __enter__(self) -> Self:
        if self._earlier is None:
            set_restore_mark(self._data_dir, RestoreMark(self._source))
        hit("restore.begun")
        return self

    def begin(self, spaces: Sequence[str]) -> bool:
        """Remove what an earlier restore left that did not end, and mark the spaces that are to be
        restored. Return whether there was such a restore. Raises CannotCopy, OSError.
        """
        left = self._earlier.spaces if self._earlier else ()
        if self._earlier and not set(left) <= set(spaces):
            raise CannotCopy(
                f"{self._data_dir} holds a part of the backup {self._earlier.backup}, in the spaces"
                f" {', '.join(left)}: restore that again first, or name an empty folder with"
                " --data-dir"
            )
        for space in spaces:
            if space not in left:
                _check_empty(FolderStore.of(self._data_dir, space))
        self._is_begun = True
        # From here on a repeat removes what these spaces hold: nothing was in them.
        set_restore_mark(self._data_dir, RestoreMark(self._source, spaces))
        for space in left:
            _remove(FolderStore.of(self._data_dir, space))
        hit("restore.taken_in")
        return bool(left)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or not (self._is_begun or self._earlier):
            set_restore_mark(self._data_dir, None)
            hit("restore.ended")


def _check_empty(target: FolderStore) -> None:
    """Raise CannotCopy unless a space has no logs and no ledgers."""
    space = target.root.parent.name
    for folder in map(target.folder, Kind):
        if folder.exists() and any(folder.iterdir()):
            raise CannotCopy(
                f"{folder} is not empty: a backup is restored to where nothing is (space {space})"
            )
    if there := [path for path in map(target.path, LEDGERS) if path.exists()]:
        raise CannotCopy(
            f"{there[0]} is there: a backup is restored to where nothing is (space {space})"
        )


def _remove(target: FolderStore) -> None:
    """Remove all logs of a space, and what is derived from them. Raises OSError."""
    places = [*map(target.folder, Kind), *map(target.path, LEDGERS)]
    for path in (name for place in places for name in (place, _coming(place))):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    if target.root.parent.is_dir():
        sync_folder(target.root.parent)


def restore(backup: Backup, target: FolderStore, progress: Progress) -> Copied:
    """Copy a space's logs from a backup to where nothing is yet, and compare each with what was
    backed up.

    Damaged parts are copied too, and named. Nobody may have the target open. Raises CannotCopy,
    NewerFormat, OSError.
    """
    _check_empty(target)
    # An older server must not open the lines that come, even if it is the first to be started.
    mark_format(target.root.parent.parent)
    done = Copied()
    for kind, files in backup.logs.items():
        done.logs[kind] = _restore_all(backup.origin, files, target.folder(kind), done, progress)
    _restore_ledgers(backup.origin, backup.ledgers, target, done)
    for kind in reversed(backup.logs):  # the conversations last: without them it is not restored
        _take_name(target.folder(kind))
    return done


def _restore_all(
    origin: FolderStore,
    files: dict[str, tuple[int, int]],
    target: Path,
    done: Copied,
    progress: Progress,
) -> int:
    """Copy logs to where they are kept until all are there. Return how many were copied."""
    coming = _coming(target)
    if coming.is_symlink():
        coming.unlink()  # rmtree refuses a link, and what is restored may not go where it leads
    shutil.rmtree(coming, ignore_errors=True)
    make_folder(coming)
    count = 0
    with Syncs() as syncs:
        for number, (name, expected) in enumerate(sorted(files.items())):
            progress(number, len(files))
            source = origin.path(name)
            size = _restore_log(source, coming / source.name, expected, done, syncs)
            if size is not None:
                count += 1
                done.bytes += size
            hit("restore.copied")
    sync_folder(coming)
    return count


def _restore_log(
    source: Path,
    target: Path,
    expected: tuple[int, int],
    done: Copied,
    syncs: Syncs | None = None,
) -> int | None:
    """Copy a log, and note what is not as it was backed up. Return its size; None if it is not
    there.
    """
    damages: list[Line] = []
    try:
        copied = copy_log(source, target, damages, syncs)
    except FileNotFoundError:
        done.problems.append(f"{source.stem}: is missing in the backup")
        return None
    if copied != expected:
        done.problems.append(change_text(source.stem, copied, expected))
        done.problems += damage_texts(source.stem, damages)
    return copied[0]


def _restore_ledgers(
    origin: FolderStore, ledgers: dict[str, tuple[int, int]], target: FolderStore, done: Copied
) -> None:
    for name, expected in sorted(ledgers.items()):
        path = target.path(name)
        coming = _coming(path)
        coming.unlink(missing_ok=True)
        if _restore_log(origin.path(name), coming, expected, done) is not None:
            coming.rename(path)
            hit("restore.ledger_named")
    sync_folder(target.root.parent)


def _take_name(target: Path) -> None:
    if target.exists():
        target.rmdir()
    _coming(target).rename(target)
    sync_folder(target.parent)
    hit("restore.named")


def _coming(path: Path) -> Path:
    """Return the path that a folder or a ledger has until all of it is there."""
    return path.with_name(path.name + _RESTORING)
