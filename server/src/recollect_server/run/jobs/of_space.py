"""The jobs that keep an open space in order: its index, its counts, its logs of updates, its rules
of retention, and the vectors of what was said. `Rounds` gives each its turns.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

import structlog

from recollect_server.context.counts import ContextCounts
from recollect_server.kernel.domain.errors import DataUnavailable, StorageUnavailable
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.time import milliseconds
from recollect_server.kernel.index.updates import PRUNED
from recollect_server.kernel.space.space import Space
from recollect_server.recall.embedding.service import Embedding
from recollect_server.recall.model.models import EmbeddingModels
from recollect_server.retention.service import Retention
from recollect_server.run.jobs.loop import Loop
from recollect_server.run.jobs.rounds import RESTING_SECONDS, Job, TurnOrder

log = structlog.get_logger("recollect.jobs")

_INDEX_SECONDS = 1.0
_MOST_INDEX_SECONDS = 30.0  # between two tries of an index that still refuses
_PRUNE_CHANGES_SECONDS = 600.0
_FOLLOW_SECONDS = 1.0
_COUNT_SECONDS = 1.0
_PRUNE_SECONDS = 60.0
_SLICE = 500  # updates pruned in one transaction, a few milliseconds
_PAUSE = 0.02  # seconds between two, for others
_FIRST_RETENTION_SECONDS = 1.0  # until the first look at what rules are about
_RETENTION_SECONDS = 60.0  # between two looks
_RETENTION_SLICE = 20  # conversations of one turn
_RETENTION_PAUSE = 0.05  # seconds between two turns, for others
_EMBED_SECONDS = 0.25
_MOST_EMBED_SECONDS = 15.0  # between two tries of what still fails
_MOST_RELEASE_SECONDS = 30.0  # between two looks for models that nobody uses
_LOOK_SECONDS = 2.0  # between two looks at what to embed while nothing is written
_AWAITED_SECONDS = 60.0  # for which a space goes before others once its user asked
_STUCK_SECONDS = 10.0  # of a turn, after which others do not wait for its end


class IndexKeeper(Job):
    """Writes the messages that their transcripts refused, once those take them, and brings the
    index up to the transcripts whenever it fell behind or was lost.
    """

    name = "repair"

    def __init__(self, space: Space, is_leaving: Callable[[], bool]) -> None:
        """`is_leaving` tells whether the space is to be deleted or closed."""
        super().__init__(0.0 if space.upkeep.is_comparing else _INDEX_SECONDS)
        self._space = space
        self._is_leaving = is_leaving
        self._wait = self._held_wait = _INDEX_SECONDS
        self._held_at = 0.0  # of the next try of messages that are held, on the monotonic clock
        self._is_well = False

    @property
    def failure(self) -> str:
        """Reason for which the index could not be brought up; empty if it could."""
        return self.fault or self._space.doubt

    @property
    def rest(self) -> float:
        """Wait for a call if the index has everything, and no message is held."""
        is_done = self._is_well and not self.failure and not self._space.held()[0]
        return RESTING_SECONDS if is_done else 0.0

    @property
    def is_busy(self) -> bool:
        """Return whether the index is being compared with the transcripts."""
        return self._space.upkeep.is_comparing

    def due_at(self, now: int) -> int | None:
        """Return now if something is to be compared, or a delete is to be finished."""
        return now if self.is_busy or self._space.deletions.is_any_left else None

    def turn(self, stopping: threading.Event) -> float:
        """Repair and write what can be now."""

        def is_to_end() -> bool:
            return stopping.is_set() or self._is_leaving()

        self._is_well = self._space.upkeep.repair(is_to_end)
        self._wait = _INDEX_SECONDS if self._is_well else min(2 * self._wait, _MOST_INDEX_SECONDS)
        return min(self._wait, self._write_held(is_to_end))

    def _write_held(self, is_to_end: Callable[[], bool]) -> float:
        """Try to write what is held, each time later. Return the seconds to the next try."""
        if not self._space.held()[0]:
            self._held_at, self._held_wait = 0.0, _INDEX_SECONDS
            return math.inf
        if (left := self._held_at - time.monotonic()) > 0:
            return left
        self._space.flush(is_to_end)
        left, self._held_wait = self._held_wait, min(2 * self._held_wait, _MOST_INDEX_SECONDS)
        self._held_at = time.monotonic() + left
        return left


class FollowingOrder(TurnOrder):
    """Spaces have a turn where something was written. One query asks for all of them, once a
    second: those that are due in between wait for the next. Where it fails, all have a turn.
    """

    def __init__(self) -> None:
        self._asks_at = 0.0
        self._reason = ""  # for which the last query failed

    def next(self, due: Sequence[Job], at_work: Sequence[Job]) -> Sequence[Job]:  # noqa: ARG002
        """Return those that have something to follow; the others are due with the next query."""
        jobs = [it for it in due if isinstance(it, FollowerJob)]
        asks = bool(jobs) and time.monotonic() >= self._asks_at
        if asks:
            self._asks_at = time.monotonic() + _FOLLOW_SECONDS
        for job in jobs:
            job.next_at = self._asks_at
        if not asks:
            return []
        moments = {it.space_name: it.followed_until for it in jobs}
        changed = {name for name, moment in moments.items() if not moment}
        if waiting := {name: moments[name] for name in moments.keys() - changed}:
            try:
                changed |= jobs[0].shared_work.changed(waiting)
                self._reason = ""
            except StorageUnavailable as error:
                if self._reason != (reason := str(error)):
                    log.warning("spaces_followed_one_by_one", reason=reason)
                self._reason = reason
                return jobs
        return [it for it in jobs if it.space_name in changed]


class FollowerJob(Job):
    """Takes in what other processes write while nobody calls."""

    name = "following"
    turn_order = FollowingOrder

    def __init__(self, space_name: str, space: Space, note_work: Callable[[], None]) -> None:
        """`note_work` is called after others wrote, for the jobs that rest."""
        super().__init__(_FOLLOW_SECONDS)
        self.space_name = space_name
        self.shared_work = space.shared_work
        self._note_work = note_work
        self._space = space
        self._prune_at = time.monotonic() + _PRUNE_CHANGES_SECONDS

    @property
    def followed_until(self) -> str:
        """Return the moment up to which everything was taken in; empty if there is work anyway."""
        return "" if time.monotonic() > self._prune_at else self._space.followed_until

    @property
    def rest(self) -> float:
        """Let those who delete wait a little longer for this server's index."""
        return _FOLLOW_SECONDS

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - it takes a moment
        """Follow once, and prune at times what all have followed."""
        before = self._space.index.taken()
        self._space.follow()
        if self._space.index.taken() != before:
            self._note_work()
        if time.monotonic() > self._prune_at:
            self._prune_at = time.monotonic() + _PRUNE_CHANGES_SECONDS
            with suppress(StorageUnavailable):
                self.shared_work.prune_changes()
        return max(0.0, self.next_at - time.monotonic())


