"""Messages in the index: where each one's line is, which turn it is of, and its words (FTS5).

The words are kept without the text (a contentless table), so taking them out needs the text once more, from the transcript.
"""

import apsw
import orjson

from recollect_server.domain.budget import newest_turns
from recollect_server.domain.message import Message
from recollect_server.domain.message_ids import SEQUENCE_BITS, id_range, message_id, sequence_of
from recollect_server.domain.text import segment

Place = tuple[int, int, int]
"""Where a line is: sequence, offset, length in bytes."""

_OF_CONVERSATION = f"id >> {SEQUENCE_BITS} = ?"  # as the index `messages_by_turn` spells it: else it would not be used
_NO_TURN = 1 << 31  # higher than any turn


def searchable_text(message: Message) -> str:
    """What is indexed of a message: who speaks, where a name says so, and what.

    The bare role is left out: it would stand in every message and find none.
    """
    text = f"{message.sender}: {message.content}" if message.sender else message.content
    return segment(text.replace("\0", " "))


def remove(connection: apsw.Connection, number: int, messages: list[Message]) -> None:
    """Takes messages out, their words too. They must be what was added."""
    connection.executemany(
        "INSERT INTO turns_fts(turns_fts, rowid, text) VALUES('delete', ?, ?)",
        [(message_id(number, m.sequence), searchable_text(m)) for m in messages],
    )
    connection.executemany("DELETE FROM messages WHERE id = ?", [(message_id(number, m.sequence),) for m in messages])


def sequences(connection: apsw.Connection, number: int, after: int, limit: int) -> list[int]:
    """The sequences of a conversation's messages behind `after`, ascending."""
    _, last = id_range(number)
    rows = connection.execute(
        "SELECT id FROM messages WHERE id > ? AND id <= ? ORDER BY id LIMIT ?", (message_id(number, after), last, limit)
    )
    return [sequence_of(row[0]) for row in rows]


def count(connection: apsw.Connection, number: int) -> int:
    """How many messages of a conversation are indexed."""
    return int(connection.execute("SELECT count(*) FROM messages WHERE id BETWEEN ? AND ?", id_range(number)).get)


def tail(
    connection: apsw.Connection, number: int, *, before_turn: int, after_turn: int, max_turns: int, max_tokens: int
) -> tuple[list[Place], bool]:
    """The newest whole turns between two turns (both excluded), oldest first, and whether the conversation has older messages.

    `budget.newest_turns` chooses them. `before_turn` 0 means the end.
    """
    rows = connection.execute(
        f"SELECT id, turn_number, tokens, offset, length FROM messages WHERE {_OF_CONVERSATION} AND turn_number < ?"
        " ORDER BY turn_number DESC, id DESC",
        (number, before_turn or _NO_TURN),
    )
    chosen = newest_turns(
        ((row[1], row[2], row) for row in rows), after_turn=after_turn, max_turns=max_turns, max_tokens=max_tokens
    )
    places = [(sequence_of(row[0]), row[3], row[4]) for row in chosen]
    if places:
        return places, _has_before(connection, number, chosen[0][1])
    # Nothing to show: everything there is lies before.
    return places, after_turn > 0 and count(connection, number) > 0


def turn_places(connection: apsw.Connection, number: int, first: int, last: int) -> list[Place]:
    """The messages of the turns from `first` to `last`, in the order of their turns, and of their lines within a turn."""
    rows = connection.execute(
        f"SELECT id, offset, length FROM messages WHERE {_OF_CONVERSATION} AND turn_number BETWEEN ? AND ?"
        " ORDER BY turn_number, id",
        (number, first, last),
    )
    return [(sequence_of(identity), offset, length) for identity, offset, length in rows]


def turns_of_lines(connection: apsw.Connection, number: int, lines: list[int]) -> list[int]:
    """The turns of those of these lines that are messages."""
    ids = orjson.dumps([message_id(number, line) for line in lines]).decode()
    rows = connection.execute("SELECT turn_number FROM messages WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    return [row[0] for row in rows]


def newest(connection: apsw.Connection, number: int) -> tuple[Place, int, int] | None:
    """Where the newest message is, with its turn and its time."""
    row = connection.execute(
        "SELECT id, offset, length, turn_number, time FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
        id_range(number),
    ).fetchone()
    return None if row is None else ((sequence_of(row[0]), row[1], row[2]), row[3], row[4])


def place_before(connection: apsw.Connection, number: int, sequence: int) -> Place | None:
    """Where the newest message at or before a line is; None if no message is."""
    row = connection.execute(
        "SELECT id, offset, length FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
        (id_range(number)[0], message_id(number, sequence)),
    ).fetchone()
    return None if row is None else (sequence_of(row[0]), row[1], row[2])


def _has_before(connection: apsw.Connection, number: int, turn: int) -> bool:
    """Whether the conversation has a message of an earlier turn."""
    query = f"SELECT 1 FROM messages WHERE {_OF_CONVERSATION} AND turn_number < ? LIMIT 1"
    return connection.execute(query, (number, turn)).get is not None


def places(connection: apsw.Connection, number: int, first: int, last: int) -> list[Place]:
    """The messages whose lines are `first` to `last`."""
    rows = connection.execute(
        "SELECT id, offset, length FROM messages WHERE id BETWEEN ? AND ? ORDER BY id",
        (message_id(number, first), message_id(number, last)),
    )
    return [(sequence_of(identity), offset, length) for identity, offset, length in rows]
