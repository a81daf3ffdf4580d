"""The background jobs of one open space: what is due, and how it goes."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from recollect_server.admin.jobs import JobReport
from recollect_server.kernel.domain.errors import DataUnavailable
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import milliseconds
from recollect_server.kernel.space.space import Space
from recollect_server.notes.compaction import Compaction
from recollect_server.notes.naming import Naming
from recollect_server.notes.one_at_a_time import NotesTask, OneAtATime
from recollect_server.retention.service import Retention
from recollect_server.run.jobs.notes import SpaceNotes
from recollect_server.run.jobs.of_space import (
    CountWriter,
    EmbedderJob,
    FollowerJob,
    IndexKeeper,
    UpdatePruner,
)
from recollect_server.run.jobs.retention import RetentionKeeper
from recollect_server.run.jobs.rounds import Job
from recollect_server.run.models import NotesWriter
from recollect_server.run.settings import Settings

INDEX, COUNTS, PRUNER, EMBEDDER = "index-keeper", "count-writer", "update-pruner", "embedder"
RETENTION, FOLLOWER = "retention-keeper", "follower"
JOB_NAMES = {
    INDEX: "repair",
    EMBEDDER: "embedding",
    PRUNER: "updates",
    RETENTION: "retention",
    COUNTS: "tiers",
    FOLLOWER: "following",
}
"""Their names for administrators."""


class SpaceJobs:
    """The jobs of one open space, and the notes that wait in it."""

    def __init__(
        self,
        space: Space,
        live: Live[Settings],
        writer: NotesWriter | None,
        note_work: Callable[[], None],
        is_leaving: Callable[[], bool],
        *,
        counts: CountWriter,
        pruner: UpdatePruner,
        retention: Retention,
        embedder: EmbedderJob | None,
    ) -> None:
        """`note_work` wakes the jobs, and `is_leaving` tells whether the space is to be deleted or
        closed. Without a writer nobody takes notes, and without an embedder
        nothing is embedded.
        """
        self._space = space
        self._writer = writer
        self._pruner = pruner
        self._retention = retention
        self._embedder = embedder
        jobs = {
            INDEX: IndexKeeper(space, is_leaving),
            COUNTS: counts,
            PRUNER: pruner,
            RETENTION: RetentionKeeper(retention),
        }
        if space.is_shared:
            jobs[FOLLOWER] = FollowerJob(space, lambda: space.index.writer.watched, note_work)
        if embedder is not None:
            jobs[EMBEDDER] = embedder
        self.by_name: Mapping[str, Job] = jobs
        settings = live.now
        self._compaction = (
            Compaction(
                space,
                writer.condenser or writer.model,
                settings.compaction_messages,
                settings.compaction_keep,
                settings.compaction_tokens,
                offline=writer.offline,
            )
            if writer is not None and settings.compaction
            else None
        )
        self.notes = _notes(space, live, writer, self._compaction)

    def due_at(self) -> int | None:
        """Return when its jobs have work, in milliseconds; None if nothing will be due."""
        now = self._space.clock()
        try:
            times = [
                self._pruner.due_at(),
                self._retention.due_at(),
                self.notes.due_at() if self._writer else None,
            ]
        except DataUnavailable:
            return now
        if (
            self._space.upkeep.is_comparing
            or self._is_embedding
            or self._space.deletions.is_any_left
        ):
            times.append(now)
        return min((time for time in times if time is not None), default=None)

    def reports(self) -> list[JobReport]:
        compaction = self._compaction
        return [
            self._report(INDEX, is_busy=self._space.upkeep.is_comparing),
            self._report(EMBEDDER, is_busy=self._is_embedding),
            self._report_of_notes(),
            JobReport(
                name="compaction",
                is_on=compaction is not None,
                failures=tuple(compaction.failures.items()) if compaction else (),
            ),
            self._report(PRUNER),
            replace(self._report(RETENTION), is_on=bool(self._retention.rules())),
            self._report(COUNTS),
        ]

    def failing(self) -> frozenset[str]:
        """Return the jobs whose last turn failed, by their names for administrators."""
        failing = {JOB_NAMES[key] for key, job in self.by_name.items() if job.failure}
        if self.notes.failure:
            failing.add("notes")
        return frozenset(failing)

    @property
    def _is_embedding(self) -> bool:
        """Return whether texts wait for their vectors."""
        return self._embedder is not None and not self._embedder.is_done

    def _report(self, key: str, *, is_busy: bool = False) -> JobReport:
        name, job = JOB_NAMES[key], self.by_name.get(key)
        if job is None:
            return JobReport(name=name, is_on=False)
        return JobReport(
            name=name, is_busy=is_busy, reason=job.failure, ran_at=self._wall_time(job.ran_at)
        )

    def _report_of_notes(self) -> JobReport:
        notes, now = self.notes, self._space.clock()
        try:
            due = notes.due_at() if self._writer else None
        except DataUnavailable:
            due = None
        return JobReport(
            name="notes",
            is_on=self._writer is not None,
            is_busy=due is not None and due <= now,
            reason=notes.failure,
            ran_at=self._wall_time(notes.taken_at or None),
        )

    def _wall_time(self, moment: float | None) -> int | None:
        """Return a moment of the monotonic clock in milliseconds since 1970."""
        if moment is None:
            return None
        return self._space.clock() - round((time.monotonic() - moment) * 1000)


def _notes(
    space: Space, live: Live[Settings], writer: NotesWriter | None, compaction: Compaction | None
) -> SpaceNotes:
    """Return the notes that wait in a space, for the writer to take."""
    sweep_interval = live.view(lambda now: milliseconds(now.sweep_interval))
    if writer is None:
        return SpaceNotes((), sweep_interval, lambda: None, lambda _: None)
    idle_timeout = live.view(lambda now: milliseconds(now.idle_timeout))
    naming = Naming(
        space,
        writer.model,
        idle_timeout,
        writer.may_redo,
        offline=writer.offline,
        retry_after=sweep_interval,
        title_turns=live.view(lambda now: now.title_turns),
        first_title_turn=live.view(lambda now: now.first_title_turn),
    )
    tasks: list[NotesTask] = [naming] if compaction is None else [naming, compaction]
    if space.is_shared:
        tasks = [OneAtATime(space, task) for task in tasks]

    def due_at(sweep: int) -> int | None:
        now = space.clock()
        if compaction is not None and compaction.due(now, 1):
            return now
        return naming.due_at(sweep)

    def mark() -> object:
        # of a shorter time some wait already
        return space.index, space.index.taken()[1], idle_timeout.now

    return SpaceNotes(tasks, sweep_interval, mark, due_at)
