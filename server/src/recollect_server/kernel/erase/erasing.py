"""Erasing: the steps by which text leaves a space for good. The log comes first, what was derived
from it next, and what the log was goes last.

| step | of a delete | of a redaction |
| --- | --- | --- |
| 1. `swap` changes the log | it is gone | its lines lack the text, a new one says so |
| 2. before the index | what features have of it | |
| 3. the index forgets | row, history, messages with words | the words; it has the new line |
| 4. the receipt | that of the request is kept | the new line is it |
| 5. behind the index | | what features have of it |
| 6. the write-ahead log is cut, `drop` removes what the log was, to its last byte | | |

Of a delete 3, 4 and the cut are one job of the index, as long as the log is short; so are those of
many short ones.

Up to step 1 nothing has happened. From there on the store lists what the log was (`Version.DELETED`
and `Version.REPLACED`), and all who find it there take the other steps: a call, the next start, a
round of repairs, a process that follows what another one began, and who made a new index. To take
them again is harmless. Unindexing (`kernel.erase.redaction`) takes step 3 alone, and leaves
the log.

Words can be taken out of an index only by the text that they were added with. A store that
processes share keeps that until each of them has taken it out, but for one that was taken for gone
meanwhile: then only a new index is without the words, and the old one is condemned.

Nothing here takes a lock.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any, ClassVar

import orjson
import structlog

from recollect_server.kernel.domain.conversation import MessagesRedacted
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.derived import Erased, Removed, Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.removal import LONG_MESSAGE, RemovalStep, Text
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

    def erase(self, index: Index, deleted: Sequence["DeletedLog"]) -> Removed:  # noqa: ARG002
        """Take out what there is of logs whose delete has begun, before the index forgets them.
        Return how much. Raises LogNotFound where the delete of one ended.
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


class DeletedLog:
    """A log whose delete has begun."""

    def __init__(self, store: LogStore, name: str, old: list[bytes] | None = None) -> None:
        """`old`: the lines that the index has (see `lines_as_indexed`); None: those of the log.
        Raises LogNotFound where its delete ended.
        """
        self.name = name
        self.size = store.length(name, Version.DELETED)
        self._store = store
        self._lines = old

    def lines(self) -> Iterable[bytes]:
        """Return its lines; those of a short one are read once."""
        if self._lines is None and self.size <= LONG_MESSAGE:
            self._lines = list(self._store.raw(self.name, Version.DELETED))
        return self._store.raw(self.name, Version.DELETED) if self._lines is None else self._lines

    def sizes(self) -> Removed:
        """Return how many bytes go at last, by what they are."""
        sizes = {"transcript": self.size}
        with suppress(LogNotFound):
            sizes["torn_tail"] = self._store.length(self.name, Version.TORN)
        return sizes


def finish_deletes(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    names: Mapping[str, list[bytes] | None],
    time: int,
    request: RequestKey | None = None,
    *,
    elsewhere: Removed | None = None,
    progress: Callable[[int], None] | None = None,
) -> Receipt:
    """Take the steps of deletes behind the first one, of conversations or of communications, and
    keep the receipt of the request that began the delete, if there is one delete.

    `names`: of the logs, each with the lines that the index has (see `lines_as_indexed`), or None:
    those of the log. `request`: None: it is looked up. `elsewhere` is what was removed of them
    outside of log and index. `progress` is called with the number of bytes of the transcripts that
    are done with. No lock is needed: the conversations are gone. Raises DataUnavailable: then the
    next start finishes it.
    """
    index.check()  # one that is given up: its successor may have them, and is the one to forget
    store, name = logs.store, next(iter(names))
    deleted = [DeletedLog(store, it, old) for it, old in names.items()]
    if len(names) == 1:
        request = request or request_of_delete(store, name)
    if request:
        index.names.add(request.id)

    def receipt_of(removed: Removed) -> KnownRequest | None:
        # of several processes the first one's answer holds: the index has it once that is known
        if request is None or store.sharing is not None:
            return None
        return Receipt(name, removed, time).known_as(request)

    removed = _let_go(
        *(logs, index, participants, deleted, time, receipt_of, elsewhere or {}, progress)
    )
    receipt = Receipt(name, removed, time)
    if request and store.sharing is not None:
        record = share(store, receipt.known_as(request))
        index.requests.add(record)
        receipt = Receipt.of(record)
    hit("delete.remembered")
    store.drop_each([*names])
    return receipt


def _let_go(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    deleted: Sequence[DeletedLog],
    time: int,
    receipt_of: Callable[[Removed], KnownRequest | None],
    elsewhere: Removed,
    progress: Callable[[int], None] | None,
) -> Removed:
    """Take the steps 2 and 3 of deletes, and cut the write-ahead log. Return what was removed. The
    index records what `receipt_of` makes of that.
    """
    removal = logs.removal(index)
    removed = Counter(elsewhere)
    for participant in participants:
        removed.update(participant.erase(index, deleted))
    texts: list[Text] = []
    begun_logs: dict[str, bool] = {}  # logs that are going, each with whether its row may be there
    size = done = 0

    def receipt(last: Removed) -> KnownRequest | None:
        every = Counter(removed)
        every.update(last)
        return receipt_of(dict(every))

    def remove(ended: list[str], *, is_last: bool = False) -> None:
        nonlocal size
        step = RemovalStep({}, [])
        while not step.is_whole:
            step = removal.remove(
                *(begun_logs, texts, ended, time), mark=mark, receipt=receipt if is_last else None
            )
            hit("delete.part_removed")
            removed.update(step.removed)
            texts.clear()
            size = 0
            begun_logs.update(dict.fromkeys(begun_logs, False))
            if step.marked:
                removal.purge_words(*step.marked)
        for name in ended:
            del begun_logs[name]
        if progress:
            progress(done)
        if is_last and not step.is_cut:
            empty_log(index, deleted[-1].name)

    # of all together: one merge then takes less time than editing out the words of each
    mark = sum(map(attrgetter("size"), deleted)) > LONG_MESSAGE and removal.is_long(
        [it.name for it in deleted]
    )
    for it in deleted:
        removed.update(it.sizes())
        begun_logs[it.name] = True
        for sequence, raw in enumerate(it.lines(), 1):
            done += len(raw) + 1
            # a damaged line is none: if the index has its words, only a new one is without them
            if (text := removal.text_of(raw, sequence)) is None:
                continue
            texts.append((it.name, sequence, text))
            removed.update(messages=1, search_terms=1)
            size += len(raw)
            if len(texts) == PART or size >= part_bytes(mark=mark):
                # with marked words all end together, behind the one merge
                remove([] if mark else [*begun_logs][:-1])
    remove([*begun_logs], is_last=True)
    hit("delete.words_removed")
    return dict(removed)


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
