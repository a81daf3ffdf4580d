"""The rows of conversations: what is known of each without its messages, and the lists made of
them.
"""

import threading
from typing import Any, NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.index.columns import CONVERSATIONS, dump_json
from recollect_server.kernel.index.derived import Condition, LogTable, conditions, listed

_conversation_of = CONVERSATIONS.reader(1)


class Outline(NamedTuple):  # made by the hundred: cheaper than a frozen dataclass
    """Facts about a conversation that a search needs."""

    number: int
    id: str
    create_time: int
    message_count: int


def _conditions(chosen: Filter) -> list[Condition]:
    return [
        ("c.id = ?", chosen.conversation_id),
        ("c.id IN (SELECT value FROM json_each(?))", listed(chosen.conversation_ids)),
        (f"c.channel IN ({_marks(chosen.channels)})", chosen.channels),
        (
            f"c.number IN (SELECT number FROM topics WHERE topic IN ({_marks(chosen.topics)}))",
            chosen.topics,
        ),
        _of_participants(chosen),
        *(
            (f"c.{column} = ?", getattr(chosen.party, column))
            for column in ("contact", "group_id", "thread_id", "subject")
        ),
        ("c.pinned = ?", chosen.pinned),
        ("c.archived = ?", chosen.archived),
        ("c.unindexed = ?", chosen.unindexed),
        ("c.needs_abbreviation <> ''", chosen.notes_failed or None),
        ("c.needs_abbreviation = ''", chosen.notes_failed is False or None),
        ("EXISTS (SELECT 1 FROM json_each(c.metadata) WHERE key = ?)", chosen.metadata_key),
        ("c.update_time >= ?", chosen.updated_after),
        ("c.update_time < ?", chosen.updated_before),
        # instr, not LIKE: no character of the text is a pattern. Lower case on both sides, by
        # SQLite for ASCII alone.
        ("instr(casefold(c.name), ?) > 0", chosen.name.casefold()),
    ]


def _of_participants(chosen: Filter) -> Condition:
    """Return the condition that any of a filter's participants took part, by name or by address."""
    named = f"SELECT number FROM participants WHERE participant IN ({_marks(chosen.participants)})"
    if not (chosen.participants and chosen.identities):
        return f"c.number IN ({named})", chosen.participants
    of_identities = (
        "SELECT p.number FROM json_each(?) j JOIN participants p ON p.participant = j.value ->> 1"
        " JOIN conversations x ON x.number = p.number AND x.channel = j.value ->> 0"
        " UNION ALL SELECT x.number FROM json_each(?) j JOIN conversations x"
        " ON x.contact = j.value ->> 1 AND x.channel = j.value ->> 0 AND x.contact <> ''"
    )
    pairs = dump_json(chosen.identities)
    return (
        f"c.number IN ({named} UNION ALL {of_identities})",
        (*chosen.participants, pairs, pairs),
    )


def condition_of(chosen: Filter) -> tuple[str, list[Any]]:
    """Return the condition of a filter over `conversations c`, and its values."""
    return conditions(_conditions(chosen))


def _marks(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))


class ConversationTable(LogTable[Conversation, Filter]):
    """The indexed conversations."""

    # in this order, by which pages are read
    tables = "conversations c CROSS JOIN progress p ON p.number = c.number"
    query = (
        f"SELECT c.number, {CONVERSATIONS.select('c')}, p.bytes, p.lines FROM {tables}"
        " LEFT JOIN notes n ON n.number = c.number LEFT JOIN contact_names k ON k.number = c.number"
        " LEFT JOIN note_records r ON r.number = c.number"
    )
    settled = True

    def state_of(self, row: Any) -> Conversation:
        """Return the conversation of a row of `query`."""
        return _conversation_of(row)

    def conditions_of(self, chosen: Filter) -> list[Condition]:
        """Return the conditions of a filter."""
        return _conditions(chosen)

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

    def total(self, chosen: Filter) -> tuple[int, int]:
        """Return how many conversations match, and the bytes of their transcripts."""
        where, values = condition_of(chosen)
        query = f"SELECT count(*), coalesce(sum(p.bytes), 0) FROM {self.tables} WHERE {where}"
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
