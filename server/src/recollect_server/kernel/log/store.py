"""The log store: where logs live, seen by the layers above.

A log is an append-only sequence of checksummed JSON lines (see the package's documentation). Its
name says what it is: `conv-…` a conversation, `ext-…` a communication with a third party,
`thread-…` a thread of checkpoints, and one of `LEDGERS` a ledger. The lines are the only truth; the
index is derived from them and can always be made anew.

A store belongs to one space. `FolderStore` (in `folder`) keeps each log in a JSONL file of a folder
that one process owns; `PostgresStore` (in `postgres`) in tables. Beside the logs a store
names a local folder, `root`, for what the process derives from them: the index and the vectors.

The contract is written for more than one process too: an append names the position that it
believes to be the end, and learns by `LogConflict` that another process was first.

Guarantees of every store:

- `append` and `swap` add all lines or none, and the lines are durable when the call returns.
- A line never changes its number or its `Place` while its log exists, except by `swap` without
  `keep`.
- Damaged lines are reported as such (`Line.entry` is None), never as something else, and never
  raised.
- What `swap` keeps of a log is listed until `drop` returns, whatever happens between the two; then
  it is gone to its last byte, with everything that was cut off the log.

A folder has one writer, which knows what it wrote, and finds the rest by the lengths of the logs at
its start (`logs`). A store that several processes share has more (`Sharing`): what anybody
committed since a moment, so that each process keeps its own index up to it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.ids import Action, Kind, is_conversation_id
from recollect_server.kernel.log.lines import Belonging, Line, Place, line_of
from recollect_server.kernel.log.order import SharedOrder

IDENTITIES, FORGOTTEN, ANCHORS = "identities", "forgotten", "anchors"
RETENTION = "retention"
LEDGERS = (IDENTITIES, FORGOTTEN, ANCHORS, RETENTION)
_FIRST_LINE = 16 << 10  # bytes that are read to learn whose log a file is
# in the texts of errors; others: the transcript
_NAMES = {
    ANCHORS: "the file of anchors",
    IDENTITIES: "the identities",
    RETENTION: "the receipts of retention",
    "tokens": "the ledger of tokens",
    "token-use": "the use of tokens",
    "changes": "the changes in the database",
    "shared": "the state that servers share",
    "vectors": "the vectors in the database",
    "conversations": "the conversations",
    "external": "the external communications",
    "threads": "the threads",
}


class Position(NamedTuple):
    """Boundary between two lines of a log: how many lines and how many bytes lie before it."""

    lines: int = 0
    bytes: int = 0


START = Position()


@dataclass(frozen=True, slots=True)
class TornTail:
    """Remains of an append that was cut short and never acknowledged: how many bytes were cut off,
    and why.
    """

    bytes_cut: int
    reason: str


class Version(StrEnum):
    """Version of a log; a store can have several beside each other."""

    PRESENT = "present"
    """The log: one of every other version alone is gone."""
    DELETED = "deleted"
    """The log whose delete has begun and not ended."""
    REPLACED = "replaced"
    """The log as it was before a redaction that has not ended."""
    TORN = "torn"
    """Bytes that were cut off its tail."""


class LogUnavailable(StorageUnavailable):
    """The store failed to read, write or delete a log. `reason` is what it said."""

    def __init__(self, log: str, action: str, reason: str) -> None:
        super().__init__(f"{_NAMES.get(log, 'the transcript')} cannot be {action}: {reason}")
        self.reason = reason


class LogNotFound(LogUnavailable):
    """The store has no log of that name."""


class LogBlocked(LogNotFound):
    """The store has no log of that name, and nothing else can be written there: a link that leads
    nowhere has the name.
    """


class LogConflict(LogUnavailable):
    """The log does not end where the append expected it: somebody else wrote to it. Nothing was
    added.
    """


class LogTaken(LogConflict):
    """The request is carried out elsewhere, or somebody else began a log at the place. Nothing was
    added.
    """


@dataclass(frozen=True, slots=True)
class Claim:
    """Names that exactly one append may have, whichever process makes it. One process needs none:
    its locks see to it.
    """

    request: str = ""
    """Name of a request; empty: of none."""
    places: tuple[tuple[str, str], ...] = ()
    """Names of places where a log is begun, each with its last claim (`Sharing.claims`)."""


NO_CLAIM = Claim()


def has_version(store: "LogStore", log: str, version: Version) -> bool:
    """Return whether there is a version of a log, if only without a byte; False for a text that is
    not the name of one. Raises LogUnavailable.
    """
    with suppress(LogNotFound, ValueError):
        store.length(log, version)
        return True
    return False


def has_conversation(store: "LogStore", log: str) -> bool:
    """Return whether there is a conversation of that name. Raises LogUnavailable."""
    return is_conversation_id(log) and has_version(store, log, Version.PRESENT)


def is_taken(store: "LogStore", log: str) -> bool:
    """Return whether a name is not free: anything of a log of that name is there, or of a delete
    that has not ended; False for a text that is not the name of one. Raises LogUnavailable.
    """
    for version in (Version.PRESENT, Version.DELETED, Version.TORN):
        try:
            size = store.length(log, version)
        except LogBlocked:
            return True
        except (LogNotFound, ValueError):
            continue
        # A begin that was undone leaves a deleted log without a byte where processes share a store.
        if size or version is not Version.DELETED or store.sharing is None:
            return True
    return False


def lines_at(store: "LogStore", log: str, places: Sequence[Place]) -> list[Line]:
    """Return the lines of one log at places (see `LogStore.read_at`). Raises LogUnavailable."""
    lines = store.read_at({log: places})[log]
    if isinstance(lines, LogUnavailable):
        raise lines
    return lines


def timeline_of(store: "LogStore") -> str:
    """Return the name of the present history of a shared store, which changes when a copy takes
    over; empty of a folder. Raises LogUnavailable.
    """
    return str(store.order.timeline()) if store.order else ""


def request_claim(request_id: str) -> str:
    """Return the name of a request among the claims of a space."""
    return f"request {request_id}"


class Change(NamedTuple):
    """A change of a log that somebody committed."""

    log: str
    kind: str
    """As `kind_of` names it."""
    action: Action
    start: int
    """Bytes of the log before it."""
    end: int
    """Bytes of the log behind it."""
    is_own: bool
    """True if this process made it."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes that were committed between two moments."""

    changes: list[Change]
    """Those of one log are in the order of its lines."""
    moment: str
    """The later moment, for the next call."""
    is_whole: bool
    """False if some were pruned, or the database is another one than before: then only the lengths
    of all logs tell what changed.
    """
    is_taken_over: bool = False
    """True if a copy of the database took over between the moments. What was seen before may never
    have been there.
    """


