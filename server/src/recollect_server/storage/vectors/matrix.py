"""The copy of the vectors that searches read: all in memory, some 480 bytes a vector.

An entry is one piece of a message. Its window is the mean of its own vector and those of the two
entries before and behind it in the conversation, weighted by `WEIGHTS`: so a window's cosine is a
sum of its entries' cosines, and needs no vector of its own. On LoCoMo such windows alone find more
than the embedded text of the same messages (any@10 60.5 to 55.9 %).

A search compares the signs of all vectors with the question's (one bit a dimension), and works out
the cosine of the best of those.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.embedding import DIMENSIONS
from recollect_server.storage.ranking import starts
from recollect_server.storage.vectors.rows import WORDS, Rows, grown, sign_words
from recollect_server.storage.vectors.whitening import Basis, Whitening, whitening_of

WEIGHTS = (0.5, 0.25)
"""Of the entries next to the middle one of a window, and of those next to them."""
AROUND = 2 * WEIGHTS
"""Of all entries of a window but the middle one: of those before it, and of those behind it."""
# entries behind those that are in order, which have an order of their own: beyond that, all are
# sorted
_TAIL = 16_384
_CHUNK = 2048
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
    window: NDArray[np.float32]
    """The length of the window's sum of unit vectors."""
    links: NDArray[np.int32]
    """The entries next to it in the conversation: before, behind; -1 for none. Shape [2, n]."""
    order: Entries
    """The entries by id, but for those of the tail."""
    ordered: NDArray[np.int64]
    """Their ids."""
    tail_order: Entries
    """The entries of the tail by id."""
    tail_ordered: NDArray[np.int64]
    """Their ids."""
    rows: Rows

    def around(self, entries: Entries) -> Entries:
        """Return the other entries of each window, as `AROUND` weighs them: of shape [4, n], -1 for
        none.
        """
        near = np.full((2 * len(WEIGHTS), len(entries)), -1)
        for side in (0, 1):
            links = self.links[side]
            at = entries
            for step in range(len(WEIGHTS)):
                beside = links.take(at, mode="wrap")  # of -1 anything
                at = np.where((at >= 0) & (beside < self.count), beside, -1)
                near[side * len(WEIGHTS) + step] = at
        return near


