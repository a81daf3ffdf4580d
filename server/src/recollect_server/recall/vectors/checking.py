"""Looks at `vectors.db` without taking it from a server that runs."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import numpy as np

from recollect_server.kernel.domain.ids import SEQUENCE_BITS, id_range, sequence_of
from recollect_server.recall.vectors.file import NAME, VectorsUnavailable, connect_to_read, failures
from recollect_server.recall.vectors.texts import PIECE_BITS, read_chunk


@dataclass(frozen=True, slots=True)
class VectorFileState:
    """State of the file, and of the model that is served."""

    condition: str
    """`whole`, or what is wrong with it."""
    lines: dict[str, int] = field(default_factory=dict)
    """Number of embedded lines of each conversation."""
    vectors: int = 0
    size: int = 0
    beside: int = 0
    """Number of those of the model of other languages."""
    pace: float = 0.0
    """Bytes of transcripts that a server embedded in a second, when it last did; 0 if unknown."""
    parts: int = 0
    """Vectors of texts that are so long that they are embedded a part at a time."""


def state_of(folder: Path) -> VectorFileState:
    if not (folder / NAME).exists():
        return VectorFileState("missing: a server makes it anew")
    try:
        with _reading(folder) as connection:
            rows = connection.execute(
                "SELECT c.id, p.lines FROM progress p JOIN conversations c USING (key)"
                " WHERE model = (SELECT value FROM facts WHERE name = 'served')"
            )
            lines = {str(row[0]): int(row[1]) for row in rows}
            vectors, beside = (
                int(connection.execute(f"SELECT coalesce(sum(pieces), 0) FROM texts {of}").get)
                for of in (f"WHERE model IN {_SERVED}", f"WHERE model = {_BESIDE}")
            )
            pace = float(connection.execute("SELECT value FROM facts WHERE name = 'pace'").get or 0)
            parts = int(
                connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'parts'").get
                and connection.execute("SELECT count(*) FROM parts").get
            )
    except VectorsUnavailable as error:
        return VectorFileState(f"unusable ({error}): a server makes it anew")
    return VectorFileState(
        "whole",
        lines,
        vectors,
        sum(file.stat().st_size for file in folder.glob(f"{NAME}*")),
        beside,
        pace,
        parts,
    )


def problems(folder: Path) -> list[str]:
    """Return the problems of the file by itself: pages, texts without all their vectors, texts that
    stand nowhere.
    """
    problems_found: list[str] = []
    if not (folder / NAME).exists():
        return problems_found
    try:
        with _reading(folder) as connection:
            checked = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            problems_found += [] if checked == ["ok"] else checked
            expected = int(connection.execute("SELECT coalesce(sum(pieces), 0) FROM texts").get)
            there = int(connection.execute("SELECT count(*) FROM vectors_rowids").get)
            if expected != there:
                problems_found.append(f"it has {there} vectors, and its texts {expected}")
            query = "SELECT count(*) FROM texts t WHERE NOT EXISTS (SELECT 1 FROM places p WHERE p.text = t.text)"
            if unused := connection.execute(query).get:
                problems_found.append(f"it has {unused} texts that stand nowhere")
    except VectorsUnavailable as error:
        return [str(error)]
    return problems_found


class Outside:
    """The file, looked at from outside. Raises VectorsUnavailable."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def hashes(self, conversation_id: str) -> tuple[dict[int, bytes], int]:
        """Return the hashes of a conversation's embedded texts by line, for the served models, and
        the number of its lines that were looked at.
        """
        by_line: dict[int, bytes] = {}
        lines = 0
        with failures(), self._connection:
            key = self._connection.execute(
                "SELECT key FROM conversations WHERE id = ?", (conversation_id,)
            ).get
            if key is None:
                return by_line, 0
            lines = self._connection.execute(
                "SELECT lines FROM progress WHERE key = ? AND model ="
                " (SELECT value FROM facts WHERE name = 'served')",
                (key,),
            ).get
            query = (
                "SELECT p.place, t.hash FROM places p JOIN texts t USING (text)"
                f" WHERE p.model IN {_SERVED} AND p.place BETWEEN ? AND ?"
            )
            for place, text in self._connection.execute(query, id_range(key)):
                by_line[sequence_of(place)] = text
        return by_line, int(lines or 0)

    def damaged(self) -> Iterator[tuple[str, int]]:
        """Yield the conversation and the line of each text that lacks a vector or has a damaged
        one, which is known by its largest number: `quantised` makes it 127.
        """
        with failures():
            query = (
                "SELECT text FROM texts t WHERE pieces <> (SELECT count(*) FROM vectors_rowids r"
                " WHERE r.rowid >= t.text << ?1 AND r.rowid < t.text + 1 << ?1)"
            )
            texts = {row[0] for row in self._connection.execute(query, (PIECE_BITS,))}
            chunks = [
                row[0] for row in self._connection.execute("SELECT chunk_id FROM vectors_chunks")
            ]
            for chunk in chunks:
                texts |= self._damaged_texts(chunk)
            query = (
                "SELECT c.id, p.place FROM places p JOIN conversations c ON c.key = p.place >> ?"
                " WHERE p.text = ?"
            )
            for text in sorted(texts):
                for name, place in self._connection.execute(query, (SEQUENCE_BITS, text)):
                    yield str(name), sequence_of(place)

    def _damaged_texts(self, chunk: int) -> set[int]:
        rows, vectors = read_chunk(self._connection, chunk)
        wrong = np.abs(vectors.astype(np.int16)).max(axis=1, initial=0) != _LARGEST
        return set((rows[wrong] >> PIECE_BITS).tolist())


@contextmanager
def outside(folder: Path) -> Iterator[Outside | None]:
    """Open the file of a running server to look at it; None if there is none. Raises
    VectorsUnavailable.
    """
    if not (folder / NAME).exists():
        yield None
        return
    with _reading(folder) as connection:
        yield Outside(connection)


_LARGEST = 127
_BESIDE = "(SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'beside')"
_SERVED = "(SELECT CAST(value AS INTEGER) FROM facts WHERE name IN ('served', 'beside'))"


@contextmanager
def _reading(folder: Path) -> Iterator[apsw.Connection]:
    with closing(connect_to_read(folder / NAME)) as connection, failures():
        yield connection
