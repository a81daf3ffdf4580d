"""Checkpoints: threads of records, each in a log of its own and nowhere else.

A thread's state is a fold over its log: where the newest record of each key stands. It is made when
the thread is first used, kept in memory while there is room, and never written: neither the index
nor anything else has a copy. Values are read from the log when they are asked for.
"""

import hashlib
import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial

import structlog

from recollect_server.checkpoints.checkpoint import RecordPut, RecordsRemoved, ThreadBegan, log_of
from recollect_server.kernel.compare.checks import Checker, Findings, again
from recollect_server.kernel.domain.errors import LogMisplaced, StorageUnavailable
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.lines import Entry, Line, Place, Stamp, encoded, misplacement
from recollect_server.kernel.log.store import (
    START,
    LogConflict,
    LogNotFound,
    LogStore,
    Position,
    Version,
    lines_at,
)
from recollect_server.kernel.space.logs import RequestKey, entries_of
from recollect_server.kernel.space.requests import check_same, key_of

log = structlog.get_logger("recollect.checkpoints")

_MAX_KEYS = 200_000  # in memory, of all threads: some 60 MB
_MAX_REQUESTS = 1000  # of removed records that are remembered
_READ_KEYS, _READ_BYTES = 64, 256 << 10  # of records that are read at once, the last one included
_LAST = "\U0010ffff"  # no key is behind a prefix with this character


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: bytes
    keep_existing: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread without its records."""

    thread_id: str
    create_time: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordPage:
    """Records of a thread; without their values, None, where the caller wants keys alone."""

    records: Iterator[tuple[str, bytes | None]]
    has_more: bool = False
    damaged: int = 0


@dataclass(slots=True)
class ThreadState:
    """A thread at the end of its log."""

    began: ThreadBegan | None = None
    end: Position = START
    places: dict[str, Place] = field(default_factory=dict)
    """Place of the newest record of each key."""
    keys: list[str] = field(default_factory=list)
    requests: dict[str, str] = field(default_factory=dict)
    """Hash by id."""
    damaged: int = 0

    def add(self, line: Line) -> None:
        """Fold a line over the state. A damaged one is counted."""
        self.end = Position(line.sequence, line.end)
        if line.entry is None:
            self.damaged += 1
            return
        stamp = line.entry.stamp
        if stamp.request_id:
            self.requests[stamp.request_id] = stamp.request_hash
        match line.entry.content:
            case ThreadBegan() as began:
                self.began = began
            case RecordPut(key=key):
                if key not in self.places:
                    insort(self.keys, key)
                self.places[key] = (line.sequence, line.offset, line.length)
            case RecordsRemoved(requests=requests):
                for request in requests:
                    request_id, _, value = request.partition(" ")
                    self.requests[request_id] = value


class ThreadChecker(Checker):
    """Verification of the threads of a space, of which the index knows nothing."""

    def of_space(self, findings: Findings) -> None:
        """Name what is wrong in each thread."""
        for name in sorted(name for name, _ in self.comparison.store.logs(Kind.THREAD)):
            findings.add(name, again(partial(self._problems, name)))
            findings.threads += 1
            findings.logs += 1
            self.comparison.rest()

    def _problems(self, name: str) -> list[str]:
        thread_id: str | None = None
        problems: list[str] = []
        try:
            for line in self.comparison.lines(name):
                if isinstance(line, str):
                    problems.append(line)
                elif line.entry is not None and isinstance(line.entry.content, ThreadBegan):
                    thread_id = line.entry.content.thread_id
        except LogNotFound:
            return []
        if thread_id is None:
            problems.append("no line says which thread it is")
        elif log_of(thread_id) != name:
            problems.append(f"it is of a thread whose log is {log_of(thread_id)}")
        return problems


class Checkpoints:
    """The threads of a space. Raises the errors of `kernel.domain.errors`; safe to call from any
    thread of the process.
    """

    def __init__(
        self, store: LogStore, lock: Callable[[str], AbstractContextManager[object]], clock: Clock
    ) -> None:
        """`lock` returns the lock of a log, by its name."""
        self._store = store
        self._lock = lock
        self._clock = clock
        self._guard = threading.Lock()  # guards what is below; nothing slow happens under it
        self._states: OrderedDict[str, ThreadState] = OrderedDict()
        self._count = 0  # keys of these states
        self._current: set[str] = set()  # logs at work that nobody else wrote to since that began

    def finish_deletes(self) -> None:
        """Remove what is left of threads whose delete a crash cut short. Raises LogUnavailable."""
        for name, _ in self._store.logs(Kind.THREAD, Version.DELETED):
            self._store.drop(name, Version.DELETED)

    def stored_bytes(self) -> int:
        """Return the size of all threads' logs. Raises LogUnavailable."""
        return sum(size for _, size in self._store.logs(Kind.THREAD))

    # Write ----------------------------------------------------------------------------------------

    def put(self, thread_id: str, puts: Sequence[Put], request_id: str) -> int:
        """Store records, all or none, durable on return. Return how many were stored.

        Raises RequestIdReused, StorageUnavailable.
        """
        request = _request(puts, request_id)
        name = log_of(thread_id)
        with self._lock(name):
            state = self._state(name, thread_id)
            if request and state and (earlier := state.requests.get(request.id)):
                check_same(request, earlier)
                return 0
            added: dict[str, RecordPut] = {}
            for it in puts:
                there = it.key in added or (state is not None and it.key in state.places)
                if not (there and it.keep_existing):
                    added[it.key] = RecordPut(it.key, it.value)
            if added:
                began = [] if state else [ThreadBegan(thread_id, self._clock())]
                self._append(name, state or ThreadState(), [*began, *added.values()], request)
            return len(added)

    def remove(self, thread_id: str, keys: Iterable[str]) -> tuple[int, int]:
        """Remove records: the log is written anew without them. Return how many were removed, and
        how many bytes.

        Raises StorageUnavailable.
        """
        name = log_of(thread_id)
        with self._lock(name):
            state = self._state(name, thread_id)
            removed_keys = set(keys).intersection(state.places) if state else set()
            if state is None or not removed_keys:
                return 0, 0
            before = self._store.length(name)
            self._forget(name)
            self._store.swap(name, self._without(name, removed_keys))
            if state.damaged:
                log.warning("damaged_lines_removed", thread=name, lines=state.damaged)
            hit("checkpoints.removed")
            return len(removed_keys), max(0, before - self._store.length(name))

    def delete(self, thread_id: str) -> int:
        """Delete a thread to its last byte. Return how many bytes were removed; 0 if it is not
        there. Raises StorageUnavailable.
        """
        name = log_of(thread_id)
        with self._lock(name):
            self._forget(name)
            try:
                self._check_own(name, thread_id)
                self._store.swap(name, None)
            except LogNotFound:
                return 0
            return sum(self._store.drop(name, Version.DELETED).values())

    # Read -----------------------------------------------------------------------------------------

    def get(self, thread_id: str, keys: Sequence[str]) -> RecordPage:
        """Return the records of keys, in their order; a key that is not there has the value None.

        Raises StorageUnavailable, while the records are read too.
        """
        name = log_of(thread_id)
        with self._lock(name):
            state = self._state(name, thread_id)
        if state is None:
            return RecordPage(iter([(key, None) for key in keys]))
        return RecordPage(self._values(name, thread_id, keys), damaged=state.damaged)

    def listed(
        self,
        thread_id: str,
        prefix: str,
        after_key: str,
        limit: int,
        *,
        descending: bool = False,
        keys_only: bool = False,
    ) -> RecordPage:
        """Return the records below a prefix, behind a key. Raises StorageUnavailable, while the
        records are read too.
        """
        name = log_of(thread_id)
        with self._lock(name):
            state = self._state(name, thread_id)
            if state is None:
                return RecordPage(iter(()))
            first = bisect_left(state.keys, prefix)
            last = bisect_right(state.keys, prefix + _LAST) if prefix else len(state.keys)
            if after_key and descending:
                last = min(last, bisect_left(state.keys, after_key))
            elif after_key:
                first = max(first, bisect_right(state.keys, after_key))
            count = max(0, last - first)
            chosen = (
                state.keys[max(first, last - limit) : last][::-1]
                if descending
                else state.keys[first : min(last, first + limit)]
            )
            damaged = state.damaged
        records: Iterator[tuple[str, bytes | None]] = (
            iter([(key, None) for key in chosen])
            if keys_only
            else (it for it in self._values(name, thread_id, chosen) if it[1] is not None)
        )
        return RecordPage(records, count > limit, damaged)

    def threads(self, after: str, limit: int) -> list[tuple[str, Thread | None]]:
        """Return a page of threads by the names of their logs; None for one whose beginning cannot
        be read. Raises StorageUnavailable.
        """
        names = sorted(
            (name, size) for name, size in self._store.logs(Kind.THREAD) if name > after and size
        )
        return [(name, self._thread(name, size)) for name, size in names[:limit]]

    # Inside ---------------------------------------------------------------------------------------

    def _thread(self, name: str, size: int) -> Thread | None:
        try:
            line = next(self._store.read(name), None)
        except LogNotFound:  # deleted meanwhile
            return None
        content = line.entry.content if line and line.entry else None
        if not isinstance(content, ThreadBegan):
            return None
        return Thread(content.thread_id, content.time, size)

    def _values(
        self, name: str, thread_id: str, keys: Sequence[str]
    ) -> Iterator[tuple[str, bytes | None]]:
        """Yield keys with their values, read some at a time: an answer may end before the last."""
        start, failed, damaged = 0, -1, 0
        while start < len(keys):
            with self._lock(name):  # else the log may be written anew between places and lines
                state = self._state(name, thread_id)
                places = _first_places(state.places if state else {}, keys, start)
                there = [place for place in places if place]
                lines = iter(lines_at(self._store, name, there) if there else ())
            if failed < start:
                damaged = state.damaged if state else 0
            elif state is not None and state.damaged > damaged:
                raise StorageUnavailable(f"a record of the thread {thread_id} cannot be read")
            for key, place in zip(keys[start : start + len(places)], places, strict=True):
                entry = next(lines).entry if place else None
                content = entry.content if entry else None
                if place and not (isinstance(content, RecordPut) and content.key == key):
                    self._forget(name)
                    if failed == start:
                        raise StorageUnavailable(
                            f"a record of the thread {thread_id} cannot be read"
                        )
                    failed = start  # another process may have written it anew: once more
                    break
                yield key, content.value if isinstance(content, RecordPut) else None
                start += 1

    def _without(self, name: str, removed_keys: set[str]) -> Iterator[bytes]:
        """Yield the lines of a log without some records and without what was replaced, and a last
        one that remembers the requests of those.
        """
        newest = {key: line.sequence for line in self._store.read(name) if (key := _key(line))}
        requests: dict[str, None] = {}
        lines = 0
        for line in self._store.read(name):
            if line.entry is None:
                continue
            content, stamp = line.entry.content, line.entry.stamp
            if isinstance(content, RecordsRemoved):
                requests.update(dict.fromkeys(content.requests))
                continue
            key = _key(line)
            if key is not None and (key in removed_keys or newest[key] != line.sequence):
                if stamp.request_id:
                    requests[f"{stamp.request_id} {stamp.request_hash}"] = None
                continue
            alone = Entry(content, Stamp(stamp.request_id, stamp.request_hash))
            yield encoded([alone], lines, log=name)[1][0]
            lines += 1
        mark = RecordsRemoved(self._clock(), tuple(requests)[-_MAX_REQUESTS:])
        yield encoded([Entry(mark)], lines, log=name)[1][0]

    def _append(
        self,
        name: str,
        state: ThreadState,
        contents: Sequence[object],
        request: RequestKey | None,
    ) -> None:
        lines, data = encoded(entries_of(contents, request), *state.end, name)
        with self._at_work(name):
            try:
                self._store.append(name, state.end, data)
            except LogConflict:
                self._forget(name)  # somebody else wrote to it: the next call reads what
                raise
            before = len(state.keys)
            for line in lines:
                state.add(line)
            self._keep(name, state, len(state.keys) - before)

    def _state(self, name: str, thread_id: str) -> ThreadState | None:
        """Return the state of a thread; None if it is not there. Hold its lock."""
        with self._guard:
            if (state := self._states.get(name)) is not None:
                self._states.move_to_end(name)
                return state
        with self._at_work(name):
            if (state := self._loaded(name, thread_id)) is not None:
                self._keep(name, state, len(state.keys))
            return state

    @contextmanager
    def _at_work(self, name: str) -> Iterator[None]:
        """Read a log, or write to it, and keep its state. Hold its lock."""
        with self._guard:
            self._current.add(name)
        try:
            yield
        finally:
            with self._guard:
                self._current.discard(name)

    def _loaded(self, name: str, thread_id: str) -> ThreadState | None:
        """Return the state of a thread by its log; None if it is not there."""
        state = ThreadState()
        try:
            torn = self._store.recover(name, see=state.add)
            if torn is not None:
                log.warning("torn_tail_cut", thread=name, bytes=torn.bytes_cut, reason=torn.reason)
            if state.end.bytes != self._store.length(name):
                # Lines that were cut off are in this state, or one that got its newline back is
                # not.
                state = ThreadState()
                for line in self._store.read(name):
                    state.add(line)
        except LogNotFound:
            return None
        if state.damaged:
            log.warning("damaged_lines", thread=name, lines=state.damaged)
        if state.began is None:
            self._check_own(name, thread_id)
        return state

    def _check_own(self, name: str, thread_id: str) -> None:
        """Raise LogMisplaced if the file of a thread belongs to another one."""
        if self._store.sharing is None and (reason := misplacement(self._store.read(name))):
            raise LogMisplaced("thread", thread_id, name, reason)

    def _keep(self, name: str, state: ThreadState, more: int) -> None:
        with self._guard:
            if name not in self._current:
                return  # another process wrote to it meanwhile
            if name not in self._states:
                self._states[name] = state
                more = len(state.keys)
            self._states.move_to_end(name)
            self._count += more
            while self._count > _MAX_KEYS and len(self._states) > 1:
                _, oldest = self._states.popitem(last=False)
                self._count -= len(oldest.keys)

    def changed(self, name: str) -> None:
        """Drop what is remembered of a log that another process wrote to; empty: of every one."""
        with self._guard:
            names = [name] if name else [*self._states, *self._current]
            self._current.difference_update(names)
        for it in names:
            self._forget(it)

    def _forget(self, name: str) -> None:
        with self._guard:
            if (state := self._states.pop(name, None)) is not None:
                self._count -= len(state.keys)


def _first_places(
    places: Mapping[str, Place], keys: Sequence[str], start: int
) -> list[Place | None]:
    """Return the places of keys from `start` on, of as many as are read at once; None for a key
    that has none.
    """
    first: list[Place | None] = []
    size = 0
    for at in range(start, min(start + _READ_KEYS, len(keys))):
        place = places.get(keys[at])
        first.append(place)
        size += place[2] if place else 0
        if size >= _READ_BYTES:
            break
    return first


def _key(line: Line) -> str | None:
    """Return the key of a line's record; None for any other line."""
    content = line.entry.content if line.entry else None
    return content.key if isinstance(content, RecordPut) else None


def _request(puts: Sequence[Put], request_id: str) -> RequestKey | None:
    if not request_id:
        return None
    records = [(it.key, hashlib.sha256(it.value).hexdigest(), it.keep_existing) for it in puts]
    return key_of("PutRecords", request_id, {"records": records})
