"""Erasing: the steps by which text leaves a space for good. The log comes first, what was derived
from it next, and what the log was goes last.

| step | of a delete | of a redaction |
| --- | --- | --- |
| 1. `swap` changes the log | it is gone | its lines lack the text, a new one says so |
| 2. before the index | what features have of it | |
| 3. the index forgets | row, history, messages with words | the words; it has the new line |
| 4. behind the index | | what features have of it |
| 5. the write-ahead log is cut, `drop` removes what the log was, to its last byte | | |
| 6. the receipt | that of the request is kept | the new line is it |

Up to step 1 nothing has happened. From there on the store lists what the log was (`Version.DELETED`
and `Version.REPLACED`), and all who find it there take the other steps: a call, the next start, a
round of repairs, a process that follows what another one began, and who made a new index. To take
them again is harmless. Unindexing (`kernel.erase.unindexing`) takes step 3 alone, and leaves
the log.

Words can be taken out of an index only by the text that they were added with. A store that
processes share keeps that until each of them has taken it out, but for one that was taken for gone
meanwhile: then only a new index is without the words, and the old one is condemned.

Nothing here takes a lock.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import orjson
import structlog

from recollect_server.kernel.domain.conversation import MessagesRedacted
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.derived import Erased, Removed
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.removal import WordRemoval, Words
from recollect_server.kernel.index.stored import Stored
from recollect_server.kernel.log.kinds import Kind
from recollect_server.kernel.log.lines import Line, lines_of
from recollect_server.kernel.log.store import LogNotFound, LogStore, Position, Version
from recollect_server.kernel.space.events import Redacted, Redacting
from recollect_server.kernel.space.logs import (
    IndexAhead,
    Logs,
    RedactedElsewhere,
    RequestKey,
    check_redaction,
)
from recollect_server.kernel.space.requests import request_of_delete, share

log = structlog.get_logger("recollect.deletion")
redaction_log = structlog.get_logger("recollect.redaction")

PART = 1000  # messages of one transaction: other writers take their turn between two
_PART_BYTES = 256 << 10  # of their lines
# where each word is edited out of the index at once, which takes some fifty times as long
EDITED_PART_BYTES = 16 << 10


def part_bytes(*, mark: bool) -> int:
    """Return how many bytes the lines of messages have whose words go in one transaction; `mark`:
    they are only marked.
    """
    return _PART_BYTES if mark else EDITED_PART_BYTES


def empty_log(index: Index, name: str) -> None:
    """Cut the index's write-ahead log, so that no page with the text of a log is left there."""
    if not index.removal.empty_log():
        log.warning("log_not_emptied", conversation=name)


# What features have ---------------------------------------------------------------------------


class Participant:
    """A feature's own ledgers of a space, and what they say of the index: it takes part where text
    is erased and where the index is made or caught up. Each method does nothing unless a feature
    overrides it, may be called again, and raises DataUnavailable.
    """

    ledgers: ClassVar[tuple[str, ...]] = ()
    """Logs of which a space has one each."""

    def __init__(self, store: LogStore) -> None:
        self.store = store

    def release(
        self,
        index: Index,
        conversation_id: str,
        number: int | None,
        disposition: int,
    ) -> None:
        """Keep what is to stay of a conversation that is about to be deleted, or refuse that, as
        its caller's `disposition` says. `number` is that of the conversation in the index. Its lock
        is held.
        """

    def erase(self, index: Index, name: str) -> Removed:  # noqa: ARG002
        """Take out what there is of a log whose delete has begun, before the index forgets it.
        Return how much. Raises LogNotFound where the delete ended.
        """
        return {}

    def redact(self, conversation_id: str, sequences: Collection[int]) -> None:
        """Take out what there is of messages whose text was removed from log and index."""

    def before_logs(self, index: Index) -> None:
        """Let an index have what ledgers say, before it takes in what it lacks of the logs."""

    def behind_logs(self, index: Index) -> None:
        """Do so once it has all of the logs."""

    def follow(self, index: Index) -> None:
        """Take in what another process wrote to a ledger."""