class Matrix:
    """Vectors of one kind, by id. The ids' upper bits are the conversation's number. Safe to call
    from any thread.
    """

    def __init__(self, sequence_bits: int) -> None:
        self._bits = sequence_bits
        self._guard = threading.Lock()  # guards what is written below; readers take a view
        self._last: dict[int, int] = {}  # the last entry of each conversation
        self.whitening: Whitening | None = None
        """Map of questions, without what all entries have in common; None of few."""
        self._basis = Basis()  # of the whitening
        self.message_count = 0
        """Number of ids that there are, whatever number of entries each has."""
        none = np.zeros(0, np.int64)
        self._view = View(
            0, none, none, none, np.zeros(0, np.bool_), np.zeros((WORDS, 0), np.uint64), np.zeros(0, np.float32),
            np.zeros(0, np.float32), np.zeros((2, 0), np.int32), none, none, none, none, Rows(),
        )  # fmt: skip

    def __len__(self) -> int:
        return self._view.count

    @property
    def sequence_bits(self) -> int:
        """Return the number of an id's bits that are not the conversation's number."""
        return self._bits

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
            touched = self._link(view, start, stop)
            self._measure(view, stop, touched)
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
            numbers = ids >> self._bits
            same = numbers[1:] == numbers[:-1]
            entries = np.arange(count)
            view.links[:, :count] = -1
            view.links[0, 1:count][same] = entries[:-1][same]
            view.links[1, : count - 1][same] = entries[1:][same]
            ends = np.flatnonzero(np.append(~same, True)) if count else entries
            self._last = dict(zip(numbers[ends].tolist(), ends.tolist(), strict=True))
            self._measure(view, count, entries)
            self._view = self._ordered(view, count)

    def remove(self, number: int, identity: int | None = None) -> None:
        """Remove a conversation's entries, or only those of one id."""
        with self._guard:
            view = self._view
            if identity is None:
                removed = self.of_conversations(view, np.array([number]))
                self._last.pop(number, None)
            else:
                removed = self.of(view, np.array([identity]))
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
        owners = view.ids[entries] >> self._bits
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
        owners = view.ids[entries] >> self._bits
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
        """Return the entries of some ids."""
        return self._entries_between(view, ids, ids + 1)

    def of_conversations(self, view: View, numbers: NDArray[np.int64]) -> Entries:
        """Return the entries of some conversations."""
        first = numbers << self._bits
        return self._entries_between(view, first, first + (1 << self._bits))

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
            window=grown(view.window, size),
            links=grown(view.links, size),
        )

    def _set(self, view: View, entries: Entries, vectors: NDArray[np.int8]) -> None:
        view.rows.set(entries, vectors)
        view.signs[:, entries] = sign_words(vectors)
        lengths = np.sqrt(np.square(vectors, dtype=np.float32).sum(axis=1))
        view.scale[entries] = 1 / np.where(lengths > 0, lengths, 1)

    def _link(self, view: View, start: int, stop: int) -> Entries:
        """Link the new entries to those before and behind them, and return all entries whose
        windows changed.
        """
        touched: set[int] = set()
        placed: dict[int, int] = {}  # the last new entry that stands before others, by conversation
        for entry, identity in enumerate(view.ids[start:stop].tolist(), start):
            number = identity >> self._bits
            before, behind = self._last.get(number, -1), -1
            if before >= 0 and view.ids[before] > identity:
                before, behind = self._gap(view, identity, placed.get(number, -1))
                placed[number] = entry
            else:
                self._last[number] = entry
            view.links[:, entry] = (before, behind)
            for side, neighbour in ((0, before), (1, behind)):
                if neighbour >= 0:
                    view.links[1 - side, neighbour] = entry
                    touched.add(neighbour)
                    touched.add(int(view.links[side, neighbour]))
        old = [entry for entry in touched if 0 <= entry < start]
        return np.concatenate([np.unique(np.array(old, np.int64)), np.arange(start, stop)])

    def _gap(self, view: View, identity: int, newest: int) -> tuple[int, int]:
        """Return the entries between which an id belongs that comes after higher ones; -1 for
        none. `newest` was put in its place just now.
        """
        first = identity >> self._bits << self._bits
        entries = self._entries_between(view, np.array([first]), np.array([identity + 1]))
        if len(entries) or newest >= 0:
            below = [newest, *entries.tolist()] if newest >= 0 else entries.tolist()
            before = max(below, key=lambda entry: (view.ids[entry], entry))
            return before, int(view.links[1, before])
        behind = self._entries_between(
            view, np.array([first]), np.array([first + (1 << self._bits)])
        )
        # none of them may be in order yet: those that came in the same call
        return -1, int(behind[np.argmin(view.ids[behind])]) if len(behind) else -1

    def _measure(self, view: View, stop: int, entries: Entries) -> None:
        """Compute the lengths of the windows' sums."""
        shown = replace(view, count=stop)
        for first in range(0, len(entries), _CHUNK):
            part = entries[first : first + _CHUNK]
            around = shown.around(part)
            needed, places = np.unique(np.append(part, around), return_inverse=True)
            unit = (
                view.rows.get(np.maximum(needed, 0))
                * np.where(needed >= 0, view.scale[needed], 0)[:, None]
            )
            own, *others = places.reshape(-1, len(part))
            total = unit[own]
            for weight, place in zip(AROUND, others, strict=True):
                total += np.float32(weight) * unit[place]
            lengths = np.linalg.norm(total, axis=1)
            view.window[part] = np.where(lengths > 0, lengths, 1)

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