class Purpose(StrEnum):
    """Work that one of the processes that share a store does at a time in a space."""

    NOTES = "notes"
    RETENTION = "retention"
    PRUNING = "pruning"
    EMBEDDING = "embedding"
    """By one model, whose name comes behind it."""


class Sharing(Protocol):
    """Operations of processes that share a store, beside those of `LogStore`. Every method raises
    LogUnavailable. Safe to call from any thread.

    `changes` gives out everything that is committed, at once, for an index: what it has given out
    is known to it by a moment, not by a position, for a transaction that began earlier may commit
    later. Streams read the `Order`, which is the same for every process and never changes: it ends
    below the oldest transaction that runs, so a transaction that stays open stalls it, and nothing
    else.
    """

    def moment(self, *, join: bool = False) -> str:
        """Return the present moment: everything that is committed now lies before it. `join`: let
        this process be one that follows the space from now on: what others delete can be read until
        it has ended the delete too.
        """

    def changes(self, after: str) -> Changes:
        """Return everything that was committed between a moment and now."""

    def changed(self, moments: Mapping[str, str]) -> set[str]:
        """Return those of these spaces of the same store that `changes` has something of, behind a
        moment of each.
        """

    def changed_since_takeover(self, moment: str) -> dict[str, int] | None:
        """Return the logs that were changed since a copy took over for the first time behind a
        moment, each with the byte at which that begins. None if it is not known.
        """

    def claims(self, places: Sequence[str], *, anew: bool = False) -> tuple[tuple[str, str], ...]:
        """Return places with what claimed each last; empty: nothing did. An append that begins a
        log there names it, and fails if there is another one by then. `anew`: claim them first, so
        that an append which names the claim before fails.
        """

    def begin_request(self, request_id: str, payload: str, log: str = "", note: str = "") -> bool:
        """Begin a request that leaves no line; `payload` is the hash of its payload. From here on
        its id is taken, for those that leave lines too. `note`: that it deletes a log; the last one
        of a log stays. Return False, and note nothing, if another request has the id.
        """

    def end_request(self, request_id: str, payload: str, answer: str | None) -> str:
        """Keep the answer of such a request, and return the one that is kept now: the first one
        stays. None: let its id be free again, unless it has an answer.
        """

    def answer(self, request_id: str = "", payload: str = "", *, log: str = "") -> str | None:
        """Return what `end_request` kept of a request; empty: it is begun; None: nothing is known
        of it, or it is begun with another payload than a given one. Or return the last note of
        `begin_request` about a log; None if there is none.
        """

    def is_deleted_with_space(self, log: str) -> bool:
        """Return whether a log was deleted because its space was."""

    def lease(self, purpose: str, seconds: float) -> AbstractContextManager[int]:
        """Take a lease of work that one process does at a time, or hold on to it for so many
        seconds more. Give its number; 0: another process has it. Within, appends of this thread
        fail with LogTaken once another process has it.
        """

    def vectors(self, model: str, texts: Sequence[tuple[str, bytes]]) -> dict[bytes, bytes]:
        """Return the vectors of texts that `keep_vectors` kept, each text by its log and hash."""

    def keep_vectors(
        self, model: str, log: str, vectors: Mapping[bytes, bytes], moment: str
    ) -> None:
        """Keep vectors of texts of a log by their hashes, until it is deleted or redacted; none if
        it is, or was since the moment.
        """

    def prune_changes(self, max_age: float, most: int) -> int:
        """Remove the changes that are older than so many seconds, and all but the newest `most`.
        Return how many.
        """


