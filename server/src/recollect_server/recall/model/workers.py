"""Threads that embed behind everything else.

They have a somewhat lower priority, unless that starves them, and no more than that: a thread that
waits long for a processor may hold Python's global lock meanwhile, and then the whole server waits
with it (with the lowest priority a delete was seen to take 3.6 s on a busy machine).
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from recollect_server.recall.model.embedder import EmbeddedPiece, Embedder, Piece

_NICE = 5
# word pieces that a thread embeds at a time: some 0.5 s; while others should go first
_PART, _LITTLE = 1024, 192
_STARVED = 1 / 3
"""Share of the time in which a thread had a processor, below which its priority is the usual one
for the next parts."""
_FED = 0.6  # share from which it is lowered again
_SHORT = 0.02  # seconds of a part that say nothing


def stand_back() -> None:
    """Lower the priority of the calling thread, where threads have their own (Linux)."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class Workers:
    """Some threads. The model computes without Python's global lock, so they do it at the same
    time.

    On a busy machine a thread of low priority can starve. The share of the processor that each part
    of the work got is measured: below a third the next parts are given to threads of the usual
    priority, which a thread cannot raise by itself.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._low = ThreadPoolExecutor(threads, "embedder", stand_back)
        self._usual = ThreadPoolExecutor(threads, "embedder-usual")
        self.is_starved = False
        """True after a part that got too little of the processor."""

    def embed(
        self, embedder: Embedder, pieces: list[Piece], yields: Callable[[float, float], bool]
    ) -> list[EmbeddedPiece]:
        """Return what the model says of each piece; short ones are computed first. Raises
        CannotEmbed.

        `yields` is called with the seconds that each part took and the processor seconds of a
        thread in it, waits as long as others should go first, and says whether they still should:
        then one thread works alone. What it raises ends the work between two parts.
        """
        left = deque(sorted(range(len(pieces)), key=lambda number: len(pieces[number])))
        embedded: dict[int, EmbeddedPiece] = {}

        def work(part: list[int]) -> float:
            began = time.thread_time()
            made = embedder.embed_pieces([pieces[number] for number in part])
            embedded.update(zip(part, made, strict=True))
            return time.thread_time() - began

        busy = yields(0.0, 0.0)
        total = sum(map(len, pieces))
        share = min(_PART, max(_LITTLE, total // self._threads))
        while left:
            parts = (
                [_part(left, pieces, _LITTLE)]
                if busy
                else [_part(left, pieces, share) for _ in range(self._threads) if left]
            )
            began = time.perf_counter()
            pool = self._usual if self.is_starved else self._low
            processor = max(pool.map(work, parts))
            seconds = time.perf_counter() - began
            self.is_starved = starves(seconds, processor, before=self.is_starved)
            busy = yields(seconds, processor)
        return [embedded[number] for number in range(len(pieces))]

    def stop(self) -> None:
        self._low.shutdown()
        self._usual.shutdown()


def starves(seconds: float, processor: float, *, before: bool) -> bool:
    """Return whether a thread that had a processor for so long, of so many seconds, starves."""
    if seconds < _SHORT:
        return before
    return processor < (_FED if before else _STARVED) * seconds


def _part(left: deque[int], pieces: list[Piece], most: int) -> list[int]:
    """Take the next pieces from the queue, together about `most` word pieces long."""
    part: list[int] = []
    size = 0
    while left and size < most:
        part.append(left.popleft())
        size += len(pieces[part[-1]])
    return part
