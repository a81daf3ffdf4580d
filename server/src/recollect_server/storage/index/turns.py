"""Messages in the index: where each one's line is, which turn it is of, and its words (FTS5).

The words are kept without the text (a contentless table), so taking them out needs the text once more, from the transcript.
"""

import apsw
import orjson

from recollect_server.domain.budget import first_turns, newest_turns
from recollect_server.domain.message import Message
from recollect_server.domain.message_ids import MAX_LINES, SEQUENCE_BITS, id_range, message_id, sequence_of
from recollect_server.domain.text import segment

Place = tuple[int, int, int]
"""Where a line is: sequence, offset, length in bytes."""

_OF_CONVERSATION = f"id >> {SEQUENCE_BITS} = ?"  # as the index `messages_by_turn` spells it: else it would not be used
_NO_TURN = 1 << 31  # higher than any turn


def searchable_text(message: Message) -> str:
    """What is indexed of a message: who speaks, where a name says so, and what.

    The bare role is left out: it would stand in every message and find none.
    """
    return words_of(message.sender, message.content)


def words_of(sender: str, content: str) -> str:
    """The same of a message of which no more is known."""
    text = f"{sender}: {content}" if sender else content
    return segment(text.replace("\0", " "))


Spoken = tuple[int, str, str]
"""What the removal of a message must know: its sequence, sender and content."""


def remove(connection: apsw.Connection, number: int, messages: list[Spoken]) -> None:
    """Removes messages and their words. They must be what was added."""
    # As one document: a statement for each message would take Python's global lock as often.
    gone = orjson.dumps([(message_id(number, sequence), words_of(*spoken)) for sequence, *spoken in messages]).decode()
    connection.execute(
        "INSERT INTO turns_fts(turns_fts, rowid, text) SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)", (gone,)
    )
    connection.execute("DELETE FROM messages WHERE id IN (SELECT value ->> 0 FROM json_each(?))", (gone,))


def mark_removed(connection: apsw.Connection, number: int, messages: list[Spoken]) -> None:
    """Removes messages; their words are marked as deleted, and stay in the segments until all of these are merged."""
    connection.execute("INSERT INTO turns_fts(turns_fts, rank) VALUES('secure-delete', 0)")
    remove(connection, number, messages)
    connection.execute("INSERT INTO turns_fts(turns_fts) VALUES('flush')")  # else the commit would do it, as the next line says
    connection.execute("INSERT INTO turns_fts(turns_fts, rank) VALUES('secure-delete', 1)")


def merge(connection: apsw.Connection, pages: int) -> None:
    """Merges segments of words until so many pages are written; a negative number begins a merge of all segments."""
    connection.execute("INSERT INTO turns_fts(turns_fts, rank) VALUES('merge', ?)", (pages,))


def sizes(connection: apsw.Connection, number: int) -> tuple[int, int]:
    """Return how many bytes the lines of a conversation's messages have, and how many the longest has."""
    query = "SELECT coalesce(sum(length), 0), coalesce(max(length), 0) FROM messages WHERE id BETWEEN ? AND ?"
    total, longest = connection.execute(query, id_range(number)).get
    return total, longest


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


def count_through(connection: apsw.Connection, number: int, turn: int) -> int:
    """Return how many messages a conversation has in its turns up to this one."""
    return int(
        connection.execute(f"SELECT count(*) FROM messages WHERE {_OF_CONVERSATION} AND turn_number <= ?", (number, turn)).get
    )


def tail(
    connection: apsw.Connection,
    number: int,
    *,
    before_turn: int,
    before_sequence: int = 0,
    after_turn: int,
    max_turns: int,
    max_tokens: int,
    max_bytes: int,
) -> tuple[list[Place], bool, bool]:
    """The newest whole turns between two turns (both excluded), oldest first, whether the conversation has older messages, and
    whether the only turn is cut.

    `budget.newest_turns` chooses them. `before_turn` and `before_sequence` 0 mean the end.
    """
    within, bound = _beside(connection, number, before_sequence, "<") if before_sequence else ("1", ())
    rows = connection.execute(
        f"SELECT id, turn_number, tokens, offset, length FROM messages WHERE {_OF_CONVERSATION} AND turn_number < ? AND {within}"
        " ORDER BY turn_number DESC, id DESC",
        (number, before_turn or _NO_TURN, *bound),
    )
    chosen, cut = newest_turns(
        ((row[1], row[2], row[4], row) for row in rows),
        after_turn=after_turn,
        max_turns=max_turns,
        max_tokens=max_tokens,
        max_bytes=max_bytes,
    )
    places = [(sequence_of(row[0]), row[3], row[4]) for row in chosen]
    if places:
        return places, _has_before(connection, number, chosen[0][1], chosen[0][0]), cut
    # Nothing to show: everything there is lies before.
    return places, after_turn > 0 and count(connection, number) > 0, False


