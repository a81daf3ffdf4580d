"""Comparison of logs with what the index has of them, line by line and, but for the job behind a
start, word by word.

One engine for all who compare: a start after a kill, the job behind it, the verification of a
space that is served, and that of a folder without a server. Nothing is changed, and no writer
waits: a log's lock is held for a look at its length alone. The contents of the index are those of
one moment, and a log is read up to where the index was then. Whatever a call changes in between
looks like a difference, so a log that differs is looked at once more, and only the second look
counts. Before an index is given up beside calls, a last look holds the lock of that one log.
"""

import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any

from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.checking import Contents, Words
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.store import (
    LogNotFound,
    LogStore,
    Position,
    has_conversation,
    is_taken,
)
from recollect_server.kernel.space.logs import Logs, Reading

# of the logs whose words are compared at a time beside calls: some 5 MB of digests, which cost one
# reading of all words that the index has
_LINES = 50_000
_MOST_REST = 0.25  # seconds between two logs
_CHECK_EVERY = 256  # lines of one log

Lines = Iterator[Line | str]
"""The lines of a log, each problem of the log by itself behind the line that it is about."""


def _nothing() -> None:
    """Do nothing: nobody else is there."""


@dataclass(slots=True)
class Compared:
    """A log that was compared."""

    name: str
    reading: Reading[Any]
    stored: Stored[Any] | None
    """The log as the index has it."""
    damage: list[str]
    """Problems of the log by itself, and what the index does not have yet."""
    differences: list[str]
    """Differences of the index from the log."""

    @property
    def problems(self) -> list[str]:
        """All that is wrong."""
        return [*self.damage, *self.differences]


Look = Callable[[Logs[Any], str, Words | None], Compared | None]
"""A look at one log, as `Comparison.of` is one."""


