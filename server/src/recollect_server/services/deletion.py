"""Deleting a conversation: durable from the first step on, and complete after the last.

1. The transcript is renamed to `….deleting`, and the folder synced: from here on the conversation is gone, whatever happens.
2. What providers delivered into it is added to the ledger of forgotten messages, by hashes of their ids: it must not come back.
3. The index takes out the conversation's row, then its messages with their words (the text comes from the renamed file).
4. The file is removed, and what was cut off it before; the folder is synced.
5. The write-ahead log is cut, so that no page with the text is left there.

A start-up finishes what a crash interrupted, from step 2.
"""

import structlog

from recollect_server.domain.conversation import AnchorSet
from recollect_server.domain.errors import AnchorsPresent, IndexUnavailable, NotYetImplemented, StorageUnavailable
from recollect_server.domain.message import Message
from recollect_server.storage.index.index import Index, Removed
from recollect_server.storage.points import reach
from recollect_server.storage.transcript.files import TranscriptFolder, sync_folder
from recollect_server.storage.transcript.ledger import FORGOTTEN, Ledger
from recollect_server.storage.transcript.reader import scan
from recollect_server.storage.transcript.received import deliveries, forget, forgotten

log = structlog.get_logger("recollect.deletion")

KEEP_ANCHORS, DELETE_ANCHORS = 1, 2  # as the contract numbers them; 0 says neither

_PART = 256  # messages a transaction: other writers get their turn between two


def check_anchors(folder: TranscriptFolder, index: Index, conversation_id: str, number: int | None, disposition: int) -> None:
    """Raises AnchorsPresent if the conversation has anchors and it is not said what becomes of them; StorageUnavailable.

    Keeping them is not built yet: they have no other home than the transcript.
    """
    if disposition == DELETE_ANCHORS:
        return
    if not (anchors := _anchors(folder, index, conversation_id, number)):
        return
    if disposition == KEEP_ANCHORS:
        raise NotYetImplemented("keeping the anchors of a deleted conversation")
    raise AnchorsPresent(anchors)


def _anchors(folder: TranscriptFolder, index: Index, conversation_id: str, number: int | None) -> int:
    """How many anchors came from a conversation: by its transcript where the index does not know."""
    try:
        if number is not None:
            return len(index.anchors(number))
    except IndexUnavailable:
        pass
    try:
        lines = scan(folder.path(conversation_id))
        return sum(line.entry is not None and isinstance(line.entry.content, AnchorSet) for line in lines)
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error


def begin_delete(folder: TranscriptFolder, conversation_id: str) -> None:
    """Step 1. Raises StorageUnavailable. Hold the conversation's lock."""
    try:
        reach("delete.begun")
        folder.path(conversation_id).rename(folder.deleting_path(conversation_id))
        reach("delete.renamed")
        sync_folder(folder.root)
        reach("delete.durable")
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be deleted: {error.strerror}") from error


def finish_delete(folder: TranscriptFolder, index: Index, conversation_id: str, time: int) -> Removed:
    """Steps 2 to 5; taking them again after a crash is harmless. Returns what was removed from where.

    Raises IndexUnavailable, StorageUnavailable: then the next start finishes it.
    """
    path = folder.deleting_path(conversation_id)
    removed: Removed = {}
    try:
        if hashes := deliveries(path):
            ledger = Ledger(folder, FORGOTTEN)
            forget(ledger, hashes)
            reach("delete.forgotten")
            index.forget(hashes, ledger.size())
        number = index.removal(conversation_id)
        if number is None and (stored := index.find(conversation_id)) is not None:
            number = stored.number
            removed |= index.begin_removal(number, conversation_id, time)
            reach("delete.row_removed")
        if number is not None:
            count = _remove_messages(folder, index, conversation_id, number)
            removed |= {"messages": count, "search_terms": count}
            index.end_removal(number)
            reach("delete.words_removed")
        removed["transcript"] = path.stat().st_size
        torn = folder.torn_path(conversation_id)
        if torn.exists():
            removed["torn_tail"] = torn.stat().st_size
            torn.unlink()
            reach("delete.torn_removed")
        folder.copy_path(conversation_id).unlink(missing_ok=True)
        sync_folder(folder.root)  # before the transcript itself goes: after that nobody comes back for them
        path.unlink()
        reach("delete.file_removed")
        sync_folder(folder.root)
        reach("delete.file_gone")
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be deleted: {error.strerror}") from error
    if not index.empty_log():
        log.warning("log_not_emptied", conversation=conversation_id)
    return removed


def bring_up_forgotten(folder: TranscriptFolder, index: Index) -> None:
    """Lets the index know what the ledger of forgotten messages has. Raises IndexUnavailable, OSError."""
    ledger = Ledger(folder, FORGOTTEN)
    ledger.mend()
    if (size := ledger.size()) != index.forgotten_bytes():
        index.forget(forgotten(ledger), size)


def _remove_messages(folder: TranscriptFolder, index: Index, conversation_id: str, number: int) -> int:
    count = 0
    part: list[Message] = []
    wanted: set[int] = set()
    highest = 0
    for line in scan(folder.deleting_path(conversation_id)):
        if line.sequence > highest:
            found = index.indexed_sequences(number, highest, 4096)
            wanted = set(found)
            highest = found[-1] if len(found) == 4096 else 1 << 62
        if line.sequence not in wanted:
            continue
        if line.entry is None or not isinstance(line.entry.content, Message):
            # Its words are in the index and cannot be named any more: only a new index is without them.
            index.want_rebuild(f"line {line.sequence} of {conversation_id} was damaged before it was deleted")
            continue
        part.append(line.entry.content)
        if len(part) == _PART:
            index.remove_messages(number, part)
            reach("delete.part_removed")
            count += len(part)
            part = []
    if part:
        index.remove_messages(number, part)
        count += len(part)
    return count
