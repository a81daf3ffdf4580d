"""The part of retention in a space."""

from recollect_server.retention.service import Retention, retention_ledger
from recollect_server.run.jobs.of_space import RetentionKeeper
from recollect_server.run.parts.opening import Opening


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
