"""A copy of the transcripts of all spaces, those of third parties too, and their ledgers, while the
server writes them; and the way back.

Each transcript is copied up to the end of a whole batch: everything that was acknowledged before
the copy began is in it. The index is left out, for it is made anew from the transcripts; the
vectors too: words answer while they are worked out anew, and they may be of texts that were deleted
since. A backup has the shape of a data folder, so a server can run on it. `backup.json` is written
last, so a backup without it is not complete: it has the size and the checksum of each file, which
`check` compares, and how many damaged lines were copied.
"""

import os
import shutil
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from recollect_server.domain.ids import is_space_name
from recollect_server.services.upkeep.recovery import Progress
from recollect_server.storage.logs.files import Syncs, make_folder, open_transcript, sync_folder
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.repair import whole_end
from recollect_server.storage.logs.store import LEDGERS, Kind

MANIFEST = "backup.json"
RESTORING = ".restoring"  # behind a folder's name until all of it is there
_CHUNK = 1 << 20


class CannotCopy(Exception):
    """The text says why, and what to do."""


@dataclass(slots=True)
class Copied:
    """Result of a copy, and the problems it met."""

    conversations: int = 0
    communications: int = 0
    """External communications."""
    threads: int = 0
    """Threads of checkpoints."""
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


def back_up(sources: dict[str, FolderStore], target: Path, progress: Progress) -> Copied:
    """Copy the logs of spaces into an empty or new folder, durably. Raises CannotCopy, OSError.

    The first of the spaces is the one that a restore puts into the default space.
    """
    if target.exists() and any(target.iterdir()):
        raise CannotCopy(f"{target} is not empty: name a new folder")
    done = Copied()
    first, *others = (
        {"space": space} | _back_up_space(source, FolderStore.of(target, space), done, progress)
        for space, source in sources.items()
    )
    manifest = first | ({"spaces": others} if others else {}) | {"damaged": len(done.problems)}
    _write(target / MANIFEST, orjson.dumps(manifest))
    sync_folder(target)
    return done


def _back_up_space(
    source: FolderStore, copy: FolderStore, done: Copied, progress: Progress
) -> dict[str, object]:
    """Copy the logs of one space. Return its part of the manifest."""
    copy.create()
    files, conversations = _back_up_all(source, copy, Kind.CONVERSATION, done, progress)
    done.conversations += conversations
    manifest: dict[str, object] = {"files": files}
    if source.folder(Kind.COMMUNICATION).is_dir():
        make_folder(copy.folder(Kind.COMMUNICATION))
        manifest["external"], communications = _back_up_all(
            source, copy, Kind.COMMUNICATION, done, progress
        )
        done.communications += communications
    if source.folder(Kind.THREAD).is_dir():
        make_folder(copy.folder(Kind.THREAD))
        manifest["threads"], threads = _back_up_all(source, copy, Kind.THREAD, done, progress)
        done.threads += threads
    # Last: what is deleted while this runs, and so in no copy, must be known as forgotten.
    manifest["ledgers"] = {
        name: list(_copy(source.path(name), copy.path(name)))
        for name in LEDGERS
        if source.path(name).exists()
    }
    sync_folder(copy.root.parent)
    return manifest


def _back_up_all(
    source: FolderStore, target: FolderStore, kind: Kind, done: Copied, progress: Progress
) -> tuple[dict[str, list[int]], int]:
    """Copy the logs of a kind into another folder. Return the size and checksum of each, and how
    many there are.
    """
    files: dict[str, list[int]] = {}
    names = sorted(name for name, _ in source.logs(kind))
    with Syncs() as syncs:
        for number, name in enumerate(names):
            progress(number, len(names))
            damages: list[Line] = []
            try:
                size, checksum = _copy(source.path(name), target.path(name), syncs, damages)
            except FileNotFoundError:
                continue  # it was deleted meanwhile
            if size == 0:  # its first line is being written
                target.path(name).unlink()
                continue
            done.bytes += size
            files[name] = [size, checksum]
            done.problems += _said(name, damages)
    sync_folder(target.folder(kind))
    return files, len(files)


@dataclass(slots=True)
class _Backup:
    """Backup of one space: its logs with their sizes and checksums."""

    origin: FolderStore
    files: dict[str, tuple[int, int]]
    external: dict[str, tuple[int, int]] | None
    threads: dict[str, tuple[int, int]] | None
    ledgers: dict[str, tuple[int, int]]


def backed_up(source: Path) -> list[str]:
    """Return the names of the spaces that a backup has, the one for the default space first. Raises
    CannotCopy.
    """
    return [str(part["space"]) for part in _manifests(source)]


