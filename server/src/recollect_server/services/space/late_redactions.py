"""Redactions by other processes that the index of this one has not followed.

Words can be taken out of an index only by the text that they were added with. The store keeps that
of the redaction that has not ended; what was redacted before it, while this process was taken for
gone, nobody has any more. Then only a new index is without the words.
"""

from collections.abc import Iterable
from contextlib import suppress

from recollect_server.services.space.logs import RedactedElsewhere, check_redaction
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.external_rows import StoredCommunication
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.belonging import lines_of
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.store import LogNotFound, LogStore, Position, Version


def lines_as_indexed(
    store: LogStore,
    index: Index,
    conversation_id: str,
    stored: Stored | StoredCommunication,
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
