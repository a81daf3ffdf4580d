"""The work of StreamUpdates and PublishDelta."""

from contextlib import suppress

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts
from recollect_server.services.streaming.log import Encode, Interest, News, UpdateLog
from recollect_server.services.streaming.snapshot import Choice, Snapshots
from recollect_server.services.streaming.subscription import Subscription
from recollect_server.services.working_context import Limits


class LiveUpdates:
    """Live updates of a space. Raises the errors of `domain.errors`; safe to call from any
    thread.
    """

    def __init__(
        self, space: Space, limits: Limits, encode: Encode, *, draft_timeout: int, max_draft: int
    ) -> None:
        """`limits` of a snapshot; `encode` makes what is sent; `draft_timeout` in milliseconds;
        `max_draft` in characters.
        """
        self._space = space
        self._drafts = Drafts(space.clock, timeout=draft_timeout, max_length=max_draft)
        self._log = UpdateLog(space, self._drafts, encode)
        self._snapshots = Snapshots(self._log, limits)

    def subscribe(
        self, interest: Interest, choice: Choice, cursor: str, max_turns: int
    ) -> Subscription:
        """Begins to watch; call `unsubscribe` once in the end.

        Raises InvalidField, ConversationNotFound, IndexUnavailable, StorageUnavailable.
        """
        # before the position is taken: from here on the newest updates are kept in memory
        self._log.watch()
        try:
            return Subscription(self._log, self._snapshots, interest, choice, cursor, max_turns)
        except BaseException:
            self._log.unwatch()
            raise

    def unsubscribe(self) -> None:
        """One watcher less."""
        self._log.unwatch()

    def advance(self, timeout: float) -> News:
        """Waits for news (see `UpdateLog.advance`). One thread calls it, again and again."""
        return self._log.advance(timeout)

    def wake(self) -> None:
        """Lets `advance` return now."""
        self._log.wake()

    def publish(
        self, conversation_id: str, draft_id: str, offset: int, text: str, *, done: bool
    ) -> None:
        """Passes on more text of an unfinished answer. Raises InvalidField, ConversationNotFound,
        StorageUnavailable.
        """
        with suppress(IndexUnavailable):
            # so that what was written before the draft is told before it
            self._space.index.settle()
        with self._space.reading(conversation_id) as state:
            channel = state.conversation.channel
            self._drafts.publish(conversation_id, channel, draft_id, offset, text, done=done)
        self._log.touch((conversation_id, channel))

    def tick(self) -> None:
        """Some time passed: drops the drafts that nothing was added to for too long."""
        for about in self._drafts.expire():
            self._log.touch(about)
