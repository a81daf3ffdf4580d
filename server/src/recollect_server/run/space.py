"""One open space: the composition of all that serves one owner's data."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from recollect_server.access.limits import Quota, StoredAmounts
from recollect_server.admin.jobs import JobReport
from recollect_server.kernel.compare.checks import Findings
from recollect_server.kernel.compare.recovery import recover
from recollect_server.kernel.compare.verification import Verifier
from recollect_server.kernel.domain.conversation import Capacity
from recollect_server.kernel.domain.errors import (
    DataUnavailable,
    IndexUnavailable,
    StorageUnavailable,
)
from recollect_server.kernel.index.file import NAME as INDEX_NAME
from recollect_server.kernel.log.store import LogStore, LogUnavailable
from recollect_server.kernel.space.space import Space
from recollect_server.notes.table import notes_of
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.vectors.file import NAME as VECTORS_NAME
from recollect_server.run.features import FEATURES
from recollect_server.run.folder import is_out_of_memory
from recollect_server.run.jobs.notes import NOTES, SpaceNotes
from recollect_server.run.jobs.rounds import Job
from recollect_server.run.parts import PARTS
from recollect_server.run.parts.opening import Opening, Shared, T
from recollect_server.run.reading import IndexReading, ReadingSpace

log = structlog.get_logger("recollect.app")

# additions that wait for the index of a space at rest: of more it is woken
_MOST_WAITING, _MOST_BYTES = 16, 32 << 10
_TAKEN_IN_AFTER = 5_000  # milliseconds from an append to a space at rest to its indexing

_EMPTY_FOLDER = ".empty"  # of the space that stands for those that nobody wrote to


@dataclass(frozen=True, slots=True)
class SpaceLoad:
    """Work that waits in one open space."""

    index_waiting: int
    index_bytes: int
    index_lag: float
    """Seconds that the oldest addition waits for the index."""
    not_indexed: int
    """Conversations of which the index refused lines."""
    not_embedded: int
    """Conversations with texts that are not embedded yet."""
    embedding_lag: float
    """Seconds that the first of them waits."""
    held_messages: int
    held_bytes: int
    notes_due: int
    notes_failed: int
    jobs_failing: frozenset[str]


class OpenSpace:
    """One owner's data, open and served."""

    def __init__(self, name: str, shared: Shared) -> None:
        """Open nothing yet: `open` does."""
        self.name = name
        self._shared = shared
        self._stops: list[Callable[[], None]] = []
        self._changing = threading.Lock()  # held while an index at rest becomes due, or is woken
        self._is_due = self._is_watched = False
        self._due_at: int | None = shared.clock()
        self._reading: IndexReading | None = None

    def open(self) -> None:
        """Open the space, and make it if there is none.

        Raises OSError, DataUnavailable; then nothing is left open.
        """
        try:
            self._open_logs(self._shared.stores.of(self.name or _EMPTY_FOLDER))
            self._open_parts()
        except BaseException as error:
            if not is_out_of_memory(error):
                self.close(drains=False)
            raise

    def service(self, kind: type[T]) -> T:
        """Return the service of a type that a part gave the space."""
        return self._opening.service(kind)

    def carry_out(self, work: Callable[..., Any], *of: Any, appends: bool = False) -> Any:
        """Return the result of a call's work `of` these arguments, behind what other processes
        wrote before it. `appends`: all that it does is to append to one conversation.
        """
        try:
            return self._space.carry_out(work, *of, appends=appends)
        finally:
            if self._space.is_resting and self._space.held()[0]:
                with suppress(DataUnavailable):  # for the job that tries them again
                    self.wake()
            if self._space.is_resting:
                self._note_backlog()

    def follow(self) -> None:
        """Take in what other processes wrote."""
        self._space.follow()

    # At rest --------------------------------------------------------------------------------------

    @property
    def is_resting(self) -> bool:
        """Return whether its files are closed until it is used, and jobs leave it alone."""
        return self._space.is_resting and not self._space.index.writer.damage  # that is for a job

    @property
    def takes_appends(self) -> bool:
        """Return whether appends are taken while the space is at rest: few wait for its index, no
        stream waits for them, and no other process writes to it. An append behind another process's
        changes needs the index.
        """
        if self._space.is_shared or self._shared.streams.has_detached(self.name):
            return False
        count, size = self._space.index.waiting()
        return count < _MOST_WAITING and size < _MOST_BYTES

    @property
    def has_streams(self) -> bool:
        """Return whether somebody watches the space."""
        return any(map(self._shared.streams.has_streams, self._opening.watched))

    @property
    def is_delivering(self) -> bool:
        """Return whether something is on its way to its streams."""
        return any(map(self._shared.streams.is_delivering, self._opening.watched))

    def rest(self) -> bool:
        """Close every file until the space is used again. Return False if it is to be closed
        instead: if something cannot be written now, or nothing ever was. Nobody uses the space
        now.
        """
        self.flush()
        self._look_for_work()
        if not (self.name and self._is_used and self._space.may_rest):
            return False
        self._flush_all()
        self._unwatch()
        self._space.index.writer.woken = self._woken
        try:
            with suppress(OSError):  # of the seal: without it the next start compares
                self._space.rest()
        except IndexUnavailable:
            return False
        finally:
            self._space.store.close()
        self._note_due()
        return True

    def admit(self, size: int) -> None:
        """Let a call write so many bytes. Raises LimitExceeded if the space may keep no more."""
        self._quota.admit(size=size)

    def wake(self) -> None:
        """Open the files again, and take in what was appended. Raises DataUnavailable: then the
        space is to be opened anew.
        """
        self._space.index.wake()

    def _woken(self) -> None:
        """Take note that the index is open again."""
        with self._changing:
            self._shared.due.opened(self.name, self._shared.clock())
            self._is_due = False
            self._watch()
        for job in self.jobs.values():
            job.resume()

    def _note_backlog(self) -> None:
        """Close the files of an append to the space at rest, and note that its index is due."""
        self._space.store.close()
        with self._changing:
            # one that is watched is being woken
            if not self._is_due and not self._is_watched and self._has_backlog:
                self._is_due = True
                self._shared.due.closed(self.name, self._shared.clock() + _TAKEN_IN_AFTER)

    @property
    def _has_backlog(self) -> bool:
        return self._space.is_resting and (
            self._space.index.waiting()[0] > 0 or self._space.held()[0] > 0
        )

    def _watch(self) -> None:
        self._is_watched = True
        for watched in self._opening.watched:
            self._shared.streams.watch(watched, self.name)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            for watched in self._opening.watched:
                self._shared.streams.unwatch(watched)

    def close(self, *, drains: bool = True) -> None:
        """Write what is pending and close every file. Nobody uses the space any more.

        A space that nobody ever wrote to leaves no folder, unless it is the default one. `drains`:
        the index takes in what waits for it, else the next opening catches it up.
        """
        if drains and self._stops and self._has_backlog:
            with suppress(IndexUnavailable):
                self.wake()
        with ExitStack() as stops:  # one that fails keeps no other from its work
            while self._stops:
                stops.callback(self._stops.pop(0))

    def abandon(self) -> None:
        """Let nobody wait for its index any more (see `Writer.abandon`)."""
        self._space.abandon()

    def settle(self) -> None:
        """Wait until the file of the index has all that was acknowledged, or cannot take it now."""
        if self._has_backlog or not self.is_resting:
            with suppress(IndexUnavailable), self._space.index.reading():
                pass

    def due_at(self) -> int | None:
        """Return when its jobs have work, in milliseconds; None if nothing will be due."""
        now = self._shared.clock()
        try:
            times = [self.notes.due_at(), *(job.due_at(now) for job in self.jobs.values())]
        except DataUnavailable:
            return now
        return min((time for time in times if time is not None), default=None)

    def _open_logs(self, logs: LogStore) -> None:
        """Bring the index up to the logs, and open both."""
        shared, stops = self._shared, self._stops
        if self.name:
            shared.due.opened(self.name, shared.clock())
            stops.append(self._note_due)
        self._is_used = logs.root.exists()
        moment = logs.sharing.moment(join=True) if logs.sharing and self.name else ""
        if self.name != shared.live.now.space:
            stops.append(partial(self._remove_if_unused, logs))
        self._reading = reading = IndexReading(logs, moment)
        self.recovered = recover(
            logs, FEATURES, shared.clock, shared.progress, shared.compared_at_once, reading
        )
        self._space = space = Space(
            logs,
            self.recovered.index,
            FEATURES,
            shared.clock,
            is_compared=self.recovered.is_compared,
            lock_order=shared.lock_order,
            admit_conversation=lambda: self._quota.admit(conversations=1),
            capacity=shared.live.view(
                lambda now: Capacity(now.max_conversation_messages, now.max_conversation_bytes)
            ),
            moment=moment or (logs.sharing.moment() if logs.sharing else ""),
            telemetry=shared.telemetry,
        )
        stops += (space.close, logs.close, reading.end)

    def _open_parts(self) -> None:
        """Let each part give the space what it has for it."""
        shared, stops, space = self._shared, self._stops, self._space
        self._quota = Quota(
            shared.limiter,
            self.name,
            shared.live.view(
                lambda now: StoredAmounts(now.space_conversations, now.space_stored_bytes)
            ),
            self._stored,
            shared.clock,
        )
        self._opening = opening = Opening(self.name, shared, space)
        stops.append(opening.close)
        for part in PARTS:
            part.read(opening)
            part.register(opening)
        self.handlers: Mapping[str, object] = opening.handlers
        self.jobs: Mapping[str, Job] = opening.jobs
        self.notes = opening.service(SpaceNotes)
        self._watch()
        # first, as soon as nobody uses the space
        self.flush: Callable[[], None] = space.flush
        stops += (
            self._unwatch,
            self._flush_all,
            self._look_for_work,
            partial(space.flush, is_last=True),
        )

    def partial(self) -> ReadingSpace | None:
        """Return what can be read already of the space, which is being opened, for one call; None
        if nothing can.
        """
        if self._reading is None or (index := self._reading.index()) is None:
            return None
        shared = self._shared
        space = Space(
            shared.stores.of(self.name),
            index,
            FEATURES,
            shared.clock,
            telemetry=shared.telemetry,
            reading=self._reading.reason,
        )
        opening = Opening(self.name, shared, space)
        for part in PARTS:
            part.read(opening)
        return ReadingSpace(self.name, self._reading, index, space, opening.handlers)

    def verify(self, findings: Findings, check: Callable[[], None]) -> None:
        """Compare its logs with its index and vectors (see `Verifier`)."""
        space = self._space
        if reason := space.doubt:
            findings.add("", [f"index: it may lack something: {reason}"])
        Verifier(space.upkeep.comparison(check), FEATURES, findings).run()

    def reports(self) -> list[JobReport]:
        """Return the states of its jobs that settings do not turn off."""
        jobs = [job.report(self._shared.clock) for job in self.jobs.values()]
        return [*jobs, *(report() for report in self._opening.reports)]

    def held(self) -> tuple[int, int]:
        """Return the number of messages whose logs refused them, and their bytes."""
        return self._space.held()

    def held_because(self) -> str:
        """Return what a log said that refuses messages; empty if none does."""
        return self._space.held_because()

    def not_indexed(self) -> int:
        """Return the number of conversations of which the index refused lines."""
        return self._space.not_indexed()

    def load(self) -> SpaceLoad:
        """Return what waits now."""
        index, waiting = self._space.index, self.service(Meaning).waiting
        failing = {name for name, job in self.jobs.items() if job.failure}
        documents, size = index.waiting()
        held_messages, held_bytes = self._space.held()
        notes_due = notes_failed = 0
        if self._shared.writer is not None:
            with suppress(IndexUnavailable):
                notes_due, notes_failed = notes_of(index).counts()
        return SpaceLoad(
            documents,
            size,
            index.writer.lag(),
            self._space.not_indexed(),
            waiting.conversations if waiting else 0,
            time.monotonic() - waiting.since if waiting else 0.0,
            held_messages,
            held_bytes,
            notes_due,
            notes_failed,
            frozenset(failing | {NOTES} if self.notes.failure else failing),
        )

    def _flush_all(self) -> None:
        """Write what jobs keep in memory. Of a space at rest it is written."""
        if not self._space.is_resting:
            for flush in self._opening.flushes:
                flush()

    def _look_for_work(self) -> None:
        """Look, while everything is open, when work will be due once it is closed, and whether
        anything was ever written.
        """
        if self._space.is_resting:
            if self._has_backlog:
                self._due_at = self._shared.clock()
            return
        self._due_at = self.due_at()
        with suppress(IndexUnavailable):
            self._is_used = self._space.index.log.last_cursor() > 0

    def _note_due(self) -> None:
        """Note when work is due in the closed space."""
        if self._is_gone():
            self._shared.due.closed(self.name, None)
        else:
            self._shared.due.closed(self.name, self._due_at)

    def _remove_if_unused(self, logs: LogStore) -> None:
        """Remove the folders of the closed space if it has no logs and never had any. One whose
        conversations were all deleted keeps its index, which callers have cursors of.
        """
        if not self._is_used and self._shared.stores.remove_unused(
            self.name or _EMPTY_FOLDER,
            lambda name: name.startswith((INDEX_NAME, VECTORS_NAME)),
        ):
            log.debug("unused_space_removed", folder=logs.root.parent.name)

    def _is_gone(self) -> bool:
        return not (self._shared.live.now.data_dir / self.name).exists()

    def _stored(self) -> StoredAmounts:
        """Return what the space keeps."""
        conversations, size = self._space.index.stored()
        return StoredAmounts(conversations, size + sum(it() for it in self._opening.stored))


class Opener:
    """Opens the spaces of a server. Safe to call from any thread."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._being_opened: dict[str, OpenSpace] = {}

    def open(self, name: str) -> OpenSpace:
        """Open a space. Raises DataUnavailable, which names it."""
        space = self._being_opened[name] = OpenSpace(name, self._shared)
        try:
            self._shared.stores.check_name(name)
            space.open()
        except (OSError, LogUnavailable) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise StorageUnavailable(f"the space {name} cannot be opened: {reason}") from error
        except IndexUnavailable as error:
            raise IndexUnavailable(f"the space {name} cannot be opened: {error}") from error
        finally:
            del self._being_opened[name]
        return space

    def partial(self, name: str) -> ReadingSpace | None:
        """Return what can be read already of a space that is being opened; None if nothing can."""
        space = self._being_opened.get(name)
        return space.partial() if space is not None else None
