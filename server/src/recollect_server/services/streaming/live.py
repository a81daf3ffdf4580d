"""The work of StreamUpdates and PublishDelta: live updates of a space, and their watchers."""

from contextlib import suppress

from recollect_server.domain.errors import ConversationReadOnly, IndexUnavailable
from recollect_server.domain.live import Live
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts, Key, Sent
from recollect_server.services.streaming.followed import Watcher
from recollect_server.services.streaming.log import UpdateLog
from recollect_server.services.streaming.snapshot import Choice, Snapshots
from recollect_server.services.streaming.watching import (
    Batch,
    Encode,
    Interest,
    NewUpdates,
    Renewed,
)
from recollect_server.services.working_context import LoadLimits
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.order import Mark, Part


class LiveUpdates(UpdateLog):
    """Live updates of a space. Raises the errors of `domain.errors`."""

    def __init__(
        self,
        space: Space,
        limits: Live[LoadLimits],
        encode: Encode,
        *,
        draft_timeout: int,
        max_draft: int,
    ) -> None:
        """`limits` of a snapshot; `encode` makes what is sent; `draft_timeout` in milliseconds;
        `max_draft` in characters.
        """
        drafts = Drafts(space.clock, timeout=draft_timeout, max_length=max_draft)
        super().__init__(space, space.order(Kind.CONVERSATION), drafts, encode)
        self._snapshots = Snapshots(self, limits)

    def subscribe(
        self, interest: Interest, choice: Choice, cursor: str, max_turns: int
    ) -> "Subscription":
        """Begin a subscription; call `unsubscribe` once at its end.

        Raises InvalidField, ConversationNotFound, DataUnavailable.
        """
        # before the position is taken: from here on the newest updates are kept in memory
        return self.subscribed(
            lambda: Subscription(self, self._snapshots, interest, choice, cursor, max_turns)
        )

    def publish(
        self,
        conversation_id: str,
        draft_id: str,
        offset: int,
        text: str,
        *,
        done: bool,
        speaks_from: str = "",
    ) -> None:
        """Publish more text of an unfinished answer. Raises InvalidField, ConversationNotFound,
        StorageUnavailable.
        """
        with suppress(IndexUnavailable):
            # so that earlier changes are delivered before the draft
            self.space.index.settle()
        with self.space.reading(conversation_id) as state:
            channel = state.conversation.channel
            if state.conversation.pinned and speaks_from not in ("", channel):
                raise ConversationReadOnly(conversation_id, channel)
            self.grow(Part(conversation_id, draft_id, channel, offset, text, done))
        self.touch((conversation_id, channel))

    def tick(self) -> None:
        """Do the periodic work, and drop the drafts that did not grow for too long."""
        super().tick()
        for conversation_id, channel, draft_id in self.drafts.expire():
            self.expired(conversation_id, draft_id)
            self.touch((conversation_id, channel))


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
