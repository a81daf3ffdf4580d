"""Embeds what the index has and the file of vectors lacks: behind the appends, never on their way.

What is to do is told by the index alone: how far each conversation is indexed, against how far it was embedded. While the server
runs, the update log says which conversations changed. So a restart, a lost file and an import are all the same work.
"""

import threading
import time
from dataclasses import dataclass

import numpy as np
import structlog

from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.marks import marks_of
from recollect_server.domain.message import Message
from recollect_server.domain.message_ids import message_id
from recollect_server.inference.embedder import CannotEmbed, Embedder, quantised
from recollect_server.inference.weights import NoWeights, WrongWeights
from recollect_server.inference.workers import Workers
from recollect_server.services.recall.meaning import Copy, Meaning, Waiting
from recollect_server.services.space.space import Space
from recollect_server.services.working_context import read_found
from recollect_server.storage.index.index import Index
from recollect_server.storage.vectors.file import VectorsDamaged, VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, EmbeddedText, VectorStore, hash_of

log = structlog.get_logger("recollect.meaning")

_TEXTS = 128  # in one step: so that a batch has texts of like lengths, and a stop need not wait long
_CALM = 0.3  # seconds without an append, after which it works at full speed


def text_of(message: Message) -> str:
    """What is embedded of a message: who speaks, where a name says so, and what. Nothing of one without words."""
    if not message.content.strip():
        return ""
    return f"{message.sender}: {message.content}" if message.sender else message.content


@dataclass(slots=True)
class _Waiting:
    """A conversation that is to be looked at."""

    after: int
    """The line behind which."""
    since: float
    """Since when, on the monotonic clock."""


@dataclass(frozen=True, slots=True)
class _Text:
    """A text that is to be embedded, and where it stands."""

    conversation_id: str
    number: int
    line: int
    time: int
    marks: int
    text: str
    hash: bytes


