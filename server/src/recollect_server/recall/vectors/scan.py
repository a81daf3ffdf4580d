"""One question to a matrix: the nearest entries, and how near any other is.

Only the entries whose signs fit best are looked at closely (`RESCORED`, `SHARE`). On 13,033 real
messages the first one per cent by signs had 99 % of the ten nearest, two per cent 99.6 %. The
filters come before that choice.

A cosine is the same wherever its vector lies in the matrix, to the last bit: the question is
rounded to two digits of base 128, so that sums of products are whole numbers, which floats add
without rounding.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.vectors.matrix import Entries, Matrix, View
from recollect_server.recall.vectors.rows import WORDS, sign_words
from recollect_server.recall.vectors.whitening import Whitened
from recollect_server.text.ranking import highest, starts

RESCORED = 2000
"""Entries whose cosine is worked out at the least, of those whose signs fit best. Of fewer: all."""
SHARE = 0.01
"""And this share of all at the least."""
_CHUNK = 16_384  # what fits into a processor's second cache
_COSINES = np.cos(np.pi * np.arange(DIMENSIONS + 1) / DIMENSIONS).astype(np.float32)
"""About the cosine of two vectors of which so many signs differ (Charikar, "Similarity estimation
techniques", 2002).
"""

_BASE = 128

Cosines = NDArray[np.float64]


class Scores(NamedTuple):
    """Cosines by id: arrays of shape [n], in which every id stands once."""

    ids: NDArray[np.int64]
    cosines: Cosines


class Near(NamedTuple):
    """Nearness of conversations: cosines of their pieces. Arrays of shape [n]."""

    numbers: NDArray[np.int64]
    """The conversations, ascending."""
    best: Cosines
    mean_vector: NDArray[np.float32]
    """The directions of the sums of all their pieces' unit vectors: [n, 384]."""
    whitened: Cosines
    """As `best`, by the question without what all messages have in common, on the scale of the
    cosines; `best` where nothing is known of that.
    """


class Scan:
    """Scores of a matrix for a question: cosines, by id; of a message with several pieces the best
    one's.
    """

    def __init__(
        self,
        matrix: Matrix,
        question: NDArray[np.float32],
        numbers: NDArray[np.int64] | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Only entries of these conversations (None: of all) that were said in that time are
        found.
        """
        self._question = question
        self._digits = _digits(question)
        self._matrix = matrix
        self._view = view = matrix.view()
        self._allowed = _allowed(view, matrix.sequence_bits, numbers, start, end)
        # cosines, as far as they were worked out
        self._cosines_by_entry = np.full(view.count, np.nan)
        self._most = max(RESCORED, int(SHARE * view.count))
        count = int(np.count_nonzero(self._allowed))
        self._about = _about(view, question) if count > self._most else None
        if self._about is not None and count == view.count:
            # without a filter neither entries nor scores are copied
            self._looked_at = _highest(self._about, self._most)
        else:
            entries = np.flatnonzero(self._allowed)
            self._looked_at = (
                entries if self._about is None else _best(entries, self._about[entries], self._most)
            )
        self._whole = view.count <= self._most
        # one pass over all costs less than to look up what is missing, again and again
        if self._whole:
            self._cosines_by_entry[:] = self._cosines_of(np.arange(view.count))

    def nearest(self, most: int) -> Scores:
        return self._first(self._looked_at, self._cosines(self._looked_at), most)

    def nearest_of(self, start: int, end: int, most: int) -> Scores:
        """Return the nearest ids of those that were said in some time, `end` excluded."""
        times = self._view.times[: self._view.count]
        entries = np.flatnonzero(self._allowed & (times >= start) & (times < end))
        if self._about is not None:
            entries = _best(entries, self._about[entries], self._most)
        return self._first(entries, self._cosines(entries), most)

    def of(self, ids: NDArray[np.int64]) -> tuple[Scores, NDArray[np.int64]]:
        """Return how near these are, ascending by id, and what else is known of each
        (`recall.model.marks`).

        Those without a vector are left out.
        """
        entries = self._matrix.of(self._view, ids)
        scores, marks = self._cosines(entries), self._view.marks[entries]
        ids_found = self._view.ids[entries]
        if not _ascends(ids_found):
            order = np.argsort(ids_found, kind="stable")
            marks = marks[order[starts(ids_found[order])]]
        return self._by_id(entries, scores), marks

    def best_piece(self, identity: int) -> tuple[int, int]:
        """Return which piece of a message is nearest, from 0, and how many pieces it has: (0, 1) of
        one without a vector.
        """
        entries = np.sort(self._matrix.of(self._view, np.array([identity])))
        return (int(self._cosines(entries).argmax()), len(entries)) if len(entries) else (0, 1)

    def best_of(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], Cosines]:
        """Return the conversations, ascending, that have a vector, and the cosine of the best piece
        of each.
        """
        entries, owners = self._entries_of(numbers)
        first = starts(owners)
        return owners[first], self._cosines(entries[first])

    @property
    def is_whitened(self) -> bool:
        """Return whether anything is known that all messages have in common."""
        return self._question_whitened is not None

    def whitened_of(self, ids: NDArray[np.int64]) -> Scores:
        """Return how near these messages are by that question."""
        entries = self._matrix.of(self._view, ids)
        return self._by_id(entries, self._whitened(entries))

    @cached_property
    def _question_whitened(self) -> Whitened | None:
        whitening = self._matrix.whitening
        return whitening.apply(self._question) if whitening else None

    def _whitened(self, entries: Entries) -> Cosines:
        if self._question_whitened is None:
            return self._cosines(entries)
        question = self._question_whitened
        return question.on_scale(self._products(entries, _digits(question.vector)))

    def _entries_of(self, numbers: NDArray[np.int64]) -> tuple[Entries, NDArray[np.int64]]:
        """Return the entries of conversations by number, best first, of very many those that look
        best; and their numbers.
        """
        entries = self._matrix.of_conversations(self._view, numbers)
        entries = entries[self._allowed[entries]]
        if self._about is not None:
            # So many however large the matrix is: as many conversations are candidates.
            entries = _best(entries, self._about[entries], RESCORED)
        owners = self._view.ids[entries] >> self._matrix.sequence_bits
        # sums are the same wherever the entries lie
        order = np.lexsort((-self._cosines(entries), owners))
        return entries[order], owners[order]

    def conversations(self, numbers: NDArray[np.int64]) -> Near:
        """Return how near these conversations are, but for those without a vector."""
        entries, owners = self._entries_of(numbers)
        if not len(entries):
            none = np.zeros(0)
            vectors = np.zeros((0, DIMENSIONS), np.float32)
            return Near(np.zeros(0, np.int64), none, vectors, none)
        cosines, first = self._cosines(entries), starts(owners)
        question = self._question_whitened
        digits = self._digits[:, :0] if question is None else _digits(question.vector)
        products, sums = self._view.rows.sums(entries, first, self._view.scale[entries], digits)
        whitened = cosines
        if question is not None:
            whitened = question.on_scale(self._of_products(products, entries))
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return Near(
            owners[first],
            cosines[first],
            sums / lengths,
            np.maximum.reduceat(whitened, first),
        )

    def within(self, number: int, most: int) -> Scores:
        """Return the nearest ids of one conversation, of very many among those that look best."""
        entries = self._matrix.of_conversations(self._view, np.array([number]))
        entries = entries[self._allowed[entries]]
        if self._about is not None:
            entries = _best(entries, self._about[entries], self._most)
        return self._first(entries, self._cosines(entries), most)

    def _by_id(self, entries: Entries, scores: Cosines) -> Scores:
        """Return the highest score of each id, ascending by id."""
        ids = self._view.ids[entries]
        if _ascends(ids):
            return Scores(ids, scores)
        order = np.argsort(ids, kind="stable")
        ids, scores = ids[order], scores[order]
        first = starts(ids)
        return Scores(ids[first], np.maximum.reduceat(scores, first))

    def _first(self, entries: Entries, scores: Cosines, most: int) -> Scores:
        """Return the best ids, best first, each with its best piece's score. Ties keep their
        order.
        """
        ids = self._view.ids[entries]
        if _ascends(ids):
            chosen = highest(scores, most)
        else:
            order = np.lexsort((ids, -scores))
            _, first = np.unique(ids[order], return_index=True)
            chosen = order[np.sort(first)][:most]
        return Scores(ids[chosen], scores[chosen])

    def _cosines(self, entries: Entries) -> Cosines:
        if not self._whole:
            missing = entries[np.isnan(self._cosines_by_entry[entries])]
            if len(missing):
                self._cosines_by_entry[missing] = self._cosines_of(missing)
        cosines: Cosines = self._cosines_by_entry[entries]
        return cosines

    def _cosines_of(self, entries: Entries) -> Cosines:
        return self._products(entries, self._digits)

    def _products(self, entries: Entries, digits: NDArray[np.float32]) -> Cosines:
        return self._of_products(self._view.rows.products(entries, digits), entries)

    def _of_products(self, products: NDArray[np.float32], entries: Entries) -> Cosines:
        """Return the cosines of entries from the products of their rows with two digits."""
        high, low = products.T.astype(np.float64)
        cosines: Cosines = (high * _BASE + low) / (_BASE * _BASE) * self._view.scale[entries]
        return cosines


def _digits(question: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a question in two digits of base 128: shape [384, 2]."""
    whole = np.rint(question * (_BASE * _BASE))
    high = np.rint(whole / _BASE)
    return np.stack([high, whole - high * _BASE], axis=1).astype(np.float32)


def _allowed(
    view: View, bits: int, numbers: NDArray[np.int64] | None, start: int | None, end: int | None
) -> NDArray[np.bool_]:
    allowed = view.alive[: view.count].copy()
    if numbers is not None:
        owners = view.ids[: view.count] >> bits
        inside = np.zeros(1 + max(owners.max(initial=0), numbers.max(initial=0)), np.bool_)
        inside[numbers] = True
        allowed &= inside[owners]
    if start is not None:
        allowed &= view.times[: view.count] >= start
    if end is not None:
        allowed &= view.times[: view.count] < end
    return allowed


def _best(entries: Entries, scores: NDArray[np.floating], most: int) -> Entries:
    """Return the entries with the highest scores, in their order."""
    if len(entries) <= most:
        return entries
    return entries[_highest(scores, most)]


def _highest(scores: NDArray[np.floating], most: int) -> Entries:
    """Return the places of the highest of more than so many scores, ascending."""
    return np.sort(np.argpartition(-scores, most)[:most])


def _about(view: View, question: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return about the cosine of every entry, by the signs alone."""
    words = sign_words(question[None, :])[:, 0]
    different, counted = np.empty(_CHUNK, np.uint64), np.empty(_CHUNK, np.uint8)
    total = np.zeros(_CHUNK, np.uint16)
    about = np.zeros(view.count, np.float32)
    for start in range(0, view.count, _CHUNK):
        size = min(_CHUNK, view.count - start)
        total[:size] = 0
        for word in range(WORDS):
            np.bitwise_xor(
                view.signs[word, start : start + size], words[word], out=different[:size]
            )
            np.bitwise_count(different[:size], out=counted[:size])
            total[:size] += counted[:size]
        # `clip` because numpy copies the output of a take that may raise
        np.take(_COSINES, total[:size], out=about[start : start + size], mode="clip")
    return about


def _ascends(ids: NDArray[np.int64]) -> bool:
    """Return whether each id is higher than the one before it: then no id stands twice."""
    return bool((ids[1:] > ids[:-1]).all())
