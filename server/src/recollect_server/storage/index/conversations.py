"""The rows of conversations: what is known of each without its messages, and the lists made of
them.
"""

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.filters import Filter
from recollect_server.storage.index.columns import SELECT, conversation_of
from recollect_server.storage.index.database import Database

_FIND = (
    SELECT.replace(" FROM", ", p.bytes, p.lines FROM", 1)
    + " JOIN progress p ON p.number = c.number WHERE c.id = ?"
)


class Outline(NamedTuple):  # made by the hundred: cheaper than a frozen dataclass
    """Facts about a conversation that a search needs."""

    number: int
    id: str
    create_time: int
    message_count: int


class Size(NamedTuple):
    """A conversation or a communication, and the bytes of its transcript."""

    id: str
    channel: str
    update_time: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Stored:
    """A conversation in the index: its number here, and how far its transcript is indexed."""

    number: int
    conversation: Conversation
    bytes: int = 0
    lines: int = 0

    @property
    def state(self) -> Conversation:
        """Return the state of the log, as every stored log has it."""
        return self.conversation


def condition_of(chosen: Filter) -> tuple[str, list[Any]]:
    """Return the condition of a filter over `conversations c`, and its values."""
    parts: list[str] = []
    values: list[Any] = []

    def add(condition: str, *parameters: object) -> None:
        parts.append(condition)
        values.extend(parameters)

    if chosen.conversation_id:
        add("c.id = ?", chosen.conversation_id)
    if chosen.conversation_ids:
        add(
            "c.id IN (SELECT value FROM json_each(?))",
            orjson.dumps(chosen.conversation_ids).decode(),
        )
    if chosen.channels:
        add(f"c.channel IN ({_marks(chosen.channels)})", *chosen.channels)
    if chosen.topics:
        add(
            f"c.number IN (SELECT number FROM topics WHERE topic IN ({_marks(chosen.topics)}))",
            *chosen.topics,
        )
    if chosen.participants:
        queries = [
            f"SELECT number FROM participants WHERE participant IN ({_marks(chosen.participants)})"
        ]
        values.extend(chosen.participants)
        if chosen.identities:
            pairs = orjson.dumps(chosen.identities).decode()
            queries.append(
                "SELECT p.number FROM json_each(?) j JOIN participants p ON p.participant = j.value ->> 1"
                " JOIN conversations x ON x.number = p.number AND x.channel = j.value ->> 0"
            )
            queries.append(
                "SELECT x.number FROM json_each(?) j JOIN conversations x"
                " ON x.contact = j.value ->> 1 AND x.channel = j.value ->> 0 AND x.contact <> ''"
            )
            values.extend((pairs, pairs))
        add(f"c.number IN ({' UNION ALL '.join(queries)})")
    for column in ("contact", "group_id", "thread_id", "subject"):
        if value := getattr(chosen.party, column):
            add(f"c.{column} = ?", value)
    if chosen.pinned is not None:
        add("c.pinned = ?", int(chosen.pinned))
    if chosen.archived is not None:
        add("c.archived = ?", int(chosen.archived))
    if chosen.unindexed is not None:
        add("c.unindexed = ?", int(chosen.unindexed))
    if chosen.notes_failed is not None:
        add("c.needs_abbreviation <> ''" if chosen.notes_failed else "c.needs_abbreviation = ''")
    if chosen.updated_after is not None:
        add("c.update_time >= ?", chosen.updated_after)
    if chosen.updated_before is not None:
        add("c.update_time < ?", chosen.updated_before)
    if chosen.name:
        # instr, not LIKE: no character of the text is a pattern. Lower case on both sides, by
        # SQLite for ASCII alone.
        add("instr(casefold(c.name), ?) > 0", chosen.name.casefold())
    return " AND ".join(parts) or "1", values


def _marks(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))


