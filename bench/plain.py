"""Baseline of search: plain FTS5, an OR of the words that are no stop words, ranked by BM25."""

import apsw
from recollect_server.text.languages import STOP_WORDS


class PlainFts5:
    """Texts in an FTS5 table of their own, in memory or in a file."""

    def __init__(self, path: str = ":memory:") -> None:
        self._db = apsw.Connection(path)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(id UNINDEXED, time UNINDEXED, text, tokenize='porter unicode61')"
        )

    def add(self, name: str, time: int, text: str) -> None:
        """Add a text, said at this time in milliseconds."""
        self._db.execute("INSERT INTO texts VALUES(?, ?, ?)", (name, time, text))

    def best(self, query: str, limit: int, end: int | None) -> list[str]:
        """Return the names of the texts that fit best and were said before `end`."""
        rows = self._db.execute(
            "SELECT id FROM texts WHERE texts MATCH ? AND (? IS NULL OR time < ?) ORDER BY rank LIMIT ?",
            (or_query(self._db, query), end, end, limit),
        )
        return [row[0] for row in rows]

    def holds(self, name: str) -> bool:
        """Return whether there is a text of this name."""
        rows = self._db.execute("SELECT 1 FROM texts WHERE id = ?", (name,))
        return rows.fetchone() is not None


def or_query(db: apsw.Connection, query: str) -> str:
    """Return the words of a query that are no stop words, each once, as FTS5 reads them; all of
    them if there are no others.
    """
    tokens = db.fts5_tokenizer("unicode61", [])(
        query.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False
    )
    words = list(dict.fromkeys(str(word) for token in tokens for word in token))
    return " OR ".join(
        f'"{word}"' for word in [word for word in words if word not in STOP_WORDS] or words
    )
