"""The words of notes: of the titles, topics and abbreviations of conversations.

They are a plain table and not FTS5: where a row is changed and then deleted, FTS5 may leave the
words in its segments, even with `secure-delete`. A table of whose freed cells SQLite writes zeros
leaves none.
"""

import math
from collections import Counter
from collections.abc import Sequence

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.text import segment
from recollect_server.storage.index import words
from recollect_server.storage.index.words import Term
from recollect_server.storage.ranking import K1

_TITLE, _TOPICS, _ABBREVIATION = 3, 2, 1  # what a word counts in each
_LAST = "\U0010ffff"  # behind all that begin with a prefix

Entry = tuple[str, int]
"""A stem, and how often it stands in the notes, weighted."""


def notes_words_table(connection: apsw.Connection) -> None:
    """Make the table and fill it from the conversations that are indexed: a step of
    `migrations`.
    """
    connection.execute("""
        CREATE TABLE notes_words(
            stem TEXT, number INTEGER, count INTEGER NOT NULL, PRIMARY KEY(stem, number)) WITHOUT ROWID;
        CREATE INDEX notes_words_by_number ON notes_words(number);
        CREATE TRIGGER take_in_notes_words INSTEAD OF INSERT ON incoming WHEN NEW.document -> '$.words' IS NOT NULL BEGIN
            DELETE FROM notes_words WHERE number = NEW.document ->> '$.conversation[0]';
            INSERT INTO notes_words
                SELECT value ->> 0, NEW.document ->> '$.conversation[0]', value ->> 1 FROM json_each(NEW.document, '$.words');
        END;
    """)
    rows = connection.execute(
        "SELECT c.number, c.title, c.topics, coalesce(n.abbreviation, '') FROM conversations c"
        " LEFT JOIN notes n ON n.number = c.number WHERE c.title <> '' OR c.topics <> '[]' OR n.abbreviation <> ''"
    ).fetchall()
    for number, title, topics, abbreviation in rows:
        found = _entries(connection, str(title), orjson.loads(str(topics)), str(abbreviation))
        connection.executemany(
            "INSERT INTO notes_words VALUES(?, ?, ?)",
            [(stem, number, count) for stem, count in found],
        )


def have_changed(before: Conversation | None, after: Conversation) -> bool:
    """Return whether the notes have other words than before."""
    texts = (after.title, after.topics, after.abbreviation)
    return texts != ((before.title, before.topics, before.abbreviation) if before else ("", (), ""))


def entries_of(connection: apsw.Connection, conversation: Conversation) -> list[Entry]:
    """Return what is indexed of a conversation's notes."""
    return _entries(connection, conversation.title, conversation.topics, conversation.abbreviation)


def _entries(
    connection: apsw.Connection, title: str, topics: Sequence[str], abbreviation: str
) -> list[Entry]:
    counts: Counter[str] = Counter()
    for text, weight in (
        (title, _TITLE),
        ("\n".join(topics), _TOPICS),
        (abbreviation, _ABBREVIATION),
    ):
        for _, _, stem in words.tokens(connection, segment(text.replace("\0", " ")).encode()):
            counts[stem] += weight
    return list(counts.items())


def scores(
    connection: apsw.Connection, terms: list[Term], total: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the numbers of the conversations whose notes fit best, ascending, and BM25 of their
    notes. Shape [n] each.

    `total` is how many conversations there are. Lengths count nothing: notes are all about as long.
    """
    found: dict[int, float] = {}
    values: tuple[str, ...]
    for term in terms:
        if term.prefix:
            where, values = "stem >= ? AND stem < ?", (term.stem, term.stem + _LAST)
        else:
            where, values = "stem = ?", (term.stem,)
        query = f"SELECT json_group_array(json_array(number, count)) FROM notes_words WHERE {where}"
        rows: list[tuple[int, int]] = orjson.loads(connection.execute(query, values).get)
        idf = math.log(1 + (max(total, len(rows)) - len(rows) + 0.5) / (len(rows) + 0.5))
        for number, count in rows:
            found[number] = found.get(number, 0.0) + idf * count * (K1 + 1) / (count + K1)
    best = sorted(sorted(found, key=lambda number: (-found[number], number))[:most])
    return np.array(best, np.int64), np.array([found[number] for number in best], np.float64)
