"""Codes of word pieces: what a run of the model says of each piece of a text, in 32 bytes.

A text's vector is the mean of its pieces' vectors, so which word is near to which word of a
question is lost in it. A code keeps a piece's own vector: less the mean of all pieces, on the 128
main directions of pieces, at 2 bits a direction. The mean and the directions are constants of a
model, made from openly licensed text by `models/word_codes.py`
(`docs/decisions/late-interaction.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

DIRECTIONS = 128
WIDTH = DIRECTIONS // 4
"""Bytes of a code."""
# Best cuts and values of a normal distribution at 2 bits (Lloyd and Max), in standard deviations.
_CUT = 0.9816
_VALUES = np.array([-1.5104, -0.4528, 0.4528, 1.5104], np.float32)
_AT_ONCE = 2048  # codes whose values fit into a processor's second cache: 1 MiB

Codes = NDArray[np.uint8]
"""Codes of the word pieces of a text, in its order: [n, 32]."""
NO_CODES: Codes = np.zeros((0, WIDTH), np.uint8)


def _values_of_bytes() -> NDArray[np.float32]:
    """Return the four values that each byte stands for: [256, 4]."""
    bits = np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3
    return np.asarray(_VALUES[bits])


_OF_BYTE = _values_of_bytes()


@dataclass(frozen=True, slots=True)
class QuestionPieces:
    """The word pieces of a question, to be compared with the codes of a model."""

    words: tuple[str, ...]
    """The word that each piece is of, in small letters; empty of a sign."""
    columns: NDArray[np.float32]
    """Their vectors, scaled so that a product with the values of a code is that of the vectors:
    [128, pieces].
    """
    squares: NDArray[np.float32]
    """Squares of the deviations of the directions: [128]."""

    def cosines(self, codes: Codes) -> NDArray[np.float32]:
        """Return the cosine of each code with each piece of the question: [n, pieces]."""
        cosines = np.empty((len(codes), self.columns.shape[1]), np.float32)
        for start in range(0, len(codes), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            # an index instead of `take` took eight times as long
            values = _OF_BYTE.take(codes[part], axis=0, mode="clip").reshape(-1, DIRECTIONS)
            np.matmul(values, self.columns, out=cosines[part])
            values *= values
            cosines[part] /= np.sqrt(values @ self.squares)[:, None]
        return cosines


class WordCodes:
    """The constants of a model."""

    def __init__(self, file: bytes) -> None:
        """Read them from a file of numpy's. Raises ValueError, KeyError, BadZipFile."""
        self.identity = blake2b(file, digest_size=8).hexdigest()
        """Another one is of other constants: their codes cannot be compared."""
        with np.load(BytesIO(file), allow_pickle=False) as arrays:
            self._mean = arrays["mean"].astype(np.float32)
            self._directions = arrays["directions"].astype(np.float32)
            self._deviations = arrays["deviations"].astype(np.float32)
        if self._directions.shape != (len(self._mean), DIRECTIONS):
            raise ValueError("its directions are not those of word pieces")

    def codes(self, states: NDArray[np.float32]) -> Codes:
        """Return the codes of the pieces whose last hidden states these are."""
        values = self._values(states) / self._deviations
        numbers = (values > 0).astype(np.uint8) + (values > -_CUT) + (values > _CUT)
        fours = numbers.reshape(-1, WIDTH, 4)
        codes: Codes = np.bitwise_or.reduce(fours << np.arange(0, 8, 2, dtype=np.uint8), axis=2)
        return codes

    def question(self, words: Sequence[str], states: NDArray[np.float32]) -> QuestionPieces:
        columns = self._values(states) * self._deviations
        return QuestionPieces(
            tuple(words), np.ascontiguousarray(columns.T), self._deviations * self._deviations
        )

    def _values(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        return unit(unit(unit(states) - self._mean) @ self._directions)


def joined(parts: Sequence[Codes], overlap: int) -> Codes:
    """Return the codes of a text whose parts have so many word pieces in common with the next."""
    if len(parts) < 2:
        return parts[0] if parts else NO_CODES
    half = overlap // 2
    return np.concatenate([
        part[half if at else 0 : len(part) - half if at < len(parts) - 1 else None]
        for at, part in enumerate(parts)
    ])  # fmt: skip


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the vectors scaled to length 1 along the last axis; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)
