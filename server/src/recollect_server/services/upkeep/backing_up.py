"""A copy of the transcripts of all spaces, those of third parties too, and their ledgers, while the
server writes them; and the way back.

Each transcript is copied up to the end of a whole batch: everything that was acknowledged before
the copy began is in it. The index is left out, for it is made anew from the transcripts; the
vectors too: words answer while they are worked out anew, and they may be of texts that were deleted
since. A backup has the shape of a data folder, so a server can run on it. `backup.json` is written
last, so a backup without it is not complete: it has the size and the checksum of each file, which
`check` compares, and how many damaged lines were copied.

With keys, all of this is one encrypted file, `backup.encrypted` (see `storage.archive`), and
nothing of it is written in plain text. A restore decrypts it into the new data folder first.

A restore marks the data folder until all is there, so that nobody serves a part of it. One that was
killed is begun anew by its repeat, which removes what the first one brought.
"""

import io
import os
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, Self

import orjson

from recollect_server import __version__
from recollect_server.domain.ids import is_space_name
from recollect_server.domain.keys import Keyring
from recollect_server.services.upkeep.recovery import Progress
from recollect_server.storage import archive
from recollect_server.storage.failpoints import hit
from recollect_server.storage.format import FORMAT, NewerFormat, check_number, mark_format
from recollect_server.storage.logs.files import (
    Syncs,
    make_folder,
    open_transcript,
    opened,
    sync_folder,
)
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.moves import RestoreMark, restore_mark, set_restore_mark
from recollect_server.storage.logs.repair import whole_end
from recollect_server.storage.logs.store import LEDGERS, Kind

MANIFEST = "backup.json"
ARCHIVE = "backup.encrypted"
RESTORING = ".restoring"  # behind a folder's name until all of it is there
_CHUNK = 1 << 20
_STAGING = ".restoring"  # folder in the data folder for what a restore decrypts


class CannotCopy(Exception):
    """The text says why, and what to do."""


class NoKey(CannotCopy):
    """The key of an encrypted backup is not among those that were given."""


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


class _Target(Protocol):
    """Destination of a backup: a folder, or an archive."""

    @contextmanager
    def folder(self, path: Path) -> Iterator[None]:
        """Make a folder; its files are durable at the end of the block."""

    def copy(self, source: Path, path: Path, damages: list[Line]) -> tuple[int, int]:
        """Copy a log up to the end of a whole batch, unless it has none. Return its size and its
        checksum. Its damaged lines are added to `damages`. Raises FileNotFoundError, OSError.
        """

    def finish(self, manifest: bytes) -> None:
        """End the backup with its manifest, durably."""


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
def _target(target: Path, keys: Keyring | None) -> Iterator[_Target]:
    if keys is None:
        yield _FolderTarget(target)
        return
    make_folder(target)
    with _plainly():
        writer = archive.ArchiveWriter(target / ARCHIVE, keys.first)
    try:
        yield _ArchiveTarget(target, writer)
    except BaseException:
        writer.discard()
        raise


@contextmanager
def _plainly() -> Iterator[None]:
    """Turn what is wrong with an archive into CannotCopy, or NoKey."""
    try:
        yield
    except archive.NoKey as error:
        raise NoKey(str(error)) from error
    except archive.ArchiveError as error:
        raise CannotCopy(str(error)) from error


class _FolderTarget:
    """A backup as a folder of files."""

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
        size, checksum = _copy(source, path, self._syncs, damages)
        if size == 0:
            path.unlink()
        return size, checksum

    def finish(self, manifest: bytes) -> None:
        mark_format(self._root)
        _write(self._root / MANIFEST, manifest)
        sync_folder(self._root)


class _ArchiveTarget:
    """A backup as an archive. Paths are those that a folder would have."""

    def __init__(self, root: Path, writer: archive.ArchiveWriter) -> None:
        self._root = root
        self._writer = writer

    @contextmanager
    def folder(self, path: Path) -> Iterator[None]:  # noqa: ARG002 - an archive has files only
        yield

    def copy(self, source: Path, path: Path, damages: list[Line]) -> tuple[int, int]:
        def see(line: Line) -> None:
            if line.entry is None:
                damages.append(line)

        with opened(source) as handle:
            # The bytes of whole batches stay as they are in a file that is open: a log only grows,
            # and what replaces lines is another file. Only the size is looked at once.
            size = os.fstat(handle).st_size
            whole = min(size, whole_end(handle, 0, 1, size, see)[0])
            damages[:] = [line for line in damages if line.end <= whole]
            if whole == 0:
                return 0, 0
            content = _Checksummed(handle)
            self._writer.add(path.relative_to(self._root).as_posix(), whole, content)
        return whole, content.checksum

    def finish(self, manifest: bytes) -> None:
        self._writer.add(MANIFEST, len(manifest), io.BytesIO(manifest))
        self._writer.finish()


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
    parts: dict[Kind, tuple[str, str]] = {
        Kind.CONVERSATION: ("files", "conversations"),
        Kind.COMMUNICATION: ("external", "communications"),
        Kind.THREAD: ("threads", "threads"),
    }
    manifest: dict[str, object] = {}
    for kind, (name, counter) in parts.items():
        if kind is Kind.CONVERSATION or source.folder(kind).is_dir():
            files = _back_up_all(source, copy, kind, target, done, progress)
            manifest[name] = files
            setattr(done, counter, getattr(done, counter) + len(files))
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
            done.problems += _said(name, damages)
    return files


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


