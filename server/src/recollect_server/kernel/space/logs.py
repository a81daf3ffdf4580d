"""Logs of one kind with their projection in the index: appended and caught up.

`Logs[State]` is written once for all kinds. What differs is in the types derived from it, that of
conversations and those that features register: how entries fold into a state, and which tables of
the index show it.

The log is the truth and the index follows: it is caught up at a start, for a rebuild, and after a
write that the index refused. Whether it says what the logs say is looked at in `comparison`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from recollect_server.kernel.domain.conversation import MessagesRedacted
from recollect_server.kernel.domain.errors import IndexUnavailable, RecollectError, RequestIdReused
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.checking import Contents
from recollect_server.kernel.index.derived import Erased, Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.removal import WordRemoval
from recollect_server.kernel.log.lines import Entry, Line, Stamp, encoded, misplacement
from recollect_server.kernel.log.store import (
    NO_CLAIM,
    START,
    Claim,
    LogConflict,
    LogNotFound,
    LogStore,
    LogTaken,
    Position,
    TornTail,
    request_claim,
)

log = structlog.get_logger("recollect.recovery")

State = TypeVar("State")

_CHUNK_LINES = 2000
_MAX_KEPT = 256 << 10  # bytes of a log that is decoded once, to be recovered and indexed


@frozen
class RequestKey:
    """A caller's request id with the hash of its payload."""

    id: str
    hash: str


class IndexAhead(IndexUnavailable):
    """The index has something of a log that is not there, or stands elsewhere, or it has a text
    that was removed.

    Only a rebuild helps: the words that are gone are not known.
    """


class RedactedElsewhere(IndexAhead):
    """The index has the text of messages that another process redacted."""


@dataclass(slots=True)
class Totals:
    """Sums over the logs that were caught up."""

    logs: int = 0
    messages: int = 0
    """Number of messages indexed now."""
    damaged: int = 0
    """Number of damaged lines skipped now."""
    bytes_cut: int = 0
    """Bytes cut off torn tails."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A log whose tail was recovered ahead: what was cut, and its lines, if few enough to be kept
    until indexed.
    """

    torn: TornTail | None
    lines: list[Line] | None


