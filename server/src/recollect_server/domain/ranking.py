"""How keyword search ranks: messages by their words and their neighbours, conversations by all their words and their best part.

The formula is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) at two sizes of
document. The three mixing weights were chosen on two sets of labelled questions (LoCoMo, RealMem), where they lie on a plateau:
half or twice of each moves recall@10 by about one point. `bench/recall.py` measures what they give.
"""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

K1 = 1.2
"""How soon more occurrences of a word stop to matter. FTS5 uses the same value for messages."""
B = 0.75
"""How much a long document is held against itself. FTS5 uses the same value for messages."""
NEIGHBOUR = 0.3
"""What a message gets of the scores of the messages right before and right after it."""
CONVERSATION = 0.8
"""What a message gets of its conversation's score."""
BEST = 1.0
"""What a conversation gets of its best message's score."""

Scores = dict[int, float]


class Ranked(NamedTuple):  # made by the hundred: cheaper than a frozen dataclass
    """Something that was found, with its score from 0 to 1 and what it was made of."""

    id: int
    score: float
    parts: dict[str, float]


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


def highest(scores: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Where the highest scores are, highest first, of equal ones the first first; at most so many."""
    found = np.arange(len(scores))
    if len(scores) > most:
        found = np.flatnonzero(scores >= np.partition(scores, -most)[-most])
    return found[np.argsort(-scores[found], kind="stable")[:most]]


def normalised(scores: Mapping[int, float]) -> Scores:
    """The scores divided by the highest."""
    top = max(scores.values(), default=0.0) or 1.0
    return {key: score / top for key, score in scores.items()}


def with_neighbours(scores: Mapping[int, float], neighbours: Mapping[int, Iterable[int]]) -> Scores:
    """Every message's score with its share of its neighbours', divided by the highest.

    `neighbours` names for each scored message those right before and after it; one that has no score of its own gets one.
    """
    spread: Scores = dict(scores)
    for message, score in scores.items():
        for neighbour in neighbours.get(message, ()):
            spread[neighbour] = spread.get(neighbour, 0.0) + NEIGHBOUR * score
    return normalised(spread)


def fuse_conversations(whole: Mapping[int, float], best: Mapping[int, float]) -> dict[int, Ranked]:
    """Conversations by all their words (`whole`) and their best message (`best`), each from 0 to 1."""
    return {
        key: Ranked(
            key,
            (whole.get(key, 0.0) + BEST * best.get(key, 0.0)) / (1 + BEST),
            {"keyword_conversations": whole.get(key, 0.0), "keyword_messages": best.get(key, 0.0)},
        )
        for key in {*whole, *best}
    }


def fuse_messages(
    messages: Mapping[int, float], whole: Mapping[int, float], conversation_of: Mapping[int, int]
) -> dict[int, Ranked]:
    """Messages by their own score and their conversation's, each from 0 to 1."""
    return {
        key: Ranked(
            key,
            (score + CONVERSATION * (above := whole.get(conversation_of[key], 0.0))) / (1 + CONVERSATION),
            {"keyword_messages": score, "keyword_conversations": above},
        )
        for key, score in messages.items()
    }
