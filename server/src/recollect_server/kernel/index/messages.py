"""Messages in the index: the place of each one's line in its transcript, its turn, and its words
(FTS5).

The words are kept without the text (a contentless table), so removing them takes the text once
more, from the transcript.
"""

from collections.abc import Iterable

import apsw

from recollect_server.kernel.domain.ids import (
    MAX_LINES,
    SEQUENCE_BITS,
    id_range,
    message_id,
    number_of,
    sequence_of,
)
from recollect_server.kernel.domain.message import (
    Message,
    first_turns,
    message_tokens,
    newest_turns,
)
from recollect_server.kernel.index.columns import MessageRow, dump_json
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Analysis
from recollect_server.kernel.log.lines import Line

Place = tuple[int, int, int]
"""Position of a line: sequence, offset, length in bytes."""
TurnName = tuple[int, int]
"""The number of a conversation and of a turn in it."""

# as the index `messages_by_turn` spells it: else it would not be used
_OF_CONVERSATION = f"id >> {SEQUENCE_BITS} = ?"
_PLACE = f"id & {MAX_LINES}, offset, length"
"""Columns of a `Place`."""
_NO_TURN = 1 << 31  # higher than any turn


def searchable_text(analysis: Analysis, message: Message) -> str:
    """Return the text of a message that is indexed: its sender's name, if it has one, and its
    content.

    The bare role is left out: it would stand in every message and find none.
    """
    return searchable(analysis, message.sender, message.content)


def searchable(analysis: Analysis, sender: str, content: str) -> str:
    """Return the indexed text of a message of which no more is known."""
    text = analysis.form(content)
    return f"{analysis.plain(sender)}: {text}" if sender else text


def row_of(number: int, line: Line, message: Message) -> MessageRow:
    """Return the row of a message."""
    return MessageRow(
        message_id(number, line.sequence),
        message.turn_number,
        message.timestamp,
        line.offset,
        line.length,
        message_tokens(message),
    )


def newest_within(places: list[Place], max_bytes: int) -> list[Place]:
    """Return the last of these places that have `max_bytes` together (0: all), at least one."""
    total = 0
    for at in range(len(places) - 1, -1, -1) if max_bytes else ():
        total += places[at][2]
        if total > max_bytes and at < len(places) - 1:
            return places[at + 1 :]
    return places


