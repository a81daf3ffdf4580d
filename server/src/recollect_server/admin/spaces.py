"""Spaces as their administrators see them: listed, whether they are open or not."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from recollect_server.admin.due import DueMarkers
from recollect_server.admin.statistics import Statistics, statistics_of
from recollect_server.kernel.domain.errors import InvalidField, SpaceNotFound, StorageUnavailable
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.index.checking import SpaceTotals, totals_of
from recollect_server.kernel.log.folder import FolderStore
from recollect_server.kernel.log.space_removal import SpaceReceipt
from recollect_server.kernel.log.store import LogStore
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Spaces

_PATIENCE = 10.0  # seconds that a delete waits for the calls that use the space


class SpaceStores(Protocol):
    """Protocol of the log stores of all spaces."""

    def of(self, space: str) -> LogStore:
        """Return the store of a space."""

    def folder_of(self, space: str) -> FolderStore:
        """Return the folder of a space's logs. Raises NoBackupFolder if they are in none."""

    def make(self, name: str) -> bool:
        """Make a space, durably; return whether it is new. Raises StorageUnavailable, OSError."""

    def remove(self, name: str, now: int) -> SpaceReceipt:
        """Delete a space with all its data, which nobody has open. Raises StorageUnavailable,
        OSError.
        """

    def receipts(self) -> list[SpaceReceipt]:
        """Return the receipts of deleted spaces, oldest first. Raises StorageUnavailable,
        OSError.
        """

    def is_space(self, name: str) -> bool:
        """Return whether there is a space of a name."""

    def names(self) -> list[str]:
        """Return the names of all spaces, in order."""


class SpaceState(Enum):
    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SpaceOverview:
    name: str
    state: SpaceState
    is_default: bool
    totals: SpaceTotals


class SpaceAdministration:
    """The spaces of a server. Safe to call from any thread."""

    def __init__(
        self,
        stores: SpaceStores,
        data_dir: Path,
        default: str,
        spaces: Spaces[Any],
        without_streams: Callable[[str], AbstractContextManager[None]],
        clock: Clock,
    ) -> None:
        """`without_streams` ends the streams of a space, and keeps them ended in its block."""
        self._stores = stores
        self._without_streams = without_streams
        self._clock = clock
        self._due = DueMarkers(data_dir)
        self._default = default
        self._spaces: Spaces[OpenedSpace] = spaces

    def names(self, is_listed: Callable[[str], bool]) -> list[str]:
        """Return the names of the spaces that are listed, in order."""
        return [name for name in self._stores.names() if is_listed(name)]

    def overview(self, name: str) -> SpaceOverview:
        self._settle(name)
        return SpaceOverview(
            name, self._state(name), name == self._default, totals_of(self._stores.of(name).root)
        )

    def held(self, name: str) -> tuple[int, str]:
        """Return the number of messages that a space holds in memory, and why."""
        for space in self._spaces.open_now():
            if space.name == name:
                return space.held()[0], space.held_because()
        return 0, ""

    def statistics(self, name: str) -> Statistics:
        """Return what a space holds. Raises SpaceNotFound."""
        if not self._stores.is_space(name):
            raise SpaceNotFound(name)
        self._settle(name)
        return statistics_of(self._stores.of(name))

    def create(self, name: str) -> tuple[SpaceOverview, bool]:
        """Make a space, unless there is one; return it, and whether it was made. Raises
        StorageUnavailable.
        """
        try:
            is_new = self._stores.make(name)
            # Opened, it has an index, and is there for all that look at it.
            self._spaces.use(name).end()
        except OSError as error:
            raise StorageUnavailable(
                f"the space {name} cannot be made: {error.strerror or error}"
            ) from error
        return self.overview(name), is_new

    def delete(self, name: str) -> SpaceReceipt:
        """Delete a space with all its data, and end its streams. Raises SpaceNotFound,
        InvalidField, SpaceBeingDeleted, StorageUnavailable.
        """
        if name == self._default:
            raise InvalidField.of(
                "name",
                "is the space of calls that name none, which the server keeps: delete its"
                " conversations",
            )
        if not self._stores.is_space(name):
            raise SpaceNotFound(name)
        try:
            with self._without_streams(name):
                return self._spaces.remove(
                    name, _PATIENCE, lambda: self._stores.remove(name, self._clock())
                )
        except OSError as error:
            raise StorageUnavailable(
                f"the space {name} cannot be deleted: {error.strerror or error}"
            ) from error
        finally:
            self._due.remove(name)

    def receipts(
        self, is_listed: Callable[[str], bool], before: int | None, limit: int
    ) -> tuple[list[SpaceReceipt], int | None]:
        """Return receipts of deleted spaces, the newest first: those before a place; and the place
        of the next page. Raises StorageUnavailable.
        """
        try:
            entries = [it for it in self._stores.receipts() if is_listed(it.name)][:before]
        except OSError as error:
            reason = error.strerror or error
            raise StorageUnavailable(f"the receipts cannot be read: {reason}") from error
        start = max(0, len(entries) - limit)
        return entries[start:][::-1], start or None

    def counts(self) -> tuple[int, int]:
        """Return the numbers of all spaces and of the open ones."""
        names = set(self._stores.names())
        return len(names), len(names.intersection(self._spaces.names()))

    def _settle(self, name: str) -> None:
        """Wait until the files of an open space have all that was acknowledged."""
        for space in self._spaces.open_now(at_rest=True):
            if space.name == name and (lease := self._spaces.borrow(space)) is not None:
                with lease:
                    if not space.is_resting:
                        space.follow()
                    space.settle()

    def _state(self, name: str) -> SpaceState:
        return SpaceState.OPEN if name in self._spaces.names() else SpaceState.CLOSED
