"""The copy of the vectors that searches read: all in memory, some 480 bytes a vector.

An entry is one piece of a message. A search compares the signs of all vectors with the question's
(one bit a dimension), and works out the cosine of the best of those.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.vectors.rows import WORDS, Rows, grown, sign_words
from recollect_server.recall.vectors.whitening import Basis, Whitening, whitening_of
from recollect_server.text.ranking import starts

# entries behind those that are in order, which have an order of their own: beyond that, all are
# sorted
_TAIL = 16_384
_SAMPLE, _RUN = 4096, 32  # entries that a whitening is of at most, in runs of neighbours

Entries = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class View:
    """The entries as they were at one moment. Their number is `count`; the arrays may be longer."""

    count: int
    ids: NDArray[np.int64]
    """Id of the message that each entry is a piece of."""
    times: NDArray[np.int64]
    marks: NDArray[np.int64]
    """Marks of each entry."""
    alive: NDArray[np.bool_]
    signs: NDArray[np.uint64]
    scale: NDArray[np.float32]
    """One divided by the length of the vector."""
    order: Entries
    """The entries by id, but for those of the tail."""
    ordered: NDArray[np.int64]
    """Their ids."""
    tail_order: Entries
    """The entries of the tail by id."""
    tail_ordered: NDArray[np.int64]
    """Their ids."""
    rows: Rows


class Matrix:
    """Vectors of one kind, by id. The ids' upper bits are the conversation's number. Safe to call
    from any thread.
    """

    def __init__(self, sequence_bits: int) -> None:
        self.sequence_bits = sequence_bits
        """Number of an id's bits that are not the conversation's number."""
        self._guard = threading.Lock()  # guards what is written below; readers take a view
        self.whitening: Whitening | None = None
        """Map of questions, without what all entries have in common; None of few."""
        self._basis = Basis()  # of the whitening
        self.message_count = 0
        """Number of ids that there are, whatever number of entries each has."""
        none = np.zeros(0, np.int64)
        self._view = View(
            0, none, none, none, np.zeros(0, np.bool_), np.zeros((WORDS, 0), np.uint64), np.zeros(0, np.float32),
            none, none, none, none, Rows(),
        )  # fmt: skip

    def __len__(self) -> int:
        return self._view.count

    def view(self) -> View:
        """Return the present entries."""
        return self._view

    def add(
        self,
        ids: NDArray[np.int64],
        times: NDArray[np.int64],
        marks: NDArray[np.int64],
        vectors: NDArray[np.int8],
    ) -> None:
        """Append entries, in any order of their messages; pieces of one message come together and
        in their order.
        """
        if not len(ids):
            return
        with self._guard:
            start = self._view.count
            view = self._with_room(start + len(ids))
            stop = start + len(ids)
            view.ids[start:stop] = ids
            view.times[start:stop] = times
            view.marks[start:stop] = marks
            view.alive[start:stop] = True
            self._basis.add(times)
            self.message_count += len(starts(ids))
            self._set(view, np.arange(start, stop), vectors)
            self._view = self._ordered(view, stop)

    def load(
        self,
        ids: NDArray[np.int64],
        times: NDArray[np.int64],
        marks: NDArray[np.int64],
        parts: Iterable[tuple[Entries, NDArray[np.int8]]],
    ) -> None:
        """Fill an empty matrix with the ids of all entries, ascending, and their vectors in parts
        of any order.
        """
        with self._guard:
            count = len(ids)
            view = self._with_room(count)
            view.ids[:count], view.times[:count], view.marks[:count], view.alive[:count] = (
                ids,
                times,
                marks,
                True,
            )
            self._basis.add(times)
            self.message_count += len(starts(ids))
            for entries, vectors in parts:
                self._set(view, entries, vectors)
            self._view = self._ordered(view, count)

    def remove(self, *numbers: int) -> None:
        """Remove the entries of conversations."""
        self._remove(self.of_conversations, numbers)

    def remove_ids(self, *ids: int) -> None:
        """Remove the entries of ids."""
        self._remove(self.of, ids)

    def _remove(
        self, of: Callable[[View, NDArray[np.int64]], Entries], chosen: Sequence[int]
    ) -> None:
        with self._guard:
            view = self._view
            removed = of(view, np.array(chosen, np.int64))
            self._basis.remove(view.times[removed])
            self.message_count -= len(np.unique(view.ids[removed]))
            view.alive[removed] = False
            view.rows.set(removed, np.zeros((len(removed), DIMENSIONS), np.int8))
            view.signs[:, removed] = 0

    def whiten(self, *, settled: bool = True) -> None:
        """Compute the whitening, where other entries are its basis than when it was; while more
        are on their way (not `settled`) only where these are more.
        """
        with self._guard:
            if not self._basis.is_due(settled=settled):
                return
            view = self._view
            entries = np.flatnonzero(view.alive[: view.count])
            entries = self._in_order(view, entries[self._basis.choose(view.times[entries])])
        if len(entries) > _SAMPLE:
            begins = np.linspace(0, len(entries) - _RUN, _SAMPLE // _RUN).astype(np.int64)
            entries = entries[(begins[:, None] + np.arange(_RUN)).ravel()]
        units = view.rows.get(entries) * view.scale[entries, None]
        owners = view.ids[entries] >> self.sequence_bits
        self.whitening = whitening_of(units.astype(np.float64), owners) if len(entries) else None

    def unwhiten(self) -> None:
        """Do without a whitening, until the next call of `whiten`."""
        with self._guard:
            self._basis.forget()
            self.whitening = None

    def _in_order(self, view: View, entries: Entries) -> Entries:
        """Return entries by conversation, the oldest first: whatever numbers these have, which
        another index may give otherwise.
        """
        entries = entries[np.argsort(view.ids[entries], kind="stable")]
        owners = view.ids[entries] >> self.sequence_bits
        first = starts(owners)
        if not len(first):
            return entries
        begin = np.minimum.reduceat(view.times[entries], first)
        # of equal times the first vector decides
        rows = view.rows.get(entries[first]).astype(np.int8).view(np.uint64)
        rank = np.empty(len(first), np.int64)
        rank[np.lexsort((rows[:, 1], rows[:, 0], begin))] = np.arange(len(first))
        sizes = np.diff(first, append=len(owners))
        ordered: Entries = entries[np.argsort(rank.repeat(sizes), kind="stable")]
        return ordered

    def of(self, view: View, ids: NDArray[np.int64]) -> Entries:
        return self._entries_between(view, ids, ids + 1)

    def of_conversations(self, view: View, numbers: NDArray[np.int64]) -> Entries:
        first = numbers << self.sequence_bits
        return self._entries_between(view, first, first + (1 << self.sequence_bits))

    def _entries_between(
        self, view: View, first: NDArray[np.int64], last: NDArray[np.int64]
    ) -> Entries:
        """Return the entries whose ids are in any of the ranges, `last` excluded."""
        parts = [_within(view.order, view.ordered, first, last)]
        if len(view.tail_order):
            parts.append(_within(view.tail_order, view.tail_ordered, first, last))
        entries = np.concatenate(parts)
        alive: Entries = entries[view.alive[entries]]
        return alive

    # Adding ---------------------------------------------------------------------------------------

    def _with_room(self, size: int) -> View:
        view = self._view
        return replace(
            view,
            ids=grown(view.ids, size),
            times=grown(view.times, size),
            marks=grown(view.marks, size),
            alive=grown(view.alive, size),
            signs=grown(view.signs, size),
            scale=grown(view.scale, size),
        )

    def _set(self, view: View, entries: Entries, vectors: NDArray[np.int8]) -> None:
        view.rows.set(entries, vectors)
        view.signs[:, entries] = sign_words(vectors)
        lengths = np.sqrt(np.square(vectors, dtype=np.float32).sum(axis=1))
        view.scale[entries] = 1 / np.where(lengths > 0, lengths, 1)

    def _ordered(self, view: View, count: int) -> View:
        """Return a view of so many entries, all of them sorted or in the tail."""
        sorted_count = len(view.order)
        if not sorted_count or count - sorted_count > _TAIL:
            order = np.argsort(view.ids[:count], kind="stable")
            none = np.zeros(0, np.int64)
            return replace(
                view,
                count=count,
                order=order,
                ordered=view.ids[order],
                tail_order=none,
                tail_ordered=none,
            )
        tail = sorted_count + np.argsort(view.ids[sorted_count:count], kind="stable")
        return replace(view, count=count, tail_order=tail, tail_ordered=view.ids[tail])


def _within(
    order: Entries, ordered: NDArray[np.int64], first: NDArray[np.int64], last: NDArray[np.int64]
) -> Entries:
    """Return the entries of an order whose ids are in any of the ranges."""
    starts, ends = np.searchsorted(ordered, first), np.searchsorted(ordered, last)
    counts = ends - starts
    entries: Entries = order[
        np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
    ]
    return entries
