"""One question to the matrices of several models, whose cosines are brought to one scale.

A message has its vectors in the matrix of one model, or in both: then the mean of both counts. Each
model has a factor that its cosines are multiplied by; the hyperbolic tangent of the product keeps
their order and stays below 1. A factor of 1 is the model whose scale it is.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.vectors.scan import Cosines, Near, Scan, Scores
from recollect_server.text.ranking import union


class JointScan:
    """Scores of several scans for one question, as a `Scan` has them."""

    def __init__(self, parts: Sequence[tuple[Scan, float]]) -> None:
        """`parts` are the scans, each with the factor of its cosines."""
        self._parts = parts

    def nearest(self, most: int) -> Scores:
        return self._best(lambda scan: scan.nearest(most), lambda ids: self.of(ids)[0], most)

    def nearest_of(self, start: int, end: int, most: int) -> Scores:
        """Return the nearest ids of those that were said in some time, `end` excluded."""
        return self._best(
            lambda scan: scan.nearest_of(start, end, most), lambda ids: self.of(ids)[0], most
        )

    def within(self, number: int, most: int) -> Scores:
        """Return the nearest ids of one conversation."""
        return self._best(lambda scan: scan.within(number, most), lambda ids: self.of(ids)[0], most)

    def of(self, ids: NDArray[np.int64]) -> tuple[Scores, NDArray[np.int64]]:
        """Return how near these are, ascending by id, and their marks."""
        answers = [scan.of(ids) for scan, _ in self._parts]
        scores = self._mean([scores for scores, _ in answers])
        marks = np.zeros(len(scores.ids), np.int64)
        for part, part_marks in answers:
            marks[np.searchsorted(scores.ids, part.ids)] = part_marks
        return scores, marks

    def best_piece(self, identity: int) -> tuple[int, int]:
        """Return which piece of a message is nearest, from 0, and how many pieces it has: (0, 1) of
        one without a vector.
        """
        return max((scan.best_piece(identity) for scan, _ in self._parts), key=lambda it: it[1])

    def best_of(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], Cosines]:
        """Return the conversations, ascending, that have a vector, and the cosine of the best piece
        of each.
        """
        answers = [scan.best_of(numbers) for scan, _ in self._parts]
        names = union(*(names for names, _ in answers))
        values = self._spread(names, answers)
        return names, np.fmax.reduce(values, axis=0)

    @property
    def is_whitened(self) -> bool:
        """Return whether of any matrix it is known what all messages have in common."""
        return any(scan.is_whitened for scan, _ in self._parts)

    def whitened_of(self, ids: NDArray[np.int64]) -> Scores:
        """Return how near these messages are by that question."""
        return self._mean([scan.whitened_of(ids) for scan, _ in self._parts])

    def conversations(self, numbers: NDArray[np.int64]) -> Near:
        """Return how near these conversations are, but for those without a vector. The mean vector
        is that of the model to which a conversation is nearest.
        """
        near = [scan.conversations(numbers) for scan, _ in self._parts]
        names = union(*(it.numbers for it in near))
        best, whitened = (
            self._spread(names, [(it.numbers, getattr(it, column)) for it in near])
            for column in ("best", "whitened")
        )
        nearest = np.where(np.isnan(best), -np.inf, best).argmax(axis=0)
        vectors = np.zeros((len(names), DIMENSIONS), np.float32)
        for number, it in enumerate(near):
            at = np.searchsorted(names, it.numbers)
            chosen = nearest[at] == number
            vectors[at[chosen]] = it.mean_vector[chosen]
        return Near(
            names,
            np.fmax.reduce(best, axis=0),
            vectors,
            np.fmax.reduce(whitened, axis=0),
        )

    def _best(
        self,
        choose: Callable[[Scan], Scores],
        score: Callable[[NDArray[np.int64]], Scores],
        most: int,
    ) -> Scores:
        """Return the best of what any scan chooses, by their common scores, best first."""
        scores = score(union(*(choose(scan).ids for scan, _ in self._parts)))
        order = np.lexsort((scores.ids, -scores.cosines))[:most]
        return Scores(scores.ids[order], scores.cosines[order])

    def _mean(self, answers: Sequence[Scores]) -> Scores:
        names = union(*(it.ids for it in answers))
        return Scores(names, _known_mean(self._spread(names, answers)))

    def _spread(
        self, names: NDArray[np.int64], answers: Sequence[tuple[NDArray[np.int64], Cosines]]
    ) -> Cosines:
        """Return the scans' values on the common scale, of shape [scans, n]; nan for none."""
        values = np.full((len(answers), len(names)), np.nan)
        for row, (own, cosines), (_, factor) in zip(values, answers, self._parts, strict=True):
            scaled = cosines if factor == 1 else np.tanh(factor * cosines)
            row[np.searchsorted(names, own)] = scaled
        return values


def _known_mean(values: Cosines) -> Cosines:
    """Return the mean of the values that are known in each column."""
    present = ~np.isnan(values)
    mean: Cosines = np.where(present, values, 0).sum(axis=0) / np.maximum(present.sum(axis=0), 1)
    return mean
