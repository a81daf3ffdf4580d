"""The part of contexts in a space, and RecallService, which answers with what recall and contexts
have.
"""

from recollect_server.anchors.service import Anchors
from recollect_server.context.building import ContextBuilder
from recollect_server.context.context import Limits
from recollect_server.context.counts import ContextCounts
from recollect_server.context.inquiry import RecallDial
from recollect_server.context.own_tiers import Choosing, Window
from recollect_server.context.profile import UserProfile
from recollect_server.contract.recall_service import RecallHandlers
from recollect_server.people.communication_service import External
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.recall import Recall
from recollect_server.run.jobs.of_space import CountWriter
from recollect_server.run.parts.opening import Opening
from recollect_server.run.settings import Settings


def read(opening: Opening) -> None:
    space, live, meaning = opening.space, opening.live, opening.service(Meaning)
    anchors, counts = Anchors(space), opening.give(ContextCounts(space))
    profile = UserProfile(space, meaning, anchors)
    opening.service(Recall).govern_by(profile.instructions)
    builder = ContextBuilder(
        space,
        meaning,
        profile,
        anchors,
        counts,
        live.view(_choosing),
        opening.service(External),
        live.now.max_answer_bytes,
    )
    opening.handlers["RecallService"] = RecallHandlers(
        opening.service(Recall),
        anchors,
        profile,
        builder,
        opening.shared.answers,
        opening.seal,
        live.view(lambda now: now.search_timeout.total_seconds()),
        live.view(lambda now: now.time_zones),
    )


def register(opening: Opening) -> None:
    job = opening.start(CountWriter(opening.service(ContextCounts)))
    opening.flushes.append(job.flush)


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
