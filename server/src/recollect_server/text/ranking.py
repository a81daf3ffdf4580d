"""BM25 of messages and of whole conversations, and which of many scores are the highest.

The formula is that of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond", 2009.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.ids import SEQUENCE_BITS

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
    is_cut: bool = False
    """True if there are more than the budget of a query allows."""

    def counts(self) -> "Counts":
        """Return how often each conversation has each of the terms."""
        numbers = self.ids >> SEQUENCE_BITS
        first = starts(numbers, self.terms)
        return Counts(self.terms[first], numbers[first], np.diff(first, append=len(numbers)))


class Bm25(NamedTuple):
    """BM25 of messages by id: arrays of shape [n], the ids ascending."""

    ids: NDArray[np.int64]
    scores: NDArray[np.float64]

    def best(self, most: int) -> NDArray[np.int64]:
        """Return the ids of the highest scores, highest first; of equal ones the lower id first."""
        best: NDArray[np.int64] = self.ids[np.lexsort((self.ids, -self.scores))[:most]]
        return best

    def joined(self, more: "Bm25") -> "Bm25":
        """Return these scores, and of the others those whose ids are not among them."""
        new = np.isin(more.ids, self.ids, invert=True)
        ids = np.concatenate([self.ids, more.ids[new]])
        order = np.argsort(ids)
        return Bm25(ids[order], np.concatenate([self.scores, more.scores[new]])[order])


class Counts(NamedTuple):
    """Frequencies of terms in conversations: one value for each pair of the two that occurs."""

    terms: NDArray[np.int64]
    """The place of the term among those of the query."""
    numbers: NDArray[np.int64]
    """The number of the conversation."""
    frequencies: NDArray[np.int64]


def conversation_bm25(
    counts: Counts,
    lengths: NDArray[np.int64],
    total: int,
    mean_length: float,
    spread: NDArray[np.int64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the numbers, ascending, of the conversations that have any of the terms, and BM25 of
    all their words.

    `lengths` is indexed by conversation number, in bytes; `mean_length` is their mean over all
    `total` conversations. `spread` is how many of them have each term, where `counts` are not of
    all.
    """
    terms, numbers, frequencies = counts
    # one that began this moment has no length yet
    if len(numbers) and numbers.max() >= len(lengths):
        inside = numbers < len(lengths)
        terms, numbers, frequencies = terms[inside], numbers[inside], frequencies[inside]
    # Between the odds of Robertson and Spärck Jones (FTS5 has those: a word in half of all
    # documents says nothing) and Lucene's 1 + odds: each alone costs one of the two sets one point
    # of any@10.
    if spread is None:
        spread = np.bincount(terms)
    # While a conversation is deleted, words of it may be counted that `total` counts no more.
    others = np.maximum(total - spread, 0)
    idf = np.maximum(1e-6, np.log(0.5 + (others + 0.5) / (spread + 0.5)))
    values = idf[terms] * saturation(frequencies, lengths[numbers] / max(mean_length, 1.0))
    scores = np.bincount(numbers, values).astype(np.float64)
    chosen = np.flatnonzero(np.bincount(numbers))
    return chosen, scores[chosen]


def saturation(frequencies: NDArray[np.int64], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what terms of these frequencies count in documents, whose lengths are given by the
    mean.
    """
    normal = K1 * (1 - B + B * lengths)
    values: NDArray[np.float64] = frequencies * (K1 + 1) / (frequencies + normal)
    return values


def rarity(frequency: int, total: int) -> float:
    """Return the inverse document frequency of a word as FTS5's BM25 has it."""
    return max(1e-6, math.log((max(total, frequency) - frequency + 0.5) / (frequency + 0.5)))


def starts(values: NDArray[np.int64], more: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return where each run of equal values begins, or of equal pairs with those of `more`. The
    values are sorted. `np.unique` sorts once more.
    """
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    if more is not None:
        changes[1:] |= more[1:] != more[:-1]
    return np.flatnonzero(changes)


def union(*parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is in any of the arrays, ascending, each once. Faster than `np.unique`."""
    joined = np.concatenate(parts)
    joined.sort()
    once: NDArray[np.int64] = joined[starts(joined)]
    return once


def among(values: NDArray[np.int64], ascending: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the values are in an array that ascends. `np.isin` sorts it once more."""
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    there: NDArray[np.bool_] = ascending.take(ascending.searchsorted(values), mode="clip") == values
    return there


def highest(scores: NDArray[np.floating] | NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Return the indices of the `most` highest scores, descending; ties keep input order."""
    indices = np.arange(len(scores))
    if len(scores) > most:
        indices = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
    return indices[np.argsort(-scores[indices], kind="stable")[:most]]
