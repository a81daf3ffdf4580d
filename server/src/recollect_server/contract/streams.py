"""The open streams of live updates: which there are, when one has something to send, and how they
end.

No stream has a thread. One thread takes the changes of everything that is watched, of all open
spaces, and puts the streams that they concern in line for the senders; a sender asks the stream's
watcher what comes next and sends it. What would break grpcio is avoided in `held`.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, cast

import structlog

from recollect_server.contract.errors import status_of
from recollect_server.contract.handling import Call, Send
from recollect_server.contract.held import HeldStream, HeldStreams
from recollect_server.contract.updates import elements
from recollect_server.kernel.domain.errors import DataUnavailable, SpaceMade, SpaceNotFound
from recollect_server.kernel.domain.telemetry import UNMEASURED, Count, Telemetry
from recollect_server.kernel.stream.log import UpdateLog, Watcher

log = structlog.get_logger("recollect.streams")

T = TypeVar("T")

_MOVING = 3  # threads that send where none is blocked
_PART = 200  # updates that a stream is sent before the next one has its turn
# seconds of rest for each update that came: the more come, the more go out
# at once,
_REST = 0.003
# so that appends keep the processor; but no longer than the streams that were concerned are worth,
_REST_OF_A_STREAM = 0.001
_LONGEST_REST = 0.05  # nor than this
_TICK = 0.25
_RESTING_TICK = 5.0  # while there are no streams, and were none for so long
_LONGEST_PAUSE = 1.0  # seconds between two tries of a stream whose updates cannot be read


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits on streams: their number, and how long, in seconds, they may be silent or block."""

    max_subscribers: int
    heartbeat: float
    send_timeout: float = 5.0

    @property
    def tick(self) -> float:
        """Return the seconds between two looks at silent streams."""
        return min(_TICK, self.heartbeat / 4)


class Stream(HeldStream):
    __slots__ = (
        "_limits",
        "_telemetry",
        "beat",
        "began",
        "due_since",
        "is_slow",
        "max_batch",
        "pause",
        "sent",
        "spoke",
        "tries_at",
        "watched",
        "watcher",
    )

    def __init__(
        self,
        call: Call,
        send: Send,
        watched: UpdateLog[Any],
        watcher: Watcher,
        max_batch: int,
        limits: StreamLimits,
        telemetry: Telemetry,
        *,
        resumed: bool,
    ) -> None:
        super().__init__(call, send)
        self.watched = watched
        self.watcher = watcher
        self.max_batch = max_batch
        self._limits = limits
        self._telemetry = telemetry
        self.beat = resumed
        """A heartbeat is due: to one who comes back it says that what was missed is over."""
        self.began = self.spoke = time.monotonic()
        self.sent = 0
        self.is_slow = False
        """It was cancelled because it did not take what was sent."""
        self.due_since = 0.0
        """Since when something waits to be sent; 0: nothing does."""
        self.pause = 0.0
        """Seconds of its last pause, because its updates cannot be read; 0: they can."""
        self.tries_at = 0.0
        """End of that pause."""

    def cancel(self) -> None:
        """Cancel the call at once; a blocked send returns."""
        self.is_slow = True
        super().cancel()

    def advance(self, send: Callable[[bytes], None]) -> bool:
        if self.ending is not None:
            return False
        try:
            due_since = self.due_since
            batch, more = self.watcher.take(_PART)
            self.pause = 0.0
            if self.beat and not more:
                batch.updates.append(self.watcher.heartbeat())
                self.beat = False
            if (packed := batch.packed.get(self.max_batch)) is None:
                packed = batch.packed[self.max_batch] = elements(batch.updates, self.max_batch)
            for element in packed:
                if self.over or self.ending:
                    return False
                self.spoke = time.monotonic()
                send(element)
                self.sent += 1
            if due_since and not more:
                self.due_since = 0.0
                self._telemetry.deliver(time.monotonic() - due_since)
            return more
        except DataUnavailable as error:
            if not self.pause:
                log.warning("stream_waits", reason=str(error))
            self.pause = min(2 * self.pause or self._limits.tick, _LONGEST_PAUSE)
            self.tries_at = time.monotonic() + self.pause
            return False


@dataclass(slots=True, eq=False)
class _Followed:
    """Something that is watched, as the listening thread follows it. `Streams` guards it."""

    watched: UpdateLog[Any]
    stands_in: bool
    """It is the empty space, in place of one that does not exist."""
    streams: set[Stream] = field(default_factory=set)
    is_pending: bool = False
    pending_since: float = 0.0
    """Time of the first change that was not taken yet; 0: there is none."""
    busy: bool = False
    """The listening thread is with it."""
    rests_until: float = 0.0
    """Until then changes may wait for more: 0 if nobody waits for the end of that."""