class CountWriter(Job):
    """Writes what contexts are made of behind the calls."""

    name = "tiers"

    def __init__(self, counts: ContextCounts) -> None:
        super().__init__(_COUNT_SECONDS)
        self._counts = counts
        self._is_written = False

    @property
    def rest(self) -> float:
        """Wait for a call if everything is written."""
        return RESTING_SECONDS if self._is_written else 0.0

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - it takes a moment
        """Write what waits."""
        self.flush()
        return _COUNT_SECONDS

    def flush(self) -> None:
        """Write what waits. Raises nothing."""
        self._is_written = False
        try:
            self._counts.flush()
            self._is_written = True
        except DataUnavailable as error:
            log.warning("context_counts_not_written", reason=str(error))


@dataclass(frozen=True, slots=True)
class Bounds:
    retention: timedelta
    most: int


class UpdatePruner(Job):
    """Keeps the log of updates within its bounds, a little at a time, so that appends never wait
    for it.
    """

    name = "updates"

    def __init__(self, space: Space, bounds: Live[Bounds], seconds: float = _PRUNE_SECONDS) -> None:
        super().__init__(seconds)
        self._space = space
        self._bounds = bounds
        self._seconds = seconds
        self._pruned = 0
        self._reason = ""

    @property
    def failure(self) -> str:
        """Reason for which nothing could be pruned; empty if it could."""
        return self.fault or self._reason

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - it takes a moment
        """Delete one slice of updates."""
        try:
            pruned = self.prune()
        except DataUnavailable as error:
            self._reason = str(error)
            log.warning("updates_not_pruned", reason=self._reason)
            return self._seconds
        self._reason = ""
        self._pruned += pruned
        if pruned:
            return _PAUSE
        if self._pruned:
            log.info("updates_pruned", updates=self._pruned)
            self._pruned = 0
        return self._seconds

    def prune(self, limit: int = _SLICE) -> int:
        """Delete updates that are too old or too many, at most `limit` of each kind of log. Return
        their number.
        """
        index = self._space.index
        bounds = self._bounds.now
        before = self._space.clock() - milliseconds(bounds.retention)
        pruned = 0
        for kind in PRUNED:
            if through := index.log.prunable(kind, before, bounds.most):
                pruned += index.log.prune(kind, through, limit)
        return pruned

    def due_at(self, now: int) -> int | None:  # noqa: ARG002 - it is the same at any time
        """Return when the oldest update will be too old, in milliseconds; None if there is none."""
        oldest = self._space.index.log.oldest()
        return oldest + milliseconds(self._bounds.now.retention) if oldest else None


