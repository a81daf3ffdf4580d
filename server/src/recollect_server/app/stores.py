"""Places where the logs of all spaces live: the data folder, or a database."""

import os
from typing import Protocol

from recollect_server.app.folder import CannotStart
from recollect_server.domain.live import Live
from recollect_server.settings import FOLDER, Settings
from recollect_server.storage.logs.folder import FolderStore, spaces_in
from recollect_server.storage.logs.moves import FolderMark, refusal
from recollect_server.storage.logs.store import LogStore


class Stores(Protocol):
    """The log stores of all spaces."""

    @property
    def place(self) -> str:
        """Return where the logs are, for people."""

    def of(self, space: str) -> LogStore:
        """Return the store of a space."""

    def exists(self, space: str) -> bool:
        """Return whether there is a space of a name, or something else in its place. Raises
        StorageUnavailable.
        """

    def folder_of(self, space: str) -> FolderStore:
        """Return the folder of a space's logs. Raises StorageUnavailable if they are in none."""

    def is_space(self, name: str) -> bool:
        """Return whether there is a space of a name."""

    def names(self) -> list[str]:
        """Return the names of all spaces, in order."""

    def close(self) -> None:
        """Close what the stores share. Nobody uses one any more."""


class FolderStores:
    """The stores in a data folder."""

    def __init__(self, live: Live[Settings]) -> None:
        self._live = live
        self._data_dir = live.now.data_dir

    @property
    def place(self) -> str:
        """Return the path of the data folder."""
        return str(self._data_dir.resolve())

    def of(self, space: str) -> LogStore:
        """Return the store of a space."""
        return self.folder_of(space)

    def folder_of(self, space: str) -> FolderStore:
        """Return the store of a space as a folder."""
        sync = self._live.now.durability == "fsync"
        return FolderStore.of(self._data_dir, space, sync=sync)

    def exists(self, space: str) -> bool:
        """Return whether there is anything of that name in the folder."""
        return os.path.lexists(self._data_dir / space)

    def is_space(self, name: str) -> bool:
        """Return whether there is the folder of a space."""
        return FolderStore.of(self._data_dir, name).root.is_dir()

    def names(self) -> list[str]:
        """Return the names of the spaces in the folder."""
        return spaces_in(self._data_dir)

    def close(self) -> None:
        """Do nothing: each store closes its files."""


def open_stores(live: Live[Settings]) -> Stores:
    """Return the stores that the settings name. Raises CannotStart."""
    settings = live.now
    if settings.store == FOLDER:
        if reason := refusal(FolderMark(settings.data_dir), f"the data folder {settings.data_dir}"):
            raise CannotStart(reason)
        return FolderStores(live)
    try:
        from recollect_server.app.postgres import PostgresStores
    except ImportError as error:
        raise CannotStart(
            f"{settings.store} needs psycopg, which cannot be imported ({error}):"
            " pip install 'recollect-server[postgres]'"
        ) from error
    return PostgresStores(settings)
