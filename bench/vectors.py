"""Vectors for corpora that no model could embed in time: put into the file of vectors directly, as
if they had been worked out.

Each conversation's lie around the vector of one of the questions, at a cosine of about 0.5 to it,
so that a question has as many near messages as real ones do; the codes of their word pieces are of
chance. What this leaves out is the time to embed; `bench.meaning` measures that.
"""

from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray
from recollect_server.kernel.domain.ids import SEQUENCE_BITS, number_of, sequence_of
from recollect_server.kernel.index import checking as index_checking
from recollect_server.kernel.index.file import NAME
from recollect_server.recall.embedding.missing_codes import CODES
from recollect_server.recall.model.embedder import Embedder, quantised
from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.model.weights import look, shipped
from recollect_server.recall.model.word_codes import WIDTH, unit
from recollect_server.recall.vectors import checking as vectors_checking
from recollect_server.recall.vectors.matrix import Matrix
from recollect_server.recall.vectors.store import EmbeddedText, VectorStore

FLAGS = ("--embedder", "onnx", "--embedding-models", "minilm")
"""Flags of a server over made-up vectors: with another model beside this one it would embed all
texts anew, and be measured at that work.
"""
_PART = 20_000
_PIECES = 41  # word pieces of a message, as in LoCoMo


def made_up(embedder: Embedder, folder: Path, questions: list[str]) -> None:
    """Write a vector for every message that is indexed in a folder whose server is stopped."""
    centres = embedder.embed(questions)
    index = apsw.Connection(str(folder / NAME), flags=apsw.SQLITE_OPEN_READONLY)
    epoch = str(index.execute("SELECT value FROM identity WHERE name = 'epoch'").get)
    query = "SELECT c.number, c.id, p.lines FROM conversations c JOIN progress p USING (number)"
    ids = {row[0]: (str(row[1]), int(str(row[2]))) for row in index.execute(query)}
    store = VectorStore(folder)
    model = store.model(embedder.identity, embedder.folder)
    store.serve(model)
    store.progress(model, epoch)
    store.note(CODES, embedder.words_identity)
    randomness = np.random.default_rng(3)
    rows = index.execute("SELECT id, time FROM messages ORDER BY id")
    while part := [row for _, row in zip(range(_PART), rows, strict=False)]:
        numbers = np.array([row[0] for row in part], np.int64) >> SEQUENCE_BITS
        noise = (
            randomness.standard_normal((len(part), centres.shape[1]), np.float32)
            / centres.shape[1] ** 0.5
        )
        vectors = quantised(unit(0.6 * centres[numbers % len(centres)] + noise))
        places = [
            EmbeddedText(
                ids[number_of(identity)][0],
                sequence_of(identity),
                time,
                1 + identity % 2,
                identity.to_bytes(16, "big"),
                vector[None, :],
                randomness.bytes(_PIECES * WIDTH),
            )
            for (identity, time), vector in zip(part, vectors, strict=True)
        ]
        store.add(
            model, places, {ids[number][0]: ids[number][1] for number in set(numbers.tolist())}
        )
    index.close()
    store.close()


def expect_nothing_embedded(folder: Path) -> None:
    """Raise SystemExit if the server over a folder embeds anew what was made up: its figures would
    be those of a server at work.
    """
    made, indexed = vectors_checking.state_of(folder).lines, index_checking.state_of(folder).lines
    if made != indexed:
        raise SystemExit(f"the server embeds what is in {folder} while it is measured")


def matrix_of(folder: Path) -> tuple[Matrix, NDArray[np.float32]]:
    """Return the copy that a search reads, and all its vectors as floats of length 1 for the plain
    scan.
    """
    store = VectorStore(folder)
    served = store.served()
    assert served is not None
    loaded = store.load(served[0])
    order = np.argsort(loaded.rows)
    matrix = Matrix(SEQUENCE_BITS)
    matrix.load(
        loaded.places,
        loaded.times,
        loaded.marks,
        (
            (order[np.searchsorted(loaded.rows[order], rows)], vectors)
            for rows, vectors in store.chunks()
        ),
    )
    store.close()
    floats = np.empty((len(matrix), DIMENSIONS), np.float32)
    for start in range(0, len(matrix), _PART):
        entries = np.arange(start, min(len(matrix), start + _PART))
        floats[entries] = unit(matrix.view().rows.get(entries))
    return matrix, floats


def model() -> Embedder:
    """Return the model that comes with the server."""
    return Embedder(look(shipped()))
