"""The update log: one row for every change, in the order of the changes, written in the change's own transaction."""

from dataclasses import dataclass
from enum import StrEnum

import apsw


class UpdateKind(StrEnum):
    """What happened."""

    CREATED = "created"
    MESSAGES = "messages"
    TITLE = "title"
    ABBREVIATION = "abbreviation"
    COMPRESSION = "compression"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class LoggedUpdate:
    """One change: the lines that say it. `detail` is the conversation's name where no line is left (a delete)."""

    kind: UpdateKind
    time: int
    first_sequence: int
    last_sequence: int
    detail: str = ""


def add(connection: apsw.Connection, number: int, update: LoggedUpdate) -> int:
    """Logs a change of a conversation. Returns its cursor."""
    connection.execute(
        "INSERT INTO updates(number, kind, time, first_sequence, last_sequence, detail) VALUES(?, ?, ?, ?, ?, ?)",
        (number, update.kind.value, update.time, update.first_sequence, update.last_sequence, update.detail),
    )
    return connection.last_insert_rowid()


def remove(connection: apsw.Connection, number: int) -> int:
    """Forgets a conversation's changes. Returns how many there were."""
    connection.execute("DELETE FROM updates WHERE number = ?", (number,))
    return connection.changes()
