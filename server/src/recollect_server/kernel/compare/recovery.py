"""Start-up: the index is brought up to the transcripts, or made anew from them.

After a proper stop this costs a stat for each conversation and one reading of the index file, whose
checksum the stop left (see `kernel.index.file.Seal`); it reads no transcript. An index that was
not closed is caught up in the same way: a kill leaves what was committed, and a loss of power what
was committed some time before, while each log had its lines before the index got them. Against
damage of another kind it is compared with the transcripts, before anybody calls where that is
little, and else while the server runs. A stop before the end of that leaves no seal, so that the
next start compares it.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from recollect_server.kernel.compare.comparison import Comparison
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    IndexUnavailable,
    NothingNamed,
    StorageUnavailable,
)
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.erase.erasing import Participant, finish_deletes, finish_interrupted
from recollect_server.kernel.erase.redaction import settle_all
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.file import (
    Seal,
    break_seal,
    drop_ends,
    keep_ends,
    kept_ends,
    read_seal,
    remove_files,
)
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import (
    LogNotFound,
    LogStore,
    Version,
    has_version,
    timeline_of,
)
from recollect_server.kernel.space.features import Features
from recollect_server.kernel.space.logs import IndexAhead, Logs, Totals
from recollect_server.kernel.space.logs import Recovered as RecoveredLog

log = structlog.get_logger("recollect.recovery")

COMPARED_AT_ONCE = 8 << 20
"""Bytes of transcripts that a start compares in full before anybody calls: some 0.3 s."""
_AHEAD = 16  # transcripts that are repaired at the same time
_SAY_EVERY = 2.0  # seconds between two lines of the log about one long delete

Progress = Callable[[int, int], None]
"""Called for each transcript, before it is looked after, with how many of how many are done; and at
the end, when all are.

Who shows it to a person chooses how often.
"""


def no_progress(_done: int, _of: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a start."""

    index: Index
    rebuilt: bool
    conversations: int
    messages: int
    """Number of messages indexed now."""
    damaged: int
    bytes_cut: int
    others: int = 0
    """Number of logs of other kinds. Their messages, damages and cuts are counted with those of
    conversations.
    """
    is_compared: bool = True
    """False if the index is to be compared with the logs while the server runs."""


class Making:
    """Observer of an index that is being rebuilt, which does nothing here. A subclass that answers
    searches meanwhile overrides the methods.
    """

    def begin(self, index: Index) -> None:
        """Search an index from now on."""

    def progress(self, done: int, of: int) -> None:
        """Note how many conversations are read."""

    def end(self) -> None:
        """Search it no more: it is to be closed."""


_UNSEARCHED = Making()


def recover(
    logs: LogStore,
    features: Features,
    clock: Clock,
    progress: Progress,
    compared_at_once: int = COMPARED_AT_ONCE,
    making: Making = _UNSEARCHED,
) -> Recovered:
    """Open the index and bring it up to the transcripts; `making` follows one that is rebuilt.
    Raises DataUnavailable.
    """
    logs.create()
    with ThreadPoolExecutor(1, "seal") as pool:  # to make a checksum lets others have the lock
        sealed = pool.submit(read_seal, logs.root)
        lengths = _lengths(features.kinds_of(logs))
    for stray in logs.strays():
        log.warning("not_a_log", reason=stray)
    seal = sealed.result()
    if (index := _open(logs, features, seal)) is not None:
        try:
            return _bring_up(
                logs, features, index, clock, progress, lengths, seal, compared_at_once
            )
        except BaseException as error:
            index.close()
            if not isinstance(error, IndexUnavailable):
                raise
            log.warning(
                "index_ahead" if isinstance(error, IndexAhead) else "index_unusable",
                reason=str(error),
            )
    return rebuild(logs, features, clock, progress, making)


def rebuild(
    logs: LogStore,
    features: Features,
    clock: Clock,
    progress: Progress,
    making: Making = _UNSEARCHED,
) -> Recovered:
    """Rebuild the index from the transcripts. Nobody may have it open. Raises DataUnavailable."""
    ends = keep_ends(logs.root)
    remove_files(logs.root)
    hit("recover.index_removed")
    try:
        index = Index(logs.root, features.tables)
    except IndexUnavailable as error:
        raise IndexUnavailable(f"the index cannot be made: {error}") from error
    index.log.claim_file(copied=False)
    index.note_timeline(timeline_of(logs))
    making.begin(index)

    def both(done: int, of: int) -> None:
        making.progress(done, of)
        progress(done, of)

    try:
        # A start before this may have cut some.
        lengths = _lengths(features.kinds_of(logs))
        return _look_after_all(logs, features, index, clock, both, lengths, ends, rebuilt=True)
    except BaseException:
        making.end()
        index.close()
        raise


