"""The update log: one row for every change of a log of any kind, in the order of the changes,
written in the change's own transaction.

A cursor is a row's number. Numbers grow and leave gaps: what a crash took, what the index refused,
what a deleted log had.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import apsw
import orjson

from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.index.columns import UPDATES, UpdateRow
from recollect_server.kernel.log.lines import Line

Update = list[int]  # not a tuple: the last line of a batch is set as it grows
"""A row of the update log: time, first line, last line."""


@dataclass(frozen=True, slots=True)
class Added:
    """Additions for watchers: the log's state after them, the lines, and the rows of the update
    log.
    """

    kind: Kind
    state: Any
    lines: list[Line]
    updates: list[Update]


CRASH_GAP = 1 << 20
"""More cursors than can have been given out for changes that a crash lost."""

PRUNED = {
    Kind.CONVERSATION: "updates_pruned",
    Kind.COMMUNICATION: "external_updates_pruned",
}
"""By kind of log, the name in `identity` of the cursor up to which its rows are pruned: many of one
kind take no place in the log from those of another.
"""

_MAX_LOST = 100
_row_of = UPDATES.reader()


def after(connection: apsw.Connection, cursor: int, kind: Kind, limit: int) -> list[UpdateRow]:
    """Return the oldest changes of a kind of log behind a cursor."""
    rows = connection.execute(
        f"SELECT {UPDATES.list} FROM updates WHERE cursor > ? AND {_is(kind)}"
        " ORDER BY cursor LIMIT ?",
        (cursor, limit),
    )
    return [_row_of(row) for row in rows]


def last(connection: apsw.Connection) -> int:
    """Return the cursor of the last row."""
    return int(
        connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'updates'").get or 0
    )


def reaches_back_to(connection: apsw.Connection, cursor: int, kind: Kind) -> bool:
    """Return whether every change of a kind of log behind a cursor is still here."""
    query = "SELECT value FROM identity WHERE name = ?"
    pruned = connection.execute(query, (PRUNED[kind],)).get
    return cursor >= int(pruned or 0) and not any(
        begin < cursor < end for begin, end in _lost(connection)
    )


def add(connection: apsw.Connection, row: UpdateRow) -> None:
    """Log a change."""
    connection.execute(f"INSERT {UPDATES.insert}", UPDATES.values(row))


def deleted(
    cursor: int, number: int, kind: Kind, time: int, log: str, channel: str = ""
) -> UpdateRow:
    """Return the row for a deleted log."""
    return UpdateRow(cursor, number, kind, time, 0, 0, f"{log} {channel}")


def remove(connection: apsw.Connection, numbers: str, kind: Kind, limit: int) -> int:
    """Remove at most `limit` changes of logs, whose numbers are in a document, except their
    deletions. Return how many.
    """
    query = (
        "SELECT cursor FROM updates WHERE number IN (SELECT value FROM json_each(?))"
        " AND kind = ? AND detail = '' LIMIT ?"
    )
    connection.execute(f"DELETE FROM updates WHERE cursor IN ({query})", (numbers, kind, limit))
    return connection.changes()


def skip(connection: apsw.Connection, begin: int, end: int) -> None:
    """Skip the cursors between two, which may have been given out for rows lost in a crash."""
    connection.execute("DELETE FROM sqlite_sequence WHERE name = 'updates'")
    connection.execute("INSERT INTO sqlite_sequence VALUES('updates', ?)", (end,))
    note_lost(connection, [(begin, end)])


def note_lost(connection: apsw.Connection, pairs: Collection[tuple[int, int]]) -> None:
    """Note that cursors between those of each pair were given out, and that no row has them."""
    lost = [*_lost(connection), *pairs][-_MAX_LOST:]
    _note(connection, "cursors_lost", orjson.dumps(lost).decode())


def prunable(connection: apsw.Connection, kind: Kind, before: int, most: int) -> int:
    """Return the cursor of the newest row of a kind of log that may be pruned: older than a time,
    or beyond the newest `most` rows of that kind; 0: none.
    """
    rows = f"updates WHERE {_is(kind)}"
    oldest_kept = connection.execute(
        f"SELECT cursor FROM {rows} AND time >= ? ORDER BY cursor LIMIT 1", (before,)
    ).get
    by_age = last(connection) if oldest_kept is None else oldest_kept - 1
    by_number = 0
    # the rows of all kinds are counted at once, those of one kind are read for it
    if int(connection.execute("SELECT count(*) FROM updates").get) > most:
        query = f"SELECT cursor FROM {rows} ORDER BY cursor DESC LIMIT 1 OFFSET ?"
        by_number = connection.execute(query, (most,)).get or 0
    through = max(by_age, by_number)
    query = f"SELECT 1 FROM {rows} AND cursor <= ? LIMIT 1"
    return through if connection.execute(query, (through,)).get else 0


def prune(connection: apsw.Connection, kind: Kind, through: int, limit: int) -> int:
    """Remove at most `limit` of the oldest rows of a kind of log up to a cursor, and return their
    number.
    """
    own = f"updates WHERE {_is(kind)} AND cursor <= ?"
    query = f"SELECT cursor FROM {own} ORDER BY cursor LIMIT ?"
    rows = connection.execute(query, (through, limit)).fetchall()
    if rows:
        connection.execute(f"DELETE FROM {own}", (rows[-1][0],))
        _note(connection, PRUNED[kind], str(rows[-1][0]))
    return len(rows)


def _is(kind: Kind) -> str:
    """Return the condition for the rows of a kind of log: only one with the value itself finds the
    few of communications by their index.
    """
    return f"kind = '{kind}'"


def _lost(connection: apsw.Connection) -> list[tuple[int, int]]:
    pairs = connection.execute("SELECT value FROM identity WHERE name = 'cursors_lost'").get
    return [(begin, end) for begin, end in orjson.loads(pairs or "[]")]


def _note(connection: apsw.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO identity VALUES(?, ?)", (name, value))
