"""One owner's data, open: the transcripts, their index, and the locks that order the writes of each conversation."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import Content, Conversation
from recollect_server.domain.errors import ConversationNotFound, IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import is_conversation_id
from recollect_server.domain.message import Message
from recollect_server.domain.message_ids import MAX_LINES
from recollect_server.domain.packing import HOT_TURNS
from recollect_server.domain.routing import mail_ids_of
from recollect_server.domain.time import Clock
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.index_lag import IndexLag
from recollect_server.services.space.locks import StripedLocks
from recollect_server.services.space.logs import IndexAhead, entries_of
from recollect_server.services.space.pending import Batch, PendingWrites, Stuck
from recollect_server.services.space.recent_turns import RecentTurns
from recollect_server.services.space.routes import Routes
from recollect_server.services.space.state import ConversationState, RequestKey, placed_again
from recollect_server.services.space.trust import RecentRequests, Suspects
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.logs.anchors import AnchorFile
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.lines import Line, contents_of, encoded
from recollect_server.storage.logs.store import START, LogConflict, LogNotFound, LogUnavailable, Position

log = structlog.get_logger("recollect.space")

_MAX_HEADS = 20_000  # some 1 KiB each


@frozen
class Committed:
    """What a write came to."""

    head: ConversationState
    lines: list[Line]
    cursor: int
    """0: the index could not take it yet."""


class Space:
    """One owner's data. Every write of a conversation happens under `locks.hold(its id)`."""

    def __init__(self, logs: FolderStore, index: Index, clock: Clock, hot_turns: int = HOT_TURNS) -> None:
        """`hot_turns` of a conversation are kept in memory once a context was built for it."""
        self.logs = logs
        self.transcripts = ConversationLogs(logs)
        self.index = index
        self.clock = clock
        self.anchors = AnchorFile(logs)
        self.recent_turns = RecentTurns(turns=hot_turns)
        self.pending = PendingWrites()
        self.lag = IndexLag()
        self.suspects = Suspects()
        self._recent_requests = RecentRequests()
        self.routes = Routes(self.lag, logs.has, self.is_pinned)
        self.forgetting: list[Callable[[str, int | None], int]] = []
        """Told of each conversation that is deleted, with its number if it is indexed; they say how much they forgot."""
        self._retired: list[Index] = []  # closed at the end: somebody may still read them
        self.locks = StripedLocks()
        self.on_index: Callable[[Index], None] = _nothing
        """Called with each index that is used after the first, while nobody writes."""
        self.on_cursors_lost: Callable[[], None] = _nobody
        """Called when cursors that were answered will never be delivered, for the index had refused their updates."""
        self.request_locks = StripedLocks()  # taken before a conversation's lock, never after
        self.place_locks = StripedLocks()
        """By the name of a place: which conversation is pinned there. Taken after a request's lock and before a conversation's."""
        self._guard = threading.Lock()  # guards `_heads`; nothing slow happens under it
        self._heads: OrderedDict[str, ConversationState] = OrderedDict()

    def head(self, conversation_id: str) -> ConversationState:
        """The end of what a conversation's transcript has. Raises ConversationNotFound, StorageUnavailable. Hold its lock."""
        if stuck := self.pending.of(conversation_id):
            return replace(stuck.head, indexed=False) if self.lag.has(conversation_id) else stuck.head
        with self._guard:
            if head := self._heads.get(conversation_id):
                self._heads.move_to_end(conversation_id)
                return head
        head = self._load(conversation_id)
        self._keep(head)
        return head

    def current(self, conversation: Conversation) -> Conversation:
        """Return what is known of a conversation that the index named: where it did not take in all, what the transcript says.

        Call it after the index was asked. Hold no conversation's lock.
        """
        if not self.lag.has(conversation.id):
            return conversation
        with self.locks.hold(conversation.id), suppress(ConversationNotFound, StorageUnavailable):
            return self.head(conversation.id).conversation
        return conversation

    def is_pinned(self, conversation_id: str) -> bool:
        """Whether a conversation is known, without looking it up, to be there and pinned. Whoever writes there looks again."""
        head = self._heads.get(conversation_id)
        return head is not None and head.conversation.pinned

    def end(self, conversation_id: str) -> ConversationState:
        """Where the next line of a conversation goes: what is held is written first, or, where it still cannot be, stands before.

        Raises ConversationNotFound, StorageUnavailable. Hold the conversation's lock.
        """
        stuck = self.pending.of(conversation_id)
        if stuck is None or not stuck.batches:
            return self.head(conversation_id)
        try:
            self._write_held(stuck)
        except LogUnavailable as error:
            log.warning("held_messages_refused", conversation=conversation_id, reason=error.reason)
            return stuck.end
        self.pending.release(conversation_id)
        return stuck.head

    def held(self, conversation_id: str) -> list[Message]:
        """The messages of a conversation that are held, as they will be written. Hold its lock."""
        stuck = self.pending.of(conversation_id)
        return [message for batch in stuck.batches for message in batch.messages] if stuck else []

    def write_held(self) -> None:
        """Tries once more to write everything that is held: the server stops. What cannot be written is logged, and lost."""
        for stuck in self.pending.all():
            conversation_id = stuck.head.conversation.id
            with self.locks.hold(conversation_id):
                try:
                    self._write_held(stuck)
                except (StorageUnavailable, ConversationNotFound) as error:
                    count = sum(len(batch.messages) for batch in stuck.batches)
                    log.error("held_messages_lost", conversation=conversation_id, messages=count, reason=str(error))

    def _write_held(self, stuck: Stuck) -> None:
        conversation_id = stuck.head.conversation.id
        while stuck.batches:
            batch = stuck.batches[0]
            messages: list[Content] = [*placed_again(stuck.head, batch.messages, batch.turn_count)]
            try:
                done = self._write(stuck.head, messages, batch.request, batch.draft_id)
            except (LogConflict, LogNotFound) as changed:
                # Something else wrote to the file. It may have put these very messages there.
                log.warning("transcript_changed", conversation=conversation_id, reason=changed.reason)
                self.forget(conversation_id)
                try:
                    stuck.head = self._load(conversation_id)
                except ConversationNotFound:
                    log.error("held_messages_lost", conversation=conversation_id, reason="the transcript is gone")
                    self.pending.release(conversation_id)
                    raise
                if batch.request and self.index.requests.find(batch.request.id):
                    self.pending.drop(stuck)
                continue
            self.pending.written(stuck, done.head)

    def _load(self, conversation_id: str) -> ConversationState:
        if not is_conversation_id(conversation_id):
            raise ConversationNotFound(conversation_id)
        try:
            size = self.logs.length(conversation_id)
        except LogNotFound:
            raise self.transcripts.not_found(conversation_id) from None
        try:
            stored = self.index.conversations.find(conversation_id)
            if stored is None or stored.bytes != size or stored.calls_unknown:
                number, conversation, end = self.transcripts.catch_up(
                    self.index, conversation_id, stored, time=self.clock(), log_updates=True
                )
                stored = Stored(number, conversation, end.bytes, end.lines)
                if self.index.log.note_refused_cursors():
                    self.on_cursors_lost()
                self.anchors.changed()
                self.routes.changed()
            self.lag.caught_up(conversation_id)
            if self.suspects.has(conversation_id):
                self.compare(conversation_id)
                self.suspects.clear(conversation_id)
            return ConversationState(stored.conversation, stored.bytes, stored.lines, stored.number, indexed=True)
        except IndexUnavailable as error:
            self.lag.note(conversation_id, str(error))
            if isinstance(error, IndexAhead):
                # The file may grow past what is indexed, and the next start would take that for its own.
                self.index.condemn(str(error))
                with suppress(IndexUnavailable):
                    self.index.want_rebuild(str(error))
            return self._read_head(conversation_id)

    def compare(self, conversation_id: str) -> None:
        """Compare the index with a conversation's transcript, all but the words. Hold the conversation's lock.

        Raises StorageUnavailable; IndexUnavailable if the index is behind, or if they differ: then nothing believes it any more.
        """
        stored = self.index.conversations.find(conversation_id)
        if self.lag.has(conversation_id) or self.pending.of(conversation_id):
            raise IndexUnavailable("the index did not take in the newest lines")
        if stored is None:
            wrong = "it is not in the index"
        else:
            contents = Contents(self.index)
            reading = self.transcripts.read_to_compare(contents, conversation_id, stored)
            wrong = next(self.transcripts.differences(contents, conversation_id, stored, reading, words=False), "")
        if wrong:
            self.distrust(f"{conversation_id}: {wrong}")
            raise IndexUnavailable(f"the index is damaged: {wrong}")

    def distrust(self, reason: str) -> None:
        """Stop using the index at once: it contradicts the transcripts. Its keeper makes it anew."""
        index = self.index
        with suppress(IndexUnavailable):
            index.want_rebuild(reason)
        if index.give_up(reason):
            log.error("index_damaged", reason=reason)
        with self._guard:
            self._heads.clear()

    @property
    def doubt(self) -> str:
        """Why the index may miss something of what is stored, or nothing."""
        if reason := self.suspects.reason:
            return reason
        count = len(self.lag.conversations())
        return f"the newest messages of {count} conversations are not indexed yet" if count else ""

    def _read_head(self, conversation_id: str) -> ConversationState:
        """The end of a conversation by the transcript alone."""
        lines, conversation = self.transcripts.read_whole(conversation_id)
        if conversation is None:
            raise self.transcripts.not_found(conversation_id)
        return ConversationState(conversation, lines[-1].end, lines[-1].sequence, None, indexed=False)

    def _keep(self, head: ConversationState) -> None:
        conversation_id = head.conversation.id
        with self._guard:
            self._heads[conversation_id] = head
            self._heads.move_to_end(conversation_id)
            # Asked only now: the index may refuse lines at any moment, and says so before it takes the head away.
            if not head.indexed or self.lag.has(conversation_id):
                # Read again for the next write, which tries again to bring the index up.
                del self._heads[conversation_id]
            while len(self._heads) > _MAX_HEADS:
                self._heads.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """Drops what is remembered of a conversation: its file changed or went."""
        self.recent_turns.forget(conversation_id)
        self._recent_requests.forget(conversation_id)
        with self._guard:
            self._heads.pop(conversation_id, None)

    def change_index(self, index: Index) -> None:
        """From here on another index is used, which was made from the transcripts."""
        with self.locks.hold_all(), self._guard:
            self._retired.append(self.index)
            self.index = index
            self.suspects.end()
            self._heads.clear()
            self.anchors.changed()
            self.routes.changed()
            self.on_index(index)

    def close_index(self) -> None:
        """Closes the index, and those used before it. No call may be under way."""
        sound = not self.suspects.reason and not self.index.lost()
        for index in self._retired:
            index.close()
        self.index.close(sound=sound)

    def known_request(self, request_id: str, conversation_id: str | None = None) -> KnownRequest | None:
        """A request that was carried out before, or whose messages are held; or None.

        `conversation_id` is where it would have been; its lock is held. Raises IndexUnavailable if that cannot be told.
        """
        if held := self.pending.request(request_id):
            return KnownRequest(request_id, held[0].hash, held[1])
        if known := self.lag.request(request_id) or self.index.requests.find(request_id):
            return known
        if anchor := self.anchors.request(request_id):
            return KnownRequest(request_id, anchor.stamp.request_hash, "")
        if known := self.lag.request(request_id):  # the index may have refused its lines only now, before it answered
            return known
        return self._recent_request(request_id, conversation_id) if conversation_id else None

    def _recent_request(self, request_id: str, conversation_id: str) -> KnownRequest | None:
        if not self._recent_requests.has(conversation_id):
            head = self.head(conversation_id)
            self._recent_requests.read(self.logs, conversation_id, Position(head.lines, head.size))
        known = self._recent_requests.find(conversation_id, request_id)
        if known and not self.lag.has(conversation_id):
            self.distrust(f"{conversation_id}: the index does not know the request {request_id}")
        return known

    def begin(self, contents: list[Content], conversation_id: str, request: RequestKey | None) -> Committed:
        """Writes the first lines of a new conversation, all or none, durable when it returns. The first says that it began; a
        message brings its sequence and turn. Raises StorageUnavailable. Hold its lock.
        """
        return self._index(conversation_id, None, self.transcripts.append(conversation_id, START, contents, request))

    def commit(
        self, head: ConversationState, contents: list[Content], request: RequestKey | None, *, draft_id: str = ""
    ) -> Committed:
        """Appends lines, all or none, durable when it returns; then brings the index up.

        Messages bring their sequence, which must be what follows; `head` is `end`'s. Raises StorageUnavailable; then messages are
        held and may be written later, and an event is not written. Hold the conversation's lock. An index that fails does not fail
        this: the lines are indexed later.
        """
        if head.lines + len(contents) > MAX_LINES:
            raise InvalidField.of("conversation_id", f"the conversation is full: {MAX_LINES} lines. Begin a new one")
        conversation_id = head.conversation.id
        stuck = self.pending.of(conversation_id)
        if stuck and stuck.batches:
            raise self._hold(head, contents, request, draft_id, "it still refuses what came before")
        try:
            done = self._write(head, contents, request, draft_id)
        except (LogConflict, LogNotFound):
            self.forget(conversation_id)
            self.pending.release(conversation_id)
            raise
        except LogUnavailable as error:
            raise self._hold(head, contents, request, draft_id, error.reason) from error
        if stuck:
            self.pending.release(conversation_id)
        return done

    def _write(self, head: ConversationState, contents: list[Content], request: RequestKey | None, draft_id: str) -> Committed:
        end = Position(head.lines, head.size)
        return self._index(
            head.conversation.id, head, self.transcripts.append(head.conversation.id, end, contents, request, draft_id)
        )

    def _hold(
        self, head: ConversationState, contents: list[Content], request: RequestKey | None, draft_id: str, reason: str
    ) -> StorageUnavailable:
        stuck = self.pending.keep(head)
        messages = [content for content in contents if isinstance(content, Message)]
        refused = f"the transcript cannot be written: {reason}"
        if not messages:
            return StorageUnavailable(refused)
        lines, data = encoded(entries_of(contents, request, draft_id), head.lines, head.size)
        end = replace(
            head,
            conversation=self.transcripts.behind(head.conversation, lines, head.conversation.id),
            size=lines[-1].end,
            lines=lines[-1].sequence,
        )
        batch = Batch(messages, head.conversation.turn_count, request, draft_id, sum(map(len, data)))
        if self.pending.hold(stuck, end, batch, reason):
            return StorageUnavailable(f"{refused}. The messages are held and may be written later: repeat with the same request_id")
        return StorageUnavailable(f"{refused}, and no more messages can be held")

    def _index(self, conversation_id: str, head: ConversationState | None, lines: list[Line]) -> Committed:
        before = head.conversation if head else None
        after = self.transcripts.behind(before, lines, conversation_id)
        number = head.number if head else None
        cursor = 0
        indexed = head is None or head.indexed
        mail = mail_ids_of(contents_of(lines)) if after.channel == EMAIL else ()
        if indexed:
            try:
                failed = partial(self._not_indexed, after.id, lines)
                number, cursor = self.index.add(number, before, after, lines, mail=mail, time=self.clock(), failed=failed)
            except IndexUnavailable as error:
                indexed = False
                self._not_indexed(after.id, lines, str(error))
        else:
            self._not_indexed(after.id, lines, "")
        if after.channel == EMAIL or (before.pinned if before else False) != after.pinned:
            self.routes.learn(self.index, before, after, contents_of(lines), mail)
        done = ConversationState(after, lines[-1].end, lines[-1].sequence, number, indexed=indexed)
        self._keep(done)
        self.recent_turns.follow(after.id, lines)
        if head is None:
            self._recent_requests.begin(after.id, lines)
        else:
            self._recent_requests.follow(after.id, lines)
        return Committed(done, lines, cursor)

    def _not_indexed(self, conversation_id: str, lines: list[Line], reason: str) -> None:
        """The index did not take these lines in: whoever comes next to the conversation brings it up from the transcript."""
        self.lag.add(conversation_id, lines, reason)
        with self._guard:
            self._heads.pop(conversation_id, None)


def _nobody() -> None:
    """Nobody is to be told."""


def _nothing(_: Index) -> None:
    """Nobody is to be told."""
