"""Registration of features with a space: what a feature brings, and what it takes part in.

The kernel of a space (log, order, index, erase, stream) knows no feature. A space without any
appends, reads, streams and deletes conversations.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from recollect_server.kernel.compare.checks import Checker
from recollect_server.kernel.erase.erasing import Participant
from recollect_server.kernel.index.derived import NO_TABLES, Tables
from recollect_server.kernel.log.ledger import Ledger
from recollect_server.kernel.log.store import LogStore
from recollect_server.kernel.space.conversation_logs import ConversationLogs
from recollect_server.kernel.space.logs import Logs

P = TypeVar("P", bound=Participant)


@dataclass(frozen=True, slots=True)
class Features:
    """Features of a space, as they registered (see `recollect_server.run.features`)."""

    tables: Tables = NO_TABLES
    """Their tables in the index."""
    kinds: tuple[type[Logs[Any]], ...] = ()
    """Kinds of logs beside conversations; each has a table of its kind."""
    participants: tuple[type[Participant], ...] = ()
    at_start: tuple[type[Participant], ...] = ()
    """Those that take part at a start alone, for they have files that an open space has open."""
    checkers: tuple[type[Checker], ...] = ()
    """Parts of a verification."""
    ledgers: tuple[Callable[[LogStore], Ledger[Any]], ...] = ()
    """Ledgers whose lines have a form of their own."""

    def kinds_of(self, store: LogStore) -> tuple[Logs[Any], ...]:
        """Return the logs of all kinds, conversations first."""
        return (ConversationLogs(store), *(it(store) for it in self.kinds))

    def of(self, store: LogStore) -> tuple[Participant, ...]:
        """Return the participants of a space. Raises LogUnavailable."""
        return tuple(it(store) for it in self.participants)
