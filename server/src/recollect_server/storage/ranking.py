"""BM25 of whole conversations, and which of many scores are the highest. Of messages FTS5 gives
BM25 itself.

The formula is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond", 2009.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.ids import SEQUENCE_BITS

K1 = 1.2
"""Saturation of a word's frequency in BM25. FTS5 uses the same value for messages."""
B = 0.75
"""Weight of a document's length in BM25. FTS5 uses the same value for messages."""


class Postings(NamedTuple):
    """Occurrences of terms in messages: one value each, by term and then by message, ascending."""

    terms: NDArray[np.int64]
    """The place of the term among those of the query."""
    ids: NDArray[np.int64]
    """The id of the message."""

    def counts(self) -> "Counts":
        """Return how often each conversation has each of the terms."""
        numbers = self.ids >> SEQUENCE_BITS
        changes = np.ones(len(numbers), np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=changes[1:])
        changes[1:] |= self.terms[1:] != self.terms[:-1]
        first = np.flatnonzero(changes)
        return Counts(self.terms[first], numbers[first], np.diff(first, append=len(numbers)))


class Counts(NamedTuple):
    """Frequencies of terms in conversations: one value for each pair of the two that occurs."""

    terms: NDArray[np.int64]
    """The place of the term among those of the query."""
    numbers: NDArray[np.int64]
    """The number of the conversation."""
    frequencies: NDArray[np.int64]


def conversation_bm25(
    counts: Counts, lengths: NDArray[np.int64], total: int, mean_length: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the numbers, ascending, of the conversations that have any of the terms, and BM25 of
    all their words.

    `lengths` is indexed by conversation number, in bytes; `mean_length` is their mean over all
    `total` conversations.
    """
    terms, numbers, frequencies = counts
    # one that began this moment has no length yet
    if len(numbers) and numbers.max() >= len(lengths):
        inside = numbers < len(lengths)
        terms, numbers, frequencies = terms[inside], numbers[inside], frequencies[inside]
    # Between the odds of Robertson and Spärck Jones (FTS5 has those: a word in half of all
    # documents says nothing) and Lucene's 1 + odds: each alone costs one of the two sets one point
    # of any@10.
    spread = np.bincount(terms)
    idf = np.maximum(1e-6, np.log(0.5 + (total - spread + 0.5) / (spread + 0.5)))
    normal = K1 * (1 - B + B * lengths[numbers] / max(mean_length, 1.0))
    scores = np.bincount(
        numbers, idf[terms] * frequencies * (K1 + 1) / (frequencies + normal)
    ).astype(np.float64)
    chosen = np.flatnonzero(np.bincount(numbers))
    return chosen, scores[chosen]


def starts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each run of equal values begins. The values are sorted. `np.unique` sorts once
    more.
    """
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def among(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the values are in an array that ascends. `np.isin` sorts it once more."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    there: NDArray[np.bool_] = ascending.take(ascending.searchsorted(values), mode="clip") == values
    return there


def highest(scores: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the indices of the `most` highest scores, descending; ties keep input order."""
    indices = np.arange(len(scores))
    if len(scores) > most:
        indices = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
    return indices[np.argsort(-scores[indices], kind="stable")[:most]]
