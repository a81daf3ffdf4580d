"""The open streams of live updates: which there are, when one has something to send, and how they
end.

No stream has a thread. One thread takes the changes of everything that is watched, of all open
spaces, and puts the streams that they concern in line for the senders; a sender asks the stream's
watcher what comes next and sends it. What would break grpcio is avoided in `held`.

A stream keeps no space open. Where its space rests or is closed, it gives its watcher back and
keeps its cursor; when the space is opened again, it goes on behind that, as a caller who comes back
does.
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
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.telemetry import UNMEASURED, Count, Telemetry
from recollect_server.kernel.stream.log import UpdateLog, Watcher
from recollect_server.kernel.stream.ring import Batch

log = structlog.get_logger("recollect.streams")

T = TypeVar("T")
Subscribe = Callable[[Any, str], Watcher]
"""Begins to watch an `UpdateLog` behind a cursor, or with a snapshot if that is empty."""

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
        "_detaching",
        "_heartbeat",
        "_limits",
        "_subscribe",
        "_telemetry",
        "beat",
        "began",
        "cursor",
        "due_since",
        "followed",
        "is_level",
        "is_slow",
        "max_batch",
        "pause",
        "sent",
        "spoke",
        "tries_at",
        "watcher",
    )

    def __init__(
        self,
        call: Call,
        send: Send,
        followed: "_Followed",
        watched: UpdateLog[Any],
        subscribe: Subscribe,
        cursor: str,
        max_batch: int,
        limits: StreamLimits,
        telemetry: Telemetry,
    ) -> None:
        super().__init__(call, send)
        self.followed = followed
        self.cursor = cursor
        """Its place while it has no watcher."""
        self.watcher: Watcher | None = subscribe(watched, cursor)
        """None while its space is not open, and until a sender makes one then."""
        self._detaching = threading.Lock()
        self._subscribe = subscribe
        self._heartbeat = watched.heartbeat
        self.max_batch = max_batch
        self._limits = limits
        self._telemetry = telemetry
        self.beat = bool(cursor)
        """A heartbeat is due: to one who comes back it says that what was missed is over."""
        self.is_level = False
        """It was sent its snapshot, or what it had missed: before that it gets no heartbeat."""
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

    @property
    def is_behind(self) -> bool:
        """Return whether it may have something to send that can be read now."""
        is_due = self.due_since > 0 and not self.pause
        return self.watcher is None or self.scheduled or is_due

    @property
    def lacks(self) -> bool:
        """Return whether it may have something to send, even if that cannot be read now."""
        return self.is_behind or self.pause > 0

    def detach(self) -> None:
        """Give the watcher back, if it has one, and keep its place."""
        with self._detaching:
            watcher, self.watcher = self.watcher, None
        if watcher is not None:
            self.cursor = watcher.cursor or self.cursor
            watcher.end()

    def _attached(self) -> Watcher | None:
        """Return the watcher, a new one if the space was opened again; None while it is closed.
        Raises as `_subscribe`.
        """
        if (watched := self.followed.watched) is None:
            return None
        if self.watcher is None:
            self.watcher = self._subscribe(watched, self.cursor)
            if self.over:  # then nobody else may see that it has one
                self.detach()
        return self.watcher

    def advance(self, send: Callable[[bytes], None]) -> bool:
        if self.ending is not None:
            return False
        try:
            due_since = self.due_since
            watcher = self._attached()
            batch, more = watcher.take(_PART) if watcher else (Batch([]), False)
            self.pause = 0.0
            self.is_level = self.is_level or bool(watcher and not more)
            if self.beat and self.is_level and not more:
                cursor = watcher.cursor if watcher else self.cursor
                batch.updates.append(self._heartbeat(cursor))
                self.beat = False
            if (packed := batch.packed.get(self.max_batch)) is None:
                packed = batch.packed[self.max_batch] = elements(batch.updates, self.max_batch)
            for element in packed:
                if self.over or self.ending:
                    return False
                self.spoke = time.monotonic()
                send(element)
                self.sent += 1
            if due_since and watcher and not more:
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

    key: tuple[str, Kind]
    """Its space and its kind of log. An empty name is that of the empty space, in place of one that
    does not exist.
    """
    watched: UpdateLog[Any] | None = None
    """None while the space is at rest or closed."""
    streams: set[Stream] = field(default_factory=set)
    is_awaited: bool = False
    """The space is to be opened again: its streams lack something."""
    end_wait: Callable[[], None] = lambda: None
    """Ends the look for something that they lack."""
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
        self._detached: dict[tuple[str, Kind], _Followed] = {}  # whose space is not open
        self._wake: Callable[[], None] = lambda: None
        self._pending: set[_Followed] = set()  # have changes, and do not rest
        self._resting: set[_Followed] = set()
        self._leaving: Counter[str] = Counter()  # deletes of spaces that are under way
        self._deaf = threading.Event()  # nobody listens any more
        self._listener = threading.Thread(target=self._listen, name="streams", daemon=True)
        self._listener.start()

    def watch(self, watched: UpdateLog[Any], space: str) -> None:
        """Follow something that streams may be opened of; those that were opened before go on. An
        empty `space`: see `end_of_made`.
        """
        with self._guard:
            key = space, watched.kind
            followed = self._detached.pop(key, None) or _Followed(key)
            followed.is_awaited, followed.watched = False, watched
            self._followed[watched] = followed
            streams = list(followed.streams)
        followed.end_wait()
        watched.listen(partial(self._signal, followed))
        watched.expect()
        self.wake(streams)

    def unwatch(self, watched: UpdateLog[Any]) -> None:
        """Follow it no more, and wait until no thread uses it. Its streams stay, and go on once it
        is watched again.
        """
        with self._guard:
            followed = self._followed.pop(watched)
            self._pending.discard(followed)
            self._resting.discard(followed)
            self._guard.wait_for(lambda: not followed.busy)
            followed.watched = None
        self._senders.wait_for(lambda it: cast(Stream, it).followed is not followed)
        with self._guard:
            streams = list(followed.streams)
            followed.is_awaited = any(it.lacks for it in streams)
        if not streams:
            watched.tick()  # the last one may have ended just now
            return
        for stream in streams:
            stream.detach()
        followed.end_wait = watched.leave(partial(self._await, followed))
        with self._guard:
            self._detached[followed.key] = followed
            if followed.is_awaited:
                self._wake()

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Call `wake` when there is something new in `awaited`. It may wait for nothing."""
        self._wake = wake

    def awaited(self) -> set[str]:
        """Return the spaces that are to be opened again: they have something for their streams."""
        with self._guard:
            detached = self._detached.items()
            return {space for (space, _), it in detached if it.is_awaited and it.streams}

    def has_detached(self, space: str) -> bool:
        """Return whether streams wait for the next change of a space that is not open."""
        return any((space, kind) in self._detached for kind in Kind)

    def has_streams(self, watched: UpdateLog[Any]) -> bool:
        """Return whether something that is watched has open streams."""
        followed = self._followed.get(watched)
        return followed is not None and bool(followed.streams)

    def is_delivering(self, watched: UpdateLog[Any]) -> bool:
        """Return whether something is on its way to the streams of something that is watched."""
        with self._guard:
            if not self.has_streams(watched):
                return False
            followed = self._followed[watched]
            is_busy = followed.is_pending or followed.busy
            if is_busy or any(it.is_behind for it in followed.streams):
                return True
        return watched.is_unfinished

    def open(
        self,
        watched: UpdateLog[Any],
        subscribe: Subscribe,
        cursor: str,
        max_batch: int,
        call: Call,
        send: Send,
    ) -> None:
        """Open a stream behind a cursor, if there is one, and return before anything is sent. The
        space is open until then.

        Raises TooManySubscribers, Stopping, and what `subscribe` raises.
        """
        followed = self._followed[watched]
        self.begin(
            lambda: Stream(
                *(call, send, followed, watched, subscribe, cursor, max_batch),
                *(self._limits, self._telemetry),
            )
        )

    def end_of_made(self, exists: Callable[[str], bool]) -> None:
        """End the streams that were opened of a space before it existed, once it does.

        Such a stream watches an empty space in its place. Its caller subscribes again, and begins
        with a snapshot of the space, whichever server made it. Raises StorageUnavailable.
        """
        with self._guard:
            waiting = [it for it in self._streams if not it.followed.key[0]]
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
        stream.followed.streams.add(stream)
        self._ticks_at = min(self._ticks_at, time.monotonic() + self._limits.tick)
        if stream.principal.space in self._leaving:
            stream.ending = status_of(SpaceNotFound(stream.principal.space))
        self._guard.notify_all()

    def _remove(self, stream: Stream) -> None:
        with self._guard:
            stream.followed.streams.discard(stream)
        stream.detach()
        seconds = round(time.monotonic() - stream.began, 1)
        reason = "slow" if stream.is_slow else "server" if stream.ending else "caller"
        self._telemetry.count(Count.STREAMS_ENDED, label=reason)
        log.info("stream_over", seconds=seconds, sent=stream.sent, ended_by=reason)

    def _await(self, followed: _Followed) -> None:
        """Have the space opened that something belongs to."""
        with self._guard:
            followed.is_awaited = True
            self._wake()

    def _take_left(self) -> list[_Followed]:
        """Take out what is detached and has no streams any more."""
        with self._guard:
            left = [key for key, it in self._detached.items() if not it.streams]
            return [self._detached.pop(key) for key in left]

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
                self._guarded(followed, UpdateLog.expect)
                self._leave(followed)
            for followed in self._take_pending():
                rest = self._guarded(followed, partial(self._advance, followed)) or 0.0
                with self._guard:
                    if rest and followed.watched in self._followed:
                        followed.rests_until = time.monotonic() + rest
                        self._resting.add(followed)
                        self._pending.discard(followed)
                self._leave(followed)

    def _guarded(self, followed: _Followed, work: Callable[[UpdateLog[Any]], T]) -> T | None:
        """Run the work for something that is watched: whatever it raises, the others have their
        turn.
        """
        assert followed.watched is not None  # while it is busy
        try:
            return work(followed.watched)
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

    def _advance(self, followed: _Followed, watched: UpdateLog[Any]) -> float:
        """Pass on the changes of something. Return the seconds that it may rest: at least until
        more changes are worth it.
        """
        with self._guard:
            since, followed.pending_since = followed.pending_since, 0.0
        new = watched.advance()
        concerned: list[Stream] = []
        if new.everyone or new.about:
            with self._guard:
                concerned = [
                    it for it in followed.streams if it.watcher and it.watcher.concerned(new)
                ]
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
            self._guarded(followed, lambda it: it.tick())
            self._leave(followed)
        for followed in self._take_left():
            followed.end_wait()
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
