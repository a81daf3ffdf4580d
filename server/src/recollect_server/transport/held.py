"""Streams of health and reflection: they stay open for long and hold no thread while nothing is
sent.

The rules that keep grpcio alive are kept here, as `streams` keeps them for live updates: a stream
is with one sender at a time, nothing is sent from the thread of a call or from a callback, nothing
is sent under a lock, streams are bounded, and all are ended before the server stops.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import grpc
import structlog
from google.rpc import status_pb2

from recollect_server.domain.errors import Stopping, TooManySubscribers
from recollect_server.domain.ids import new_ulid
from recollect_server.transport.errors import internal, status_of
from recollect_server.transport.handling import Send
from recollect_server.transport.senders import Scheduled, Sender, Senders, set_end

log = structlog.get_logger("recollect.calls")

_SEND_SECONDS = 5.0
_LOOK_SECONDS = 0.05  # between two looks at the streams that a stop waits for


class HeldStream(ABC):
    """An open stream that has something to send now and then."""

    def __init__(self, context: grpc.ServicerContext, send: Send) -> None:
        self.context = context
        self.send = send
        self.scheduled = self.again = False
        self.over = False
        """The call is over, or about to be: nothing is sent any more."""
        self.ending: status_pb2.Status | None = None
        """Status that ends the call once everything is sent; None while it is open."""

    @abstractmethod
    def next(self) -> bytes | None:
        """Return what is to be sent next; None if there is nothing now. One thread calls it at a
        time, and it returns at once.
        """

    def cancel(self) -> None:
        """End the call at once; a send that is blocked returns."""
        self.over = True
        self.context.cancel()


class HeldStreams:
    """The open streams of a service, with the threads that send to them. Safe to call from any
    thread.
    """

    def __init__(self, limit: int, kind: str) -> None:
        """`limit`: how many may be open. `kind`: what they are, in the plural, for error texts."""
        self._limit = limit
        self._kind = kind
        # guards everything below; nothing slow happens under it
        self._guard = threading.Condition()
        self._streams: set[HeldStream] = set()
        self._stopping = False
        self._senders: Senders | None = None  # started with the first stream

    def open(self, stream: HeldStream) -> None:
        """Add a stream, and return before anything is sent. Raises TooManySubscribers, Stopping."""
        with self._guard:
            if self._stopping:
                raise Stopping
            if len(self._streams) >= self._limit:
                raise TooManySubscribers(self._limit, self._kind)
            if self._senders is None:
                self._senders = Senders(self._pump, _SEND_SECONDS, moving=1)
            self._streams.add(stream)
        # The callback runs on the thread that serves all calls: it may send nothing, and wait for
        # nothing.
        if not stream.context.add_callback(lambda: self._forget(stream)):
            self._forget(stream)
            return
        self.wake((stream,))

    def wake(self, streams: Iterable[HeldStream]) -> None:
        """Let the senders look at these streams."""
        if self._senders is not None:
            self._senders.schedule(streams)

    def select(self, is_wanted: Callable[[HeldStream], bool]) -> list[HeldStream]:
        with self._guard:
            return [stream for stream in self._streams if is_wanted(stream)]

    def stop(self) -> None:
        """Send what is left, end every stream and take no new ones. A second time does nothing."""
        with self._guard:
            if self._stopping:
                return
            self._stopping = True
        if self._senders is None:
            return
        self._senders.hurry()
        while streams := self.select(lambda _: True):
            for stream in streams:
                stream.ending = stream.ending or status_of(Stopping())
            self.wake(streams)
            with self._guard:
                self._guard.wait_for(lambda: not self._streams, _LOOK_SECONDS)
        self._senders.stop()

    def _forget(self, stream: HeldStream) -> None:
        stream.over = True
        with self._guard:
            self._streams.discard(stream)
            if not self._streams:
                self._guard.notify_all()

    def _pump(self, it: Scheduled, sender: Sender) -> bool:
        assert isinstance(it, HeldStream)
        stream = it
        if stream.over:
            return False
        try:
            if (data := stream.next()) is not None:
                sender.send(stream.send, data)
                return True
        except Exception:
            # the end of the error table: what nobody foresaw ends this stream and no other
            log_id = new_ulid()
            log.exception("fault", stream=type(stream).__name__, log_id=log_id)
            stream.ending = internal(log_id)
        if stream.ending is not None:
            stream.over = True
            set_end(stream.context, stream.ending)
            sender.send(stream.send, None)
            self._forget(stream)
        return False
