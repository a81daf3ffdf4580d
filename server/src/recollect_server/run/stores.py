"""Places where the logs of all spaces live: the data folder, or a database."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol

from recollect_server.access.token_log import TokenLedger, TokenLines
from recollect_server.access.token_uses import TokenUseFiles, TokenUseStore
from recollect_server.admin.spaces import SpaceStores
from recollect_server.kernel.domain.errors import InvalidField
from recollect_server.kernel.domain.ids import is_space_name
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.log.folder import Check, FolderStore, foreign_in, spaces_in
from recollect_server.kernel.log.moves import folder_refusal
from recollect_server.kernel.log.space_removal import (
    SpaceReceipt,
    finish_removals,
    receipts,
    remove_space,
)
from recollect_server.kernel.log.store import LogStore
from recollect_server.run.database_state import DatabaseState
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import FOLDER, LogStoreName


class Stores(SpaceStores, Protocol):
    """The log stores of all spaces, as `app` uses them."""

    @property
    def place(self) -> str:
        """Return where the logs are, for people."""

    def exists(self, space: str) -> bool:
        """Return whether there is a space of a name, or something else in its place. Raises
        StorageUnavailable.
        """

    def check_name(self, space: str) -> None:
        """Raise InvalidField if something else than a space has the name."""

    def remove_unused(self, space: str, is_derived: Callable[[str], bool]) -> bool:
        """Remove a space if it has no log, nor anything else but derived files.

        `is_derived` tells from a file's name in the folder of what is derived from the logs whether
        it can be made anew. Return False if something is left. Nobody may have the space open.
        Raises StorageUnavailable.
        """

    def finish_removals(self, now: int) -> list[SpaceReceipt]:
        """End the deletes of spaces that were interrupted. Raises StorageUnavailable, OSError."""

    def follow_removals(self, close: Callable[[str, Callable[[], None]], None]) -> None:
        """Remove what this server has of spaces that other servers deleted. `close` closes a space,
        and calls a function while nobody can open it. Raises StorageUnavailable, OSError.
        """

    def tokens(self) -> TokenLines:
        """Return the ledger of tokens. Raises StorageUnavailable."""

    def token_uses(self) -> TokenUseStore:
        """Return the counts of the use of tokens."""

    def state(self) -> DatabaseState | None:
        """Return the state of the database, without waiting for it; None if there is none."""

    def awaited(self) -> list[str]:
        """Return the spaces where other processes wait until this one has removed what they
        deleted. Raises StorageUnavailable.
        """

    def expect_close(self, seconds: float) -> None:
        """Note that the server stops: from so many seconds on it may not wait for what hangs."""

    def close(self) -> None:
        """Close what the stores share. Nobody uses one any more."""


class FolderStores:
    def __init__(self, live: Live[Settings], check: Check) -> None:
        """`check` raises OSError if the folder is no longer this process's."""
        self._live = live
        self._check = check
        self._data_dir = live.now.data_dir

    @property
    def place(self) -> str:
        return str(self._data_dir.resolve())

    def of(self, space: str) -> LogStore:
        return self.folder_of(space)

    def folder_of(self, space: str) -> FolderStore:
        sync = self._live.now.durability == "fsync"
        return FolderStore.of(self._data_dir, space, sync=sync, check=self._check)

    def exists(self, space: str) -> bool:
        return os.path.lexists(self._data_dir / space)

    def check_name(self, space: str) -> None:
        """Raise InvalidField if there is a folder of the name that is not a space's: to open one
        there would make all of it a space, which can be deleted.
        """
        if not is_space_name(space) or self.is_space(space):
            return  # the name of none is that of an empty one, in no folder of its own
        if foreign := foreign_in(self._data_dir / space):
            raise InvalidField.of(
                "space", f"{space} is the name of a folder with something else in it: {foreign}"
            )

    def is_space(self, name: str) -> bool:
        return FolderStore.of(self._data_dir, name).root.is_dir()

    def names(self) -> list[str]:
        return spaces_in(self._data_dir)

    def make(self, name: str) -> bool:
        """Make the folder of a space. Raises OSError."""
        self.check_name(name)
        folder = self.folder_of(name)
        is_new = not folder.root.is_dir()
        folder.create()
        if is_new:
            folder.keep()
        return is_new

    def remove(self, name: str, now: int) -> SpaceReceipt:
        """Remove the folder of a space. Raises InvalidField if something else is in it, OSError."""
        self._check()
        if foreign := foreign_in(self._data_dir / name):
            raise InvalidField.of(
                "name", f"has something in its folder that is no part of a space: move {foreign}"
            )
        return remove_space(self._data_dir, name, now)

    def remove_unused(self, space: str, is_derived: Callable[[str], bool]) -> bool:
        return self.folder_of(space).remove_without_logs(is_derived)

    def receipts(self) -> list[SpaceReceipt]:
        """Return the receipts in the data folder. Raises OSError."""
        return receipts(self._data_dir)

    def finish_removals(self, now: int) -> list[SpaceReceipt]:
        """Remove what is left of deleted spaces. Raises OSError."""
        return finish_removals(self._data_dir, now)

    def follow_removals(self, close: Callable[[str, Callable[[], None]], None]) -> None:
        """Do nothing: a folder has one server."""

    def tokens(self) -> TokenLines:
        return TokenLedger(self._data_dir)

    def token_uses(self) -> TokenUseStore:
        return TokenUseFiles(self._data_dir)

    def state(self) -> DatabaseState | None:
        """Return None: there is no database."""
        return None

    def awaited(self) -> list[str]:
        """Return nothing: there is no other process."""
        return []

    def expect_close(self, seconds: float) -> None:
        """Do nothing: the calls of a disk cannot be cut short."""

    def close(self) -> None:
        """Do nothing: each store closes its files."""


@contextmanager
def opened_tokens(settings: Settings) -> Iterator[tuple[TokenLines, TokenUseStore]]:
    """Open the ledger of tokens and the counts of their use for a command beside the server. Raises
    CannotStart.
    """
    if settings.store == FOLDER:
        yield TokenLedger(settings.data_dir), TokenUseFiles(settings.data_dir)
        return
    with _postgres(settings.store).opened_tokens(settings.store) as opened:
        yield opened


def open_stores(live: Live[Settings], check: Check) -> Stores:
    """Return the stores that the settings name. `check` is that of the data folder. Raises
    CannotStart.
    """
    settings = live.now
    if settings.store == FOLDER:
        if reason := folder_refusal(settings.data_dir):
            raise CannotStart(reason)
        return FolderStores(live, check)
    stores: Stores = _postgres(settings.store).PostgresStores(settings)
    return stores


def _postgres(store: LogStoreName) -> Any:
    """Import what needs the extra `postgres`. Raises CannotStart."""
    try:
        return import_module("recollect_server.run.postgres")
    except ImportError as error:
        raise CannotStart(
            f"{store} needs psycopg, which cannot be imported ({error}):"
            " pip install 'recollect-server[postgres]'"
        ) from error
