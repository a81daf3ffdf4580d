"""The models that a server uses, as its settings name them: one for meaning, and a writer of
notes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recollect_server.app.folder import CannotStart
from recollect_server.domain.live import Live
from recollect_server.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.domain.time import Clock
from recollect_server.inference import claude, openai_api
from recollect_server.inference.circuit_breaker import Backoff
from recollect_server.inference.claude import AnthropicEndpoint
from recollect_server.inference.embedder import Embedder
from recollect_server.inference.extractive import Extractive
from recollect_server.inference.hosted import Endpoint, HostedModel
from recollect_server.inference.language_model import LanguageModel, ModelUnavailable
from recollect_server.inference.openai_api import OpenAIEndpoint
from recollect_server.inference.spending import Budget, Spending, Spent
from recollect_server.inference.weights import E5, NoWeights, WrongWeights, look, shipped
from recollect_server.jobs.abbreviator import Throttle
from recollect_server.services.recall.models import EmbeddingModel, EmbeddingModels
from recollect_server.settings import Settings
from recollect_server.storage.index.notes import note_state_of
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.spending import SpendingFile

# of a day's budget that writing offline notes anew may use: the rest is for new notes
_REDO_SHARE = 0.5


def model_folder(settings: Settings) -> Path | None:
    """Return the folder of the embedding model; None if search by meaning is off. Raises
    CannotStart for a wrong one.

    The checksums are compared. A model that does not come with the server is loaded as well: only
    that shows its dimensions.
    """
    if settings.embedder == "off":
        return None
    folder = shipped() if settings.embedding_model == "shipped" else Path(settings.embedding_model)
    try:
        weights = look(folder)
        if folder != shipped():
            Embedder(weights)
    except WrongWeights as error:
        raise CannotStart(str(error)) from error
    except (NoWeights, ImportError):
        pass  # searches say so, and the job tries again
    return folder


def embedding_models(settings: Settings, folder: Path) -> EmbeddingModels:
    """Return the models that embed texts; `folder` is that of the main one."""
    main = EmbeddingModel(folder)
    choice = settings.embedding_models
    if choice == "minilm" or (choice == "auto" and folder != shipped()):
        return EmbeddingModels(main)
    return EmbeddingModels(main, EmbeddingModel(shipped(E5), E5), both=choice == "both")


@dataclass(frozen=True, slots=True)
class Writer:
    """Writer of notes, and whether offline notes may be rewritten now."""

    model: LanguageModel
    may_redo: Callable[[], bool] = lambda: False
    offline: LanguageModel | None = None
    """Writer of the notes that the model does not write, if it is hosted."""


def writer_of_notes(
    live: Live[Settings], clock: Clock, telemetry: Telemetry = UNMEASURED
) -> Writer | None:
    """Return who takes notes in all spaces; None for nobody. Raise CannotStart if it is one that
    cannot be asked.
    """
    settings = live.now
    chosen = abbreviator(settings)
    if chosen == "off":
        return None
    if chosen == "extractive":
        return Writer(Extractive(Throttle()))
    budget = live.view(
        lambda now: Budget(
            now.abbreviation_daily_calls,
            now.abbreviation_daily_tokens,
            now.abbreviation_daily_cost,
            now.abbreviation_input_price,
            now.abbreviation_output_price,
        )
    )
    file = SpendingFile(settings.data_dir)

    def read(day: str) -> Spent:
        last, calls, tokens, cost = file.last()
        if not last:  # a server before there were many spaces kept it in the index
            before = note_state_of(FolderStore.of(settings.data_dir, settings.space).root)
            last, calls, tokens, cost = before.day, before.calls, before.tokens, before.cost
        return Spent(calls, tokens, cost) if last == day else Spent()

    def write(day: str, spent: Spent) -> None:
        file.write(day, spent.calls, spent.tokens, spent.cost)

    spending = Spending(clock, budget, read, write, telemetry)
    backoff = Backoff(
        tries=settings.abbreviation_tries,
        failures=settings.abbreviation_failures,
        rest=settings.abbreviation_rest.total_seconds(),
    )
    try:
        model = HostedModel(_endpoint(settings, chosen, spending), backoff, telemetry=telemetry)
    except ModelUnavailable as error:
        raise CannotStart(str(error)) from error
    return Writer(
        model,
        lambda: settings.redo_offline_notes and spending.share() < _REDO_SHARE,
        Extractive(Throttle()),
    )


def abbreviator(settings: Settings) -> str:
    """Return which kind of writer takes notes: `anthropic`, `openai`, `extractive` or `off`."""
    if settings.abbreviator == "auto":
        return "anthropic" if os.environ.get(claude.KEY) else "extractive"
    return settings.abbreviator


def _endpoint(settings: Settings, chosen: str, spending: Spending) -> Endpoint:
    """Return the endpoint of a hosted model. Raise ModelUnavailable if it cannot be asked."""
    model, part_tokens = settings.abbreviation_model, settings.abbreviation_part_tokens
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
