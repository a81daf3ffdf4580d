"""Notes of a space that several processes serve: one of them takes them at a time."""

from collections.abc import Callable
from typing import Protocol

from recollect_server.kernel.log.store import LogConflict, Purpose
from recollect_server.kernel.space.space import Space
from recollect_server.notes.naming import Outcome
from recollect_server.notes.table import Waiting


class NotesTask(Protocol):
    """A kind of notes that conversations wait for: `notes.naming.Naming`,
    `notes.compaction.Compaction`.
    """

    def due(self, now: int, limit: int) -> list[Waiting]:
        """Return the conversations that wait at a time."""

    def failed(self, now: int) -> list[Waiting]:
        """Return the conversations whose last try failed and that are to be tried again by now."""

    def any_waits(self) -> bool:
        """Return whether the last try of some conversation failed and it is to be tried again."""

    def note_failure(self, waiting: Waiting, reason: str, *, alone: bool) -> None:
        """Record a failure; `alone` if other conversations may still succeed."""

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Write the notes. Raises CannotWrite, ModelUnavailable, DataUnavailable."""


class OneAtATime:
    """A task that does nothing while another process has the lease of a space's notes. One that
    loses the lease in the middle records nothing.
    """

    def __init__(self, space: Space, task: NotesTask) -> None:
        self._space = space
        self._task = task
        self.any_waits = task.any_waits
        self.note_failure = task.note_failure

    def due(self, now: int, limit: int) -> list[Waiting]:
        """Return the conversations that wait; none if another process takes their notes."""
        with self._space.shared_work.alone(Purpose.NOTES) as may:
            return self._task.due(now, limit) if may else []

    def failed(self, now: int) -> list[Waiting]:
        """Return the conversations to be tried again; none likewise."""
        with self._space.shared_work.alone(Purpose.NOTES) as may:
            return self._task.failed(now) if may else []

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Write the notes behind what other processes wrote. A conversation that one of them goes
        on with just then is looked at again.
        """
        with self._space.shared_work.alone(Purpose.NOTES) as may:
            if not may:
                return Outcome.WENT_ON
            self._space.follow()
            try:
                return self._task.write(waiting, given_up)
            except LogConflict:
                return Outcome.WENT_ON
