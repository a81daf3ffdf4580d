"""Whitening: a question without what all messages of a space have in common.

The vectors of one person's messages lie along few directions: who speaks, in what tone, about the
subjects of every day. A cosine counts these most, though they tell no conversation from another. A
question is mapped by the inverse square root of the covariance within conversations, so that a
direction counts the less the more the messages of one conversation differ along it. The stored
vectors stay as they are (Kessy, Lewin and Strimmer, "Optimal whitening and decorrelation", 2018).

It is computed from the oldest messages (`Basis`), which are the same whatever order they came in: a
server that embeds all of its logs anew gives the same answers.

`docs/decisions/ranking.md` has the figures.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect_server.text.ranking import starts

_MEAN = 0.5  # share of the mean that is taken off
# Added to each eigenvalue, of which the mean is 1: 300 entries say little of 384 dimensions.
_FLOOR = 0.5
_FLAT = 1e-9  # a variance below this is none
LEAST_WHITENED = 300
"""Entries from which on there is a whitening. The smallest history measured has 369."""
_GROWTH = 1.25  # times as many entries: then more of them are the basis
_MOST = 16_384  # entries of the basis, about: what comes behind them costs nothing

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Whitened:
    """A question without what all messages have in common."""

    vector: NDArray[np.float32]
    """Of length 1."""
    scale: float
    """A product with the vector, times `scale`, plus `shift`, is on the scale of the cosines: over
    all messages it has their mean and their deviation.
    """
    shift: float

    def on_scale(self, products: Array) -> Array:
        return products * self.scale + self.shift


@dataclass(frozen=True, slots=True)
class Whitening:
    """The map of a space's questions."""

    mean: Array
    covariance: Array
    """Of all messages, whatever conversation they are of."""
    map: Array

    def apply(self, question: NDArray[np.float32]) -> Whitened | None:
        """Return a question without what all messages have in common; None if nothing is left."""
        raw = question.astype(np.float64)
        mapped = self.map @ (raw - _MEAN * self.mean)
        vector = mapped / (float(np.linalg.norm(mapped)) or 1.0)
        deviation = self._deviation(vector)
        if deviation < _FLAT:
            return None
        scale = self._deviation(raw) / deviation
        shift = float(self.mean @ raw - scale * (self.mean @ vector))
        return Whitened(vector.astype(np.float32), scale, shift)

    def _deviation(self, vector: Array) -> float:
        return math.sqrt(max(float(vector @ self.covariance @ vector), 0.0))


class Basis:
    """Entries that a whitening is computed from: the oldest ones, more of them the more there are.
    So what they are depends on nothing but the entries there are. Not safe to share.
    """

    def __init__(self) -> None:
        self._count = 0  # entries there are
        self._size = 0
        self._until = 0  # time of the newest one of the basis
        self._is_changed = False

    def add(self, times: NDArray[np.int64]) -> None:
        """Note entries of these times that were added."""
        self._count += len(times)
        self._is_changed |= bool(self._size and (times <= self._until).any())

    def remove(self, times: NDArray[np.int64]) -> None:
        """Note entries of these times that were removed."""
        self._count -= len(times)
        self._is_changed |= bool(self._size and (times <= self._until).any())

    def forget(self) -> None:
        """Forget what the basis is, so that a whitening is due again."""
        self._size = self._until = 0

    def is_due(self, *, settled: bool) -> bool:
        """Return whether the whitening must be computed: of more entries, or if no further ones are
        on their way (`settled`) of others.
        """
        size = _size(self._count)
        return size > self._size or (settled and (size != self._size or self._is_changed))

    def choose(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indices of the basis among the entries there are, ascending; none of few."""
        self._is_changed = False
        self._size = size = _size(min(self._count, len(times)))
        if not size:
            return np.zeros(0, np.int64)
        self._until = int(np.partition(times, size - 1)[size - 1])
        return np.flatnonzero(times <= self._until)


def _size(count: int) -> int:
    if count < LEAST_WHITENED:
        return 0
    size = LEAST_WHITENED
    while (larger := int(size * _GROWTH)) <= min(count, _MOST):
        size = larger
    return size


def whitening_of(units: Array, owners: NDArray[np.int64]) -> Whitening | None:
    """Return the map of some messages: their unit vectors, and the conversation of each, those of
    one side by side. None where those of one conversation are all alike.
    """
    mean = units.mean(axis=0)
    first = starts(owners)
    sizes = np.diff(first, append=len(owners))
    means = np.add.reduceat(units, first) / sizes[:, None]
    within = units - np.repeat(means, sizes, axis=0)
    spread = within.T @ within / len(units)
    covariance = units.T @ units / len(units) - np.outer(mean, mean)
    level = float(np.trace(spread)) / len(mean)
    if level < _FLAT:
        return None
    values, directions = np.linalg.eigh(spread / level)
    root = 1 / np.sqrt(np.asarray(values).clip(0) + _FLOOR)
    return Whitening(mean, covariance, (directions * root) @ directions.T)
