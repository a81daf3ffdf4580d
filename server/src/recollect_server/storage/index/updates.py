"""The update log: one row for every change, in the order of the changes, written in the change's own transaction."""

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


def add_deleted(connection: apsw.Connection, cursor: int, number: int, conversation_id: str, time: int) -> None:
    """Logs that a conversation is gone; its name stands in the row, for no other place has it any more."""
    connection.execute(
        "INSERT INTO updates VALUES(?, ?, ?, ?, 0, 0, ?)", (cursor, number, UpdateKind.DELETED.value, time, conversation_id)
    )


def remove(connection: apsw.Connection, number: int) -> int:
    """Forgets a conversation's changes. Returns how many there were."""
    connection.execute("DELETE FROM updates WHERE number = ?", (number,))
    return connection.changes()
