"""The steps of a delete around the first one (see `services.space.deletion`): `settle_anchors`
before it, `finish_delete` behind it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import orjson
import structlog

from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.errors import AnchorsPresent, IndexUnavailable
from recollect_server.domain.frozen import frozen
from recollect_server.services.space.answered_requests import request_of_delete, share
from recollect_server.services.space.state import RequestKey
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.columns import KnownRequest
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.removal import Removed, WordRemoval, Words
from recollect_server.storage.logs.anchors import AnchorLedger, forgotten_keys
from recollect_server.storage.logs.ledger import forgotten_ledger
from recollect_server.storage.logs.lines import contents_of
from recollect_server.storage.logs.received import (
    deliveries,
    forget_deliveries,
    forgotten_deliveries,
)
from recollect_server.storage.logs.record import Entry
from recollect_server.storage.logs.store import LogNotFound, LogStore, Version

log = structlog.get_logger("recollect.deletion")

KEEP_ANCHORS, DELETE_ANCHORS = 1, 2  # as the contract numbers them; 0 says neither

# messages of one transaction, and bytes of their lines: other writers take their turn between two
_PART = 1000
_PART_BYTES = 256 << 10
# where each word is edited out of the index at once, which takes some fifty times as long
_SECURE_PART_BYTES = 16 << 10


def settle_anchors(
    file: AnchorLedger,
    index: Index,
    logs: LogStore,
    conversation_id: str,
    number: int | None,
    disposition: int,
) -> None:
    """Keep the anchors that came from the conversation in their own file, if that is asked for.

    Call it before step 1. The others go with it: those that were found with the transcript, those
    that callers set in the second step. Raises AnchorsPresent if there are any and `disposition` is
    unset; StorageUnavailable. Hold the conversation's lock.
    """
    if disposition == DELETE_ANCHORS:
        return
    with file.lock:
        contents = [entry.content for entry in file.entries]
        own = _anchors_set(file, conversation_id)
        from_messages = _anchors_found(file, index, logs, conversation_id, number)
        if not own and not from_messages:
            return
        if disposition != KEEP_ANCHORS:
            raise AnchorsPresent(len(own) + len(from_messages))
        there = set(contents)
        # else a call that was cut short kept it
        new = [anchor for anchor in from_messages if anchor not in there]

        def alone(anchor: AnchorSet) -> AnchorSet:
            return (
                replace(anchor, conversation_id="", sequence=0)
                if anchor.conversation_id == conversation_id
                else anchor
            )

        file.rewrite(alone, [Entry(anchor) for anchor in new])


def anchors_of(
    file: AnchorLedger, index: Index, logs: LogStore, conversation_id: str, number: int | None
) -> list[AnchorSet]:
    """Return the anchors that go with a conversation, unless they are kept: those that callers set
    from it, and those that were found in it.
    """
    with file.lock:
        return [
            *_anchors_set(file, conversation_id),
            *_anchors_found(file, index, logs, conversation_id, number),
        ]


def _anchors_set(file: AnchorLedger, conversation_id: str) -> list[AnchorSet]:
    contents = [entry.content for entry in file.entries]
    return [
        it for it in contents if isinstance(it, AnchorSet) and it.conversation_id == conversation_id
    ]


def _anchors_found(
    file: AnchorLedger, index: Index, logs: LogStore, conversation_id: str, number: int | None
) -> list[AnchorSet]:
    """Return the anchors found in a conversation, without their message.

    They are read from its transcript where the index cannot answer.
    """
    anchors: list[AnchorSet] | None = None
    if number is not None:
        with suppress(IndexUnavailable):
            anchors = [
                AnchorSet(row.key, row.value, row.confidence, 0, row.time)
                for row in index.anchors.of(number)
            ]
    if anchors is None:
        contents = contents_of(list(logs.read(conversation_id)))
        anchors = [
            replace(content, sequence=0) for content in contents if isinstance(content, AnchorSet)
        ]
    forgotten = file.forgotten()
    return [anchor for anchor in anchors if anchor.time > forgotten.get(anchor.key, -1)]


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
    """Take steps 2 to 5, of a conversation or of a communication, and keep the receipt of the
    request that began the delete; to take them again after a crash is harmless.

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


def empty_log(index: Index, name: str) -> None:
    """Cut the index's write-ahead log, so that no page with the text of a log is left there."""
    if not index.removal.empty_log():
        log.warning("log_not_emptied", conversation=name)


def forget_received(logs: LogStore, index: Index, name: str) -> None:
    """Add to the ledger of forgotten messages what providers delivered into a deleted log; to do it
    again is harmless. Raises DataUnavailable; LogNotFound where the delete ended.
    """
    if hashes := _new_deliveries(logs, index, name):
        ledger = forgotten_ledger(logs)
        forget_deliveries(ledger, hashes)
        hit("delete.forgotten")
        index.routing.forget_deliveries(hashes, ledger.size())


def _new_deliveries(logs: LogStore, index: Index, name: str) -> list[str]:
    """Return the hashes of what was delivered into a deleted log, but for those that another
    process wrote to the ledger already, or whose ledger was deleted with the whole space.
    """
    hashes = deliveries(logs.raw(name, Version.DELETED))
    if not hashes or logs.sharing is None:
        return hashes
    if logs.sharing.is_deleted_with_space(name):
        return []  # a new ledger would let the space be there again
    catch_up_forgotten(logs, index)
    return [it for it in hashes if not index.routing.is_forgotten(it)]


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
    most = _PART_BYTES if mark else _SECURE_PART_BYTES
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
        if len(part) == _PART or size >= most:
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
