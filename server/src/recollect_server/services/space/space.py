"""One owner's data, open: its logs, their index, and every verb that the services have for them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import structlog

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import AnchorSet, Began, Content, Conversation
from recollect_server.domain.errors import (
    ConversationExists,
    ConversationNotFound,
    ConversationPinned,
    IndexUnavailable,
    InvalidField,
    NothingNamed,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import MAX_LINES, is_conversation_id
from recollect_server.domain.message import Message
from recollect_server.domain.routing import Place as ChannelPlace
from recollect_server.domain.routing import mail_ids_of
from recollect_server.domain.time import Clock
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.deletion import Receipt, finish_delete, settle_anchors
from recollect_server.services.space.events import (
    Appended,
    CursorsLost,
    Deleted,
    IndexReplaced,
    Reloaded,
    Subscribers,
)
from recollect_server.services.space.locks import LockOrder, Locks
from recollect_server.services.space.logs import IndexAhead, Logs, entries_of
from recollect_server.services.space.overlay import Overlay
from recollect_server.services.space.pending import Batch, PendingWrites, Stuck
from recollect_server.services.space.requests import Replays, request_among
from recollect_server.services.space.routes import Routes
from recollect_server.services.space.state import ConversationState, RequestKey, placed_again
from recollect_server.services.space.trust import RecentRequests, Suspects
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.logs.anchors import AnchorFile
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.lines import Line, Place, contents_of, encoded, messages_of
from recollect_server.storage.logs.store import (
    START,
    LogConflict,
    LogNotFound,
    LogUnavailable,
    Position,
)

E = TypeVar("E")

log = structlog.get_logger("recollect.space")

_MAX_STATES = 20_000  # some 1 KiB each


@frozen
class Committed:
    """A write that is durable."""

    state: ConversationState
    lines: list[Line]
    cursor: int
    """Of its last update; 0 if the index could not take it yet."""


class Space:
    """One owner's data, behind verbs. Safe to call from any thread.

    `read`, `reading` and `writing` give the state of a conversation; `begin`, `append` and `record`
    write; `delete` removes. `exclusive` keeps other calls about the same things out. `subscribe`
    passes events on (`services.space.events`). Queries ask `index`, the projection of the logs.

    Locks are taken within, in the order that `services.space.locks` states. A method that needs the
    conversation's lock to be held says so; hold it by `reading` or `writing`.
    """

    def __init__(
        self,
        logs: FolderStore,
        index: Index,
        clock: Clock,
        *,
        unverified: Iterable[str] = (),
        lock_order: LockOrder | None = None,
    ) -> None:
        """`unverified` conversations are compared with the index before it is believed.

        `lock_order` checks the order in which locks are taken.
        """
        self.logs = logs
        self.clock = clock
        self.anchors = AnchorFile(logs)
        self._index = index
        self._transcripts = ConversationLogs(logs)
        self._retired: list[Index] = []  # closed at the end: somebody may still read them
        self._locks = Locks(lock_order)
        self.exclusive = self._locks.exclusive
        self._subscribers = Subscribers()
        self._overlay = Overlay()
        self._pending = PendingWrites(self._overlay)
        self._suspects = Suspects()
        self._suspects.begin(
            unverified, "the index was not closed, and is being compared with the transcripts"
        )
        self._recent_requests = RecentRequests()
        self._replays = Replays(self._transcripts)
        self._routes = Routes(self._overlay, logs.has, self._is_pinned)
        # under way; set at their end, changed under the locks
        self._deletes: dict[str, threading.Event] = {}
        self._guard = threading.Lock()  # guards `_states`; nothing slow happens under it
        self._states: OrderedDict[str, ConversationState] = OrderedDict()

    @property
    def index(self) -> Index:
        """The index that is used now."""
        return self._index

    # Locks and events ---------------------------------------------------------------------------

    @contextmanager
    def reading(self, conversation_id: str) -> Iterator[ConversationState]:
        """Hold a conversation's lock and give its state: it is not written or deleted meanwhile.

        Raises ConversationNotFound, StorageUnavailable.
        """
        with self._locks.conversations.hold(conversation_id):
            yield self._state(conversation_id)

    @contextmanager
    def writing(self, conversation_id: str, *, request: str = "") -> Iterator[ConversationState]:
        """Hold the locks of a request (if it has an id) and of a conversation, to append to its
        end.

        Pending messages are written first or, where that still fails, stand before the end. Raises
        ConversationNotFound, StorageUnavailable.
        """
        with self._locks.exclusive(request=request, conversation=conversation_id):
            yield self._end(conversation_id)

    def subscribe(self, kind: type[E], handler: Callable[[E], None]) -> None:
        """Call the handler with every event of a type (see `services.space.events`)."""
        self._subscribers.add(kind, handler)

    def publish(self, event: object) -> None:
        """Pass an event on to its subscribers."""
        self._subscribers.publish(event)

    # Reading ------------------------------------------------------------------------------------

    def read(self, conversation_id: str) -> ConversationState:
        """Return the state of a conversation as it is written. Hold no conversation's lock.

        Raises ConversationNotFound, StorageUnavailable.
        """
        with self.reading(conversation_id) as state:
            return state

    def lines(
        self, conversation_id: str, after: Position = START, until: int | None = None
    ) -> Iterator[Line]:
        """Yield the lines of a transcript (see `LogStore.read`). Raises LogUnavailable."""
        return self.logs.read(conversation_id, after, until)

    def lines_at(self, conversation_id: str, places: list[Place]) -> list[Line]:
        """Return the lines at places that the index named. Raises LogUnavailable."""
        return self.logs.read_at(conversation_id, places)

    def current(self, conversation: Conversation) -> Conversation:
        """Return a conversation that the index named, by its transcript where the index lacks
        lines.

        Call it after the index was asked. Hold no conversation's lock.
        """
        if not self._overlay.is_lagging(conversation.id):
            return conversation
        with suppress(ConversationNotFound, StorageUnavailable):
            return self.read(conversation.id).conversation
        return conversation

    def pending_messages(self, conversation_id: str) -> list[Message]:
        """Return a conversation's pending messages as they will be written. Hold its lock."""
        stuck = self._pending.of(conversation_id)
        return [message for batch in stuck.batches for message in batch.messages] if stuck else []

    # Routes of channels -------------------------------------------------------------------------

    def pinned_at(self, place: ChannelPlace) -> str | None:
        """Return the conversation that messages of a place join. Hold the place's lock.

        This and the next two raise IndexUnavailable.
        """
        return self._routes.pinned(self._index, place)

    def threads(self, mails: Iterable[int]) -> set[str]:
        """Return the conversations that e-mails with these ids belong to
        (`domain.routing.mail_number`).
        """
        return self._routes.threads(self._index, mails)

    def successor(self, conversation_id: str) -> str:
        """Return the conversation that takes what comes in for this one: itself, or the last that
        continues it.
        """
        return self._routes.end(self._index, conversation_id)

    # Requests -----------------------------------------------------------------------------------

    def find_request(
        self, request: RequestKey, conversation_id: str | None = None
    ) -> KnownRequest | None:
        """Return the same request if it was carried out before. Hold its lock.

        `conversation_id` is the conversation it was about, whose lock is held: its transcript is
        read where the index cannot answer. Without it that raises IndexUnavailable. Raises
        RequestIdReused if the payload was another, StorageUnavailable if its messages are pending.
        """
        try:
            known = self._known_request(request.id, conversation_id)
        except IndexUnavailable:
            if conversation_id is None:
                raise
            known = request_among(self.lines(conversation_id), request.id, conversation_id)
        if known is None:
            return None
        if known.hash != request.hash:
            raise RequestIdReused(request.id)
        if self._overlay.pending(request.id):
            raise StorageUnavailable(
                "the transcript cannot be written yet. The messages are held: repeat with the same request_id"
            )
        return known

    def has_request(self, request_id: str) -> bool:
        """Return True if a request of this id was carried out before. Raises IndexUnavailable."""
        return self._known_request(request_id) is not None

    def flush_request(self, request_id: str) -> None:
        """Try to write the pending messages of a request, if it has any. Hold no conversation's
        lock.
        """
        if pending := self._overlay.pending(request_id):
            with self.writing(pending.conversation_id):
                pass

    def replay(
        self, known: KnownRequest, state: ConversationState | None
    ) -> tuple[list[Message], Conversation]:
        """Return the messages that a request wrote, and the conversation as it was right after.

        `state` is the conversation's, if it is at hand: the newest request, the one most often
        repeated, is answered from it. Raises ConversationNotFound, StorageUnavailable.
        """
        if (
            state
            and state.number is not None
            and state.indexed
            and state.lines == known.last_sequence
        ):
            with suppress(IndexUnavailable):
                places = self._index.messages.of_lines(
                    state.number, known.first_sequence, known.last_sequence
                )
                messages = (
                    messages_of(self.lines_at(known.conversation_id, places)) if places else []
                )
                return messages, state.conversation
        wrote, conversation = self.replay_lines(known)
        return messages_of(wrote), conversation

    def replay_lines(self, known: KnownRequest) -> tuple[list[Line], Conversation]:
        """Return the lines that a request wrote, and the conversation as it was right after.

        Raises ConversationNotFound, StorageUnavailable.
        """
        return self._replays.lines(known)

    def _known_request(
        self, request_id: str, conversation_id: str | None = None
    ) -> KnownRequest | None:
        """Return a request that was carried out before, or whose messages are pending; or None.

        Raises IndexUnavailable if that cannot be told.
        """
        if known := self._overlay.request(request_id) or self._index.requests.find(request_id):
            return known
        if anchor := self.anchors.request(request_id):
            return KnownRequest(request_id, anchor.stamp.request_hash, "")
        # the index may have refused its lines only now, before it answered
        if known := self._overlay.request(request_id):
            return known
        return self._recent_request(request_id, conversation_id) if conversation_id else None

    def _recent_request(self, request_id: str, conversation_id: str) -> KnownRequest | None:
        if not self._recent_requests.has(conversation_id):
            state = self._state(conversation_id)
            self._recent_requests.read(
                self.logs, conversation_id, Position(state.lines, state.size)
            )
        known = self._recent_requests.find(conversation_id, request_id)
        if known and not self._overlay.is_lagging(conversation_id):
            self.distrust(f"{conversation_id}: the index does not know the request {request_id}")
        return known

    # Writing ------------------------------------------------------------------------------------

    def begin(
        self, contents: list[Content], request: RequestKey | None, *, is_named: bool = False
    ) -> Committed:
        """Write the first lines of a new conversation, all or none, durable on return.

        The first says that it began; a message brings its sequence and turn. `is_named`: the caller
        chose the id. Raises ConversationExists if that is taken, StorageUnavailable.
        """
        assert isinstance(contents[0], Began)
        conversation_id = contents[0].id
        with self._locks.conversations.hold(conversation_id):
            if is_named and self.logs.is_taken(conversation_id):
                raise ConversationExists(conversation_id)
            return self._take_in(
                conversation_id,
                None,
                self._transcripts.append(conversation_id, START, contents, request),
            )

    def append(
        self,
        state: ConversationState,
        contents: Sequence[Content],
        request: RequestKey | None = None,
        *,
        draft_id: str = "",
    ) -> Committed:
        """Append lines behind the state that `writing` gave, all or none, durable on return.

        Messages bring their sequence, which must be what follows. Raises StorageUnavailable; then
        messages are pending and may be written later, and an event is not written. An index that
        fails does not fail this: the lines are indexed later.
        """
        if state.lines + len(contents) > MAX_LINES:
            raise InvalidField.of(
                "conversation_id", f"the conversation is full: {MAX_LINES} lines. Begin a new one"
            )
        conversation_id = state.conversation.id
        stuck = self._pending.of(conversation_id)
        if stuck and stuck.batches:
            raise self._hold(
                state, contents, request, draft_id, "it still refuses what came before"
            )
        try:
            done = self._write(state, contents, request, draft_id)
        except (LogConflict, LogNotFound):
            self._forget(conversation_id)
            self._pending.release(conversation_id)
            raise
        except LogUnavailable as error:
            raise self._hold(state, contents, request, draft_id, error.reason) from error
        if stuck:
            self._pending.release(conversation_id)
        return done

    def record(
        self,
        conversation_id: str,
        decide: Callable[[ConversationState], Sequence[Content]],
        request: RequestKey | None = None,
    ) -> Conversation:
        """Append the events, if any, that `decide` makes of a conversation's state, or refuse.

        Return the conversation behind them. A request that was carried out before is answered as it
        was then. Raises as `append` and `find_request`. Hold no conversation's lock.
        """
        with self.writing(conversation_id, request=request.id if request else "") as state:
            if request and (known := self.find_request(request, conversation_id)):
                return self.replay(known, state)[1]
            events = decide(state)
            if not events:
                return state.conversation
            hit("event.begun")
            done = self.append(state, events, request)
            hit("event.recorded")
            return done.state.conversation

    def delete(
        self,
        conversation_id: str,
        anchors: int,
        request: RequestKey | None = None,
        *,
        force: bool = False,
    ) -> Receipt:
        """Remove a conversation for good, its text from every file (see `services.space.deletion`).

        `anchors` says what becomes of its anchors. Raises ConversationPinned for a pinned one
        without `force`; ConversationNotFound, AnchorsPresent, StorageUnavailable, IndexUnavailable.
        Hold no lock.
        """
        while True:
            if (under_way := self._deletes.get(conversation_id)) is not None:
                under_way.wait()
            with self.exclusive(
                request=request.id if request else "", conversation=conversation_id
            ):
                if conversation_id in self._deletes:
                    continue
                if request and (known := self.find_request(request)):
                    return Receipt.of(known)
                state = self._state(conversation_id)
                if state.conversation.pinned and not force:
                    raise ConversationPinned(conversation_id)
                settle_anchors(
                    self.anchors, self._index, self.logs, conversation_id, state.number, anchors
                )
                self.logs.begin_delete(conversation_id)
                self._forget(conversation_id)
                self._pending.release(conversation_id)
                self._overlay.caught_up(conversation_id)
                self._routes.forget(conversation_id)
                done = self._deletes[conversation_id] = threading.Event()
            break
        try:
            # Without the locks, which other conversations share: the rest may take seconds.
            return self._finish_delete(conversation_id, state.number, request)
        finally:
            del self._deletes[conversation_id]
            done.set()

    def _finish_delete(
        self, conversation_id: str, number: int | None, request: RequestKey | None
    ) -> Receipt:
        time = self.clock()
        own_anchors = self.anchors.drop_source(conversation_id)
        event = Deleted(conversation_id, number, {})
        self.publish(event)
        removed = finish_delete(self.logs, self._index, conversation_id, time) | event.removed
        if own_anchors:
            removed["anchors"] = removed.get("anchors", 0) + own_anchors
        self.anchors.changed()
        hit("delete.log_emptied")
        receipt = Receipt(conversation_id, removed, time)
        if request:
            self._index.requests.add(receipt.known_as(request))
        hit("delete.remembered")
        return receipt

    def flush(self) -> None:
        """Try once more to write every pending message: the server stops. The rest is logged, and
        lost.
        """
        for stuck in self._pending.all():
            conversation_id = stuck.head.conversation.id
            with self._locks.conversations.hold(conversation_id):
                try:
                    self._write_pending(stuck)
                except (StorageUnavailable, ConversationNotFound) as error:
                    count = sum(len(batch.messages) for batch in stuck.batches)
                    log.error(
                        "held_messages_lost",
                        conversation=conversation_id,
                        messages=count,
                        reason=str(error),
                    )

    # The state of a conversation. Hold its lock -------------------------------------------------

    def _is_pinned(self, conversation_id: str) -> bool:
        """Return True if a conversation is known, without a look-up, to be there and pinned."""
        state = self._states.get(conversation_id)
        return state is not None and state.conversation.pinned

    def _state(self, conversation_id: str) -> ConversationState:
        """Return the state at the end of what is written. Raises ConversationNotFound,
        StorageUnavailable.
        """
        if stuck := self._pending.of(conversation_id):
            return (
                replace(stuck.head, indexed=False)
                if self._overlay.is_lagging(conversation_id)
                else stuck.head
            )
        with self._guard:
            if state := self._states.get(conversation_id):
                self._states.move_to_end(conversation_id)
                return state
        state = self._load(conversation_id)
        self._keep(state)
        return state

    def _end(self, conversation_id: str) -> ConversationState:
        """Return the state where the next line goes, behind pending messages that still cannot be
        written.

        Raises ConversationNotFound, StorageUnavailable.
        """
        stuck = self._pending.of(conversation_id)
        if stuck is None or not stuck.batches:
            return self._state(conversation_id)
        try:
            self._write_pending(stuck)
        except LogUnavailable as error:
            log.warning("held_messages_refused", conversation=conversation_id, reason=error.reason)
            return stuck.end
        self._pending.release(conversation_id)
        return stuck.head

    def _write_pending(self, stuck: Stuck) -> None:
        conversation_id = stuck.head.conversation.id
        while stuck.batches:
            batch = stuck.batches[0]
            messages: list[Content] = [*placed_again(stuck.head, batch.messages, batch.turn_count)]
            try:
                done = self._write(stuck.head, messages, batch.request, batch.draft_id)
            except (LogConflict, LogNotFound) as changed:
                # Something else wrote to the file. It may have put these very messages there.
                log.warning(
                    "transcript_changed", conversation=conversation_id, reason=changed.reason
                )
                self._forget(conversation_id)
                try:
                    stuck.head = self._load(conversation_id)
                except ConversationNotFound:
                    log.error(
                        "held_messages_lost",
                        conversation=conversation_id,
                        reason="the transcript is gone",
                    )
                    self._pending.release(conversation_id)
                    raise
                if batch.request and self._index.requests.find(batch.request.id):
                    self._pending.drop(stuck)
                continue
            self._pending.written(stuck, done.state)

    def _load(self, conversation_id: str) -> ConversationState:
        if not is_conversation_id(conversation_id):
            raise ConversationNotFound(conversation_id)
        try:
            size = self.logs.length(conversation_id)
        except LogNotFound:
            raise self._transcripts.not_found(conversation_id) from None
        try:
            stored = self._index.conversations.find(conversation_id)
            if stored is None or stored.bytes != size or stored.calls_unknown:
                number, conversation, end = self._transcripts.catch_up(
                    self._index, conversation_id, stored, time=self.clock(), log_updates=True
                )
                stored = Stored(number, conversation, end.bytes, end.lines)
                if self._index.log.note_refused_cursors():
                    self.publish(CursorsLost())
                self.anchors.changed()
                self._routes.changed()
            self._overlay.caught_up(conversation_id)
            if self._suspects.has(conversation_id):
                self._compare(conversation_id)
                self._suspects.clear(conversation_id)
            return ConversationState(
                stored.conversation, stored.bytes, stored.lines, stored.number, indexed=True
            )
        except IndexUnavailable as error:
            self._overlay.note_lag(conversation_id, str(error))
            if isinstance(error, IndexAhead):
                # The file may grow past what is indexed, and the next start would take that for its
                # own.
                self._index.condemn(str(error))
                with suppress(IndexUnavailable):
                    self._index.want_rebuild(str(error))
            return self._read_head(conversation_id)

    def _compare(self, conversation_id: str) -> None:
        """Compare the index with a conversation's transcript, all but the words.

        Raises StorageUnavailable; IndexUnavailable if the index is behind, or if they differ: then
        nothing believes it any more.
        """
        stored = self._index.conversations.find(conversation_id)
        if self._overlay.is_lagging(conversation_id) or self._pending.of(conversation_id):
            raise IndexUnavailable("the index did not take in the newest lines")
        if stored is None:
            wrong = "it is not in the index"
        else:
            contents = Contents(self._index)
            reading = self._transcripts.read_to_compare(contents, conversation_id, stored)
            wrong = next(
                self._transcripts.differences(
                    contents, conversation_id, stored, reading, words=False
                ),
                "",
            )
        if wrong:
            self.distrust(f"{conversation_id}: {wrong}")
            raise IndexUnavailable(f"the index is damaged: {wrong}")

    def _read_head(self, conversation_id: str) -> ConversationState:
        """Return the state of a conversation by its transcript alone."""
        lines, conversation = self._transcripts.read_whole(conversation_id)
        if conversation is None:
            raise self._transcripts.not_found(conversation_id)
        return ConversationState(
            conversation, lines[-1].end, lines[-1].sequence, None, indexed=False
        )

    def _keep(self, head: ConversationState) -> None:
        conversation_id = head.conversation.id
        with self._guard:
            self._states[conversation_id] = head
            self._states.move_to_end(conversation_id)
            # Asked only now: the index may refuse lines at any moment, and says so before it takes
            # the head away.
            if not head.indexed or self._overlay.is_lagging(conversation_id):
                # Read again for the next write, which tries again to bring the index up.
                del self._states[conversation_id]
            while len(self._states) > _MAX_STATES:
                self._states.popitem(last=False)

    def _forget(self, conversation_id: str) -> None:
        """Drop what is remembered of a conversation, whose file changed or is gone."""
        self._recent_requests.forget(conversation_id)
        self._replays.forget(conversation_id)
        with self._guard:
            self._states.pop(conversation_id, None)
        self.publish(Reloaded(conversation_id))

    def _write(
        self,
        state: ConversationState,
        contents: Sequence[Content],
        request: RequestKey | None,
        draft_id: str,
    ) -> Committed:
        conversation_id, end = state.conversation.id, Position(state.lines, state.size)
        lines = self._transcripts.append(conversation_id, end, contents, request, draft_id)
        return self._take_in(conversation_id, state, lines)

    def _hold(
        self,
        head: ConversationState,
        contents: Sequence[Content],
        request: RequestKey | None,
        draft_id: str,
        reason: str,
    ) -> StorageUnavailable:
        stuck = self._pending.keep(head)
        messages = [content for content in contents if isinstance(content, Message)]
        refused = f"the transcript cannot be written: {reason}"
        if not messages:
            return StorageUnavailable(refused)
        lines, data = encoded(entries_of(contents, request, draft_id), head.lines, head.size)
        end = replace(
            head,
            conversation=self._transcripts.behind(head.conversation, lines, head.conversation.id),
            size=lines[-1].end,
            lines=lines[-1].sequence,
        )
        batch = Batch(
            messages, head.conversation.turn_count, request, draft_id, sum(map(len, data))
        )
        if self._pending.hold(stuck, end, batch, reason):
            return StorageUnavailable(
                f"{refused}. The messages are held and may be written later: repeat with the same request_id"
            )
        return StorageUnavailable(f"{refused}, and no more messages can be held")

    def _take_in(
        self, conversation_id: str, head: ConversationState | None, lines: list[Line]
    ) -> Committed:
        before = head.conversation if head else None
        after = self._transcripts.behind(before, lines, conversation_id)
        number = head.number if head else None
        cursor = 0
        indexed = head is None or head.indexed
        mail = mail_ids_of(contents_of(lines)) if after.channel == EMAIL else ()
        if indexed:
            try:
                failed = partial(self._not_indexed, after.id, lines)
                number, cursor = self._index.add(
                    number, before, after, lines, mail=mail, time=self.clock(), failed=failed
                )
            except IndexUnavailable as error:
                indexed = False
                self._not_indexed(after.id, lines, str(error))
        else:
            self._not_indexed(after.id, lines, "")
        if after.channel == EMAIL or (before.pinned if before else False) != after.pinned:
            self._routes.learn(self._index, before, after, contents_of(lines), mail)
        done = ConversationState(after, lines[-1].end, lines[-1].sequence, number, indexed=indexed)
        self._keep(done)
        if any(isinstance(content, AnchorSet) for content in contents_of(lines)):
            self.anchors.changed()
        self.publish(Appended(after.id, lines))
        if head is None:
            self._recent_requests.begin(after.id, lines)
        else:
            self._recent_requests.follow(after.id, lines)
        return Committed(done, lines, cursor)

    def _not_indexed(self, conversation_id: str, lines: list[Line], reason: str) -> None:
        """The index did not take these lines in: whoever comes next to the conversation brings it
        up from the transcript.
        """
        self._overlay.note_lag(conversation_id, reason, lines)
        with self._guard:
            self._states.pop(conversation_id, None)

    # Upkeep of the index ------------------------------------------------------------------------

    @property
    def doubt(self) -> str:
        """Return why the index may lack something of what is stored; empty if it has everything."""
        if reason := self._suspects.reason:
            return reason
        count = len(self._overlay.lagging())
        return f"the newest messages of {count} conversations are not indexed yet" if count else ""

    def is_lagging(self, conversation_id: str) -> bool:
        """Return True if the index lacks lines of a conversation. Ask it after the index."""
        return self._overlay.is_lagging(conversation_id)

    def lagging(self) -> list[str]:
        """Return the conversations that the index lacks lines of."""
        return self._overlay.lagging()

    def note_lag(self, conversation_id: str, reason: str) -> None:
        """Note that the index lacks lines of a conversation."""
        self._overlay.note_lag(conversation_id, reason)

    def catch_up(self, conversation_id: str) -> bool:
        """Index what the index lacks of a conversation. Return False if it still refuses.

        A conversation with pending writes is left to its next write. Raises StorageUnavailable.
        """
        with self._locks.conversations.hold(conversation_id):
            if self._pending.of(conversation_id):
                return True
            with suppress(ConversationNotFound):
                if not self._state(conversation_id).indexed:
                    return False
            self._overlay.caught_up(conversation_id)
            return True

    def build(self, index: Index, logs: Logs[Any], name: str) -> None:
        """Index a log in a new index, which `change_index` will use. Raises IndexUnavailable.

        A communication that is written meanwhile finds no index: its next reader indexes it.
        """
        with self._locks.conversations.hold(name):
            if self._pending.of(name):
                # The end of its file may be nothing: it is caught up when it is written to.
                self._overlay.note_lag(name, "its transcript refuses to be written")
                return
            try:
                logs.catch_up(
                    index,
                    name,
                    logs.find(index, name),
                    time=self.clock(),
                    log_updates=False,
                    wait=False,
                )
            except (ConversationNotFound, NothingNamed, StorageUnavailable) as error:
                log.warning("transcript_passed_over", **{logs.noun: name}, reason=str(error))

    def change_index(self, index: Index) -> None:
        """Use another index from here on, which was made from the transcripts."""
        with self._locks.conversations.hold_all(), self._guard:
            self._retired.append(self._index)
            self._index = index
            self._suspects.end()
            self._states.clear()
            self.anchors.changed()
            self._routes.changed()
            self.publish(IndexReplaced(index))

    @property
    def is_verified(self) -> bool:
        """True if the index was compared with every transcript, or was closed properly."""
        return not self._suspects.reason

    def unverified(self) -> list[str]:
        """Return the conversations that the index was not compared with yet."""
        return self._suspects.waiting()

    def verify(self, conversation_id: str) -> None:
        """Compare the index with a conversation, unless that has pending writes. Raises nothing."""
        with self._locks.conversations.hold(conversation_id):
            if self._pending.of(conversation_id):
                return  # its end may never have reached the disk
            try:
                self._state(conversation_id)  # loading a state compares it
            except (ConversationNotFound, StorageUnavailable):
                self._suspects.clear(conversation_id)

    def compare(self, conversation_id: str, *, is_locked: bool = False) -> None:
        """Compare the index with a conversation's transcript, all but the words.

        `is_locked`: the conversation's lock is held. Raises StorageUnavailable; IndexUnavailable if
        the index lags, or if they differ: then nothing believes it any more.
        """
        with nullcontext() if is_locked else self._locks.conversations.hold(conversation_id):
            self._compare(conversation_id)

    def trust(self) -> None:
        """Believe the index: it was compared with every transcript."""
        self._suspects.end()

    def distrust(self, reason: str) -> None:
        """Stop using the index at once: it contradicts the transcripts. Its keeper makes it
        anew.
        """
        index = self._index
        with suppress(IndexUnavailable):
            index.want_rebuild(reason)
        if index.give_up(reason):
            log.error("index_damaged", reason=reason)
        with self._guard:
            self._states.clear()

    def close(self) -> None:
        """Close the index, and those used before it. No call may be under way."""
        sound = self.is_verified and not self._index.lost()
        for index in self._retired:
            index.close()
        self._index.close(sound=sound)
