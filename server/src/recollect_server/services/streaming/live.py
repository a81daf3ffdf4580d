"""The work of StreamUpdates and PublishDelta."""

from contextlib import suppress

from recollect_server.domain.errors import ConversationReadOnly, IndexUnavailable
from recollect_server.domain.live import Live
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts
from recollect_server.services.streaming.log import UpdateLog
from recollect_server.services.streaming.snapshot import Choice, Snapshots
from recollect_server.services.streaming.subscription import Subscription
from recollect_server.services.streaming.watching import Encode, Interest
from recollect_server.services.working_context import LoadLimits
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.order import Part


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
    ) -> Subscription:
        """Begin a subscription; call `unsubscribe` once at its end.

        Raises InvalidField, ConversationNotFound, IndexUnavailable, StorageUnavailable.
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
