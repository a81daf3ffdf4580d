"""Parts of a matrix: arrays that grow, and rows of bytes that grow without being copied."""

from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from recollect_server.recall.model.marks import DIMENSIONS

T = TypeVar("T", bound=np.generic)

WORDS = DIMENSIONS // 64
_BLOCK = 1 << 15
_AT_ONCE = 512  # rows as floats that fit into a processor's second cache: 768 KiB


class Rows:
    """Vectors of int8, in blocks, so that growing copies nothing: 384 bytes each."""

    def __init__(self) -> None:
        self._blocks: list[NDArray[np.int8]] = []

    def set(self, entries: NDArray[np.int64], rows: NDArray[np.int8]) -> None:
        """Write rows to their entries."""
        while len(self._blocks) * _BLOCK <= entries.max(initial=-1):
            self._blocks.append(np.zeros((_BLOCK, DIMENSIONS), np.int8))
        blocks = entries // _BLOCK
        for block in np.unique(blocks).tolist():
            chosen = blocks == block
            self._blocks[block][entries[chosen] % _BLOCK] = rows[chosen]

    def get(self, entries: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the rows of some entries, of shape [n, 384]."""
        blocks, places = np.divmod(entries, _BLOCK)
        rows = np.empty((len(entries), DIMENSIONS), np.float32)
        ends = (np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist()
        if len(ends) < len(self._blocks):
            # Mostly entries ascend, so that each block's are side by side and need no look-up.
            for start, end in pairwise([0, *ends, len(entries)]):
                part = slice(start, end)
                if start < end:
                    rows[part] = self._blocks[blocks[start]].take(places[part], axis=0)
            return rows
        for block in np.unique(blocks).tolist():
            chosen = np.flatnonzero(blocks == block)
            rows[chosen] = self._blocks[block].take(places[chosen], axis=0)
        return rows

    def products(
        self, entries: NDArray[np.int64], columns: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the matrix product of the rows of some entries with columns: shape [n, columns].

        A part at a time, which never leaves the cache as floats: of 8,000 rows three times as fast.
        """
        products = np.empty((len(entries), columns.shape[1]), np.float32)
        for start in range(0, len(entries), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            np.matmul(self.get(entries[part]), columns, out=products[part])
        return products

    def sums(
        self,
        entries: NDArray[np.int64],
        first: NDArray[np.int64],
        weights: NDArray[np.float32],
        columns: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the matrix product of the rows of some entries with columns, as `products`; and of
        each run of entries the sum of its rows, weighted. Runs begin at `first`.

        Runs that fit into the cache together are read at once.
        """
        products = np.empty((len(entries), columns.shape[1]), np.float32)
        sums = np.empty((len(first), DIMENSIONS), np.float32)
        ends = np.append(first[1:], len(entries))
        begins, stops = first.tolist(), ends.tolist()
        run = 0
        while run < len(begins):
            start = begins[run]
            behind = max(run + 1, int(ends.searchsorted(start + _AT_ONCE, "right")))
            part = slice(start, stops[behind - 1])
            rows = self.get(entries[part])
            np.matmul(rows, columns, out=products[part])
            rows *= weights[part, None]
            # `np.add.reduceat` takes several times as long where a run is long
            for at in range(run, behind):
                np.add.reduce(rows[begins[at] - start : stops[at] - start], out=sums[at])
            run = behind
        return products, sums


def grown(array: NDArray[T], size: int) -> NDArray[T]:
    """Return the array with room for `size` along its last axis. An array that must grow gets a
    quarter more.
    """
    if array.shape[-1] >= size:
        return array
    larger = np.zeros((*array.shape[:-1], max(1024, size + size // 4)), array.dtype)
    larger[..., : array.shape[-1]] = array
    return larger


def sign_words(rows: NDArray[np.floating] | NDArray[np.int8]) -> NDArray[np.uint64]:
    """Return the signs of each row's numbers as bits, 1 for a positive one: shape [6, n]."""
    return np.ascontiguousarray(np.packbits(rows > 0, axis=1).view(np.uint64).T)
