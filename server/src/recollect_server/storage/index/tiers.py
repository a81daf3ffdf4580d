"""The moves of conversations between the tiers of contexts, and what contexts were made of. Written
behind the calls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import apsw

from recollect_server.storage.index.database import Database
from recollect_server.storage.index.file import look

_KEPT = 100_000
"""Transitions that are kept: the newest."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A move; `id` 0 as long as it is not written. Tiers are the contract's numbers."""

    conversation_id: str
    from_tier: int
    to_tier: int
    reason: str
    time: int
    id: int = 0


class TierLog:
    """The record of moves between tiers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, moved: Sequence[Transition], hits: Mapping[str, int], limit: int = _KEPT) -> None:
        """Write moves in their order, and add to the counts. Moves beyond the newest `limit` are
        removed.
        """

        def job(connection: apsw.Connection, _: int) -> None:
            connection.executemany(
                "INSERT INTO tier_transitions(conversation_id, from_tier, to_tier, reason, time) VALUES(?, ?, ?, ?, ?)",
                [
                    (it.conversation_id, it.from_tier, it.to_tier, it.reason, it.time)
                    for it in moved
                ],
            )
            connection.execute(
                "DELETE FROM tier_transitions WHERE id <= (SELECT max(id) FROM tier_transitions) - ?",
                (limit,),
            )
            connection.executemany(
                "INSERT INTO tier_hits VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET count = count + ?2",
                list(hits.items()),
            )

        self._database.write(job)

    def select(self, conversation_id: str, before: int, limit: int) -> list[Transition]:
        """Return the newest moves before an id (0: the newest of all), of a conversation (empty: of
        all).
        """
        where, values = "id < ?", [before or 1 << 62]
        if conversation_id:
            where, values = f"{where} AND conversation_id = ?", [*values, conversation_id]  # type: ignore[list-item]
        rows = self._database.rows(
            "SELECT conversation_id, from_tier, to_tier, reason, time, id FROM tier_transitions"
            f" WHERE {where} ORDER BY id DESC LIMIT ?",
            (*values, limit),
        )
        return [Transition(*row) for row in rows]

    def last(self, limit: int) -> list[Transition]:
        """Return the last move of each conversation among the newest `limit` moves, oldest
        first.
        """
        rows = self._database.rows(
            "SELECT conversation_id, from_tier, to_tier, reason, time, max(id) FROM"
            " (SELECT * FROM tier_transitions ORDER BY id DESC LIMIT ?) GROUP BY conversation_id ORDER BY 6",
            (limit,),
        )
        return [Transition(*row) for row in rows]

    def forget(self, conversation_id: str) -> int:
        """Remove a conversation's moves, and return their number."""

        def job(connection: apsw.Connection, _: int) -> int:
            connection.execute(
                "DELETE FROM tier_transitions WHERE conversation_id = ?", (conversation_id,)
            )
            return connection.changes()

        return self._database.write(job)


def hits_of(folder: Path) -> dict[str, int]:
    """Return the numbers of contexts by their sources, from the index in a folder, without taking
    it from a server that runs.
    """

    def read(connection: apsw.Connection) -> dict[str, int]:
        return {
            str(row[0]): int(row[1])
            for row in connection.execute("SELECT name, count FROM tier_hits")
        }

    return look(folder, read, {})
