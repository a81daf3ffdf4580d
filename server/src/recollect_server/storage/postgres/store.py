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

from recollect_server.domain.ids import is_conversation_id
from recollect_server.storage.failpoints import hit
from recollect_server.storage.logs.belonging import Belonging
from recollect_server.storage.logs.files import make_folder
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.lines import Line, Place, line_of
from recollect_server.storage.logs.store import (
    NO_CLAIM,
    START,
    Claim,
    Listing,
    LogConflict,
    LogNotFound,
    LogTaken,
    LogUnavailable,
    Position,
    TornTail,
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

    def replace(
        self,
        log: str,
        lines: Iterable[bytes],
        before: int | None = None,
        *,
        request: str = "",
        released: Sequence[str] = (),
    ) -> None:
        """Replace all lines of a log, in one transaction."""
        claims = key_of(request) if request else None, [key_of(it) for it in released]
        status = self._rows.change(
            "replace", "written", log, kind_of(log), before, _bodies(lines), *claims
        )
        _check(status, log, "written")
        hit("anchors.replaced")

    def read(self, log: str, after: Position = START, until: int | None = None) -> Iterator[Line]:
        """Yield the lines behind a position, up to the byte `until`, read a page at a time."""
        check = self._belonging(log, after.lines).check
        for sequence, offset, body in self._rows.lines(log, "read", after.bytes, until):
            yield check(line_of(body, sequence, offset))

    def read_at(self, log: str, places: Sequence[Place]) -> list[Line]:
        """Return the lines at places."""
        lines = self.read_several({log: places})[log]
        if isinstance(lines, LogUnavailable):
            raise lines
        return lines

    def read_several(
        self, places: Mapping[str, Sequence[Place]]
    ) -> dict[str, list[Line] | LogUnavailable]:
        """Return for each log what `read_at` returns or raises, by one statement."""
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
            for sequence, offset, body in self._rows.lines(log, "read", start, end.bytes)
        )
        return [*self._belonging(log).lines(lines)]

    def _belonging(self, log: str, after: int | None = None) -> Belonging:
        def whole() -> Iterator[Line]:
            return (
                line_of(body, sequence, offset)
                for sequence, offset, body in self._rows.lines(log, "read")
            )

        # No row changes its log, so the first one needs no look.
        return Belonging(log, lambda: None, whole, after)

    def is_boundary(self, log: str, position: Position) -> bool:
        """Return whether a line ends at a position."""
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
        return position.bytes in (0, size) or offset is not None

    def raw(self, log: str) -> bytes:
        """Return all bytes of a log, with nothing checked."""
        return b"".join(body + b"\n" for _, _, body in self._rows.lines(log, "read"))

    def raw_lines(self, log: str) -> Iterator[bytes]:
        """Yield the lines of a log, undecoded and with their newlines, read a page at a time."""
        for _, _, body in self._rows.lines(log, "read"):
            yield body + b"\n"

    def length(self, log: str) -> int:
        """Return how many bytes a log has."""
        return self._rows.length(log, "read", is_deleting=False)

    def has(self, log: str) -> bool:
        """Return whether there is a conversation of that name."""
        return is_conversation_id(log) and self._has(log, "AND NOT deleting")

    def is_taken(self, log: str) -> bool:
        """Return whether there is a log of that name, or a delete of it that has not ended."""
        return self._has(log, "AND NOT (deleting AND bytes = 0)")

    def logs(self, kind: Kind) -> Iterator[tuple[str, int]]:
        """Yield every log of a kind, with its length."""
        self._cancel_unanswered()
        last = ""
        while True:
            rows = self._rows.query(
                kind,
                "listed",
                "SELECT log, bytes FROM recollect.logs WHERE space = %s AND log > %s AND kind = %s"
                f" AND NOT deleting ORDER BY log LIMIT {_PAGE_NAMES}",
                self._space,
                last,
                kind.value,
                is_name=True,
            )
            yield from rows
            if len(rows) < _PAGE_NAMES:
                return
            last = rows[-1][0]

    # The local folder -----------------------------------------------------------------------------

    def create(self) -> None:
        """Make the folder of derived files. Raises OSError."""
        make_folder(self.root)

    def settle(self) -> None:
        """Do nothing: the local folder has nothing that must survive."""

    def close(self) -> None:
        """Do nothing: the connections are shared by all spaces."""

    def remove_without_logs(self, is_derived: Callable[[str], bool]) -> bool:
        """Remove the local folder of a space that has no log in the database."""
        if self.exists():
            return False
        return FolderStore(self.root).remove_without_logs(is_derived)

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
        if see is None:
            self.length(log)
            return None
        for line in self.read(log, after):
            see(line)
        return None

    def remains(self, log: str) -> str:
        """Return the log's name if it has lines, of which none can be read. Another server may have
        begun it since it was looked for.
        """
        damaged = False
        with suppress(LogNotFound):
            for line in self.read(log):
                if line.entry is not None:
                    return ""
                damaged = True
        return log if damaged else ""

    def remove_empty(self, log: str) -> bool:
        """Remove a log without lines. Return False if there is none, or it has some."""
        try:
            return self._rows.change("remove_empty", "deleted", log) == "done"
        except LogUnavailable:
            return False

    # Deleting -------------------------------------------------------------------------------------

    def begin_delete(self, log: str, before: int | None = None) -> None:
        """Mark a log as deleted: nobody reads it any more."""
        again = False

        def seen(is_again: bool) -> None:
            nonlocal again
            again = is_again

        hit("delete.begun")
        status = self._rows.change("begin_delete", "deleted", log, before, tried=seen)
        if status == "conflict":
            raise LogConflict(log, "deleted", _CHANGED)
        if status == "missing" or (status == "begun" and not again):
            raise LogNotFound(log, "deleted", "there is no log of that name")
        hit("delete.durable")

    def listing(self, kind: Kind) -> Listing:
        """Return all logs of a kind. There are no strays: a row has the name of a log."""
        redacting = self.redacting() if kind is Kind.CONVERSATION else []
        return Listing(self.deleted(kind), redacting, dict(self.logs(kind)), [])

    def deleted(self, kind: Kind = Kind.CONVERSATION) -> list[str]:
        """Return the logs of a kind whose delete has begun and not ended."""
        rows = self._rows.query(
            kind,
            "listed",
            "SELECT log FROM recollect.logs WHERE space = %s AND kind = %s AND deleting",
            self._space,
            kind.value,
            is_name=True,
        )
        return [name for (name,) in rows]

    def torn_sizes(self) -> list[int]:
        """Return nothing: an append is there whole or not at all."""
        return []

    def deleted_length(self, log: str) -> int:
        """Return the bytes of a log whose delete has begun."""
        return self._rows.length(log, "deleted", is_deleting=True)

    def raw_deleted(self, log: str) -> Iterator[bytes]:
        """Yield the lines of a log whose delete has begun."""
        for _, _, body in self._rows.lines(log, "deleted", is_deleting=True):
            yield body

    def end_delete(self, log: str) -> dict[str, int]:
        """Remove the rows of a deleted log."""
        try:
            size = self.deleted_length(log)
        except LogNotFound:  # another replica was the last that had words of it
            return {}
        self._rows.change("end_delete", "deleted", log)
        hit("delete.file_gone")
        return {"transcript": size}

    # Redacting ------------------------------------------------------------------------------------

    def begin_redaction(
        self, log: str, lines: Sequence[bytes], before: int | None = None, *, request: str = ""
    ) -> None:
        """Replace the lines of a log, and keep what they were, in one transaction."""
        hit("redact.begun")
        claim = key_of(request) if request else None
        status = self._rows.change(
            "begin_redaction", "written", log, before, uuid4(), _bodies(lines), claim
        )
        _check(status, log, "written")
        hit("redact.durable")

    def redacting(self) -> list[str]:
        """Return the logs whose redaction has begun and not ended."""
        rows = self._rows.query(
            Kind.CONVERSATION,
            "listed",
            "SELECT DISTINCT log FROM recollect.redacted_lines WHERE space = %s",
            self._space,
            is_name=True,
        )
        return [name for (name,) in rows]

    def is_redacted(self, log: str) -> bool:
        """Return True: a redaction has begun only where the log has its new lines."""
        self.length(log)  # raises LogNotFound
        return True

    def raw_redacting(self, log: str) -> list[bytes]:
        """Return the lines of a log as they were before a redaction that has not ended."""
        rows = self._rows.query(
            log,
            "read",
            "SELECT body FROM recollect.redacted_lines WHERE space = %s AND log = %s"
            ' ORDER BY "offset"',
            self._space,
            log,
        )
        if not rows:
            raise LogNotFound(log, "read", "no redaction of it has begun")
        return [body for (body,) in rows]

    def cancel_redaction(self, log: str) -> None:
        """Do nothing: what has begun has changed the log."""

    def end_redaction(self, log: str) -> None:
        """Remove the lines of before."""
        self._rows.change("end_redaction", "deleted", log)
        hit("redact.old_gone")

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

    def _has(self, log: str, condition: str) -> bool:
        self._cancel_unanswered()
        rows = self._rows.query(
            log,
            "read",
            f"SELECT 1 FROM recollect.logs WHERE space = %s AND log = %s {condition}",
            self._space,
            log,
        )
        return bool(rows)


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