class MessageTable:
    """The messages of indexed conversations, by conversation number."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def tail(
        self,
        number: int,
        *,
        before_turn: int,
        before_sequence: int = 0,
        after_turn: int,
        max_turns: int,
        max_tokens: int,
        max_bytes: int,
    ) -> tuple[list[Place], bool, bool]:
        """Return the newest whole turns between two turns (both excluded), as `budget.newest_turns`
        chooses them.

        The first value holds their places, oldest first; the second says whether the conversation
        has older messages, the third whether the only turn is cut. `before_turn` and
        `before_sequence` 0 mean the end.
        """
        with self._database.reading() as connection:
            within, bound = (
                _beside(connection, number, before_sequence, "<") if before_sequence else ("1", ())
            )
            rows = connection.execute(
                f"SELECT id, turn_number, tokens, offset, length FROM messages WHERE {_OF_CONVERSATION} AND turn_number < ?"
                f" AND {within} ORDER BY turn_number DESC, id DESC",
                (number, before_turn or _NO_TURN, *bound),
            )
            chosen, is_cut = newest_turns(
                ((row[1], row[2], row[4], row) for row in rows),
                after_turn=after_turn,
                max_turns=max_turns,
                max_tokens=max_tokens,
                max_bytes=max_bytes,
            )
            if chosen:
                query = f"SELECT turn_number, id FROM messages WHERE {_OF_CONVERSATION} ORDER BY turn_number, id LIMIT 1"
                first = connection.execute(query, (number,)).fetchone()
                has_older = first is not None and first < (chosen[0][1], chosen[0][0])
            else:  # nothing to return: every message that exists lies before
                count = "SELECT count(*) FROM messages WHERE id BETWEEN ? AND ?"
                has_older = after_turn > 0 and connection.execute(count, id_range(number)).get > 0
            return [(sequence_of(row[0]), row[3], row[4]) for row in chosen], has_older, is_cut

    def of_turns(self, number: int, first: int, last: int) -> list[Place]:
        """Return the messages of the turns from `first` to `last`, ordered by turn, then by
        line.
        """
        rows = self._database.rows(
            f"SELECT {_PLACE} FROM messages WHERE {_OF_CONVERSATION} AND turn_number BETWEEN ? AND ?"
            " ORDER BY turn_number, id",
            (number, first, last),
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def of_each_turn(self, turns: Iterable[TurnName]) -> dict[TurnName, list[Place]]:
        """Return the messages of turns of any conversations, ordered by line."""
        places: dict[TurnName, list[Place]] = {turn: [] for turn in turns}
        rows = self._database.rows(
            "SELECT m.id, m.turn_number, m.offset, m.length FROM json_each(?) j"
            f" CROSS JOIN messages m ON m.id >> {SEQUENCE_BITS} = j.value ->> 0"
            " AND m.turn_number = j.value ->> 1 ORDER BY m.id",
            (dump_json([*places]),),
        )
        for identity, turn, offset, length in rows:
            place = (sequence_of(identity), offset, length)
            places[number_of(identity), turn].append(place)
        return places

    def page_of_turns(
        self, number: int, first: int, last: int, after: int, max_bytes: int
    ) -> tuple[list[Place], bool]:
        """Return the messages of these turns behind line `after` that have `max_bytes` together,
        oldest first.

        The second value says whether there are more. Turns are whole, unless the first alone is
        larger: then its first messages are returned, at least one.
        """
        with self._database.reading() as connection:
            within, bound = _beside(connection, number, after, ">") if after else ("1", ())
            rows = connection.execute(
                f"SELECT turn_number, {_PLACE} FROM messages WHERE {_OF_CONVERSATION}"
                f" AND turn_number BETWEEN ? AND ? AND {within} ORDER BY turn_number, id",
                (number, first, last, *bound),
            )
            return first_turns(((row[0], row[3], row[1:]) for row in rows), max_bytes)

    def of_turns_and_lines(self, number: int, turns: list[int], lines: list[int]) -> list[Place]:
        """Return the messages of these turns and of the turns that these lines belong to,
        ascending.
        """
        rows = self._database.rows(
            f"SELECT {_PLACE} FROM messages WHERE {_OF_CONVERSATION} AND turn_number IN"
            " (SELECT value FROM json_each(?) UNION SELECT turn_number FROM messages"
            " WHERE id IN (SELECT value FROM json_each(?))) ORDER BY turn_number, id",
            (number, dump_json(turns), dump_json([message_id(number, line) for line in lines])),
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def of_lines(self, number: int, first: int, last: int) -> list[Place]:
        """Return the messages of the lines from `first` to `last`."""
        rows = self._database.rows(
            f"SELECT {_PLACE} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id",
            (message_id(number, first), message_id(number, last)),
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def count_through(self, number: int, turn: int) -> int:
        """Return how many messages a conversation has in its turns up to this one."""
        query = f"SELECT count(*) FROM messages WHERE {_OF_CONVERSATION} AND turn_number <= ?"
        return int(self._database.value(query, (number, turn)))

    def newest(self, number: int) -> tuple[Place, int, int] | None:
        """Return the place of the newest message, its turn and its time, or None."""
        row = self._database.row(
            f"SELECT {_PLACE}, turn_number, time FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
            id_range(number),
        )
        return None if row is None else (row[:3], row[3], row[4])

    def newest_through(self, number: int, sequence: int) -> Place | None:
        """Return the place of the newest message at or before a line, or None."""
        place: Place | None = self._database.row(
            f"SELECT {_PLACE} FROM messages WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT 1",
            (id_range(number)[0], message_id(number, sequence)),
        )
        return place

    def bytes_of_lines(self, number: int, first: int, last: int) -> int:
        """Return how many bytes the messages of these lines have."""
        query = "SELECT coalesce(sum(length), 0) FROM messages WHERE id BETWEEN ? AND ?"
        return int(
            self._database.value(query, (message_id(number, first), message_id(number, last)))
        )


def _beside(
    connection: apsw.Connection, number: int, sequence: int, side: str
) -> tuple[str, tuple[int, ...]]:
    """Return the condition, with its values, of the messages that are read before (`<`) or behind
    (`>`) the one of a line.

    Where that line is no message, of those that were stored before or behind it.
    """
    identity = message_id(number, min(sequence, MAX_LINES))
    turn = connection.execute("SELECT turn_number FROM messages WHERE id = ?", (identity,)).get
    if turn is None:
        return f"id {side} ?", (identity,)
    return f"turn_number {side}= ? AND (turn_number {side} ? OR id {side} ?)", (
        turn,
        turn,
        identity,
    )
