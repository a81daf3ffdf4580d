"""The models that a server uses, as its settings name them: one for meaning, and a writer of
notes.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.notes.hosted.language_model import ANTHROPIC_KEY, LanguageModel
from recollect_server.notes.offline.extractive import Extractive
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.models import EmbeddingModel, EmbeddingModels
from recollect_server.recall.model.weights import E5, NoWeights, WrongWeights, look, shipped
from recollect_server.recall.model.workers import Workers
from recollect_server.run.folder import CannotStart
from recollect_server.run.jobs.notes import Throttle
from recollect_server.run.jobs.of_space import ModelReleaser
from recollect_server.run.settings import Settings

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
            Embedder(weights).load()
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
        return EmbeddingModels(main, words=settings.word_pieces)
    return EmbeddingModels(
        main, EmbeddingModel(shipped(E5), E5), both=choice == "both", words=settings.word_pieces
    )


@dataclass(frozen=True, slots=True)
class NotesWriter:
    """Writer of notes, and whether offline notes may be rewritten now."""

    model: LanguageModel
    may_redo: Callable[[], bool] = lambda: False
    offline: LanguageModel | None = None
    """Writer of the notes that the model does not write, if it is hosted."""
    condenser: LanguageModel | None = None
    """Writer of summaries, if it is another one."""


def writer_of_notes(
    live: Live[Settings], clock: Clock, telemetry: Telemetry = UNMEASURED
) -> NotesWriter | None:
    """Return who takes notes in all spaces; None for nobody. Raise CannotStart if it is one that
    cannot be asked.
    """
    settings = live.now
    chosen = abbreviator(settings)
    if chosen == "off":
        return None
    if chosen == "extractive":
        return NotesWriter(Extractive(Throttle()))
    from recollect_server.run.hosted_models import hosted_model  # see there

    model, condenser, spending = hosted_model(live, chosen, clock, telemetry)
    return NotesWriter(
        model,
        lambda: settings.redo_offline_notes and spending.share() < _REDO_SHARE,
        Extractive(Throttle()),
        condenser,
    )


def abbreviator(settings: Settings) -> str:
    """Return which kind of writer takes notes: `anthropic`, `openai`, `extractive` or `off`."""
    if settings.abbreviator == "auto":
        return "anthropic" if os.environ.get(ANTHROPIC_KEY) else "extractive"
    return settings.abbreviator


def open_models(
    live: Live[Settings], weights: Path | None, stops: list[Callable[[], None]]
) -> tuple[EmbeddingModels | None, Workers | None]:
    """Open the embedding models and the threads that they run in; None without weights."""
    if not weights:
        return None, None
    workers = Workers(live.now.embedding_threads)
    stops.append(workers.stop)
    models = embedding_models(live.now, weights)
    idle = live.view(lambda now: now.embedding_idle.total_seconds())
    stops.append(ModelReleaser(models, idle).stop)
    return models, workers