class ConversationTable:
    """The indexed conversations."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, conversation_id: str) -> Stored | None:
        """Return a conversation with the indexed length of its transcript, or None."""
        row = self._database.row(_FIND, (conversation_id,))
        return None if row is None else Stored(row[0], conversation_of(row), *row[-2:])

    def select(
        self,
        chosen: Filter,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        newest_first: bool = True,
    ) -> list[Stored]:
        """Return the conversations that match, by update time then id, behind the place `after` =
        (update_time, id).

        Not by number: a new index gives other numbers, and the same answers.
        """
        where, values = condition_of(chosen)
        order, comparison = ("DESC", "<") if newest_first else ("ASC", ">")
        if after is not None:
            where += f" AND (c.update_time, c.id) {comparison} (?, ?)"
            values += after
        query = f"{SELECT} WHERE {where} ORDER BY c.update_time {order}, c.id {order} LIMIT ?"
        return [
            Stored(row[0], conversation_of(row))
            for row in self._database.rows(query, (*values, limit))
        ]

    def by_number(self, numbers: set[int]) -> dict[int, Conversation]:
        """Return the conversations of these numbers, without those that are gone."""
        query = f"{SELECT} WHERE c.number IN (SELECT value FROM json_each(?))"
        return {
            row[0]: conversation_of(row)
            for row in self._database.rows(query, (orjson.dumps(list(numbers)).decode(),))
        }

    def outlines(self, numbers: NDArray[np.int64]) -> list[Outline]:
        """Return the outlines of the conversations of these numbers, which ascend, without those
        that are gone or unindexed.
        """
        # As one text for each column, in the order of the numbers.
        texts = self._database.value(
            "SELECT group_concat(c.number), json_group_array(c.id),"
            " group_concat(c.create_time), group_concat(c.message_count)"
            " FROM json_each(?) j CROSS JOIN conversations c ON c.number = j.value"
            " WHERE c.unindexed = 0",
            (orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY).decode(),),
        )
        there, ids, times, counts = texts
        columns = orjson.loads(f"[[{there or ''}],{ids},[{times or ''}],[{counts or ''}]]")
        return list(map(Outline._make, zip(*columns, strict=True)))

    def numbers(self, conversation_ids: list[str]) -> dict[str, int]:
        """Return the numbers of those of the conversations that are indexed."""
        query = "SELECT id, number FROM conversations WHERE id IN (SELECT value FROM json_each(?))"
        return {
            row[0]: row[1]
            for row in self._database.rows(query, (orjson.dumps(conversation_ids).decode(),))
        }

    def unindexed(self) -> list[str]:
        """Return the conversations that searches leave out."""
        query = "SELECT id FROM conversations WHERE unindexed = 1"
        return [str(row[0]) for row in self._database.rows(query)]

    def sizes(self, chosen: Filter, limit: int, after: tuple[int, str] | None = None) -> list[Size]:
        """Return the conversations that match with the bytes of their transcripts, the longest
        unchanged first, behind the place `after` = (update_time, id).
        """
        where, values = condition_of(chosen)
        if after is not None:
            where += " AND (c.update_time, c.id) > (?, ?)"
            values += after
        query = (
            "SELECT c.id, c.channel, c.update_time, p.bytes FROM conversations c"
            f" JOIN progress p ON p.number = c.number WHERE {where} ORDER BY c.update_time, c.id LIMIT ?"
        )
        return [Size(*row) for row in self._database.rows(query, (*values, limit))]

    def total(self, chosen: Filter) -> tuple[int, int]:
        """Return how many conversations match, and the bytes of their transcripts."""
        where, values = condition_of(chosen)
        query = (
            "SELECT count(*), coalesce(sum(p.bytes), 0) FROM conversations c"
            f" JOIN progress p ON p.number = c.number WHERE {where}"
        )
        count, size = self._database.value(query, values)
        return int(count), int(size)

    def copies(self, conversation_id: str, turn: int, limit: int) -> list[str]:
        """Return the conversations that may have copies of a turn: all that were copied of the one
        in which it was first said, by forks of forks too, and that one.
        """
        query = "SELECT number, id FROM conversations WHERE origin_id <> '' OR id = ?"
        rows = self._database.rows(query, (conversation_id,))
        names = {number: str(name) for number, name in rows}
        chains = {names[number]: chain for number, chain in self.origins(set(names)).items()}

        def holders(name: str) -> list[str]:
            return [name, *(it for it, through in chains.get(name, []) if turn <= through)]

        first = holders(conversation_id)[-1]
        copies = {name for name in names.values() if first in holders(name)}
        if self.find(first) is not None:
            copies.add(first)
        return sorted(copies - {conversation_id})[:limit]

    def origins(self, numbers: set[int]) -> dict[int, list[tuple[str, int]]]:
        """Return what forks are copies of, by their numbers: ids of conversations, the nearest one
        first, each with the last turn that the fork has of it.
        """
        # Forks of an earlier version do not say what their origins are copies of: the rows of those
        # that are there do.
        query = """
            WITH RECURSIVE chosen(number) AS (SELECT value FROM json_each(?)),
            chain(number, depth, origin, through) AS (
                SELECT number, 1, origin_id, origin_turn FROM conversations
                 WHERE number IN chosen AND origin_id <> ''
                UNION ALL
                SELECT chain.number, depth + 1, c.origin_id, min(through, c.origin_turn)
                  FROM chain JOIN conversations c ON c.id = chain.origin
                 WHERE c.origin_id <> '' AND depth < 100
            )
            SELECT number, depth, origin, through FROM chain
            UNION
            SELECT number, key + 2, value ->> 0, value ->> 1
              FROM conversations, json_each(earlier_origins) WHERE number IN chosen
            ORDER BY number, depth"""
        origins: dict[int, list[tuple[str, int]]] = {}
        for number, _, origin, through in self._database.rows(
            query, (orjson.dumps(list(numbers)).decode(),)
        ):
            origins.setdefault(number, []).append((origin, through))
        return origins

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return the indexed length of every transcript by conversation: bytes and lines."""
        rows = self._database.rows(
            "SELECT c.id, p.bytes, p.lines FROM conversations c JOIN progress p USING (number)"
        )
        return {row[0]: (row[1], row[2]) for row in rows}


