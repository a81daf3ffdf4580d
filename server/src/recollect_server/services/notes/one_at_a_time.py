"""Notes of a space that several processes serve: one of them takes them at a time."""

from collections.abc import Callable
from typing import Protocol

from recollect_server.services.notes.naming import Outcome
from recollect_server.services.space.space import Space
from recollect_server.storage.index.notes import Waiting
from recollect_server.storage.logs.store import LogConflict, Purpose


class Task(Protocol):
    """A kind of notes (see `jobs.abbreviator.Task`)."""

    def due(self, limit: int) -> list[Waiting]: ...  # noqa: D102
    def failed(self) -> list[Waiting]: ...  # noqa: D102
    def any_waits(self) -> bool: ...  # noqa: D102
    def note_failure(self, waiting: Waiting, reason: str, *, alone: bool) -> None: ...  # noqa: D102
    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome: ...  # noqa: D102


class OneAtATime:
    """A task that does nothing while another process has the lease of a space's notes. One that
    loses the lease in the middle records nothing.
    """

    def __init__(self, space: Space, task: Task) -> None:
        self._space = space
        self._task = task
        self.any_waits = task.any_waits
        self.note_failure = task.note_failure

    def due(self, limit: int) -> list[Waiting]:
        """Return the conversations that wait; none if another process takes their notes."""
        with self._space.shared_work.alone(Purpose.NOTES) as may:
            return self._task.due(limit) if may else []

    def failed(self) -> list[Waiting]:
        """Return the conversations to be tried again; none likewise."""
        with self._space.shared_work.alone(Purpose.NOTES) as may:
            return self._task.failed() if may else []

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
