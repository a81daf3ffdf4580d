"""Whitening: a question without what all messages of a space have in common.

The vectors of one person's messages lie along few directions: who speaks, in what tone, about the
subjects of every day. A cosine counts these most, though they tell no conversation from another. A
question is mapped by the inverse square root of the covariance within conversations, so that a
direction counts the less the more the messages of one conversation differ along it. The stored
vectors stay as they are (Kessy, Lewin and Strimmer, "Optimal whitening and decorrelation", 2018).

`docs/decisions/ranking.md` has the figures.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect_server.storage.ranking import starts

_MEAN = 0.5  # share of the mean that is taken off
# Added to each eigenvalue, of which the mean is 1: 300 entries say little of 384 dimensions.
_FLOOR = 0.5
_FLAT = 1e-9  # a variance below this is none

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
        """Return products with the vector on the scale of the cosines."""
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


def whitening_of(units: Array, owners: NDArray[np.int64]) -> Whitening | None:
    """Return the map of some messages: their unit vectors, and the conversation of each, ascending.
    None where those of one conversation are all alike.
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
