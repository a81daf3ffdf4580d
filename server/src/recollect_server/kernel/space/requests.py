"""Exactly-once: a request that was carried out before is answered as it was then, and stores
nothing.

The request's id and a hash of its payload stand in the lines that it wrote, so they survive the
index. The index finds them quickly; where it cannot answer, the conversation's transcript is read.
The last requests of a conversation are known by its transcript in any case (`RecentRequests`).
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
import structlog

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    IndexUnavailable,
    MessagesHeld,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.kernel.domain.ids import IS_NAME, Kind
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.log.lines import Line, messages_of
from recollect_server.kernel.log.redaction import ANY_HASH
from recollect_server.kernel.log.store import (
    START,
    LogNotFound,
    LogStore,
    LogUnavailable,
    Position,
    lines_at,
)
from recollect_server.kernel.space.conversation_logs import ConversationLogs, ConversationState
from recollect_server.kernel.space.logs import RequestKey, check_unanswered
from recollect_server.kernel.space.projection import Projection
from recollect_server.kernel.space.states import States

log = structlog.get_logger("recollect.space")

_MAX_REPLAYS = 1024
_TAIL = 16 << 10  # bytes at a transcript's end that are read for its last requests
_EACH = 8  # requests kept of one conversation
_MOST = 4096  # conversations
_RESTING = 16  # of a space at rest, of which there may be many


def key_of(method: str, request_id: str, payload: dict[str, Any]) -> RequestKey | None:
    """Return the request's id with the hash of its payload; None without an id."""
    if not request_id:
        return None
    text = orjson.dumps([method, payload], option=orjson.OPT_SORT_KEYS)
    return RequestKey(request_id, hashlib.sha256(text).hexdigest()[:32])


