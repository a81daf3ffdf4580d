"""The log store of a space in a database of PostgreSQL (see `storage.logs.store` for its promises).

A line is a row, found by the byte at which it begins in its log. A change is one function of the
schema, one round trip and one transaction: all of it or nothing, durable when it returns. An append
has an id, so that one whose answer was lost with its connection is recognised when it is sent
again, by this call or by the next one with the same lines. One that would have begun a log is
undone before anything else is begun, for its caller got an error; it stays if
another process follows the space, which may have answered a repeat with it.

Several processes share the store (`storage.postgres.sharing`): each change is a row of `changes`
too.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

from recollect_server.storage.failpoints import hit
from recollect_server.storage.logs.files import make_folder
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.lines import Belonging, Line, Place, line_of
from recollect_server.storage.logs.store import (
    NO_CLAIM,
    START,
    Claim,
    LogConflict,
    LogNotFound,
    LogTaken,
    LogUnavailable,
    Position,
    TornTail,
    Version,
)
from recollect_server.storage.postgres.database import PostgresDatabase
from recollect_server.storage.postgres.order import PostgresOrder
from recollect_server.storage.postgres.rows import LEDGER, LogRows, kind_of
from recollect_server.storage.postgres.sharing import PostgresSharing, key_of

_PAGE_NAMES = 10_000
_CHANGED = "the log is not as this server left it: something else wrote to it"
_TAKEN = "another server carries the same out"


class PostgresStore:
    """The logs of one space as rows. Its derived files are in a local folder of their own for each
    database.
    """

    def __init__(self, database: PostgresDatabase, space: str, folder: Path) -> None:
        """`folder` is the space's in the data folder of this process."""
        self.root = folder / f"postgres-{database.identity[:8]}"
        """Folder of the index and the vectors."""
        self._space = space
        self.sharing = PostgresSharing(database, space)
        """The part that the replicas share."""
        self.order = PostgresOrder(database, space)
        """The order of changes that all replicas agree on."""
        self._rows = LogRows(database, space, self.order)
        self._guard = threading.Lock()  # guards `_unanswered`
        self._unanswered: dict[str, tuple[int, bytes, UUID]] = {}
        """Appends that failed without an answer, which may have been made: by log."""

    # Append and read ------------------------------------------------------------------------------

    def append(
        self, log: str, after: Position, lines: Sequence[bytes], claim: Claim = NO_CLAIM
    ) -> str:
        """Add whole lines behind the position, where the log must end; `START` makes the log.
        Return the append's position in the order.
        """
        kind, bodies = kind_of(log), _bodies(lines)
        with self._guard:
            unanswered = self._unanswered.pop(log, None)
        if not after.bytes:
            self._cancel_unanswered()
        is_again = unanswered is not None and unanswered[:2] == (after.bytes, _digest(bodies))
        name = unanswered[2] if unanswered is not None and is_again else uuid4()
        hit("append.begun" if after.bytes else "create.begun")
        try:
            status, place = self._rows.append(
                log, kind, after.bytes, name, bodies, claim, is_again=is_again
            )
        except LogUnavailable:
            with self._guard:
                self._unanswered[log] = (after.bytes, _digest(bodies), name)
            raise
        _check(status, log, "written")
        self.order.hurry()
        hit("append.written" if after.bytes else "create.synced")
        return str(self.order.of_change(place) or "")

    def swap(
        self,
        log: str,
        lines: Iterable[bytes] | None,
        before: int | None = None,
        *,
        request: str = "",
        released: Sequence[str] = (),
        keep: bool = False,
    ) -> None:
        """Replace all lines of a log, and keep what they were, or mark it as deleted, in one
        transaction.
        """
        if lines is None:
            self._delete(log, before)
            return
        claim = key_of(request) if request else None
        if keep:
            hit("redact.begun")
        status = (
            self._rows.change(
                "begin_redaction", "written", log, before, uuid4(), _bodies(lines), claim
            )
            if keep
            else self._rows.change(
                *("replace", "written", log, kind_of(log), before, _bodies(lines), claim),
                [key_of(it) for it in released],
            )
        )
        _check(status, log, "written")
        hit("redact.durable" if keep else "anchors.replaced")

    def _delete(self, log: str, before: int | None) -> None:
        again = False

        def seen(is_again: bool) -> None:
            nonlocal again
            again = is_again

        hit("delete.begun")
        status = self._rows.change("begin_delete", "deleted", log, before, tried=seen)
        if not (status == "begun" and again):
            _check("missing" if status == "begun" else status, log, "deleted")
        hit("delete.durable")

    def drop(self, log: str, version: Version, *, undone: bool = False) -> dict[str, int]:  # noqa: ARG002 - no swap is half done
        """Remove the rows of what a log was, once no other replica has words of it."""
        removed: dict[str, int] = {}
        with suppress(LogNotFound):  # another replica was the last that had some
            removed["transcript"] = self.length(log, version)
        is_delete = version is Version.DELETED
        self._rows.change("end_delete" if is_delete else "end_redaction", "deleted", log)
        hit("delete.file_gone" if is_delete else "redact.old_gone")
        return removed

    def read(self, log: str, after: Position = START, until: int | None = None) -> Iterator[Line]:
        """Yield the lines behind a position, up to the byte `until`, read a page at a time."""
        check = self._belonging(log, after.lines).check
        for sequence, offset, body in self._rows.lines(log, after.bytes, until):
            yield check(line_of(body, sequence, offset))

    def read_at(
        self, places: Mapping[str, Sequence[Place]]
    ) -> dict[str, list[Line] | LogUnavailable]:
        """Return for each log its lines at places, by one statement."""
        offsets = [(log, offset) for log, own in places.items() for _, offset, _ in own]
        try:
            rows = self._rows.lines_at(offsets) if offsets else []
        except LogUnavailable as error:
            return {log: LogUnavailable(log, "read", error.reason) for log in places}
        bodies: dict[str, dict[int, tuple[int, bytes]]] = {log: {} for log in places}
        for log, line, offset, body in rows:
            bodies[log][offset] = line, body
        lines: dict[str, list[Line] | LogUnavailable] = {}
        for log, own in places.items():
            try:
                if not bodies[log] or len(bodies[log]) < len({offset for _, offset, _ in own}):
                    self.length(log)  # raises LogNotFound
                there = (_line_at(it, bodies[log]) for it in own)
                lines[log] = [*self._belonging(log).lines(there)]
            except LogUnavailable as error:
                lines[log] = error
        return lines

    def read_last(self, log: str, end: Position, max_bytes: int) -> list[Line]:
        """Return the last whole lines before `end`, as many as the bytes allow."""
        start = max(0, end.bytes - max_bytes)
        lines = (
            line_of(body, sequence, offset)
            for sequence, offset, body in self._rows.lines(log, start, end.bytes)
        )
        return [*self._belonging(log).lines(lines)]

    def _belonging(self, log: str, after: int | None = None) -> Belonging:
        def whole() -> Iterator[Line]:
            return (
                line_of(body, sequence, offset) for sequence, offset, body in self._rows.lines(log)
            )

        # No row changes its log, so the first one needs no look.
        return Belonging(log, lambda: None, whole, after)

    def _check_boundary(self, log: str, position: Position) -> None:
        """Raise LogConflict unless a line ends at a position."""
        rows = self._rows.query(
            log,
            "read",
            'SELECT g.bytes, l."offset" FROM recollect.logs g LEFT JOIN recollect.lines l'
            ' ON l.space = g.space AND l.log = g.log AND l."offset" = %s'
            " WHERE g.space = %s AND g.log = %s AND NOT g.deleting",
            position.bytes,
            self._space,
            log,
        )
        if not rows:
            raise LogNotFound(log, "read", "there is no log of that name")
        size, offset = rows[0]
        if position.bytes != size and offset is None:
            raise LogConflict(log, "read", f"no line of it ends at byte {position.bytes}")

    def raw(self, log: str, version: Version = Version.PRESENT) -> Iterator[bytes]:
        """Yield the lines of a log, undecoded and without their newlines."""
        return (body for _, _, body in self._rows.lines(log, version=version))

    def length(self, log: str, version: Version = Version.PRESENT) -> int:
        """Return how many bytes a log has."""
        if version is Version.PRESENT:
            self._cancel_unanswered()
        return self._rows.length(log, version)

    def logs(self, kind: Kind, version: Version = Version.PRESENT) -> Iterator[tuple[str, int]]:
        """Yield the logs of a kind that have a version, each with its length."""
        if version is Version.PRESENT:
            self._cancel_unanswered()
        last = ""
        while True:
            rows = self._rows.names(kind, version, last, _PAGE_NAMES)
            yield from rows
            if len(rows) < _PAGE_NAMES:
                return
            last = rows[-1][0]

    def strays(self) -> list[str]:
        """Return nothing: a row has the name of a log."""
        return []

    # The local folder -----------------------------------------------------------------------------

    def create(self, *, settle: bool = False) -> None:  # noqa: ARG002 - nothing here must survive
        """Make the folder of derived files. Raises OSError."""
        make_folder(self.root)

    def close(self) -> None:
        """Do nothing: the connections are shared by all spaces."""

    def exists(self) -> bool:
        """Return whether the space has any log. Raises LogUnavailable."""
        self._cancel_unanswered()
        rows = self._rows.query(
            Kind.CONVERSATION,
            "listed",
            "SELECT 1 FROM recollect.logs WHERE space = %s LIMIT 1",
            self._space,
            is_name=True,
        )
        return bool(rows)

    # After a crash --------------------------------------------------------------------------------

    def recover(
        self, log: str, after: Position = START, see: Callable[[Line], None] | None = None
    ) -> TornTail | None:
        """Show the lines behind a position. A row is there whole, and durable, or not at all.

        A reader that sees a line here may answer a repeated request with it, so what is still to be
        undone is undone before.
        """
        self._cancel_unanswered()
        if after.bytes:
            self._check_boundary(log, after)
        if see is not None:
            for line in self.read(log, after):
                see(line)
        elif not after.bytes and not self.length(log):
            self._rows.change("remove_empty", "deleted", log)
            raise LogNotFound(log, "read", "it has no line")
        return None

    # Appends without an answer --------------------------------------------------------------------

    def _cancel_unanswered(self) -> None:
        """Undo what began a log and was never answered: its caller got an error, and may
        begin another one instead. It stays where others follow the space. Raises LogUnavailable.
        """
        if not self._unanswered:
            return
        with self._guard:
            begins = [
                (log, name)
                for log, (bytes_before, _, name) in self._unanswered.items()
                if not bytes_before and kind_of(log) != LEDGER
            ]
        for log, name in begins:
            self._rows.change("cancel_begin", "written", log, kind_of(log), name)
            with self._guard:
                self._unanswered.pop(log, None)


def _check(status: str, log: str, action: str) -> None:
    """Raise the error that the status of a change stands for."""
    if status == "missing":
        raise LogNotFound(log, action, "there is no log of that name")
    if status == "taken":
        raise LogTaken(log, action, _TAKEN)
    if status != "done":
        raise LogConflict(log, action, _CHANGED)


def _bodies(lines: Iterable[bytes]) -> list[bytes]:
    """Return lines without their newlines."""
    bodies: list[bytes] = []
    for line in lines:
        assert line.endswith(b"\n")
        bodies.append(line[:-1])
    return bodies


def _digest(bodies: list[bytes]) -> bytes:
    return hashlib.sha256(b"\n".join(bodies)).digest()


def _line_at(place: Place, bodies: Mapping[int, tuple[int, bytes]]) -> Line:
    """Return the line at a place, by its offset; a damaged one if it is not there any more."""
    sequence, offset, length = place
    line, body = bodies.get(offset, (0, b""))
    if (line, len(body) + 1) == (sequence, length):
        return line_of(body, sequence, offset)
    return Line(sequence, offset, length, None, "the line is not where it was")
