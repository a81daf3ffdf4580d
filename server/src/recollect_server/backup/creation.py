"""Creation of a backup, as a folder of files or as one encrypted archive, while the server writes.

Each log is copied up to the end of a whole batch: everything that was acknowledged before the copy
began is in it.
"""

import io
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from recollect_server import __version__
from recollect_server.backup import archive
from recollect_server.backup.copying import Copied, copy_log, damage_texts, whole_batches
from recollect_server.backup.manifest import ARCHIVE, LISTS, MANIFEST, CannotCopy, archive_errors
from recollect_server.kernel.compare.recovery import Progress
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
from recollect_server.kernel.log.kinds import Kind
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