def request_among(
    lines: Iterable[Line], request_id: str, conversation_id: str
) -> KnownRequest | None:
    """Return the request of this id by the lines that it wrote; None if it wrote none of these."""
    wrote = [line for line in lines if line.entry and line.entry.stamp.request_id == request_id]
    if not wrote:
        return None
    assert wrote[0].entry is not None
    stamp = wrote[0].entry.stamp
    return KnownRequest(
        request_id, stamp.request_hash, conversation_id, wrote[0].sequence, wrote[-1].sequence
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in a transcript that was read again, with the conversation as it was there."""

    position: Position
    conversation: Conversation | None


class RecentRequests:
    """The last requests of conversations, as their transcripts have them: known whatever the index
    says.

    A conversation's are read from its transcript's end when the first request asks for one, and
    follow its appends. What concerns one conversation is called under its lock.
    """

    def __init__(self, store: LogStore, state: Callable[[str], ConversationState]) -> None:
        """`state` returns that of a conversation."""
        self._store = store
        self._state = state
        self._guard = threading.Lock()  # guards `_requests`; nothing slow happens under it
        # hash, first and last line by id
        self._requests: LastUsed[str, LastUsed[str, tuple[str, int, int]]] = LastUsed(_MOST)

    def find(self, conversation_id: str, request_id: str) -> KnownRequest | None:
        """Return one of the last requests of a conversation; None if it is none of them, or its
        transcript cannot be read. Raises ConversationNotFound, StorageUnavailable.
        """
        requests = self._requests.get(conversation_id)
        if requests is None:
            state = self._state(conversation_id)
            try:
                lines = self._store.read_last(
                    conversation_id, Position(state.lines, state.size), _TAIL
                )
            except LogUnavailable as error:
                reason = error.reason
                log.warning("last_requests_not_read", conversation=conversation_id, reason=reason)
                return None
            requests = self._begin(conversation_id)
            self.follow(conversation_id, lines)
        if request_id not in requests:
            return None
        value, first, last = requests[request_id]
        return KnownRequest(request_id, value, conversation_id, first, last)

    def _begin(self, conversation_id: str) -> LastUsed[str, tuple[str, int, int]]:
        """Keep the requests of a conversation from here on."""
        requests: LastUsed[str, tuple[str, int, int]] = LastUsed(_EACH)
        with self._guard:
            self._requests.keep(conversation_id, requests)
        return requests

    def follow(self, conversation_id: str, lines: list[Line]) -> None:
        """Add the requests of lines that were appended. One look into a dictionary where none are
        kept.
        """
        requests = self._requests.get(conversation_id)
        if requests is None:
            if lines[0].sequence > 1:
                return
            requests = self._begin(conversation_id)
        for line in lines:
            if line.entry is None or not line.entry.stamp.request_id:
                continue
            stamp = line.entry.stamp
            index, count = stamp.batch
            # at the last line of a batch all of it is known, though its first line may lie before
            # the tail
            if index == count:
                first = line.sequence - count + 1
                requests.keep(stamp.request_id, (stamp.request_hash, first, line.sequence))

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation, whose log changed or is deleted."""
        with self._guard:
            self._requests.pop(conversation_id, None)

    def shrink(self) -> None:
        """Drop all but the conversations that came last."""
        with self._guard:
            self._requests.shrink(_RESTING)


def check_same(request: RequestKey, value: str) -> None:
    """Raise RequestIdReused unless an earlier request of the same id, by its hash, had the same
    payload.
    """
    if value not in (request.hash, ANY_HASH):
        raise RequestIdReused(request.id)


class Hashed(Protocol):
    """A request that was carried out, by the hash of its payload."""

    @property
    def hash(self) -> str: ...


class Requests:
    """The requests of a space that were carried out before. Safe to call from any thread.

    The index keeps the answers of those that write no line: deletes, switches, notes to be written
    anew. Over a store that processes share, the store keeps them too, so that a repeat is answered
    by every process, and it keeps their ids from when they are begun, so that every process refuses
    them to other requests.
    """

    def __init__(
        self,
        transcripts: ConversationLogs,
        projection: Projection,
        states: States,
    ) -> None:
        self._transcripts = transcripts
        self._projection = projection
        self._states = states
        self.recent = RecentRequests(transcripts.store, states.get)
        self._guard = threading.Lock()  # guards the next two
        self._places: LastUsed[str, _Place] = LastUsed(_MAX_REPLAYS)
        self._changes = 0  # of logs, after which places are dropped
        self._elsewhere: list[Callable[[str], Hashed | None]] = []

    def ask(self, elsewhere: Callable[[str], Hashed | None]) -> None:
        """Ask this function too for the request of an id: one that a ledger keeps. It returns at
        once, and is asked before the index, so that it answers whatever becomes of that.
        """
        self._elsewhere.append(elsewhere)

    def find(
        self,
        request: RequestKey,
        conversation_id: str | None = None,
        *,
        wrote_to: Kind | None = None,
    ) -> KnownRequest | None:
        """Return the same request if it was carried out before. Hold its lock.

        `conversation_id` is the conversation it was about, whose lock is held: its transcript is
        read where the index cannot answer. Without it that raises DataUnavailable. `wrote_to`: it
        is about any log of this kind, and writes text there: its hash may have been redacted.
        Raises RequestIdReused if the payload was another, StorageUnavailable if its messages are
        pending.
        """
        try:
            earlier = self.known(request.id, conversation_id)
        except IndexUnavailable:
            if conversation_id is None:
                raise
            lines = self._transcripts.store.read(conversation_id)
            earlier = request_among(lines, request.id, conversation_id)
        if earlier is None:
            return None
        check_same(request, earlier.hash)
        log = earlier.conversation_id
        if earlier.hash == ANY_HASH and not (
            IS_NAME[wrote_to](log) if wrote_to else log == conversation_id
        ):
            raise RequestIdReused(request.id)  # by a message that was redacted since
        overlay = self._projection.overlay
        if overlay.pending(request.id):
            raise MessagesHeld(
                f"the transcript cannot be written yet: {overlay.held_because}. The messages are held:"
                " repeat with the same request_id",
                overlay.held_because,
            )
        return earlier

    def known(self, request_id: str, conversation_id: str | None = None) -> KnownRequest | None:
        """Return a request that was carried out before, or whose messages are pending; or None.

        Hold the lock of the conversation that it was about, if that is named. Raises
        DataUnavailable if that is not known.
        """
        overlay = self._projection.overlay
        if earlier := overlay.request(request_id):
            return earlier
        for elsewhere in self._elsewhere:
            if request := elsewhere(request_id):
                return KnownRequest(request_id, request.hash, "")
        if earlier := self._projection.index.requests.find(request_id):
            return earlier
        # the index may have refused its lines only now, before it answered
        if earlier := overlay.request(request_id):
            return earlier
        if conversation_id is None:
            return None
        earlier = self.recent.find(conversation_id, request_id)
        if earlier and not overlay.is_lagging(conversation_id):
            self._states.distrust(
                f"{conversation_id}: the index does not know the request {request_id}"
            )
        return earlier

    def replay(
        self, request: KnownRequest, state: ConversationState | None
    ) -> tuple[list[Message], Conversation]:
        """Return the messages that a request wrote, and the conversation as it was right after.

        `state` is the conversation's, if it is at hand: the newest request, the one most often
        repeated, is answered from it. Raises ConversationNotFound, StorageUnavailable.
        """
        if (
            state
            and state.number is not None
            and state.indexed
            and state.lines == request.last_sequence
        ):
            with suppress(IndexUnavailable):
                places = self._projection.index.messages.of_lines(
                    state.number, request.first_sequence, request.last_sequence
                )
                if not places:
                    return [], state.conversation
                lines = lines_at(self._transcripts.store, request.conversation_id, places)
                return messages_of(lines), state.conversation
        lines, conversation = self.wrote(request)
        return messages_of(lines), conversation

    def wrote(self, record: KnownRequest) -> tuple[list[Line], Conversation]:
        """Return the lines that a request wrote, read again, and the conversation as it was right
        after.

        A caller that repeats one request often repeats the following ones too (an import that runs
        twice), so each is read on from the one before and not from the first line. Raises
        ConversationNotFound, StorageUnavailable.
        """
        conversation_id = record.conversation_id
        with self._guard:
            place, changes = self._places.get(conversation_id), self._changes
        if place is None or place.position.lines >= record.first_sequence:
            place = _Place(START, None)
        conversation, position = place.conversation, place.position
        wrote: list[Line] = []
        try:
            for line in self._transcripts.store.read(conversation_id, position):
                conversation = self._transcripts.folded(conversation, line, conversation_id)
                position = Position(line.sequence, line.end)
                if line.sequence >= record.first_sequence:
                    wrote.append(line)
                if line.sequence == record.last_sequence:
                    break
        except LogNotFound:
            raise ConversationNotFound(conversation_id) from None
        if conversation is None:
            raise ConversationNotFound(conversation_id)
        with self._guard:
            if changes == self._changes:  # else it may have a text that was redacted meanwhile
                self._places.keep(conversation_id, _Place(position, conversation))
        return wrote, conversation

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation, whose log changed or is deleted."""
        self.recent.forget(conversation_id)
        with self._guard:
            self._changes += 1
            self._places.pop(conversation_id, None)

    def shrink(self) -> None:
        """Drop what can be read again, but for the newest."""
        self.recent.shrink()
        with self._guard:
            self._places.clear()

    # Requests that write no line ------------------------------------------------------------------

    def answered(self, request: RequestKey) -> KnownRequest | None:
        """Return the same request, one that writes no line, if it was carried out before by any
        process. Hold its lock. Raises RequestIdReused, DataUnavailable.
        """
        if earlier := self.find(request):
            return earlier
        sharing = self._transcripts.store.sharing
        if not (answer := sharing.answer(request.id) if sharing else None):
            return None
        earlier = KnownRequest(**orjson.loads(answer))
        check_same(request, earlier.hash)
        return earlier

    @contextmanager
    def carrying_out(self, request: RequestKey | None) -> Iterator[None]:
        """Have the id of such a request in the block, which carries it out and remembers its
        answer, against every process; give it up if the block raises before it has one. Raises
        RequestIdReused if another request has the id, StorageUnavailable.
        """
        sharing = self._transcripts.store.sharing
        if request is None or sharing is None:
            yield
            return
        if not sharing.begin_request(request.id, request.hash):
            raise RequestIdReused(request.id)
        try:
            yield
        except BaseException:
            self.give_up(request)
            raise

    def give_up(self, request: RequestKey) -> None:
        """Let the id of such a request be free again, unless it has an answer, here or elsewhere.
        Raises nothing.
        """
        sharing = self._transcripts.store.sharing
        with suppress(IndexUnavailable):
            if self._projection.index.requests.find(request.id):
                return
        if sharing is not None:
            with suppress(StorageUnavailable):
                sharing.end_request(request.id, request.hash, None)

    def is_recorded(self, request: RequestKey) -> bool:
        """Return whether a ledger has the same request (see `ask`). Raises RequestIdReused if any
        process carried out another one of its id, or began one that writes no line;
        DataUnavailable.
        """
        if self.find(request):
            return True
        check_unanswered(self._transcripts.store, request)
        return False

    def begin_delete(self, request: RequestKey, conversation_id: str) -> str:
        """Return the note of a request that begins to delete a conversation, for who finishes what
        a kill interrupts; other processes have it from here on. Raises RequestIdReused,
        StorageUnavailable.
        """
        note = orjson.dumps([request.id, request.hash]).decode()
        sharing = self._transcripts.store.sharing
        if sharing and not sharing.begin_request(request.id, request.hash, conversation_id, note):
            raise RequestIdReused(request.id)
        return note

    def remember(self, record: KnownRequest) -> KnownRequest:
        """Keep the answer of such a request, for every process, and return the first one. Raises
        DataUnavailable.
        """
        record = share(self._transcripts.store, record)
        self._projection.index.requests.add(record)
        return record


def share(logs: LogStore, record: KnownRequest) -> KnownRequest:
    """Let other processes have the answer of a request that writes no line. Return the first one,
    which another process may have given. Raises StorageUnavailable.
    """
    if logs.sharing is None:
        return record
    answer = orjson.dumps(record).decode()
    answer = logs.sharing.end_request(record.request_id, record.hash, answer)
    first = KnownRequest(**orjson.loads(answer))
    # A server of the version before took the id for another request at the same moment: this one
    # has an answer of its own.
    return first if first.hash in (record.hash, ANY_HASH) else record


def request_of_delete(logs: LogStore, log: str) -> RequestKey | None:
    """Return the request that began a delete which has not ended; None if none did, or if it has
    its answer. Raises StorageUnavailable.
    """
    try:
        request = RequestKey(*orjson.loads(logs.note_of(log) or "null"))
    except (TypeError, ValueError):  # there is none, or a loss of power took it
        return None
    if logs.sharing and logs.sharing.answer(request.id) != "":
        return None
    return request
