"""Plans of embedding: which models embed the texts of a space now, and which of them each text is
given to.
"""

import time
from dataclasses import dataclass, replace

import structlog

from recollect_server.kernel.index.index import Index
from recollect_server.recall.embedding.texts import Text
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.models import Census, is_foreign
from recollect_server.recall.model.weights import NoWeights, WrongWeights
from recollect_server.recall.vectors.store import VectorStore
from recollect_server.text.languages import ENGLISH, guess_language

log = structlog.get_logger("recollect.meaning")

_RETRY = 60.0  # seconds after which a model of other languages that failed is loaded again
# facts in the file of vectors
_LANGUAGES, _CENSUS, _ASKED = "languages", "census", "asked"


@dataclass(frozen=True, slots=True)
class Plan:
    """Models that embed a space's texts."""

    store: VectorStore
    index: Index
    main: Embedder
    model: int
    """Number of the main model in the file."""
    beside: Embedder | None = None
    """The model of other languages, where the space has any."""
    beside_model: int | None = None
    both: bool = False
    name: str = ""
    """Another name is another plan: all texts are looked at again."""

    @property
    def epoch(self) -> str:
        """Return the name of what progress counts: of this index, by this plan."""
        return f"{self.index.log.epoch} {self.name}".rstrip()

    def embedders(self) -> list[tuple[int, Embedder]]:
        """Return the models with their numbers, that of other languages first."""
        main = (self.model, self.main)
        if self.beside is None or self.beside_model is None:
            return [main]
        return [(self.beside_model, self.beside), main]

    def models_of(self, text: Text) -> tuple[int, ...]:
        """Return the numbers of the models that a text is given to."""
        if self.beside_model is None:
            return (self.model,)
        if is_foreign(text.content):
            return (self.beside_model,)
        # of a short text nothing may tell the language
        is_read_by_both = self.both or guess_language(text.content) != ENGLISH
        return (self.beside_model, self.model) if is_read_by_both else (self.model,)


class Planner:
    """Chooser of the models that embed the texts of a space. One thread calls it."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning
        self._retry_at = 0.0  # when the model of other languages is tried again
        self.census: Census | None = None
        """Counts of the texts, as long as they decide whether the space has other languages."""

    def plan(self, index: Index) -> Plan:
        """Return how texts are embedded now. Raises NoWeights, WrongWeights, ImportError,
        VectorsUnavailable.
        """
        store = self._meaning.store()
        models = self._meaning.models
        assert models is not None  # else nothing is embedded
        main = models.main.wanted()
        plan = Plan(store, index, main, store.model(main.identity, main.folder))
        if models.languages is None:
            self.census, self._meaning.lack = None, ""
            return plan
        if self._meaning.wants_languages:
            store.note(_ASKED, "others")
        both = models.both or bool(store.fact(_ASKED))
        if not both and not store.fact(_LANGUAGES):
            if self.census is None:
                self.census = Census.read(store.fact(_CENSUS))
            return replace(plan, name="main")
        self.census = None
        if time.monotonic() < self._retry_at:
            return replace(plan, name="lack")
        try:
            beside = models.languages.wanted()
        except (NoWeights, WrongWeights, ImportError, MemoryError) as error:
            self.do_without(models.languages.profile.name, error)
            return replace(plan, name="lack")
        self._meaning.lack = ""
        number = store.model(beside.identity, beside.folder)
        kind = "both" if both else "unsure"  # before, unsure texts were the main model's alone
        return replace(
            plan,
            beside=beside,
            beside_model=number,
            both=both,
            name=f"{kind} {beside.identity}",
        )

    def do_without(self, name: str, error: Exception) -> None:
        """Do without the model of other languages for a while: the main one embeds their texts."""
        reason = f"{name} is missing, so other languages are found by their words: {error}"
        if reason != self._meaning.lack:
            log.warning("model_of_languages_unavailable", reason=str(error))
        self._meaning.lack = reason
        self._retry_at = time.monotonic() + _RETRY

    def note_census(self, store: VectorStore) -> bool:
        """Note what languages the counted texts are in. Return whether that needs another plan."""
        if self.census is None:
            return False
        store.note(_CENSUS, self.census.written())
        if self.census.is_mixed:
            store.note(_LANGUAGES, "others")
            log.info("space_has_other_languages")
        return self.census.is_mixed
