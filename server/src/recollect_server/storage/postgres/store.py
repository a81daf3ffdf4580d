"""The log store of a space in a database of PostgreSQL (see `storage.logs.store` for its promises).

A line is a row, found by the byte at which it begins in its log. A change is one function of the
schema, one round trip and one transaction: all of it or nothing, durable when it returns. An append
has an id, so that one whose answer was lost with its connection is recognised when it is sent
again, by this call or by the next one with the same lines. One that would have begun a log is
undone before anything else is begun, for its caller was told that there is none; it stays if
another process follows the space, which may have answered a repeat with it.

Several processes share the store (`storage.postgres.sharing`): each change is a row of `changes`
too.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4

from recollect_server.domain.ids import is_communication_id, is_conversation_id, is_thread_log
from recollect_server.storage.failpoints import hit
from recollect_server.storage.logs.files import make_folder
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.lines import Line, Place, line_of
from recollect_server.storage.logs.store import (
    NO_CLAIM,
    START,
    Claim,
    Kind,
    LogConflict,
    LogNotFound,
    LogTaken,
    LogUnavailable,
    Position,
    TornTail,
)
from recollect_server.storage.postgres.database import (
    Connection,
    Database,
)
from recollect_server.storage.postgres.order import PostgresOrder
from recollect_server.storage.postgres.sharing import (
    PostgresSharing,
    failing,
    held_lease,
    key_of,
)
from recollect_server.storage.postgres.statement import (
    Statement,
    StatementFailed,
    bytea_array,
    text_array,
)

_PAGE_BYTES = 1 << 20  # of lines that are read at once
_PAGE_NAMES = 10_000
_CHANGED = "the log is not as this server left it: something else wrote to it"
_TAKEN = "another server carries the same out"
_CLAIMED = "RC001"  # SQLSTATE of a claim that is not free
_LEDGER = "ledger"
_Verb = Literal[
    "cancel_begin",
    "replace",
    "begin_redaction",
    "end_redaction",
    "begin_delete",
    "end_delete",
    "remove_empty",
]
# With where the function left the position of its change.
_APPEND = Statement(
    "recollect.append",
    "SELECT status, current_setting('recollect.change', true) FROM recollect.append("
    "$1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::uuid, $7::boolean, $8::bytea[],"
    " $9::bytea, $10::bytea[], $11::uuid[], $12::text, $13::bigint) AS status",
    binary=[8, 9],
)


class PostgresStore:
    """The logs of one space as rows. Its derived files are in a local folder of their own for each
    database.
    """

    def __init__(self, database: Database, space: str, folder: Path) -> None:
        """`folder` is the space's in the data folder of this process."""
        self.root = folder / f"postgres-{database.identity[:8]}"
        """Folder of the index and the vectors."""
        self._database = database
        self._space = space
        self.sharing = PostgresSharing(database, space)
        """The part that the replicas share."""
        self.order = PostgresOrder(database, space)
        """The order of changes that all replicas agree on."""
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
        kind, bodies = _kind_of(log), _bodies(lines)
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
        except LogUnavailable:
            with self._guard:
                self._unanswered[log] = (after.bytes, _digest(bodies), name)
            raise
        if status == "missing":
            raise LogNotFound(log, "written", "there is no log of that name")
        if status == "taken":
            raise LogTaken(log, "written", _TAKEN)
        if status != "done":
            raise LogConflict(log, "written", _CHANGED)
        self.order.hurry()
        hit("append.written" if after.bytes else "create.synced")
        return str(self.order.of_change(place) or "")

    def replace(self, log: str, lines: Iterable[bytes], before: int | None = None) -> None:
        """Replace all lines of a log, in one transaction."""
        status = self._change("replace", "written", log, _kind_of(log), before, _bodies(lines))
        if status == "conflict":
            raise LogConflict(log, "written", _CHANGED)
        hit("anchors.replaced")

    def read(self, log: str, after: Position = START, until: int | None = None) -> Iterator[Line]:
        """Yield the lines behind a position, up to the byte `until`, read a page at a time."""
        for sequence, offset, body in self._rows(log, "read", after.bytes, until):
            yield line_of(body, sequence, offset)

    def read_at(self, log: str, places: Sequence[Place]) -> list[Line]:
        """Return the lines at places."""
        offsets = [offset for _, offset, _ in places]
        rows = self._query(
            log,
            "read",
            'SELECT line, "offset", body FROM recollect.lines'
            ' WHERE space = %s AND log = %s AND "offset" = ANY(%s)'
            " AND NOT (SELECT deleting FROM recollect.logs WHERE space = %s AND log = %s)",
            self._space,
            log,
            offsets,
            self._space,
            log,
        )
        if len(rows) < len(set(offsets)) or not rows:
            self.length(log)  # raises LogNotFound
        bodies = {offset: (line, body) for line, offset, body in rows}
        lines: list[Line] = []
        for sequence, offset, length in places:
            line, body = bodies.get(offset, (0, b""))
            if (line, len(body) + 1) == (sequence, length):
                lines.append(line_of(body, sequence, offset))
            else:
                lines.append(Line(sequence, offset, length, None, "the line is not where it was"))
        return lines

    def read_last(self, log: str, end: Position, max_bytes: int) -> list[Line]:
        """Return the last whole lines before `end`, as many as the bytes allow."""
        start = max(0, end.bytes - max_bytes)
        return [
            line_of(body, sequence, offset)
            for sequence, offset, body in self._rows(log, "read", start, end.bytes)
        ]

    def is_boundary(self, log: str, position: Position) -> bool:
        """Return whether a line ends at a position."""
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
            raise LogNotFound(log, "read", "there is no log of that name")
        size, offset = rows[0]
        return position.bytes in (0, size) or offset is not None

    def raw(self, log: str) -> bytes:
        """Return all bytes of a log, with nothing checked."""
        return b"".join(body + b"\n" for _, _, body in self._rows(log, "read"))

    def raw_lines(self, log: str) -> Iterator[bytes]:
        """Yield the lines of a log, undecoded and with their newlines, read a page at a time."""
        for _, _, body in self._rows(log, "read"):
            yield body + b"\n"

    def length(self, log: str) -> int:
        """Return how many bytes a log has."""
        return self._length(log, "read", is_deleting=False)

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
            rows = self._query(
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
        rows = self._query(
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

        Whoever sees a line here may answer a repeated request with it, so what is still to be
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
        """Return the log's name if it has lines, of which none can be read."""
        try:
            return log if self.length(log) else ""
        except LogNotFound:
            return ""

    def remove_empty(self, log: str) -> bool:
        """Remove a log without lines. Return False if there is none, or it has some."""
        try:
            return self._change("remove_empty", "deleted", log) == "done"
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
        status = self._change("begin_delete", "deleted", log, before, tried=seen)
        if status == "conflict":
            raise LogConflict(log, "deleted", _CHANGED)
        if status == "missing" or (status == "begun" and not again):
            raise LogNotFound(log, "deleted", "there is no log of that name")
        hit("delete.durable")

    def deleted(self, kind: Kind = Kind.CONVERSATION) -> list[str]:
        """Return the logs of a kind whose delete has begun and not ended."""
        rows = self._query(
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
        return self._length(log, "deleted", is_deleting=True)

    def raw_deleted(self, log: str) -> Iterator[bytes]:
        """Yield the lines of a log whose delete has begun."""
        for _, _, body in self._rows(log, "deleted", is_deleting=True):
            yield body

    def end_delete(self, log: str) -> dict[str, int]:
        """Remove the rows of a deleted log."""
        try:
            size = self.deleted_length(log)
        except LogNotFound:  # another replica was the last that had words of it
            return {}
        self._change("end_delete", "deleted", log)
        hit("delete.file_gone")
        return {"transcript": size}

    # Redacting ------------------------------------------------------------------------------------

    def begin_redaction(self, log: str, lines: Sequence[bytes], before: int | None = None) -> None:
        """Replace the lines of a log, and keep what they were, in one transaction."""
        hit("redact.begun")
        status = self._change("begin_redaction", "written", log, before, uuid4(), _bodies(lines))
        if status == "conflict":
            raise LogConflict(log, "written", _CHANGED)
        if status == "missing":
            raise LogNotFound(log, "written", "there is no log of that name")
        hit("redact.durable")

    def redacting(self) -> list[str]:
        """Return the logs whose redaction has begun and not ended."""
        rows = self._query(
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
        rows = self._query(
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
        self._change("end_redaction", "deleted", log)
        hit("redact.old_gone")

    # Statements -----------------------------------------------------------------------------------

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
        space, database = self._space, self._database
        # In one order, so that two appends never wait for each other.
        places = sorted(
            (key_of(place), UUID(holder) if holder else None) for place, holder in claim.places
        )
        lease, fence = held_lease.get()
        arguments: list[bytes | None] = [
            *(str(it).encode() for it in (database.number, space, log, kind, after_bytes, name)),
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
            try:
                status, place = _APPEND.run(connection, arguments)
            except StatementFailed as error:
                if error.state == _CLAIMED:
                    return "taken", ""
                raise
            return (status or b"").decode(), (place or b"").decode()

        with failing(log, "written"):
            return database.run(work)

    def _change(
        self,
        change: _Verb,
        action: str,
        log: str,
        *values: object,
        tried: Callable[[bool], None] = lambda _: None,
    ) -> str:
        """Call a function of the schema and return its status. `tried` is told before each try
        whether an earlier one may have been done.
        """
        _kind_of(log)
        arguments = [self._database.number, self._space, log, *values]
        marks = ", ".join(["%b"] * len(arguments))
        statement = f"SELECT recollect.{change}({marks})".encode()

        def work(connection: Connection, is_again: bool) -> str:
            tried(is_again)
            row = connection.execute(statement, arguments).fetchone()
            assert row is not None
            return str(row[0])

        with failing(log, action):
            status = self._database.run(work)
        self.order.hurry()
        return status

    def _query(
        self, log: str, action: str, statement: str, *values: object, is_name: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. `is_name`: the log is a kind, for the texts of errors."""
        if not is_name:
            _kind_of(log)

        def work(connection: Connection, _: bool) -> list[tuple[Any, ...]]:
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(statement.encode(), values).fetchall()

        with failing(log, action):
            return self._database.run(work)

    def _rows(
        self,
        log: str,
        action: str,
        start: int = 0,
        until: int | None = None,
        *,
        is_deleting: bool = False,
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of each whole line between two bytes, a page at a time."""
        while True:
            rows = self._query(
                log,
                action,
                'SELECT g.bytes, l.line, l."offset", l.body FROM recollect.logs g'
                " LEFT JOIN recollect.lines l ON l.space = g.space AND l.log = g.log"
                ' AND l."offset" >= %s AND l."offset" < %s'
                ' WHERE g.space = %s AND g.log = %s AND g.deleting = %s ORDER BY l."offset"',
                start,
                start + _PAGE_BYTES,
                self._space,
                log,
                is_deleting,
            )
            if not rows:
                raise LogNotFound(log, action, "there is no log of that name")
            end = start + _PAGE_BYTES  # of a page without a line: one that began before it is long
            for _, line, offset, body in rows:
                if offset is None:
                    break
                end = offset + len(body) + 1
                if until is not None and end > until:
                    return
                yield line, offset, body
            start = end
            if start >= (rows[0][0] if until is None else min(until, rows[0][0])):
                return

    def _length(self, log: str, action: str, *, is_deleting: bool) -> int:
        rows = self._query(
            log,
            action,
            "SELECT bytes FROM recollect.logs WHERE space = %s AND log = %s AND deleting = %s",
            self._space,
            log,
            is_deleting,
        )
        if not rows:
            raise LogNotFound(log, action, "there is no log of that name")
        return int(rows[0][0])

    def _cancel_unanswered(self) -> None:
        """Undo what began a log and was never answered: its caller was told that it failed, and may
        begin another one instead. It stays where others follow the space. Raises LogUnavailable.
        """
        if not self._unanswered:
            return
        with self._guard:
            begins = [
                (log, name)
                for log, (bytes_before, _, name) in self._unanswered.items()
                if not bytes_before and _kind_of(log) != _LEDGER
            ]
        for log, name in begins:
            self._change("cancel_begin", "written", log, _kind_of(log), name)
            with self._guard:
                self._unanswered.pop(log, None)

    def _has(self, log: str, condition: str) -> bool:
        self._cancel_unanswered()
        rows = self._query(
            log,
            "read",
            f"SELECT 1 FROM recollect.logs WHERE space = %s AND log = %s {condition}",
            self._space,
            log,
        )
        return bool(rows)


def spaces_of(database: Database) -> list[str]:
    """Return the names of all spaces that have a log, in order. Raises LogUnavailable."""

    def work(connection: Connection, _: bool) -> list[str]:
        # From each name to the next one in the index: one step for each space, not for each log.
        rows = connection.execute(
            "WITH RECURSIVE names AS ("
            " (SELECT space FROM recollect.logs ORDER BY space LIMIT 1) UNION ALL"
            " SELECT (SELECT l.space FROM recollect.logs l WHERE l.space > names.space"
            " ORDER BY l.space LIMIT 1) FROM names WHERE names.space IS NOT NULL)"
            " SELECT space FROM names WHERE space IS NOT NULL"
        )
        return [str(name) for (name,) in rows]

    with failing(Kind.CONVERSATION, "listed"):
        return database.run(work)


def awaited_spaces(database: Database) -> list[str]:
    """Return the spaces where others wait for this replica to remove what they deleted. Raises
    LogUnavailable.
    """

    def work(connection: Connection, _: bool) -> list[str]:
        rows = connection.execute(
            "SELECT DISTINCT space FROM recollect.traces WHERE replica = %s", [database.number]
        )
        return [str(name) for (name,) in rows]

    with failing(Kind.CONVERSATION, "listed"):
        return database.run(work)


def _kind_of(log: str) -> str:
    """Return the kind of a log by its name. Raises ValueError for a text that is not one."""
    if is_conversation_id(log):
        return Kind.CONVERSATION.value
    if is_communication_id(log):
        return Kind.COMMUNICATION.value
    if is_thread_log(log):
        return Kind.THREAD.value
    if log.isidentifier():
        return _LEDGER
    raise ValueError("not the name of a log")


def _bodies(lines: Iterable[bytes]) -> list[bytes]:
    """Return lines without their newlines."""
    bodies: list[bytes] = []
    for line in lines:
        assert line.endswith(b"\n")
        bodies.append(line[:-1])
    return bodies


def _digest(bodies: list[bytes]) -> bytes:
    return hashlib.sha256(b"\n".join(bodies)).digest()
