"""How what the legs of a search give becomes one order: of messages, and of conversations.

`fuse` is pure: for every candidate it is given what every leg says, whichever leg found it, as arrays of one value a candidate. A
value that is not known is nan: a leg that did not run, a message without a vector.

The weights are those of a sum of normalised scores that was tried on two sets of labelled questions (LoCoMo, RealMem), untuned.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked."""

    text: str
    now: int
    """Milliseconds since 1970: the end of the time that was asked about, else when the newest of the candidates was said."""


@dataclass(frozen=True, slots=True)
class MessageLegs:
    """The messages that were found, or stand next to one: arrays of shape [n], unless they say otherwise."""

    conversation: NDArray[np.int64]
    """Where its conversation stands in `ConversationLegs`."""
    keyword: Array
    """BM25; 0 without any of the words."""
    keyword_before: Array
    """Of the message right before it in the conversation, and of the one before that: [2, n]. 0 where there is none."""
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
    """When it was said, in milliseconds."""
    role: Array
    """Who spoke: `domain.marks.USER` and the others."""
    asked: Array
    """1 if the message before it has a question mark, else 0."""
    named: Array
    """1 if the question has its sender's first name, else 0."""


@dataclass(frozen=True, slots=True)
class ConversationLegs:
    """Their conversations, and those found by all their words or by their abbreviations: arrays of shape [m]."""

    keyword: Array
    """BM25 of all its words."""
    message_keyword: Array
    """BM25 of its best message."""
    user_keyword: Array
    """BM25 of its best message among those of users."""
    vector: Array
    """Cosine of its best message."""
    user_vector: Array
    """Cosine of its best message among those of users."""
    window: Array
    """Cosine of its best window."""
    vector_top: Array
    """Mean cosine of its best three pieces."""
    vector_mean: Array
    """Mean cosine of all its pieces."""
    mean_vector: NDArray[np.float32]
    """The mean of its pieces' vectors, of length 1: [m, 384]. Zeros where it has none."""
    abbreviation: Array
    """Cosine of its abbreviation's best piece; nan without one."""
    messages: Array
    """How many messages it has."""
    begin: Array
    """When it began, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Fused:
    """Scores from 0 to 1, the higher the better: of messages [n] and of conversations [m]."""

    messages: Array
    conversations: Array


# What is taken of each leg, for messages and for conversations.
_NEIGHBOUR = 0.3  # of the keyword score right before and right behind, in a message's own
_WINDOW = 0.5
_CONVERSATION = 0.4
_CONVERSATION_ALONE = 0.8  # where there are no vectors
_CONVERSATION_WINDOW = 0.3
_ABBREVIATION = 0.5
_NOTHING = 0.1  # a cosine as texts have that say nothing of each other


def fuse(question: Question, messages: MessageLegs, conversations: ConversationLegs) -> Fused:
    """Scores every candidate. Without any vectors it is BM25 of the words alone."""
    del question
    keyword = share(messages.keyword + _NEIGHBOUR * (messages.keyword_before[0] + messages.keyword_after[0]))
    whole = share(conversations.keyword)
    conversation_window = _spread(conversations.window)
    words_alone = bool(np.isnan(messages.vector).all() and np.isnan(conversations.vector).all())
    of_messages = (
        keyword
        + _spread(messages.vector)
        + _WINDOW * _spread(messages.window)
        + (_CONVERSATION_ALONE if words_alone else _CONVERSATION) * whole[messages.conversation]
        + _CONVERSATION_WINDOW * conversation_window[messages.conversation]
    )
    best = np.zeros(len(whole))
    np.maximum.at(best, messages.conversation, keyword)
    of_conversations = (
        whole + best + _spread(conversations.vector) + conversation_window + _ABBREVIATION * _spread(conversations.abbreviation)
    )
    return Fused(share(of_messages), share(of_conversations))


def _spread(cosines: Array) -> Array:
    """The cosines from 0, the lowest or `_NOTHING`, to 1, the highest; what is not known counts as the lowest."""
    known = cosines[~np.isnan(cosines)]
    low, high = min(known.min(initial=_NOTHING), _NOTHING), known.max(initial=-1.0)
    if high <= low:
        return np.zeros(len(cosines))
    return np.where(np.isnan(cosines), 0.0, (cosines - low) / (high - low))


def share(scores: Array) -> Array:
    """The scores divided by the highest."""
    top = float(scores.max(initial=0.0)) or 1.0
    return scores / top
