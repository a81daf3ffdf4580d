"""Scores of the retrievers for every candidate, whichever retriever proposed it: arrays of one
value a candidate.

A value that is not known is nan: a leg that did not run, a message without a vector.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.index.conversations import Outline
from recollect_server.recall.dates.dates import Mention
from recollect_server.recall.meaning import Scans
from recollect_server.recall.model.marks import DIMENSIONS, name_hash, names, roles, senders
from recollect_server.recall.search import Messages
from recollect_server.text.ranking import Bm25, among, union
from recollect_server.text.words import MAX_WORDS

Array = NDArray[np.float64]
_AROUND = np.arange(-2, 3)[:, None]  # of a message: the two before it, itself, the two behind it
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    dates: tuple[Mention, ...] = ()
    unsaid: float = 0.0
    """Share of its words, from 0 to 1, that nobody said and no message makes up for: near 1 where
    it is asked in other words than those of the answer (`fusion.unsaid`).
    """
    looking_back: NDArray[np.bool_] | None = None
    """Which candidates, of shape [n], name a day of the question from behind it; None: no one."""


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
    tokens: Array
    """About how long it is."""
    sequence: Array
    """Its line in the transcript."""
    time: Array
    """Time of the message, in milliseconds."""
    role: Array
    """Role: `recall.model.marks.USER` and the others."""
    sender: Array
    """A number for its sender (`recall.model.marks.senders`)."""
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
    mean_vector: NDArray[np.float32]
    """The mean of its pieces' vectors, of length 1: [m, 384]. Zeros where it has none."""
    abbreviation: Array
    """Cosine of its abbreviation's best piece; nan without one."""
    messages: Array
    begin: Array
    """Time at which it began, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Words of the best messages, compared with those of the question: arrays of shape [n]."""

    near: Array
    """Nearness of each message; nan of one that was not compared."""
    lacking: NDArray[np.bool_]
    """True of a message that would have been compared and has no codes: it is not embedded yet, or
    by another model.
    """
    even: Array
    """Nearness of all words of the question, of which the least near count most: one shared word or
    name alone is little. nan as in `near`.
    """
    is_across: NDArray[np.bool_]
    """True of a message that the model of other languages compared."""

    @property
    def across(self) -> float:
        """Return the share of these among those that were compared; 0 of none."""
        compared = np.count_nonzero(~np.isnan(self.near))
        return np.count_nonzero(self.is_across) / compared if compared else 0.0


@dataclass(frozen=True, slots=True)
class Fused:
    """Scores from 0 to 1, the higher the better: of messages [n] and of conversations [m]."""

    messages: Array
    conversations: Array


@dataclass(frozen=True, slots=True)
class Values:
    """Values by name, to be asked for many names at once."""

    names: NDArray[np.int64]
    """Ascending."""
    values: NDArray[np.floating] | NDArray[np.int64]

    def of(self, names: NDArray[np.int64], missing: float = np.nan) -> Array:
        """Return the values of these names, and `missing` for each name without one."""
        if not len(self.names):
            return np.full(names.shape, missing, np.float64)
        at = self.names.searchsorted(names)
        return np.where(
            self.names.take(at, mode="clip") == names, self.values.take(at, mode="clip"), missing
        )


def message_legs(
    query: str, messages: Messages, numbers: NDArray[np.int64], keyword: Bm25, scans: Scans | None
) -> MessageLegs:
    """Return what each leg says of these messages; `numbers` are those of the conversations that
    they are of, ascending.
    """
    ids = messages.ids
    words = Values(keyword.ids, keyword.scores).of(ids + _AROUND, 0)
    vectors = np.full((2, len(ids)), np.nan)
    own = np.full(len(ids), -1)
    if scans:
        beside = ids + _AROUND[1:3]
        scores, marked = scans.messages.of(union(*beside))
        vectors = Values(scores.ids, scores.cosines).of(beside)
        own = Values(scores.ids, marked).of(ids, -1).astype(np.int64)
    return MessageLegs(
        conversation=np.searchsorted(numbers, messages.numbers),
        keyword=words[2],
        keyword_before=words[1::-1],
        keyword_after=words[3:],
        vector=vectors[1],
        vector_before=vectors[0],
        tokens=messages.tokens.astype(np.float64),
        sequence=messages.sequences.astype(np.float64),
        time=messages.times.astype(np.float64),
        role=np.where(own < 0, np.nan, roles(own)),
        sender=np.where(own < 0, np.nan, senders(own)),
        named=np.where(own < 0, np.nan, _named(own, query)),
    )


