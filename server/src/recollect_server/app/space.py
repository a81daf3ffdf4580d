"""One open space: the composition of all that serves one owner's data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from recollect_server.app.folder import cannot_use, is_out_of_memory
from recollect_server.app.models import abbreviator, writer_of_notes
from recollect_server.domain.time import Clock, milliseconds
from recollect_server.inference.workers import Workers
from recollect_server.jobs.abbreviator import Abbreviator, Task
from recollect_server.jobs.embedder import EmbedderJob
from recollect_server.jobs.index_keeper import IndexKeeper
from recollect_server.jobs.tier_keeper import TierKeeper
from recollect_server.jobs.update_pruner import UpdatePruner
from recollect_server.services.anchors import Anchors
from recollect_server.services.channels.commands import Commands
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.rate_limit import RateLimiter
from recollect_server.services.channels.receiving import Receiving
from recollect_server.services.context.building import Choosing, ContextBuilder
from recollect_server.services.context.own import Window
from recollect_server.services.context.packing import Recalling
from recollect_server.services.context.relevance import Weights
from recollect_server.services.conversations import Conversations
from recollect_server.services.external.external import External
from recollect_server.services.external.live import LiveCommunications
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.limits import Limiter, Quota, Stored
from recollect_server.services.notes.compaction import Compaction
from recollect_server.services.notes.naming import Naming
from recollect_server.services.recall.embedding import Embedding
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.recall.recall import Recall
from recollect_server.services.space.events import Deleted
from recollect_server.services.space.locks import LockOrder
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.live import LiveUpdates
from recollect_server.services.tiers import Tiers
from recollect_server.services.upkeep.recovery import COMPARED_AT_ONCE, Progress, recover, unheard
from recollect_server.services.working_context import Limits as WorkingLimits
from recollect_server.services.working_context import WorkingContext
from recollect_server.settings import Settings
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.ledger import identity_ledger
from recollect_server.storage.logs.store import LogUnavailable
from recollect_server.transport.answers import Answers
from recollect_server.transport.channel_service import ChannelHandlers
from recollect_server.transport.checks import Limits
from recollect_server.transport.conversation_service import ConversationHandlers
from recollect_server.transport.external_communication_service import ExternalCommunicationHandlers
from recollect_server.transport.recall_service import RecallHandlers
from recollect_server.transport.streams import Streams
from recollect_server.transport.updates import encode, encode_communication_update

log = structlog.get_logger("recollect.app")


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts of the server that all its spaces share."""

    settings: Settings
    clock: Clock
    streams: Streams
    answers: Answers
    weights: Path | None
    """Folder of the embedding model; None: nothing is embedded."""
    workers: Workers | None
    limiter: Limiter
    lock_order: LockOrder | None = None
    progress: Progress = unheard
    compared_at_once: int = COMPARED_AT_ONCE