def erase_all(participants: Iterable[Participant], index: Index, name: str) -> Removed:
    """Let each take out what it has of a log (see `Participant.erase`)."""
    removed: Removed = {}
    for it in participants:
        removed |= it.erase(index, name)
    return removed


# Deletes ------------------------------------------------------------------------------------------


@frozen
class Receipt:
    """Receipt of a delete: how much was removed, by place."""

    conversation_id: str
    removed: Removed
    time: int

    def known_as(self, request: RequestKey) -> KnownRequest:
        """Return the request that this answers, to be remembered."""
        answer = orjson.dumps({"removed": self.removed, "time": self.time}).decode()
        return KnownRequest(request.id, request.hash, self.conversation_id, answer=answer)

    @classmethod
    def of(cls, record: KnownRequest) -> "Receipt":
        """Return the receipt that answered a request."""
        answer = orjson.loads(record.answer)
        return cls(record.conversation_id, answer["removed"], answer["time"])


def finish_delete(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    name: str,
    time: int,
    request: RequestKey | None = None,
    *,
    elsewhere: Removed | None = None,
    progress: Callable[[int], None] | None = None,
    old: list[bytes] | None = None,
) -> Receipt:
    """Take the steps of a delete behind the first one, of a conversation or of a communication, and
    keep the receipt of the request that began the delete.

    `request`: None: it is looked up. `elsewhere` is what was removed of it outside of log and
    index. `progress` is called with the number of bytes of the transcript that are done with. `old`
    are the lines that the index has (see `lines_as_indexed`); None: those of the log. No lock is
    needed: the conversation is gone. Raises DataUnavailable: then the next start finishes it.
    """
    removed: Removed = {}
    counted: Removed = {}
    store, removal = logs.store, logs.removal(index)
    request = request or request_of_delete(store, index, name)
    other = erase_all(participants, index, name)
    number = removal.find(name)
    stored = logs.find(index, name)
    if request and stored is None:  # the words of all or some are gone from this index already
        lines = enumerate(store.raw(name, Version.DELETED), 1)
        count = sum(removal.text_of(raw, sequence) is not None for sequence, raw in lines)
        counted = {"messages": count, "search_terms": count}
    if number is None and stored is not None:
        number = stored.number
        removed |= removal.begin(number, name, time)
        hit("delete.row_removed")
    if number is not None:
        removed |= removal.remove_history(number, name)
        hit("delete.history_removed")
        raw = iter(old) if old is not None else store.raw(name, Version.DELETED)
        count = _remove_messages(raw, index, removal, name, number, progress)
        removed |= {"messages": count, "search_terms": count}
        removal.purge_words(number)
        removal.end(number, name)
        hit("delete.words_removed")
    empty_log(index, name)

    def receipt_of(more: Removed) -> Receipt:
        every = Counter(removed | counted | more)
        every.update(other)
        every.update(elsewhere or {})
        return Receipt(name, dict(every), time)

    if request and store.sharing is not None:
        with suppress(LogNotFound):  # another replica was the last that had words of it
            size = store.length(name, Version.DELETED)
            share(store, receipt_of({"transcript": size}).known_as(request))
    receipt = receipt_of(store.drop(name, Version.DELETED))
    hit("delete.log_emptied")
    if request:
        record = share(store, receipt.known_as(request))
        index.requests.end_delete(record)
        receipt = Receipt.of(record)
    hit("delete.remembered")
    return receipt


