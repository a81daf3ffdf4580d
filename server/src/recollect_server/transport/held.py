"""Streams that hold no thread while nothing is sent: those of health and reflection, and, by
`streams`, those of live updates.

The rules that keep grpcio alive are kept here: a stream is with one sender at a time, nothing is
sent from the thread of a call or from a callback, nothing is sent under a lock, streams are
bounded, and all are ended before the server stops.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar, cast

import structlog
from google.rpc import status_pb2

from recollect_server.domain.errors import (
    RecollectError,
    Stopping,
    TooManySubscribers,
    Unauthenticated,
)
from recollect_server.domain.ids import new_ulid
from recollect_server.transport.errors import internal, status_of
from recollect_server.transport.gate import Ended
from recollect_server.transport.handling import Call, Send
from recollect_server.transport.senders import Scheduled, Sender, Senders, set_end

log = structlog.get_logger("recollect.streams")

_LOOK_SECONDS = 0.05  # between two looks at the streams that a stop waits for


class HeldStream(ABC):
    """An open stream that has something to send now and then."""

    __slots__ = ("again", "context", "ending", "over", "principal", "scheduled", "send")

    def __init__(self, call: Call, send: Send) -> None:
        self.context = call.context
        self.principal = call.principal
        self.send = send
        self.scheduled = self.again = False
        self.over = False
        """The call is over, or about to be: nothing is sent any more."""
        self.ending: status_pb2.Status | None = None
        """Status that ends the call once nothing is left to send; None while it is open."""

    @abstractmethod
    def advance(self, send: Callable[[bytes], None]) -> bool:
        """Send what comes next, and return whether more is left. One thread calls it at a time."""

    def cancel(self) -> None:
        """End the call at once; a send that is blocked returns."""
        self.over = True
        self.context.cancel()


S = TypeVar("S", bound=HeldStream)


class HeldStreams(Generic[S]):
    """The open streams of a service, with the threads that send to them. Safe to call from any
    thread.
    """

    def __init__(
        self, limit: int, kind: str, *, send_timeout: float = 5.0, moving: int = 1
    ) -> None:
        """`limit`: how many may be open. `kind`: what they are, in the plural, for error texts.
        `send_timeout`, `moving`: see `Senders`.
        """
        self._limit = limit
        self._kind = kind
        # guards everything below; nothing slow happens under it
        self._guard = threading.Condition()
        self._streams: set[S] = set()
        self._opening = 0
        self._stopping = threading.Event()
        self._senders = Senders(self._pump, send_timeout, moving=moving)

    def begin(self, make: Callable[[], S]) -> S:
        """Make and add a stream, and return it before anything is sent. Raises TooManySubscribers,
        Stopping, and what `make` raises.
        """
        with self._guard:
            if self._stopping.is_set():
                raise Stopping
            if len(self._streams) + self._opening >= self._limit:
                raise TooManySubscribers(self._limit, self._kind)
            self._opening += 1
        try:
            stream = make()
            with self._guard:
                self._streams.add(stream)
                self._add(stream)
        finally:
            with self._guard:
                self._opening -= 1
                self._guard.notify_all()
        # The callback runs on the thread that serves all calls: it may send nothing, and wait for
        # nothing.
        if not stream.context.add_callback(partial(self._forget, stream)):
            self._forget(stream)
        else:
            self.wake((stream,))
        return stream

    def wake(self, streams: Iterable[S]) -> None:
        """Let the senders look at these streams."""
        self._senders.schedule(streams)

    def select(self, is_wanted: Callable[[S], bool] = lambda _: True) -> list[S]:
        with self._guard:
            return [stream for stream in self._streams if is_wanted(stream)]

    def end(self, ended: Ended) -> None:
        """End the streams of callers that would not be admitted any more."""
        reasons: dict[str, str] = {}  # by token: thousands of streams may have one

        def error_of(stream: S) -> RecollectError | None:
            caller = stream.principal
            if (reason := reasons.get(caller.token_id)) is None:
                reason = reasons[caller.token_id] = ended(caller)
            return Unauthenticated(reason) if reason else None

        self.end_with(self.select(), error_of)

    def end_with(
        self, streams: Iterable[S], error_of: Callable[[S], RecollectError | None]
    ) -> None:
        """End those of the streams for which there is an error."""
        concerned: list[S] = []
        for stream in streams:
            if stream.ending is None and (error := error_of(stream)) is not None:
                stream.ending = status_of(error)
                concerned.append(stream)
        self.wake(concerned)

    def stop(self) -> None:
        """Send what is left, end every stream and take no new ones. Idempotent."""
        with self._guard:
            if self._stopping.is_set():
                return
            self._stopping.set()
            self._guard.notify_all()
        self._senders.hurry()
        while True:  # those too that were being opened
            with self._guard:
                streams, opening = list(self._streams), self._opening
            self.end_with(streams, lambda _: Stopping())
            if not streams and not opening:
                break
            with self._guard:
                self._guard.wait_for(lambda: not (self._streams or self._opening), _LOOK_SECONDS)
        self._senders.stop()

    def _add(self, stream: S) -> None:
        """Note a new stream. `_guard` is held."""

    def _remove(self, stream: S) -> None:
        """Note that a stream is over."""

    def _forget(self, stream: S) -> None:
        stream.over = True
        with self._guard:
            if stream not in self._streams:
                return
            self._streams.remove(stream)
            self._guard.notify_all()
        self._remove(stream)

    def _pump(self, it: Scheduled, sender: Sender) -> bool:
        stream = cast(S, it)
        if stream.over:
            return False
        try:
            if stream.advance(partial(sender.send, stream.send)):
                return True
        except RecollectError as error:
            stream.ending = status_of(error)
        except Exception:
            # the end of the error table: what nobody foresaw ends this stream and no other
            log_id = new_ulid()
            log.exception("fault", stream=type(stream).__name__, log_id=log_id)
            stream.ending = internal(log_id)
        if stream.ending is not None and not stream.over:
            stream.over = True
            set_end(stream.context, stream.ending)
            sender.send(stream.send, None)
            self._forget(stream)
        return False