class LogStore(Protocol):
    """Logs of one space. Every method raises LogUnavailable; those that name a log raise
    LogNotFound if there is none.

    Safe to call from any thread, but for calls that change the same log: their caller holds its
    lock. A store is a subclass: what follows from `raw` is the same of all.
    """

    root: Path
    """Local folder of what is derived from the logs: the index and the vectors."""
    sharing: Sharing | None = None
    """Operations of processes that share the store; None if it has one process alone."""
    order: SharedOrder | None = None
    """Order of changes that all processes agree on; None if there is one process, whose index
    orders them.
    """

    def create(self, *, settle: bool = False) -> None:
        """Make the local folder. `settle`: make durable the names that a killed process may have
        left to the system's cache. Raises OSError.
        """

    def close(self) -> None:
        """Close every file that no append uses. Whatever is called later opens them again."""

    def append(
        self, log: str, after: Position, lines: Sequence[bytes], claim: Claim = NO_CLAIM
    ) -> str:
        """Add whole lines behind the position, where the log must end; `START` begins a new log.
        Return the append's position in the `order`; empty if there is none. Raises LogConflict,
        LogTaken.
        """

    def swap(
        self,
        log: str,
        lines: Iterable[bytes] | None,
        before: int | None = None,
        *,
        request: str = "",
        released: Sequence[str] = (),
        keep: bool = False,
        note: str = "",
    ) -> None:
        """Let a log have these lines and nothing else, durably, or with None none and no length: it
        is gone. What it cannot change is as it was. The log may be read while the lines are made.

        Of what it had no byte is left, unless `keep`: then that can be read until `drop`, and
        `lines` are more than it had, each of the first ones as long as it was. What None deletes is
        kept too.

        `before`: bytes of the log that the lines were made from, where another process may have
        changed it. `request`: the claim of who swaps. `released`: claims of those whose lines are
        left out, which are free from here on. `note`: what `note_of` is to return of a log that
        None deletes. Raises LogConflict, LogTaken.
        """

    def drop(self, log: str, version: Version, *, undone: bool = False) -> dict[str, int]:
        """Remove the last byte of what `swap` kept. Return how many bytes, by what they were.
        `undone`: the log is as it was, and what was once cut off it stays.
        """

    def delete_each(self, logs: Sequence[str]) -> dict[str, LogUnavailable]:
        """Begin to delete logs of one kind, durably, as `swap` with None does each. Return those
        that may be left, from the first one that cannot be deleted on, each with the reason.
        """
        for at, log in enumerate(logs):
            try:
                self.swap(log, None)
            except LogUnavailable as error:
                return dict.fromkeys(logs[at:], error)
        return {}

    def drop_each(self, logs: Sequence[str]) -> None:
        """Remove the last byte of deleted logs of one kind, as `drop` does of each."""
        for log in logs:
            self.drop(log, Version.DELETED)

    def note_of(self, log: str) -> str | None:
        """Return the note of a log whose delete has begun and not ended; None if it has none."""

    def read(self, log: str, after: Position = START, until: int | None = None) -> Iterator[Line]:
        """Yield the lines behind a position, up to the byte `until`. An unended tail is no line."""
        check = self._belonging(log, after.lines).check
        for line in self._lines(log, after, until):
            yield check(line)

    def _lines(self, log: str, after: Position = START, until: int | None = None) -> Iterator[Line]:
        """Yield the lines as they are, whichever log they belong to."""
        offset = after.bytes
        raw = self.raw(log, start=offset, until=until)
        for sequence, text in enumerate(raw, after.lines + 1):
            yield line_of(text, sequence, offset)
            offset += len(text) + 1

    def _belonging(self, log: str, after: int | None = None) -> Belonging:
        return Belonging(
            log,
            lambda: next(self._lines(log, until=_FIRST_LINE), None),
            lambda: self._lines(log),
            after,
        )

    def read_at(
        self, places: Mapping[str, Sequence[Place]]
    ) -> dict[str, "list[Line] | LogUnavailable"]:
        """Return for each log its lines at places that the store gave out, or why they cannot be
        read. One that is not there any more is damaged. A store that is asked over a connection is
        asked once for all of them.
        """

    def read_last(self, log: str, end: Position, max_bytes: int) -> list[Line]:
        """Return the last whole lines before `end`, as many as the bytes allow. Their offsets are
        not known: 0.
        """
        # With the byte before them, so that a line which begins earlier makes them too many.
        raw = [*self.raw(log, start=max(0, end.bytes - max_bytes - 1), until=end.bytes)]
        if sum(len(text) + 1 for text in raw) > max_bytes:
            del raw[0]
        numbered = enumerate(raw, end.lines - len(raw) + 1)
        lines = (line_of(text, number, 0) for number, text in numbered)
        return [*self._belonging(log).lines(lines)]

    def raw(
        self,
        log: str,
        version: Version = Version.PRESENT,
        *,
        start: int = 0,
        until: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the lines between two bytes of a log, undecoded and without their newlines. An
        unended tail is no line. `start` inside a line: a store may yield the rest of that.
        """

    def length(self, log: str, version: Version = Version.PRESENT) -> int:
        """Return how many bytes a log has. Raises LogBlocked; ValueError for a text that is not the
        name of one.
        """

    def logs(self, kind: Kind, version: Version = Version.PRESENT) -> Iterator[tuple[str, int]]:
        """Yield the logs of a kind that have a version, each with its length in bytes."""

    def strays(self) -> list[str]:
        """Return the files that stand as logs and are none, each with why it is not read."""

    def torn_files(self) -> dict[str, int]:
        """Return the sizes of the files with what starts cut off logs, by their paths in the data
        folder.
        """

    def recover(
        self,
        log: str,
        after: Position = START,
        see: Callable[[Line], None] | None = None,
        acknowledged: int = 0,
    ) -> TornTail | None:
        """Make the lines behind a position durable, and cut off what an append left that was cut
        short: nothing before byte `acknowledged`. A log that was begun, has nothing and was never
        acknowledged is removed. Raises LogConflict if the log goes on and no line of it ends at the
        position, which an earlier state of the log had.

        `see` is called with each whole line. Call it before lines are indexed that this process did
        not append.
        """
