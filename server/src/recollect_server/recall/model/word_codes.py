"""Codes of word pieces: what a run of the model says of each piece of a text, in 32 bytes.

A text's vector is the mean of its pieces' vectors, so which word is near to which word of a
question is lost in it. A code keeps a piece's own vector, less the mean of all pieces: on the 128
main directions of pieces at 2 bits each, or on 256 at 1. The means and the directions are constants
of a model, made from openly licensed text by `models/word_codes.py` and `models/e5/word_codes.py`
(`bench/late-interaction.md`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

WIDTH = 32
"""Bytes of a code."""
# Best cuts and values of a normal distribution at 1 and 2 bits (Lloyd and Max), in standard
# deviations.
_CUTS = {1: (0.0,), 2: (0.0, -0.9816, 0.9816)}
_VALUES = {1: (-0.7979, 0.7979), 2: (-1.5104, -0.4528, 0.4528, 1.5104)}
_AT_ONCE = 1 << 18  # values of codes that fit into a processor's second cache: 1 MiB

Codes = NDArray[np.uint8]
"""Codes of the word pieces of a text, in its order: [n, 32]."""
NO_CODES: Codes = np.zeros((0, WIDTH), np.uint8)


@dataclass(frozen=True, slots=True)
class QuestionPieces:
    """The word pieces of a question, to be compared with the codes of a model."""

    words: tuple[str, ...]
    """The word that each piece is of, in small letters; empty of a sign."""
    columns: NDArray[np.float32]
    """Their vectors, scaled so that a product with the values of a code is that of the vectors:
    [directions, pieces].
    """
    squares: NDArray[np.float32]
    """Squares of the deviations of the directions."""
    of_byte: NDArray[np.float32]
    """The values that each byte of a code stands for: [256, 8 / bits]."""

    def cosines(self, codes: Codes) -> NDArray[np.float32]:
        """Return the cosine of each code with each piece of the question: [n, pieces]."""
        directions, pieces = self.columns.shape
        cosines = np.empty((len(codes), pieces), np.float32)
        at_once = _AT_ONCE // directions
        for start in range(0, len(codes), at_once):
            part = slice(start, start + at_once)
            # an index instead of `take` took eight times as long
            values = self.of_byte.take(codes[part], axis=0, mode="clip").reshape(-1, directions)
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
            of = {name: arrays[name].astype(np.float32) for name in arrays.files}
        self._mean, self._directions, self._deviations = (
            of[name] for name in ("mean", "directions", "deviations")
        )
        self._question_mean = of.get("question_mean", self._mean)
        self._bits = 8 * WIDTH // len(self._deviations)
        if self._bits not in _CUTS or self._directions.shape != (
            len(self._mean),
            8 * WIDTH // self._bits,
        ):
            raise ValueError("its directions are not those of word pieces")
        bits = np.arange(256)[:, None] >> np.arange(0, 8, self._bits) & (1 << self._bits) - 1
        self._of_byte = np.array(_VALUES[self._bits], np.float32)[bits]

    def codes(self, states: NDArray[np.float32]) -> Codes:
        """Return the codes of the pieces whose last hidden states these are."""
        values = self._values(states, self._mean) / self._deviations
        numbers = sum((values > cut).astype(np.uint8) for cut in _CUTS[self._bits])
        of_bytes = np.reshape(numbers, (-1, WIDTH, 8 // self._bits))
        shifts = np.arange(0, 8, self._bits, dtype=np.uint8)
        codes: Codes = np.bitwise_or.reduce(of_bytes << shifts, axis=2)
        return codes

    @property
    def directions(self) -> int:
        """Return the number of directions that a code keeps."""
        return len(self._deviations)

    def values(self, codes: Codes) -> NDArray[np.float32]:
        """Return the directions of pieces as far as their codes keep them, each of length 1:
        [n, directions].
        """
        return unit(self._of_byte[codes].reshape(-1, self.directions) * self._deviations)

    def values_of(self, question: QuestionPieces) -> NDArray[np.float32]:
        """Return the directions of the pieces of a question: [n, directions]."""
        return np.asarray(question.columns.T / self._deviations)

    def question(self, words: Sequence[str], states: NDArray[np.float32]) -> QuestionPieces:
        columns = self._values(states, self._question_mean) * self._deviations
        squares = self._deviations * self._deviations
        columns = np.ascontiguousarray(columns.T)
        return QuestionPieces(tuple(words), columns, squares, self._of_byte)

    def _values(
        self, states: NDArray[np.float32], mean: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        return unit(unit(unit(states) - mean) @ self._directions)


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
