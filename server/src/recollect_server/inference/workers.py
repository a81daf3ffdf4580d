"""Threads that embed behind everything else.

They have a somewhat lower priority, and no more than that: a thread that waits long for a processor
may hold Python's global lock meanwhile, and then the whole server waits with it (with the lowest
priority a delete was seen to take 3.6 s on a busy machine).
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from recollect_server.domain.embedding import DIMENSIONS
from recollect_server.inference.embedder import Embedder, Piece, Vectors

_NICE = 5
# word pieces that a thread embeds at a time: some 0.5 s; while others should go first
_PART, _LITTLE = 1024, 192


def stand_back() -> None:
    """Lower the priority of the calling thread, where threads have their own (Linux)."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class Workers:
    """Some threads. The model computes without Python's global lock, so they do it at the same
    time.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "embedder", stand_back)

    def embed(
        self, embedder: Embedder, pieces: list[Piece], yields: Callable[[float], bool]
    ) -> Vectors:
        """Return a vector for each piece; short ones are computed first. Raises CannotEmbed.

        `yields` is called with the seconds that each part took, waits as long as others should go
        first, and says whether they still should: then one thread works alone. What it raises ends
        the work between two parts.
        """
        left = deque(sorted(range(len(pieces)), key=lambda number: len(pieces[number])))
        vectors = np.zeros((len(pieces), DIMENSIONS), np.float32)
        busy = yields(0.0)
        while left:
            parts = (
                [_part(left, pieces, _LITTLE)]
                if busy
                else [_part(left, pieces, _PART) for _ in range(self._threads) if left]
            )
            began = time.perf_counter()
            computed = self._pool.map(
                embedder.embed_pieces, [[pieces[number] for number in part] for part in parts]
            )
            for part, computed_vectors in zip(parts, computed, strict=True):
                vectors[part] = computed_vectors
            busy = yields(time.perf_counter() - began)
        return vectors

    def stop(self) -> None:
        """Stop the threads."""
        self._pool.shutdown()


def _part(left: deque[int], pieces: list[Piece], most: int) -> list[int]:
    """Take the next pieces from the queue, together about `most` word pieces long."""
    part: list[int] = []
    size = 0
    while left and size < most:
        part.append(left.popleft())
        size += len(pieces[part[-1]])
    return part
