"""Background jobs of a space as administrators see them: their states, work and failures."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from recollect_server.admin.spaces import SpaceAdministration
from recollect_server.admin.statistics import Statistics
from recollect_server.kernel.space.opened import OpenedSpace
from recollect_server.kernel.space.spaces import Spaces

MAX_FAILURES = 20


class JobState(Enum):
    IDLE = "idle"
    WORKING = "working"
    FAILING = "failing"
    OFF = "off"
    ASLEEP = "asleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    name: str
    is_on: bool = True
    """Settings may turn it off."""
    is_busy: bool = False
    """Work is due now."""
    reason: str = ""
    """Reason for which the last turn failed; empty if it did not."""
    failures: tuple[tuple[str, str], ...] = ()
    """Conversations whose last try failed, with the reasons, if only the job knows them."""
    ran_at: int | None = None
    """Time of its last turn, in milliseconds since 1970; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOverview:
    name: str
    help: str
    state: JobState
    due: int
    failed: int
    failures: tuple[tuple[str, str], ...]
    ran_at: int | None


class Working(OpenedSpace, Protocol):
    """Protocol of an open space that tells of its jobs."""

    def reports(self) -> list[JobReport]:
        """Return the state of each job that is not turned off."""


_HELP = {
    "repair": "brings the index up to the transcripts wherever it lacks something",
    "embedding": "computes the vectors of texts, so that they are found by meaning",
    "notes": "writes titles, topics and abbreviations of conversations that are idle",
    "compaction": "condenses long conversations whose agent does not do so itself",
    "updates": "deletes updates that no subscriber may ask for any more",
    "retention": "deletes and unindexes what rules of retention are about",
    "tiers": "counts what contexts are made of",
}


class JobAdministration:
    """The jobs of all spaces. Safe to call from any thread."""

    def __init__(self, administration: SpaceAdministration, spaces: Spaces[Any]) -> None:
        self._administration = administration
        self._spaces: Spaces[Working] = spaces

    def list(self, space_name: str) -> list[JobOverview]:
        """Return the jobs of a space. Raises SpaceNotFound."""
        statistics = self._administration.statistics(space_name)
        reports = self._reports(space_name)
        off = {name: JobReport(name=name, is_on=False) for name in _HELP}
        return [
            _overview((off | (reports or {}))[name], statistics, is_open=reports is not None)
            for name in _HELP
        ]

    def _reports(self, name: str) -> dict[str, JobReport] | None:
        """Return the reports of an open space by their names; None if it is not open."""
        for space in self._spaces.open_now():
            if space.name == name and (lease := self._spaces.borrow(space)) is not None:
                with lease:
                    return {report.name: report for report in space.reports()}
        return None


def _overview(report: JobReport, statistics: Statistics, *, is_open: bool) -> JobOverview:
    due, failed, failures = _work(report.name, statistics)
    if report.failures:
        failed, failures = len(report.failures), report.failures
    if report.reason:
        failures = (("", report.reason), *failures)
    state = JobState.IDLE
    if not is_open:
        state = JobState.ASLEEP
    elif not report.is_on:
        state, due = JobState.OFF, 0
    elif report.reason or failed:
        state = JobState.FAILING
    elif report.is_busy:
        state = JobState.WORKING
    return JobOverview(
        name=report.name,
        help=_HELP[report.name],
        state=state,
        due=due,
        failed=failed,
        failures=failures[:MAX_FAILURES],
        ran_at=report.ran_at,
    )


def _work(name: str, statistics: Statistics) -> tuple[int, int, tuple[tuple[str, str], ...]]:
    """Return how many conversations wait for a job, how many failed, and some of those."""
    match name:
        case "repair":
            return statistics.not_indexed_yet, 0, ()
        case "embedding":
            return statistics.embedded.waiting, 0, ()
        case "notes":
            notes = statistics.notes
            return notes.without, notes.failed, notes.failures
        case _:
            return 0, 0, ()
