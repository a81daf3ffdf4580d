"""The idle clock and the writer of notes: takes conversations that wait from the index, one at a
time for each thread.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import structlog
from structlog.contextvars import bound_contextvars

from recollect_server.admin.jobs import JobReport
from recollect_server.kernel.domain.errors import DataUnavailable, IndexUnavailable
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Count, Step, Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Lease, Spaces
from recollect_server.notes.hosted.language_model import (
    CannotWrite,
    LanguageModel,
    ModelUnavailable,
)
from recollect_server.notes.naming import Outcome
from recollect_server.notes.one_at_a_time import NotesTask
from recollect_server.notes.table import Waiting
from recollect_server.run.jobs.loop import Loop, unforeseen
from recollect_server.run.jobs.rounds import wall_time

log = structlog.get_logger("recollect.abbreviator")

NOTES = "notes"
"""Name of this work, for administrators and metrics."""

_SECONDS = 0.5  # between two looks at the index while nothing waits,
_RESTING_SECONDS = 5.0  # and while nobody calls: notes are due minutes after the last call
_LATER_SECONDS = 60.0  # of threads that another one wakes when there is work for them
_WORK_SECONDS = 0.001  # work between two pauses: a fifth of Python's switch interval
_PAUSE_SECONDS = 0.003
_BATCH = 32  # conversations looked up at once
_SPARE_THREADS = 4  # for conversations whose calls hang
_MAX_LOGGED = 10_000  # failures that are remembered as logged
_QUIET = 60_000  # milliseconds between two looks at the index while nothing is written
_STOP_SECONDS = 2.0  # a model that still writes is not waited for any longer


@dataclass(frozen=True, slots=True)
class _Work:
    """A conversation to write about; `again` if that failed before."""

    task: NotesTask
    waiting: Waiting
    again: bool = False


class Throttle:
    """Throttle of background work: a thread that calls it often releases Python's lock for longer
    than it holds it.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def __call__(self) -> None:
        """Pause if the calling thread has worked for a while."""
        if time.monotonic() - getattr(self._local, "since", 0.0) >= _WORK_SECONDS:
            time.sleep(_PAUSE_SECONDS)
            self._local.since = time.monotonic()


