"""Backups that administrators ask for: into one folder, which the operator of the machine names,
and where rules of the operator say which older ones are removed.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from recollect_server.backup.folder import MadeBackup, make_backup
from recollect_server.backup.manifest import CannotCopy
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
    ) -> None:
        """`folder_of` returns the logs of a space, or raises NoBackupFolder; `folder` holds the
        backups; None: none is made by calls. `rules` say which of them stay. `keys` returns those
        that encrypt them, or raises CannotCopy.
        """
        self._folder_of = folder_of
        self._folder = folder
        self._rules = rules
        self._default = default
        self._clock = clock
        self._keys = keys
        self._guard = threading.Lock()  # one at a time: they compete for the disk

    def check_folder(self) -> Path:
        """Return the folder that holds the backups. Raises NoBackupFolder if calls make none."""
        self._folder_of(self._default)  # no setting helps where the logs are in a database
        if self._folder is None:
            raise NoBackupFolder(
                "set backup_dir on its machine, or run `recollect-server backup` there"
            )
        return self._folder

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
