"""Words compared one by one: how near each word of a question comes to any word of a text.

`pieces.npy` beside a model has a static vector for each of its word pieces (`models/pieces.py`
makes it). A word's vector is the sum of its pieces', so words are compared without a run of the
model.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import structlog
from numpy.typing import NDArray

from recollect_server.inference.weights import SUMS

log = structlog.get_logger("recollect.meaning")

FILE = "pieces.npy"
_WORD = re.compile(r"\w+")
_MOST_WORDS = 64  # words of a question that are compared
_MOST_PIECES = 128  # pieces of a text that are looked at, from its beginning
_MOST_CHARACTERS = 6 * _MOST_PIECES


class PieceVectors:
    """Static vectors of word pieces. Safe to call from any thread."""

    def __init__(self, table: NDArray[np.int8], tokenizer: Any) -> None:
        """`table` has a row for each piece of the tokenizer."""
        self._table = table
        lengths = np.linalg.norm(table.astype(np.float32), axis=1)
        self._scale: NDArray[np.float32] = (1 / np.where(lengths > 0, lengths, 1)).astype(
            np.float32
        )
        self._tokenizer = tokenizer
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()

    def nearest(self, words: Sequence[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the highest cosine of each word to any piece of each text, of shape [words,
        texts]; 0 of a text without pieces. Of a long text only the beginning is looked at.
        """
        shape = min(len(words), _MOST_WORDS), len(texts)
        queries = self._words(words[:_MOST_WORDS])
        pieces = self._pieces([text[:_MOST_CHARACTERS] for text in texts])
        counts = np.array([len(of) for of in pieces])
        if not counts.any() or not len(queries):
            return np.zeros(shape, np.float32)
        distinct, places = np.unique(np.concatenate(pieces), return_inverse=True)
        cosines = (queries @ self._units(distinct).T)[:, places]
        nearest = np.zeros(shape, np.float32)
        starts = np.cumsum(counts) - counts
        nearest[:, counts > 0] = np.maximum.reduceat(cosines, starts[counts > 0], axis=1)
        return np.maximum(nearest, 0)

    def _words(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector of length 1 for each word; zero for one without known pieces."""
        sums = np.zeros((len(words), self._table.shape[1]), np.float32)
        for row, pieces in zip(sums, self._pieces(words), strict=True):
            row += self._units(pieces).sum(axis=0)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)

    def _units(self, pieces: NDArray[np.int64]) -> NDArray[np.float32]:
        return self._table[pieces].astype(np.float32) * self._scale[pieces, None]

    def _pieces(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        # Most words are pieces themselves. To cut whole texts took four times as long.
        words = [_WORD.findall(text.lower())[:_MOST_PIECES] for text in texts]
        vocabulary = self._vocabulary
        others = [*dict.fromkeys(it for of in words for it in of if it not in vocabulary)]
        encoded = self._tokenizer.encode_batch_fast(others, add_special_tokens=False)
        cut = {word: it.ids for word, it in zip(others, encoded, strict=True)}
        return [
            np.array(
                [piece for it in of for piece in (cut.get(it) or (vocabulary[it],))][:_MOST_PIECES],
                np.int64,
            )
            for of in words
        ]


def read_pieces(folder: Path, tokenizer: Any) -> PieceVectors | None:
    """Return the vectors of the pieces of the model in a folder. None if it has none, or if the
    file is not the one that its sums name: then words are not compared.
    """
    try:
        sums = (folder / SUMS).read_text(encoding="utf-8", errors="replace").splitlines()
        if not any(line.endswith(f"  {FILE}") for line in sums):
            return None
        body = (folder / FILE).read_bytes()
        if f"{hashlib.sha256(body).hexdigest()}  {FILE}" not in sums:
            log.warning("pieces_refused", reason=f"{FILE} is not the file that {SUMS} names")
            return None
        table = np.load(folder / FILE)
    except (OSError, ValueError) as error:
        log.warning("pieces_unread", reason=str(error))
        return None
    if table.ndim != 2 or len(table) != tokenizer.get_vocab_size():
        log.warning("pieces_refused", reason=f"{FILE} is of another model")
        return None
    return PieceVectors(table, tokenizer)