class SpaceNotes:
    """Notes that wait in one open space. `Abbreviator` guards it.

    What cannot be written is marked in the index and left until the next sweep, which comes with
    the opening and then every `sweep_interval` milliseconds; what the model itself did not write
    waits longer each time, and is given up in the end. When the model or the disk refuses
    altogether, everything of the space waits for the sweep; but one that was refused before does
    not make the others wait, for it may be to blame itself. A failure is logged once with its
    conversation, a reason that concerns all once for all, until a sweep finds that all went well
    since the one before.
    """

    def __init__(
        self,
        tasks: Sequence[NotesTask],
        sweep_interval: Live[int],
        mark: Callable[[], object],
        due_at: Callable[[int], int | None],
    ) -> None:
        """`mark` returns a value that changes with every write of the space; `due_at` returns when
        the next conversation waits, given the time of the next sweep, in milliseconds. It raises
        DataUnavailable.
        """
        self._tasks = tasks
        self._sweep_interval = sweep_interval
        self._mark = mark
        self._due_at = due_at
        self._queue: deque[_Work] = deque()
        self._paused = False  # until the next sweep
        self._refusals = 0  # one after the other
        self._swept_at: int | None = None
        self._logged: set[tuple[str, str]] = set()
        """The failures that were logged: conversation and reason; a reason that concerns all has no
        conversation.
        """
        self._failed = False  # whether anything did since the last sweep
        self._nothing_until: tuple[object, int, int] | None = None
        """The mark and the time at which nothing waited, and when to look again."""
        self.failure = ""
        """Reason for which nothing of the space can be written now; empty: there is none."""
        self.look_at = self.taken_at = 0.0
        """Time of the next look at the index, and of the last work, on the monotonic clock."""

    def next(self, now: int, is_at_work: Callable[[str], bool]) -> _Work | None:
        """Return the next conversation that no thread works on, or None."""
        if self._is_quiet(now):
            return None
        mark = self._mark()
        try:
            # A clock that was set back is no reason to wait until it has caught up.
            swept_at = self._swept_at
            if swept_at is None or not 0 <= now - swept_at < self._sweep_interval.now:
                self._sweep(now)
                swept_at = now
            if self._paused:
                return None
            if not self._queue:
                self._queue.extend(self._due(now))
            while self._queue:
                work = self._queue.popleft()
                if not is_at_work(work.waiting.conversation_id):
                    return work
            sweep = swept_at + self._sweep_interval.now
            times = [now + _QUIET, *([sweep] if self._logged or self._failed else [])]
            due = self.due_at()
            self._nothing_until = mark, now, min(times if due is None else [due, *times])
        except IndexUnavailable:
            pass  # the index's own job repairs it
        return None

    def due_at(self) -> int | None:
        """Return when the next conversation waits, in milliseconds; None if none will."""
        return self._due_at((self._swept_at or 0) + self._sweep_interval.now)

    def report(self, clock: Clock) -> JobReport:
        """Return the state of the notes, for administrators."""
        try:
            due = self.due_at()
        except DataUnavailable:
            due = None
        return JobReport(
            name=NOTES,
            is_on=bool(self._tasks),
            is_busy=due is not None and due <= clock(),
            reason=self.failure,
            ran_at=wall_time(self.taken_at, clock) if self.taken_at else None,
        )

    def written(self) -> None:
        """Note that notes were written: nothing refuses altogether."""
        self.failure = ""
        self._refusals = 0

    def failed(self, work: _Work, reason: str, *, alone: bool) -> bool:
        """Note a failure; `alone` if others may still succeed. Return whether it is to be
        logged.
        """
        self._failed = True
        if not alone:
            self.failure = reason
            self._refusals += 1
            if not work.again or self._refusals > 1:
                self._paused = True
                self._queue.clear()  # the index still has them
        failure = (work.waiting.conversation_id if alone else "", reason)
        is_new = failure not in self._logged and len(self._logged) < _MAX_LOGGED
        if is_new:
            self._logged.add(failure)
        return is_new

    def _is_quiet(self, now: int) -> bool:
        """Return whether nothing waited at the last look, and nothing can wait since."""
        if self._nothing_until is None or self._queue:
            return False
        mark, looked, until = self._nothing_until
        return looked <= now < until and mark == self._mark()

    def _due(self, now: int) -> list[_Work]:
        return [_Work(task, waiting) for task in self._tasks for waiting in task.due(now, _BATCH)]

    def _sweep(self, now: int) -> None:
        failed = [
            _Work(task, waiting, again=True) for task in self._tasks for waiting in task.failed(now)
        ]
        self._queue = deque([*self._due(now), *failed])
        self._swept_at, self._paused, self._refusals = now, False, 0
        waits = failed or any(task.any_waits() for task in self._tasks)
        if self._logged and not waits and not self._failed:
            self._logged.clear()
            log.info("notes_written_again")
        self._failed = False


class HasNotes(OpenedSpace, Protocol):
    """Protocol of an open space whose conversations wait for notes."""

    notes: SpaceNotes


@dataclass(slots=True)
class _AtWork:
    """A conversation that a thread works on."""

    lease: Lease[HasNotes]
    work: _Work
    since: float