class RetentionKeeper(Job):
    """Deletes and unindexes what the rules are about, a few conversations at a time."""

    name = "retention"

    def __init__(self, retention: Retention) -> None:
        super().__init__(_FIRST_RETENTION_SECONDS)
        self._retention = retention
        self._reason = ""

    @property
    def failure(self) -> str:
        """Reason for which the last turn failed; empty if it did not."""
        return self.fault or self._reason

    @property
    def is_on(self) -> bool:
        """Return whether there are rules."""
        return bool(self._retention.rules())

    def due_at(self, now: int) -> int | None:  # noqa: ARG002 - it is the same at any time
        """Return when the rules are about something next."""
        return self._retention.due_at()

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - it takes a moment
        """Delete or unindex a slice, and finish a piece of what is left of earlier turns."""
        try:
            is_left = self._retention.settle()
            with self._retention.alone() as may:
                is_left = bool(may and self._retention.carry_out(_RETENTION_SLICE)) or is_left
            wait = _RETENTION_PAUSE if is_left else _RETENTION_SECONDS
        except DataUnavailable as error:
            self._reason = str(error)
            log.warning("retention_not_carried_out", reason=self._reason)
            return _RETENTION_SECONDS
        self._reason = ""
        return wait


class EmbeddingOrder(TurnOrder):
    """Order in which spaces are embedded: what a person waits for before what is old.

    A space that had nothing left to embed has its turn at once: what is there is new. Of the others
    one has a turn at a time: first those whose user asked in the last minute, then those where
    something was written since their last turn, then that which waited for longest. Every second
    turn does without the newest, and every fourth without the first two: so nothing starves, and
    a space that everybody else is ahead of has a quarter of the turns with others like it.
    """

    def __init__(self) -> None:
        self._turns = 0

    def next(self, due: Sequence[Job], at_work: Sequence[Job]) -> Sequence[Job]:
        """Return those that had nothing left, and one of the others. That one waits for the end of
        another's turn, unless that hangs, or only the one that waits is awaited.
        """
        jobs = [it for it in due if isinstance(it, EmbedderJob)]
        behind = [it for it in jobs if it.has_more]
        chosen: list[Job] = [it for it in jobs if not it.has_more]
        now = time.monotonic()
        beside = [
            it
            for it in at_work
            if isinstance(it, EmbedderJob) and now - it.began_at < _STUCK_SECONDS
        ]
        if any(it.is_awaited for it in beside):
            behind = []
        elif beside:
            behind = [it for it in behind if it.is_awaited]
        if behind:
            turn = self._turns % 4
            self._turns += 1
            chosen.append(
                min(
                    behind,
                    key=lambda it: (
                        turn < 3 and not it.is_awaited,
                        turn % 2 == 0 and not it.has_new_lines,
                        it.ran_at or 0.0,
                    ),
                )
            )
        return chosen