@dataclass(slots=True)
class Reading(ABC, Generic[State]):
    """A log that is read to its end, to be compared with the index."""

    store: LogStore
    contents: Contents | None
    number: int | None
    """Number of the log in the index whose contents these are; None for both: it is not
    compared.
    """
    state: State | None = None
    end: Position = START
    messages: int = 0
    requests: dict[str, str] = field(default_factory=dict)
    """Hash by id."""
    gaps: list[str] = field(default_factory=list)
    """Problems of places where lines are missing."""
    shift: int = 0
    """Lines that are missing so far, less those that people put in."""

    def see_number(self, sequence: int, written: int) -> None:
        """Note that a line was written as the line of another number than it has."""
        missing = written - sequence - self.shift
        if missing > 0:
            verb = "is" if missing == 1 else "are"
            self.gaps.append(f"{counted(missing, 'line')} {verb} missing before line {sequence}")
        self.shift += missing

    @abstractmethod
    def add(self, line: Line) -> None:
        """Add a line that is whole, after `state` is that behind it."""

    @abstractmethod
    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself in the log, whatever the index says."""

    @abstractmethod
    def differences(self, contents: Contents, number: int) -> Iterator[str]:
        """Yield what the index has otherwise, beyond what every kind of log has."""


class Logs(ABC, Generic[State]):
    """All logs of one kind in a store. Hold a log's lock for what concerns it alone."""

    kind: ClassVar[Kind]
    noun: ClassVar[str]
    """Key of a log's name in the program's own log."""
    plural: ClassVar[str]
    failpoints: ClassVar[tuple[str, str]]
    """Names of the failpoints behind a recovered tail, and behind an indexed part."""
    words: ClassVar[tuple[str, str]]
    """Names of the full-text table in the index that has their words, and of the table that says
    how many lines of each are indexed.
    """
    message: ClassVar[type]
    """Entries that count as messages."""
    reading: ClassVar[type[Reading[Any]]]

    def __init__(self, store: LogStore) -> None:
        self.store = store

    # What differs between the kinds --------------------------------------------------------------

    @abstractmethod
    def fold(self, before: State | None, content: object, name: str) -> State | None:
        """Return the state of the log `name` after an entry; a lost first line is made up for."""

    @abstractmethod
    def not_found(self, name: str) -> RecollectError:
        """Return the error for a log of which no line can be read."""

    @abstractmethod
    def misplaced(self, name: str, reason: str) -> RecollectError:
        """Return the error for a log whose file belongs to another one."""

    @abstractmethod
    def find(self, index: Index, name: str) -> Stored[State] | None:
        """Return what the index has of a log."""

    @abstractmethod
    def removal(self, index: Index) -> WordRemoval:
        """Return the removal of logs of this kind from the index."""

    @abstractmethod
    def redact(
        self,
        index: Index,
        stored: Stored[State],
        after: State,
        event: Line,
        erased: Erased,
        *,
        time: int,
    ) -> int:
        """Let the index take in the line that says what was redacted, and have none of its text.
        Return the cursor of the line; 0: it has none.
        """

    @abstractmethod
    def progress(self, index: Index) -> dict[str, int]:
        """Return how many bytes of each log are indexed."""

    @abstractmethod
    def goes_on(self, index: Index, stored: Stored[State]) -> bool:
        """Return whether the newest message still stands where the index says."""

    @abstractmethod
    def add(
        self,
        index: Index,
        number: int | None,
        before: State | None,
        after: State,
        lines: list[Line],
        *,
        time: int,
        failed: Callable[[str], None],
        log: bool,
    ) -> int:
        """Let the index take in lines; `failed` is called later if it refuses. Return the
        number.
        """

    # Append and read -----------------------------------------------------------------------------

    def append(
        self,
        name: str,
        end: Position,
        contents: Sequence[object],
        request: RequestKey | None,
        draft_id: str = "",
        claim: Claim = NO_CLAIM,
    ) -> tuple[list[Line], str]:
        """Append contents as one batch, durable when it returns; `claim` is what other processes
        must not have, beside the request. Return its lines, and its position in the order of all
        processes (empty: there is one process). Raises LogConflict, RequestIdReused,
        LogUnavailable.
        """
        lines, data = encoded(entries_of(contents, request, draft_id), *end, name)
        if request and self.store.sharing:
            claim = Claim(request_claim(request.id), claim.places)
        try:
            return lines, self.store.append(name, end, data, claim)
        except LogTaken:
            check_unanswered(self.store, request)
            raise

    def folded(self, before: State | None, line: Line, name: str) -> State | None:
        """Return the state after a line. A damaged one changes nothing."""
        return before if line.entry is None else self.fold(before, line.entry.content, name)

    def behind(self, before: State | None, lines: list[Line], name: str) -> State:
        """Return the state behind lines that are all whole."""
        for line in lines:
            assert line.entry is not None
            before = self.fold(before, line.entry.content, name)
        assert before is not None
        return before

    def read_whole(self, name: str) -> tuple[list[Line], State | None]:
        """Return all lines of a log and the state behind them, without the index. Raises
        LogUnavailable.
        """
        state: State | None = None
        lines = list(self.store.read(name))
        for line in lines:
            state = self.folded(state, line, name)
        return lines, state

    def check_own(self, name: str) -> None:
        """Raise the error of a log whose file belongs to another one, as after files have got each
        other's names. A store that several processes share has no files. Raises LogUnavailable.
        """
        if self.store.sharing is None and (reason := misplacement(self.store.read(name))):
            raise self.misplaced(name, reason)

    # Catch up ------------------------------------------------------------------------------------

    def recover(self, name: str, acknowledged: int = 0) -> Recovered:
        """Recover the tail of a log of which nothing is indexed, ahead of `catch_up`, many at once.
        An index had it up to byte `acknowledged`. Raises LogUnavailable.
        """
        lines: list[Line] = []
        size = self.store.length(name)
        see = lines.append if size <= _MAX_KEPT else None
        torn = self.store.recover(name, START, see, acknowledged)
        # A last line that was not ended is not among them, though it may have got its newline back.
        is_read = torn is None and bool(lines) and lines[-1].end == size
        return Recovered(torn, lines if is_read else None)

    def catch_up(
        self,
        index: Index,
        name: str,
        stored: Stored[State] | None,
        *,
        time: int,
        log_updates: bool,
        wait: bool = True,
        recovered: Callable[[], Recovered] | None = None,
        totals: Totals | None = None,
        acknowledged: int = 0,
    ) -> tuple[int, State, Position]:
        """Recover the log's tail and index what the index does not have yet. Return its number, its
        state and its end.

        `stored` is what it has; `time` is now; `wait` False does not wait for the index to take it
        in; `recovered` waits for `recover`, where that was begun and nothing is stored; what is
        done is added to `totals`; an index had the log up to byte `acknowledged`. Raises
        IndexAhead, DataUnavailable, and `not_found` if no whole line is left.
        """
        totals = totals or Totals()
        end = Position(stored.lines, stored.bytes) if stored else START
        number = stored.number if stored else None
        damage = Damage(self.noun, name)
        refused: list[str] = []
        try:
            state = stored.state if stored else None
            self._check_goes_on(index, name, stored, end)
            try:
                ready = (
                    recovered()
                    if recovered
                    else Recovered(self.store.recover(name, end, None, acknowledged), None)
                )
            except LogConflict:  # no line of it ends there
                raise self._not_indexed_one(name, end) from None
            if torn := ready.torn:
                totals.bytes_cut += torn.bytes_cut
                log.warning(
                    "torn_tail_cut", **{self.noun: name}, bytes=torn.bytes_cut, reason=torn.reason
                )
            hit(self.failpoints[0])
            waiting: list[Line] = []  # damaged ones at the top: nothing is known yet
            for chunk in chunks(
                self.store.read(name, end) if ready.lines is None else iter(ready.lines)
            ):
                before = state
                for line in chunk:
                    if stored is not None and self.store.sharing is not None:
                        check_redaction(line, stored.lines, name)
                    state = self.folded(state, line, name)
                    totals.messages += line.entry is not None and isinstance(
                        line.entry.content, self.message
                    )
                    damage.see(line)
                waiting += chunk
                if state is None:
                    continue
                number = self.add(
                    index,
                    number,
                    before,
                    state,
                    waiting,
                    time=time,
                    failed=refused.append,
                    log=log_updates,
                )
                end, waiting = Position(chunk[-1].sequence, chunk[-1].end), []
                hit(self.failpoints[1])
        except LogNotFound:
            raise self.not_found(name) from None
        damage.end_run()
        totals.damaged += damage.count
        if state is None or number is None:
            raise self.not_found(name)
        if wait:
            self.settle(index, name, refused)
        return number, state, end

    def settle(self, index: Index, name: str, refused: list[str]) -> None:
        """Wait until the index has taken lines in. Raises DataUnavailable if it refused some."""
        index.settle()
        if refused:
            raise IndexUnavailable(f"the index refused lines of {name}: {refused[0]}")

    def _check_goes_on(
        self, index: Index, name: str, stored: Stored[State] | None, end: Position
    ) -> None:
        """Raise IndexAhead unless a log goes on behind what is indexed of it, up to `end`."""
        size = self.store.length(name)
        if size < end.bytes:
            raise IndexAhead(f"{name} has {size} bytes and {end.bytes} of it are indexed")
        if stored and size > end.bytes and not self.goes_on(index, stored):
            raise self._not_indexed_one(name, end)

    def _not_indexed_one(self, name: str, end: Position) -> IndexAhead:
        return IndexAhead(f"{name} is another one than was indexed, up to byte {end.bytes}")