class Abbreviator:
    """Threads that nobody waits for, for all open spaces. Started when made.

    `threads` conversations are written about at the same time, of the spaces in turn. One that
    takes longer than `slow` seconds does not count any more: a call that hangs holds up nobody, and
    up to `_SPARE_THREADS` of them are waited for beside the others.
    """

    def __init__(
        self,
        spaces: Spaces[Any],
        model: LanguageModel,
        clock: Clock,
        threads: int,
        slow: float,
        telemetry: Telemetry = UNMEASURED,
    ) -> None:
        self._telemetry = telemetry
        self._spaces: Spaces[HasNotes] = spaces
        self._model = model
        self._clock = clock
        self._stopping = threading.Event()
        # guards everything below, and the notes of each space; what is looked up in an index is
        # looked up under it
        self._lock = threading.Lock()
        self._threads = threads
        self._slow = slow
        self._at_work: dict[tuple[str, str], _AtWork] = {}
        """By space and conversation."""
        self._loops = [
            Loop(
                f"abbreviator-{number}",
                partial(self._turn, number),
                stopping=self._stopping,
            )
            for number in range(threads + _SPARE_THREADS)
        ]
        spaces.wake_by(self._loops[0].wake)
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """Stop the threads. One that waits for a model is left behind; it writes nothing any
        more.
        """
        self._stopping.set()
        self._model.close()
        until = time.monotonic() + _STOP_SECONDS
        for loop in self._loops:
            loop.stop(max(0.0, until - time.monotonic()))
        with self._lock:
            left_behind = list(self._at_work.values())
        for at_work in left_behind:
            at_work.lease.end()

    def _turn(self, number: int) -> float:
        """Write about one conversation. The first thread looks for it; the others rest until one of
        them is at work.
        """
        rests = self._spaces.is_quiet()
        at_work = self._take(is_spare=number >= self._threads)
        if at_work is None:
            if self._at_work or not (number or rests):
                return _SECONDS
            return _LATER_SECONDS if number else _RESTING_SECONDS
        try:
            with bound_contextvars(space=at_work.lease.space.name):
                if reason := unforeseen("abbreviator", lambda: self._write(at_work)):
                    self._fail(at_work, reason, alone=True)
        finally:
            with self._lock:
                del self._at_work[_key(at_work)]
            at_work.lease.end()
        return 0.0

    def _take(self, *, is_spare: bool) -> _AtWork | None:
        """Return the next conversation that no thread works on, of the space that waited longest,
        or None.
        """
        with self._lock:
            if is_spare and len(self._at_work) < self._threads:
                return None  # the others look at the indexes
            began = time.monotonic()
            since = began - self._slow
            if sum(it.since > since for it in self._at_work.values()) >= self._threads:
                return None
            for space in sorted(self._spaces.open_now(), key=lambda it: it.notes.taken_at):
                if space.notes.look_at > began or self._stopping.is_set():
                    continue
                if (lease := self._spaces.borrow(space)) is None:
                    continue
                work = space.notes.next(self._clock(), partial(self._is_at_work, space.name))
                if work is not None:
                    space.notes.taken_at = time.monotonic()
                    at_work = _AtWork(lease, work, space.notes.taken_at)
                    if not self._at_work:
                        for loop in self._loops:
                            loop.wake()
                    self._at_work[_key(at_work)] = at_work
                    return at_work
                space.notes.look_at = time.monotonic() + _SECONDS
                lease.end()
            return None

    def _is_at_work(self, space: str, conversation_id: str) -> bool:
        return (space, conversation_id) in self._at_work

    def _write(self, at_work: _AtWork) -> None:
        work = at_work.work
        try:
            with self._telemetry.step(Step.NOTES):
                outcome = work.task.write(work.waiting, self._stopping.is_set)
        except CannotWrite as error:
            self._fail(at_work, str(error), alone=True)
        except (ModelUnavailable, DataUnavailable) as error:
            self._fail(at_work, str(error), alone=False)
        else:
            self._telemetry.count(Count.NOTES, label=outcome.value)
            if outcome is Outcome.WRITTEN:
                with self._lock:
                    at_work.lease.space.notes.written()
            elif outcome is Outcome.WENT_ON:
                self._stopping.wait(_SECONDS)  # it may go on for a while

    def _fail(self, at_work: _AtWork, reason: str, *, alone: bool) -> None:
        if self._stopping.is_set():
            return
        self._telemetry.count(Count.NOTES, label="failed")
        work = at_work.work
        with self._lock:
            is_new = at_work.lease.space.notes.failed(work, reason, alone=alone)
        if is_new:
            log.warning(
                "notes_not_written", conversation=work.waiting.conversation_id, reason=reason
            )
        try:
            work.task.note_failure(work.waiting, reason, alone=alone)
        except IndexUnavailable:
            return  # it still waits there


def _key(at_work: _AtWork) -> tuple[str, str]:
    return at_work.lease.space.name, at_work.work.waiting.conversation_id
