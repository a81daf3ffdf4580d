"""The words of the best candidates, compared with those of the question one by one.

A vector holds the meaning of a whole message, and BM25 takes the words as they are. Between the two
lies a message that says "job" where the question says "work": each word of the question is compared
with each word of the message, by static vectors of word pieces (`inference.pieces`). The message's
score is the share of the question's words, weighed by their rarity, that it comes near to. What the
messages right before and behind it say counts somewhat less than its own words.

This takes the text of a message, so only the best ones are read. Where an agent answers at length a
long answer has a word near to any other: nothing is compared (`docs/decisions/similar-words.md`).
"""

from collections import defaultdict
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.deadline import Deadline
from recollect_server.domain.errors import StorageUnavailable
from recollect_server.inference.embedder import CannotEmbed
from recollect_server.services.recall.candidates import best_first
from recollect_server.services.recall.embedding_texts import text_of
from recollect_server.services.recall.meaning import Scans
from recollect_server.services.recall.models import is_foreign
from recollect_server.services.recall.retrievers import Array
from recollect_server.services.space.space import Space
from recollect_server.services.turns import read_several
from recollect_server.storage.index.conversations import Outline
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.search import Messages
from recollect_server.storage.index.words import QueryTerms

COMPARED = 30
"""Messages of a search that are compared: those that look best."""
_DIGITS = 9  # of a score: sums that were added up in another order are equal
_BESIDE = 0.7  # what a word counts that stands in the message right before or behind


class SimilarWords:
    """Comparison of words for one search. Reads transcripts."""

    def __init__(self, space: Space, deadline: Deadline) -> None:
        self._space = space
        self._deadline = deadline

    def scores(
        self,
        question: str,
        terms: QueryTerms,
        scans: Scans | None,
        candidates: tuple[Messages, NDArray[np.int64], list[Outline]],
        scores: Array,
    ) -> Array:
        """Return the score of each candidate, nan of one that was not compared; nothing where no
        words are compared. `candidates` come with the place of each one's conversation, `scores`
        say which look best. Raises CallerGone, DeadlineExceeded.
        """
        messages, owners, conversations = candidates
        if scans is None or scans.embedder is None:
            return np.zeros(0)
        is_english = terms.only_english and not is_foreign(question)
        if not terms.rarities or not is_english or len(messages) < 2:
            return np.zeros(0)
        ranked = best_first(np.round(scores, _DIGITS), messages, owners, conversations)
        best = np.sort(ranked[:COMPARED])
        texts = self._texts(messages, best, owners, conversations)
        nearest = None
        with suppress(CannotEmbed):
            nearest = scans.embedder.nearest_words([*terms.rarities], texts)
        if nearest is None:
            return np.zeros(0)
        rarities = np.array([*terms.rarities.values()][: len(nearest)])
        near = _with_neighbours(nearest.astype(np.float64), messages.ids[best])
        similar = np.full(len(messages), np.nan)
        is_read = np.array([bool(text) for text in texts], np.bool_)
        similar[best[is_read]] = (rarities @ near / rarities.sum())[is_read]
        return similar

    def _texts(
        self,
        messages: Messages,
        chosen: NDArray[np.int64],
        owners: NDArray[np.int64],
        conversations: list[Outline],
    ) -> list[str]:
        """Return the texts of the chosen messages; empty of one that cannot be read now."""
        places = {int(at): messages.place(int(at)) for at in chosen}
        by_owner: defaultdict[str, list[Place]] = defaultdict(list)
        for at, place in places.items():
            by_owner[conversations[int(owners[at])].id].append(place)
        self._deadline.check()
        texts: dict[tuple[str, int], str] = {}
        sorted_places = {name: sorted(own) for name, own in by_owner.items()}
        for name, answer in read_several(self._space, sorted_places).items():
            if not isinstance(answer, StorageUnavailable):
                texts |= {(name, it.sequence): text_of(it) for it in answer}
        names = [conversations[int(owners[at])].id for at in places]
        return [
            texts.get((name, place[0]), "")
            for name, place in zip(names, places.values(), strict=True)
        ]


def _with_neighbours(nearest: Array, ids: NDArray[np.int64]) -> Array:
    """Return the cosines, with those of the messages right before and behind where they are among
    the `ids`, which are ascending.
    """
    beside = np.zeros_like(nearest)
    follows = np.flatnonzero(ids[1:] == ids[:-1] + 1)
    beside[:, follows + 1] = nearest[:, follows]
    beside[:, follows] = np.maximum(beside[:, follows], nearest[:, follows + 1])
    total: Array = np.maximum(nearest, _BESIDE * beside)
    return total