@dataclass(slots=True)
class Checked:
    """Result of the comparison of a backup with its manifest."""

    files: int = 0
    bytes: int = 0
    damaged: int = 0
    """Damaged lines that were copied as they were."""
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Return whether everything is as it was said, and no line is damaged."""
        return not self.problems and not self.damaged


def check(source: Path, progress: Progress) -> Checked:
    """Compare each file of a backup with the manifest, as the disk has it. Raises CannotCopy,
    OSError.
    """
    manifests = _manifests(source)
    done = Checked(damaged=_damaged(manifests[0], source))
    for number, manifest in enumerate(manifests):
        backup = _backup_of(source, str(manifest["space"]))
        files = {
            name: size_and_checksum
            for part in (backup.files, backup.external, backup.threads, backup.ledgers)
            for name, size_and_checksum in (part or {}).items()
        }
        for name, expected in sorted(files.items()):
            progress(number, len(manifests))
            try:
                there = _size_and_checksum(backup.origin.path(name))
            except FileNotFoundError:
                done.problems.append(f"{name}: is missing in the backup")
                continue
            done.files += 1
            done.bytes += there[0]
            if there != expected:
                done.problems.append(_changed(name, there, expected))
    return done


def _damaged(manifest: dict[str, Any], source: Path) -> int:
    damaged = manifest.get("damaged", 0)
    if not isinstance(damaged, int):
        raise CannotCopy(f"{source / MANIFEST} cannot be read: damaged is not a number")
    return damaged


def restore(source: Path, space: str, target: FolderStore, progress: Progress) -> Copied:
    """Copy a space's logs from a backup to where nothing is yet, and compare each with what was
    backed up.

    Damaged parts are copied too, and named. Nobody may have the target open. Raises CannotCopy,
    OSError.
    """
    backup = _backup_of(source, space)
    for folder in map(target.folder, Kind):
        if folder.exists() and any(folder.iterdir()):
            raise CannotCopy(
                f"{folder} is not empty: a backup is restored to where nothing is (space {target.root.parent.name})"
            )
    if there := [path for path in map(target.path, LEDGERS) if path.exists()]:
        raise CannotCopy(
            f"{there[0]} is there: a backup is restored to where nothing is (space {target.root.parent.name})"
        )
    done = Copied()
    done.conversations = _restore_all(
        backup.origin, backup.files, target.folder(Kind.CONVERSATION), done, progress
    )
    if backup.external is not None:
        done.communications = _restore_all(
            backup.origin, backup.external, target.folder(Kind.COMMUNICATION), done, progress
        )
        _take_name(target.folder(Kind.COMMUNICATION))
    if backup.threads is not None:
        done.threads = _restore_all(
            backup.origin, backup.threads, target.folder(Kind.THREAD), done, progress
        )
        _take_name(target.folder(Kind.THREAD))
    _restore_ledgers(backup.origin, backup.ledgers, target, done)
    # last: without its conversations it is not restored
    _take_name(target.folder(Kind.CONVERSATION))
    return done


def _manifests(source: Path) -> list[dict[str, Any]]:
    """Return the manifest of each space of a backup. Raises CannotCopy."""
    try:
        with os.fdopen(open_transcript(source / MANIFEST, os.O_RDONLY), "rb") as file:
            manifest = orjson.loads(file.read())
        parts = [manifest, *manifest.get("spaces", ())]
        if strange := [part for part in parts if not is_space_name(part["space"])]:
            raise ValueError(f"{strange[0]['space']} is no name of a space")
    except FileNotFoundError:
        raise CannotCopy(
            f"{source} has no {MANIFEST}: it is no backup, or not a complete one"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCopy(f"{source / MANIFEST} cannot be read: {error}") from error
    return parts


def _backup_of(source: Path, space: str) -> _Backup:
    """Return what a backup has of a space. Raises CannotCopy."""
    manifest = next((part for part in _manifests(source) if part["space"] == space), None)
    if manifest is None:
        raise CannotCopy(f"{source} has no space {space}: name another with --space")
    try:
        origin = FolderStore.of(source, manifest["space"])
        communications = origin.folder(Kind.COMMUNICATION)
        return _Backup(
            origin,
            _files(origin, manifest["files"], origin.folder(Kind.CONVERSATION)),
            _files(origin, manifest["external"], communications)
            if "external" in manifest
            else None,
            _files(origin, manifest["threads"], origin.folder(Kind.THREAD))
            if "threads" in manifest
            else None,
            _files(origin, manifest.get("ledgers", {}), origin.root.parent),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCopy(f"{source / MANIFEST} cannot be read: {error}") from error


def _files(
    origin: FolderStore, listed: dict[str, list[int]], folder: Path
) -> dict[str, tuple[int, int]]:
    """Return the size and checksum of each log of a folder that a manifest lists. Raises
    ValueError, TypeError, AttributeError.
    """
    if strange := [name for name in listed if origin.path(name).parent != folder]:
        raise ValueError(f"{strange[0]} is not a file of {folder.name}")
    return {
        origin.path(name).stem: (int(size), int(checksum))
        for name, (size, checksum) in listed.items()
    }


def _restore_all(
    origin: FolderStore,
    files: dict[str, tuple[int, int]],
    target: Path,
    done: Copied,
    progress: Progress,
) -> int:
    """Copy logs to where they are kept until all are there. Return how many were copied."""
    coming = target.with_name(target.name + RESTORING)
    if coming.is_symlink():
        coming.unlink()  # rmtree refuses a link, and what is restored may not go where it leads
    shutil.rmtree(coming, ignore_errors=True)
    make_folder(coming)
    count = 0
    with Syncs() as syncs:
        for number, (name, expected) in enumerate(sorted(files.items())):
            progress(number, len(files))
            damages: list[Line] = []
            try:
                copied = _copy(origin.path(name), coming / origin.path(name).name, syncs, damages)
            except FileNotFoundError:
                done.problems.append(f"{name}: is missing in the backup")
                continue
            count += 1
            done.bytes += copied[0]
            if copied != expected:
                done.problems.append(_changed(name, copied, expected))
                done.problems += _said(name, damages)
    sync_folder(coming)
    return count


def _restore_ledgers(
    origin: FolderStore, ledgers: dict[str, tuple[int, int]], target: FolderStore, done: Copied
) -> None:
    for name, expected in sorted(ledgers.items()):
        path = target.path(name)
        coming = path.with_name(path.name + RESTORING)
        coming.unlink(missing_ok=True)
        try:
            copied = _copy(origin.path(name), coming)
        except FileNotFoundError:
            done.problems.append(f"{name}: is missing in the backup")
            continue
        if copied != expected:
            done.problems.append(_changed(name, copied, expected))
        coming.rename(path)
    sync_folder(target.root.parent)


def _take_name(target: Path) -> None:
    if target.exists():
        target.rmdir()
    target.with_name(target.name + RESTORING).rename(target)
    sync_folder(target.parent)


def _copy(
    source: Path, target: Path, syncs: Syncs | None = None, damages: list[Line] | None = None
) -> tuple[int, int]:
    """Copy a transcript up to the end of a whole batch. Return its size and its checksum. Raises
    OSError.

    It is durable, but for its name, when this returns, or when `syncs` is left. Its damaged lines
    are added to `damages`.
    """
    reading = open_transcript(source, os.O_RDONLY)
    try:
        writing = open_transcript(target, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            size, left, checksum = 0, os.fstat(reading).st_size, 0
            while left and (part := os.read(reading, min(left, _CHUNK))):
                left -= len(part)
                checksum = zlib.crc32(part, checksum)
                while part:
                    count = os.write(writing, part)
                    size, part = size + count, part[count:]

            def see(line: Line) -> None:
                if line.entry is None and damages is not None:
                    damages.append(line)

            # The copy itself is looked at: of the file that is being written, the next look could
            # show something else.
            whole = min(size, whole_end(target, 0, 1, size, see)[0])
            if whole < size:
                os.ftruncate(writing, whole)
                checksum = _checksum(target)
                if damages is not None:
                    damages[:] = [line for line in damages if line.end <= whole]
            if syncs is None:
                os.fsync(writing)
        except BaseException:
            os.close(writing)
            raise
        if syncs is None:
            os.close(writing)
        else:
            syncs.sync(writing)
    finally:
        os.close(reading)
    return whole, checksum


def _said(name: str, damages: list[Line]) -> list[str]:
    return [f"{name}: line {line.sequence} is damaged: {line.damage}" for line in damages]


def _changed(name: str, there: tuple[int, int], expected: tuple[int, int]) -> str:
    return f"{name}: is not as it was backed up: {there[0]} of {expected[0]} bytes"


def _checksum(path: Path) -> int:
    return _size_and_checksum(path)[1]


def _size_and_checksum(path: Path) -> tuple[int, int]:
    """Read a file, from the disk where the system allows it: what is in its cache was never wrong.
    Raises OSError.
    """
    size, value = 0, 0
    with os.fdopen(open_transcript(path, os.O_RDONLY), "rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while part := file.read(_CHUNK):
            size, value = size + len(part), zlib.crc32(part, value)
    return size, value


def _write(path: Path, data: bytes) -> None:
    handle = open_transcript(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)
