"""The manifest of a backup, `backup.json`: the spaces of the backup, with the size and the checksum
of each of their files, and how many damaged lines were copied. It is written last, so a backup
without it is not complete.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from recollect_server.backup import archive
from recollect_server.backup.copying import change_text, size_and_checksum, size_and_checksum_of
from recollect_server.kernel.compare.recovery import Progress
from recollect_server.kernel.domain.ids import Kind, is_space_name
from recollect_server.kernel.domain.keys import Keyring
from recollect_server.kernel.format import NewerFormat, check_number
from recollect_server.kernel.log.files import read_file
from recollect_server.kernel.log.folder import FolderStore

MANIFEST = "backup.json"
ARCHIVE = "backup.encrypted"
LISTS = {Kind.CONVERSATION: "files", Kind.COMMUNICATION: "external", Kind.THREAD: "threads"}
"""Key in the manifest of the logs of each kind. Old backups have conversations alone."""


class CannotCopy(Exception):
    """The text says why, and what to do."""


class NoKey(CannotCopy):
    """The key of an encrypted backup is not among those that were given."""


@contextmanager
def archive_errors() -> Iterator[None]:
    """Turn what is wrong with an archive into CannotCopy, or NoKey."""
    try:
        yield
    except archive.ArchiveKeyMissing as error:
        raise NoKey(str(error)) from error
    except archive.ArchiveError as error:
        raise CannotCopy(str(error)) from error


@dataclass(slots=True)
class Backup:
    """Backup of one space: its logs with their sizes and checksums."""

    origin: FolderStore
    logs: dict[Kind, dict[str, tuple[int, int]]]
    ledgers: dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of a backup, by its manifest."""

    spaces: dict[str, Backup]
    """By the name of the space, the one for the default space first."""
    damaged: int
    """Damaged lines that were copied as they were."""


@dataclass(frozen=True, slots=True)
class BackupContents:
    """Contents of a backup in numbers, by its manifest."""

    spaces: tuple[str, ...] = ()
    conversations: int = 0
    communications: int = 0
    bytes: int = 0
    damaged: int = 0
    """Damaged lines that were copied as they were."""


def read_manifest(source: Path) -> Manifest:
    """Return the manifest of a backup. Raises CannotCopy, OSError."""
    return parse_manifest(_manifest_bytes(source), source)


def read_contents(source: Path) -> BackupContents:
    """Return the contents of a backup that is not encrypted. Raises CannotCopy, OSError.

    It takes a tenth of the time of `read_manifest`, for it checks no name of a file.
    """
    data = _manifest_bytes(source)
    with _manifest_errors(source):
        parts, damaged = _parts(data, source)
        logs = {
            kind: [it for part in parts for it in part.get(key, {}).values()]
            for kind, key in LISTS.items()
        }
        return BackupContents(
            tuple(part["space"] for part in parts),
            len(logs[Kind.CONVERSATION]),
            len(logs[Kind.COMMUNICATION]),
            sum(int(size) for files in logs.values() for size, _ in files),
            damaged,
        )


def _manifest_bytes(source: Path) -> bytes:
    try:
        return read_file(source / MANIFEST)
    except FileNotFoundError:
        raise CannotCopy(
            f"{source} has no {MANIFEST}: it is no backup, or not a complete one"
        ) from None


def parse_manifest(data: bytes, source: Path) -> Manifest:
    """Return what the manifest of a backup says. Raises CannotCopy."""
    with _manifest_errors(source):
        parts, damaged = _parts(data, source)
        return Manifest({part["space"]: _backup_of(source, part) for part in parts}, damaged)


@contextmanager
def _manifest_errors(source: Path) -> Iterator[None]:
    """Turn what is wrong with a manifest into CannotCopy."""
    try:
        yield
    except NewerFormat as error:
        raise CannotCopy(str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CannotCopy(f"{source / MANIFEST} cannot be read: {error}") from error


def _parts(data: bytes, source: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the part of a manifest about each space, and the number of damaged lines. Raises
    NewerFormat, ValueError, KeyError, TypeError, AttributeError.
    """
    manifest = orjson.loads(data)
    parts = [manifest, *manifest.get("spaces", ())]
    check_number(manifest.get("format", 1), manifest.get("version", ""), f"the backup {source}")
    if strange := [part for part in parts if not is_space_name(part["space"])]:
        raise ValueError(f"{strange[0]['space']} is no name of a space")
    damaged = manifest.get("damaged", 0)
    if not isinstance(damaged, int):
        raise ValueError("damaged is not a number")
    return parts, damaged


def _backup_of(source: Path, part: dict[str, Any]) -> Backup:
    """Return what a manifest says of a space. Raises ValueError, KeyError, TypeError,
    AttributeError.
    """
    origin = FolderStore.of(source, part["space"])
    logs = {
        kind: _files(origin, part[key], origin.folder(kind))
        for kind, key in LISTS.items()
        if kind is Kind.CONVERSATION or key in part
    }
    return Backup(origin, logs, _files(origin, part.get("ledgers", {}), origin.root.parent))


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
    manifest = read_manifest(source)

    def there(store: FolderStore, name: str) -> tuple[int, int] | None:
        try:
            return size_and_checksum(store.path(name))
        except FileNotFoundError:
            return None

    return _compare(manifest, there, progress)


def _check_archive(source: Path, progress: Progress, keys: Keyring | None) -> Checked:
    contents: dict[Path, tuple[int, int]] = {}
    data = b""
    with archive_errors():
        for name, content in archive.members(source / ARCHIVE, keys):
            progress(len(contents), 0)
            if name == MANIFEST:
                data = content.read()
            else:
                contents[source / name] = size_and_checksum_of(content)
    manifest = parse_manifest(data, source)
    return _compare(manifest, lambda store, name: contents.get(store.path(name)), progress)


def _compare(
    manifest: Manifest,
    there: Callable[[FolderStore, str], tuple[int, int] | None],
    progress: Progress,
) -> Checked:
    """Compare what is there of each file with the manifest."""
    done = Checked(damaged=manifest.damaged)
    for backup in manifest.spaces.values():
        files = {
            name: expected
            for part in (*backup.logs.values(), backup.ledgers)
            for name, expected in part.items()
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
                done.problems.append(change_text(name, actual, expected))
    return done
