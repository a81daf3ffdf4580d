"""The embedding models of a server, and which of them a text is given to.

One model embeds English and code. Where a space has texts in other languages, another one embeds
those: it is loaded only then, for it takes some 200 MiB.
"""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.weights import (
    MINILM,
    NoWeights,
    Profile,
    Weights,
    WrongWeights,
    identity_of,
    look,
)
from recollect_server.text.languages import ENGLISH, guess_language

log = structlog.get_logger("recollect.meaning")

FACTOR = 1.8
"""Factor that brings the cosines of multilingual-e5-small to the scale of all-MiniLM-L6-v2.

On texts and questions in eight languages the scaled cosine is 0.07 (deviation 0.15) where nothing
is related, and 0.48 where a text answers the question: `docs/decisions/embedding-models.md`.
"""
_BEGINNING = 400  # characters of a text whose script is looked at
_LETTER = re.compile(r"[^\W\d_]")
# Letters of no Latin script: from Greek on, without the signs and the additions to Latin.
_OTHER_SCRIPT = re.compile(
    "[\u0370-\u1dff\u1f00-\u1fff\u2c00-\u2c5f\u2c80-\ua6ff\ua7b0-\ufaff\ufb13-\uffdc]"
)
_OTHER_SHARE = 0.3  # share of the letters
# Texts in Latin script that look foreign before a space counts as having other languages, and their
# share of all texts: of English messages, one in a thousand is taken for another language. Or they
# are most texts of a space: of 2,437 first messages in English none is taken so.
_LEAST, _LEAST_SHARE = 3, 0.01


def is_in_other_script(text: str) -> bool:
    """Return whether much of a text is in another script than Latin."""
    beginning = text[:_BEGINNING]
    if beginning.isascii():
        return False
    other = len(_OTHER_SCRIPT.findall(beginning))
    return other > 0 and other >= _OTHER_SHARE * len(_LETTER.findall(beginning))


def is_foreign(text: str) -> bool:
    """Return whether a text looks like another language than English."""
    return is_in_other_script(text) or guess_language(text) not in ("", ENGLISH)


@dataclass(slots=True)
class Census:
    """Counts of the texts of a space, until they show that it has other languages."""

    texts: int = 0
    foreign: int = 0
    certain: int = 0
    """Number of texts in another script."""

    @classmethod
    def read(cls, noted: str) -> "Census":
        """Return the counts that `written` gave; none of an empty text."""
        return cls(*map(int, noted.split())) if noted else cls()

    def written(self) -> str:
        return f"{self.texts} {self.foreign} {self.certain}"

    def count(self, text: str) -> None:
        self.texts += 1
        if is_in_other_script(text):
            self.certain += 1
        elif is_foreign(text):
            self.foreign += 1

    @property
    def is_mixed(self) -> bool:
        """Return whether the space has texts in other languages."""
        return (
            self.certain > 0
            or 2 * self.foreign > self.texts
            or (self.foreign >= _LEAST and self.foreign >= _LEAST_SHARE * self.texts)
        )


class EmbeddingModel:
    """An embedding model, loaded once for all spaces. Safe to call from any thread."""

    def __init__(self, weights: Path, profile: Profile = MINILM) -> None:
        """`weights` is the folder of the configured model."""
        self._weights = weights
        self.profile = profile
        self._guard = threading.Lock()  # held while a model is loaded: some 0.3 s
        self._configured: Embedder | None = None
        self._former: Embedder | None = None

    def identity(self) -> str:
        """Return the identity of the configured model, which is not loaded for it. Raises
        NoWeights, WrongWeights.
        """
        return identity_of(self._weights, self.profile)

    def wanted(self) -> Embedder:
        """Return the embedder of the configured model, loaded at its first use. Raises NoWeights,
        WrongWeights, ImportError.
        """
        with self._guard:
            if self._configured is None:
                self._configured = Embedder(look(self._weights, self.profile))
            return self._configured

    def of_weights(self, identity: str, folder: Path) -> Embedder | None:
        """Return the embedder of this identity, or None if its weights are not available."""
        with self._guard:
            for embedder in (self._configured, self._former):
                if embedder is not None and embedder.identity == identity:
                    return embedder
            try:
                weights: Weights = look(folder)
                if weights.identity != identity:
                    return None
                self._former = Embedder(weights)
            except (NoWeights, WrongWeights, ImportError):
                return None
            return self._former

    def release(self, idle: float) -> None:
        """Release the memory of what was not used for `idle` seconds."""
        for embedder in (self._configured, self._former):
            if embedder is not None and embedder.release(idle):
                log.info("model_released", model=self.profile.name)


@dataclass(frozen=True, slots=True)
class EmbeddingModels:
    main: EmbeddingModel
    """The model of English and code; without the other, of everything."""
    languages: EmbeddingModel | None = None
    """The model of other languages."""
    both: bool = False
    """True if the model of other languages embeds English as well."""
    words: bool = True
    """True if the word pieces of texts are kept, to be compared with those of questions."""
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(thread_name_prefix="question")
    )
    """Threads that embed questions while their searches look for words."""

    def release(self, idle: float) -> None:
        """Release the memory of models that were not used for `idle` seconds: the next text or
        question loads them again.
        """
        for model in (self.main, self.languages):
            if model is not None:
                model.release(idle)
