"""The settings of a running server, as administrators see them."""

from pathlib import Path

from recollect_server.app.catalogue import described
from recollect_server.domain.setting import SettingList
from recollect_server.settings import Settings

FILE = "recollect.yaml"
"""The file of settings in the data folder, for a server that was started without one."""


class SettingsAdministration:
    """The settings that a server runs with. Safe to call from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._file = (settings.origin.file or settings.data_dir / FILE).absolute()

    @property
    def file(self) -> Path:
        """The file that keeps what is set."""
        return self._file

    def list(self) -> SettingList:
        """Return all settings."""
        return SettingList(described(self._settings, self._file), str(self._file))
