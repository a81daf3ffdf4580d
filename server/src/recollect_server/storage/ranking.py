"""BM25 of whole conversations, and which of many scores are the highest. Of messages FTS5 gives BM25 itself.

The formula is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
"""How soon more occurrences of a word stop to matter. FTS5 uses the same value for messages."""
B = 0.75
"""How much a long document is held against itself. FTS5 uses the same value for messages."""


def conversation_bm25(
    counts: Iterable[tuple[NDArray[np.int64], NDArray[np.int64]]],
    lengths: NDArray[np.int64],
    total: int,
    mean_length: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """BM25 of whole conversations.

    `counts` has for every word the numbers of the conversations that have it and how often, both of shape [n]. `lengths` is
    indexed by conversation number, in bytes; `mean_length` is their mean over all `total` conversations. Returns the numbers,
    ascending, of the conversations that have any of the words, and their scores.
    """
    scores = np.zeros(len(lengths))
    found = np.zeros(len(lengths), dtype=bool)
    for all_numbers, all_frequencies in counts:
        inside = all_numbers < len(lengths)  # one that began this moment has no length yet
        numbers, frequencies = all_numbers[inside], all_frequencies[inside]
        # Between the odds of Robertson and Spärck Jones (FTS5 has those: a word in half of all documents says nothing) and
        # Lucene's 1 + odds: each alone costs one of the two sets one point of any@10.
        idf = max(1e-6, math.log(0.5 + (total - len(numbers) + 0.5) / (len(numbers) + 0.5)))
        normal = K1 * (1 - B + B * lengths[numbers] / max(mean_length, 1.0))
        scores[numbers] += idf * frequencies * (K1 + 1) / (frequencies + normal)
        found[numbers] = True
    chosen = np.flatnonzero(found)
    return chosen, scores[chosen]


def starts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each run of equal values begins. The values are sorted. `np.unique` sorts once more."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def highest(scores: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Where the highest scores are, highest first, of equal ones the first first; at most so many."""
    found = np.arange(len(scores))
    if len(scores) > most:
        found = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
    return found[np.argsort(-scores[found], kind="stable")[:most]]
