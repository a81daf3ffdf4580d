"""Erasing: the steps by which text leaves a space for good. The log comes first, what was derived
from it next, and what the log was goes last.

| step | of a delete | of a redaction |
| --- | --- | --- |
| 1. `swap` changes the log | it is gone | its lines lack the text, a new one says so |
| 2. before the index | vectors, anchors; provider ids are noted as forgotten | |
| 3. the index forgets | row, history, messages with words | the words; it has the new line |
| 4. behind the index | | anchors, vectors |
| 5. the write-ahead log is cut, `drop` removes what the log was, to its last byte | | |
| 6. the receipt | that of the request is kept | the new line is it |

Up to step 1 nothing has happened. From there on the store lists what the log was (`Version.DELETED`
and `Version.REPLACED`), and all who find it there take the other steps: a call, the next start, a
round of repairs, a process that follows what another one began, and who made a new index. To take
them again is harmless. Unindexing (`services.space.unindexing`) takes step 3 alone, and leaves
the log.

Words can be taken out of an index only by the text that they were added with. A store that
processes share keeps that until each of them has taken it out, but for one that was taken for gone
meanwhile: then only a new index is without the words, and the old one is condemned.

Nothing here takes a lock.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import orjson
import structlog

from recollect_server.domain.conversation import Conversation, MessagesRedacted
from recollect_server.domain.external import Communication
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import is_communication_id
from recollect_server.domain.routing import mail_ids_of
from recollect_server.services.space.communication_logs import CommunicationLogs
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.events import ExchangeRedacted, Redacted
from recollect_server.services.space.logs import (
    IndexAhead,
    Logs,
    RedactedElsewhere,
    RequestKey,
    check_redaction,
)
from recollect_server.services.space.requests import request_of_delete, share
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.columns import KnownRequest
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.removal import Erased, Removed, WordRemoval, Words
from recollect_server.storage.index.stored import Stored
from recollect_server.storage.logs.anchors import AnchorLedger, forgotten_keys
from recollect_server.storage.logs.ledger import forgotten_ledger
from recollect_server.storage.logs.lines import Line, contents_of, lines_of
from recollect_server.storage.logs.received import (
    deliveries,
    forget_deliveries,
    forgotten_deliveries,
)
from recollect_server.storage.logs.store import LogNotFound, LogStore, Position, Version

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


def logs_of(store: LogStore, name: str) -> Logs[Any]:
    """Return the logs of the kind that a name is of."""
    return CommunicationLogs(store) if is_communication_id(name) else ConversationLogs(store)


def empty_log(index: Index, name: str) -> None:
    """Cut the index's write-ahead log, so that no page with the text of a log is left there."""
    if not index.removal.empty_log():
        log.warning("log_not_emptied", conversation=name)


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
    logs: LogStore,
    index: Index,
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
    request = request or request_of_delete(logs, index, name)
    forget_received(logs, index, name)
    removal = index.removal_of(name)
    number = removal.find(name)
    stored = index.indexed(name)
    if request and stored is None:  # the words of all or some are gone from this index already
        lines = enumerate(logs.raw(name, Version.DELETED), 1)
        count = sum(removal.text_of(raw, sequence) is not None for sequence, raw in lines)
        counted = {"messages": count, "search_terms": count}
    if number is None and stored is not None:
        number = stored.number
        removed |= removal.begin(number, name, time)
        hit("delete.row_removed")
    if number is not None:
        removed |= removal.remove_history(number, name)
        hit("delete.history_removed")
        raw = iter(old) if old is not None else logs.raw(name, Version.DELETED)
        count = _remove_messages(raw, index, name, number, progress)
        removed |= {"messages": count, "search_terms": count}
        removal.purge_words(number)
        removal.end(number, name)
        hit("delete.words_removed")
    empty_log(index, name)

    def receipt_of(more: Removed) -> Receipt:
        every = Counter(removed | counted | more)
        every.update(elsewhere or {})
        return Receipt(name, dict(every), time)

    if request and logs.sharing is not None:
        with suppress(LogNotFound):  # another replica was the last that had words of it
            size = logs.length(name, Version.DELETED)
            share(logs, receipt_of({"transcript": size}).known_as(request))
    receipt = receipt_of(logs.drop(name, Version.DELETED))
    hit("delete.log_emptied")
    if request:
        record = share(logs, receipt.known_as(request))
        index.requests.end_delete(record)
        receipt = Receipt.of(record)
    hit("delete.remembered")
    return receipt


def _remove_messages(
    lines: Iterator[bytes],
    index: Index,
    name: str,
    number: int,
    progress: Callable[[int], None] | None,
) -> int:
    """Remove the messages that the index has of a log with these lines. Return their number."""
    removal = index.removal_of(name)
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


# Ledgers ------------------------------------------------------------------------------------------


