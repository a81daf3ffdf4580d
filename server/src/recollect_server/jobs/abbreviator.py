"""The idle clock and the writer of notes: takes conversations that wait from the index, one at a time for each thread."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.time import Clock
from recollect_server.inference.language_model import CannotWrite, LanguageModel, ModelUnavailable
from recollect_server.services.naming import Outcome
from recollect_server.storage.index.note_queue import Waiting

log = structlog.get_logger("recollect.abbreviator")

_SECONDS = 0.5  # between two looks at the index while nothing waits
_WORKED = 0.001  # seconds of work between two breaths: a fifth of what Python lets a thread hold its lock for
_BREATH = 0.003  # seconds that each takes
_TAKEN = 32  # conversations that are looked up at once
_STOP_SECONDS = 2.0  # a model that still writes is not waited for any longer


class Task(Protocol):
    """A kind of notes that conversations wait for: `services.naming.Naming`, `services.compaction.Compaction`."""

    def due(self, limit: int) -> list[Waiting]:
        """Conversations that wait. Raises IndexUnavailable."""

    def failed(self) -> list[Waiting]:
        """Those whose last try failed. Raises IndexUnavailable."""

    def note_failure(self, waiting: Waiting, reason: str) -> None:
        """Keeps that it failed. Raises IndexUnavailable."""

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Does it. Raises CannotWrite, ModelUnavailable, StorageUnavailable, IndexUnavailable."""


class Breath:
    """Lets others go first: a writer that calls it often gives Python's global lock away for longer than it holds it."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __call__(self) -> None:
        """Waits if the calling thread has worked for a while."""
        if time.monotonic() - getattr(self._local, "since", 0.0) >= _WORKED:
            time.sleep(_BREATH)
            self._local.since = time.monotonic()


class Abbreviator:
    """Threads that nobody waits for. Started when made.

    What cannot be written is marked in the index and left until the next sweep, which comes with the start and then every
    `sweep_interval` milliseconds. When the model or the disk refuses altogether, everything waits for the sweep.
    """

    def __init__(self, tasks: Sequence[Task], model: LanguageModel, clock: Clock, sweep_interval: int, threads: int) -> None:
        self._tasks = tasks
        self._model = model
        self._clock = clock
        self._sweep_interval = sweep_interval
        self._stopping = threading.Event()
        self._lock = threading.Lock()  # guards everything below; what is looked up in the index is looked up under it
        self._queue: deque[tuple[Task, Waiting]] = deque()
        self._at_work: set[str] = set()
        self._paused_until = 0
        self._next_sweep = 0
        self._said = ""  # the reason that was logged last
        self._threads = [
            threading.Thread(target=self._work_until_stopped, name=f"abbreviator-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends the threads. One that waits for a model is left behind; it writes nothing any more."""
        self._stopping.set()
        self._model.close()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def _work_until_stopped(self) -> None:
        while not self._stopping.is_set():
            taken = self._take()
            if taken is None:
                self._stopping.wait(_SECONDS)
                continue
            task, waiting = taken
            try:
                self._write(task, waiting)
            finally:
                with self._lock:
                    self._at_work.discard(waiting.conversation_id)

    def _take(self) -> tuple[Task, Waiting] | None:
        """The next conversation that nobody works on, or None."""
        with self._lock:
            now = self._clock()
            try:
                if now >= self._next_sweep:
                    self._next_sweep = now + self._sweep_interval
                    self._paused_until = 0
                    self._queue.extend((task, waiting) for task in self._tasks for waiting in task.failed())
                if now < self._paused_until:
                    return None
                if not self._queue:
                    self._queue.extend((task, waiting) for task in self._tasks for waiting in task.due(_TAKEN))
            except IndexUnavailable:
                return None  # its keeper mends it
            while self._queue:
                task, waiting = self._queue.popleft()
                if waiting.conversation_id not in self._at_work:
                    self._at_work.add(waiting.conversation_id)
                    return task, waiting
            return None

    def _write(self, task: Task, waiting: Waiting) -> None:
        try:
            outcome = task.write(waiting, self._stopping.is_set)
            if outcome is Outcome.WENT_ON:
                self._stopping.wait(_SECONDS)  # it may go on for a while
            elif outcome is Outcome.WRITTEN:
                self._say("")
        except CannotWrite as error:
            self._fail(task, waiting, str(error), all_of_them=False)
        except (ModelUnavailable, StorageUnavailable, IndexUnavailable) as error:
            self._fail(task, waiting, str(error), all_of_them=True)

    def _fail(self, task: Task, waiting: Waiting, reason: str, *, all_of_them: bool) -> None:
        if self._stopping.is_set():
            return
        if all_of_them:
            with self._lock:
                self._paused_until = self._next_sweep
                self._queue.clear()  # the index still has them
        self._say(reason)
        try:
            task.note_failure(waiting, reason)
        except IndexUnavailable:
            return  # it still waits there

    def _say(self, reason: str) -> None:
        """Logs a reason when it is another one than the last: once, not for each conversation."""
        with self._lock:
            before, self._said = self._said, reason
        if reason and reason != before:
            log.warning("notes_not_written", reason=reason)
        elif before and not reason:
            log.info("notes_written_again")
