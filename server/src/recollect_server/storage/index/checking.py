"""Reads the whole index, to be compared with the transcripts."""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from recollect_server.domain.budget import message_tokens
from recollect_server.domain.ids import id_range, message_id
from recollect_server.domain.message import Message
from recollect_server.storage.index.connections import looking
from recollect_server.storage.index.external_checking import ExternalContents
from recollect_server.storage.index.file import DAMAGED, NAME
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.messages import searchable_text
from recollect_server.storage.index.words import tokens

_MAX_TERM = 32_768  # bytes of a word that FTS5 keeps (FTS5_MAX_TOKEN_SIZE)

Row = tuple[int, int, int, int, int, int]
"""A message as it stands in the index: id, turn, time, offset, length, tokens."""

# bytes: a word that is cut may end within a character
_WORDS = "SELECT CAST(term AS BLOB), doc, offset FROM turns_occurrences"


class Contents:
    """All that an index holds. Raises IndexUnavailable."""

    def __init__(self, index: Index) -> None:
        self.external = ExternalContents(index)
        self._index = index
        self._words: dict[int, int] | None = None

    def problems(self) -> list[str]:
        """Return the problems that SQLite finds in its own pages and trees, and FTS5 in its
        segments.
        """
        with self._index.reading() as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
        return [] if found == ["ok"] else found

    def rows(self, number: int) -> dict[int, Row]:
        """The messages of a conversation by id."""
        with self._index.reading() as connection:
            rows = connection.execute(
                "SELECT id, turn_number, time, offset, length, tokens FROM messages WHERE id BETWEEN ? AND ?",
                id_range(number),
            )
            return {row[0]: row for row in rows}

    def requests(self, conversation_id: str) -> dict[str, str]:
        """The requests that a conversation's lines carried: hash by id."""
        with self._index.reading() as connection:
            query = "SELECT request_id, hash FROM requests WHERE conversation_id = ?"
            return {
                str(row[0]): str(row[1]) for row in connection.execute(query, (conversation_id,))
            }

    def request(self, request_id: str) -> tuple[str, str] | None:
        """Return the conversation and the hash of a request, or None if the index does not know
        it.
        """
        with self._index.reading() as connection:
            query = "SELECT conversation_id, hash FROM requests WHERE request_id = ?"
            row = connection.execute(query, (request_id,)).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def mail(self, number: int) -> set[int]:
        """The Message-IDs that lead to a conversation, as numbers."""
        with self._index.reading() as connection:
            return {
                row[0]
                for row in connection.execute("SELECT name FROM mail WHERE number = ?", (number,))
            }

    def continued(self, number: int) -> str:
        """The conversation that goes on for one, or nothing."""
        with self._index.reading() as connection:
            return str(
                connection.execute("SELECT id FROM continued WHERE number = ?", (number,)).get or ""
            )

    def forgotten_deliveries(self) -> int:
        """Return the number of deliveries into deleted conversations."""
        with self._index.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM forgotten").get)

    def count(self) -> int:
        """Return the number of messages, of whatever conversation."""
        with self._index.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM messages").get)

    def row_of(self, number: int, message: Message, offset: int, length: int) -> Row:
        """The row that a message must have."""
        identity = message_id(number, message.sequence)
        return (
            identity,
            message.turn_number,
            message.timestamp,
            offset,
            length,
            message_tokens(message),
        )

    def take_words(self, identity: int) -> int:
        """A digest of the words that the index has for a message: each counts with its place, in
        any order. Once for each.
        """
        if self._words is None:
            digests: defaultdict[int, int] = defaultdict(int)
            with self._index.reading() as connection:
                for term, document, place in connection.execute(_WORDS):
                    digests[document] += hash((term, place))
            self._words = dict(digests)
        return self._words.pop(identity, 0)

    def words_of(self, message: Message) -> int:
        """The digest that a message must have."""
        with self._index.reading() as connection:
            found = tokens(connection, searchable_text(message).encode())
        return sum(
            hash((stem.encode()[:_MAX_TERM], place)) for place, (_, _, stem) in enumerate(found)
        )

    def left(self) -> int:
        """Return the number of messages that have words in the index and were not asked for."""
        return len(self._words or ())


@dataclass(frozen=True, slots=True)
class State:
    """State of an index file by itself."""

    condition: str
    """`whole`, or what is wrong with it."""
    progress: dict[str, int]
    """Bytes of each transcript that are indexed."""
    messages: int = 0
    size: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    """Lines of each transcript that are indexed."""


def state_of(folder: Path) -> State:
    """Looks at the index in a folder without taking it from a server that runs."""
    path = folder / NAME
    if not path.exists():
        return State("missing: the next start makes it anew", {})
    try:
        with looking(path) as connection:
            query = (
                "SELECT c.id, p.bytes, p.lines FROM conversations c JOIN progress p USING (number)"
            )
            known = {row[0]: (row[1], row[2]) for row in connection.execute(query)}
            messages = int(connection.execute("SELECT count(*) FROM messages").get)
            wanted = connection.execute(
                "SELECT value FROM identity WHERE name = 'rebuild_wanted'"
            ).get
    except apsw.Error as error:
        return State(f"unusable ({error}): the next start makes it anew", {})
    progress = {name: size for name, (size, _) in known.items()}
    lines = {name: count for name, (_, count) in known.items()}
    if wanted or path.with_name(NAME + DAMAGED).exists():
        return State(
            f"to be made anew at the next start: {wanted or 'a page of it is damaged'}",
            progress,
            messages,
        )
    return State(
        "whole",
        progress,
        messages,
        sum(file.stat().st_size for file in folder.glob(f"{NAME}*")),
        lines,
    )
