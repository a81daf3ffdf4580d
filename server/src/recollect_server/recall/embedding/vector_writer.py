"""Writing of vectors: texts are embedded with the models that a plan gives them to, their vectors
are kept in the file, and searches see them.

Processes over one store share vectors: the one that has the lease of a model embeds, and keeps the
vectors in the store; the others take them from there. If it ends, another one has the lease within
seconds.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.errors import StorageUnavailable
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.log.store import Purpose
from recollect_server.kernel.space.following import SharedWork
from recollect_server.recall.embedding.pace import Pace
from recollect_server.recall.embedding.texts import Plan, Planner, Text
from recollect_server.recall.meaning import Copy, Meaning
from recollect_server.recall.model.embedder import (
    OVERLAP,
    CannotEmbed,
    EmbeddedPiece,
    Embedder,
    Piece,
    quantised,
)
from recollect_server.recall.model.marks import DIMENSIONS
from recollect_server.recall.model.word_codes import joined
from recollect_server.recall.model.workers import Workers
from recollect_server.recall.vectors.matrix import Matrix
from recollect_server.recall.vectors.store import ABBREVIATION, EmbeddedText, VectorStore

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


# Pieces of a text whose words have codes, some 3,500 words; and characters that have as many.
_MOST_CODED, _MOST_CUT = 16, 32 << 10


class PlanChanged(Exception):
    """A model is not there any more, or another one is needed: the next turn has another plan."""


class EmbeddedElsewhere(Exception):
    """Another process embeds the texts: their vectors are taken from the store in a moment."""


class VectorWriter:
    """Writer of the vectors of a space. One thread calls it. What computes vectors raises
    CannotEmbed for the main model, and PlanChanged for that of other languages.
    """

    def __init__(
        self,
        meaning: Meaning,
        workers: Workers,
        planner: Planner,
        pace: Pace,
        shared: SharedVectors,
    ) -> None:
        self._meaning = meaning
        self._workers = workers
        self._planner = planner
        self._pace = pace
        self._shared = shared
        self.has_embedded = False
        """True if a model was asked in this turn."""
        self.moment = 0
        """Moment of the file at which this turn began: its texts are read behind that."""

    def begin(self, moment: int) -> None:
        """Begin a turn at a moment of the file of vectors."""
        self.has_embedded, self.moment = False, moment

    def keep(self, plan: Plan, texts: list[Text], progress: dict[str, int]) -> None:
        """Embed texts with the models that they are given to, and keep and show their vectors."""
        models = {(text.conversation_id, text.line): plan.models_of(text) for text in texts}
        for model, embedder in plan.embedders():
            own, others = (
                [it for it in texts if (model in models[it.conversation_id, it.line]) is inside]
                for inside in (True, False)
            )
            places = self._embedded(plan, model, embedder, own)
            if plan.beside is not None:
                self._remove(plan.store, model, others)
            # Progress last, once each text has the vectors of its models and no others.
            self.add(
                plan, model, places, texts, progress if model == plan.model else {}, self.moment
            )

    def add(
        self,
        plan: Plan,
        model: int,
        places: list[EmbeddedText],
        texts: list[Text],
        progress: dict[str, int],
        read_at: int,
    ) -> None:
        """Keep the vectors of some of the texts, and show them to searches; not of those that went
        since the moment at which they were read.
        """
        changed = plan.store.add(model, places, progress, read_at)
        copy = self._meaning.copy.of_model(model) if self._meaning.copy else None
        if copy is not None:
            numbers = {text.conversation_id: text.number for text in texts}
            for place, stood in changed:
                number = numbers[place.conversation_id]
                _show(copy, number, place, stood=stood)
                if plan.store.is_gone(place, read_at):  # since it was kept
                    _hide(copy, number, place.line)

    def _remove(self, store: VectorStore, model: int, texts: list[Text]) -> None:
        """Remove the vectors of texts that another model has now."""
        copy = self._meaning.copy.of_model(model) if self._meaning.copy else None
        for name, number in {(text.conversation_id, text.number) for text in texts}:
            lines = [text.line for text in texts if text.conversation_id == name]
            for line in store.remove_places(model, name, lines):
                if copy is not None:
                    _hide(copy, number, line)

    def cut(self, plan: Plan, embedder: Embedder, text: str) -> list[Piece]:
        """Split a text into pieces."""
        with self._doing_without(plan, embedder):
            return embedder.cut(text)

    def vectors(self, plan: Plan, embedder: Embedder, pieces: list[Piece]) -> NDArray[np.int8]:
        return _vectors(self._run(plan, embedder, pieces))

    def codes(self, plan: Plan, embedder: Embedder, texts: list[Text]) -> dict[bytes, bytes]:
        """Return the codes of the word pieces of texts that have vectors of a model, by hash.
        Raises EmbeddedElsewhere.
        """
        moment = self._shared.moment
        codes = self._shared.take_codes(embedder, texts)
        missing = [it for it in texts if it.hash not in codes]
        if missing and not self._shared.may_embed(embedder.identity):
            raise EmbeddedElsewhere
        cut = [self.cut(plan, embedder, it.text[:_MOST_CUT])[:_MOST_CODED] for it in missing]
        embedded = self._run(plan, embedder, [piece for pieces in cut for piece in pieces])
        made = zip(missing, _divided(embedded, cut), strict=True)
        new = {text.hash: _codes(part) for text, part in made}
        self._shared.keep_codes(embedder, missing, new, moment)
        return codes | new

    def _run(self, plan: Plan, embedder: Embedder, pieces: list[Piece]) -> list[EmbeddedPiece]:
        self.has_embedded = True
        with self._doing_without(plan, embedder):
            return self._workers.embed(embedder, pieces, self._pace.rest)

    @contextmanager
    def _doing_without(self, plan: Plan, embedder: Embedder) -> Iterator[None]:
        """Do without the model of other languages if it fails: raise PlanChanged."""
        try:
            yield
        except CannotEmbed as error:
            if embedder is not plan.beside:
                raise
            self._planner.do_without(embedder.profile.name, error)
            raise PlanChanged from error

    def _embedded(
        self, plan: Plan, model: int, embedder: Embedder, texts: list[Text]
    ) -> list[EmbeddedText]:
        """Return texts with their vectors, but for those that stand there already."""
        store = plan.store
        lines: dict[str, list[int]] = {}
        for text in texts:
            lines.setdefault(text.conversation_id, []).append(text.line)
        placed = {
            name: store.placed(model, name, min(own), max(own)) for name, own in lines.items()
        }
        texts = [it for it in texts if placed[it.conversation_id].get(it.line) != it.hash]
        vectors_by_hash = store.vectors_of(model, {text.hash for text in texts})
        missing = [it for it in texts if it.hash not in vectors_by_hash]
        vectors_by_hash |= self._shared.take(embedder.identity, missing)
        taken = [it for it in missing if it.hash in vectors_by_hash]
        missing = [it for it in missing if it.hash not in vectors_by_hash]
        if missing and not self._shared.may_embed(embedder.identity):
            raise EmbeddedElsewhere
        codes_by_hash: dict[bytes, bytes] = {}
        if self._meaning.compares_words(embedder):
            codes_by_hash = self._shared.take_codes(embedder, taken)
        new = {text.hash: self.cut(plan, embedder, text.text) for text in missing}
        pieces = [piece for cut in new.values() for piece in cut]
        embedded = self._run(plan, embedder, pieces) if pieces else []
        for text_hash, part in zip(new, _divided(embedded, [*new.values()]), strict=True):
            vectors_by_hash[text_hash] = _vectors(part)
            if self._meaning.compares_words(embedder):
                codes_by_hash[text_hash] = _codes(part[:_MOST_CODED])
        # Codes first: a process that takes the vectors looks for codes once.
        self._shared.keep_codes(embedder, missing, codes_by_hash, self._shared.moment)
        self._shared.keep(
            embedder.identity,
            missing,
            {name: vectors_by_hash[name] for name in new},
            self._shared.moment,
        )
        return [
            EmbeddedText(
                *(t.conversation_id, t.line, t.time, t.marks, t.hash),
                vectors_by_hash[t.hash],
                codes_by_hash.get(t.hash),
            )
            for t in texts
        ]


def _divided(
    embedded: list[EmbeddedPiece], cut: list[list[Piece]]
) -> Iterator[list[EmbeddedPiece]]:
    """Yield what the model says of the pieces of each text."""
    start = 0
    for pieces in cut:
        yield embedded[start : start + len(pieces)]
        start += len(pieces)


def _vectors(embedded: list[EmbeddedPiece]) -> NDArray[np.int8]:
    return quantised(np.array([it.vector for it in embedded], np.float32).reshape(-1, DIMENSIONS))


def _codes(embedded: list[EmbeddedPiece]) -> bytes:
    return joined([it.codes for it in embedded], OVERLAP).tobytes()


def _show(copy: Copy, number: int, place: EmbeddedText, *, stood: bool) -> None:
    """Show an embedded text to searches; `stood`: it replaces another text at its place."""
    if stood:
        _hide(copy, number, place.line)
    count = len(place.vectors)
    _matrix(copy, place.line).add(
        np.full(count, message_id(number, place.line)),
        np.full(count, place.time),
        np.full(count, place.marks),
        place.vectors,
    )


def _hide(copy: Copy, number: int, line: int) -> None:
    """Take the text of a line out of what searches see."""
    _matrix(copy, line).remove_ids(message_id(number, line))


def _matrix(copy: Copy, line: int) -> Matrix:
    return copy.abbreviations if line == ABBREVIATION else copy.messages
