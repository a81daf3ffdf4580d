"""The work of StreamUpdates and PublishDelta."""

from collections.abc import Callable
from contextlib import suppress

from recollect_server.domain.errors import ConversationReadOnly, IndexUnavailable
from recollect_server.domain.live import Live
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts
from recollect_server.services.streaming.log import UpdateLog
from recollect_server.services.streaming.snapshot import Choice, Snapshots
from recollect_server.services.streaming.subscription import Subscription
from recollect_server.services.streaming.watching import Encode, Interest, NewUpdates
from recollect_server.services.working_context import LoadLimits
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.order import Part


class LiveUpdates:
    """Live updates of a space. Raises the errors of `domain.errors`; safe to call from any
    thread.
    """

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
        self._space = space
        self._drafts = Drafts(space.clock, timeout=draft_timeout, max_length=max_draft)
        self._log = UpdateLog(space, space.order(Kind.CONVERSATION), self._drafts, encode)
        self._snapshots = Snapshots(self._log, limits)

    def subscribe(
        self, interest: Interest, choice: Choice, cursor: str, max_turns: int
    ) -> Subscription:
        """Begin a subscription; call `unsubscribe` once at its end.

        Raises InvalidField, ConversationNotFound, IndexUnavailable, StorageUnavailable.
        """
        # before the position is taken: from here on the newest updates are kept in memory
        return self._log.subscribed(
            lambda: Subscription(self._log, self._snapshots, interest, choice, cursor, max_turns)
        )

    def unsubscribe(self) -> None:
        """Count one watcher less."""
        self._log.unsubscribe()

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal` when `advance` has something to do (see `UpdateLog.listen`)."""
        self._log.listen(signal)

    def expect(self) -> None:
        """Note that the caller of `advance` waits for the next signal from now on."""
        self._log.expect()

    def advance(self) -> NewUpdates:
        """Take the changes that came (see `UpdateLog.advance`). Only one thread calls it."""
        return self._log.advance()

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
            self._space.index.settle()
        with self._space.reading(conversation_id) as state:
            channel = state.conversation.channel
            if state.conversation.pinned and speaks_from not in ("", channel):
                raise ConversationReadOnly(conversation_id, channel)
            self._log.publish(Part(conversation_id, draft_id, channel, offset, text, done))
        self._log.touch((conversation_id, channel))

    def tick(self) -> None:
        """Do the periodic work, and drop the drafts that did not grow for too long."""
        self._log.tick()
        for conversation_id, channel, draft_id in self._drafts.expire():
            self._log.expired(conversation_id, draft_id)
            self._log.touch((conversation_id, channel))
