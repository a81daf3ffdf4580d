"""Learn the weights of the server's classifiers from labelled sentences, with numpy alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from recollect_server.recall.model.statement_classes import Network, Pieces

Vectors = NDArray[np.float32]
Classes = NDArray[np.int64]
_STEPS, _RATE = 600, 0.03
_HIDDEN, _SEVERAL, _EPOCHS, _BATCH, _STEP = 64, 3, 20, 128, 0.002
_DROPPED, _DECAY = (
    (0.3, 0.15),
    0.003,
)  # of a piece's directions, and of the features of a sentence


def softmax(logits: Vectors) -> Vectors:
    """Return the probability of each class: [n, classes]."""
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


class _Adam:
    """Adam's steps (Kingma and Ba, 2015) over several arrays."""

    def __init__(self, arrays: Sequence[NDArray[np.floating]], rate: float) -> None:
        self._arrays, self._rate, self._steps = arrays, rate, 0
        self._first = [np.zeros_like(it) for it in arrays]
        self._second = [np.zeros_like(it) for it in arrays]

    def step(self, slopes: Sequence[NDArray[np.floating]]) -> None:
        self._steps += 1
        rate = self._rate / (1 - 0.9**self._steps)
        of_second = 1 - 0.999**self._steps
        for array, slope, first, second in zip(
            self._arrays, slopes, self._first, self._second, strict=True
        ):
            first += 0.1 * (slope - first)
            second += 0.001 * (slope * slope - second)
            array -= rate * first / (np.sqrt(second / of_second) + 1e-8)


def regression(vectors: Vectors, classes: Classes, penalty: float) -> Vectors:
    """Return the weights of a softmax regression, the constant last: [features + 1, classes]."""
    centre, scale = _spread(vectors)
    inputs = np.c_[(vectors - centre) / scale, np.ones(len(vectors))]
    targets = np.eye(classes.max() + 1)[classes]
    weights = np.zeros((inputs.shape[1], classes.max() + 1))
    adam = _Adam([weights], _RATE)
    for _ in range(_STEPS):
        slope = inputs.T @ (softmax(inputs @ weights) - targets)
        slope[:-1] += penalty * weights[:-1]
        adam.step([slope / len(inputs)])
    return _scaled(weights, centre, scale)


def network(directions: Sequence[Vectors], marks: Vectors, classes: Classes) -> Network:
    """Return the network that tells the classes of sentences by their directions, [n, directions]
    each, and the marks of their writing: several that were learned alike side by side, with the
    mean of their logits, for one alone depends on where it began.
    """
    several = [_network(directions, marks, classes, seed) for seed in range(_SEVERAL)]
    of_hidden = 2 * _HIDDEN
    blocks = [it.classes[:of_hidden].reshape(2, _HIDDEN, -1) for it in several]
    of_all = np.concatenate(blocks, axis=1).reshape(_SEVERAL * of_hidden, -1) / _SEVERAL
    others = np.mean([it.classes[of_hidden:] for it in several], axis=0)
    return Network(np.hstack([it.hidden for it in several]), np.r_[of_all, others])


def _network(directions: Sequence[Vectors], marks: Vectors, classes: Classes, seed: int) -> Network:
    draw = np.random.default_rng(seed)
    centre, scale = _spread(Pieces.of(directions).values)
    marks_centre, marks_scale = _spread(marks)
    marks = (marks - marks_centre) / marks_scale
    targets = np.eye(classes.max() + 1, dtype=np.float32)[classes]
    means = directions[0].shape[1]  # of the directions themselves
    features_width = 2 * _HIDDEN + means + marks.shape[1]
    hidden = _drawn(draw, len(centre), _HIDDEN)
    out = _drawn(draw, features_width, targets.shape[1])
    adam = _Adam([hidden, out], _STEP)
    for _ in range(_EPOCHS):
        for batch in np.array_split(draw.permutation(len(classes)), len(classes) // _BATCH):
            pieces = Pieces.of([directions[at] for at in batch])
            mask = _kept(draw, (len(batch), len(centre)), _DROPPED[0])
            values = (pieces.values - centre) / scale * np.repeat(mask, pieces.counts, axis=0)
            above = values @ hidden[:-1] + hidden[-1]
            read = np.maximum(above, 0)
            largest = np.maximum.reduceat(read, pieces.starts)
            mask = _kept(draw, (len(batch), features_width), _DROPPED[1])
            of_all = np.c_[pieces.mean(read), largest, pieces.mean(values[:, :means]), marks[batch]]
            features = of_all * mask
            error = (softmax(features @ out[:-1] + out[-1]) - targets[batch]) / len(batch)
            slope = error @ out[:-1].T * mask
            of_mean = slope[:, :_HIDDEN] / pieces.counts[:, None]
            of_largest = np.repeat(slope[:, _HIDDEN : 2 * _HIDDEN], pieces.counts, axis=0)
            is_largest = read == np.repeat(largest, pieces.counts, axis=0)
            inner = np.repeat(of_mean, pieces.counts, axis=0) + of_largest * is_largest
            inner *= above > 0
            adam.step([_slope(values, inner, hidden), _slope(features, error, out)])
    zeros, ones = np.zeros(2 * _HIDDEN), np.ones(2 * _HIDDEN)
    return Network(
        _scaled(hidden, centre, scale),
        _scaled(
            out,
            np.r_[zeros, centre[:means], marks_centre],
            np.r_[ones, scale[:means], marks_scale],
        ),
    )


def _spread(values: Vectors) -> tuple[Vectors, Vectors]:
    return values.mean(axis=0), values.std(axis=0) + 1e-6


def _drawn(draw: np.random.Generator, inputs: int, outputs: int) -> Vectors:
    weights = draw.normal(0, inputs**-0.5, (inputs, outputs))
    return np.asarray(np.r_[weights, np.zeros((1, outputs))], np.float32)


def _kept(draw: np.random.Generator, shape: tuple[int, int], dropped: float) -> Vectors:
    return np.asarray((draw.random(shape) >= dropped) / (1 - dropped), np.float32)


def _slope(inputs: NDArray[np.floating], error: NDArray[np.floating], weights: Vectors) -> Vectors:
    return np.asarray(
        np.r_[inputs.T @ error + _DECAY * weights[:-1], error.sum(axis=0)[None]], np.float32
    )


def _scaled(weights: Vectors, centre: Vectors, scale: Vectors) -> Vectors:
    """Return weights of inputs that were not centred and scaled."""
    scaled = weights[:-1] / scale[:, None]
    return np.asarray(np.r_[scaled, weights[-1:] - centre @ scaled], np.float32)
