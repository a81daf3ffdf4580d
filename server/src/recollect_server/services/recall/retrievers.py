"""Scores of the retrievers for every candidate, whichever retriever proposed it: arrays of one
value a candidate.

A value that is not known is nan: a leg that did not run, a message without a vector.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect_server.services.recall.dates import Mention

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """Question of a search."""

    text: str
    dates: tuple[Mention, ...] = ()
    """The dates that it names."""
    unsaid: float = 0.0
    """Share of its words, from 0 to 1, that nobody said and no message makes up for: near 1 where
    it is asked in other words than those of the answer (`fusion.unsaid`).
    """


@dataclass(frozen=True, slots=True)
class MessageLegs:
    """The messages that were found, or stand next to one: arrays of shape [n], unless they say
    otherwise.
    """

    conversation: NDArray[np.int64]
    """Index of its conversation in `ConversationLegs`."""
    keyword: Array
    """BM25; 0 without any of the words."""
    keyword_before: Array
    """Of the message right before it in the conversation, and of the one before that: [2, n]. 0
    where there is none.
    """
    keyword_after: Array
    """Of the two behind it: [2, n]."""
    vector: Array
    """Cosine to the question: of its best piece."""
    vector_before: Array
    """Of the message right before it."""
    vector_after: Array
    """Of the one right behind it."""
    window: Array
    """Cosine of the weighted mean of its vector and those of two messages before and two behind."""
    tokens: Array
    """About how long it is."""
    sequence: Array
    """Its line in the transcript."""
    time: Array
    """Time of the message, in milliseconds."""
    role: Array
    """Role: `domain.embedding.USER` and the others."""
    answers_question: Array
    """1 if the message before it has a question mark, else 0."""
    named: Array
    """1 if the question has its sender's first name, else 0."""


@dataclass(frozen=True, slots=True)
class ConversationLegs:
    """Their conversations, and those found by all their words or by their abbreviations: arrays of
    shape [m].
    """

    keyword: Array
    """BM25 of all its words."""
    message_keyword: Array
    """BM25 of its best message."""
    vector: Array
    """Cosine of its best message."""
    user_vector: Array
    """Cosine of its best message among those of users."""
    window: Array
    """Cosine of its best window."""
    vector_mean: Array
    """Mean cosine of all its pieces."""
    mean_vector: NDArray[np.float32]
    """The mean of its pieces' vectors, of length 1: [m, 384]. Zeros where it has none."""
    abbreviation: Array
    """Cosine of its abbreviation's best piece; nan without one."""
    messages: Array
    """Number of messages."""
    begin: Array
    """Time at which it began, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Fused:
    """Scores from 0 to 1, the higher the better: of messages [n] and of conversations [m]."""

    messages: Array
    conversations: Array
