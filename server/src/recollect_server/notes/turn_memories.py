"""Tiers and summaries that callers recorded of turns."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import apsw
import orjson

from recollect_server.kernel.domain.conversation import Conversation, TurnMemory
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Derived, Erased, Expected
from recollect_server.kernel.index.messages import TurnName
from recollect_server.kernel.log.lines import Line, contents_of

_RECORDED = "(tier > 0 OR octet_length(summary) > 0)"  # what was taken back keeps its row


class TurnMemoryTable:
    """Tiers and summaries of the turns of indexed conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, number: int, after: int = 0, limit: int = sys.maxsize) -> list[TurnMemory]:
        """Return what is recorded of a conversation's turns behind one, at most `limit`."""
        query = (
            "SELECT turn, tier, summary FROM turn_memories"
            f" WHERE number = ? AND turn > ? AND {_RECORDED} ORDER BY turn LIMIT ?"
        )
        rows = self._database.rows(query, (number, after, limit))
        return [TurnMemory(*row) for row in rows]

    def marks(self, number: int) -> list[tuple[int, int, bool]]:
        """Return the turns of which anything is recorded: each with its tier, and whether it has a
        summary, which is not read.
        """
        query = (
            "SELECT turn, tier, octet_length(summary) > 0 FROM turn_memories"
            f" WHERE number = ? AND {_RECORDED} ORDER BY turn"
        )
        with self._database.reading() as connection:
            rows = connection.execute(query, (number,))
            return [(turn, tier, bool(has_summary)) for turn, tier, has_summary in rows]

    def summaries(self, names: Iterable[TurnName]) -> dict[TurnName, str]:
        """Return the summaries of those of the turns that have one."""
        query = (
            "SELECT number, turn, summary FROM json_each(?) JOIN turn_memories"
            " ON number = value ->> 0 AND turn = value ->> 1 WHERE summary <> ''"
        )
        rows = self._database.rows(query, (orjson.dumps(list(names)).decode(),))
        return {(row[0], row[1]): row[2] for row in rows}


def _sections(
    _before: Conversation | None,
    _after: Conversation,
    _lines: list[Line],
    contents: list[object],
) -> Mapping[str, object]:
    memories = [(it.turn, it.tier, it.summary) for it in contents if isinstance(it, TurnMemory)]
    return {"turnMemories": memories or None}


def _forget(connection: apsw.Connection, number: int, erased: Erased) -> None:
    turns = orjson.dumps([it.turn_number for it in erased.now(Message)]).decode()
    connection.execute(
        "UPDATE turn_memories SET summary = ''"
        " WHERE number = ? AND turn IN (SELECT value FROM json_each(?))",
        (number, turns),
    )


def _differences(expected: Expected) -> Iterator[str]:
    recorded = {it.turn: it for it in contents_of(expected.lines) if isinstance(it, TurnMemory)}
    indexed = TurnMemoryTable(expected.database).of(expected.number)
    if {it.turn: it for it in indexed} != {
        turn: replace(it, time=0) for turn, it in recorded.items() if it.is_set
    }:
        yield "the index has other tiers or summaries of turns than the transcript"


TURN_MEMORIES = Derived(
    sections=_sections,
    contents=frozenset({TurnMemory}),
    hanging=("turn_memories",),
    forget=_forget,
    differences=_differences,
)