def forget_received(logs: LogStore, index: Index, name: str) -> None:
    """Add to the ledger of forgotten messages what providers delivered into a deleted log; to do it
    again is harmless. Raises DataUnavailable; LogNotFound where the delete ended.
    """
    hashes = deliveries(logs.raw(name, Version.DELETED))
    if hashes and logs.sharing is not None:
        if logs.sharing.is_deleted_with_space(name):
            return  # a new ledger would let the space be there again
        catch_up_forgotten(logs, index)  # another process may have written some there
        hashes = [it for it in hashes if not index.routing.is_forgotten(it)]
    if hashes:
        ledger = forgotten_ledger(logs)
        forget_deliveries(ledger, hashes)
        hit("delete.forgotten")
        index.routing.forget_deliveries(hashes, ledger.size())


def catch_up_forgotten(logs: LogStore, index: Index) -> None:
    """Index the ledger of forgotten messages. Raises DataUnavailable."""
    ledger = forgotten_ledger(logs)
    ledger.recover()
    if (size := ledger.size()) != index.routing.forgotten_bytes():
        index.routing.forget_deliveries(forgotten_deliveries(ledger), size)


def forget_anchors_again(logs: LogStore, index: Index) -> None:
    """Take out of an index that was caught up the anchors that were forgotten: they stand in
    transcripts still.

    Raises DataUnavailable.
    """
    for key, until in forgotten_keys(logs).items():
        index.anchors.forget(key, until)


# Redactions ---------------------------------------------------------------------------------------


def finish_redaction(
    store: LogStore,
    index: Index,
    anchors: AnchorLedger,
    name: str,
    time: int,
    publish: Callable[[object], None],
    raw: list[bytes],
    old: list[Line],
) -> tuple[Conversation | Communication, int, Line]:
    """Take the steps of a redaction behind the first one. Return the conversation, or the
    communication, the cursor of a conversation's redaction, 0 if the index had it, and its line.

    `raw` and `old` are the lines as they were. Raises DataUnavailable: then the next start finishes
    it. Hold the log's lock.
    """
    logs = logs_of(store, name)
    lines = lines_of(name, list(store.raw(name)), (raw, old))
    after: Conversation | Communication | None = None
    event = lines[len(old)]
    for line in lines[: len(old) + 1]:  # another process may have written behind it
        after = logs.folded(after, line, name)
    redacted = event.entry.content if event.entry else None
    stored = index.indexed(name)
    if after is None or not isinstance(redacted, MessagesRedacted) or stored is None:
        raise IndexAhead(f"it does not have {name} as it was before a redaction")
    if isinstance(after, Communication):
        # before a panel hears of the new line, and folds the others
        publish(ExchangeRedacted(name))
    cursor = 0
    if stored.lines < event.sequence:
        if (stored.lines, stored.bytes) != (old[-1].sequence, old[-1].end):
            raise IndexAhead(f"it lacks lines of {name}")
        cursor = _take_out(index, stored, after, event, _erased(old, lines), time)
    else:
        index.removal_of(name).purge_words(stored.number)
    if isinstance(after, Conversation):
        anchors.drop_source(name, redacted.sequences)
        anchors.changed()
        publish(Redacted(name, stored.number, redacted.sequences))
    hit("redact.forgotten")
    # first: a loss of power could bring back an index that needs what the log was
    empty_log(index, name)
    store.drop(name, Version.REPLACED)
    return after, cursor, event


def _take_out(
    index: Index,
    stored: Stored[Conversation | Communication],
    after: Conversation | Communication,
    event: Line,
    erased: Erased,
    time: int,
) -> int:
    """Let the index take in the line that says what was redacted, and have none of its text."""
    number, before = stored.number, stored.state
    if isinstance(before, Conversation):
        assert isinstance(after, Conversation)
        return index.redact(number, before, after, event, erased, time=time)
    assert isinstance(after, Communication)
    index.external.redact(number, before, after, event, erased, time=time)
    return 0


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
    return Erased(changed, requests - {""}, mail_ids_of(contents_of(new)))


def finish_interrupted(
    store: LogStore,
    index: Index,
    anchors: AnchorLedger,
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
    return follow_redaction(store, index, anchors, name, time, publish)


def _is_unchanged(store: LogStore, name: str) -> bool:
    """Return whether a crash came before the lines of a log were replaced: it begins with what it
    was, of which a crash may have kept a part.
    """
    lines = store.raw(name)
    return all(line == next(lines, None) for line in store.raw(name, Version.REPLACED))


def follow_redaction(
    store: LogStore,
    index: Index,
    anchors: AnchorLedger,
    name: str,
    time: int,
    publish: Callable[[object], None],
) -> list[Line]:
    """Finish a redaction that was begun elsewhere or before (see `finish_interrupted`)."""
    stored = index.indexed(name)
    if store.sharing is not None and stored is None:
        store.drop(name, Version.REPLACED)
        return []
    try:
        raw = list(store.raw(name, Version.REPLACED))
        old = lines_of(name, raw)
        behind: list[Line] = []
        if store.sharing is not None and stored is not None:
            behind = old[stored.lines :]
            _take_in(logs_of(store, name), index, stored, behind, time)
        event = finish_redaction(store, index, anchors, name, time, publish, raw, old)[-1]
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
    stored: Stored[Conversation | Communication],
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
    stored: Stored[Conversation | Communication],
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
