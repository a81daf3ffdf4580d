"""The handlers of the calls in one space, from the services of the space."""

from dataclasses import dataclass

from recollect_server.domain.context import Limits
from recollect_server.domain.live import Live
from recollect_server.services.anchors import Anchors
from recollect_server.services.channels.identities import Identities
from recollect_server.services.channels.receiving import Receiving
from recollect_server.services.checkpoints import Checkpoints
from recollect_server.services.context.building import ContextBuilder
from recollect_server.services.context.counts import ContextCounts
from recollect_server.services.context.inquiry import RecallDial
from recollect_server.services.context.own_tiers import Choosing, Window
from recollect_server.services.conversation_notes import ConversationNotes
from recollect_server.services.conversations import Conversations
from recollect_server.services.external.external import External
from recollect_server.services.external.live import LiveCommunications
from recollect_server.services.insight import Insight
from recollect_server.services.profile import UserProfile
from recollect_server.services.recall.meaning import Meaning
from recollect_server.services.recall.recall import Recall
from recollect_server.services.removals import Removals
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.live import LiveUpdates
from recollect_server.services.working_context import LoadLimits, WorkingContext
from recollect_server.settings import Settings
from recollect_server.transport.answers import Answers
from recollect_server.transport.channel_service import ChannelHandlers
from recollect_server.transport.checkpoint_service import CheckpointHandlers
from recollect_server.transport.conversation_service import ConversationHandlers
from recollect_server.transport.convert import CursorSeal
from recollect_server.transport.external_communication_service import ExternalCommunicationHandlers
from recollect_server.transport.insight_service import InsightHandlers
from recollect_server.transport.recall_service import RecallHandlers
from recollect_server.transport.streams import Streams


@dataclass(frozen=True, slots=True)
class SearchServices:
    """Services that answer searches and contexts, also of a space that is being read."""

    space: Space
    meaning: Meaning
    anchors: Anchors
    counts: ContextCounts
    external: External
    recall: Recall


@dataclass(frozen=True, slots=True)
class SpaceServices:
    """Services of an open space that calls use."""

    space: Space
    conversations: Conversations
    notes: ConversationNotes
    removals: Removals
    updates: LiveUpdates
    receiving: Receiving
    identities: Identities
    communication_updates: LiveCommunications
    checkpoints: Checkpoints
    search: SearchServices


def space_handlers(
    services: SpaceServices,
    live: Live[Settings],
    streams: Streams,
    answers: Answers,
    seal: CursorSeal,
) -> dict[str, object]:
    """Return the handlers of all services, by their names."""
    space, settings = services.space, live.now
    search_timeout = live.view(lambda now: now.search_timeout.total_seconds())
    return {
        "ConversationService": ConversationHandlers(
            services.conversations,
            services.notes,
            WorkingContext(space, live.view(working_limits)),
            services.identities,
            services.removals,
            services.updates,
            streams,
            answers,
            seal,
            settings.max_batch_bytes,
            settings.model_names,
        ),
        "RecallService": recall_handlers(services.search, live, answers, seal),
        "ChannelService": ChannelHandlers(services.receiving, services.identities),
        "ExternalCommunicationService": ExternalCommunicationHandlers(
            services.search.external,
            services.communication_updates,
            services.identities,
            streams,
            answers,
            seal,
            search_timeout,
        ),
        "InsightService": InsightHandlers(
            Insight(space), answers, seal, live.view(lambda now: now.time_zones)
        ),
        "CheckpointService": CheckpointHandlers(services.checkpoints, answers, seal),
    }


def recall_handlers(
    services: SearchServices, live: Live[Settings], answers: Answers, seal: CursorSeal
) -> RecallHandlers:
    profile = UserProfile(services.space, services.meaning, services.anchors)
    builder = ContextBuilder(
        services.space,
        services.meaning,
        profile,
        services.anchors,
        services.counts,
        live.view(_choosing),
        services.external,
        live.now.max_answer_bytes,
    )
    return RecallHandlers(
        services.recall,
        services.anchors,
        profile,
        builder,
        answers,
        seal,
        live.view(lambda now: now.search_timeout.total_seconds()),
        live.view(lambda now: now.time_zones),
    )


def working_limits(settings: Settings) -> LoadLimits:
    """Return how much of a conversation an answer holds."""
    return LoadLimits(
        settings.max_working_turns, settings.max_working_tokens, settings.max_answer_bytes
    )


def _choosing(settings: Settings) -> Choosing:
    """Return how contexts choose what they hold."""
    window = Window(settings.context_hot_turns, settings.context_warm_turns)
    budget = Limits(
        settings.context_hot_tokens,
        settings.context_warm_tokens,
        settings.context_cold_tokens,
        settings.context_tokens,
        settings.profile_tokens,
    )
    return Choosing(RecallDial[settings.recall.upper()], settings.excerpt_tokens, window, budget)
