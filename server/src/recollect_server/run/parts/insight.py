"""The part of insight in a space."""

from recollect_server.contract.insight_service import InsightHandlers
from recollect_server.insight.service import Insight
from recollect_server.run.parts.opening import Opening


def register(opening: Opening) -> None:
    opening.handlers["InsightService"] = InsightHandlers(
        Insight(opening.space),
        opening.shared.answers,
        opening.seal,
        opening.live.view(lambda now: now.time_zones),
    )
