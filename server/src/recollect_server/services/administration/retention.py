"""Retention as administrators see it: rules, what they would delete, and what they deleted."""

from itertools import islice
from typing import Any, Protocol

from recollect_server.domain.errors import SpaceNotFound
from recollect_server.domain.live import Live
from recollect_server.domain.retention import RetentionReceipt, RetentionRule, Retired
from recollect_server.services.administration.spaces import SpaceStores
from recollect_server.services.retention import Retention, receipts
from recollect_server.services.spaces.opened import OpenedSpace
from recollect_server.services.spaces.spaces import Spaces


class Retaining(OpenedSpace, Protocol):
    """Protocol of an open space that has rules of retention."""

    retention: Retention


class RetentionAdministration:
    """The retention of all spaces. Safe to call from any thread."""

    def __init__(
        self,
        stores: SpaceStores,
        rules: Live[tuple[RetentionRule, ...]],
        spaces: Spaces[Any],
    ) -> None:
        self._stores = stores
        self._rules = rules
        self._spaces: Spaces[Retaining] = spaces

    def rules(self, space: str) -> list[RetentionRule]:
        return [rule for rule in self._rules.now if rule.is_for(space)]

    def preview(
        self, space: str, rules: tuple[RetentionRule, ...] | None, limit: int
    ) -> tuple[list[Retired], bool]:
        """Return what rules (None: those in force) would delete now, and whether there is more.
        Raises SpaceNotFound.
        """
        lease = self._spaces.use_behind(space)
        if lease is None:
            raise SpaceNotFound(space)
        with lease as opened:
            opened.follow()
            own = None if rules is None else tuple(rule for rule in rules if rule.is_for(space))
            due = list(islice(opened.retention.due(own), limit + 1))
        return due[:limit], len(due) > limit

    def receipts(
        self, space: str, before: int | None, limit: int
    ) -> tuple[list[RetentionReceipt], int | None]:
        """Return receipts, the newest first: those before a place; and the place of the next page.
        Raises SpaceNotFound, LogUnavailable.
        """
        if not self._stores.is_space(space):
            raise SpaceNotFound(space)
        return receipts(self._stores.of(space), before, limit)