class Comparison:
    """A comparison of the logs of a store with an index. Every method raises DataUnavailable."""

    def __init__(
        self,
        store: LogStore,
        index: Index | None,
        kinds: tuple[Logs[Any], ...] = (),
        *,
        hold: Callable[[str], AbstractContextManager[Any]] | None = None,
        follow: Callable[[], None] = _nothing,
        check: Callable[[], None] = _nothing,
        read: Callable[[str, int], Lines] | None = None,
    ) -> None:
        """`index` None: the logs are looked at alone. `kinds` are those that are compared as a
        whole. `hold`, where calls go on, returns the lock
        of a log, and `follow` takes in what other processes wrote. `check` is called often, and
        ends the comparison by what it raises. `read` yields the lines of a log, of which the
        index has so many bytes; by default those that it has.
        """
        self.store = store
        self.index = index
        self._hold: Callable[[str], AbstractContextManager[Any]] = hold or nullcontext
        self._is_alone = hold is None
        self.follow = follow
        self._check = check
        self._read = read
        self._rested = time.monotonic()
        self.unread: dict[str, str] = {}
        """Logs that `contradictions` passed over, each with why it cannot be read."""
        self.kinds = kinds

    def contradictions(self, among: Mapping[Kind, Collection[str]] | None = None) -> Iterator[str]:
        """Yield each difference of the index from the logs, and each problem of the index itself.
        With `among` only these logs are compared.

        While calls go on, words are not compared: to read those of a large index takes minutes, in
        which no delete could empty the index's write-ahead log.
        """
        assert self.index is not None
        for logs in self.kinds:
            names = self.names(logs) if among is None else among.get(logs.kind, ())
            for it in self.each(logs, names, self._look, is_quick=not self._is_alone):
                differences = it.differences
                if differences and not self._is_alone:
                    differences = self._last_look(logs, it.name)
                yield from (f"{it.name}: {difference}" for difference in differences)
            for name in self.indexed_alone(logs) if among is None else ():
                yield f"{name}: is in the index and has no transcript"
        if among is None:
            yield from self.problems_of_index()

    def _look(self, logs: Logs[Any], name: str, words: Words | None) -> Compared | None:
        try:
            return self.of(logs, name, words)
        except StorageUnavailable as error:
            self.unread[name] = str(error)
            return None

    def _last_look(self, logs: Logs[Any], name: str) -> list[str]:
        """Return the differences of a log, all but the words, while nobody writes it."""
        with self._hold(name):
            try:
                compared = self._compared(logs, name, self.store.length(name), None)
            except LogNotFound:
                return []
            except StorageUnavailable as error:
                self.unread[name] = str(error)
                return []
        return compared.differences

    def rest(self) -> None:
        """Leave the processor to the calls for as long as the comparison had it."""
        self._check()
        if not self._is_alone:
            time.sleep(min(_MOST_REST, time.monotonic() - self._rested))
            self._rested = time.monotonic()

    def names(self, logs: Logs[Any]) -> list[str]:
        """Return the logs of a kind."""
        return sorted(name for name, _ in self.store.logs(logs.kind))

    def each(
        self,
        logs: Logs[Any],
        names: Iterable[str],
        look: Look | None = None,
        *,
        is_quick: bool = False,
    ) -> Iterator[Compared]:
        """Compare these logs and yield the result of each.

        One with problems is compared a second time, behind the others of its part, because calls
        may have written it meanwhile. One that was deleted meanwhile is left out. `is_quick`:
        compare no words, and do not pause in between.
        """
        look = look or self.of
        for part in self._parts(logs, names):
            doubtful: dict[str, int | None] = {}
            for it in self._looks(logs, part, look, is_quick=is_quick):
                if it.problems:
                    doubtful[it.name] = part[it.name]
                else:
                    yield it
            if doubtful:
                yield from self._looks(logs, doubtful, look, is_quick=is_quick)

    def _parts(self, logs: Logs[Any], names: Iterable[str]) -> Iterator[dict[str, int | None]]:
        """Yield the logs with their numbers in the index (None: it has none), some lines at a
        time.
        """
        part: dict[str, int | None] = {}
        lines, most = 0, sys.maxsize if self._is_alone else _LINES
        for name in names:
            stored = logs.find(self.index, name) if self.index else None
            part[name] = stored.number if stored else None
            lines += stored.lines if stored else 1
            if lines >= most:
                yield part
                part, lines = {}, 0
        if part:
            yield part

    def _looks(
        self, logs: Logs[Any], part: dict[str, int | None], look: Look, *, is_quick: bool
    ) -> Iterator[Compared]:
        words: Words | None = None
        if self.index is not None and not is_quick:
            numbers = {it for it in part.values() if it is not None}
            words = Words(self.index, *logs.words, numbers, self._check)
        for name in part:
            if is_quick:
                self._check()
            else:
                self.rest()
            if (compared := look(logs, name, words)) is not None:
                yield compared

    def of(self, logs: Logs[Any], name: str, words: Words | None = None) -> Compared | None:
        """Compare a log with what the index has of it, up to there; None if there is no such log.
        Without `words` these are not compared.
        """
        try:
            with self._hold(name):  # all of it is queued for the index
                size = self.store.length(name)
            self.follow()  # another process may have written to it
            return self._compared(logs, name, size, words)
        except LogNotFound:
            return None

    def _compared(self, logs: Logs[Any], name: str, size: int, words: Words | None) -> Compared:
        """Compare a log that had `size` bytes before."""
        if self.index is None:
            return self._read_through(logs, name, None, None)
        with self.index.moment(settled=True):
            stored = logs.find(self.index, name)
            if stored is None:
                it = self._read_through(logs, name, None, None)
                it.damage.append("is not in the index")
                return it
            compares_words = words and not self._is_losing_words(name, stored.number)
            contents = Contents(self.index, words if compares_words else None)
            it = self._read_through(logs, name, stored, contents)
            if it.reading.end.bytes <= stored.bytes < size:
                it.damage.append(f"{stored.bytes} of its {size} bytes are in the index")
            it.differences += self._differences(name, stored, it.reading, contents)
            if words and compares_words and (left := words.left_of(stored.number)):
                has = f"the index has words of {counted(left, 'message')}"
                it.differences.append(f"{has} that it has not")
            return it

    def _is_losing_words(self, name: str, number: int) -> bool:
        """Return whether the words of a log are being taken out of the index, a part at a time."""
        assert self.index is not None
        removal = self.index.removal
        return removal.wordless_line(number) > 0 and name in removal.unsettled()

    def _read_through(
        self,
        logs: Logs[Any],
        name: str,
        stored: Stored[Any] | None,
        contents: Contents | None,
    ) -> Compared:
        """Read a log, to be compared with the contents of the index."""
        reading = logs.reading(self.store, contents, stored.number if stored else None)
        compared = Compared(name, reading, stored, [], [])
        for it in self.lines(name, stored):
            if isinstance(it, str):
                compared.damage.append(it)
            else:
                _see(logs, reading, it, name)
                if it.sequence % _CHECK_EVERY == 0:
                    self._check()
        compared.damage += [*reading.gaps, *reading.problems()]
        if reading.state is None:
            compared.damage.append("no line can be read")
        return compared

    def lines(self, name: str, stored: Stored[Any] | None = None) -> Lines:
        """Yield the lines of a log up to where the index has it, unless others are asked for."""
        if self._read is not None:
            yield from self._read(name, stored.bytes if stored else 0)
            return
        for line in self.store.read(name, until=stored.bytes if stored else None):
            yield line
            if line.entry is None:
                yield f"line {line.sequence} is damaged: {line.damage}"

    def _differences(
        self, name: str, stored: Stored[Any], reading: Reading[Any], contents: Contents
    ) -> Iterator[str]:
        if (stored.lines, stored.bytes) != reading.end:
            lines, size = reading.end
            yield f"{stored.bytes} bytes and {stored.lines} lines are indexed of {size} bytes and {lines} lines"
        if reading.state is not None:
            for part in fields(reading.state):
                if getattr(stored.state, part.name) != getattr(reading.state, part.name):
                    yield f"the index has another {part.name} than the transcript"
        yield from reading.differences(contents, stored.number)
        indexed = contents.requests(name)
        lost = [
            request_id
            for request_id, value in reading.requests.items()
            if indexed.get(request_id) != value and not self._is_elsewhere(contents, request_id)
        ]
        if lost:
            yield f"the index does not know {len(lost)} of its requests, as {lost[0]}"

    def _is_elsewhere(self, contents: Contents, request_id: str) -> bool:
        """Return whether another log has a request that the index knows as its one.

        Logs of two folders that were put into one may share ids. The index then knows each as one
        log's.
        """
        name, value = contents.request(request_id) or ("", "")
        return has_conversation(self.store, name) and any(
            (stamp.request_id, stamp.request_hash) == (request_id, value)
            for stamp in (line.entry.stamp for line in self.store.read(name) if line.entry)
        )

    # What the index alone has -------------------------------------------------------------------

    def indexed_alone(self, logs: Logs[Any]) -> list[str]:
        """Return the logs of a kind that the index alone has."""
        assert self.index is not None
        indexed = set(logs.progress(self.index)) - set(self.names(logs))
        return [
            name
            for name in sorted(indexed)
            if self._is_left(logs, name) and self._is_left(logs, name)
        ]

    def _is_left(self, logs: Logs[Any], name: str) -> bool:
        assert self.index is not None
        # In this order: a delete takes it out of the index before it ends in the store.
        if is_taken(self.store, name):
            return False
        self.follow()  # another process may have deleted it
        return logs.find(self.index, name) is not None

    def problems_of_index(self) -> Iterator[str]:
        """Yield the problems of the index that are of no log."""
        assert self.index is not None
        contents = Contents(self.index)
        yield from contents.problems(self._check)
        yield from self._of_nobody(contents) and self._of_nobody(contents)

    def _of_nobody(self, contents: Contents) -> list[str]:
        messages, texts = contents.of_nobody()
        return [
            f"it has {what}{counted(count, 'message')} that no transcript has"
            for what, count in (("", messages), ("words of ", texts))
            if count
        ]


def _see(logs: Logs[Any], reading: Reading[Any], line: Line, name: str) -> None:
    """Add the next line of a log to what is read of it."""
    reading.end = Position(line.sequence, line.end)
    reading.state = logs.folded(reading.state, line, name)
    if line.entry is None:
        return
    if line.entry.mark:
        reading.see_number(line.sequence, int(line.entry.mark.partition(".")[0]))
    if line.entry.stamp.request_id:
        reading.requests.setdefault(line.entry.stamp.request_id, line.entry.stamp.request_hash)
    reading.messages += isinstance(line.entry.content, logs.message)
    reading.add(line)
