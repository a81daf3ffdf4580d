"""The update log: one row for every change, in the order of the changes, written in the change's
own transaction.

A cursor is a row's number, and no two rows of both logs share one. Numbers grow and leave gaps:
what a crash took, what the index refused, what a deleted conversation had.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

import apsw
import orjson

from recollect_server.storage.index.columns import UPDATES, UpdateRow

CRASH_GAP = 1 << 20
"""More cursors than can have been given out for changes that a crash lost."""

_MAX_LOST = 100
_row_of = UPDATES.reader()


@dataclass(frozen=True, slots=True)
class Log:
    """A table of updates, and the entries of `identity` about it."""

    table: str
    pruned: str
    """The cursor of the last row that was too old to be kept."""
    lost: str
    """Pairs of cursors; those between them may have been given out, and their rows lost."""


CONVERSATIONS = Log("updates", "updates_pruned", "cursors_lost")
EXTERNAL = Log("external_updates", "external_updates_pruned", "external_cursors_lost")
LOGS = (CONVERSATIONS, EXTERNAL)


class UpdateKind(StrEnum):
    """Kind of update."""

    CREATED = "created"
    MESSAGES = "messages"
    TITLE = "title"
    ABBREVIATION = "abbreviation"
    COMPRESSION = "compression"
    CHANGED = "changed"
    SPLIT = "split"
    DELETED = "deleted"
    REDACTED = "redacted"


def after(connection: apsw.Connection, cursor: int, limit: int) -> list[UpdateRow]:
    """Return the oldest changes behind a cursor."""
    rows = connection.execute(
        f"SELECT {UPDATES.list} FROM updates WHERE cursor > ? ORDER BY cursor LIMIT ?",
        (cursor, limit),
    )
    return [_row_of(row) for row in rows]


def conversations_between(connection: apsw.Connection, begin: int, end: int) -> list[str]:
    """Return the existing conversations that changed behind one cursor and up to another."""
    query = "SELECT DISTINCT c.id FROM updates u JOIN conversations c USING (number) WHERE u.cursor > ? AND u.cursor <= ?"
    return [row[0] for row in connection.execute(query, (begin, end))]


def last(connection: apsw.Connection, log: Log = CONVERSATIONS) -> int:
    """Return the cursor of the last row."""
    return int(
        connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (log.table,)).get or 0
    )


def reaches_back_to(connection: apsw.Connection, cursor: int, log: Log = CONVERSATIONS) -> bool:
    """Return whether everything behind a cursor is still here."""
    return cursor >= _pruned(connection, log) and not any(
        begin < cursor < end for begin, end in _lost(connection, log)
    )


def add_deleted(connection: apsw.Connection, row: UpdateRow) -> None:
    """Log the deletion of a conversation."""
    connection.execute(f"INSERT {UPDATES.insert}", UPDATES.values(row))


def deleted(cursor: int, number: int, time: int, conversation_id: str, channel: str) -> UpdateRow:
    """Return the row for a deleted conversation."""
    return UpdateRow(
        cursor, number, UpdateKind.DELETED.value, time, 0, 0, f"{conversation_id} {channel}"
    )


def remove(connection: apsw.Connection, number: int, limit: int) -> int:
    """Remove at most `limit` of a conversation's changes, except its deletion, and return their
    number.
    """
    query = "SELECT cursor FROM updates WHERE number = ? AND kind <> 'deleted' LIMIT ?"
    connection.execute(f"DELETE FROM updates WHERE cursor IN ({query})", (number, limit))
    return connection.changes()


def skip(connection: apsw.Connection, begin: int, end: int) -> None:
    """Skip the cursors between two, which may have been given out for rows lost in a crash."""
    for log in LOGS:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = ?", (log.table,))
        connection.execute("INSERT INTO sqlite_sequence VALUES(?, ?)", (log.table, end))
    note_lost(connection, [(begin, end)])


def note_lost(connection: apsw.Connection, pairs: Collection[tuple[int, int]]) -> None:
    """Note that cursors between those of each pair were given out, and that no row has them."""
    for log in LOGS:
        lost = [*_lost(connection, log), *pairs][-_MAX_LOST:]
        _note(connection, log.lost, orjson.dumps(lost).decode())


def prunable(connection: apsw.Connection, before: int, most: int, log: Log = CONVERSATIONS) -> int:
    """Return the cursor of the newest row that may be pruned: older than a time, or beyond the
    newest `most` rows; 0: none.
    """
    rows = log.table
    oldest_kept = connection.execute(
        f"SELECT cursor FROM {rows} WHERE time >= ? ORDER BY cursor LIMIT 1", (before,)
    ).get
    by_age = last(connection, log) if oldest_kept is None else oldest_kept - 1
    too_many = int(connection.execute(f"SELECT count(*) FROM {rows}").get) - most
    by_number = 0
    if too_many > 0:
        by_number = connection.execute(
            f"SELECT cursor FROM {rows} ORDER BY cursor LIMIT 1 OFFSET ?", (too_many - 1,)
        ).get
    through = max(by_age, by_number)
    return (
        through
        if connection.execute(f"SELECT 1 FROM {rows} WHERE cursor <= ? LIMIT 1", (through,)).get
        else 0
    )


def oldest(connection: apsw.Connection, log: Log = CONVERSATIONS) -> int:
    """Return the time of the oldest row, in milliseconds; 0 without any."""
    return int(connection.execute(f"SELECT time FROM {log.table} ORDER BY cursor LIMIT 1").get or 0)


def prune(connection: apsw.Connection, through: int, limit: int, log: Log = CONVERSATIONS) -> int:
    """Remove at most `limit` of the oldest rows up to a cursor, and return their number."""
    query = f"SELECT cursor FROM {log.table} WHERE cursor <= ? ORDER BY cursor LIMIT ?"
    rows = connection.execute(query, (through, limit)).fetchall()
    if rows:
        connection.execute(f"DELETE FROM {log.table} WHERE cursor <= ?", (rows[-1][0],))
        _note(connection, log.pruned, str(rows[-1][0]))
    return len(rows)


def _pruned(connection: apsw.Connection, log: Log) -> int:
    return int(
        connection.execute("SELECT value FROM identity WHERE name = ?", (log.pruned,)).get or 0
    )


def _lost(connection: apsw.Connection, log: Log) -> list[tuple[int, int]]:
    pairs = connection.execute("SELECT value FROM identity WHERE name = ?", (log.lost,)).get or "[]"
    return [(begin, end) for begin, end in orjson.loads(pairs)]


def _note(connection: apsw.Connection, name: str, value: str) -> None:
    connection.execute("INSERT OR REPLACE INTO identity VALUES(?, ?)", (name, value))
