"""Markers of spaces that have work due: `<data-dir>/.due/<space>`, an empty file whose time of
change is when the work is due.

They are hints: a lost marker delays work until the space is opened again, and none is synced.
"""

import os
from contextlib import suppress
from pathlib import Path

from recollect_server.kernel.log.files import make_folder

_FOLDER = ".due"


class DueMarkers:
    """The markers in a data folder. A disk that refuses them is ignored."""

    def __init__(self, data_dir: Path) -> None:
        self._folder = data_dir / _FOLDER

    def set(self, space: str, time: int) -> None:
        """Mark a space: its work is due at a time, in milliseconds."""
        path, moment = self._folder / space, time * 1_000_000
        with suppress(OSError):
            try:
                os.utime(path, ns=(moment, moment))
            except FileNotFoundError:
                make_folder(self._folder)
                path.touch(0o600)
                os.utime(path, ns=(moment, moment))

    def remove(self, space: str) -> None:
        """Remove the marker of a space, if it has one."""
        with suppress(OSError):
            (self._folder / space).unlink()

    def all(self) -> dict[str, int]:
        """Return when the work of each marked space is due, in milliseconds."""
        try:
            with os.scandir(self._folder) as entries:
                return {
                    entry.name: entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                    for entry in entries
                }
        except OSError:
            return {}