class Embedding:
    """The work. One thread calls it."""

    def __init__(self, space: Space, meaning: Meaning, workers: Workers) -> None:
        self._space = space
        self._meaning = meaning
        self._workers = workers
        self._index: Index | None = None  # the one that `_waiting` is of
        self._model = 0
        self._cursor = 0
        self._waiting: dict[str, _Waiting] = {}
        self._said = ""
        self._stopping = threading.Event()
        self._puts, self._put_at = -1, -_CALM

    def stop(self) -> None:
        """Lets the part under way end soon."""
        self._stopping.set()

    def tend(self) -> bool:
        """Does a part of what is to do. False if nothing is left, or it cannot be done now. Raises nothing."""
        try:
            store, index = self._meaning.store(), self._space.index
            embedder = self._meaning.wanted()
            model = store.model(embedder.identity, embedder.folder)
            if self._meaning.copy is None or self._meaning.copy.index is not index:
                self._make_copy(store, index, model, embedder)
            self._look(store, index, model)
            self._tell()
            worked = self._step(store, index, model, embedder)
            if not self._waiting:
                self._complete(store, index, model, embedder)
        except (NoWeights, WrongWeights, ImportError, CannotEmbed, VectorsUnavailable) as error:
            self._failed(str(error))
            return isinstance(error, VectorsDamaged) and self._start_over()
        except (IndexUnavailable, StorageUnavailable) as error:
            self._failed(str(error))
            return False
        self._said = self._meaning.failure = ""
        self._tell()
        return worked

    @property
    def well(self) -> bool:
        """Whether the last try met no failure."""
        return not self._said

    def _failed(self, reason: str) -> None:
        if reason != self._said:
            log.warning("meaning_unavailable", reason=reason)
        self._said = self._meaning.reason = reason
        if self._meaning.copy is not None:
            self._meaning.failure = reason

    def _start_over(self) -> bool:
        """Lets everything be worked out anew. False if the file cannot be removed."""
        log.warning("vectors_made_anew", reason=self._said)
        self._index = None
        try:
            self._meaning.drop()
        except VectorsUnavailable as error:
            self._failed(str(error))
            return False
        return True

    def _make_copy(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> None:
        """Loads what searches read: of the model that was complete last, if that can still be had."""
        self._meaning.reason = "the vectors are being loaded"
        self._index = None
        served = store.served()
        if served is not None and served[0] != model:
            old = self._meaning.of_weights(served[1], served[2])
            if old is None:
                self._meaning.reason = (
                    "the vectors are worked out anew for another model, and the one before cannot be had any more"
                )
                return
            self._meaning.copy = self._meaning.load(store, served[0], old, index)
            return
        if served is None:
            store.serve(model)
        self._meaning.copy = self._meaning.load(store, model, embedder, index)

    def _complete(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> None:
        """Everything is embedded: if that was for another model than is served, it is served from now on."""
        copy = self._meaning.copy
        if copy is None or copy.model != model:
            self._meaning.copy = self._meaning.load(store, model, embedder, index)
            store.serve(model)
            log.info("model_changed", identity=embedder.identity)

    # What is to do ------------------------------------------------------------------------------------------------------

    def _look(self, store: VectorStore, index: Index, model: int) -> None:
        now = time.monotonic()
        if self._index is not index or self._model != model:
            self._cursor = index.last_cursor()
            done = store.progress(model, index.epoch)
            self._waiting = {
                name: _Waiting(done.get(name, 0), now)
                for name, (_, lines) in sorted(index.progress().items())
                if done.get(name, 0) != lines
            }
            self._index, self._model = index, model
            return
        changed, self._cursor = index.changed_after(self._cursor)
        for name in changed:
            if name not in self._waiting:
                self._waiting[name] = _Waiting(store.lines_of(model, name), now)

    def _tell(self) -> None:
        """Lets the searches say what they lack."""
        since = min((waiting.since for waiting in self._waiting.values()), default=None)
        self._meaning.waiting = None if since is None else Waiting(len(self._waiting), since)

    # The work -----------------------------------------------------------------------------------------------------------

    def _step(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> bool:
        texts: list[_Text] = []
        progress: dict[str, int] = {}
        ended: list[str] = []
        for name, waiting in self._waiting.items():
            if len(texts) >= _TEXTS:
                break
            found = self._texts_of(index, name, waiting.after, _TEXTS - len(texts))
            if found is None:
                ended.append(name)
                continue
            more, lines, whole = found
            texts += more
            progress[name] = lines
            if whole:
                ended.append(name)
        if not texts and not progress and not ended:
            return False
        known = store.vectors_of(model, {text.hash for text in texts})
        new = {text.hash: embedder.cut(text.text) for text in texts if text.hash not in known}
        pieces = [piece for cut in new.values() for piece in cut]
        vectors = quantised(self._workers.embed(embedder, pieces, self._yield)) if pieces else None
        start = 0
        for text_hash, cut in new.items():
            assert vectors is not None
            known[text_hash] = vectors[start : start + len(cut)]
            start += len(cut)
        places = [EmbeddedText(t.conversation_id, t.line, t.time, t.marks, t.hash, known[t.hash]) for t in texts]
        changed = store.add(model, places, progress)
        if (copy := self._meaning.copy) is not None and copy.model == model:
            numbers = {text.conversation_id: text.number for text in texts}
            for place, stood in changed:
                _show(copy, numbers[place.conversation_id], place, stood=stood)
        for name, lines in progress.items():
            self._waiting[name].after = lines
        for name in ended:
            del self._waiting[name]
        return True

    def _yield(self, worked: float) -> bool:
        """Lets appends go first: while there are some, a ninth of one thread's time is taken. Whether there are."""
        puts, now = self._space.index.puts(), time.monotonic()
        if puts != self._puts:
            self._puts, self._put_at = puts, now
        busy = now - self._put_at < _CALM
        if busy:
            self._stopping.wait(min(8 * worked, 5.0))
        return busy

    def _texts_of(self, index: Index, name: str, after: int, most: int) -> tuple[list[_Text], int, bool] | None:
        """The next texts of a conversation, up to which line they go, and whether that is its end. None if it is gone."""
        stored = index.find(name)
        if stored is None:
            return None
        after = after if after <= stored.lines else 0  # more was looked at than there is: it is another file
        places = index.places(stored.number, after + 1, stored.lines)
        whole = len(places) <= most
        messages = read_found(self._space, name, places[:most])
        if messages is None:
            return None
        texts = [
            _Text(name, stored.number, message.sequence, message.timestamp, marks_of(message), text, hash_of(text))
            for message in messages
            if (text := text_of(message))
        ]
        if whole and (notes := stored.conversation.abbreviation):
            texts.append(_Text(name, stored.number, ABBREVIATION, 0, 0, notes, hash_of(notes)))
        return texts, stored.lines if whole else places[most - 1][0], whole


def _show(copy: Copy, number: int, place: EmbeddedText, *, stood: bool) -> None:
    """Lets the searches see what was kept; `stood`: in place of another text."""
    matrix = copy.abbreviations if place.line == ABBREVIATION else copy.messages
    identity = message_id(number, place.line)
    if stood:
        matrix.remove(number, identity)
    count = len(place.vectors)
    matrix.add(np.full(count, identity), np.full(count, place.time), np.full(count, place.marks), place.vectors)
