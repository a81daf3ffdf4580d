"""Deliveries of providers into conversations, or communications, that are deleted: kept as hashes,
so that what a provider delivers again does not come back.
"""

from collections.abc import Sequence

from recollect_server.kernel.compare.checks import Checker, Findings, again
from recollect_server.kernel.erase.erasing import DeletedLog, Participant
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.derived import Removed
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import FORGOTTEN
from recollect_server.people.received import (
    deliveries,
    forget_deliveries,
    forgotten_deliveries,
    forgotten_ledger,
)
from recollect_server.people.routing_table import routing_of


class Deliveries(Participant):
    """The ledger of forgotten messages, and what the index has of it."""

    ledgers = (FORGOTTEN,)

    def erase(self, index: Index, deleted: Sequence[DeletedLog]) -> Removed:
        """Add to the ledger what providers delivered into deleted logs."""
        logs = self.store
        hashes: list[str] = []
        for it in deleted:
            own = deliveries(it.lines())
            # a new ledger would let a deleted space be there again
            if own and not (logs.sharing and logs.sharing.is_deleted_with_space(it.name)):
                hashes += own
        if hashes and logs.sharing is not None:
            self.before_logs(index)  # another process may have written some there
            hashes = [it for it in hashes if not routing_of(index).is_forgotten(it)]
        if hashes:
            routing = routing_of(index)
            size = forget_deliveries(forgotten_ledger(logs), hashes, routing.forgotten_bytes())
            hit("delete.forgotten")
            routing.forget_deliveries(hashes, size)
        return {}

    def before_logs(self, index: Index) -> None:
        """Index the ledger."""
        ledger = forgotten_ledger(self.store)
        ledger.recover()
        if (size := ledger.size()) != routing_of(index).forgotten_bytes():
            routing_of(index).forget_deliveries(forgotten_deliveries(ledger), size)

    follow = before_logs


class DeliveryChecker(Checker):
    """Comparison of the index with the ledger of forgotten messages."""

    def of_space(self, findings: Findings) -> None:
        """Name what the index does not know of the ledger, as far as it has that."""
        comparison = self.comparison
        if (index := comparison.index) is not None:
            problems = again(lambda: self._problems(index))
            findings.add("", [f"index: {problem}" for problem in problems])

    def _problems(self, index: Index) -> list[str]:
        self.comparison.follow()
        with index.moment(settled=True):  # first: the ledger has each before the index
            count = int(index.value("SELECT count(*) FROM forgotten"))
            size = routing_of(index).forgotten_bytes()
        ledger = forgotten_ledger(self.comparison.store)
        there = len(set(forgotten_deliveries(ledger, size)))
        return [f"it knows {count} of {there} forgotten messages"] if count < there else []