class EmbedderJob(Job):
    """Embeds what was said, behind everything else."""

    name = "embedding"
    turn_order = EmbeddingOrder

    def __init__(self, embedding: Embedding) -> None:
        super().__init__()
        self._embedding = embedding
        self._wait = 0.0
        self._mark: object = None
        self._look_at = 0.0
        self._turn_mark: object = None  # the mark at the beginning of the last turn
        self.has_more = False
        """True if the last turn left work behind."""

    @property
    def is_awaited(self) -> bool:
        """Return whether a user who asked just now waits for texts of the space."""
        return (
            self._embedding.has_texts
            and time.monotonic() - self._embedding.question_at < _AWAITED_SECONDS
        )

    @property
    def has_new_lines(self) -> bool:
        """Return whether something was written since the last turn began."""
        return self._turn_mark != self._embedding.mark()

    @property
    def failure(self) -> str:
        """Reason for which nothing can be embedded now; empty if all is well."""
        return self.fault or self._embedding.failure

    @property
    def rest(self) -> float:
        """Wait for a call if everything is embedded."""
        is_complete = self.is_done and self._embedding.is_complete and not self.failure
        return RESTING_SECONDS if is_complete else 0.0

    def resume(self) -> None:
        """Look at once: the space was at rest, and its vectors are not in memory."""
        self._look_at = 0.0
        self.next_at = 0.0

    @property
    def is_busy(self) -> bool:
        """Return whether texts wait for their vectors."""
        return not self.is_done

    def due_at(self, now: int) -> int | None:
        """Return now if texts wait for their vectors."""
        return now if self.is_busy else None

    @property
    def is_done(self) -> bool:
        """Return whether everything is embedded that was written until now."""
        return self._mark == self._embedding.mark()

    def turn(self, stopping: threading.Event) -> float:  # noqa: ARG002 - its own event ends it
        """Embed a part of what waits."""
        mark = self._embedding.mark()
        if mark == self._mark and time.monotonic() < self._look_at:
            return _EMBED_SECONDS
        self._turn_mark = mark
        worked = self.has_more = self._embedding.tend()
        is_well = not self._embedding.failure
        is_done = is_well and not worked and not self._embedding.is_elsewhere
        self._mark = mark if is_done else None
        self._look_at = time.monotonic() + _LOOK_SECONDS
        self._wait = (
            0.0
            if worked
            else _EMBED_SECONDS
            if is_well
            else min(max(2 * self._wait, 1.0), _MOST_EMBED_SECONDS)
        )
        return self._wait


JOBS = (IndexKeeper, EmbedderJob, UpdatePruner, RetentionKeeper, CountWriter, FollowerJob)
"""All kinds of jobs that an open space may have."""


class ModelReleaser:
    """Takes embedding models that nobody uses out of memory. Started when made."""

    def __init__(self, models: EmbeddingModels, idle: Live[float]) -> None:
        """`idle`: seconds without a text or a question to embed."""
        self._models = models
        self._idle = idle
        self._loop = Loop("model-releaser", self._look, wait=self._seconds())
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop()

    def _seconds(self) -> float:
        return min(self._idle.now / 4, _MOST_RELEASE_SECONDS)

    def _look(self) -> float:
        self._models.release(self._idle.now)
        return self._seconds()
