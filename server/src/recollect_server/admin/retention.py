"""Retention as administrators see it: rules, what they would delete, and what they deleted."""

from collections.abc import Iterable
from typing import Any

from recollect_server.admin.spaces import SpaceStores
from recollect_server.kernel.domain.errors import SpaceNotFound
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.retention.rule import RetentionReceipt, RetentionRule
from recollect_server.retention.service import NewRules, Retention, RetentionPlan, receipts


class RetentionAdministration:
    """The retention of all spaces. Safe to call from any thread."""

    def __init__(
        self,
        stores: SpaceStores,
        rules: Live[tuple[RetentionRule, ...]],
        new_rules: NewRules,
        spaces: Spaces[Any],
        clock: Clock,
    ) -> None:
        self._stores = stores
        self._rules = rules
        self._new_rules = new_rules
        self._clock = clock
        self._spaces: Spaces[OpenedSpace] = spaces

    def rules(self, space: str) -> list[RetentionRule]:
        return [rule for rule in self._rules.now if rule.is_for(space)]

    def start(self, rule: RetentionRule) -> int | None:
        """Return the time from which a rule in force counts, in milliseconds; None if it does."""
        start = self._new_rules.start(rule)
        return start if start > self._clock() else None

    def last_start(self) -> int | None:
        """Return when all rules that wait now will count, in milliseconds; None if none waits."""
        return self._new_rules.last_start()

    def preview(
        self, spaces: Iterable[str], rules: tuple[RetentionRule, ...] | None, limit: int
    ) -> RetentionPlan:
        """Return what rules (None: those in force) are about now. Raises SpaceNotFound."""
        plan = RetentionPlan(limit)
        for space in spaces:
            lease = self._spaces.use_behind(space)
            if lease is None:
                raise SpaceNotFound(space)
            with lease as opened:
                opened.follow()
                own = None if rules is None else tuple(rule for rule in rules if rule.is_for(space))
                opened.service(Retention).plan(plan, own, space)
        return plan

    def receipts(
        self, space: str, before: int | None, limit: int
    ) -> tuple[list[RetentionReceipt], int | None]:
        """Return receipts, the newest first: those before a place; and the place of the next page.
        Raises SpaceNotFound, LogUnavailable.
        """
        if not self._stores.is_space(space):
            raise SpaceNotFound(space)
        return receipts(self._stores.of(space), before, limit)