def check_unanswered(store: LogStore, request: RequestKey | None) -> None:
    """Raise RequestIdReused if a request that writes no line has the id of one that writes some:
    their payloads differ. Raises LogUnavailable.
    """
    if request and store.sharing and store.sharing.answer(request.id) is not None:
        raise RequestIdReused(request.id)


def check_redaction(line: Line, indexed: int, name: str) -> None:
    """Raise RedactedElsewhere if a line redacts messages whose text is indexed: to take it in would
    leave their words. Another process wrote it, and `following` takes it in.
    """
    content = line.entry.content if line.entry else None
    if isinstance(content, MessagesRedacted) and min(content.sequences) <= indexed:
        raise RedactedElsewhere(f"{name} was redacted by another server since it was indexed")


class Damage:
    """Count of the damaged lines of a log; each run of them is named once in the program's log."""

    def __init__(self, noun: str, name: str) -> None:
        self.count = 0
        self._about = {noun: name}
        self._first: Line | None = None
        self._before = 0  # how many there were when this run began

    def see(self, line: Line) -> None:
        """Look at the next line."""
        if line.entry is not None:
            self.end_run()
            return
        if self._first is None:
            self._first, self._before = line, self.count
        self.count += 1

    def end_run(self) -> None:
        """Log a run of damaged lines that ends here."""
        if self._first is not None:
            lines, first, self._first = self.count - self._before, self._first, None
            log.warning(
                "damaged_line", **self._about, line=first.sequence, lines=lines, reason=first.damage
            )


def entries_of(
    contents: Sequence[object], request: RequestKey | None, draft_id: str = ""
) -> list[Entry]:
    """Return contents as the entries of one batch of a request."""
    request_id, value = (request.id, request.hash) if request else ("", "")
    count = len(contents)
    return [
        Entry(it, Stamp(request_id, value, (at, count), draft_id))
        for at, it in enumerate(contents, start=1)
    ]


def chunks(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Yield parts of some `_CHUNK_LINES` lines that end where a batch ends."""
    chunk: list[Line] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) >= _CHUNK_LINES and (
            line.entry is None or line.entry.stamp.batch[0] == line.entry.stamp.batch[1]
        ):
            yield chunk
            chunk = []
    if chunk:
        yield chunk
