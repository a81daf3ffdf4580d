"""The texts of `vectors.db`: each is there once for a model, by its hash, with the vectors of its
pieces.

The vectors are a `vec0` table of sqlite-vec. The pieces of a text lie at `text << 20 | piece`. The
codes of its word pieces are one row, which a trigger removes with the text.
"""

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.recall.model.marks import DIMENSIONS

PIECE_BITS = 20


def read_chunk(
    connection: apsw.Connection, chunk: int
) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Return the rows of a chunk of vectors and the vectors [n, 384], from the tables under `vec0`:
    thirty times as fast as through it. None of a chunk that is gone.
    """
    query = (
        "SELECT c.validity, c.rowids, v.vectors FROM vectors_chunks c"
        " JOIN vectors_vector_chunks00 v ON v.rowid = c.chunk_id WHERE c.chunk_id = ?"
    )
    validity, rows, vectors = connection.execute(query, (chunk,)).fetchone() or (b"", b"", b"")
    valid = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little").astype(bool)
    return (
        np.frombuffer(rows, np.int64)[valid],
        np.frombuffer(vectors, np.int8).reshape(-1, DIMENSIONS)[valid],
    )


class Texts:
    """The texts of a file. Call it within a transaction that `VectorStore` began."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def number(self, model: int, text_hash: bytes) -> int | None:
        """Return the number of a text; None if it is not there."""
        query = "SELECT text FROM texts WHERE model = ? AND hash = ?"
        number = self._connection.execute(query, (model, text_hash)).get
        return None if number is None else int(number)

    def vectors(self, model: int, text_hash: bytes) -> NDArray[np.int8] | None:
        """Return the vectors of a text, of shape [pieces, 384]; None if it is not there."""
        query = "SELECT text, pieces FROM texts WHERE model = ? AND hash = ?"
        row = self._connection.execute(query, (model, text_hash)).fetchone()
        if row is None:
            return None
        first = row[0] << PIECE_BITS
        query = "SELECT embedding FROM vectors WHERE rowid = ?"
        parts = [self._connection.execute(query, (first + piece,)).get for piece in range(row[1])]
        return np.frombuffer(b"".join(parts), np.int8).reshape(-1, DIMENSIONS)

    def add(
        self, model: int, text_hash: bytes, vectors: NDArray[np.int8], codes: bytes | None = None
    ) -> int:
        """Return the number of a text, adding its vectors and the codes of its word pieces if they
        are missing.
        """
        number = self.number(model, text_hash)
        if number is None:
            number = self._add(model, text_hash, vectors)
        if codes is not None:
            self._connection.execute("INSERT OR IGNORE INTO codes VALUES(?, ?)", (number, codes))
        return number

    def _add(self, model: int, text_hash: bytes, vectors: NDArray[np.int8]) -> int:
        self._connection.execute(
            "INSERT INTO texts(model, hash, pieces) VALUES(?, ?, ?)",
            (model, text_hash, len(vectors)),
        )
        text = self._connection.last_insert_rowid()
        self._connection.executemany(
            "INSERT INTO vectors(rowid, embedding) VALUES(?, vec_int8(?))",
            [
                (text << PIECE_BITS | piece, vector.tobytes())
                for piece, vector in enumerate(vectors)
            ],
        )
        return text

    def drop_unused(self, texts: list[int]) -> int:
        """Remove the given texts that no place uses any more, and return the number of removed
        vectors.
        """
        query = (
            "SELECT t.text, t.pieces FROM texts t WHERE t.text IN (SELECT value FROM json_each(?))"
            " AND NOT EXISTS (SELECT 1 FROM places p WHERE p.text = t.text)"
        )
        return self._drop(query, (orjson.dumps(texts).decode(),))

    def drop_others(self, models: tuple[int, int]) -> None:
        """Remove the texts of all models but two."""
        self._drop("SELECT text, pieces FROM texts WHERE model NOT IN (?, ?)", models)

    def _drop(self, query: str, values: tuple[int | str, ...]) -> int:
        chosen: list[tuple[int, int]] = self._connection.execute(query, values).fetchall()  # type: ignore[assignment]  # the table's types
        rows = orjson.dumps(
            [text << PIECE_BITS | piece for text, pieces in chosen for piece in range(pieces)]
        ).decode()
        self._connection.execute(
            "DELETE FROM vectors WHERE rowid IN (SELECT value FROM json_each(?))", (rows,)
        )
        texts = orjson.dumps([text for text, _ in chosen]).decode()
        self._connection.execute(
            "DELETE FROM texts WHERE text IN (SELECT value FROM json_each(?))", (texts,)
        )
        return sum(pieces for _, pieces in chosen)
