"""Words compared one by one: how near each word of a question comes to any word of a text.

A model begins with a vector for each of its word pieces, before it reads them in their order. A
word's vector is the sum of its pieces', so words are compared without a run of the model.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_TABLE = b"word_emb__q"  # as models/convert.py names it
# Numbers of the fields of an ONNX file (onnx.proto, which is protobuf)
_GRAPH, _INITIALIZER, _DATA_TYPE, _NAME, _RAW_DATA = 7, 5, 2, 8, 9
_INT8 = 3  # a tensor's data type
_WORD = re.compile(r"\w+")
_MARK = re.compile(r"\[.+\]")
_MOST_WORDS = 64  # words of a question that are compared
_MOST_PIECES = 128  # pieces of a text that are looked at, from its beginning
_MOST_CHARACTERS = 6 * _MOST_PIECES


class PieceVectors:
    """Static vectors of word pieces. Safe to call from any thread."""

    def __init__(self, table: NDArray[np.int8], tokenizer: Any) -> None:
        """`table` has a row for each piece of the tokenizer."""
        self._table = table
        lengths = np.sqrt(np.einsum("ij,ij->i", table, table, dtype=np.float32))
        self._scale: NDArray[np.float32] = np.reciprocal(np.where(lengths > 0, lengths, np.inf))
        self._tokenizer = tokenizer
        self._vocabulary: dict[str, int] = tokenizer.get_vocab()
        # Marks are near to nothing: every unknown character is the same one.
        self._scale[[at for name, at in self._vocabulary.items() if _MARK.fullmatch(name)]] = 0

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


def pieces_of(model: bytes, tokenizer: Any) -> PieceVectors | None:
    """Return the vectors of the pieces in an ONNX file. None if it has none that are quantised as
    those of the shipped model: then words are not compared.
    """
    count = tokenizer.get_vocab_size()
    for graph in _values(memoryview(model), _GRAPH):
        for tensor in _values(graph, _INITIALIZER):
            if [*_values(tensor, _NAME)] == [_TABLE] and [*_values(tensor, _DATA_TYPE)] == [_INT8]:
                data = b"".join(_values(tensor, _RAW_DATA))
                if data and len(data) % count == 0:
                    return PieceVectors(np.frombuffer(data, np.int8).reshape(count, -1), tokenizer)
    return None


def _values(message: memoryview, field: int) -> Iterator[Any]:
    """Yield the values of a field of a protobuf message: numbers, or views of bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        value: int | memoryview
        if key & 7 == 0:
            value, at = _varint(message, at)
        else:
            size, at = _varint(message, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value, at = message[at : at + size], at + size
        if key >> 3 == field:
            yield value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """Return the number that begins at a byte, and where it ends."""
    value = shift = 0
    while True:
        value |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 128:
            return value, at
