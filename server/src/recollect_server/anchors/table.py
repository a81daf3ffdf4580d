"""Anchors (lasting facts about the user) that were found in conversations."""

from collections.abc import Iterator, Mapping

import apsw
import orjson

from recollect_server.anchors.log import forgotten_keys
from recollect_server.kernel.domain.conversation import AnchorSet, Conversation
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.columns import dump_json
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Derived, Erased, Expected, Removed
from recollect_server.kernel.log.lines import Line

_KEYS = """
    WITH RECURSIVE keys(key) AS (
        SELECT min(key) FROM anchors UNION ALL SELECT (SELECT min(key) FROM anchors WHERE key > keys.key) FROM keys
            WHERE keys.key IS NOT NULL)
    SELECT key FROM keys WHERE key IS NOT NULL
"""  # each key by one look into the index of keys, however many anchors it has


_EVER = (1 << 63) - 1  # later than any time


class AnchorTable:
    """The anchors of indexed conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, number: int) -> list[tuple[int, AnchorSet]]:
        """Return the anchors that came from a conversation, each with its event's line, in
        order.
        """
        query = "SELECT line, key, value, confidence, source, time FROM anchors WHERE number = ? ORDER BY line"
        rows = self._database.rows(query, (number,))
        return [(row[0], AnchorSet(*row[1:])) for row in rows]

    def found(self, key: str, until: int | None = None) -> list[AnchorSet]:
        """Return the anchors of a key (empty: of every key) that were found in conversations: the
        last 100 of each, up to a time, oldest first.
        """
        with self._database.reading() as connection:
            keys = [key] if key else [row[0] for row in connection.execute(_KEYS)]
            anchors: list[AnchorSet] = []
            for name in keys:
                rows = connection.execute(
                    "SELECT a.value, a.confidence, a.source, a.time, c.id FROM anchors a JOIN conversations c USING (number)"
                    " WHERE a.key = ? AND a.time <= ? ORDER BY a.time DESC, c.id DESC, a.line DESC LIMIT 100",
                    (name, _EVER if until is None else until),
                ).fetchall()
                anchors += [
                    AnchorSet(name, row[0], row[1], row[2], row[3], row[4])
                    for row in reversed(rows)
                ]
            return anchors

    def forget(self, key: str, until: int) -> None:
        """Remove the anchors that were found for a key up to a time."""
        self._database.execute(("DELETE FROM anchors WHERE key = ? AND time <= ?", (key, until)))


def _rows(lines: list[Line]) -> list[tuple[int, str, str, float, int, int]]:
    """Return the anchors that lines say: the event's line, then the columns."""
    return [
        (line.sequence, it.key, it.value, it.confidence, it.sequence, it.time)
        for line in lines
        if line.entry is not None and isinstance(it := line.entry.content, AnchorSet)
    ]


def _sections(
    _before: Conversation | None,
    _after: Conversation,
    lines: list[Line],
    _contents: list[object],
) -> Mapping[str, object]:
    return {"anchors": _rows(lines) or None}


def _count(connection: apsw.Connection, numbers: list[int]) -> Removed:
    query = "SELECT count(*) FROM anchors WHERE number IN (SELECT value FROM json_each(?))"
    count = connection.execute(query, (dump_json(numbers),)).get
    return {"anchors": int(count)} if count else {}


def _forget(connection: apsw.Connection, number: int, erased: Erased) -> None:
    events = [line.sequence for before, line in erased.changed if not isinstance(before, Message)]
    connection.execute(
        "DELETE FROM anchors WHERE number = ? AND line IN (SELECT value FROM json_each(?))",
        (number, orjson.dumps(events).decode()),
    )


def _differences(expected: Expected) -> Iterator[str]:
    """Yield the anchors that the index has otherwise, but for those that were forgotten."""
    if not expected.is_thorough:  # a call may be about to forget some
        return
    forgotten = forgotten_keys(expected.store)
    rows = {it for it in _rows(expected.lines) if it[-1] > forgotten.get(it[1], -1)}
    query = "SELECT line, key, value, confidence, source, time FROM anchors WHERE number = ?"
    indexed = {tuple(it) for it in expected.database.rows(query, (expected.number,))}
    for line in sorted({it[0] for it in rows ^ indexed}):
        yield f"line {line}: the index has another anchor than the transcript"


ANCHORS = Derived(
    sections=_sections,
    contents=frozenset({AnchorSet}),
    hanging=("anchors",),
    count=_count,
    forget=_forget,
    differences=_differences,
)
