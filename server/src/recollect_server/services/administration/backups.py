"""Backups that administrators ask for: into one folder, which the operator of the machine names."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from recollect_server.domain.errors import InvalidField, NoBackupFolder, StorageUnavailable
from recollect_server.domain.time import Clock
from recollect_server.services.upkeep.backing_up import CannotCopy, Copied, back_up
from recollect_server.services.upkeep.recovery import unheard
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.store import LogUnavailable


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made."""

    path: Path
    spaces: tuple[str, ...]
    copied: Copied


class BackupAdministration:
    """Makes backups. Safe to call from any thread."""

    def __init__(
        self,
        folder_of: Callable[[str], FolderStore],
        folder: Path | None,
        default: str,
        clock: Clock,
    ) -> None:
        """`folder_of` returns the logs of a space, or raises StorageUnavailable; `folder` holds the
        backups; None: none is made by calls.
        """
        self._folder_of = folder_of
        self._folder = folder
        self._default = default
        self._clock = clock
        self._guard = threading.Lock()  # one at a time: they compete for the disk

    def make(self, name: str, spaces: list[str]) -> Backup:
        """Copy spaces into a new folder of a name; one with the time in it if it is empty. Raises
        NoBackupFolder, InvalidField, StorageUnavailable.
        """
        if self._folder is None:
            raise NoBackupFolder
        now = datetime.fromtimestamp(self._clock() / 1000, UTC)
        target = self._folder / (name or f"recollect-{now:%Y%m%dt%H%M%Sz}")
        # the first one is what a restore puts into the default space
        ordered = sorted(spaces, key=lambda space: (space != self._default, space))
        stores = {space: self._folder_of(space) for space in ordered}
        with self._guard:
            if target.exists():
                raise InvalidField.of("name", f"there is a backup {target.name} already")
            try:
                copied = back_up(stores, target, unheard)
            except (CannotCopy, LogUnavailable, OSError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise StorageUnavailable(
                    f"the backup {target} is not complete: {reason}: remove it"
                ) from error
        return Backup(target.absolute(), tuple(ordered), copied)
