"""One open space: the composition of all that serves one owner's data."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from recollect_server.access.limits import Limiter, Quota, Rate, StoredAmounts
from recollect_server.admin.jobs import JobReport
from recollect_server.anchors.service import Anchors
from recollect_server.channels.commands import Commands
from recollect_server.channels.rate_limit import RateLimiter
from recollect_server.channels.receiving import Receiving
from recollect_server.checkpoints.service import Checkpoints
from recollect_server.context.counts import ContextCounts
from recollect_server.contract.answers import Answers
from recollect_server.contract.convert import CursorSeal
from recollect_server.contract.streams import Streams
from recollect_server.contract.updates import encode, encode_communication_update
from recollect_server.conversations.service import Conversations
from recollect_server.kernel.compare.checks import Findings
from recollect_server.kernel.compare.recovery import (
    COMPARED_AT_ONCE,
    Progress,
    no_progress,
    recover,
)
from recollect_server.kernel.compare.verification import Verifier
from recollect_server.kernel.domain.conversation import Capacity
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.time import Clock, milliseconds
from recollect_server.kernel.erase.removals import Removals
from recollect_server.kernel.index.file import NAME as INDEX_NAME
from recollect_server.kernel.log.store import LogStore
from recollect_server.kernel.space.events import (
    ChangedElsewhere,
    Deleted,
    Redacted,
    Resting,
    Unindexed,
)
from recollect_server.kernel.space.locks import LockOrder
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.stream.live import LiveUpdates
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.notes.table import notes_of
from recollect_server.people.communication_service import External
from recollect_server.people.communication_store import CommunicationStore
from recollect_server.people.communication_stream import LiveCommunications
from recollect_server.people.identities import Identities, identity_ledger
from recollect_server.people.routing_service import Routes
from recollect_server.recall.embedding.pace import Share
from recollect_server.recall.embedding.service import Embedding
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.models import EmbeddingModels
from recollect_server.recall.model.workers import Workers
from recollect_server.recall.recall import Recall
from recollect_server.recall.vectors.file import NAME as VECTORS_NAME
from recollect_server.retention.service import NewRules, Retention, RetentionGrace, retention_ledger
from recollect_server.run.features import FEATURES
from recollect_server.run.folder import is_out_of_memory
from recollect_server.run.jobs.due_work import DueWork
from recollect_server.run.jobs.of_space import Bounds, CountWriter, EmbedderJob, UpdatePruner
from recollect_server.run.models import NotesWriter, abbreviator
from recollect_server.run.reading import IndexReading, ReadingSpace
from recollect_server.run.settings import Settings
from recollect_server.run.space_handlers import (
    SearchServices,
    SpaceServices,
    recall_handlers,
    space_handlers,
    working_limits,
)
from recollect_server.run.space_jobs import SpaceJobs
from recollect_server.run.stores import Stores

log = structlog.get_logger("recollect.app")

# additions that wait for the index of a space at rest: of more it is woken
_MOST_WAITING, _MOST_BYTES = 16, 32 << 10
_TAKEN_IN_AFTER = 5_000  # milliseconds from an append to a space at rest to its indexing

_EMPTY_FOLDER = ".empty"  # of the space that stands for those that nobody wrote to


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts of the server that all its spaces share."""

    live: Live[Settings]
    stores: Stores
    clock: Clock
    streams: Streams
    answers: Answers
    due: DueWork
    stopping: threading.Event
    """Set when the jobs are to stop."""
    note_work: Callable[[], None]
    """Wakes the jobs: others than calls gave them something to do."""
    is_leaving: Callable[[str], bool]
    """Tells whether a space is to be deleted, or all are to be closed."""
    models: EmbeddingModels | None
    """None: nothing is embedded."""
    workers: Workers | None
    writer: NotesWriter | None
    """None: nobody takes notes."""
    limiter: Limiter
    retention_grace: RetentionGrace
    new_rules: NewRules
    lock_order: LockOrder | None = None
    progress: Progress = no_progress
    compared_at_once: int = COMPARED_AT_ONCE
    telemetry: Telemetry = UNMEASURED
    embedding_share: Share = field(default_factory=Share)
    """Share of a processor that the embedding of all spaces takes beside appends."""
    opening: dict[str, "OpenSpace"] = field(default_factory=dict)
    """Spaces that are being opened, by name."""


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
        """Open the space of a name, and make it if there is none.

        Raises OSError, DataUnavailable; then nothing is left open.
        """
        self.name = name
        self._shared = shared
        self._stops: list[Callable[[], None]] = []
        self._changing = threading.Lock()  # held while an index at rest becomes due, or is woken
        self._is_due = self._is_watched = False
        self._due_at: int | None = shared.clock()
        self._reading: IndexReading | None = None
        shared.opening[name] = self
        try:
            self._open()
        except BaseException as error:
            if not is_out_of_memory(error):
                self.close(drains=False)
            raise
        finally:
            del shared.opening[name]

    def carry_out(self, work: Callable[..., Any], *of: Any, appends: bool = False) -> Any:
        """Return the result of a call's work `of` these arguments, behind what other processes
        wrote before it. `appends`: all that it does is to append to one conversation.
        """
        try:
            return self._space.carry_out(work, *of, appends=appends)
        finally:
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
        """Return whether appends are taken while the space is at rest: few wait for its index, and
        no other process writes to it. An append behind another process's changes needs the index.
        """
        count, size = self._space.index.waiting()
        return not self._space.is_shared and count < _MOST_WAITING and size < _MOST_BYTES

    def rest(self) -> bool:
        """Close every file until the space is used again. Return False if it is to be closed
        instead: if something cannot be written now, or nothing ever was. Nobody uses the space
        now.
        """
        self.flush()
        self._look_for_work()
        may_rest = self.name and self._is_used and self._space.may_rest
        if not may_rest or self._communications.behind:
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
            self._logs.close()
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
        self._logs.close()
        with self._changing:
            # one that is watched is being woken
            if not self._is_due and not self._is_watched and self._has_backlog:
                self._is_due = True
                self._shared.due.closed(self.name, self._shared.clock() + _TAKEN_IN_AFTER)

    @property
    def _has_backlog(self) -> bool:
        return self._space.is_resting and self._space.index.waiting()[0] > 0

    def _watch(self) -> None:
        self._is_watched = True
        for watched in self._watched:
            self._shared.streams.watch(watched, stands_in=not self.name)

    def _unwatch(self) -> None:
        if self._is_watched:
            self._is_watched = False
            for watched in self._watched:
                self._shared.streams.unwatch(watched)

    def close(self, *, drains: bool = True) -> None:
        """Write what is pending and close every file. Nobody uses the space any more.

        A space that nobody ever wrote to leaves no folder, unless it is the default one. `drains`:
        the index takes in what waits for it, else the next opening catches it up.
        """
        if drains and self._stops and self._has_backlog:
            with suppress(IndexUnavailable):
                self.wake()
        while self._stops:
            self._stops.pop()()

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
        return self._jobs.due_at()

    def _open(self) -> None:
        shared, stops = self._shared, self._stops
        live, settings = shared.live, shared.live.now
        self._logs = logs = shared.stores.of(self.name or _EMPTY_FOLDER)
        self._space = space = self._open_logs(logs)
        checkpoints = self._open_checkpoints(space, logs)
        self._communications = communications = CommunicationStore(space)
        self.external = External(communications, live.view(lambda now: now.acknowledgement))
        seal = self._seal()
        updates, communication_updates = self._watch_updates(space, communications, seal)
        self.retention = self._retention(space, logs)
        self._meaning = meaning = self._open_meaning(space, logs)
        counts = ContextCounts(space)
        count_writer = CountWriter(counts)
        routes = Routes.of(space)
        conversations = Conversations(space, routes)
        notes = ConversationNotes(space, by_rule=abbreviator(settings) == "extractive")
        removals = Removals(space)
        identities = Identities(space, identity_ledger(logs))
        space.subscribe(ChangedElsewhere, lambda event: identities.changed(event.name))
        senders = RateLimiter(
            space, live.view(lambda now: Rate.of(now.sender_rate, 60_000, now.sender_burst))
        )
        self._flushes = count_writer.flush, senders.close
        stops.append(self._flush_all)
        self.recall = Recall(space, meaning, identities)
        services = SpaceServices(
            space,
            conversations,
            notes,
            removals,
            updates,
            Receiving(
                space,
                routes,
                identities,
                Commands(space, notes, removals, settings.model_names),
                senders,
                self.external,
            ),
            identities,
            communication_updates,
            checkpoints,
            SearchServices(space, meaning, Anchors(space), counts, self.external, self.recall),
        )
        self.handlers: Mapping[str, object] = space_handlers(
            services, live, shared.streams, shared.answers, seal
        )
        self._jobs = SpaceJobs(
            space,
            live,
            shared.writer,
            shared.note_work,
            partial(shared.is_leaving, self.name),
            counts=count_writer,
            pruner=UpdatePruner(
                space, live.view(lambda now: Bounds(now.update_retention, now.max_updates))
            ),
            retention=self.retention,
            embedder=EmbedderJob(
                Embedding(space, meaning, shared.workers, shared.embedding_share, shared.stopping)
            )
            if shared.workers is not None
            else None,
        )
        self.jobs, self.notes = self._jobs.by_name, self._jobs.notes
        # first, as soon as nobody uses the space
        self.flush: Callable[[], None] = space.flush
        stops += (self._look_for_work, partial(space.flush, is_last=True))

    def _open_logs(self, logs: LogStore) -> Space:
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
        space = Space(
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
        return space

    def _open_checkpoints(self, space: Space, logs: LogStore) -> Checkpoints:
        """Finish the deletes of checkpoints, and bound what the space keeps."""
        shared = self._shared
        checkpoints = Checkpoints(
            logs, lambda name: space.exclusive(conversation=name), shared.clock
        )
        checkpoints.finish_deletes()
        self._quota = Quota(
            shared.limiter,
            self.name,
            shared.live.view(
                lambda now: StoredAmounts(now.space_conversations, now.space_stored_bytes)
            ),
            lambda: _stored(space, checkpoints),
            shared.clock,
        )
        space.subscribe(ChangedElsewhere, lambda event: checkpoints.changed(event.name))
        return checkpoints

    def _watch_updates(
        self, space: Space, communications: CommunicationStore, seal: CursorSeal
    ) -> tuple[LiveUpdates, LiveCommunications]:
        """Let the streams watch the updates of conversations and of communications."""
        settings = self._shared.live.now
        updates = LiveUpdates(
            space,
            self._shared.live.view(working_limits),
            partial(encode, seal),
            draft_timeout=milliseconds(settings.draft_timeout),
            max_draft=settings.max_message_bytes,
        )
        encode_update = partial(encode_communication_update, seal)
        communication_updates = LiveCommunications(communications, encode_update)
        self._watched = updates, communication_updates
        self._watch()
        self._stops.append(self._unwatch)
        return updates, communication_updates

    def _retention(self, space: Space, logs: LogStore) -> Retention:
        receipts = retention_ledger(logs)
        receipts.recover()
        rules = self._shared.live.view(
            lambda it: tuple(rule for rule in it.retention_rules if rule.is_for(self.name))
        )
        shared = self._shared
        return Retention(
            space, lambda: rules.now, receipts, shared.retention_grace, shared.new_rules
        )

    def _open_meaning(self, space: Space, logs: LogStore) -> Meaning:
        """Open the vectors, which follow what happens to conversations."""
        meaning = Meaning(logs.root, self._shared.models)
        self._stops.append(meaning.close)
        space.subscribe(Deleted, meaning.forget)
        space.subscribe(Redacted, meaning.redact)
        space.subscribe(Unindexed, meaning.unindex)
        space.subscribe(Resting, meaning.rest)
        return meaning

    def _seal(self) -> CursorSeal:
        return CursorSeal(self.name, is_default=self.name == self._shared.live.now.space)

    def partial(self) -> ReadingSpace | None:
        """Return what can be read already of the space, which is being opened, for one call; None
        if nothing can.
        """
        if self._reading is None or (index := self._reading.index()) is None:
            return None
        shared = self._shared
        logs, live = shared.stores.of(self.name), shared.live
        space = Space(
            logs,
            index,
            FEATURES,
            shared.clock,
            telemetry=shared.telemetry,
            reading=self._reading.reason,
        )
        external = External(CommunicationStore(space), live.view(lambda now: now.acknowledgement))
        meaning = Meaning(logs.root, shared.models)
        recall = Recall(space, meaning, Identities(space, identity_ledger(logs)))
        anchors, counts = Anchors(space), ContextCounts(space)
        services = SearchServices(space, meaning, anchors, counts, external, recall)
        handlers = {"RecallService": recall_handlers(services, live, shared.answers, self._seal())}
        return ReadingSpace(self.name, self._reading, index, space, handlers)

    def verify(self, findings: Findings, check: Callable[[], None]) -> None:
        """Compare its logs with its index and vectors (see `Verifier`)."""
        space = self._space
        if reason := space.doubt:
            findings.add("", [f"index: it may lack something: {reason}"])
        Verifier(space.upkeep.comparison(check), FEATURES, findings).run()

    def reports(self) -> list[JobReport]:
        return self._jobs.reports()

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
        index, waiting = self._space.index, self._meaning.waiting
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
            self._jobs.failing(),
        )

    def _flush_all(self) -> None:
        """Write what jobs keep in memory. Of a space at rest it is written."""
        if not self._space.is_resting:
            for flush in self._flushes:
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


def _stored(space: Space, checkpoints: Checkpoints) -> StoredAmounts:
    """Return what a space keeps."""
    conversations, size = space.index.stored()
    return StoredAmounts(conversations, size + checkpoints.stored_bytes())
