"""Spaces as their administrators see them: listed, whether they are open or not."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from recollect_server.domain.errors import SpaceNotFound
from recollect_server.services.spaces import OpenedSpace, Spaces
from recollect_server.services.upkeep.statistics import Statistics, statistics_of
from recollect_server.storage.index.checking import Totals, totals_of
from recollect_server.storage.logs.store import LogStore


class Settling(OpenedSpace, Protocol):
    """Protocol of an open space that can be looked at from outside."""

    def settle(self) -> None:
        """Wait until its files have all that was acknowledged, or cannot take it now."""


class SpaceStores(Protocol):
    """Protocol of the log stores of all spaces."""

    def of(self, space: str) -> LogStore:
        """Return the store of a space."""

    def is_space(self, name: str) -> bool:
        """Return whether there is a space of a name."""

    def names(self) -> list[str]:
        """Return the names of all spaces, in order."""


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
    """The spaces of a server. Safe to call from any thread."""

    def __init__(self, stores: SpaceStores, default: str, spaces: Spaces[Any]) -> None:
        self._stores = stores
        self._default = default
        self._spaces: Spaces[Settling] = spaces

    def names(self, is_listed: Callable[[str], bool]) -> list[str]:
        """Return the names of the spaces that are listed, in order."""
        return [name for name in self._stores.names() if is_listed(name)]

    def overview(self, name: str) -> SpaceOverview:
        """Return a space of the list."""
        self._settle(name)
        return SpaceOverview(
            name, self._state(name), name == self._default, totals_of(self._stores.of(name).root)
        )

    def statistics(self, name: str) -> Statistics:
        """Return what a space holds. Raises SpaceNotFound."""
        if not self._stores.is_space(name):
            raise SpaceNotFound(name)
        self._settle(name)
        return statistics_of(self._stores.of(name))

    def counts(self) -> tuple[int, int, int]:
        """Return the numbers of all spaces, of the open and of the suspended ones."""
        names = set(self._stores.names())
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
