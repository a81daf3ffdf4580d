"""Candidates of a search, with their scores and their order: the answer of `retrieval`."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.index.conversations import Outline
from recollect_server.recall.fusion import share
from recollect_server.recall.meaning import Scans
from recollect_server.recall.postings import KeywordScores
from recollect_server.recall.retrievers import Array, ConversationLegs, Fused, Matches, MessageLegs
from recollect_server.recall.search import Messages
from recollect_server.text.words import QueryTerms

KEYWORD_LEGS = ("keyword_messages", "keyword_conversations")
VECTOR_LEGS = ("vector_messages", "vector_abbreviations")
SIMILAR_WORDS = "similar_words"
"""Name of the words compared one by one, where scores are explained. It is no retriever: it finds
nothing.
"""
LEAST = 0.2
"""A cosine below this says nothing: such texts are found by their words alone. Texts about other
things have 0.0 to 0.2.
"""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates with calibrated probabilities as scores. Messages have one order, conversations
    another.
    """

    messages: Messages
    message_scores: list[float]
    message_legs: MessageLegs
    conversations: list[Outline]
    conversation_scores: list[float]
    conversation_legs: ConversationLegs
    matches: Matches | None
    """The words of the best messages, compared with the question's; None where none was."""
    order: Fused
    """Rank order: shares of the best one's score, finer than the probabilities where these are near
    0.
    """
    total: int
    """Number of matching conversations."""
    terms: QueryTerms
    """The words that were searched for."""
    noted: set[int]
    """The numbers of the conversations whose title, topics or abbreviation has any of the words."""
    words: KeywordScores
    scans: Scans | None
    degraded: dict[str, str] = field(default_factory=dict)

    def conversation_of(self, message: int) -> Outline:
        """Return the conversation of a message, which is given by its index."""
        return self.conversations[int(self.message_legs.conversation[message])]

    def fitting(self) -> NDArray[np.bool_]:
        """Return whether each message has any of the words or is near in meaning; not only beside
        one that does.
        """
        fitting: NDArray[np.bool_] = (self.message_legs.keyword > 0) | (
            self.message_legs.vector >= LEAST
        )
        return fitting

    def best_messages(self) -> list[int]:
        """Return the indices of the messages, best first (see `best_first`)."""
        owners = self.message_legs.conversation
        best = best_first(self.order.messages, self.messages, owners, self.conversations)
        order: list[int] = best.tolist()
        return order

    def best_conversations(self) -> list[int]:
        """Return the indices of the conversations, best first. Ties are ordered by the
        conversation's id.
        """
        order = self.order.conversations.tolist()
        return sorted(range(len(order)), key=lambda at: (-order[at], self.conversations[at].id))


def best_first(
    scores: Array, messages: Messages, owners: NDArray[np.int64], conversations: list[Outline]
) -> NDArray[np.int64]:
    """Return the indices of messages, those with the highest scores first. Ties are ordered by
    conversation and line, which a rebuilt index does not change. `owners` are the indices of their
    conversations.
    """
    by_id = sorted(range(len(conversations)), key=lambda at: conversations[at].id)
    rank = np.empty(len(by_id), np.int64)
    rank[by_id] = np.arange(len(by_id))
    return np.lexsort((messages.sequences, rank[owners], -scores))


def legs_of_messages(candidates: Candidates) -> dict[str, Array]:
    """Return each retriever's scores of the messages: BM25 as a share of the best, or a cosine; and
    what comparing the words of the best ones gave.
    """
    legs, above = candidates.message_legs, candidates.conversation_legs
    compared = {SIMILAR_WORDS: candidates.matches.near} if candidates.matches else {}
    return compared | {
        "keyword_messages": share(legs.keyword),
        "keyword_conversations": share(above.keyword)[legs.conversation],
        "vector_messages": legs.vector,
        "vector_abbreviations": above.abbreviation[legs.conversation],
    }


def legs_of_conversations(candidates: Candidates) -> dict[str, Array]:
    """Return each retriever's scores of the conversations, likewise."""
    legs = candidates.conversation_legs
    return {
        "keyword_messages": share(legs.message_keyword),
        "keyword_conversations": share(legs.keyword),
        "vector_messages": legs.vector,
        "vector_abbreviations": legs.abbreviation,
    }
