"""Vectors that the processes over one store share: each text is embedded by one of them.

The process that has the lease of a model embeds, and keeps the vectors in the store; the others
take them from there. If it ends, another one has the lease within seconds.
"""

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.log.store import Purpose
from recollect_server.kernel.space.following import SharedWork
from recollect_server.recall.embedding.texts import Text
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.marks import DIMENSIONS

_LEASE = 10.0  # seconds; a turn of its work is shorter but for a slow machine


class SharedVectors:
    """The vectors in the store of a space; without others who use it, there are none. One thread
    calls it. Raises nothing: from a store that is away nothing is taken, and nobody embeds.
    """

    def __init__(self, work: SharedWork) -> None:
        self._work = work
        self.moment = ""
        """The moment of the last `begin`; empty where nobody shares, or the store was away."""

    def begin(self) -> None:
        """Note the moment: texts are read from now on."""
        self.moment = ""
        with suppress(StorageUnavailable):
            self.moment = self._work.moment()

    def may_embed(self, model: str) -> bool:
        """Return whether this process is the one that embeds with a model now."""
        with self._work.alone(f"{Purpose.EMBEDDING} {model}", _LEASE) as may:
            return may

    def take(self, model: str, texts: Sequence[Text]) -> dict[bytes, NDArray[np.int8]]:
        """Return the vectors that another process made, by the hash of the text."""
        if not texts:
            return {}
        bodies: dict[bytes, bytes] = {}
        with suppress(StorageUnavailable):
            names = [(it.conversation_id, it.hash) for it in texts]
            bodies = self._work.vectors(model, names)
        return {
            text_hash: np.frombuffer(body, np.int8).reshape(-1, DIMENSIONS)
            for text_hash, body in bodies.items()
        }

    def take_codes(self, embedder: Embedder, texts: Sequence[Text]) -> dict[bytes, bytes]:
        """Return the codes of word pieces that another process made, by the hash of the text."""
        codes: dict[bytes, bytes] = {}
        if texts and embedder.words_identity:
            with suppress(StorageUnavailable):
                names = [(it.conversation_id, it.hash) for it in texts]
                codes = self._work.vectors(_codes_name(embedder), names)
        return codes

    def keep_codes(
        self, embedder: Embedder, texts: Sequence[Text], codes: dict[bytes, bytes], moment: str
    ) -> None:
        """Let the others have codes, as `keep` does with vectors."""
        self._keep(_codes_name(embedder), texts, codes, moment)

    def keep(
        self,
        model: str,
        texts: Sequence[Text],
        vectors: dict[bytes, NDArray[np.int8]],
        moment: str,
    ) -> None:
        """Let the others have vectors of texts that were read since a moment. The store refuses
        those of a conversation that was deleted or redacted since.
        """
        self._keep(model, texts, {name: it.tobytes() for name, it in vectors.items()}, moment)

    def _keep(
        self, model: str, texts: Sequence[Text], made: dict[bytes, bytes], moment: str
    ) -> None:
        if not moment:
            return
        by_log: dict[str, dict[bytes, bytes]] = {}
        for text in texts:
            if text.hash in made:
                by_log.setdefault(text.conversation_id, {})[text.hash] = made[text.hash]
        for name, bodies in by_log.items():
            with suppress(StorageUnavailable):
                self._work.keep_vectors(model, name, bodies, moment)


def _codes_name(embedder: Embedder) -> str:
    """Return the name of a model's codes in the store: servers that know none never ask for it."""
    return f"{embedder.identity} words {embedder.words_identity}"
