"""Digest of an index that does not depend on how it was filled: two with the same digest answer
alike.
"""

import shutil
from pathlib import Path

import apsw
from recollect_server.kernel.domain.ids import SEQUENCE_BITS

from tests.at_rest import opened

Digest = dict[str, list[tuple[object, ...]]]

_LINE = (1 << SEQUENCE_BITS) - 1
_BY_NAME = (
    "conversations",
    "notes",
    "topics",
    "participants",
    "progress",
    "anchors",
    "note_records",
    "activity",
)
_AS_THEY_ARE = ("activity_by_hour", "activity_by_day", "topics_by_hour", "topics_by_day", "facets")
_BY_MESSAGE = {
    "messages": "SELECT * FROM messages",
    "words": "SELECT doc, term, col, offset FROM turns_occurrences",
}
_NOT_IN_TRANSCRIPTS = {"number", "abbreviation_wanted", "needs_abbreviation", "compaction_from"}


def digest(folder: Path) -> Digest:
    """Return all contents of a closed index that derive from the transcripts, by conversation and
    line instead of by number.
    """
    contents: Digest = {}
    with apsw.Connection(str(folder / "conversations.db")) as connection:
        names = {
            row[0]: row[1] for row in connection.execute("SELECT number, id FROM conversations")
        }
        for table in _BY_NAME:
            columns = [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]
            number = columns.index("number")
            contents[table] = [
                (
                    names[row[number]],
                    *(v for n, v in zip(columns, row, strict=True) if n not in _NOT_IN_TRANSCRIPTS),
                )
                for row in connection.execute(f"SELECT * FROM {table}")  # noqa: S608 - a constant
            ]
        for table in _AS_THEY_ARE:
            contents[table] = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
        for table, query in _BY_MESSAGE.items():
            contents[table] = [
                (names.get(row[0] >> SEQUENCE_BITS, "nothing"), row[0] & _LINE, *row[1:])
                for row in connection.execute(query)
            ]
        contents["requests"] = connection.execute(
            "SELECT request_id, hash, conversation_id, first_sequence, last_sequence FROM requests WHERE first_sequence > 0"
        ).fetchall()
        contents["deletions"] = connection.execute("SELECT id FROM deletions").fetchall()
    connection.close()
    return {table: sorted(rows, key=repr) for table, rows in contents.items()}


def rebuilt_digest(folder: Path, beside: Path) -> Digest:
    """Return the digest of an index that is rebuilt from the transcripts alone."""
    beside.mkdir()
    for path in folder.glob("*.jsonl"):
        shutil.copy(path, beside)
    opened(beside).close()
    return digest(beside)


def gaps_in_the_update_log(folder: Path) -> list[str]:
    """Return the messages of a never rebuilt index that its update log does not name once and in
    order.
    """
    wrong: list[str] = []
    with apsw.Connection(str(folder / "conversations.db")) as connection:
        for number, conversation_id in connection.execute(
            "SELECT number, id FROM conversations"
        ).fetchall():
            ranges = connection.execute(
                "SELECT first_sequence, last_sequence FROM updates"
                " WHERE number = ? AND kind = 'conversations' ORDER BY cursor",
                (number,),
            )
            ids = connection.execute(
                "SELECT id FROM messages WHERE id >> ? = ? ORDER BY id", (SEQUENCE_BITS, number)
            )
            messages = [row[0] & _LINE for row in ids]
            lines = [line for first, last in ranges for line in range(first, last + 1)]
            logged = [line for line in lines if line in set(messages)]
            if logged != messages:
                wrong.append(f"the update log of {conversation_id} names {logged}")
    connection.close()
    return wrong
