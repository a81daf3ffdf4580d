"""The statements of a space's log store: calls of the schema's functions, and pages of rows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal
from uuid import UUID

import psycopg

from recollect_server.domain.ids import is_communication_id, is_conversation_id, is_thread_log
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.store import Claim, LogNotFound, Version
from recollect_server.storage.postgres.connections import Connection
from recollect_server.storage.postgres.database import PostgresDatabase
from recollect_server.storage.postgres.order import PostgresOrder
from recollect_server.storage.postgres.sharing import failing, fetched, held_lease, key_of
from recollect_server.storage.postgres.statement import (
    Statement,
    StatementFailed,
    bytea_array,
    text_array,
)

_PAGE_BYTES = 1 << 20  # of lines that are read at once
_CLAIMED = "RC001"  # SQLSTATE of a claim that is not free
LEDGER = "ledger"
"""Kind of the logs that are neither conversations nor communications nor threads."""
_Verb = Literal[
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
_NONE = "there is no log of that name"
# With where the function left the position of its change.
_APPEND = Statement(
    "recollect.append",
    "SELECT status, current_setting('recollect.change', true) FROM recollect.append("
    "$1::bigint, $2::text, $3::text, $4::text, $5::bigint, $6::uuid, $7::boolean, $8::bytea[],"
    " $9::bytea, $10::bytea[], $11::uuid[], $12::text, $13::bigint) AS status",
    binary=[8, 9],
)


class LogRows:
    """The rows of one space's logs. Safe to call from any thread. Raises LogUnavailable."""

    def __init__(self, database: PostgresDatabase, space: str, order: PostgresOrder) -> None:
        """`order` looks at once for the change that a statement made."""
        self._database = database
        self._space = space
        self._order = order

    def append(
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

    def change(
        self,
        change: _Verb,
        action: str,
        log: str,
        *values: object,
        tried: Callable[[bool], None] = lambda _: None,
    ) -> str:
        """Call a function of the schema and return its status. `tried` is called before each try
        whether an earlier one may have been done.
        """
        kind_of(log)
        arguments = [self._database.number, self._space, log, *values]
        marks = ", ".join(["%b"] * len(arguments))
        statement = f"SELECT recollect.{change}({marks})".encode()

        def work(connection: Connection, is_again: bool) -> str:
            tried(is_again)
            try:
                row = connection.execute(statement, arguments).fetchone()
            except psycopg.Error as error:
                if error.sqlstate == _CLAIMED:
                    return "taken"
                raise
            assert row is not None
            return str(row[0])

        with failing(log, action):
            status = self._database.run(work)
        self._order.hurry()
        return status

    def query(
        self, log: str, action: str, statement: str, *values: object, is_name: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. `is_name`: the log is a kind, for the texts of errors."""
        if not is_name:
            kind_of(log)
        return fetched(self._database, log, action, statement, *values)

    def lines_at(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, int, int, bytes]]:
        """Return log, number, offset and bytes of the lines at offsets of logs that are not being
        deleted, by one statement.
        """
        logs, offsets = [log for log, _ in places], [offset for _, offset in places]
        return self.query(
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

    def lines(
        self,
        log: str,
        start: int = 0,
        until: int | None = None,
        version: Version = Version.PRESENT,
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, offset and bytes of each whole line between two bytes, a page at a time.
        Those of a replaced log have no number, and come at once.
        """
        action = _ACTIONS[version]
        while version is not Version.REPLACED:
            rows = self.query(
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
                version is Version.DELETED,
            )
            if not rows:
                raise LogNotFound(log, action, _NONE)
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
        rows = self.query(
            log,
            action,
            'SELECT 0, "offset", body FROM recollect.redacted_lines'
            ' WHERE space = %s AND log = %s ORDER BY "offset"',
            self._space,
            log,
        )
        if not rows:
            raise LogNotFound(log, action, "no redaction of it has begun")
        yield from rows

    def length(self, log: str, version: Version) -> int:
        """Return the bytes of a log."""
        statement = f"SELECT bytes FROM {_LOGS[version]} AND space = %s AND log = %s"
        rows = self.query(log, _ACTIONS[version], statement, self._space, log)
        if not rows:
            raise LogNotFound(log, _ACTIONS[version], _NONE)
        return int(rows[0][0])

    def names(self, kind: Kind, version: Version, after: str, limit: int) -> list[tuple[Any, ...]]:
        """Return the next logs of a kind behind a name, each with its bytes."""
        return self.query(
            kind,
            "listed",
            f"SELECT log, bytes FROM {_LOGS[version]} AND space = %s AND log > %s AND kind = %s"
            f" ORDER BY log LIMIT {limit}",
            self._space,
            after,
            kind.value,
            is_name=True,
        )


def kind_of(log: str) -> str:
    """Return the kind of a log by its name. Raises ValueError for a text that is not one."""
    if is_conversation_id(log):
        return Kind.CONVERSATION.value
    if is_communication_id(log):
        return Kind.COMMUNICATION.value
    if is_thread_log(log):
        return Kind.THREAD.value
    if log.isidentifier():
        return LEDGER
    raise ValueError("not the name of a log")
