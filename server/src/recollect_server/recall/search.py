"""Reads of a search: its words and where they stand (see `postings`), and what is known of the
messages and the conversations that it finds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.kernel.domain.filters import Filter, SearchScope
from recollect_server.kernel.domain.ids import (
    MAX_LINES,
    SEQUENCE_BITS,
    id_range,
    number_of,
    sequence_of,
)
from recollect_server.kernel.domain.message import BYTES_PER_TOKEN
from recollect_server.kernel.index.conversations import condition_of
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.recall.postings import KeywordScores
from recollect_server.text import words
from recollect_server.text.ranking import starts
from recollect_server.text.words import NotesScores, QueryTerms, Term

_QUIET = 3_600_000  # milliseconds without a message that end a section
SECTION = 20
"""Messages of a section, at the most."""
_LOOKED_AT = 10_000  # conversations, for one that lies outside of a time: some 3 ms
# of a time: conversations that are looked into, and messages of them all and of one
_LOOKED_INTO, _VISITED, _VISITED_OF_ONE = 1_000, 20_000, 2_000


class Sections(NamedTuple):
    """Some sections of a conversation: arrays of one value a section, ascending."""

    first: NDArray[np.int64]
    """The line of its first message."""
    last: NDArray[np.int64]
    """The last line that belongs to it."""
    begin: NDArray[np.float64]
    """Time of its first message, in milliseconds."""
    bytes: NDArray[np.int64]
    """About how long its text is."""
    messages: int
    """Number of messages of them all."""


class Found(NamedTuple):
    """A message that may be shown: where its line is, and when it was said."""

    number: int
    turn_number: int
    time: int
    place: Place
    tokens: int


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages that may be shown: a column for each field, of shape [n]. An object is made only of
    those that are asked for.
    """

    ids: NDArray[np.int64]
    """Ascending."""
    turn_numbers: NDArray[np.int64]
    times: NDArray[np.int64]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, at: int) -> Found:
        identity = self.ids.item(at)
        place = (sequence_of(identity), self.offsets.item(at), self.lengths.item(at))
        return Found(
            number_of(identity),
            self.turn_numbers.item(at),
            self.times.item(at),
            place,
            self.tokens.item(at),
        )

    def place(self, at: int) -> Place:
        """Return the place of a message's line: less work than all that is known of it."""
        identity = self.ids.item(at)
        return (sequence_of(identity), self.offsets.item(at), self.lengths.item(at))

    def __iter__(self) -> Iterator[Found]:
        return map(self.__getitem__, range(len(self)))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of their conversations, ascending."""
        return self.ids >> SEQUENCE_BITS

    @property
    def sequences(self) -> NDArray[np.int64]:
        """Their lines in the transcripts."""
        return self.ids & MAX_LINES

    def only(self, chosen: NDArray[np.bool_]) -> "Messages":
        """Return those that are chosen."""
        if chosen.all():
            return self
        columns = (self.ids, self.turn_numbers, self.times, self.offsets, self.lengths, self.tokens)
        return Messages(*(column[chosen] for column in columns))


def _numbers(text: object) -> NDArray[np.int64]:
    """Return the numbers of a text that has them separated by commas, ascending."""
    return np.sort(np.array(orjson.loads(f"[{text or ''}]"), np.int64))


def _first_since(connection: apsw.Connection, first: int, last: int, time: int) -> int:
    """Return about the first id of a long conversation at some time or later: but for late messages
    it is in the order of time.
    """
    last = connection.execute(
        "SELECT coalesce(max(id), ?) FROM messages WHERE id BETWEEN ? AND ?", (first, first, last)
    ).get
    query = "SELECT time FROM messages WHERE id >= ? ORDER BY id LIMIT 1"
    while first < last:
        middle = (first + last) // 2
        if connection.execute(query, (middle,)).get < time:
            first = middle + 1
        else:
            last = middle
    return first


class Search:
    """Searches by words, and what they need to know of conversations."""

    def __init__(self, index: Index) -> None:
        self._database = index
        self._lengths = index.lengths

    def terms(self, query: str, *, is_typed: bool = False) -> QueryTerms:
        """Return the words of a query to search for (`words.choose_terms`)."""
        with self._database.reading() as connection:
            return words.choose_terms(connection, query, self._lengths.messages, is_typed=is_typed)

    def spellings(self, code: str) -> list[tuple[str, ...]]:
        """Return how messages write a number or a code: in one word, or in words side by side."""
        with self._database.reading() as connection:
            return words.spellings(connection, code)

    def keyword(
        self, terms: list[Term], scope: SearchScope, numbers: NDArray[np.int64] | None
    ) -> KeywordScores:
        """Return the occurrences of the terms and BM25 of messages by them. `numbers` are the
        conversations of the scope; None: all.
        """
        return KeywordScores(self._database, terms, scope, numbers)

    def said_in(self, scope: SearchScope, limit: int) -> NDArray[np.int64]:
        """Return the ids of messages of the scope, which has both times: those of the conversations
        that were updated last. A bounded number of messages is looked at.
        """
        where, values = condition_of(scope.conversations)
        choose = (
            "SELECT c.number, c.message_count FROM conversations c"
            f" WHERE c.update_time >= ? AND c.create_time < ? AND c.unindexed = 0 AND ({where})"
            " ORDER BY c.update_time DESC, c.number DESC LIMIT ?"
        )
        query = (
            "SELECT id FROM (SELECT id, time FROM messages WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)"
            " WHERE time >= ? AND time < ? LIMIT ?"
        )
        ids: list[int] = []
        left = _VISITED
        with self._database.reading() as connection:
            chosen: Any = connection.execute(
                choose, (scope.start, scope.end, *values, _LOOKED_INTO)
            ).fetchall()
            for number, count in chosen:
                if len(ids) >= limit or left <= 0:
                    break
                first, last = id_range(number)
                if count > _VISITED_OF_ONE:
                    first = _first_since(connection, first, last, scope.start or 0)
                most = min(_VISITED_OF_ONE, left)
                left -= min(count, most)
                period = (first, last, most, scope.start, scope.end, limit - len(ids))
                ids += [row[0] for row in connection.execute(query, period)]
        return np.array(ids, np.int64)

    def notes_scores(self, terms: QueryTerms, limit: int) -> NotesScores:
        """Return the conversations whose title, topics and abbreviation fit best."""
        total = self._lengths.read()[1]
        with self._database.reading() as connection:
            return words.scores_of_notes(
                connection, terms.chosen, total, limit, terms.rarities.keys()
            )

    def sections(self, number: int, lines: NDArray[np.int64]) -> Sections:
        """Return the sections of a conversation that these lines are in, which ascend.

        A section ends where the conversation was quiet for an hour, and before every line that
        `SECTION` divides. So the lines around a message alone say where its section begins, however
        long the conversation is.
        """
        blocks = lines // SECTION
        rows = self._database.row(
            "SELECT group_concat(m.id), group_concat(m.time), group_concat(m.tokens) FROM json_each(?) j"
            f" CROSS JOIN messages m ON m.id BETWEEN j.value AND j.value + {SECTION - 1}",
            (
                orjson.dumps(
                    (number << SEQUENCE_BITS) + SECTION * blocks[starts(blocks)],
                    option=orjson.OPT_SERIALIZE_NUMPY,
                ).decode(),
            ),
        )
        ids, times, tokens = (np.array(orjson.loads(f"[{text or ''}]"), np.int64) for text in rows)
        if not len(ids):
            none = np.zeros(0, np.int64)
            return Sections(none, none, none.astype(np.float64), none, 0)
        of_lines = ids & MAX_LINES
        first = np.flatnonzero(
            (np.diff(times, prepend=times[0] - _QUIET) >= _QUIET)
            | (np.diff(of_lines // SECTION, prepend=-1) != 0)
        )
        last = SECTION * (of_lines[first] // SECTION + 1) - 1
        last[:-1] = np.minimum(last[:-1], of_lines[first[1:]] - 1)
        return Sections(
            of_lines[first],
            last,
            times[first].astype(np.float64),
            BYTES_PER_TOKEN * np.add.reduceat(tokens, first),
            len(ids),
        )

    def lengths(self) -> tuple[NDArray[np.int64], int, float]:
        """Return the bytes of text by conversation number, the number of conversations, and their
        mean length.
        """
        return self._lengths.read()

    def numbers_of(self, chosen: Filter) -> NDArray[np.int64] | None:
        """Return the numbers of the conversations that match, ascending; None for all."""
        where, values = condition_of(chosen)
        if where == "1":
            return None
        query = (
            f"SELECT group_concat(number) FROM (SELECT c.number FROM conversations c WHERE {where})"
        )
        return _numbers(self._database.value(query, values))

    def numbers_within(self, start: int | None, end: int | None) -> NDArray[np.int64]:
        """Return the numbers, ascending, of the conversations that began at `start` or later and
        ended before `end`.
        """
        query = (
            "SELECT group_concat(number) FROM conversations"
            " WHERE (?1 IS NULL OR create_time >= ?1) AND (?2 IS NULL OR update_time < ?2)"
        )
        return _numbers(self._database.value(query, (start, end)))

    def has_outside(self, start: int, end: int) -> bool:
        """Return whether a conversation began before `start`, or was written to at `end` or later.
        True too where there are too many to look.
        """
        query = (
            "SELECT count(*) >= ?3 OR total(create_time < ?1 OR update_time >= ?2) > 0"
            " FROM (SELECT create_time, update_time FROM conversations LIMIT ?3)"
        )
        return bool(self._database.value(query, (start, end, _LOOKED_AT)))

    def all_of_few(self, most: int) -> Messages | None:
        """Return every message, or None of more than `most`."""
        rows = self._database.rows("SELECT id FROM messages LIMIT ?", (most + 1,))
        if len(rows) > most:
            return None
        return self.showable(np.array(rows, np.int64).reshape(-1), SearchScope())

    def showable(self, ids: NDArray[np.int64], scope: SearchScope) -> Messages:
        """Return those of the messages, each of which stands once, that exist and lie in the
        scope's period. Their conversations may be in deletion.
        """
        names = "id", "turn_number", "time", "offset", "length", "tokens"
        # As one text for each column: a row for each message took ten times as long, and Python's
        # global lock with it. In the order of the ids, which is that of the table.
        texts = self._database.value(
            f"SELECT {', '.join(f'group_concat(m.{name})' for name in names)} FROM json_each(?1) j"
            " CROSS JOIN messages m ON m.id = j.value"
            " AND (?2 IS NULL OR m.time >= ?2) AND (?3 IS NULL OR m.time < ?3)",
            (
                orjson.dumps(np.sort(ids), option=orjson.OPT_SERIALIZE_NUMPY).decode(),
                scope.start,
                scope.end,
            ),
        )
        columns = orjson.loads(f"[[{'],['.join(text or '' for text in texts)}]]")
        return Messages(*np.array(columns, np.int64))
