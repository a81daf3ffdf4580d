"""Comparison of a backup with its manifest."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recollect_server.domain.keys import Keyring
from recollect_server.services.upkeep.backup.copying import (
    change_text,
    size_and_checksum,
    size_and_checksum_of,
)
from recollect_server.services.upkeep.backup.manifest import (
    ARCHIVE,
    MANIFEST,
    archive_errors,
    damaged_lines,
    manifests_of,
    parse_manifest,
    parts_of,
)
from recollect_server.services.upkeep.recovery import Progress
from recollect_server.storage import archive
from recollect_server.storage.logs.folder import FolderStore


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
    parts = manifests_of(source)
    done = Checked(damaged=damaged_lines(parts[0], source))

    def there(store: FolderStore, name: str) -> tuple[int, int] | None:
        try:
            return size_and_checksum(store.path(name))
        except FileNotFoundError:
            return None

    _compare(source, parts, there, done, progress)
    return done


def _check_archive(source: Path, progress: Progress, keys: Keyring | None) -> Checked:
    contents: dict[Path, tuple[int, int]] = {}
    manifest = b""
    with archive_errors():
        for name, content in archive.members(source / ARCHIVE, keys):
            progress(len(contents), 0)
            if name == MANIFEST:
                manifest = content.read()
            else:
                contents[source / name] = size_and_checksum_of(content)
    parts = parse_manifest(manifest, source)
    done = Checked(damaged=damaged_lines(parts[0], source))
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
        backup = parts_of(source, manifest)
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
                done.problems.append(change_text(name, actual, expected))
