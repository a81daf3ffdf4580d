"""Updates for panels of external communications: a snapshot, then every change in its order.

Their log is a table of its own, and changes are few beside those of conversations: every watcher
reads the index by its position, and the last answer is kept for those who ask the same. So a
watcher holds nothing but its place, and one that is slow falls behind.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

from recollect_server.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.external import (
    Changed,
    CommunicationUpdate,
    Escalated,
    Exchanged,
    Listed,
)
from recollect_server.services.external.panel import (
    LISTED,
    OURS,
    CommunicationWatcher,
    EncodeChange,
    cursor_text,
)
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.space.events import CommunicationChanged
from recollect_server.services.streaming.watching import Batch, NewUpdates, Renewed
from recollect_server.storage.index.external import ExternalChanges
from recollect_server.storage.index.external_rows import ExternalRow, ExternalUpdate
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.order import Mark

_PART = 200  # changes that are read at once
# of their messages: a watcher that missed much is caught up a part at a time, as `StreamUpdates`
# does
_PART_BYTES = 4 << 20


class LiveCommunications:
    """Changes of external communications, for watchers. Safe to call from any thread."""

    def __init__(self, store: CommunicationStore, encode: EncodeChange) -> None:
        """`encode` makes what is sent."""
        self.store = store
        self.encode = encode
        # guards everything below; nothing slow happens under it
        self._guard = threading.Lock()
        self._signal: Callable[[], None] | None = None
        self._changes = 0
        self._delivered = 0  # how many of them `advance` returned
        self._epoch = store.space.index.log.epoch
        # the last one
        self._answered: tuple[tuple[Mark, int, int], tuple[Batch, Mark]] | None = None
        store.space.subscribe(CommunicationChanged, lambda _: self._note())

    def subscribe(self, cursor: str) -> CommunicationWatcher:
        """Begin a subscription, behind a cursor or with a snapshot. Raises InvalidField,
        IndexUnavailable.
        """
        return CommunicationWatcher(self, cursor)

    def unsubscribe(self) -> None:
        """Count one watcher less."""

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which returns at once, when `advance` has something to do."""
        with self._guard:
            self._signal = signal

    def expect(self) -> None:
        """Signal changes that came since the last `advance`."""
        if self._changes != self._delivered and self._signal is not None:
            self._signal()

    def advance(self) -> NewUpdates:
        """Take the changes that came, or another index."""
        with self._guard:
            count = self._changes - self._delivered
            self._delivered = self._changes
        epoch = self.store.space.index.log.epoch
        renewed, self._epoch = epoch != self._epoch, epoch
        return NewUpdates((), count, everyone=renewed or count > 0)

    def tick(self) -> None:
        """Try again what the index refused, and look for another index."""
        if self.store.behind:
            # it was logged when it was refused
            with suppress(IndexUnavailable, StorageUnavailable):
                self.store.catch_up()
        if self.store.space.index.log.epoch != self._epoch and self._signal is not None:
            self._signal()

    def behind(self, position: Mark, most: int) -> tuple[Batch, Mark]:
        """Return the oldest updates behind a position, and the position behind them.

        Raises Renewed, IndexUnavailable, StorageUnavailable.
        """
        index = self.store.space.index
        if position.epoch != index.log.epoch:
            raise Renewed
        with self._guard:
            question = (
                position,
                most,
                self._changes,
            )  # what was changed before this is in the index
            if self._answered and self._answered[0] == question:
                return self._answered[1]
        changes = index.external.changes(position.key.transaction, min(most, _PART), _PART_BYTES)
        if not changes.whole:
            raise Renewed
        updates = [self.encode(self._update(index, row, changes)) for row in changes.rows]
        answer = (
            Batch(updates),
            Mark.numbered(
                index.log.epoch, changes.rows[-1].cursor if changes.rows else changes.last
            ),
        )
        with self._guard:
            self._answered = question, answer
        return answer

    def snapshot(self, *, reset: bool) -> tuple[bytes, Mark]:
        """Return the newest communications, and the position in the log that they belong to. Raises
        IndexUnavailable.
        """
        index = self.store.space.index
        last, communications = index.external.newest(LISTED)
        position = Mark.numbered(index.log.epoch, last)
        now = self.store.space.clock()
        return self.encode(
            CommunicationUpdate(
                cursor_text(position), "", now, Listed(tuple(communications)), reset=reset
            )
        ), position

    def position_of(self, cursor: str) -> Mark | None:
        """Return the position that a cursor names; None if this log does not have it. Raises
        InvalidField, IndexUnavailable.
        """
        text = cursor.removeprefix(OURS) if cursor.startswith(OURS) else ""
        position = Mark.of(text)
        if position is None:
            raise InvalidField.of("cursor", "is not a cursor that this stream gave out")
        index = self.store.space.index
        if position.epoch != index.log.epoch:
            return None
        if position.key.transaction > index.external.newest(0)[0]:
            return None
        return position

    def _note(self) -> None:
        with self._guard:
            self._changes += 1
            signal = self._signal
        if signal is not None:
            signal()

    def _update(
        self, index: Index, row: ExternalRow, changes: ExternalChanges
    ) -> CommunicationUpdate:
        communication = changes.communications[row.number]
        kind: Exchanged | Changed | Escalated = Changed(communication)
        if row.kind == ExternalUpdate.MESSAGE:
            place = changes.places.get(row.cursor)
            messages = self.store.messages(communication.id, [place]) if place else []
            kind = Exchanged(communication, messages[0] if messages else None)
        elif row.kind == ExternalUpdate.ESCALATED and (
            escalation := changes.escalations.get(row.escalation_id)
        ):
            kind = Escalated(escalation)
        return CommunicationUpdate(
            cursor_text(Mark.numbered(index.log.epoch, row.cursor)),
            communication.id,
            row.time,
            kind,
        )
