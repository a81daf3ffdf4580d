"""Brings the index of one conversation up to its transcript: what a start-up, a rebuild and a write after a failure share."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import structlog

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import Began, Conversation, Event, OpenCall, fold, open_calls_after
from recollect_server.domain.errors import ConversationDamaged, ConversationNotFound, IndexUnavailable, StorageUnavailable
from recollect_server.domain.ids import time_of
from recollect_server.domain.message import Message
from recollect_server.domain.routing import mail_ids_of
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.anchors import forgotten_keys
from recollect_server.storage.logs.files import TranscriptFolder
from recollect_server.storage.logs.reader import Line, contents_of, ends_a_line, read_lines, scan
from recollect_server.storage.logs.record import LOST_CHANNEL
from recollect_server.storage.logs.repair import TornTail, mend

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


def mend_whole(folder: TranscriptFolder, conversation_id: str) -> Mended:
    """Mends a transcript's tail before anything of it is indexed, ahead of `catch_up`, many at once. Raises OSError."""
    path = folder.path(conversation_id)
    lines: list[Line] = []
    size = path.stat().st_size
    torn = mend(path, folder.torn_path(conversation_id), see=lines.append if size <= _MAX_KEPT else None)
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
    folder: TranscriptFolder,
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
    path = folder.path(conversation_id)
    offset, lines = (stored.bytes, stored.lines) if stored else (0, 0)
    number = stored.number if stored else None
    conversation = stored.conversation if stored else None
    try:
        if stored and stored.calls_unknown:
            conversation = replace(stored.conversation, open_calls=_open_calls(path, stored.lines))
        size = path.stat().st_size
        if size < offset:
            raise IndexAhead(f"{path.name} has {size} bytes and {offset} of it are indexed")
        if stored and size > offset and not _goes_on(path, index, stored):
            raise IndexAhead(f"{path.name} is another one than was indexed, up to byte {offset}")
        ready = mended() if mended else Mended(mend(path, folder.torn_path(conversation_id), offset, lines + 1), None)
        torn = ready.torn
        if torn:
            log.warning("torn_tail_cut", conversation=conversation_id, bytes=torn.bytes_cut, reason=torn.reason)
        hit("catch_up.mended")
        messages = 0
        damage = Damage(conversation_id)
        refused: list[str] = []
        for chunk in chunks(scan(path, offset, lines + 1) if ready.lines is None else iter(ready.lines)):
            before = conversation
            for line in chunk:
                conversation = folded(conversation, line, conversation_id)
                messages += line.entry is not None and isinstance(line.entry.content, Message)
                damage.see(line)
            if conversation is None:
                continue
            mail = mail_ids_of(contents_of(chunk)) if conversation.channel == EMAIL else ()
            number, _ = index.add(number, before, conversation, chunk, mail=mail, time=time, failed=refused.append, log=log_updates)
            offset, lines = chunk[-1].end, chunk[-1].sequence
            hit("catch_up.part")
        damage.end_run()
    except FileNotFoundError:
        raise ConversationNotFound(conversation_id) from None
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    if conversation is None or number is None:
        raise not_there(folder, conversation_id)
    if wait:
        index.settle()
        if refused:
            raise IndexUnavailable(f"the index refused lines of {conversation_id}: {refused[0]}")
    return CaughtUp(Stored(number, conversation, offset, lines), messages, damage.count, torn.bytes_cut if torn else 0)


def _open_calls(path: Path, lines: int) -> tuple[OpenCall, ...]:
    """Return the tool calls that wait for a result behind the first `lines` lines of a transcript. Raises OSError."""
    calls: tuple[OpenCall, ...] = ()
    for line in islice(scan(path), lines):
        content = line.entry.content if line.entry else None
        if isinstance(content, Message):
            calls = open_calls_after(calls, content)
    return calls


def not_there(folder: TranscriptFolder, conversation_id: str) -> ConversationNotFound:
    """Why no line of a conversation can be read: it never began or was deleted, or each of its lines is damaged.

    Damaged lines at a file's end are cut off and kept (see `storage.logs.repair`): then there is a torn tail and no more.
    """
    left = (folder.torn_path(conversation_id), folder.path(conversation_id))
    name = next((path.name for path in left if path.exists() and path.stat().st_size), None)
    return ConversationDamaged(conversation_id, name) if name else ConversationNotFound(conversation_id)


def forget_anchors_again(folder: TranscriptFolder, index: Index) -> None:
    """Takes out of an index that was brought up the anchors that were forgotten: they stand in transcripts still.

    Raises IndexUnavailable, OSError.
    """
    for key, until in forgotten_keys(folder).items():
        index.anchors.forget(key, until)


def _goes_on(path: Path, index: Index, stored: Stored) -> bool:
    """Whether the transcript still is the one that was indexed: its newest message and a line's end are where they were.

    What was put in or taken out before them moves both. Then nothing that the index knows is where it says. Raises OSError.
    """
    if newest := index.messages.newest(stored.number):
        place, turn_number, timestamp = newest
        entry = read_lines(path, [place])[0].entry
        content = entry.content if entry else None
        if not isinstance(content, Message) or (content.turn_number, content.timestamp) != (turn_number, timestamp):
            return False
    return ends_a_line(path, stored.bytes)


def read_unindexed(folder: TranscriptFolder, conversation_id: str, until: int | None) -> tuple[list[Line], Conversation | None]:
    """All whole lines of a transcript up to line `until`, and what they say, without the index. Raises OSError."""
    conversation: Conversation | None = None
    lines: list[Line] = []
    for line in scan(folder.path(conversation_id)):
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
