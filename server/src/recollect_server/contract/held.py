"""Streams that hold no thread while nothing is sent: those of health and reflection, and, by
`streams`, those of live updates.

The rules that keep grpcio alive are kept here: a stream is with one sender at a time, nothing is
sent from the thread of a call or from a callback, nothing is sent under a lock, streams are
bounded, and all are ended before the server stops.

A few threads send more than many: they take turns with Python's lock. But sending blocks on a
caller that does not read, once what lies between is full. So a thread that is blocked is stood in
for by another, while the watchdog gives the caller a few seconds and then cancels its call, which
frees the thread; where the connection itself is dead, its keepalive does. However many callers are
stuck, as many threads as ever serve the others.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

import grpc
import structlog
from google.rpc import status_pb2
from grpc_status import rpc_status

from recollect_server.access.principal import Unauthenticated
from recollect_server.contract.errors import internal, status_of
from recollect_server.contract.gate import Ended
from recollect_server.contract.handling import Call, Send
from recollect_server.kernel.domain.errors import RecollectError, Stopping, TooManySubscribers
from recollect_server.kernel.domain.ids import new_ulid

_MOST = 128  # threads in all: beyond that the stream that blocks longest is cancelled at once
_BLOCKED = 0.015  # seconds that a send takes no longer than if the caller reads
_IMPATIENT = 0.1  # seconds that a send may take once all are to end: a busy machine needs some
_TICK = 0.005  # seconds between two looks of the watchdog while somebody is sent to


def set_end(context: grpc.ServicerContext, status: status_pb2.Status) -> None:
    """Set the status that the caller of a stream gets when it ends."""
    end = rpc_status.to_status(status)
    context.set_code(end.code)
    context.set_details(end.details)
    context.set_trailing_metadata(end.trailing_metadata)


class Scheduled(Protocol):
    """Protocol of a stream that senders serve. Both flags belong to the senders."""

    scheduled: bool
    """It waits for a thread, or is with one."""
    again: bool
    """There may be more for it than its thread saw."""

    def cancel(self) -> None:
        """Cancel a blocked send."""


class Sender:
    """A thread that sends, as far as the watchdog looks at it."""

    __slots__ = ("_sends", "since", "stream")

    def __init__(self, sends: threading.Event) -> None:
        """Make one that is with no stream. It sets `sends` when it sends, for the watchdog."""
        self.stream: Scheduled | None = None
        self.since = 0.0  # when the send under way began; 0: none is
        self._sends = sends

    def send(self, send: Callable[[bytes | None], None], data: bytes | None) -> None:
        """Send, supervised by the watchdog."""
        self.since = time.monotonic()
        if not self._sends.is_set():
            self._sends.set()
        try:
            send(data)
        finally:
            self.since = 0.0

    def blocked(self, now: float, seconds: float) -> bool:
        """Return whether the current send takes longer than `seconds`."""
        since = self.since
        return since > 0 and now - since > seconds


class Senders:
    """Some threads, and the streams that wait for one."""

    def __init__(
        self,
        pump: Callable[[Scheduled, Sender], bool],
        send_timeout: float,
        *,
        moving: int = 3,
    ) -> None:
        """`pump` sends what there is for a stream, by the given sender, and says whether more is
        left; it raises nothing.

        `send_timeout`: seconds that one send may take. `moving`: threads that send where none is
        blocked.
        """
        self._pump = pump
        self._moving = moving
        self._send_timeout = send_timeout
        # guards everything below and the streams' flags; nothing slow happens under it
        guard = threading.RLock()
        self._changed = threading.Condition(guard)
        self._left = threading.Condition(guard)  # a thread has left a stream
        self._ready: deque[Scheduled] = deque()
        self._senders: set[Sender] = set()
        self._stopping = self._impatient = False
        self._ended = threading.Event()
        self._sends = threading.Event()  # set by the first send after a pause: wakes the watchdog
        # started with the first stream
        self._watchdog = threading.Thread(target=self._watch, name="stream-watchdog", daemon=True)

    def schedule(self, streams: Iterable[Scheduled]) -> int:
        """Queue streams that may have updates, and return the number of queued ones."""
        count = 0
        with self._changed:
            for stream in streams:
                if stream.scheduled:
                    stream.again = True
                else:
                    stream.scheduled = True
                    self._ready.append(stream)
                    count += 1
            if count and self._watchdog.ident is None:
                for _ in range(self._moving):
                    self._start()
                self._watchdog.start()
            self._changed.notify(count)
        return count

    def threads(self) -> int:
        return len(self._senders)

    @property
    def is_quiet(self) -> bool:
        """Return whether the watchdog sleeps, because nobody sends."""
        return not self._sends.is_set()

    def wait_for(self, is_other: Callable[[Scheduled], bool]) -> None:
        """Wait until every thread is with a stream that is another, or with none."""
        with self._changed:
            self._left.wait_for(
                lambda: all(it.stream is None or is_other(it.stream) for it in self._senders)
            )

    def hurry(self) -> None:
        """Cancel blocked sends within a moment from here on."""
        self._impatient = True

    def stop(self) -> None:
        """Send what is queued, and end the threads. Schedule nothing afterwards."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            while self._senders:
                self._changed.wait()
        self._ended.set()
        self._sends.set()
        if self._watchdog.ident is not None:
            self._watchdog.join()

    def _start(self) -> None:
        sender = Sender(self._sends)
        self._senders.add(sender)
        threading.Thread(
            target=self._run, args=(sender,), name="stream-sender", daemon=True
        ).start()

    def _run(self, sender: Sender) -> None:
        while (stream := self._next(sender)) is not None:
            more = self._pump(stream, sender)
            with self._changed:
                sender.stream = None
                self._left.notify_all()
                if more or stream.again:
                    stream.again = False
                    # behind the others: who has missed much keeps nobody waiting
                    self._ready.append(stream)
                    self._changed.notify()
                else:
                    stream.scheduled = False

    def _next(self, sender: Sender) -> Scheduled | None:
        """Return the next stream in the queue; None if this thread is no longer needed."""
        with self._changed:
            while not self._ready and not self._stopping and not self._too_many():
                self._changed.wait()
            if not self._ready or self._too_many():
                self._senders.discard(sender)
                self._changed.notify_all()
                return None
            sender.stream = self._ready.popleft()
            return sender.stream

    def _too_many(self) -> bool:
        if len(self._senders) <= self._moving:
            return False
        now = time.monotonic()
        return sum(not sender.blocked(now, _BLOCKED) for sender in self._senders) > self._moving

    def _is_sending(self) -> bool:
        return any(sender.since for sender in tuple(self._senders))

    def _watch(self) -> None:
        while not self._ended.wait(_TICK):
            if not self._is_sending():
                self._sends.clear()
                # a send that began before it was cleared is seen here, a later one sets it again
                if not self._is_sending() and not self._ended.is_set():
                    self._sends.wait()
                continue
            with self._changed:
                now = time.monotonic()
                blocked = sorted(
                    (s for s in self._senders if s.blocked(now, _BLOCKED)), key=lambda s: s.since
                )
                moving = len(self._senders) - len(blocked)
                # Where none moves, as many again: those that are stuck often come together.
                missing = (
                    len(self._senders) if not moving and self._ready else self._moving - moving
                )
                for _ in range(min(missing, _MOST - len(self._senders))):
                    self._start()
                patience = self._send_timeout
                if self._impatient:
                    patience = min(patience, _IMPATIENT)
                stuck = [s.stream for s in blocked if s.blocked(now, patience)]
                if not stuck and len(self._senders) >= _MOST and len(blocked) == len(self._senders):
                    stuck = [blocked[0].stream]
            for stream in stuck:
                if stream is not None:
                    stream.cancel()


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
