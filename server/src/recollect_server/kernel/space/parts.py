"""The parts of an open space that its larger verbs share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from recollect_server.kernel.domain.conversation import Capacity
from recollect_server.kernel.domain.ids import IS_NAME, Action
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import LogConflict, LogNotFound, LogStore
from recollect_server.kernel.space.conversation_logs import ConversationLogs
from recollect_server.kernel.space.features import Features
from recollect_server.kernel.space.locks import LockOrder, Locks
from recollect_server.kernel.space.logs import Logs
from recollect_server.kernel.space.projection import Projection
from recollect_server.kernel.space.requests import Requests
from recollect_server.kernel.space.states import PendingWrites, States
from recollect_server.kernel.space.writes import Writes


class Doubts:
    """Changes that the store was asked for and may have made although it did not say so, as where
    its answer was lost with the connection: each is followed as one of another process then.
    """

    def __init__(self) -> None:
        self._changes: set[tuple[Action, str]] = set()
        self.settle = self._changes.discard
        """Drops the doubt about a change of a log."""

    def has(self, action: Action, log: str) -> bool:
        """Return whether there is a doubt about a change of a log."""
        return (action, log) in self._changes

    @contextmanager
    def asking(self, action: Action, log: str) -> Iterator[None]:
        """Have the doubt until the block has ended, or has said that the store made no change."""
        self._changes.add((action, log))
        try:
            yield
        except (LogNotFound, LogConflict):
            self.settle((action, log))
            raise
        self.settle((action, log))


class Parts:
    """Parts of one space. `Space` takes their locks for its callers."""

    def __init__(
        self,
        store: LogStore,
        index: Index,
        features: Features,
        clock: Clock,
        publish: Callable[[object], None],
        *,
        is_compared: bool,
        lock_order: LockOrder | None,
        telemetry: Telemetry,
        may_index: bool,
        capacity: Live[Capacity],
    ) -> None:
        """See `Space`."""
        self.store, self.clock, self.publish = store, clock, publish
        self.locks = Locks(lock_order, telemetry)
        self.doubts = Doubts()
        self.participants = features.of(store)
        self.transcripts = transcripts = ConversationLogs(store)
        self.kinds = features.kinds_of(store)
        self.projection = projection = Projection(index, telemetry, is_compared=is_compared)
        self.pending = pending = PendingWrites(projection.overlay)
        self.states = states = States(
            transcripts, projection, pending, clock, publish, may_index=may_index
        )
        self.requests = Requests(transcripts, projection, states)
        self.writes = Writes(
            transcripts,
            projection,
            pending,
            states,
            clock,
            publish,
            capacity,
            telemetry,
        )

    def logs_of(self, name: str) -> Logs[Any]:
        """Return the logs of the kind that a name is of."""
        for it in self.kinds:
            if IS_NAME[it.kind](name):
                return it
        raise ValueError("not the name of a log that the index has")