def _named(marks: NDArray[np.int64], question: str) -> NDArray[np.bool_]:
    """Return for each message whether the question has its sender's first name among its first
    words.
    """
    first = islice(dict.fromkeys(_WORD.findall(question.lower())), MAX_WORDS)
    return among(names(marks), np.sort(np.array([*map(name_hash, first)], np.int64)))


def conversation_legs(
    conversations: list[Outline],
    numbers: NDArray[np.int64],
    whole: Values,
    messages: MessageLegs,
    scans: Scans | None,
) -> tuple[ConversationLegs, ConversationLegs]:
    """Return the legs of the conversations twice: with the cosines as they are, from which scores
    are made, and with whitened cosines, by which the conversations are compared. Whitening takes
    off what all messages of the space have in common (`docs/decisions/ranking.md`).
    """
    unknown = np.full(len(numbers), np.nan)
    best, whitened, abbreviation = (unknown,) * 3
    mean_vector = np.zeros((len(numbers), DIMENSIONS), np.float32)
    if scans:
        near = scans.messages.conversations(numbers)
        best, whitened = (
            Values(near.numbers, values).of(numbers) for values in (near.best, near.whitened)
        )
        mean_vector[np.searchsorted(numbers, near.numbers)] = near.mean_vector
        abbreviation = Values(*scans.abbreviations.best_of(numbers)).of(numbers)
    legs = ConversationLegs(
        keyword=whole.of(numbers, 0),
        message_keyword=_best_of_messages(messages.conversation, messages.keyword, len(numbers)),
        vector=best,
        mean_vector=mean_vector,
        abbreviation=abbreviation,
        messages=np.array([it.message_count for it in conversations], float),
        begin=np.array([it.create_time for it in conversations], float),
    )
    is_whitened = scans is not None and scans.messages.is_whitened
    return legs, replace(legs, vector=whitened) if is_whitened else legs


def whitened_cosines(ids: NDArray[np.int64], scans: Scans | None) -> Callable[[], Array] | None:
    """Return a function that reads the whitened cosines of messages, by which conversations are
    compared; None where vectors are not whitened.
    """
    if scans is None or not scans.messages.is_whitened:
        return None
    messages = scans.messages
    return lambda: Values(*messages.whitened_of(ids)).of(ids)


def with_normal_words(
    candidates: Messages, words: Bm25, messages: MessageLegs, conversations: ConversationLegs
) -> tuple[MessageLegs, ConversationLegs]:
    """Return the legs with the BM25 that a store of `LEAST_MESSAGES` messages would give (`words`).

    Calibration takes these, because among few messages no word is rare. The ranking only compares
    the messages with each other, and keeps the BM25 of this store.
    """
    keyword = Values(words.ids, words.scores).of(candidates.ids + _AROUND, 0)
    best = _best_of_messages(messages.conversation, keyword[2], len(conversations.keyword))
    return (
        replace(
            messages, keyword=keyword[2], keyword_before=keyword[1::-1], keyword_after=keyword[3:]
        ),
        replace(
            conversations, message_keyword=best, keyword=np.maximum(conversations.keyword, best)
        ),
    )


def _best_of_messages(conversation: NDArray[np.int64], keyword: Array, count: int) -> Array:
    best = np.zeros(count)
    np.maximum.at(best, conversation, keyword)
    return best
