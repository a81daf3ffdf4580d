"""Bounds on answers: how many bytes one may have, and how many all that are on their way may have
together.

A call that may have a large answer takes room for the largest one before it reads anything, and
keeps what its answer needs until the call is over. Without that, callers who ask for much at once,
or do not read what they asked for, decide how much memory the server takes.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
from google.protobuf.message import Message as ProtoMessage
from recollect.v1 import recall_service_pb2 as api

from recollect_server.kernel.domain.errors import TooManyAnswers
from recollect_server.kernel.domain.filters import Page, PageEnd

M = TypeVar("M", bound=ProtoMessage)
T = TypeVar("T")

_LARGEST_AT_ONCE = 16  # answers of the largest size that may be on their way
_PATIENCE = 3.0  # seconds that a call waits for room
# seconds: a caller that takes longer to read an answer is cancelled once others wait for memory
_READ_WITHIN = 30.0
_SMALL = 64 << 10  # bytes of an answer that need not be counted once it is made


class Answers:
    """The room for answers. Safe to call from any thread."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` of one answer, unless a single item is larger."""
        self.max_bytes = max_bytes
        self._left = _LARGEST_AT_ONCE * max_bytes
        # guards everything here; nothing slow happens under it
        self._changed = threading.Condition()
        # since when, and how many bytes
        self._sent: OrderedDict[grpc.ServicerContext, tuple[float, int]] = OrderedDict()

    @contextmanager
    def room(self, context: grpc.ServicerContext) -> Iterator[Callable[[M], M]]:
        """Reserve room for the largest answer. Call the yielded function with the answer: its room
        is kept until the call is over.

        Raises TooManyAnswers if there is none for some seconds.
        """
        self._take()
        taken = 0

        def keep(answer: M) -> M:
            nonlocal taken
            taken = self._keep(context, answer.ByteSize())
            return answer

        try:
            yield keep
        finally:
            self._give(self.max_bytes - taken)

    def _take(self) -> None:
        end = time.monotonic() + _PATIENCE
        with self._changed:
            while self._left < self.max_bytes:
                now = time.monotonic()
                if now >= end:
                    raise TooManyAnswers
                slow = next(iter(self._sent.items()), None)
                if slow is not None and now - slow[1][0] > _READ_WITHIN:
                    slow[0].cancel()
                self._changed.wait(min(end - now, 0.5))
            self._left -= self.max_bytes

    def _keep(self, context: grpc.ServicerContext, size: int) -> int:
        """Keep this much room until the call is over, and return how much is kept."""
        if size < _SMALL:
            return 0
        with self._changed:
            self._sent[context] = (time.monotonic(), size)
        # The callback runs on the thread that serves all calls: it waits for nothing.
        if not context.add_callback(lambda: self._over(context)):
            self._over(context)
        return size

    def _over(self, context: grpc.ServicerContext) -> None:
        with self._changed:
            _, size = self._sent.pop(context, (0.0, 0))
        self._give(size)

    def _give(self, size: int) -> None:
        with self._changed:
            self._left += size
            self._changed.notify_all()

    def fitting(self, items: Iterable[M]) -> tuple[list[M], bool]:
        """Return the leading items that fit the size of an answer, at least one, and whether some
        are left.
        """
        taken: list[M] = []
        size = 0
        for item in items:
            size += item.ByteSize() + 6  # with its tag and length
            if taken and size > self.max_bytes:
                return taken, True
            taken.append(item)
        return taken, False

    def fitting_page(
        self, page: Page[T], convert: Callable[[T], M]
    ) -> tuple[list[M], PageEnd | None]:
        """Return the leading entries of a page that fit the size of an answer, converted, at least
        one, and the place behind which the next page begins.
        """
        fitting, _ = self.fitting(map(convert, page.entries))
        return fitting, page.end(len(fitting))

    def cut(self, answer: api.SearchResponse) -> api.SearchResponse:
        """Return a search's answer cut to the size limit: its worst hits go first, then its worst
        results, never the best one.
        """
        size = answer.ByteSize()
        for items in (answer.hits, answer.results):
            while size > self.max_bytes and len(items) > 1:
                size -= items[-1].ByteSize() + 6
                del items[-1]
                answer.has_more = True
        return answer