def check(source: Path, progress: Progress, keys: Keyring | None = None) -> Checked:
    """Compare each file of a backup with the manifest, as the disk has it. Raises CannotCopy,
    NoKey, OSError.
    """
    if (source / ARCHIVE).is_file():
        return _check_archive(source, progress, keys)
    parts = _manifests(source)
    done = Checked(damaged=_damaged(parts[0], source))

    def there(store: FolderStore, name: str) -> tuple[int, int] | None:
        try:
            return _size_and_checksum(store.path(name))
        except FileNotFoundError:
            return None

    _compare(source, parts, there, done, progress)
    return done


def _check_archive(source: Path, progress: Progress, keys: Keyring | None) -> Checked:
    contents: dict[Path, tuple[int, int]] = {}
    manifest = b""
    with _plainly():
        for name, content in archive.members(source / ARCHIVE, keys):
            progress(len(contents), 0)
            if name == MANIFEST:
                manifest = content.read()
            else:
                contents[source / name] = _size_and_checksum_of(content)
    parts = _parsed(manifest, source)
    done = Checked(damaged=_damaged(parts[0], source))
    _compare(source, parts, lambda store, name: contents.get(store.path(name)), done, progress)
    return done


def _compare(
    source: Path,
    manifests: list[dict[str, Any]],
    there: Callable[[FolderStore, str], tuple[int, int] | None],
    done: Checked,
    progress: Progress,
) -> None:
    """Compare what is there of each file with the manifest."""
    for manifest in manifests:
        backup = _parts_of(source, manifest)
        files = {
            name: expected
            for part in (backup.files, backup.external, backup.threads, backup.ledgers)
            for name, expected in (part or {}).items()
        }
        for number, (name, expected) in enumerate(sorted(files.items())):
            progress(number, len(files))
            actual = there(backup.origin, name)
            if actual is None:
                done.problems.append(f"{name}: is missing in the backup")
                continue
            done.files += 1
            done.bytes += actual[0]
            if actual != expected:
                done.problems.append(_changed(name, actual, expected))


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
        with _plainly():
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
        shutil.copyfileobj(content, file, _CHUNK)


def _damaged(manifest: dict[str, Any], source: Path) -> int:
    damaged = manifest.get("damaged", 0)
    if not isinstance(damaged, int):
        raise CannotCopy(f"{source / MANIFEST} cannot be read: damaged is not a number")
    return damaged


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


def restore(source: Path, space: str, target: FolderStore, progress: Progress) -> Copied:
    """Copy a space's logs from a backup to where nothing is yet, and compare each with what was
    backed up.

    Damaged parts are copied too, and named. Nobody may have the target open. Raises CannotCopy,
    NewerFormat, OSError.
    """
    backup = _backup_of(source, space)
    _check_empty(target)
    # An older server must not open the lines that come, even if it is the first to be started.
    mark_format(target.root.parent.parent)
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
            return _parsed(file.read(), source)
    except FileNotFoundError:
        raise CannotCopy(
            f"{source} has no {MANIFEST}: it is no backup, or not a complete one"
        ) from None


def _parsed(data: bytes, source: Path) -> list[dict[str, Any]]:
    """Return the parts of a manifest, one for each space. Raises CannotCopy."""
    try:
        manifest = orjson.loads(data)
        parts = [manifest, *manifest.get("spaces", ())]
        check_number(manifest.get("format", 1), manifest.get("version", ""), f"the backup {source}")
        if strange := [part for part in parts if not is_space_name(part["space"])]:
            raise ValueError(f"{strange[0]['space']} is no name of a space")
    except NewerFormat as error:
        raise CannotCopy(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCopy(f"{source / MANIFEST} cannot be read: {error}") from error
    return parts


def _backup_of(source: Path, space: str) -> _Backup:
    """Return what a backup has of a space. Raises CannotCopy."""
    manifest = next((part for part in _manifests(source) if part["space"] == space), None)
    if manifest is None:
        raise CannotCopy(f"{source} has no space {space}: name another with --space")
    return _parts_of(source, manifest)


def _parts_of(source: Path, manifest: dict[str, Any]) -> _Backup:
    """Return what a manifest says of a space. Raises CannotCopy."""
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
    coming = _coming(target)
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
            hit("restore.copied")
    sync_folder(coming)
    return count


def _restore_ledgers(
    origin: FolderStore, ledgers: dict[str, tuple[int, int]], target: FolderStore, done: Copied
) -> None:
    for name, expected in sorted(ledgers.items()):
        path = target.path(name)
        coming = _coming(path)
        coming.unlink(missing_ok=True)
        try:
            copied = _copy(origin.path(name), coming)
        except FileNotFoundError:
            done.problems.append(f"{name}: is missing in the backup")
            continue
        if copied != expected:
            done.problems.append(_changed(name, copied, expected))
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
    return path.with_name(path.name + RESTORING)


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
    with os.fdopen(open_transcript(path, os.O_RDONLY), "rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return _size_and_checksum_of(file)


def _size_and_checksum_of(file: IO[bytes]) -> tuple[int, int]:
    size, value = 0, 0
    while part := file.read(_CHUNK):
        size, value = size + len(part), zlib.crc32(part, value)
    return size, value


def _write(path: Path, data: bytes) -> None:
    handle = open_transcript(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(handle)
