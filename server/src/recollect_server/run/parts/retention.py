"""The part of retention in a space."""

from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import Clock
from recollect_server.retention.service import (
    NewRules,
    Retention,
    RetentionGrace,
    RuleTimesFile,
    retention_ledger,
)
from recollect_server.run.jobs.of_space import RetentionKeeper
from recollect_server.run.parts.opening import Opening
from recollect_server.run.settings import Settings


def of_all_spaces(live: Live[Settings], clock: Clock) -> tuple[RetentionGrace, NewRules]:
    """Return what bounds and delays the rules of all spaces together."""
    grace = live.view(lambda now: now.retention_grace.total_seconds())
    rules = live.view(lambda now: now.retention_rules)
    new_rules = NewRules(rules, grace, clock, RuleTimesFile(live.now.data_dir))
    new_rules.follow()
    return RetentionGrace(grace, clock), new_rules


def register(opening: Opening) -> None:
    shared, name = opening.shared, opening.name
    receipts = retention_ledger(opening.space.store)
    receipts.recover()
    rules = opening.live.view(
        lambda now: tuple(rule for rule in now.retention_rules if rule.is_for(name))
    )
    retention = Retention(
        opening.space, lambda: rules.now, receipts, shared.retention_grace, shared.new_rules
    )
    opening.start(RetentionKeeper(opening.give(retention)))