def _bring_up(
    logs: LogStore,
    features: Features,
    index: Index,
    clock: Clock,
    progress: Progress,
    lengths: Mapping[Kind, Mapping[str, int]],
    seal: Seal,
    compared_at_once: int,
) -> Recovered:
    """Bring an index up to the logs, and compare it with them if no server closed it and they are
    few. Raises DataUnavailable, too if it is damaged; OSError.
    """
    index.log.claim_file(copied=seal is Seal.COPIED)
    if seal is not Seal.INTACT:
        # after a crash it may hold words of what was deleted right before
        index.removal.empty_log()
    timeline = timeline_of(logs)
    # Since it was closed a copy of the store took over, which may lack some of what it has.
    is_from_before = timeline != index.timeline()
    doubtful = _written_anew(logs, features, index) if is_from_before else {}
    ends = kept_ends(logs.root)
    done = _look_after_all(logs, features, index, clock, progress, lengths, ends, rebuilt=False)
    wrong = index.miscount()
    if not wrong and (seal is Seal.MISSING or is_from_before):
        size = sum(sum(of.values()) for of in lengths.values())
        is_whole = doubtful is None or size <= compared_at_once
        comparison = Comparison(logs, index, features.kinds_of(logs))
        wrong = next(comparison.contradictions(None if is_whole else doubtful), "")
        done = replace(done, is_compared=is_whole and not comparison.unread)
    if wrong:
        raise IndexUnavailable(f"it is damaged: {wrong}")
    index.note_timeline(timeline)
    return done


def _written_anew(logs: LogStore, features: Features, index: Index) -> dict[Kind, list[str]] | None:
    """Return the logs that were changed, since a copy of the store took over, before where the
    index has them; None if that is not known. One that lost lines and got none since is shorter
    than the index has it. Raises DataUnavailable.
    """
    timeline = index.timeline()
    if logs.sharing is None or not timeline:
        return None
    changed = logs.sharing.changed_since_takeover(f" {timeline}")
    if changed is None:
        return None
    return {
        it.kind: [
            name
            for name, size in it.progress(index).items()
            if name in changed and size > changed[name]
        ]
        for it in features.kinds_of(logs)
    }


def _lengths(kinds: Iterable[Logs[Any]]) -> dict[Kind, dict[str, int]]:
    return {it.kind: dict(it.store.logs(it.kind)) for it in kinds}


def _open(logs: LogStore, features: Features, state: Seal) -> Index | None:
    """Return the index as it is, or None if it is missing or damaged."""
    root = logs.root
    if state is not Seal.INTACT:  # else the server that closed it has made all names durable
        logs.create(settle=True)
    if state is Seal.ABSENT:
        return None
    if state is Seal.BROKEN:
        log.warning("index_unusable", reason="its file is not as the last server closed it")
        return None
    break_seal(root)
    index, problem = opened(root, features)
    if problem:
        log.warning("index_unusable", reason=problem)
    return index


def opened(root: Path, features: Features) -> tuple[Index | None, str]:
    """Open the index in a folder. Return None and what is wrong with it if it cannot be used."""
    index: Index | None = None
    try:
        index = Index(root, features.tables)
        if not (problem := index.problem()):
            return index, ""
    except IndexUnavailable as error:
        problem = str(error)
    if index is not None:
        index.close()
    return None, problem


def _recovered(
    logs: Logs[Any], names: list[str], ends: Mapping[str, int], *, ahead: bool
) -> Iterator[tuple[str, Callable[[], RecoveredLog] | None]]:
    """Yield each of these logs, in their order. With `ahead` the tails of the next ones are
    recovered meanwhile.

    To recover one is mostly to wait for the disk, which takes the syncs of many files together in
    the time of a few.
    """
    if not ahead:
        yield from ((name, None) for name in names)
        return
    with ThreadPoolExecutor(_AHEAD, "recover") as pool:
        pending: deque[tuple[str, Future[RecoveredLog]]] = deque()
        for name in names:
            pending.append((name, pool.submit(logs.recover, name, ends.get(name, 0))))
            if len(pending) > 2 * _AHEAD:
                first, future = pending.popleft()
                yield first, future.result
        yield from ((name, future.result) for name, future in pending)


