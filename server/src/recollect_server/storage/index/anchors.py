"""Anchors (lasting facts about the user) that were found in conversations."""

from recollect_server.domain.conversation import AnchorSet
from recollect_server.storage.index.database import Database

_KEYS = """
    WITH RECURSIVE keys(key) AS (
        SELECT min(key) FROM anchors UNION ALL SELECT (SELECT min(key) FROM anchors WHERE key > keys.key) FROM keys
            WHERE keys.key IS NOT NULL)
    SELECT key FROM keys WHERE key IS NOT NULL
"""  # each key by one look into the index of keys, however many anchors it has


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

    def found(self, key: str) -> list[AnchorSet]:
        """Return the anchors of a key (empty: of every key) that were found in conversations: the
        last 100 of each, oldest first.
        """
        with self._database.reading() as connection:
            keys = [key] if key else [row[0] for row in connection.execute(_KEYS)]
            anchors: list[AnchorSet] = []
            for name in keys:
                rows = connection.execute(
                    "SELECT a.value, a.confidence, a.source, a.time, c.id FROM anchors a JOIN conversations c USING (number)"
                    " WHERE a.key = ? ORDER BY a.time DESC, c.id DESC, a.line DESC LIMIT 100",
                    (name,),
                ).fetchall()
                anchors += [
                    AnchorSet(name, row[0], row[1], row[2], row[3], row[4])
                    for row in reversed(rows)
                ]
            return anchors

    def forget(self, key: str, until: int) -> None:
        """Remove the anchors that were found for a key up to a time."""
        self._database.write(
            lambda connection, _: connection.execute(
                "DELETE FROM anchors WHERE key = ? AND time <= ?", (key, until)
            )
        )
