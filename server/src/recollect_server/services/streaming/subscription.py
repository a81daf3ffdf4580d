"""One watcher of conversations: its filter, and the drafts that were sent to it."""

from recollect_server.services.streaming.drafts import Key, Sent
from recollect_server.services.streaming.followed import Watcher
from recollect_server.services.streaming.log import UpdateLog
from recollect_server.services.streaming.snapshot import Choice, Snapshots
from recollect_server.services.streaming.watching import Batch, Interest, NewUpdates, Renewed
from recollect_server.storage.logs.order import Mark


class Subscription(Watcher):
    """Subscription of one watcher."""

    __slots__ = (
        "_choice",
        "_drafts_seen",
        "_max_turns",
        "_resets",
        "_sent",
        "_snapshots",
        "interest",
    )

    _log: UpdateLog

    def __init__(
        self,
        log: UpdateLog,
        snapshots: Snapshots,
        interest: Interest,
        choice: Choice,
        cursor: str,
        max_turns: int,
    ) -> None:
        self.interest = interest
        self._snapshots = snapshots
        self._choice = choice
        self._max_turns = max_turns
        self._sent: dict[Key, Sent] = {}
        self._drafts_seen = -1
        self._resets = log.resets
        super().__init__(log, cursor)

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""
        return new.everyone or (bool(new.about) and self.interest.wants_any(new.about))

    def _behind(self, position: Mark, most: int) -> tuple[Batch, Mark]:
        if self._resets != self._log.resets:
            raise Renewed
        return self._log.behind(position, self.interest, most)

    def _unplaced(self) -> list[bytes]:
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