class OpenSpace:
    """One owner's data, open and served."""

    def __init__(self, name: str, shared: Shared) -> None:
        """Open the space of a name.

        Raises CannotStart, StorageUnavailable, IndexUnavailable; then nothing is left open.
        """
        self.name = name
        self._stops: list[Callable[[], None]] = []
        try:
            self._open(shared)
        except BaseException as error:
            if not is_out_of_memory(error):
                self.close()
            raise

    def close(self) -> None:
        """Write what is pending, stop the jobs and close every file. Nobody uses the space any
        more.
        """
        while self._stops:
            self._stops.pop()()

    def _open(self, shared: Shared) -> None:
        settings, clock, stops = shared.settings, shared.clock, self._stops
        logs = FolderStore.of(settings.data_dir, self.name, sync=settings.durability == "fsync")
        try:
            self.recovered = recover(logs, clock, shared.progress, shared.compared_at_once)
            space = Space(
                logs,
                self.recovered.index,
                clock,
                unverified=self.recovered.suspects,
                lock_order=shared.lock_order,
                admit_conversation=lambda: self.quota.admit(conversations=1),
            )
        except (OSError, LogUnavailable) as error:
            raise cannot_use(settings.data_dir, error) from error
        stops += (space.close, logs.close)
        self.quota = Quota(
            shared.limiter,
            self.name,
            Stored(settings.space_conversations, settings.space_stored_bytes),
            lambda: Stored(*space.index.stored()),
            clock,
        )
        communications = CommunicationStore(space)
        self.external = External(communications, settings.acknowledgement)
        working_limits = WorkingLimits(
            settings.max_working_turns, settings.max_working_tokens, settings.max_answer_bytes
        )
        live = LiveUpdates(
            space,
            working_limits,
            encode,
            draft_timeout=milliseconds(settings.draft_timeout),
            max_draft=settings.max_message_bytes,
        )
        live_communications = LiveCommunications(communications, encode_communication_update)
        for watched in (live, live_communications):
            shared.streams.watch(watched)
            stops.append(partial(shared.streams.unwatch, watched))
        stops.append(UpdatePruner(space, settings.update_retention, settings.max_updates).stop)
        meaning = Meaning(logs.root, shared.weights)
        stops.append(meaning.close)
        space.subscribe(Deleted, meaning.forget)
        anchors = Anchors(space)
        tiers = Tiers(space, milliseconds(settings.warm_for))
        stops.append(TierKeeper(tiers).stop)
        conversations = Conversations(space, notes_by_rule=abbreviator(settings) == "extractive")
        try:
            identities = Identities(space, identity_ledger(logs))
        except LogUnavailable as error:
            raise cannot_use(settings.data_dir, error) from error
        senders = RateLimiter(space, settings.sender_rate, settings.sender_burst)
        stops.append(senders.close)
        receiving = Receiving(
            space,
            identities,
            Commands(space, conversations, settings.model_names),
            senders,
            self.external,
        )
        builder = ContextBuilder(
            space,
            meaning,
            anchors,
            tiers,
            _choosing(settings),
            self.external,
            settings.max_answer_bytes,
        )
        self.recall = Recall(space, meaning, tiers, identities)
        limits = Limits(settings.max_message_bytes, settings.max_batch_bytes)
        search_timeout = settings.search_timeout.total_seconds()
        self.handlers: Mapping[str, Any] = {
            "ConversationService": ConversationHandlers(
                conversations,
                WorkingContext(space, working_limits),
                live,
                shared.streams,
                limits,
                shared.answers,
                clock,
                settings.model_names,
            ),
            "RecallService": RecallHandlers(
                self.recall, anchors, builder, tiers, shared.answers, search_timeout
            ),
            "ChannelService": ChannelHandlers(receiving, identities, limits, clock),
            "ExternalCommunicationService": ExternalCommunicationHandlers(
                self.external,
                live_communications,
                shared.streams,
                limits,
                shared.answers,
                search_timeout,
            ),
        }
        # only now: it may give the index up, which all before read or listen to
        stops.append(IndexKeeper(space).stop)
        if shared.workers is not None:
            stops.append(EmbedderJob(Embedding(space, meaning, shared.workers)).stop)
        self._take_notes(shared, space)
        # as soon as no call is under way: before jobs, which may take a moment to end
        stops.append(space.flush)

    def _take_notes(self, shared: Shared, space: Space) -> None:
        settings = shared.settings
        if (notes := writer_of_notes(settings, space)) is None:
            return
        model = notes.model
        tasks: list[Task] = [
            Naming(space, model, milliseconds(settings.idle_timeout), notes.may_redo)
        ]
        if settings.compaction:
            tasks.append(
                Compaction(space, model, settings.compaction_messages, settings.compaction_keep)
            )
        sweep_interval = milliseconds(settings.sweep_interval)
        slow = settings.abbreviation_timeout.total_seconds() / 2
        self._stops.append(
            Abbreviator(
                tasks, model, shared.clock, sweep_interval, settings.abbreviation_threads, slow
            ).stop
        )
        log.info("notes_are_taken", by=model.name)


def _choosing(settings: Settings) -> Choosing:
    """Return how contexts choose what they hold."""
    weights = Weights(
        settings.recency_weight,
        settings.similarity_weight,
        settings.anchor_weight,
        settings.recency_decay,
    )
    recalling = Recalling(
        settings.relevance_threshold, settings.recall_limit, settings.context_conversation_share
    )
    window = Window(settings.context_hot_turns, settings.context_warm_turns)
    return Choosing(weights, recalling, settings.excerpt_tokens, window)
