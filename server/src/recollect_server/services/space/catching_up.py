"""Brings the index of one conversation up to its transcript: what a start-up, a rebuild and a write after a failure share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import structlog

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import Began, Conversation, Event, OpenCall, fold, open_calls_after
from recollect_server.domain.errors import ConversationDamaged, ConversationNotFound, IndexUnavailable
from recollect_server.domain.ids import time_of
from recollect_server.domain.message import Message
from recollect_server.domain.routing import mail_ids_of
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.anchors import forgotten_keys
from recollect_server.storage.logs.lines import Line, contents_of
from recollect_server.storage.logs.record import LOST_CHANNEL
from recollect_server.storage.logs.store import START, LogNotFound, LogStore, Position, TornTail

log = structlog.get_logger("recollect.recovery")

_CHUNK_LINES = 2000
_MAX_KEPT = 256 << 10  # bytes of a transcript that is decoded once, to be mended and indexed


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """What it came to."""

    stored: Stored
    messages: int
    """How many were indexed now."""
    damaged: int
    """How many lines were damaged and passed over now."""
    bytes_cut: int
    """How much of a torn tail was cut off."""


@dataclass(frozen=True, slots=True)
class Mended:
    """A transcript whose tail was looked after: what was cut, and its lines, where they are few enough to be kept until indexed."""

    torn: TornTail | None
    lines: list[Line] | None


def mend_whole(logs: LogStore, conversation_id: str) -> Mended:
    """Recover a transcript's tail before anything of it is indexed, ahead of `catch_up`, many at once. Raises LogUnavailable."""
    lines: list[Line] = []
    size = logs.length(conversation_id)
    torn = logs.recover(conversation_id, see=lines.append if size <= _MAX_KEPT else None)
    # A last line that was not ended is not among them, though it may have got its newline back.
    is_read = torn is None and bool(lines) and lines[-1].end == size
    return Mended(torn, lines if is_read else None)


class IndexAhead(IndexUnavailable):
    """The index has something of a transcript that is not there, or stands elsewhere.

    Only a rebuild helps: the words that are gone are not known.
    """


class Damage:
    """Counts the damaged lines of a transcript, and names each run of them in the log once."""

    def __init__(self, conversation_id: str) -> None:
        self.count = 0
        self._conversation_id = conversation_id
        self._first: Line | None = None
        self._before = 0  # how many there were when this run began

    def see(self, line: Line) -> None:
        """Looks at the next line."""
        if line.entry is not None:
            self.end_run()
            return
        if self._first is None:
            self._first, self._before = line, self.count
        self.count += 1

    def end_run(self) -> None:
        """There is a good line, or none any more."""
        if self._first is not None:
            lines, first, self._first = self.count - self._before, self._first, None
            log.warning("damaged_line", conversation=self._conversation_id, line=first.sequence, lines=lines, reason=first.damage)


def catch_up(
    logs: LogStore,
    index: Index,
    conversation_id: str,
    stored: Stored | None,
    *,
    time: int,
    log_updates: bool,
    wait: bool = True,
    mended: Callable[[], Mended] | None = None,
) -> CaughtUp:
    """Mends the transcript's tail and indexes what the index does not have yet.

    `stored` is what it has; `time` is now; `wait` False does not wait for the index to take it in; `mended` waits for `mend_whole`,
    where that was begun and nothing is stored. Raises IndexUnavailable, IndexAhead, StorageUnavailable, and ConversationNotFound if
    no whole line is left. Hold the conversation's lock.
    """
    at = Position(stored.lines, stored.bytes) if stored else START
    number = stored.number if stored else None
    conversation = stored.conversation if stored else None
    try:
        if stored and stored.calls_unknown:
            conversation = replace(stored.conversation, open_calls=_open_calls(logs, conversation_id, stored.lines))
        size = logs.length(conversation_id)
        if size < at.bytes:
            raise IndexAhead(f"{conversation_id} has {size} bytes and {at.bytes} of it are indexed")
        if stored and size > at.bytes and not _goes_on(logs, index, stored):
            raise IndexAhead(f"{conversation_id} is another one than was indexed, up to byte {at.bytes}")
        ready = mended() if mended else Mended(logs.recover(conversation_id, at), None)
        torn = ready.torn
        if torn:
            log.warning("torn_tail_cut", conversation=conversation_id, bytes=torn.bytes_cut, reason=torn.reason)
        hit("catch_up.mended")
        messages = 0
        damage = Damage(conversation_id)
        refused: list[str] = []
        for chunk in chunks(logs.read(conversation_id, at) if ready.lines is None else iter(ready.lines)):
            before = conversation
            for line in chunk:
                conversation = folded(conversation, line, conversation_id)
                messages += line.entry is not None and isinstance(line.entry.content, Message)
                damage.see(line)
            if conversation is None:
                continue
            mail = mail_ids_of(contents_of(chunk)) if conversation.channel == EMAIL else ()
            number, _ = index.add(number, before, conversation, chunk, mail=mail, time=time, failed=refused.append, log=log_updates)
            at = Position(chunk[-1].sequence, chunk[-1].end)
            hit("catch_up.part")
        damage.end_run()
    except LogNotFound:
        raise ConversationNotFound(conversation_id) from None
    if conversation is None or number is None:
        raise not_there(logs, conversation_id)
    if wait:
        index.settle()
        if refused:
            raise IndexUnavailable(f"the index refused lines of {conversation_id}: {refused[0]}")
    return CaughtUp(Stored(number, conversation, at.bytes, at.lines), messages, damage.count, torn.bytes_cut if torn else 0)