def turn_places(connection: apsw.Connection, number: int, first: int, last: int) -> list[Place]:
    """The messages of the turns from `first` to `last`, in the order of their turns, and of their lines within a turn."""
    rows = connection.execute(
        f"SELECT id, offset, length FROM messages WHERE {_OF_CONVERSATION} AND turn_number BETWEEN ? AND ?"
        " ORDER BY turn_number, id",
        (number, first, last),
    )
    return [(sequence_of(identity), offset, length) for identity, offset, length in rows]


def page_of_turns(
    connection: apsw.Connection, number: int, first: int, last: int, after: int, max_bytes: int
) -> tuple[list[Place], bool]:
    """The messages of these turns behind line `after` that have so many bytes together, oldest first, and whether there are more.

    Turns are whole, unless the first alone is larger: of that its first messages are taken, one at the least.
    """
    within, bound = _beside(connection, number, after, ">") if after else ("1", ())
    rows = connection.execute(
        f"SELECT id, turn_number, offset, length FROM messages WHERE {_OF_CONVERSATION}"
        f" AND turn_number BETWEEN ? AND ? AND {within} ORDER BY turn_number, id",
        (number, first, last, *bound),
    )
    return first_turns(((row[1], row[3], (sequence_of(row[0]), row[2], row[3])) for row in rows), max_bytes)


def newest_within(places: list[Place], max_bytes: int) -> list[Place]:
    """The last of these places that have so many bytes together (0: all), one at the least."""
    total = 0
    for at in range(len(places) - 1, -1, -1) if max_bytes else ():
        total += places[at][2]
        if total > max_bytes and at < len(places) - 1:
            return places[at + 1 :]
    return places


def turns_of_lines(connection: apsw.Connection, number: int, lines: list[int]) -> list[int]:
    """The turns of those of these lines that are messages."""
    ids = orjson.dumps([message_id(number, line) for line in lines]).decode()
    rows = connection.execute("SELECT turn_number FROM messages WHERE id IN (SELECT value FROM json_each(?))", (ids,))
    return [row[0] for row in rows]


def bytes_of(connection: apsw.Connection, number: int, first: int, last: int) -> int:
    """How many bytes the messages of these lines have."""
    query = "SELECT coalesce(sum(length), 0) FROM messages WHERE id BETWEEN ? AND ?"
    return int(connection.execute(query, (message_id(number, first), message_id(number, last))).get)


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


def _has_before(connection: apsw.Connection, number: int, turn: int, identity: int) -> bool:
    """Whether the conversation has a message that is read before this one, which is of this turn."""
    query = f"SELECT turn_number, id FROM messages WHERE {_OF_CONVERSATION} ORDER BY turn_number, id LIMIT 1"
    first = connection.execute(query, (number,)).fetchone()
    return first is not None and first < (turn, identity)


def _beside(connection: apsw.Connection, number: int, sequence: int, side: str) -> tuple[str, tuple[int, ...]]:
    """Return the condition, with its values, of the messages that are read before (`<`) or behind (`>`) the one of a line.

    Where that line is no message, of those that were stored before or behind it.
    """
    identity = message_id(number, min(sequence, MAX_LINES))
    turn = connection.execute("SELECT turn_number FROM messages WHERE id = ?", (identity,)).get
    if turn is None:
        return f"id {side} ?", (identity,)
    return f"turn_number {side}= ? AND (turn_number {side} ? OR id {side} ?)", (turn, turn, identity)


def places(connection: apsw.Connection, number: int, first: int, last: int) -> list[Place]:
    """The messages whose lines are `first` to `last`."""
    rows = connection.execute(
        "SELECT id, offset, length FROM messages WHERE id BETWEEN ? AND ? ORDER BY id",
        (message_id(number, first), message_id(number, last)),
    )
    return [(sequence_of(identity), offset, length) for identity, offset, length in rows]