def _catch_up_all(
    logs: Logs[Any],
    index: Index,
    clock: Clock,
    progress: Progress,
    lengths: Mapping[str, int],
    ends: Mapping[str, int],
    *,
    rebuilt: bool,
) -> Totals:
    """Catch the index up with all logs of a kind, as long as the start found them. Nobody may write
    one. Another index had them up to their `ends`.

    `rebuilt`: the index is made anew, and nobody's cursor reaches into it. Raises IndexAhead,
    DataUnavailable, OSError.
    """
    indexed = logs.progress(index)
    done = Totals(logs=len(lengths))
    behind = [name for name, size in lengths.items() if indexed.pop(name, -1) != size]
    if indexed and logs.store.sharing is not None:
        for name, _ in logs.store.logs(logs.kind, Version.DELETED):
            indexed.pop(name, None)  # just now: its follower removes it from the index
    if indexed:
        raise IndexAhead(
            f"{len(indexed)} {logs.plural} are indexed and have no transcript, as {next(iter(indexed))}"
        )
    if behind and not rebuilt:
        index.writer.skip_cursors()
    for number, (name, recovered) in enumerate(
        _recovered(logs, sorted(behind), ends, ahead=rebuilt)
    ):
        progress(number, len(behind))
        about = {logs.noun: name}
        try:
            stored = None if rebuilt else logs.find(index, name)
            logs.catch_up(
                index,
                name,
                stored,
                time=clock(),
                log_updates=not rebuilt,
                wait=False,
                recovered=recovered,
                totals=done,
                acknowledged=ends.get(name, 0),
            )
        except (ConversationNotFound, NothingNamed):
            if has_version(logs.store, name, Version.PRESENT):
                log.warning("transcript_without_a_line", **about)
            else:
                done.logs -= 1
                log.warning("empty_transcript_removed", **about)
        except StorageUnavailable as error:
            log.error("transcript_unreadable", **about, reason=str(error))
    progress(len(behind), len(behind))
    return done


def _finish_interrupted_delete(
    logs: Logs[Any],
    index: Index,
    participants: Iterable[Participant],
    conversation_id: str,
    clock: Clock,
) -> None:
    """Finish a delete that a crash interrupted, keep the receipt of its request, and log it; for a
    long one, log the progress too.
    """
    try:
        size = logs.store.length(conversation_id, Version.DELETED)
    except LogNotFound:  # another process was the last that had words of it
        return
    log.warning("finishing_interrupted_delete", conversation=conversation_id, bytes=size)
    reported = began = time.monotonic()

    def progress(done: int) -> None:
        nonlocal reported
        if time.monotonic() - reported > _SAY_EVERY:
            reported = time.monotonic()
            log.warning(
                "finishing_interrupted_delete", conversation=conversation_id, bytes=size, done=done
            )

    try:
        receipt = finish_deletes(
            *(logs, index, participants, {conversation_id: None}, clock()),
            progress=progress,
        )
    except LogNotFound:  # another process ended it meanwhile
        if logs.store.sharing is None:
            raise
        removal = logs.removal(index)
        if logs.find(index, conversation_id) is None and removal.find(conversation_id) is None:
            return
        raise IndexAhead(f"it has words of {conversation_id}, which is deleted") from None
    seconds = round(time.monotonic() - began, 1)
    log.warning(
        "interrupted_delete_finished",
        conversation=conversation_id,
        seconds=seconds,
        messages=receipt.removed.get("messages", 0),
    )


def _look_after_all(
    logs: LogStore,
    features: Features,
    index: Index,
    clock: Clock,
    progress: Progress,
    lengths: Mapping[Kind, Mapping[str, int]],
    ends: Mapping[str, int],
    *,
    rebuilt: bool,
) -> Recovered:
    kinds = features.kinds_of(logs)
    participants = (*features.of(logs), *(it(logs) for it in features.at_start))
    deleting, redacting = (
        [(it, name) for it in kinds for name, _ in logs.logs(it.kind, version)]
        for version in (Version.DELETED, Version.REPLACED)
    )
    if (deleting or redacting) and not rebuilt:
        index.writer.skip_cursors()  # what goes may have changed before, and the index not know of it

    def finish_redactions() -> None:
        for of, name in redacting:
            finish_interrupted(
                *(of, index, participants, name, clock(), _tell_nobody), is_rebuilt=rebuilt
            )

    for it in participants:
        it.before_logs(index)
    if not rebuilt:
        finish_redactions()
    for of, name in deleting:
        _finish_interrupted_delete(of, index, participants, name, clock)
    hit("recover.deletes_finished")
    conversations, *others = (
        _catch_up_all(
            *(of, index, clock, no_progress if at else progress, lengths[of.kind], ends),
            rebuilt=rebuilt,
        )
        for at, of in enumerate(kinds)
    )
    index.settle()
    if rebuilt:  # the index has none of the text
        finish_redactions()
    settle_all(logs, index)
    for it in participants:
        it.behind_logs(index)
    drop_ends(logs.root)  # the index has all up to there
    hit("recover.done")
    every = (conversations, *others)
    return Recovered(
        index,
        rebuilt,
        conversations.logs,
        sum(it.messages for it in every),
        sum(it.damaged for it in every),
        sum(it.bytes_cut for it in every),
        sum(it.logs for it in others),
    )


def _tell_nobody(_event: object) -> None:
    """Do nothing: nobody has subscribed before a start ends."""
