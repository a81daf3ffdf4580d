"""The background jobs of all open spaces: one thread for each kind of job, which gives every open
space its turns, one after the other. While it hangs in one, another thread gives the others theirs.
"""

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Protocol

from structlog.contextvars import bound_contextvars

from recollect_server.admin.jobs import JobReport
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.run.jobs.loop import Loop, unforeseen

_TICK = 0.25  # seconds after which a space that was just opened has its first turn
RESTING_SECONDS = 10.0
"""Rest of a job that only a call, which wakes it, can give something to do."""
_PATIENCE = 0.5  # seconds of a turn after which another thread gives the other spaces theirs
# to the next turn after one that failed as nobody foresaw
_FIRST_SECONDS, _MOST_SECONDS = 1.0, 60.0


class TurnOrder:
    """Order of the turns: all spaces that are due have one, as they come. One thread calls it."""

    def next(self, due: Sequence["Job"], at_work: Sequence["Job"]) -> Sequence["Job"]:  # noqa: ARG002
        """Return the jobs that have a turn in this round, in order. `at_work` are those whose turn
        is under way in another thread, which begins a new round once it ends.
        """
        return due


class Job(ABC):
    """One kind of background work in one open space. `Rounds` gives it its turns."""

    name: ClassVar[str]
    """Name of the kind, for administrators, metrics and the log."""
    turn_order: ClassVar[type[TurnOrder]] = TurnOrder
    """Order of the spaces' turns."""

    def __init__(self, first: float = 0.0) -> None:
        """Give the first turn after so many seconds."""
        self.next_at = time.monotonic() + first
        """Time of the next turn, on the monotonic clock."""
        self.after_failure = _FIRST_SECONDS
        self.ran_at: float | None = None
        """Time of the last turn, likewise."""
        self.began_at = 0.0
        """Time at which the last turn began, likewise."""
        self.is_at_work = False
        """True while a turn is under way."""
        self.fault = ""
        """Unforeseen failure of the last turn; empty: there was none."""

    @property
    def rest(self) -> float:
        """Seconds that the next turn may come later while nobody calls: the next call wakes it."""
        return 0.0

    @property
    def failure(self) -> str:
        """Reason for which the last turn could not do all of its work; empty if it could."""
        return self.fault

    @property
    def is_on(self) -> bool:
        """Return whether it may have work: settings may leave it none."""
        return True

    @property
    def is_busy(self) -> bool:
        """Return whether work is due now."""
        return False

    def due_at(self, now: int) -> int | None:  # noqa: ARG002 - most jobs make no work of their own
        """Return when work will be due that nobody's call brings, in milliseconds; None if none
        will. Raises DataUnavailable.
        """
        return None

    def report(self, clock: Clock) -> JobReport:
        """Return its state, for administrators."""
        return JobReport(
            name=self.name,
            is_on=self.is_on,
            is_busy=self.is_busy,
            reason=self.failure,
            ran_at=None if self.ran_at is None else wall_time(self.ran_at, clock),
        )

    def resume(self) -> None:  # noqa: B027 - most jobs need nothing
        """Take note that the index of the space was closed, and is open again."""

    @abstractmethod
    def turn(self, stopping: threading.Event) -> float:
        """Do a part of the work, a short one, and return the seconds to the next turn."""


def wall_time(moment: float, clock: Clock) -> int:
    """Return a moment of the monotonic clock in milliseconds since 1970."""
    return clock() - round((time.monotonic() - moment) * 1000)


class HasJobs(OpenedSpace, Protocol):
    """Protocol of an open space with jobs."""

    jobs: Mapping[str, Job]
    """By their names, which are the same in every space."""


class Rounds:
    """A thread that does one kind of job in all open spaces. Started when made."""

    def __init__(
        self, kind: type[Job], spaces: Spaces[Any], *, one_at_a_time: bool = False
    ) -> None:
        """`one_at_a_time`: no space has a turn while another one has, however long it takes."""
        self._job = kind.name
        self._order = kind.turn_order()
        self._spaces: Spaces[HasJobs] = spaces
        patience = math.inf if one_at_a_time else _PATIENCE
        self._loop = Loop(self._job, self._round, patience=patience)
        spaces.wake_by(self._loop.wake)
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread, between two parts of its work; one that hangs is left behind."""
        self._loop.stop(self._spaces.patience())

    def _round(self) -> float:
        """Give the spaces that are due and whose turn it is one each. Return the seconds to the
        next round.
        """
        rests = self._spaces.is_quiet()
        now = time.monotonic()
        soonest = now + (RESTING_SECONDS if rests else _TICK)
        due: dict[Job, HasJobs] = {}
        at_work: list[Job] = []
        for space in self._spaces.open_now():
            job = space.jobs.get(self._job)
            if job is None:
                continue
            if job.is_at_work:
                at_work.append(job)
            elif job.next_at <= now:
                due[job] = space
            else:
                soonest = min(soonest, job.next_at + (job.rest if rests else 0.0))
        chosen = self._order.next([*due], at_work)
        for job in chosen:
            if job.is_at_work or self._loop.stopping.is_set():
                continue
            lease = self._spaces.borrow(due[job])
            if lease is None:  # it is being closed: it may not be chosen again at once
                job.next_at = now + _TICK
                continue
            job.is_at_work, job.began_at = True, time.monotonic()
            with lease, bound_contextvars(space=due[job].name):
                is_mine = self._loop.part(partial(self._give_turn, job))
            if not is_mine:
                break
            soonest = min(soonest, job.next_at + (job.rest if rests else 0.0))
        others = due.keys() - set(chosen)
        if chosen and any(it.next_at <= now for it in others):  # they have theirs in the next one
            soonest = now
        later = (it.next_at + (it.rest if rests else 0.0) for it in others if it.next_at > now)
        soonest = min([soonest, *later])
        return max(0.0, soonest - time.monotonic())

    def _give_turn(self, job: Job) -> None:
        def turn() -> None:
            job.next_at = time.monotonic() + job.turn(self._loop.stopping)
            job.after_failure = _FIRST_SECONDS

        job.fault = unforeseen(self._job, turn)
        job.ran_at = time.monotonic()
        if job.fault:
            job.next_at = time.monotonic() + job.after_failure
            job.after_failure = min(2 * job.after_failure, _MOST_SECONDS)
        job.is_at_work = False  # last: else another thread gives it the same turn
