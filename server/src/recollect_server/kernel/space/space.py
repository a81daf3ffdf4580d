"""One owner's data, open: its logs, their index, and every verb that the services have for them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from recollect_server.kernel.domain.conversation import (
    UNBOUNDED,
    Began,
    Capacity,
    Content,
    Conversation,
)
from recollect_server.kernel.domain.errors import (
    ConversationExists,
    ConversationFull,
    ConversationNotFound,
    StorageUnavailable,
)
from recollect_server.kernel.domain.live import Holder, Live
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.erase.deletion import Deletions
from recollect_server.kernel.erase.redaction import Redactions, Unindexing
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.order import IndexOrder
from recollect_server.kernel.log.order import Order
from recollect_server.kernel.log.store import NO_CLAIM, Claim, LogStore, has_conversation, is_taken
from recollect_server.kernel.space.conversation_logs import Committed, ConversationState
from recollect_server.kernel.space.events import (
    Appended,
    CursorsLost,
    IndexReplaced,
    Reloaded,
    Resting,
    Subscribers,
)
from recollect_server.kernel.space.features import Features, P
from recollect_server.kernel.space.following import Following, SharedWork
from recollect_server.kernel.space.index_upkeep import Upkeep
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.kernel.space.logs import RequestKey, check_unanswered
from recollect_server.kernel.space.parts import Parts

E = TypeVar("E")
R = TypeVar("R")


class Space:
    """One owner's data, behind verbs. Safe to call from any thread.

    `read`, `reading` and `writing` give the state of a conversation; `begin`, `append` and `record`
    write; `delete` removes. `exclusive` keeps other calls about the same things out. `subscribe`
    passes events on (`kernel.space.events`). Queries ask `index`, the projection of the logs.

    `requests` knows what was carried out before. `shared_work` divides work among the processes
    over one store. `part` is what a feature takes part with.

    Locks are taken within, in the order that `kernel.space.locks` states. A method that needs the
    conversation's lock to be held says so; hold it by `reading` or `writing`.
    """

    def __init__(
        self,
        store: LogStore,
        index: Index,
        features: Features,
        clock: Clock,
        *,
        is_compared: bool = True,
        lock_order: LockOrder | None = None,
        admit_conversation: Callable[[], None] = lambda: None,
        capacity: Live[Capacity] | None = None,
        moment: str = "",
        telemetry: Telemetry = UNMEASURED,
        reading: Callable[[], str] | None = None,
    ) -> None:
        """`features` are those that the index was opened with.

        `is_compared` False: the index is compared with the logs while calls go on.

        `lock_order` checks the order in which locks are taken. `admit_conversation` is called
        before a conversation begins, and may raise LimitExceeded; `capacity` bounds each. `moment`:
        of a store that processes share, one before the index was brought up. `reading`: somebody
        else is making the index from the logs just now, and this says how far; then nothing may be
        written here.
        """
        self._reading = reading
        self._admit_conversation = admit_conversation
        self._capacity = capacity or Holder(UNBOUNDED)
        self.clock = clock
        self.telemetry = telemetry
        self.store = store
        self.shared_work = SharedWork(store.sharing)
        subscribers = Subscribers()
        self.publish, self.subscribe = subscribers.publish, subscribers.add
        self._parts = parts = Parts(
            store,
            index,
            features,
            clock,
            self.publish,
            is_compared=is_compared,
            lock_order=lock_order,
            telemetry=telemetry,
            may_index=reading is None,
            capacity=self._capacity,
        )
        self.transcripts = parts.transcripts
        self.logs_of = parts.logs_of
        self.exclusive = parts.locks.exclusive
        self.overlay = parts.projection.overlay
        self.is_pinned = parts.states.is_pinned
        self.requests = parts.requests
        self.append = parts.writes.append
        self.deletions = Deletions(parts)
        self.redactions = Redactions(parts)
        self.unindexing = Unindexing(parts)
        self.upkeep = Upkeep(parts, self.deletions, self.redactions, self.follow)
        self._following = store.sharing and Following(
            parts, store.sharing, moment, self.deletions, self.redactions
        )
        self.subscribe(Appended, self._appended)
        self.subscribe(Reloaded, lambda event: self.requests.forget(event.conversation_id))
        self.subscribe(IndexReplaced, self._index_replaced)
        of_index = IndexOrder(index, store.read)
        self.subscribe(IndexReplaced, lambda event: of_index.replace(event.index))
        self.subscribe(CursorsLost, lambda _: of_index.renew())
        self.order: Order = store.order or of_index
        """The order of the changes of all logs."""

    @property
    def index(self) -> Index:
        """The index that is used now."""
        return self._parts.projection.index

    # Locks and events ---------------------------------------------------------------------------

    @contextmanager
    def reading(self, conversation_id: str) -> Iterator[ConversationState]:
        """Hold a conversation's lock and give its state: it is not written or deleted meanwhile.

        Raises ConversationNotFound, StorageUnavailable.
        """
        with self._parts.locks.conversations.hold(conversation_id):
            yield self._parts.states.get(conversation_id)

    @contextmanager
    def writing(self, conversation_id: str, *, request: str = "") -> Iterator[ConversationState]:
        """Hold the locks of a request (if it has an id) and of a conversation, to append to its
        end.

        Pending messages are written first or, where that still fails, stand before the end. Raises
        ConversationNotFound, StorageUnavailable.
        """
        of_request, of_conversation = self._parts.locks.to_write(conversation_id, request)
        with of_request, of_conversation:
            yield self._parts.writes.end(conversation_id)

    def part(self, kind: type[P]) -> P:
        """Return the part that a feature takes in this space."""
        return next(it for it in self._parts.participants if isinstance(it, kind))

    def _appended(self, event: Appended) -> None:
        self.requests.recent.follow(event.conversation_id, event.lines)

    def _index_replaced(self, _: IndexReplaced) -> None:
        if self._following:
            self._following.compare_all()

    # Other processes ----------------------------------------------------------------------------

    def carry_out(self, work: Callable[..., R], *of: Any, appends: bool = False) -> R:
        """Return the result of a call's work `of` these arguments. It begins behind what other
        processes wrote before, and is done again if one wrote to the same log just then (see
        `kernel.space.following`). `appends`: all that it does is to append to one conversation.
        Hold no lock.
        """
        if self._following:
            return self._following.carry_out(partial(work, *of), appends=appends)
        return work(*of)

    def follow(self) -> None:
        """Take in what other processes wrote. Raises nothing. Hold no lock."""
        if self._following:
            self._following.follow()

    @property
    def followed_until(self) -> str:
        """Return the moment of the store up to which everything was taken in; empty if something is
        left to do, whatever others write.
        """
        return self._following.moment if self._following else ""

    @property
    def is_shared(self) -> bool:
        """True if other processes may write to the same logs."""
        return self._following is not None

    def claim(self, places: Sequence[str]) -> Claim:
        """Return the claim of who is about to begin a log at places, and take in what other
        processes began there before: look once more. Empty where nobody else writes.

        Raises LogUnavailable. Hold no conversation's lock.
        """
        if not (self._following and self.store.sharing):
            return NO_CLAIM
        claim = Claim(places=self.store.sharing.claims(places))
        self._following.follow()
        return claim

    # Reading ------------------------------------------------------------------------------------

    def read(self, conversation_id: str) -> ConversationState:
        """Return the state of a conversation as it is written. Hold no conversation's lock.

        Raises ConversationNotFound, StorageUnavailable.
        """
        with self.reading(conversation_id) as state:
            return state

    def current(self, conversation: Conversation) -> Conversation:
        """Return a conversation that the index named, by its transcript where the index lacks
        lines.

        Call it after the index was asked. Hold no conversation's lock.
        """
        if not self.overlay.is_lagging(conversation.id):
            return conversation
        with suppress(ConversationNotFound, StorageUnavailable):
            return self.read(conversation.id).conversation
        return conversation

    def held(self) -> tuple[int, int]:
        """Return the number of pending messages of all conversations, and their bytes."""
        return self._parts.pending.messages, self._parts.pending.bytes

    def held_because(self) -> str:
        """Return what a transcript said that refuses messages; empty if none does."""
        return self._parts.pending.reason()

    def not_indexed(self) -> int:
        """Return the number of conversations that the index lacks lines of."""
        return len(self.overlay.lagging())

    def pending_messages(self, conversation_id: str) -> list[Message]:
        """Return a conversation's pending messages as they will be written. Hold its lock."""
        stuck = self._parts.pending.of(conversation_id)
        return [message for batch in stuck.batches for message in batch.messages] if stuck else []

    # Requests -----------------------------------------------------------------------------------

    def free(self, request: RequestKey | None, conversation_id: str = "") -> None:
        """Finish here what another process deleted, if it had this id or began with this request:
        both are free again. Hold no lock.
        """
        if not self.deletions.is_any_left or not self.is_shared:
            return
        earlier = self.requests.known(request.id) if request else None
        self.deletions.finish_interrupted(
            {conversation_id, earlier.conversation_id if earlier else ""}
        )

    def flush_request(self, request_id: str) -> None:
        """Try to write the pending messages of a request, if it has any. Hold no conversation's
        lock.
        """
        if pending := self.overlay.pending(request_id):
            with self.writing(pending.conversation_id):
                pass

    def cursor_of_request(self, request: KnownRequest) -> str:
        """Return the position of what a request wrote in the live updates; empty if it is not known
        any more. Raises StorageUnavailable.
        """
        if (order := self.store.order) is None:
            return self.index.log.cursor_text(request.cursor)
        return str(order.of_line(request.conversation_id, request.last_sequence) or "")

    # Writing ------------------------------------------------------------------------------------

    def begin(
        self,
        contents: list[Content],
        request: RequestKey | None,
        *,
        is_named: bool = False,
        claim: Claim = NO_CLAIM,
    ) -> Committed:
        """Write the first lines of a new conversation, all or none, durable on return.

        The first says that it began; a message brings its sequence and turn. `is_named`: the caller
        chose the id. `claim`: of the place where it begins (see `claim`). Raises ConversationExists
        if that is taken, LimitExceeded, ConversationFull, StorageUnavailable.
        """
        assert isinstance(contents[0], Began)
        conversation_id = contents[0].id
        with self._parts.locks.conversations.hold(conversation_id):
            if is_named:
                self._free_name(conversation_id)
            self._admit_conversation()
            if limit := self._capacity.now.exceeded(0, 0, contents):
                raise ConversationFull(conversation_id, limit)
            return self._parts.writes.begin(conversation_id, contents, request, claim)

    def copy(
        self,
        conversation_id: str,
        copy_id: str,
        contents: Callable[[Conversation], list[Content]],
        request: RequestKey | None,
    ) -> Committed:
        """Write what `contents` makes of a conversation as the first lines of a new one, of an id
        that nobody has.

        The conversation is not written, redacted or deleted here meanwhile, and the copy is refused
        if another process redacted it (see `end_copies`). Raises ConversationNotFound,
        LimitExceeded, StorageUnavailable. Hold no conversation's lock.
        """
        claim = self.claim([_copies_of(conversation_id)])
        with self._parts.locks.conversations.hold_each([conversation_id, copy_id]):
            lines = contents(self._parts.states.get(conversation_id).conversation)
            self._admit_conversation()
            return self._parts.writes.begin(copy_id, lines, request, claim)

    def end_copies(self, conversation_id: str) -> None:
        """Have every copy in the index that was made of a conversation before it was redacted; one
        that another process is about to write is refused. Raises LogUnavailable. Hold no lock.
        """
        if self.store.sharing:
            self.store.sharing.claims([_copies_of(conversation_id)], anew=True)
            self.follow()

    def _free_name(self, conversation_id: str) -> None:
        """Refuse an id that is taken. Hold the conversation's lock."""
        if is_taken(self.store, conversation_id):
            if self.is_shared and not has_conversation(self.store, conversation_id):
                raise StorageUnavailable(
                    f"{conversation_id} is being deleted by several servers: repeat the call"
                    " with the same request_id"
                )
            raise ConversationExists(conversation_id)
        # Its file goes before the last steps of its delete.
        if not self.is_shared and self.deletions.is_left(conversation_id):
            raise ConversationExists(conversation_id)

    def record(
        self,
        conversation_id: str,
        decide: Callable[[ConversationState], Sequence[Content]],
        request: RequestKey | None = None,
    ) -> Conversation:
        """Append the events, if any, that `decide` makes of a conversation's state, or refuse.

        Return the conversation behind them. A request that was carried out before is answered as it
        was then. Raises as `append` and `Requests.find`. Hold no conversation's lock.
        """
        with self.writing(conversation_id, request=request.id if request else "") as state:
            if request and (earlier := self.requests.find(request, conversation_id)):
                return self.requests.replay(earlier, state)[1]
            events = decide(state)
            if not events:
                check_unanswered(self.store, request)
                return state.conversation
            hit("event.begun")
            done = self.append(state, events, request)
            hit("event.recorded")
            return done.state.conversation

    def flush(
        self, is_to_end: Callable[[], bool] = lambda: False, *, is_last: bool = False
    ) -> None:
        """Try once more to write every pending message, until `is_to_end`. After the last try the
        rest is lost, and logged.
        """
        for stuck in self._parts.pending.all():
            if is_to_end():
                return
            conversation_id = stuck.written.conversation.id
            with self._parts.locks.conversations.hold(conversation_id):
                self._parts.writes.flush(conversation_id, is_last=is_last)

    # The index ----------------------------------------------------------------------------------

    @property
    def doubt(self) -> str:
        """Return why the index may lack something of what is stored; empty if it has everything."""
        if self._reading:
            return self._reading()
        return self._parts.projection.doubt or (self._following.failure if self._following else "")

    @property
    def is_reading(self) -> bool:
        """True while the index is being made: it has only what was read so far."""
        return self._reading is not None

    def compare(self, conversation_id: str, *, is_locked: bool = False) -> None:
        """Compare the index with a conversation's transcript, all but the words.

        `is_locked`: the conversation's lock is held. Raises DataUnavailable, too if the index lags,
        or if they differ: then nothing believes it any more.
        """
        with nullcontext() if is_locked else self._parts.locks.conversations.hold(conversation_id):
            self._parts.states.compare(conversation_id)

    # At rest ----------------------------------------------------------------------------------

    @property
    def is_resting(self) -> bool:
        """Return whether the file of the index is closed until it is used."""
        return self._parts.projection.index.writer.is_resting

    @property
    def may_rest(self) -> bool:
        """Return whether everything that was acknowledged is written, and the index has it."""
        return self._parts.projection.may_rest and not self._parts.pending.messages

    def rest(self) -> None:
        """Close and seal the index until it is used again, and drop caches. No call may be under
        way.

        Messages can still be appended to the conversations that were used last without it: their
        lines are durable at once and wait for the index. Raises OSError of the seal; then it rests
        all the same; DataUnavailable if the index takes in nothing any more: then it does not.
        """
        self._parts.states.shrink()
        self.requests.shrink()
        self.publish(Resting())
        self.index.rest()

    def abandon(self) -> None:
        """Let nobody wait for the index any more: the waiting caller gets IndexUnavailable."""
        self._parts.projection.abandon()

    def close(self) -> None:
        """Close the index, and those used before it. No call may be under way."""
        self._parts.projection.close()


def _copies_of(conversation_id: str) -> str:
    """Return the name of the place where copies of a conversation begin."""
    return f"copies {conversation_id}"
