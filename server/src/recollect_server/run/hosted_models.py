"""The writer of notes that asks a hosted model. It is imported only where one is configured,
because it takes 4 MiB with its HTTP library.
"""

from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.notes.hosted import claude, openai_api
from recollect_server.notes.hosted.claude import AnthropicEndpoint
from recollect_server.notes.hosted.hosted import Backoff, Endpoint, HostedModel
from recollect_server.notes.hosted.language_model import ModelUnavailable
from recollect_server.notes.hosted.openai_api import OpenAIEndpoint
from recollect_server.notes.hosted.spending import Spending, SpendingFile, SpendingLimits
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings import Settings


def hosted_model(
    live: Live[Settings], chosen: str, clock: Clock, telemetry: Telemetry
) -> tuple[HostedModel, HostedModel | None, Spending]:
    """Return the model behind the API that the setting chooses, `anthropic` or `openai`, the one
    that writes summaries, if it is another one, and what both may spend. Raises CannotStart if one
    cannot be asked.
    """
    settings = live.now
    budget = live.view(
        lambda now: SpendingLimits(
            now.abbreviation_daily_calls,
            now.abbreviation_daily_tokens,
            now.abbreviation_daily_cost,
            now.abbreviation_input_price,
            now.abbreviation_output_price,
        )
    )
    spending = Spending(clock, budget, SpendingFile(settings.data_dir), telemetry)
    names = [settings.abbreviation_model]
    if settings.compaction and settings.compaction_model not in ("auto", names[0]):
        names.append(settings.compaction_model)
    try:
        model, *others = [
            HostedModel(
                _endpoint(settings, chosen, it, spending),
                Backoff(),
                telemetry=telemetry,
                has_outcome=settings.abbreviation_outcome,
            )
            for it in names
        ]
    except ModelUnavailable as error:
        raise CannotStart(str(error)) from error
    return model, others[0] if others else None, spending


def _endpoint(settings: Settings, chosen: str, model: str, spending: Spending) -> Endpoint:
    """Return the endpoint of a hosted model. Raise ModelUnavailable if it cannot be asked."""
    part_tokens = settings.abbreviation_part_tokens
    timeout = settings.abbreviation_timeout.total_seconds()
    if chosen == "anthropic":
        name = "haiku" if model == "auto" else model
        return AnthropicEndpoint(
            name, spending, timeout=timeout, part_tokens=part_tokens or claude.PART_TOKENS
        )
    if model == "auto":
        raise ModelUnavailable(
            "--abbreviator openai needs a model: name one that the server has with --abbreviation-model"
        )
    return OpenAIEndpoint(
        settings.abbreviation_url,
        model,
        spending,
        timeout=timeout,
        part_tokens=part_tokens or openai_api.PART_TOKENS,
    )
