"""One watcher: its place in the log, its filter, and what comes next for it. It holds
no update.
"""

from recollect_server.domain.update import Heartbeat, Update
from recollect_server.services.streaming.drafts import Key, Sent
from recollect_server.services.streaming.log import UpdateLog
from recollect_server.services.streaming.snapshot import Choice, Snapshots
from recollect_server.services.streaming.watching import Batch, Interest, NewUpdates, Renewed


class Subscription:
    """Subscription of one watcher. One thread at a time may call it."""

    __slots__ = (
        "_choice",
        "_drafts_seen",
        "_log",
        "_max_turns",
        "_parts",
        "_position",
        "_resets",
        "_sent",
        "_snapshots",
        "interest",
    )

    def __init__(
        self,
        log: UpdateLog,
        snapshots: Snapshots,
        interest: Interest,
        choice: Choice,
        cursor: str,
        max_turns: int,
    ) -> None:
        """Begins with a snapshot, or behind a cursor.

        Raises InvalidField, ConversationNotFound, IndexUnavailable, StorageUnavailable.
        """
        self.interest = interest
        self._log = log
        self._snapshots = snapshots
        self._choice = choice
        self._max_turns = max_turns
        self._sent: dict[Key, Sent] = {}
        self._drafts_seen = -1
        self._parts: tuple[bytes, ...] = ()
        self._resets = log.resets
        position = log.position_of(cursor) if cursor else None
        if position is None:
            self._begin(reset=bool(cursor))
        else:
            self._position = position

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""
        return new.everyone or (bool(new.about) and self.interest.wants_any(new.about))

    def take(self, most: int) -> tuple[Batch, bool]:
        """Return at most `most` updates that come next, and whether more wait. Raises
        IndexUnavailable, StorageUnavailable.

        The returned updates count as delivered.
        """
        if self._parts:
            parts, self._parts = self._parts, ()
            return Batch(list(parts)), True
        before = self._position
        if self._resets != self._log.resets:
            self._begin(reset=True)
            return self.take(most)
        try:
            batch, self._position = self._log.behind(before, self.interest, most)
        except Renewed:
            self._begin(reset=True)
            return self.take(most)
        if batch.updates or self._position != before:
            return batch, True
        return Batch(self._new_parts_of_drafts()), False

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the cursor."""
        return self._log.encode(
            Update(str(self._position), "", self._log.space.clock(), Heartbeat())
        )

    def _new_parts_of_drafts(self) -> list[bytes]:
        drafts = self._log.drafts
        version = drafts.version  # before what is read with it
        if version == self._drafts_seen:
            return []
        updates = drafts.new_parts(self._sent, self.interest.wants, self._log.encode)
        self._drafts_seen = version
        return updates

    def _begin(self, *, reset: bool) -> None:
        resets = self._log.resets
        snapshot = self._snapshots.take(self.interest, self._choice, self._max_turns, reset=reset)
        self._resets = resets  # only now: a snapshot that fails is taken again
        self._position = snapshot.position
        self._parts = snapshot.parts
        self._sent.clear()
        self._drafts_seen = -1
