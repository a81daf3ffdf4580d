"""Deleting a conversation: durable from the first step on, and complete after the last.

1. The transcript is renamed to `….deleting`, and the folder synced: from here on the conversation is gone, whatever happens.
2. The anchors that came from it and are not kept go. What providers delivered into it is added to the ledger of forgotten messages,
   by hashes of their ids: it must not come back.
3. The index takes out the conversation's row, then its history, then its messages with their words (the text comes from the
   renamed file), in short transactions: other calls take their turn in between.
4. The file is removed, and what was cut off it before; the folder is synced.
5. The write-ahead log is cut, so that no page with the text is left there.

A start-up finishes what a crash interrupted, from step 2.
"""

from collections.abc import Callable
from dataclasses import replace

import structlog

from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.errors import AnchorsPresent, IndexUnavailable
from recollect_server.services.space.space import Space
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.removal import Removed, Spoken
from recollect_server.storage.logs.anchors import AnchorFile, forgotten_keys
from recollect_server.storage.logs.ledger import Ledger
from recollect_server.storage.logs.lines import contents_of, spoken
from recollect_server.storage.logs.received import deliveries, forget_deliveries, forgotten_deliveries
from recollect_server.storage.logs.record import Entry
from recollect_server.storage.logs.store import FORGOTTEN, LogStore

log = structlog.get_logger("recollect.deletion")

KEEP_ANCHORS, DELETE_ANCHORS = 1, 2  # as the contract numbers them; 0 says neither

_PART = 1000  # messages of one transaction, and bytes of their lines: other writers take their turn between two
_PART_BYTES = 256 << 10
_SECURE_PART_BYTES = 16 << 10  # where each word is edited out of the index at once, which takes some fifty times as long


def settle_anchors(space: Space, conversation_id: str, number: int | None, disposition: int) -> None:
    """Before step 1: keeps the anchors that came from the conversation in the file of anchors, where that is asked for.

    Those that are not kept go with it: the found ones with the transcript, those that callers set in step 2. Raises AnchorsPresent
    if there are any and it is not said what becomes of them; StorageUnavailable. Hold the conversation's lock.
    """
    if disposition == DELETE_ANCHORS:
        return
    with space.anchors.lock:
        contents = [entry.content for entry in space.anchors.entries]
        own = [it for it in contents if isinstance(it, AnchorSet) and it.conversation_id == conversation_id]
        found = _found(space, conversation_id, number)
        if not own and not found:
            return
        if disposition != KEEP_ANCHORS:
            raise AnchorsPresent(len(own) + len(found))
        there = set(contents)
        new = [anchor for anchor in found if anchor not in there]  # else a call that was cut short kept it

        def alone(anchor: AnchorSet) -> AnchorSet:
            return replace(anchor, conversation_id="", sequence=0) if anchor.conversation_id == conversation_id else anchor

        space.anchors.rewrite(alone, [Entry(anchor) for anchor in new])


def _found(space: Space, conversation_id: str, number: int | None) -> list[AnchorSet]:
    """The anchors that were found in a conversation, without their message: by its transcript where the index does not know."""
    forgotten = space.anchors.forgotten()
    try:
        if number is not None:
            rows = space.index.anchors.of(number)
            found = [AnchorSet(row.key, row.value, row.confidence, 0, row.time) for row in rows]
            return [anchor for anchor in found if anchor.time > forgotten.get(anchor.key, -1)]
    except IndexUnavailable:
        pass
    contents = contents_of(list(space.logs.read(conversation_id)))
    found = [replace(content, sequence=0) for content in contents if isinstance(content, AnchorSet)]
    return [anchor for anchor in found if anchor.time > forgotten.get(anchor.key, -1)]


def drop_anchors(anchors: AnchorFile, conversation_id: str) -> int:
    """In step 2: anchors that callers set, and that came from the conversation, go. Returns how many. Raises StorageUnavailable."""
    return anchors.drop_source(conversation_id)


def finish_delete(
    logs: LogStore, index: Index, conversation_id: str, time: int, progress: Callable[[int], None] | None = None
) -> Removed:
    """Steps 2 to 5; taking them again after a crash is harmless. Returns what was removed from where.

    `progress` is called with the number of bytes of the transcript that are done with. No lock is needed: the conversation is gone.
    Raises IndexUnavailable, StorageUnavailable: then the next start finishes it.
    """
    removed: Removed = {}
    if hashes := deliveries(logs.raw_deleted(conversation_id)):
        ledger = Ledger(logs, FORGOTTEN)
        forget_deliveries(ledger, hashes)
        hit("delete.forgotten")
        index.routing.forget_deliveries(hashes, ledger.size())
    number = index.removal.find(conversation_id)
    if number is None and (stored := index.conversations.find(conversation_id)) is not None:
        number = stored.number
        removed |= index.removal.begin(number, conversation_id, time)
        hit("delete.row_removed")
    if number is not None:
        removed |= index.removal.remove_history(number, conversation_id)
        hit("delete.history_removed")
        count = _remove_messages(logs, index, conversation_id, number, progress)
        removed |= {"messages": count, "search_terms": count}
        index.removal.purge_words(number)
        index.removal.end(number)
        hit("delete.words_removed")
    removed |= logs.end_delete(conversation_id)
    if not index.removal.empty_log():
        log.warning("log_not_emptied", conversation=conversation_id)
    return removed


def bring_up_forgotten(logs: LogStore, index: Index) -> None:
    """Let the index know what the ledger of forgotten messages has. Raises IndexUnavailable, LogUnavailable."""
    ledger = Ledger(logs, FORGOTTEN)
    ledger.recover()
    if (size := ledger.size()) != index.routing.forgotten_bytes():
        index.routing.forget_deliveries(forgotten_deliveries(ledger), size)


def forget_anchors_again(logs: LogStore, index: Index) -> None:
    """Take out of an index that was caught up the anchors that were forgotten: they stand in transcripts still.

    Raises IndexUnavailable, LogUnavailable.
    """
    for key, until in forgotten_keys(logs).items():
        index.anchors.forget(key, until)


def _remove_messages(
    logs: LogStore, index: Index, conversation_id: str, number: int, progress: Callable[[int], None] | None
) -> int:
    mark = index.removal.is_long(number)
    most = _PART_BYTES if mark else _SECURE_PART_BYTES
    count = size = last = 0
    part: list[Spoken] = []
    sequences: set[int] = set()
    highest = 0

    def wanted(sequence: int) -> bool:
        nonlocal highest, sequences
        if sequence > highest:
            following = index.removal.sequences(number, highest, 4096)
            sequences = set(following)
            highest = following[-1] if len(following) == 4096 else 1 << 62
        return sequence in sequences

    def remove() -> None:
        nonlocal count, size
        index.removal.remove_messages(number, part, mark=mark)
        hit("delete.part_removed")
        count += len(part)
        size = 0
        part.clear()

    for sequence, end, message in spoken(logs.raw_deleted(conversation_id), wanted):
        if message is None:
            # Its words are in the index and cannot be named any more: only a new index is without them.
            index.want_rebuild(f"line {sequence} of {conversation_id} was damaged before it was deleted")
        else:
            part.append((sequence, *message))
            size += end - last
        last = end
        if len(part) == _PART or size >= most:
            remove()
            if progress:
                progress(end)
    if part:
        remove()
    return count
