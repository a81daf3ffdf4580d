"""Spaces as their administrators see them: listed, whether they are open or not."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from recollect_server.domain.errors import SpaceNotFound
from recollect_server.services.spaces import OpenedSpace, Spaces
from recollect_server.services.upkeep.statistics import Statistics, statistics_of
from recollect_server.storage.index.checking import Totals, totals_of
from recollect_server.storage.logs.folder import FolderStore, spaces_in


class Settling(OpenedSpace, Protocol):
    """Protocol of an open space that can be looked at from outside."""

    def settle(self) -> None:
        """Wait until its files have all that was acknowledged, or cannot take it now."""


class SpaceState(Enum):
    """State of a space in the server."""

    OPEN = "open"
    SUSPENDED = "suspended"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SpaceOverview:
    """One space of a list."""

    name: str
    state: SpaceState
    is_default: bool
    totals: Totals


class SpaceAdministration:
    """The spaces of a data folder. Safe to call from any thread."""

    def __init__(self, data_dir: Path, default: str, spaces: Spaces[Any]) -> None:
        self._data_dir = data_dir
        self._default = default
        self._spaces: Spaces[Settling] = spaces

    def names(self, is_listed: Callable[[str], bool]) -> list[str]:
        """Return the names of the spaces that are listed, in order."""
        return [name for name in spaces_in(self._data_dir) if is_listed(name)]

    def overview(self, name: str) -> SpaceOverview:
        """Return a space of the list."""
        self._settle(name)
        return SpaceOverview(
            name, self._state(name), name == self._default, totals_of(self._folder(name).root)
        )

    def statistics(self, name: str) -> Statistics:
        """Return what a space holds. Raises SpaceNotFound."""
        folder = self._folder(name)
        if not folder.root.is_dir():
            raise SpaceNotFound(name)
        self._settle(name)
        return statistics_of(folder)

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of all spaces, of the open and of the suspended ones."""
        names = set(spaces_in(self._data_dir))
        is_open, is_suspended = set(self._spaces.names()), set(self._spaces.suspended())
        return len(names), len(names & is_open), len(names & is_suspended)

    def _settle(self, name: str) -> None:
        """Wait until the files of an open space have all that was acknowledged."""
        for space in self._spaces.open_now():
            if space.name == name and (lease := self._spaces.borrow(space)) is not None:
                with lease:
                    space.settle()

    def _state(self, name: str) -> SpaceState:
        if name in self._spaces.names():
            return SpaceState.OPEN
        return SpaceState.SUSPENDED if name in self._spaces.suspended() else SpaceState.CLOSED

    def _folder(self, name: str) -> FolderStore:
        return FolderStore.of(self._data_dir, name)
