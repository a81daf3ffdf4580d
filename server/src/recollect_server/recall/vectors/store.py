"""`vectors.db`: the vectors of all that was embedded, kept by a hash of the text, apart from the
index.

A vector costs some 10 ms and the index is made anew now and then: so this file outlives it. It says
by itself which conversation has which text in which line, so that a delete takes the vectors of
deleted text out, unless another message has the same text. Whatever of it is lost or damaged is
worked out again from the transcripts: nothing here is the truth.

Which text stands where is said by a message's id (`kernel.domain.ids`, of the conversation's number
in this file), where line 0 is the conversation's abbreviation; the texts and their vectors are in
`recall.vectors.texts`. Each model has its own: one is served while another is worked out, and
another beside it has the texts of other languages.
"""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import apsw
import numpy as np
import orjson
from numpy.typing import NDArray

from recollect_server.kernel.domain.ids import (
    MAX_LINES,
    SEQUENCE_BITS,
    id_range,
    message_id,
    number_of,
    sequence_of,
)
from recollect_server.kernel.index.gaps import Gaps, Wiped
from recollect_server.recall.model.marks import ASKS, DIMENSIONS, USER
from recollect_server.recall.vectors.file import (
    NAME,
    VectorsUnavailable,
    connect,
    connect_to_read,
    failures,
)
from recollect_server.recall.vectors.removals import VectorRemovals
from recollect_server.recall.vectors.texts import PIECE_BITS, Texts, read_chunk

_BESIDE = "beside"
ABBREVIATION = 0
"""The line that stands for a conversation's abbreviation."""
_REMOVED = 1000  # places that a delete takes out in one transaction


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """A text that stands somewhere: in a line, said at a time (milliseconds), with a vector for
    each of its pieces [n, 384].
    """

    conversation_id: str
    line: int
    time: int
    marks: int
    """Marks for the ranking: see `recall.model.marks`."""
    hash: bytes
    vectors: NDArray[np.int8]
    codes: bytes | None = None
    """Codes of its word pieces, one behind the other; None if they are not known."""


@dataclass(frozen=True, slots=True)
class Uncoded:
    """A text of messages whose word pieces have no codes."""

    text: int
    hash: bytes
    places: list[tuple[str, int]]
    """Conversations and lines that have it, some of very many."""