class Streams(HeldStreams[Stream]):
    """All open streams. Safe to call from any thread."""

    def __init__(self, limits: StreamLimits, telemetry: Telemetry = UNMEASURED) -> None:
        super().__init__(
            limits.max_subscribers,
            "subscribers",
            send_timeout=limits.send_timeout,
            moving=_MOVING,
        )
        self._limits = limits
        self._telemetry = telemetry
        self._streamed = time.monotonic()  # last time that there was a stream
        self._ticks_at = 0.0
        # guarded by `_guard`, as all that follows
        self._followed: dict[UpdateLog[Any], _Followed] = {}
        self._pending: set[_Followed] = set()  # have changes, and do not rest
        self._resting: set[_Followed] = set()
        self._leaving: Counter[str] = Counter()  # deletes of spaces that are under way
        self._deaf = threading.Event()  # nobody listens any more
        self._listener = threading.Thread(target=self._listen, name="streams", daemon=True)
        self._listener.start()

    def watch(self, watched: UpdateLog[Any], *, stands_in: bool = False) -> None:
        """Follow something that streams may be opened of. `stands_in`: see `end_of_made`."""
        followed = _Followed(watched, stands_in)
        with self._guard:
            self._followed[watched] = followed
        watched.listen(partial(self._signal, followed))
        watched.expect()

    def unwatch(self, watched: UpdateLog[Any]) -> None:
        """Follow it no more, and wait until no thread uses it. It has no open streams."""
        with self._guard:
            followed = self._followed.pop(watched)
            self._pending.discard(followed)
            self._resting.discard(followed)
            self._guard.wait_for(lambda: not followed.busy)
        self._senders.wait_for(lambda it: cast(Stream, it).watched is not watched)

    def open(
        self,
        watched: UpdateLog[Any],
        subscribe: Callable[[], Watcher],
        max_batch: int,
        call: Call,
        send: Send,
        *,
        resumed: bool,
    ) -> None:
        """Open a stream, and return before anything is sent. `resumed`: the caller came with a
        cursor.

        Raises TooManySubscribers, Stopping, and what `subscribe` raises.
        """
        self.begin(
            lambda: Stream(
                call,
                send,
                watched,
                subscribe(),
                max_batch,
                self._limits,
                self._telemetry,
                resumed=resumed,
            )
        )

    def end_of_made(self, exists: Callable[[str], bool]) -> None:
        """End the streams that were opened of a space before it existed, once it does.

        Such a stream watches an empty space in its place. Its caller subscribes again, and begins
        with a snapshot of the space, whichever server made it. Raises StorageUnavailable.
        """
        with self._guard:
            waiting = [it for one in self._followed.values() if one.stands_in for it in one.streams]
        made = {name for name in {it.principal.space for it in waiting} if exists(name)}
        self.end_with(
            waiting,
            lambda it: SpaceMade(it.principal.space) if it.principal.space in made else None,
        )

    @contextmanager
    def ended_in(self, space: str) -> Iterator[None]:
        """End the streams of callers of a space, which is being deleted; in the block also those
        that are being opened.
        """
        with self._guard:
            self._leaving[space] += 1
        concerned = self.select(lambda it: it.principal.space == space)
        self.end_with(concerned, lambda _: SpaceNotFound(space))
        try:
            yield
        finally:
            with self._guard:
                self._leaving[space] -= 1
                self._leaving += Counter()  # keeps the positive ones

    def count(self) -> int:
        return len(self._streams)

    def lag(self) -> float:
        """Return the seconds that the stream that is furthest behind waits for something new."""
        with self._guard:
            times = [it.due_since for it in self._streams if it.due_since]
        return max(0.0, time.monotonic() - min(times)) if times else 0.0

    def threads(self) -> int:
        return self._senders.threads()

    def stop(self) -> None:
        """Listen no more, end every stream and accept no new ones. Idempotent."""
        self._deaf.set()
        with self._guard:
            self._guard.notify_all()
        self._listener.join()
        super().stop()

    def _add(self, stream: Stream) -> None:
        self._followed[stream.watched].streams.add(stream)
        self._ticks_at = min(self._ticks_at, time.monotonic() + self._limits.tick)
        if stream.principal.space in self._leaving:
            stream.ending = status_of(SpaceNotFound(stream.principal.space))
        self._guard.notify_all()

    def _remove(self, stream: Stream) -> None:
        with self._guard:
            if (followed := self._followed.get(stream.watched)) is not None:
                followed.streams.discard(stream)
        stream.watched.unsubscribe()
        seconds = round(time.monotonic() - stream.began, 1)
        reason = "slow" if stream.is_slow else "server" if stream.ending else "caller"
        self._telemetry.count(Count.STREAMS_ENDED, label=reason)
        log.info("stream_over", seconds=seconds, sent=stream.sent, ended_by=reason)

    # Threads --------------------------------------------------------------------------------------

    def _signal(self, followed: _Followed) -> None:
        """Note a change. It may be called under locks of what is watched, and waits for nothing."""
        with self._guard:
            followed.is_pending = True
            followed.pending_since = followed.pending_since or time.monotonic()
            if followed not in self._resting and followed.watched in self._followed:
                self._pending.add(followed)
                self._guard.notify_all()

    def _listen(self) -> None:
        while not self._deaf.is_set():
            now = time.monotonic()
            if now >= self._ticks_at:
                with self._guard:
                    if self._streams:
                        self._streamed = now
                    rests = now - self._streamed > _RESTING_TICK
                    self._ticks_at = now + (_RESTING_TICK if rests else self._limits.tick)
                self._tick_all(now)
            for followed in self._rested(now):
                self._guarded(followed, followed.watched.expect)
                self._leave(followed)
            for followed in self._take_pending():
                rest = self._guarded(followed, partial(self._advance, followed)) or 0.0
                with self._guard:
                    if rest and followed.watched in self._followed:
                        followed.rests_until = time.monotonic() + rest
                        self._resting.add(followed)
                        self._pending.discard(followed)
                self._leave(followed)

    def _guarded(self, followed: _Followed, work: Callable[[], T]) -> T | None:
        """Run the work for something that is watched: whatever it raises, the others have their
        turn.
        """
        try:
            return work()
        except Exception:
            # the only thread that listens: what nobody foresaw ends one turn and no more
            log.exception("fault", watched=type(followed.watched).__name__)
            return None

    def _take_pending(self) -> list[_Followed]:
        """Wait for something that has changes, until the next tick at most, and take all that have
        some.
        """
        with self._guard:
            ends = [self._ticks_at, *(it.rests_until for it in self._resting)]
            if not self._pending and not self._deaf.is_set():
                self._guard.wait(max(0.0, min(ends) - time.monotonic()))
            taken = list(self._pending)
            self._pending.clear()
            for followed in taken:
                followed.busy, followed.is_pending = True, False
            return taken

    def _rested(self, now: float) -> list[_Followed]:
        """Return what has rested long enough and has no changes; what has some is next in line."""
        with self._guard:
            rested = [it for it in self._resting if it.rests_until <= now]
            self._resting.difference_update(rested)
            self._pending.update(it for it in rested if it.is_pending)
            idle = [it for it in rested if not it.is_pending]
            for followed in idle:
                followed.busy = True
            return idle

    def _leave(self, followed: _Followed) -> None:
        with self._guard:
            followed.busy = False
            self._guard.notify_all()

    def _advance(self, followed: _Followed) -> float:
        """Pass on the changes of something. Return the seconds that it may rest: at least until
        more changes are worth it.
        """
        watched = followed.watched
        with self._guard:
            since, followed.pending_since = followed.pending_since, 0.0
        new = watched.advance()
        concerned: list[Stream] = []
        if new.everyone or new.about:
            with self._guard:
                concerned = [it for it in followed.streams if it.watcher.concerned(new)]
        for stream in concerned:
            stream.due_since = stream.due_since or since
        count = self._senders.schedule(concerned)
        rest = min(new.updates * _REST, count * _REST_OF_A_STREAM, _LONGEST_REST)
        if not rest:
            watched.expect()
        return rest

    def _tick_all(self, now: float) -> None:
        with self._guard:
            everything = list(self._followed.values())
        for followed in everything:
            with self._guard:
                if followed.watched not in self._followed:
                    continue
                followed.busy = True
            self._guarded(followed, followed.watched.tick)
            self._leave(followed)
        with self._guard:
            silent = [
                it
                for it in self._streams
                if not it.pause and now - it.spoke > self._limits.heartbeat
            ]
            # Nothing announces that an index or a database can be read again.
            paused = [it for it in self._streams if it.pause and now >= it.tries_at]
        for stream in silent:
            stream.beat = True
        self._senders.schedule({*silent, *paused})
