"""The idle clock and the writer of notes: takes conversations that wait from the index, one at a
time for each thread.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.time import Clock
from recollect_server.inference.language_model import CannotWrite, LanguageModel, ModelUnavailable
from recollect_server.jobs.loop import Loop, unforeseen
from recollect_server.services.notes.naming import Outcome
from recollect_server.storage.index.notes import Waiting

log = structlog.get_logger("recollect.abbreviator")

_SECONDS = 0.5  # between two looks at the index while nothing waits
_WORK_SECONDS = 0.001  # work between two pauses: a fifth of Python's switch interval
_PAUSE_SECONDS = 0.003
_BATCH = 32  # conversations looked up at once
_SPARE_THREADS = 4  # for conversations whose calls hang
_MAX_LOGGED = 10_000  # failures that are remembered as logged
_STOP_SECONDS = 2.0  # a model that still writes is not waited for any longer


class Task(Protocol):
    """A kind of notes that conversations wait for: `services.notes.naming.Naming`,
    `services.notes.compaction.Compaction`.
    """

    def due(self, limit: int) -> list[Waiting]:
        """Return the conversations that wait. Raises IndexUnavailable."""

    def failed(self) -> list[Waiting]:
        """Return the conversations whose last try failed. Raises IndexUnavailable."""

    def note_failure(self, waiting: Waiting, reason: str, *, alone: bool) -> None:
        """Record a failure; `alone` if other conversations may still succeed. Raises
        IndexUnavailable.
        """

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Write the notes. Raises CannotWrite, ModelUnavailable, StorageUnavailable,
        IndexUnavailable.
        """


@dataclass(frozen=True, slots=True)
class _Work:
    """A conversation to write about; `again` if that failed before."""

    task: Task
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


class Abbreviator:
    """Threads that nobody waits for. Started when made.

    `threads` conversations are written about at the same time. One that takes longer than `slow`
    seconds does not count any more: a call that hangs holds up nobody, and up to `_SPARE_THREADS`
    of them are waited for beside the others.

    What cannot be written is marked in the index and left until the next sweep, which comes with
    the start and then every `sweep_interval` milliseconds. When the model or the disk refuses
    altogether, everything waits for the sweep; but one that was refused before does not make the
    others wait, for it may be to blame itself. A failure is logged once with its conversation, a
    reason that concerns all once for all, until a sweep finds that all went well since the one
    before.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        model: LanguageModel,
        clock: Clock,
        sweep_interval: int,
        threads: int,
        slow: float,
    ) -> None:
        self._tasks = tasks
        self._model = model
        self._clock = clock
        self._sweep_interval = sweep_interval
        self._stopping = threading.Event()
        # guards everything below; what is looked up in the index is looked up under it
        self._lock = threading.Lock()
        self._queue: deque[_Work] = deque()
        self._threads = threads
        self._slow = slow
        self._at_work: dict[str, float] = {}
        """Start time of each conversation being written about, in seconds of the monotonic
        clock.
        """
        self._paused = False  # until the next sweep
        self._refusals = 0  # one after the other
        self._swept_at: int | None = None
        self._logged: set[tuple[str, str]] = set()
        """The failures that were logged: conversation and reason; a reason that concerns all has no
        conversation.
        """
        self._failed = False  # whether anything did since the last sweep
        self._loops = [
            Loop(
                f"abbreviator-{number}",
                partial(self._work, is_spare=number >= threads),
                stopping=self._stopping,
            )
            for number in range(threads + _SPARE_THREADS)
        ]
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

    def _work(self, *, is_spare: bool) -> float:
        work = self._take(is_spare=is_spare)
        if work is None:
            return _SECONDS
        try:
            if reason := unforeseen("abbreviator", lambda: self._write(work)):
                self._fail(work, reason, alone=True)
        finally:
            with self._lock:
                del self._at_work[work.waiting.conversation_id]
        return 0.0

    def _take(self, *, is_spare: bool) -> _Work | None:
        """Return the next conversation that no thread works on, or None."""
        with self._lock:
            if is_spare and len(self._at_work) < self._threads:
                return None  # the others look at the index
            since = time.monotonic() - self._slow
            if sum(start > since for start in self._at_work.values()) >= self._threads:
                return None
            now = self._clock()
            try:
                # A clock that was set back is no reason to wait until it has caught up.
                if self._swept_at is None or not 0 <= now - self._swept_at < self._sweep_interval:
                    self._sweep(now)
                if self._paused:
                    return None
                if not self._queue:
                    self._queue.extend(self._due())
            except IndexUnavailable:
                return None  # its keeper mends it
            while self._queue:
                work = self._queue.popleft()
                if work.waiting.conversation_id not in self._at_work:
                    self._at_work[work.waiting.conversation_id] = time.monotonic()
                    return work
            return None

    def _due(self) -> list[_Work]:
        return [_Work(task, waiting) for task in self._tasks for waiting in task.due(_BATCH)]

    def _sweep(self, now: int) -> None:
        failed = [
            _Work(task, waiting, again=True) for task in self._tasks for waiting in task.failed()
        ]
        self._queue = deque([*self._due(), *failed])
        self._swept_at, self._paused, self._refusals = now, False, 0
        if self._logged and not failed and not self._failed:
            self._logged.clear()
            log.info("notes_written_again")
        self._failed = False

    def _write(self, work: _Work) -> None:
        try:
            outcome = work.task.write(work.waiting, self._stopping.is_set)
        except CannotWrite as error:
            self._fail(work, str(error), alone=True)
        except (ModelUnavailable, StorageUnavailable, IndexUnavailable) as error:
            self._fail(work, str(error), alone=False)
        else:
            if outcome is Outcome.WRITTEN:
                with self._lock:
                    self._refusals = 0
            elif outcome is Outcome.WENT_ON:
                self._stopping.wait(_SECONDS)  # it may go on for a while

    def _fail(self, work: _Work, reason: str, *, alone: bool) -> None:
        if self._stopping.is_set():
            return
        with self._lock:
            self._failed = True
            if not alone:
                self._refusals += 1
                if not work.again or self._refusals > 1:
                    self._paused = True
                    self._queue.clear()  # the index still has them
            failure = (work.waiting.conversation_id if alone else "", reason)
            is_new = failure not in self._logged and len(self._logged) < _MAX_LOGGED
            if is_new:
                self._logged.add(failure)
        if is_new:
            log.warning(
                "notes_not_written", conversation=work.waiting.conversation_id, reason=reason
            )
        try:
            work.task.note_failure(work.waiting, reason, alone=alone)
        except IndexUnavailable:
            return  # it still waits there
