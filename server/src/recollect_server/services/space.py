"""One owner's data, open: the transcripts, their index, and the locks that order the writes of each conversation."""

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import structlog

from recollect_server.domain.conversation import Content, Conversation, fold
from recollect_server.domain.errors import ConversationNotFound, IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.ids import is_conversation_id
from recollect_server.domain.message import Message
from recollect_server.domain.time import Clock
from recollect_server.services.catching_up import IndexAhead, catch_up, read_unindexed
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.migrations import SEQUENCE_BITS
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.transcript.files import TranscriptFolder
from recollect_server.storage.transcript.reader import Line
from recollect_server.storage.transcript.record import Entry, Stamp, encode
from recollect_server.storage.transcript.writer import TranscriptWriter

log = structlog.get_logger("recollect.space")

_STRIPES = 1024
_MAX_HEADS = 20_000  # some 1 KiB each
_MAX_LINES = (1 << SEQUENCE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a conversation: what a writer must know to write the next line."""

    conversation: Conversation
    size: int
    """Bytes of the transcript."""
    lines: int
    number: int | None
    """Its number in the index; None if the index does not have it."""
    indexed: bool
    """Whether the index has all of its lines."""


@dataclass(frozen=True, slots=True)
class RequestKey:
    """The caller's request id with the hash of its payload."""

    id: str
    hash: str


@dataclass(frozen=True, slots=True)
class Committed:
    """What a write came to."""

    head: Head
    lines: list[Line]
    cursor: int
    """0: the index could not take it yet."""


class StripedLocks:
    """A fixed number of locks that share all names between them. Nobody may hold two of one instance."""

    def __init__(self) -> None:
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    def hold(self, name: str) -> threading.Lock:
        """The lock that this name falls to, for a `with`."""
        return self._locks[hash(name) % _STRIPES]


class Space:
    """One owner's data. Every write of a conversation happens under `locks.hold(its id)`."""

    def __init__(self, folder: TranscriptFolder, writer: TranscriptWriter, index: Index, clock: Clock) -> None:
        self.folder = folder
        self.writer = writer
        self.index = index
        self.clock = clock
        self.locks = StripedLocks()
        self.request_locks = StripedLocks()  # taken before a conversation's lock, never after
        self._guard = threading.Lock()  # guards the two below; nothing slow happens under it
        self._heads: OrderedDict[str, Head] = OrderedDict()
        self._unindexed: dict[str, KnownRequest] = {}  # carried out, and not known to the index yet

    def head(self, conversation_id: str) -> Head:
        """The end of a conversation. Raises ConversationNotFound, StorageUnavailable. Hold its lock."""
        with self._guard:
            if head := self._heads.get(conversation_id):
                self._heads.move_to_end(conversation_id)
                return head
        head = self._load(conversation_id)
        self.writer.forget(self.folder.path(conversation_id))  # its tail may have been mended
        self._keep(head)
        return head

    def _load(self, conversation_id: str) -> Head:
        if not is_conversation_id(conversation_id):
            raise ConversationNotFound(conversation_id)
        try:
            size = self.folder.path(conversation_id).stat().st_size
        except FileNotFoundError:
            raise ConversationNotFound(conversation_id) from None
        except OSError as error:
            raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
        try:
            stored = self.index.find(conversation_id)
            if stored is None or stored.bytes != size:
                caught = catch_up(self.folder, self.index, conversation_id, stored, time=self.clock(), log_updates=True)
                stored = caught.stored
                self._indexed_again(conversation_id)
            return Head(stored.conversation, stored.bytes, stored.lines, stored.number, indexed=True)
        except IndexUnavailable as error:
            log.warning("index_behind", conversation=conversation_id, reason=str(error))
            if isinstance(error, IndexAhead):
                # The file may grow past what is indexed, and the next start would take that for its own.
                with suppress(IndexUnavailable):
                    self.index.want_rebuild(str(error))
            return self._read_head(conversation_id)

    def _read_head(self, conversation_id: str) -> Head:
        """The end of a conversation by the transcript alone."""
        try:
            lines, conversation = read_unindexed(self.folder, conversation_id, None)
        except OSError as error:
            raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
        if conversation is None:
            raise ConversationNotFound(conversation_id)
        return Head(conversation, lines[-1].end, lines[-1].sequence, None, indexed=False)

    def _keep(self, head: Head) -> None:
        with self._guard:
            if not head.indexed:
                # Read again for the next write, which tries again to bring the index up.
                self._heads.pop(head.conversation.id, None)
                return
            self._heads[head.conversation.id] = head
            self._heads.move_to_end(head.conversation.id)
            while len(self._heads) > _MAX_HEADS:
                self._heads.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """Drops what is remembered of a conversation: its file changed or went."""
        self.writer.forget(self.folder.path(conversation_id))
        with self._guard:
            self._heads.pop(conversation_id, None)

    def known_request(self, request_id: str) -> KnownRequest | None:
        """A request that was carried out before, or None. Raises IndexUnavailable if that cannot be told."""
        with self._guard:
            if known := self._unindexed.get(request_id):
                return known
        return self.index.request(request_id)

    def begin(self, content: Content, conversation_id: str, request: RequestKey | None) -> Committed:
        """Writes the first line of a new conversation, durable when it returns. Raises StorageUnavailable. Hold its lock."""
        lines, data = _encoded([content], request, "", offset=0, sequence=1)
        try:
            self.folder.create()
            self.writer.create(self.folder.path(conversation_id), data)
        except OSError as error:
            raise StorageUnavailable(f"the transcript cannot be written: {error.strerror or error}") from error
        return self._index(None, lines)

    def commit(self, head: Head, contents: list[Content], request: RequestKey | None, *, draft_id: str = "") -> Committed:
        """Appends lines, all or none, durable when it returns; then brings the index up.

        Messages bring their sequence, which must be what follows. Raises StorageUnavailable; then nothing was written. Hold the
        conversation's lock. An index that fails does not fail this: the lines are indexed later.
        """
        if head.lines + len(contents) > _MAX_LINES:
            raise InvalidField.of("conversation_id", f"the conversation is full: {_MAX_LINES} lines. Begin a new one")
        lines, data = _encoded(contents, request, draft_id, offset=head.size, sequence=head.lines + 1)
        try:
            self.writer.append(self.folder.path(head.conversation.id), data, head.size)
        except OSError as error:
            self.forget(head.conversation.id)
            raise StorageUnavailable(f"the transcript cannot be written: {error.strerror or error}") from error
        return self._index(head, lines)

    def _index(self, head: Head | None, lines: list[Line]) -> Committed:
        before = after = head.conversation if head else None
        for line in lines:
            assert line.entry is not None
            after = fold(after, line.entry.content)
        assert after is not None
        number = head.number if head else None
        cursor = 0
        indexed = head is None or head.indexed
        if indexed:
            try:
                failed = partial(self._not_indexed, after.id, lines)
                number, cursor = self.index.add(number, before, after, lines, time=self.clock(), failed=failed)
            except IndexUnavailable as error:
                indexed = False
                self._not_indexed(after.id, lines, str(error))
        else:
            self._not_indexed(after.id, lines, "")
        done = Head(after, lines[-1].end, lines[-1].sequence, number, indexed=indexed)
        self._keep(done)
        return Committed(done, lines, cursor)

    def _not_indexed(self, conversation_id: str, lines: list[Line], reason: str) -> None:
        """The index did not take these lines in: whoever comes next to the conversation brings it up from the transcript."""
        if reason:
            log.warning("index_behind", conversation=conversation_id, reason=reason)
        entry = lines[0].entry
        assert entry is not None
        with self._guard:
            self._heads.pop(conversation_id, None)
            if request_id := entry.stamp.request_id:
                self._unindexed[request_id] = KnownRequest(
                    request_id, entry.stamp.request_hash, conversation_id, lines[0].sequence, lines[-1].sequence
                )

    def _indexed_again(self, conversation_id: str) -> None:
        with self._guard:
            for request_id in [r.request_id for r in self._unindexed.values() if r.conversation_id == conversation_id]:
                del self._unindexed[request_id]


def _encoded(
    contents: list[Content], request: RequestKey | None, draft_id: str, *, offset: int, sequence: int
) -> tuple[list[Line], bytes]:
    lines: list[Line] = []
    parts: list[bytes] = []
    stamp = Stamp(request.id, request.hash, draft_id=draft_id) if request else Stamp(draft_id=draft_id)
    count = len(contents)
    for index, content in enumerate(contents, start=1):
        assert not isinstance(content, Message) or content.sequence == sequence
        entry = Entry(content, stamp if count == 1 else replace(stamp, batch=(index, count)))
        data = encode(entry)
        lines.append(Line(sequence, offset, len(data), entry))
        parts.append(data)
        offset += len(data)
        sequence += 1
    return lines, b"".join(parts)