def _remove_messages(
    lines: Iterator[bytes],
    index: Index,
    removal: WordRemoval,
    name: str,
    number: int,
    progress: Callable[[int], None] | None,
) -> int:
    """Remove the messages that the index has of a log with these lines. Return their number."""
    mark = removal.is_long(number)
    most = part_bytes(mark=mark)
    count = size = end = 0
    part: list[Words] = []

    def remove() -> None:
        nonlocal count, size
        removal.remove_messages(number, part, mark=mark)
        hit("delete.part_removed")
        count += len(part)
        size = 0
        part.clear()
        if progress:
            progress(end)

    indexed = _indexed(removal, number)
    awaited = next(indexed, 0)
    for sequence, raw in enumerate(lines, 1):
        end += len(raw) + 1
        if sequence != awaited:
            continue
        awaited = next(indexed, 0)
        if (text := removal.text_of(raw, sequence)) is None:
            # Its words are in the index and cannot be named any more: only a new index is without
            # them.
            index.want_rebuild(f"line {sequence} of {name} was damaged before it was deleted")
            continue
        part.append((sequence, text))
        size += len(raw)
        if len(part) == PART or size >= most:
            remove()
    if part:
        remove()
    return count


def _indexed(removal: WordRemoval, number: int) -> Iterator[int]:
    """Yield the lines of a log that are indexed messages, while these are removed."""
    last = 0
    while part := removal.sequences(number, last, 4096):
        yield from part
        last = part[-1]


# Redactions ---------------------------------------------------------------------------------------


def finish_redaction(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    name: str,
    time: int,
    publish: Callable[[object], None],
    raw: list[bytes],
    old: list[Line],
) -> tuple[Any, int, Line]:
    """Take the steps of a redaction behind the first one. Return the log's state, the cursor of a
    conversation's redaction, 0 if the index had it, and its line.

    `raw` and `old` are the lines as they were. Raises DataUnavailable: then the next start finishes
    it. Hold the log's lock.
    """
    store, after = logs.store, None
    lines = lines_of(name, list(store.raw(name)), (raw, old))
    event = lines[len(old)]
    for line in lines[: len(old) + 1]:  # another process may have written behind it
        after = logs.folded(after, line, name)
    redacted = event.entry.content if event.entry else None
    stored = logs.find(index, name)
    if after is None or not isinstance(redacted, MessagesRedacted) or stored is None:
        raise IndexAhead(f"it does not have {name} as it was before a redaction")
    is_conversation = logs.kind is Kind.CONVERSATION
    if not is_conversation:
        # before a watcher hears of the new line, and folds the others
        publish(Redacting(name))
    cursor = 0
    if stored.lines < event.sequence:
        if (stored.lines, stored.bytes) != (old[-1].sequence, old[-1].end):
            raise IndexAhead(f"it lacks lines of {name}")
        cursor = logs.redact(index, stored, after, event, _erased(old, lines), time=time)
    else:
        logs.removal(index).purge_words(stored.number)
    if is_conversation:
        for it in participants:
            it.redact(name, redacted.sequences)
        publish(Redacted(name, stored.number, redacted.sequences))
    hit("redact.forgotten")
    # first: a loss of power could bring back an index that needs what the log was
    empty_log(index, name)
    store.drop(name, Version.REPLACED)
    return after, cursor, event


def _erased(old: list[Line], new: list[Line]) -> Erased:
    """Return what the lines of a log say otherwise than before."""
    changed: list[tuple[object, Line]] = []
    requests: set[str] = set()
    for before, after in zip(old, new, strict=False):
        if before is after or before.entry is None or after.entry is None:
            continue
        if before.entry.stamp != after.entry.stamp:
            requests.add(after.entry.stamp.request_id)
        if before.entry.content != after.entry.content:
            changed.append((before.entry.content, after))
    return Erased(changed, requests - {""}, new)


def finish_interrupted(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    name: str,
    time: int,
    publish: Callable[[object], None],
    *,
    is_rebuilt: bool,
) -> list[Line]:
    """Finish, or take back, a redaction that a crash or a lost index interrupted, or that other
    processes began or have not ended. Return the lines that the index lacked and has now.
    `is_rebuilt`: the index was just made from the logs. Hold the log's lock.

    Raises IndexAhead: then a new index helps; DataUnavailable.
    """
    redaction_log.warning("finishing_interrupted_redaction", conversation=name)
    store = logs.store
    try:
        store.length(name)  # raises LogNotFound
        if store.sharing is None and _is_unchanged(store, name):
            store.drop(name, Version.REPLACED, undone=True)
            return []
    except LogNotFound:  # it was deleted meanwhile
        with suppress(LogNotFound):
            store.drop(name, Version.REPLACED)
        if is_rebuilt:
            return []  # its delete is to be followed
        raise IndexAhead(f"it may have words of {name}, which is deleted") from None
    return follow_redaction(logs, index, participants, name, time, publish)