def _open_calls(logs: LogStore, conversation_id: str, lines: int) -> tuple[OpenCall, ...]:
    """Return the tool calls that wait for a result behind the first `lines` lines of a transcript."""
    calls: tuple[OpenCall, ...] = ()
    for line in islice(logs.read(conversation_id), lines):
        content = line.entry.content if line.entry else None
        if isinstance(content, Message):
            calls = open_calls_after(calls, content)
    return calls


def not_there(logs: LogStore, conversation_id: str) -> ConversationNotFound:
    """Return why no line of a conversation can be read: it never began or was deleted, or each of its lines is damaged."""
    remains = logs.remains(conversation_id)
    return ConversationDamaged(conversation_id, remains) if remains else ConversationNotFound(conversation_id)


def forget_anchors_again(logs: LogStore, index: Index) -> None:
    """Take out of an index that was brought up the anchors that were forgotten: they stand in transcripts still.

    Raises IndexUnavailable, LogUnavailable.
    """
    for key, until in forgotten_keys(logs).items():
        index.forget_anchors(key, until)


def _goes_on(logs: LogStore, index: Index, stored: Stored) -> bool:
    """Return whether the transcript still is the one that was indexed: its newest message and a line's end are where they were.

    What was put in or taken out before them moves both. Then nothing that the index knows is where it says.
    """
    if newest := index.newest(stored.number):
        place, turn_number, timestamp = newest
        entry = logs.read_at(stored.conversation.id, [place])[0].entry
        content = entry.content if entry else None
        if not isinstance(content, Message) or (content.turn_number, content.timestamp) != (turn_number, timestamp):
            return False
    return logs.is_boundary(stored.conversation.id, Position(stored.lines, stored.bytes))


def read_unindexed(logs: LogStore, conversation_id: str, until: int | None) -> tuple[list[Line], Conversation | None]:
    """Return all whole lines of a transcript up to line `until`, and what they say, without the index. Raises LogUnavailable."""
    conversation: Conversation | None = None
    lines: list[Line] = []
    for line in logs.read(conversation_id):
        if until is not None and line.sequence > until:
            break
        lines.append(line)
        conversation = folded(conversation, line, conversation_id)
    return lines, conversation


def folded(conversation: Conversation | None, line: Line, conversation_id: str) -> Conversation | None:
    """What is known after a line. A damaged one changes nothing."""
    if line.entry is None:
        return conversation
    content = line.entry.content
    if isinstance(content, Began):
        # A file that was copied under another name is another conversation. One that was written by hand may not say when it began.
        content = replace(content, id=conversation_id, time=content.time or time_of(conversation_id))
    after = fold(conversation, content)
    if after is None and isinstance(content, Message | Event):
        # The first line is damaged. The file's name says which conversation it is, the lines that follow say the rest.
        time = content.timestamp if isinstance(content, Message) else content.time
        after = fold(Conversation(conversation_id, LOST_CHANNEL, time, time), content)
    return after


def chunks(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Parts of some `_CHUNK_LINES` lines that end where a batch ends."""
    chunk: list[Line] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) >= _CHUNK_LINES and (line.entry is None or line.entry.stamp.batch[0] == line.entry.stamp.batch[1]):
            yield chunk
            chunk = []
    if chunk:
        yield chunk
