"""The log store of a space in a database of PostgreSQL (see `kernel.log.store` for its promises).

A line is a row, found by the byte at which it begins in its log. A change is one function of the
schema, one round trip and one transaction: all of it or nothing, durable when it returns. An append
has an id, so that one whose answer was lost with its connection is recognised when it is sent
again, by this call or by the next one with the same lines. One that would have begun a log is
undone before anything else is begun, for its caller got an error; it stays if
another process follows the space, which may have answered a repeat with it.

Several processes share the store (`postgres.sharing`): each change is a row of `changes`
too.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

from recollect_server.kernel.domain.ids import LEDGER, Kind, kind_of
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.files import make_folder
from recollect_server.kernel.log.lines import Belonging, Line, Place, line_of
from recollect_server.kernel.log.store import (
    NO_CLAIM,
    START,
    Claim,
    LogConflict,
    LogNotFound,
    LogStore,
    LogTaken,
    LogUnavailable,
    Position,
    TornTail,
    Version,
)
from recollect_server.postgres.connections import Connection, first_row
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.order import PostgresOrder
from recollect_server.postgres.sharing import PostgresSharing, failing, fetched, held_lease, key_of
from recollect_server.postgres.statement import Statement, bytea_array, text_array

_PAGE_NAMES = 10_000
_CHANGED = "the log is not as this server left it: something else wrote to it"
_NONE = "there is no log of that name"
_PAGE_BYTES = 1 << 20  # of lines that are read at once
_Change = Literal[
    "cancel_begin",
    "replace",
    "begin_redaction",
    "end_redaction",
    "begin_delete",
    "end_delete",
    "remove_empty",
]
_LOGS = {
    Version.PRESENT: "recollect.logs WHERE NOT deleting",
    Version.DELETED: "recollect.logs WHERE deleting",
    Version.REPLACED: "(SELECT space, log, g.kind, sum(length(r.body) + 1)::bigint AS bytes"
    " FROM recollect.redacted_lines r JOIN recollect.logs g USING (space, log)"
    " GROUP BY space, log, g.kind) AS replaced WHERE true",
    Version.TORN: "recollect.logs WHERE false",  # an append is there whole or not at all
}
"""Rows of the logs that have a version: names, kinds, bytes."""
_ACTIONS = {it: "deleted" if it is Version.DELETED else "read" for it in Version}
# With where the function left the position of its change.
_APPEND = Statement(
    "recollect.append",
    "SELECT status, current_setting('recollect.change', true) FROM recollect.append("
    "$1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::uuid, $7::boolean, $8::bytea[],"
    " $9::bytea, $10::bytea[], $11::uuid[], $12::text, $13::bigint) AS status",
    binary=[8, 9],
)


class PostgresStore(LogStore):
    """The logs of one space as rows. Its derived files are in a local folder of their own for each
    database.
    """

    sharing: PostgresSharing
    """The part that the replicas share."""
    order: PostgresOrder
    """The order of changes that all replicas agree on."""

    def __init__(self, database: PostgresDatabase, space: str, folder: Path) -> None:
        """`folder` is the space's in the data folder of this process."""
        self.root = folder / f"postgres-{database.identity[:8]}"
        """Folder of the index and the vectors."""
        self._database = database
        self._space = space
        self.sharing = PostgresSharing(database, space)
        self.order = PostgresOrder(database, space)
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
            status, place = self._append(
                log, kind, after.bytes, name, bodies, claim, is_again=is_again
            )
        except LogTaken:
            raise
        except LogUnavailable:
            with self._guard:
                self._unanswered[log] = (after.bytes, _digest(bodies), name)
            raise
        _check(status, log, "written")
        self.order.hurry()
        hit("append.written" if after.bytes else "create.synced")
        return str(self.order.of_change(place) or "")

    def _append(
        self,
        log: str,
        kind: str,
        after_bytes: int,
        name: UUID,
        bodies: list[bytes],
        claim: Claim,
        *,
        is_again: bool,
    ) -> tuple[str, str]:
        """Call the function that appends. Return its status, and where its change stands, if it
        made one.
        """
        # In one order, so that two appends never wait for each other.
        places = sorted(
            (key_of(place), UUID(holder) if holder else None) for place, holder in claim.places
        )
        lease, fence = held_lease.get()
        names = self._database.number, self._space, log, kind, after_bytes, name
        arguments: list[bytes | None] = [
            *(str(it).encode() for it in names),
            b"false",
            bytea_array(bodies),
            key_of(claim.request) if claim.request else None,
            text_array(rf"\\x{key.hex()}" for key, _ in places),
            text_array(str(holder) if holder else None for _, holder in places),
            None if lease is None else lease.encode(),
            None if fence is None else str(fence).encode(),
        ]

        def work(connection: Connection, is_repeated: bool) -> tuple[str, str]:
            arguments[6] = b"true" if is_again or is_repeated else b"false"
            status, place = _APPEND.run(connection, arguments)
            return (status or b"").decode(), (place or b"").decode()

        with failing(log, "written"):
            return self._database.run(work)

    def swap(
        self,
        log: str,
        lines: Iterable[bytes] | None,
        before: int | None = None,
        *,
        request: str = "",
        released: Sequence[str] = (),
        keep: bool = False,
        note: str = "",  # noqa: ARG002 - `begin_request` keeps it, with the id of the request
    ) -> None:
        """Replace all lines of a log, and keep what they were, or mark it as deleted, in one
        transaction.
        """
        if lines is None:
            self._delete(log, before)
            return
        claim, bodies = key_of(request) if request else None, _bodies(lines)
        if keep:
            hit("redact.begun")
            status, _ = self._change(
                "begin_redaction", "written", log, before, uuid4(), bodies, claim
            )
        else:
            keys = [key_of(it) for it in released]
            status, _ = self._change(
                "replace", "written", log, kind_of(log), before, bodies, claim, keys
            )
        _check(status, log, "written")
        hit("redact.durable" if keep else "anchors.replaced")

    def _delete(self, log: str, before: int | None) -> None:
        hit("delete.begun")
        status, is_again = self._change("begin_delete", "deleted", log, before)
        if status == "begun":
            status = "done" if is_again else "missing"
        _check(status, log, "deleted")
        hit("delete.durable")

    def drop(self, log: str, version: Version, *, undone: bool = False) -> dict[str, int]:  # noqa: ARG002 - no swap is half done
        """Remove the rows of what a log was, once no other replica has words of it."""
        removed: dict[str, int] = {}
        with suppress(LogNotFound):  # another replica was the last that had some
            removed["transcript"] = self.length(log, version)
        is_delete = version is Version.DELETED
        self._change("end_delete" if is_delete else "end_redaction", "deleted", log)
        hit("delete.file_gone" if is_delete else "redact.old_gone")
        return removed

    def note_of(self, log: str) -> str | None:
        """Return the last note of a request to delete a log."""
        return self.sharing.answer(log=log)

    def read_at(
        self, places: Mapping[str, Sequence[Place]]
    ) -> dict[str, list[Line] | LogUnavailable]:
        """Return for each log its lines at places, by one statement."""
        offsets = [(log, offset) for log, own in places.items() for _, offset, _ in own]
        try:
            rows = self._lines_at(offsets) if offsets else []
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

    def _lines_at(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, int, int, bytes]]:
        """Return log, number, offset and bytes of the lines at offsets of logs that are not being
        deleted, by one statement.
        """
        logs, offsets = [log for log, _ in places], [offset for _, offset in places]
        return self._query(
            logs[0],
            "read",
            'SELECT log, line, "offset", body FROM recollect.lines'
            ' JOIN unnest(%s::text[], %s::bigint[]) AS wanted(log, "offset") USING (log, "offset")'
            " WHERE space = %s AND NOT EXISTS (SELECT FROM recollect.logs AS gone"
            " WHERE gone.space = %s AND gone.log = lines.log AND gone.deleting)",
            logs,
            offsets,
            self._space,
            self._space,
        )

    def _belonging(self, log: str, after: int | None = None) -> Belonging:
        # No row changes its log, so the first one needs no look.
        return Belonging(log, lambda: None, lambda: self._lines(log), after)

    def _check_boundary(self, log: str, position: Position) -> None:
        """Raise LogConflict unless a line ends at a position."""
        rows = self._query(
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
            raise LogNotFound(log, "read", _NONE)
        size, offset = rows[0]
        if position.bytes != size and offset is None:
            raise LogConflict(log, "read", f"no line of it ends at byte {position.bytes}")

    def raw(
        self,
        log: str,
        version: Version = Version.PRESENT,
        *,
        start: int = 0,
        until: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the lines between two bytes, a page at a time; those of a replaced log come all,
        and at once.
        """
        if version is not Version.REPLACED:
            yield from (body for *_, body in self._rows(log, version, start, until))
            return
        rows = self._query(
            log,
            _ACTIONS[version],
            "SELECT body FROM recollect.redacted_lines"
            ' WHERE space = %s AND log = %s ORDER BY "offset"',
            self._space,
            log,
        )
        if not rows:
            raise LogNotFound(log, _ACTIONS[version], "no redaction of it has begun")
        for (body,) in rows:
            yield body

    def _lines(self, log: str, after: Position = START, until: int | None = None) -> Iterator[Line]:
        """Yield the lines by the numbers of their rows: one that is lost moves no other."""
        for number, offset, body in self._rows(log, Version.PRESENT, after.bytes, until):
            yield line_of(body, number, offset)

    def _rows(
        self, log: str, version: Version, start: int, until: int | None
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of the lines between two bytes, a page at a time."""
        while True:
            rows = self._query(
                log,
                _ACTIONS[version],
                'SELECT g.bytes, l.line, l."offset", l.body FROM recollect.logs g'
                " LEFT JOIN recollect.lines l ON l.space = g.space AND l.log = g.log"
                ' AND l."offset" >= %s AND l."offset" < %s'
                ' WHERE g.space = %s AND g.log = %s AND g.deleting = %s ORDER BY l."offset"',
                start,
                start + _PAGE_BYTES,
                self._space,
                log,
                version is Version.DELETED,
            )
            if not rows:
                raise LogNotFound(log, _ACTIONS[version], _NONE)
            end = start + _PAGE_BYTES  # of a page without a line: one that began before it is long
            for _, number, offset, body in rows:
                if offset is None:
                    break
                end = offset + len(body) + 1
                if until is not None and end > until:
                    return
                yield number, offset, body
            start = end
            if start >= (rows[0][0] if until is None else min(until, rows[0][0])):
                return

    def length(self, log: str, version: Version = Version.PRESENT) -> int:
        """Return how many bytes a log has."""
        if version is Version.PRESENT:
            self._cancel_unanswered()
        statement = f"SELECT bytes FROM {_LOGS[version]} AND space = %s AND log = %s"
        rows = self._query(log, _ACTIONS[version], statement, self._space, log)
        if not rows:
            raise LogNotFound(log, _ACTIONS[version], _NONE)
        return int(rows[0][0])

    def logs(self, kind: Kind, version: Version = Version.PRESENT) -> Iterator[tuple[str, int]]:
        """Yield the logs of a kind that have a version, each with its length."""
        if version is Version.PRESENT:
            self._cancel_unanswered()
        last = ""
        while True:
            rows = fetched(
                *(self._database, kind, "listed"),
                f"SELECT log, bytes FROM {_LOGS[version]} AND space = %s AND log > %s"
                f" AND kind = %s ORDER BY log LIMIT {_PAGE_NAMES}",
                *(self._space, last, kind.value),
            )
            yield from rows
            if len(rows) < _PAGE_NAMES:
                return
            last = rows[-1][0]

    def strays(self) -> list[str]:
        """Return nothing: a row has the name of a log."""
        return []

    def torn_files(self) -> dict[str, int]:
        """Return nothing: an append is there whole or not at all."""
        return {}

    # The local folder -----------------------------------------------------------------------------

    def create(self, *, settle: bool = False) -> None:  # noqa: ARG002 - nothing here must survive
        """Make the folder of derived files. Raises OSError."""
        make_folder(self.root)

    def close(self) -> None:
        """Do nothing: the connections are shared by all spaces."""

    # After a crash --------------------------------------------------------------------------------

    def recover(
        self,
        log: str,
        after: Position = START,
        see: Callable[[Line], None] | None = None,
        acknowledged: int = 0,  # noqa: ARG002 - nothing is ever torn
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
            self._change("remove_empty", "deleted", log)
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
            self._change("cancel_begin", "written", log, kind_of(log), name)
            with self._guard:
                self._unanswered.pop(log, None)

    # Statements -----------------------------------------------------------------------------------

    def _change(self, change: _Change, action: str, log: str, *values: object) -> tuple[str, bool]:
        """Call a function of the schema. Return its status, and whether an earlier try may have
        done it.
        """
        kind_of(log)
        arguments = [self._database.number, self._space, log, *values]
        marks = ", ".join(["%b"] * len(arguments))
        statement = f"SELECT recollect.{change}({marks})".encode()

        def work(connection: Connection, is_again: bool) -> tuple[str, bool]:
            return str(first_row(connection, statement, arguments)[0]), is_again

        with failing(log, action):
            done = self._database.run(work)
        self.order.hurry()
        return done

    def _query(
        self, log: str, action: str, statement: str, *values: object
    ) -> list[tuple[Any, ...]]:
        kind_of(log)
        return fetched(self._database, log, action, statement, *values)


def _check(status: str, log: str, action: str) -> None:
    """Raise the error that the status of a change stands for."""
    if status == "missing":
        raise LogNotFound(log, action, _NONE)
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