def _is_unchanged(store: LogStore, name: str) -> bool:
    """Return whether a crash came before the lines of a log were replaced: it begins with what it
    was, of which a crash may have kept a part.
    """
    lines = store.raw(name)
    return all(line == next(lines, None) for line in store.raw(name, Version.REPLACED))


def follow_redaction(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    name: str,
    time: int,
    publish: Callable[[object], None],
) -> list[Line]:
    """Finish a redaction that was begun elsewhere or before (see `finish_interrupted`)."""
    store, stored = logs.store, logs.find(index, name)
    if store.sharing is not None and stored is None:
        store.drop(name, Version.REPLACED)
        return []
    try:
        raw = list(store.raw(name, Version.REPLACED))
        old = lines_of(name, raw)
        behind: list[Line] = []
        if store.sharing is not None and stored is not None:
            behind = old[stored.lines :]
            _take_in(logs, index, stored, behind, time)
        event = finish_redaction(logs, index, participants, name, time, publish, raw, old)[-1]
    except LogNotFound:
        if store.sharing is None:
            raise
        # Other processes have ended it, or deleted the log: to catch up with that, or to follow it,
        # finds out whether the index has the text.
        return []
    return [*behind, event] if stored and stored.lines < event.sequence else []


def _take_in(
    logs: Logs[Any],
    index: Index,
    stored: Stored[Any],
    behind: list[Line],
    time: int,
) -> None:
    """Let an index take in what it lacks of a log as it was before a redaction. Raises
    DataUnavailable.
    """
    if not behind:
        return
    name = stored.state.id
    check_behind(index, name, behind, stored.lines)
    refused: list[str] = []
    before = stored.state
    after = logs.behind(before, behind, name)
    logs.add(
        *(index, stored.number, before, after, behind), time=time, failed=refused.append, log=True
    )
    logs.settle(index, name, refused)


# What the index has -------------------------------------------------------------------------------


def lines_as_indexed(
    store: LogStore,
    index: Index,
    conversation_id: str,
    stored: Stored[Any],
    *,
    is_deleted: bool = False,
) -> list[bytes] | None:
    """Return the lines of a log as the index has them, if another process redacted some
    and the index has not followed that; None if the log has them. `is_deleted`: its delete has
    begun.

    Ask behind a read of the log, and hold its lock. Raises RedactedElsewhere if
    nobody has them: the index is condemned then; StorageUnavailable.
    """
    if store.sharing is None:
        return None
    old: list[bytes] | None = None
    with suppress(LogNotFound):  # every process has followed it
        old = list(store.raw(conversation_id, Version.REPLACED))
    if old is not None and stored.lines > len(old):
        return None
    behind: Iterable[Line] = ()
    with suppress(LogNotFound):  # deleted meanwhile, or its delete ended
        if old is not None:
            behind = lines_of(conversation_id, old)[stored.lines :]
        elif not is_deleted:
            behind = store.read(conversation_id, Position(stored.lines, stored.bytes))
        elif store.length(conversation_id, Version.DELETED) != stored.bytes:
            deleted = list(store.raw(conversation_id, Version.DELETED))
            behind = lines_of(conversation_id, deleted)[stored.lines :]
        check_behind(index, conversation_id, behind, stored.lines)
    return old


def check_behind(index: Index, conversation_id: str, behind: Iterable[Line], indexed: int) -> None:
    """Raise RedactedElsewhere, and condemn the index, if lines of a conversation behind so many
    that are indexed say that some of these were redacted.
    """
    try:
        for line in behind:
            check_redaction(line, indexed, conversation_id)
    except RedactedElsewhere as error:
        index.condemn(str(error))
        raise
