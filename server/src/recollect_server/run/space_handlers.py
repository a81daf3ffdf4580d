"""The handlers of the calls in one space, from the services of the space."""

from dataclasses import dataclass

from recollect_server.anchors.service import Anchors
from recollect_server.channels.receiving import Receiving
from recollect_server.checkpoints.service import Checkpoints
from recollect_server.context.building import ContextBuilder
from recollect_server.context.context import Limits
from recollect_server.context.counts import ContextCounts
from recollect_server.context.inquiry import RecallDial
from recollect_server.context.own_tiers import Choosing, Window
from recollect_server.context.profile import UserProfile
from recollect_server.contract.answers import Answers
from recollect_server.contract.channel_service import ChannelHandlers
from recollect_server.contract.checkpoint_service import CheckpointHandlers
from recollect_server.contract.conversation_service import ConversationHandlers
from recollect_server.contract.convert import CursorSeal
from recollect_server.contract.external_communication_service import ExternalCommunicationHandlers
from recollect_server.contract.insight_service import InsightHandlers
from recollect_server.contract.recall_service import RecallHandlers
from recollect_server.contract.streams import Streams
from recollect_server.conversations.service import Conversations
from recollect_server.insight.service import Insight
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.erase.removals import Removals
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.working_context import LoadLimits, WorkingContext
from recollect_server.kernel.stream.live import LiveUpdates
from recollect_server.notes.conversation_notes import ConversationNotes
from recollect_server.people.communication_service import External
from recollect_server.people.communication_stream import LiveCommunications
from recollect_server.people.identities import Identities
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.recall import Recall
from recollect_server.run.settings import Settings


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