class Lengths:
    """Bytes of text by conversation number, in memory, for BM25 needs them for each search: 8 bytes
    a conversation. Writers of the table maintain them.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._guard = threading.Lock()  # guards everything below; only arithmetic happens under it
        rows = np.fromiter(
            connection.execute("SELECT number, text_bytes FROM conversations"), np.dtype("i8,i8")
        )
        self._lengths = np.full(1 + rows["f0"].max(initial=0), -1, dtype=np.int64)
        self._lengths[rows["f0"]] = rows["f1"]
        self._conversations = len(rows)
        self._bytes = int(rows["f1"].sum())
        self.messages = int(
            connection.execute("SELECT coalesce(sum(message_count), 0) FROM conversations").get
        )

    def read(self) -> tuple[NDArray[np.int64], int, float]:
        """Return the lengths by number (of a number that is free: anything), how many
        conversations there are, and their mean length.
        """
        with self._guard:
            return self._lengths, self._conversations, self._bytes / max(self._conversations, 1)

    def set(self, number: int, length: int, messages: int) -> None:
        """Note a conversation's length, and how many messages were added to it."""
        with self._guard:
            if number >= len(self._lengths):
                self._lengths = np.concatenate(
                    [self._lengths, np.full(number + 1024, -1, dtype=np.int64)]
                )
            before = int(self._lengths[number])
            self._conversations += before < 0
            self._bytes += length - max(before, 0)
            self._lengths[number] = length
            self.messages += messages

    def remove(self, number: int) -> None:
        """Note that a conversation is deleted. Its messages are counted down as they go."""
        with self._guard:
            self._conversations -= 1
            self._bytes -= int(self._lengths[number])
            self._lengths[number] = -1

    def count(self, messages: int) -> None:
        """Add to the number of messages."""
        with self._guard:
            self.messages += messages