@dataclass(frozen=True, slots=True)
class Coded:
    """A text of a user, or one that may ask, whose word pieces have codes."""

    text: int
    hash: bytes
    codes: bytes
    is_users: bool
    place: tuple[str, int]
    """A conversation and a line that have it."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A line of a user that has statements."""

    conversation_id: str
    line: int
    time: int
    statements: bytes
    """As `VectorStore.add_statements` took them."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """All places of a model: a number for each piece, ascending by conversation, line and piece."""

    keys: dict[int, str]
    """The conversations by their keys."""
    places: NDArray[np.int64]
    times: NDArray[np.int64]
    marks: NDArray[np.int64]
    rows: NDArray[np.int64]
    """Row of each piece in the table of vectors."""


def _key_of(connection: apsw.Connection, conversation_id: str) -> int | None:
    """Return the number of a conversation in this file; None if it has none."""
    query = "SELECT key FROM conversations WHERE id = ?"
    key = connection.execute(query, (conversation_id,)).get
    return None if key is None else int(key)


def hash_of(text: str) -> bytes:
    """Return the hash of a text: 16 bytes."""
    return blake2b(text.encode(), digest_size=16).digest()


def forget_lines(folder: Path, conversation_id: str, lines: Collection[int]) -> None:
    """Remove the vectors of lines from a file that nobody has open, if it is there. Raises
    VectorsUnavailable.
    """
    if (folder / NAME).exists():
        with closing(VectorStore(folder)) as store:
            store.forget_lines(conversation_id, lines)


def forget_conversations(folder: Path, conversation_ids: Collection[str]) -> None:
    """Remove all data of conversations from a file that nobody has open, if it is there. Raises
    VectorsUnavailable.
    """
    if not conversation_ids or not (folder / NAME).exists():
        return
    with closing(VectorStore(folder)) as store:
        store.clear(*store.known(conversation_ids))


class VectorStore:
    """The file, open. Safe to call from any thread. Raises VectorsUnavailable."""

    def __init__(self, folder: Path) -> None:
        """Open or create `vectors.db` in the folder."""
        self.path = folder / NAME
        self._guard = threading.Lock()  # guards the connection
        self._removals = VectorRemovals()
        self._closed = False
        self.statements_version = 0
        """Another number once other statements may stand here: what is read behind it has them."""
        self._has_restated = False  # in the transaction under way. The lock guards it
        self._connection = connect(self.path)
        self._gaps = Gaps(self._connection)
        self._texts = Texts(self._connection)
        # Codes are read by searches, which do not wait for what is being written.
        self._reading = threading.Lock()  # guards the reader
        self._reader = connect_to_read(self.path)
        with failures():
            self._inode = self.path.stat().st_ino

    def lost(self) -> bool:
        """Return whether another file has its name now, or none."""
        try:
            return self.path.stat().st_ino != self._inode
        except OSError:
            return True

    def close(self) -> None:
        """Close the store. Closing twice is harmless."""
        with self._guard:
            self._closed = True
            self._connection.close(force=True)
        with self._reading:
            self._reader.close(force=True)

    # Models ---------------------------------------------------------------------------------------

    def model(self, identity: str, folder: Path) -> int:
        """Return the number of a model, added if it is new."""
        with self._using() as connection:
            connection.execute(
                "INSERT INTO models(identity, folder) VALUES(?, ?) ON CONFLICT DO UPDATE SET folder = excluded.folder",
                (identity, str(folder)),
            )
            return int(
                connection.execute("SELECT model FROM models WHERE identity = ?", (identity,)).get
            )

    def served(self) -> tuple[int, str, Path] | None:
        """Return the number, the identity and the folder of the model that was complete last."""
        with self._using() as connection:
            query = "SELECT model, identity, folder FROM models JOIN facts ON name = 'served' AND value = model"
            row = connection.execute(query).fetchone()
            return None if row is None else (row[0], row[1], Path(row[2]))

    def serve(self, model: int, beside: int | None = None) -> None:
        """Mark a model as complete, and the one beside it that has the texts of other languages;
        remove the vectors of all others.
        """
        self.accompany(beside)
        models = (model, model if beside is None else beside)
        with self._using() as connection:
            connection.execute("INSERT OR REPLACE INTO facts VALUES('served', ?)", (str(model),))
            for table in ("progress", "places", "parts"):
                connection.execute(f"DELETE FROM {table} WHERE model NOT IN (?, ?)", models)
            self._texts.drop_others(models)
            self._has_restated = True
            connection.execute("DELETE FROM models WHERE model NOT IN (?, ?)", models)

    def accompany(self, beside: int | None) -> None:
        """Mark a model as that of other languages beside the served one; None for no model."""
        self.note(_BESIDE, "" if beside is None else str(beside))

    def has_others(self, model: int, beside: int | None) -> bool:
        """Return whether the file has vectors of other models than these two."""
        with self._using() as connection:
            query = "SELECT EXISTS (SELECT 1 FROM models WHERE model NOT IN (?, ?))"
            return bool(connection.execute(query, (model, model if beside is None else beside)).get)

    # Facts ----------------------------------------------------------------------------------------

    def fact(self, name: str) -> str:
        """Return a fact that was noted; empty if it never was."""
        with self._using() as connection:
            return str(
                connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).get or ""
            )

    def note(self, name: str, value: str) -> None:
        """Note a fact in place of the one before."""
        with self._using() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO facts SELECT ?1, ?2 WHERE NOT EXISTS"
                " (SELECT 1 FROM facts WHERE name = ?1 AND value = ?2)",
                (name, value),
            )

    # What is known --------------------------------------------------------------------------------

    def progress(self, model: int, epoch: str) -> dict[str, int]:
        """Return the number of lines of each conversation that were embedded with a model, for the
        index of this epoch.

        For another index all are looked at again: the vectors of texts that are known are not
        worked out again.
        """
        with self._using() as connection:
            fact = f"epoch {model}"
            if connection.execute("SELECT value FROM facts WHERE name = ?", (fact,)).get != epoch:
                connection.execute("UPDATE progress SET lines = 0 WHERE model = ?", (model,))
                connection.execute("INSERT OR REPLACE INTO facts VALUES(?, ?)", (fact, epoch))
            query = "SELECT c.id, coalesce(p.lines, 0) FROM conversations c LEFT JOIN progress p ON p.key = c.key AND p.model = ?"
            return {row[0]: row[1] for row in connection.execute(query, (model,))}

    def forget_strays(self, model: int, epoch: str, lines: Mapping[str, int]) -> None:
        """Remove the data of lines that conversations do not have, if the last index that a model's
        texts were of was another one. `lines` has the length of each conversation there is.
        """
        with self._using() as connection:
            fact = f"epoch {model}"
            if connection.execute("SELECT value FROM facts WHERE name = ?", (fact,)).get == epoch:
                return
            query = "SELECT id, key FROM conversations UNION SELECT conversation, NULL FROM parts"
            rows = connection.execute(query).fetchall()
        self.clear(*(str(name) for name, _ in rows if name not in lines))
        for name, key in rows:
            if name in lines and isinstance(key, int):
                behind = message_id(key, lines[str(name)] + 1), id_range(key)[1]
                with self._using() as connection:
                    query = (
                        "SELECT DISTINCT place FROM places"
                        " WHERE model IN (SELECT model FROM models) AND place BETWEEN ? AND ?"
                    )
                    strays = [sequence_of(place) for (place,) in connection.execute(query, behind)]
                if strays:
                    self._remove_lines(str(name), strays)

    def known(self, conversation_ids: Collection[str]) -> list[str]:
        """Return those of the conversations that have any data, of whatever model."""
        with self._using() as connection:
            query = (
                "SELECT id FROM conversations WHERE id IN (SELECT value FROM json_each(?1)) UNION"
                " SELECT conversation FROM parts WHERE conversation IN"
                " (SELECT value FROM json_each(?1))"
            )
            names = orjson.dumps(list(conversation_ids)).decode()
            return [str(row[0]) for row in connection.execute(query, (names,))]

    def lines_of(self, model: int, conversation_id: str) -> int:
        """Return the number of a conversation's lines that were embedded."""
        with self._using() as connection:
            query = "SELECT lines FROM progress JOIN conversations USING (key) WHERE model = ? AND id = ?"
            return int(connection.execute(query, (model, conversation_id)).get or 0)

    def placed(self, model: int, conversation_id: str, first: int, last: int) -> dict[int, bytes]:
        """Return the hashes of the texts that stand in some lines of a conversation, by line."""
        with self._using() as connection:
            query = (
                "SELECT p.place, t.hash FROM places p JOIN texts t USING (text) WHERE p.model = ?"
                " AND p.place BETWEEN ? AND ?"
            )
            key = _key_of(connection, conversation_id)
            if key is None:
                return {}
            range_of_lines = (model, message_id(key, first), message_id(key, last))
            return {
                sequence_of(place): text
                for place, text in connection.execute(query, range_of_lines)
            }

    def has_text(self, model: int, text_hash: bytes) -> bool:
        """Return whether a text was embedded before."""
        with self._using():
            return self._texts.number(model, text_hash) is not None

    def vectors_of(self, model: int, hashes: Iterable[bytes]) -> dict[bytes, NDArray[np.int8]]:
        """Return the vectors of the texts that were embedded before, each of shape [pieces,
        384].
        """
        with self._using():
            vectors = ((name, self._texts.vectors(model, name)) for name in hashes)
            return {name: them for name, them in vectors if them is not None}

    # Codes of word pieces -------------------------------------------------------------------------

    def codes_of(
        self, model: int, places: Mapping[str, Sequence[int]]
    ) -> dict[tuple[str, int], tuple[bytes, bytes]]:
        """Return the codes of the texts that stand in some lines of conversations, by conversation
        and line, and which of their pieces ask, as `add_statements` took it; not those that are not
        known.
        """
        codes: dict[tuple[str, int], tuple[bytes, bytes]] = {}
        with self._to_read() as connection:
            query = "SELECT id, key FROM conversations WHERE id IN (SELECT value FROM json_each(?))"
            names = orjson.dumps([*places]).decode()
            keys = {int(key): str(name) for name, key in connection.execute(query, (names,))}
            chosen = [message_id(key, line) for key, name in keys.items() for line in places[name]]
            query = (
                "SELECT p.place, c.codes, coalesce(a.pieces, x'') FROM json_each(?) it"
                " CROSS JOIN places p ON p.model = ? AND p.place = it.value"
                " CROSS JOIN codes c USING (text) LEFT JOIN asked a USING (text)"
            )
            for place, *of in connection.execute(query, (orjson.dumps(chosen).decode(), model)):
                codes[keys[number_of(place)], sequence_of(place)] = of[0], of[1]
        return codes

    def newest_text(self) -> int:
        """Return the number of the text that was added last; 0 if there is none."""
        with self._using() as connection:
            return int(connection.execute("SELECT coalesce(max(text), 0) FROM texts").get)

    def uncoded(self, model: int, between: tuple[int, int], most: int) -> list[Uncoded]:
        """Return texts of a model whose word pieces have no codes, or the empty ones of an older
        server, the newest first, of those with numbers between two. Texts of abbreviations alone
        are left out.
        """
        with self._using() as connection:
            # `+`: by their numbers. The index of a model's texts would be read whole.
            query = (
                "SELECT text, hash FROM texts t WHERE +model = ? AND text > ? AND text < ?"
                " AND NOT EXISTS (SELECT 1 FROM codes c WHERE c.text = t.text AND length(codes))"
                " AND EXISTS (SELECT 1 FROM places p WHERE p.text = t.text AND p.place & ?)"
                " ORDER BY text DESC LIMIT ?"
            )
            rows: list[tuple[int, bytes]] = connection.execute(
                query, (model, *between, MAX_LINES, most)
            ).fetchall()  # type: ignore[assignment]  # the table's types
            query = (
                "SELECT id, place & ?1 FROM places JOIN conversations ON key = place >> ?2"
                " WHERE text = ?3 AND place & ?1 LIMIT ?4"
            )
            return [
                Uncoded(
                    text,
                    text_hash,
                    connection.execute(query, (MAX_LINES, SEQUENCE_BITS, text, most)).fetchall(),  # type: ignore[arg-type]  # likewise
                )
                for text, text_hash in rows
            ]

    def add_codes(self, codes: Mapping[int, bytes]) -> None:
        """Keep the codes of texts that are still there, by their numbers."""
        with self._using() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO codes SELECT text, ? FROM texts WHERE text = ?",
                [(of, text) for text, of in codes.items()],
            )

    def drop_codes(self, model: int) -> None:
        with self._using() as connection:
            query = "DELETE FROM codes WHERE text IN (SELECT text FROM texts WHERE model = ?)"
            connection.execute(query, (model,))

    def places_of(self, text: int) -> list[tuple[str, int]]:
        """Return the conversations and the lines of messages that have a text."""
        query = (
            "SELECT DISTINCT id, place & ?1 FROM places JOIN conversations ON key = place >> ?2"
            " WHERE text = ?3 AND place & ?1"
        )
        with self._using() as connection:
            rows = connection.execute(query, (MAX_LINES, SEQUENCE_BITS, text))
            return [(str(name), int(line)) for name, line in rows]

    # Statements -----------------------------------------------------------------------------------

    def coded(self, model: int, through: int, most: int) -> list[Coded]:
        """Return texts of users, and those that ask, that have codes, with numbers above one,
        in order.
        """
        query = (
            "SELECT t.text, t.hash, c.codes, max(p.marks & 3 = ?3), min(p.place) FROM texts t"
            " JOIN codes c USING (text) JOIN places p USING (text) WHERE +t.model = ?1"
            " AND t.text > ?2 AND (p.marks & 3 = ?3 OR p.marks & ?4) AND p.place & ?5"
            " AND length(c.codes) GROUP BY t.text ORDER BY t.text LIMIT ?6"
        )
        with self._using() as connection:
            rows: list[tuple[int, bytes, bytes, int, int]] = connection.execute(
                query, (model, through, USER, ASKS, MAX_LINES, most)
            ).fetchall()  # type: ignore[assignment]  # the table's types
            query = "SELECT id FROM conversations WHERE key = ?"
            return [
                Coded(
                    text,
                    text_hash,
                    codes,
                    bool(is_users),
                    (
                        str(connection.execute(query, (number_of(place),)).get),
                        sequence_of(place),
                    ),
                )
                for text, text_hash, codes, is_users, place in rows
            ]

    def add_statements(
        self,
        statements: Mapping[int, bytes],
        asking: Mapping[int, bytes],
        facts: Mapping[str, str],
    ) -> None:
        """Keep the statements of texts that are still there, by their numbers, and which of their
        pieces ask, and note facts.
        """
        with self._using() as connection:
            self._has_restated |= bool(statements)
            for table, of_texts in (("statements", statements), ("asked", asking)):
                connection.executemany(
                    f"INSERT OR REPLACE INTO {table} SELECT text, ? FROM texts WHERE text = ?",
                    [(of, text) for text, of in of_texts.items()],
                )
            connection.executemany("INSERT OR REPLACE INTO facts VALUES(?, ?)", facts.items())

    def drop_statements(self, model: int) -> None:
        with self._using() as connection:
            self._has_restated = True
            for table in ("statements", "asked"):
                query = (
                    f"DELETE FROM {table} WHERE text IN (SELECT text FROM texts WHERE model = ?)"
                )
                connection.execute(query, (model,))

    def stated(self) -> list[Stated]:
        """Return where users' texts with statements stand, of the newest first."""
        query = (
            "SELECT c.id, p.place & ?, p.time, s.statements FROM statements s"
            " JOIN places p USING (text) JOIN conversations c ON c.key = p.place >> ?"
            " WHERE p.marks & 3 = ? AND p.place & ? ORDER BY p.time DESC, p.place DESC"
        )
        with self._to_read() as connection:
            rows = connection.execute(query, (MAX_LINES, SEQUENCE_BITS, USER, MAX_LINES))
            return [Stated(*row) for row in rows]

    def removed_after(self, moment: int, oldest: int) -> tuple[list[str], int]:
        """Return the conversations that were deleted or unindexed after a moment, or had messages
        redacted, and the present moment. No text that was read before `oldest` is still at work.
        """
        return self._removals.after(moment, oldest)

    def is_gone(self, place: EmbeddedText, read_at: int) -> bool:
        """Return whether a text that was read at a moment is deleted, redacted or unindexed."""
        return self._removals.is_gone(place.conversation_id, place.line, read_at)

    def parts_of(self, model: int, text_hash: bytes) -> NDArray[np.int8]:
        """Return the vectors of a long text's first pieces, as far as they are known: [n, 384]."""
        with self._using() as connection:
            query = "SELECT vector FROM parts WHERE model = ? AND hash = ? ORDER BY piece"
            rows = [row[0] for row in connection.execute(query, (model, text_hash))]
            return np.frombuffer(b"".join(rows), np.int8).reshape(-1, DIMENSIONS)

    def add_parts(
        self,
        model: int,
        place: tuple[str, int],
        text_hash: bytes,
        first: int,
        vectors: NDArray[np.int8],
        read_at: int = 0,
    ) -> bool:
        """Keep the vectors of a long text's next pieces, of which `first` is the number of the
        first one. `place`: its conversation and line; `read_at`: the moment at which it was read.

        Return False, and keep nothing, if the text was deleted, redacted or unindexed since, or if
        pieces before these are not kept any more.
        """
        conversation_id = place[0]
        with self._using() as connection:
            if self._removals.is_gone(*place, read_at):
                return False
            query = "SELECT count(*) FROM parts WHERE model = ? AND hash = ? AND piece < ?"
            if connection.execute(query, (model, text_hash, first)).get != first:
                return False
            connection.executemany(
                "INSERT OR REPLACE INTO parts VALUES(?, ?, ?, ?, ?)",
                [
                    (model, text_hash, first + at, conversation_id, vector.tobytes())
                    for at, vector in enumerate(vectors)
                ],
            )
        return True

    def load(self, model: int) -> Loaded:
        with self._using() as connection:
            keys = {
                row[0]: row[1] for row in connection.execute("SELECT key, id FROM conversations")
            }
            # As texts: a row for each would take Python's global lock for seconds.
            query = (
                "SELECT group_concat(place), group_concat(text), group_concat(pieces), group_concat(time), group_concat(marks)"
                " FROM (SELECT * FROM places WHERE model = ? ORDER BY place)"
            )
            columns = connection.execute(query, (model,)).fetchone() or ("",) * 5
        place, text, pieces, time, marks = (
            np.fromstring(column or "", np.int64, sep=",") for column in columns
        )
        piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        rows = np.repeat(text << PIECE_BITS, pieces) + piece
        return Loaded(
            keys, np.repeat(place, pieces), np.repeat(time, pieces), np.repeat(marks, pieces), rows
        )

    def chunks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int8]]]:
        """Yield all vectors with their rows, a thousand at a time."""
        with self._using() as connection:
            names = [
                row[0]
                for row in connection.execute("SELECT chunk_id FROM vectors_chunks ORDER BY 1")
            ]
        for name in names:
            with self._using() as connection:
                rows, vectors = read_chunk(connection, name)
            yield rows, vectors

    # What changes ---------------------------------------------------------------------------------

    def add(
        self,
        model: int,
        places: list[EmbeddedText],
        progress: dict[str, int],
        read_at: int = 0,
    ) -> list[tuple[EmbeddedText, bool]]:
        """Store embedded texts, and how far each conversation was examined, all or nothing.

        Returns the places that are new or have a new text, and whether there was a text before.
        What was deleted, redacted or unindexed since the moment at which the texts were read is
        skipped.
        """
        with self._using() as connection:
            present = [it for it in places if not self.is_gone(it, read_at)]
            keys: dict[str, int] = {}
            for name in {*progress, *(place.conversation_id for place in present)}:
                if self._removals.is_gone(name, None, read_at):
                    continue
                connection.execute("INSERT OR IGNORE INTO conversations(id) VALUES(?)", (name,))
                keys[name] = int(
                    connection.execute("SELECT key FROM conversations WHERE id = ?", (name,)).get
                )
            changed: list[tuple[EmbeddedText, bool]] = []
            for place in present:
                text = self._texts.add(model, place.hash, place.vectors, place.codes)
                connection.execute(
                    "DELETE FROM parts WHERE model = ? AND hash = ?", (model, place.hash)
                )
                where = message_id(keys[place.conversation_id], place.line)
                query = "SELECT text FROM places WHERE model = ? AND place = ?"
                before = connection.execute(query, (model, where)).get
                connection.execute(
                    "INSERT OR REPLACE INTO places VALUES(?, ?, ?, ?, ?, ?)",
                    (model, where, text, len(place.vectors), place.time, place.marks),
                )
                if before != text:
                    changed.append((place, before is not None))
                    query = "SELECT EXISTS (SELECT 1 FROM statements WHERE text = ?)"
                    self._has_restated |= bool(connection.execute(query, (text,)).get)
                if before is not None and before != text:
                    self._texts.drop_unused([before])
                    self._has_restated = True
            for name, lines in progress.items():
                if name in keys:
                    connection.execute(
                        "INSERT OR REPLACE INTO progress VALUES(?, ?, ?)",
                        (model, keys[name], lines),
                    )
        return changed

    def remove_places(self, model: int, conversation_id: str, lines: Iterable[int]) -> list[int]:
        """Remove texts from lines of a conversation, for one model. Return those that had any."""
        removed: list[int] = []
        with self._using() as connection:
            key = _key_of(connection, conversation_id)
            if key is None:
                return []
            for line in lines:
                where = (model, message_id(key, line))
                text = connection.execute(
                    "SELECT text FROM places WHERE model = ? AND place = ?", where
                ).get
                if text is not None:
                    connection.execute("DELETE FROM places WHERE model = ? AND place = ?", where)
                    self._texts.drop_unused([text])
                    self._has_restated = True
                    removed.append(line)
        return removed

    def forget_lines(self, conversation_id: str, lines: Collection[int]) -> int:
        """Remove the texts of lines for every model, from every page and the write-ahead log, and
        return how many there were. Vectors that are being computed for them are dropped.
        """
        self._removals.note(conversation_id, lines)
        return self._remove_lines(conversation_id, lines)

    def _remove_lines(self, conversation_id: str, lines: Collection[int]) -> int:
        """Remove the texts of lines for every model, from every page and the write-ahead log, and
        return how many there were.
        """
        with self._using() as connection:
            connection.execute("DELETE FROM parts WHERE conversation = ?", (conversation_id,))
            models = [row[0] for row in connection.execute("SELECT model FROM models")]
        removed = sum(len(self.remove_places(model, conversation_id, lines)) for model in models)
        self._wipe_gaps()
        return removed

    def remove(self, *conversation_ids: str) -> int:
        """Remove all data of conversations from every page and the write-ahead log, and return the
        number of removed vectors. Vectors that are being computed for them are dropped.

        It uses short transactions, so that embedding and reading can go on in between.
        """
        for conversation_id in conversation_ids:
            self._removals.note(conversation_id)
        return self.clear(*conversation_ids)

    def clear(self, *conversation_ids: str) -> int:
        """Remove all data of conversations, which may be embedded again. Return the number of
        removed vectors.
        """
        counts = [it for it in map(self._clear_one, conversation_ids) if it is not None]
        if counts:
            self._wipe_gaps()
        return sum(counts)

    def _clear_one(self, conversation_id: str) -> int | None:
        """Remove the rows of a conversation. Return the number of its vectors; None if it has no
        rows but those of long texts.
        """
        removed, is_whole = 0, False
        while not is_whole:
            with self._using() as connection:
                connection.execute("DELETE FROM parts WHERE conversation = ?", (conversation_id,))
                key = _key_of(connection, conversation_id)
                if key is None:
                    return None
                # For every model: a range of the second column of a key needs the first.
                places: list[tuple[int, int, int]] = connection.execute(
                    "SELECT model, place, text FROM places WHERE"
                    " model IN (SELECT model FROM models) AND place BETWEEN ? AND ? LIMIT ?",
                    (*id_range(key), _REMOVED),
                ).fetchall()  # type: ignore[assignment]  # the table's types
                connection.executemany(
                    "DELETE FROM places WHERE model = ? AND place = ?",
                    [place[:2] for place in places],
                )
                self._has_restated = True
                removed += self._texts.drop_unused(list({place[2] for place in places}))
                if is_whole := len(places) < _REMOVED:
                    connection.execute("DELETE FROM progress WHERE key = ?", (key,))
                    connection.execute("DELETE FROM conversations WHERE key = ?", (key,))
        return removed

    def _wipe_gaps(self) -> None:
        """Empty the write-ahead log, and wipe the copies of rows that pages keep, in parts. Who is
        in the way of that leaves it to the next removal.
        """
        wiped = Wiped.PART
        while wiped is Wiped.PART:
            with self._using(alone=True):
                wiped = self._gaps.wipe()

    @contextmanager
    def _to_read(self) -> Iterator[apsw.Connection]:
        """Yield the connection that reads beside the one that writes."""
        with self._reading, failures():
            if self._closed:
                raise VectorsUnavailable(f"{NAME} is closed")
            yield self._reader

    @contextmanager
    def _using(self, *, alone: bool = False) -> Iterator[apsw.Connection]:
        """Yield the connection, inside a transaction unless `alone`."""
        with self._guard, failures():
            if self._closed:
                raise VectorsUnavailable(f"{NAME} is closed")
            if alone:
                yield self._connection
            else:
                try:
                    with self._connection:
                        yield self._connection
                finally:
                    # behind the transaction: who reads beside it does not see what it has written
                    self.statements_version += self._has_restated
                    self._has_restated = False
