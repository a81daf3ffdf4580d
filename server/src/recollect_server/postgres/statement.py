"""A statement that is executed for every append, sent by libpq's own function.

A cursor of psycopg converts each parameter by what it is, and lets go of Python's lock at each step
of the exchange: with calls in other threads every step may wait until it has the lock again. This
lets go of it once, and takes two thirds of the processor time (bench/append-rate.md).
"""

from collections.abc import Iterable, Sequence
from struct import pack
from typing import cast
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from recollect_server.postgres.connections import Connection

_UNKNOWN_STATEMENT = "26000"  # SQLSTATE: it is not prepared in this session
_BYTEA = 17  # the number of the type, which never changes


class StatementFailed(psycopg.OperationalError):
    """PostgreSQL refused a statement."""

    def __init__(self, text: str, state: str) -> None:
        super().__init__(text)
        self.sqlstate = state
        """Empty if the connection was lost."""


class Statement:
    """A statement that is prepared where it is executed often. Safe to use from any thread, one at
    a time for a connection.
    """

    def __init__(self, name: str, text: str, binary: Sequence[int] = ()) -> None:
        """Take a statement with parameters `$1` and so on. `name` is its name once it is prepared;
        `binary` are the numbers of the parameters that are not text.
        """
        self._name = name.encode()
        self._text = text.encode()
        self._binary = frozenset(binary)
        self._uses: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        """Number of unprepared executions, by connection."""

    def run(
        self, connection: Connection, values: Sequence[bytes | None]
    ) -> tuple[bytes | None, ...]:
        """Return the only row of the result, as text. The connection has no open transaction.

        Raises StatementFailed, or another psycopg.OperationalError if the connection is lost.
        """
        formats = [int(number in self._binary) for number in range(1, len(values) + 1)]
        uses = self._uses.get(connection, 0)
        threshold = connection.prepare_threshold
        # None: a pooler may give the connection any session.
        if threshold is not None and uses >= threshold:
            if uses == threshold:
                _check(connection.pgconn.prepare(self._name, self._text))
                self._uses[connection] = uses + 1
            # Its annotation lacks None, which it takes as exec_params does.
            given = cast("Sequence[bytes]", values)
            result = connection.pgconn.exec_prepared(self._name, given, formats)
            if _state_of(result) != _UNKNOWN_STATEMENT:
                return _row(result)
            uses = 0  # something deallocated all statements of the session
        if threshold is not None:
            self._uses[connection] = uses + 1
        return _row(connection.pgconn.exec_params(self._text, values, None, formats))


def bytea_array(items: Sequence[bytes]) -> bytes:
    """Return the binary form of an array of bytea."""
    head = pack("!iiiii", 1, 0, _BYTEA, len(items), 1) if items else pack("!iii", 0, 0, _BYTEA)
    return head + b"".join(part for item in items for part in (pack("!i", len(item)), item))


def text_array(items: Iterable[str | None]) -> bytes:
    """Return the text of an array whose items have none of the characters `,{}"` or spaces."""
    return ("{" + ",".join("NULL" if it is None else it for it in items) + "}").encode()


def _row(result: PGresult) -> tuple[bytes | None, ...]:
    _check(result)
    return tuple(result.get_value(0, column) for column in range(result.nfields))


def _check(result: PGresult) -> None:
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise StatementFailed(result.get_error_message(), _state_of(result))


def _state_of(result: PGresult) -> str:
    return (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
