"""A move of all logs of all spaces from one place to another: from a data folder to a database, or
back.

Every log is copied line by line, byte for byte, whatever its lines say. The target is marked as not
whole first, so that no server serves a part of it; a move that was killed goes on when it is begun
again. At its end every log is read again at both places and compared; one that differs, because the
source was changed between two tries, is copied anew. Then the mark says that all is there.

Nobody else may use either place meanwhile. Memory holds the names of one space's logs, and of each
log that is being copied a few megabytes.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from recollect_server.backup.manifest import CannotCopy
from recollect_server.kernel.compare.recovery import Progress
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.time import Clock, to_text
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.moves import Marked, MoveMark
from recollect_server.kernel.log.store import LEDGERS, LogNotFound, LogStore, Position, Version

T = TypeVar("T")

TOKENS = "(tokens)"
"""Name of the ledger of tokens among spaces: no space has it."""

_COPIED_AT_ONCE = 8  # logs: each waits for a disk or a database most of its time
_CHUNK = 4 << 20  # bytes of a log in one change
_NAMES = 1000  # logs that are given to the threads at once


class Place(Marked, Protocol):
    """Protocol of a place of logs that this process alone uses."""

    @property
    def name(self) -> str:
        """Return its name, for people."""

    @property
    def identity(self) -> str:
        """Return what tells it from other places."""

    def names(self) -> list[str]:
        """Return the names of the spaces, in order."""

    def of(self, space: str) -> LogStore:
        """Return the store of a space."""

    def tokens(self) -> list[bytes]:
        """Return the lines of the ledger of tokens, without their newlines."""

    def set_tokens(self, lines: list[bytes]) -> None:
        """Let the ledger of tokens have these lines, durably."""

    def is_made(self, space: str) -> bool:
        """Return whether a space stays without logs, because somebody made it."""

    def create(self, space: str, *, is_made: bool) -> None:
        """Make a space; let it stay without logs if it was made. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A space as it is at both places, or the ledger of tokens."""

    space: str
    logs: int
    bytes: int
    digest: str
    """SHA-256 over the name, length and SHA-256 of each log, in the order of the names."""
    is_same: bool
    """True if the target has the same."""


@dataclass(frozen=True, slots=True)
class Move:
    """Result of a move."""

    spaces: tuple[Moved, ...] = ()
    ended: str = ""
    """Time at which an earlier move ended; then nothing was done."""


def move(
    source: Place, target: Place, clock: Clock, copying: Progress, comparing: Progress
) -> Move:
    """Copy all logs, and compare them. Raises CannotCopy, StorageUnavailable, OSError.

    A move from the same source that ended is not repeated: a server may have served the target
    since.
    """
    mark = target.mark()
    if mark is not None and mark.source == source.identity and mark.ended:
        return Move(ended=mark.ended)
    _check_source(source)
    if mark is None or mark.ended:
        _check_empty(target)
    elif mark.source != source.identity:
        raise CannotCopy(
            f"{target.name} holds a part of what is moved from {mark.source}: go on with that, or"
            " name an empty place with --to"
        )
    target.set_mark(MoveMark(source.identity))
    hit("move.begun")
    names = source.names()
    with ThreadPoolExecutor(_COPIED_AT_ONCE, "move") as pool:
        for space in target.names():
            if space not in names:
                _remove(target.of(space), _logs_of(target.of(space)))
        for space in names:
            target.create(space, is_made=source.is_made(space))
            _copy_space(source.of(space), target.of(space), pool, copying)
        if target.tokens() != (tokens := source.tokens()):
            target.set_tokens(tokens)
        moved = [
            _compare_space(space, source.of(space), target.of(space), pool, comparing)
            for space in names
        ]
    if tokens:
        moved.append(_compare_tokens(tokens, target.tokens()))
    hit("move.compared")
    if all(it.is_same for it in moved):
        target.set_mark(MoveMark(source.identity, to_text(clock())))
        hit("move.ended")
    return Move(tuple(moved))


def _check_source(source: Place) -> None:
    mark = source.mark()
    if mark is not None and not mark.ended:
        raise CannotCopy(
            f"{source.name} holds a part of what is moved from {mark.source}: end that first"
        )
    for space in source.names():
        store = source.of(space)
        versions = (Version.DELETED, Version.REPLACED)
        if any(True for it in versions for kind in Kind for _ in store.logs(kind, it)):
            raise CannotCopy(
                f"the space {space} has a delete or a redaction that has not ended: start a server"
                f" over {source.name} once, stop it, and move then"
            )


def _check_empty(target: Place) -> None:
    for space in target.names():
        store = target.of(space)
        if _logs_of(store) or any(True for it in Kind for _ in store.logs(it, Version.DELETED)):
            raise CannotCopy(
                f"{target.name} is not empty, it has logs of the space {space}: name an empty place"
                " with --to"
            )
    if target.tokens():
        raise CannotCopy(
            f"{target.name} is not empty, it has tokens: name an empty place with --to"
        )


def _logs_of(store: LogStore) -> list[str]:
    """Return the names of all logs and ledgers that have lines, in order."""
    names = [name for kind in Kind for name, size in store.logs(kind) if size]
    return sorted([*names, *(name for name in LEDGERS if _length(store, name))])


def _length(store: LogStore, log: str) -> int:
    try:
        return store.length(log)
    except LogNotFound:
        return 0


def _each(
    pool: ThreadPoolExecutor, names: Sequence[str], work: Callable[[str], T], progress: Progress
) -> Iterator[T]:
    """Do a work for each name, some at a time, tell how far it is, and yield the results in
    order.
    """
    for start in range(0, len(names), _NAMES):
        for number, result in enumerate(pool.map(work, names[start : start + _NAMES]), start):
            progress(number, len(names))
            yield result
    progress(len(names), len(names))


def _copy_space(
    source: LogStore, target: LogStore, pool: ThreadPoolExecutor, progress: Progress
) -> None:
    names = _logs_of(source)
    expected = set(names)
    _remove(target, [name for name in _logs_of(target) if name not in expected])

    def copy(log: str) -> None:
        if _length(target, log) != source.length(log):
            _copy(source, target, log)

    for _ in _each(pool, names, copy, progress):
        pass


def _remove(store: LogStore, logs: list[str]) -> None:
    """Remove logs that an earlier try copied, and that the source has no more."""
    for log in logs:
        store.swap(log, None)
        store.drop(log, Version.DELETED)


def _copy(source: LogStore, target: LogStore, log: str) -> None:
    lines = size = 0
    with suppress(LogNotFound):  # what was never acknowledged is cut off, as a start does it
        source.recover(log)
        for chunk in _chunks(source.raw(log)):
            if lines:
                target.append(log, Position(lines, size), chunk)
            else:
                target.swap(log, chunk)
            lines, size = lines + len(chunk), size + sum(map(len, chunk))
            hit("move.part")
    hit("move.copied")


def _chunks(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line + b"\n")
        size += len(line) + 1
        if size >= _CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _compare_space(
    space: str, source: LogStore, target: LogStore, pool: ThreadPoolExecutor, progress: Progress
) -> Moved:
    names = _logs_of(source)
    total, size, is_same = hashlib.sha256(), 0, True

    def compare(log: str) -> tuple[int, str, bool]:
        ours = _digest(source, log)
        if is_equal := ours == _digest(target, log):
            return *ours, is_equal
        _copy(source, target, log)
        ours = _digest(source, log)
        return *ours, ours == _digest(target, log)

    for log, (length, digest, is_equal) in zip(
        names, _each(pool, names, compare, progress), strict=True
    ):
        total.update(f"{log} {length} {digest}\n".encode())
        size += length
        is_same = is_same and is_equal
    is_same = is_same and _logs_of(target) == names
    return Moved(space, len(names), size, total.hexdigest(), is_same)


def _compare_tokens(ours: list[bytes], theirs: list[bytes]) -> Moved:
    digest = hashlib.sha256(b"".join(line + b"\n" for line in ours)).hexdigest()
    return Moved(TOKENS, 1, sum(len(line) + 1 for line in ours), digest, ours == theirs)


def _digest(store: LogStore, log: str) -> tuple[int, str]:
    """Return the length and the SHA-256 of a log; of none if there is no log."""
    digest, size = hashlib.sha256(), 0
    try:
        for line in store.raw(log):
            digest.update(line + b"\n")
            size += len(line) + 1
    except LogNotFound:
        pass
    return size, digest.hexdigest()
