"""Embeds what the index has and the file of vectors lacks: behind the appends, never on their way.

What is to do is told by the index alone: how far each conversation is indexed, against how far it
was embedded. While the server runs, the update log says which conversations changed. So a restart,
a lost file and an import are all the same work.
"""

import threading
import time
from dataclasses import dataclass

import numpy as np
import structlog

from recollect_server.domain.embedding import marks_of
from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.ids import message_id
from recollect_server.domain.message import Message
from recollect_server.inference.embedder import CannotEmbed, Embedder, Piece, quantised
from recollect_server.inference.weights import NoWeights, WrongWeights
from recollect_server.inference.workers import Workers
from recollect_server.services.recall.meaning import Copy, Meaning, Waiting
from recollect_server.services.space.space import Space
from recollect_server.services.working_context import read_found
from recollect_server.storage.index.index import Index
from recollect_server.storage.vectors.file import VectorsDamaged, VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, EmbeddedText, VectorStore, hash_of

log = structlog.get_logger("recollect.meaning")

_TEXTS = 128  # texts of one step, so that a batch has similar lengths
_BYTES = 128 << 10  # bytes of their lines, so that newer messages wait for seconds at most
_LONG = 16 << 10  # bytes of a text that is embedded a slice at a time, behind all shorter ones
# pieces of a long text between two looks for newer messages: at rest, and while appends come
_SLICE, _LITTLE_SLICE = 16, 2
_CALM = 0.3  # seconds without an append, after which it works at full speed


def text_of(message: Message) -> str:
    """Return the text of a message to embed: the speaker, where a name says so, and the words;
    empty without words.
    """
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


class _Stopped(Exception):
    """The server stops: what was embedded is kept, the rest is left to the next start."""


@dataclass(slots=True)
class _Long:
    """A long text that is embedded a slice at a time."""

    line: int
    since: float
    looked_at: int
    """Up to which line its conversation was looked at by then."""
    pieces: list[Piece] | None = None
    """Set while it is at work."""
    done: int = 0
    """Number of pieces that are kept."""


class Embedding:
    """Embeds what is missing. One thread calls it.

    A long text is put aside and embedded a slice at a time, each of which is kept. Meanwhile
    everything behind it is embedded; its conversation counts as embedded up to the line before it.
    """

    def __init__(
        self, space: Space, meaning: Meaning, workers: Workers, stopping: threading.Event
    ) -> None:
        """End the part under way soon once `stopping` is set."""
        self._space = space
        self._meaning = meaning
        self._workers = workers
        self._index: Index | None = None  # the one that `_waiting` is of
        self._model = 0
        self._cursor = 0
        self._waiting: dict[str, _Waiting] = {}
        self._long: dict[str, list[_Long]] = {}  # by conversation, ascending by line
        self._failure = ""
        self._stopping = stopping
        self._puts, self._put_at = -1, -_CALM

    def mark(self) -> tuple[Index, int]:
        """Return a value that changes with whatever there may be to embed."""
        index = self._space.index
        return index, index.taken()[1]

    def tend(self) -> bool:
        """Embed one part of the missing texts. Return False if nothing is missing, or nothing can
        be done now. Never raises.
        """
        try:
            store, index = self._meaning.store(), self._space.index
            embedder = self._meaning.wanted()
            model = store.model(embedder.identity, embedder.folder)
            if self._meaning.copy is None or self._meaning.copy.index is not index:
                self._make_copy(store, index, model, embedder)
            self._look(store, index, model)
            self._tell()
            worked = self._step(store, index, model, embedder)
            worked = self._slice(store, index, model, embedder) or worked
            if not self._waiting and not self._long:
                self._complete(store, index, model, embedder)
        except _Stopped:
            return False
        except (NoWeights, WrongWeights, ImportError, CannotEmbed, VectorsUnavailable) as error:
            self._failed(str(error))
            return isinstance(error, VectorsDamaged) and self._start_over()
        except (IndexUnavailable, StorageUnavailable) as error:
            self._failed(str(error))
            return False
        self._failure = self._meaning.failure = ""
        self._tell()
        return worked

    @property
    def well(self) -> bool:
        """Return whether the last try met no failure."""
        return not self._failure

    def _failed(self, reason: str) -> None:
        if reason != self._failure:
            log.warning("meaning_unavailable", reason=reason)
        self._failure = self._meaning.reason = reason
        if self._meaning.copy is not None:
            self._meaning.failure = reason

    def _start_over(self) -> bool:
        """Remove the file of vectors, so that everything is embedded again. Return False if that
        failed.
        """
        log.warning("vectors_made_anew", reason=self._failure)
        self._index = None
        try:
            self._meaning.drop()
        except VectorsUnavailable as error:
            self._failed(str(error))
            return False
        return True

    def _make_copy(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> None:
        """Load the copy that searches read. While another model's vectors are incomplete, load
        those of the model that was complete last, if its weights are available.
        """
        self._meaning.reason = "the vectors are being loaded"
        self._index = None
        served = store.served()
        if served is not None and served[0] != model:
            old = self._meaning.of_weights(served[1], served[2])
            if old is None:
                self._meaning.reason = "the vectors are computed anew for another model, and the one before is not available"
                return
            self._meaning.copy = self._meaning.load(store, served[0], old, index)
            return
        if served is None:
            store.serve(model)
        self._meaning.copy = self._meaning.load(store, model, embedder, index)

    def _complete(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> None:
        """Serve the present model from now on, because everything is embedded with it."""
        copy = self._meaning.copy
        if copy is None or copy.model != model:
            self._meaning.copy = self._meaning.load(store, model, embedder, index)
            store.serve(model)
            log.info("model_changed", identity=embedder.identity)

    # What is to do --------------------------------------------------------------------------------

    def _look(self, store: VectorStore, index: Index, model: int) -> None:
        now = time.monotonic()
        if self._index is not index or self._model != model:
            self._cursor = index.log.last_cursor()
            self._long = {}
            done = store.progress(model, index.log.epoch)
            self._waiting = {
                name: _Waiting(done.get(name, 0), now)
                for name, (_, lines) in sorted(index.conversations.progress().items())
                if done.get(name, 0) != lines
            }
            self._index, self._model = index, model
            return
        changed, self._cursor = index.log.changed_after(self._cursor)
        for name in changed:
            if name not in self._waiting:
                long = self._long.get(name)
                self._waiting[name] = _Waiting(
                    long[0].looked_at if long else store.lines_of(model, name), now
                )

    def _tell(self) -> None:
        """Report to searches how many conversations wait to be embedded, and since when."""
        starts = [waiting.since for waiting in self._waiting.values()] + [
            it.since for long in self._long.values() for it in long
        ]
        self._meaning.waiting = (
            Waiting(len({*self._waiting, *self._long}), min(starts)) if starts else None
        )

    # The work -------------------------------------------------------------------------------------

    def _step(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> bool:
        texts: list[_Text] = []
        progress: dict[str, int] = {}
        ended: list[str] = []
        after: dict[str, int] = {}
        size = 0
        for name, waiting in self._waiting.items():
            if len(texts) >= _TEXTS or size >= _BYTES:
                break
            batch = self._texts_of(index, name, waiting.after, _TEXTS - len(texts), _BYTES - size)
            if batch is None:
                ended.append(name)
                self._long.pop(name, None)
                continue
            more, lines, whole, read = batch
            size += read
            texts += self._put_aside(store, model, name, more, waiting)
            after[name] = lines
            progress[name] = self._whole_until(name, lines)
            if whole:
                ended.append(name)
        if not texts and not progress and not ended:
            return False
        vectors_by_hash = store.vectors_of(model, {text.hash for text in texts})
        new = {
            text.hash: embedder.cut(text.text) for text in texts if text.hash not in vectors_by_hash
        }
        pieces = [piece for cut in new.values() for piece in cut]
        vectors = quantised(self._workers.embed(embedder, pieces, self._yield)) if pieces else None
        start = 0
        for text_hash, cut in new.items():
            assert vectors is not None
            vectors_by_hash[text_hash] = vectors[start : start + len(cut)]
            start += len(cut)
        places = [
            EmbeddedText(
                t.conversation_id, t.line, t.time, t.marks, t.hash, vectors_by_hash[t.hash]
            )
            for t in texts
        ]
        changed = store.add(model, places, progress)
        if (copy := self._meaning.copy) is not None and copy.model == model:
            numbers = {text.conversation_id: text.number for text in texts}
            for place, stood in changed:
                _show(copy, numbers[place.conversation_id], place, stood=stood)
        for name, lines in after.items():
            self._waiting[name].after = lines
            for long in self._long.get(name, ()):
                long.looked_at = lines
        for name in ended:
            del self._waiting[name]
        return True

    def _put_aside(
        self, store: VectorStore, model: int, name: str, texts: list[_Text], waiting: _Waiting
    ) -> list[_Text]:
        """Put long texts aside whose vectors are not known. Return the others."""
        long = [it for it in texts if it.line != ABBREVIATION and len(it.text.encode()) > _LONG]
        embedded = store.vectors_of(model, {it.hash for it in long}) if long else {}
        aside = [it for it in long if it.hash not in embedded]
        for text in aside:
            waiting_texts = self._long.setdefault(name, [])
            if all(it.line != text.line for it in waiting_texts):
                waiting_texts.append(_Long(text.line, waiting.since, text.line))
        return [it for it in texts if it not in aside]

    def _whole_until(self, name: str, line: int) -> int:
        """Return the line up to which a conversation is embedded, of those up to `line`: that
        before its first long text.
        """
        first = min((it.line for it in self._long.get(name, ())), default=line + 1)
        return min(line, first - 1)

    def _slice(self, store: VectorStore, index: Index, model: int, embedder: Embedder) -> bool:
        """Embed the next pieces of the long text that was put aside first. False if there is
        none.
        """
        name = next(iter(self._long), None)
        if name is None:
            return False
        long = self._long[name][0]
        text = self._text_at(index, name, long.line)
        if text is None:  # it is gone, or has no words any more
            self._end_long(store, index, model, name, [])
            return True
        if long.pieces is None:
            long.pieces = embedder.cut(text.text)
            long.done = min(len(store.parts_of(model, text.hash)), len(long.pieces))
        if long.done < len(long.pieces):
            count = _LITTLE_SLICE if self._yield(0.0) else _SLICE
            part = long.pieces[long.done : long.done + count]
            vectors = quantised(self._workers.embed(embedder, part, self._yield))
            store.add_parts(model, name, text.hash, long.done, vectors)
            long.done += len(part)
        if long.done == len(long.pieces):
            vectors = store.parts_of(model, text.hash)
            places = (
                [EmbeddedText(name, text.line, text.time, text.marks, text.hash, vectors)]
                if len(vectors)
                else []
            )
            self._end_long(store, index, model, name, places)
        return True

    def _end_long(
        self, store: VectorStore, index: Index, model: int, name: str, places: list[EmbeddedText]
    ) -> None:
        """Keep a long text whose pieces are all there, or forget one that is gone."""
        rest = self._long[name][1:]
        if rest:
            self._long[name] = rest
        else:
            del self._long[name]
        stored = index.conversations.find(name)
        if stored is None:
            return
        looked_at = self._waiting[name].after if name in self._waiting else stored.lines
        changed = store.add(model, places, {name: self._whole_until(name, looked_at)})
        if (copy := self._meaning.copy) is not None and copy.model == model:
            for place, stood in changed:
                _show(copy, stored.number, place, stood=stood)

    def _yield(self, worked: float) -> bool:
        """Pause while appends are under way, and return whether there are any. Embedding then takes
        at most a ninth of one thread's time.

        Raises _Stopped.
        """
        end = time.monotonic() + min(8 * worked, 5.0)
        while (
            (busy := self._is_busy())
            and (left := end - time.monotonic()) > 0
            and not self._stopping.is_set()
        ):
            self._stopping.wait(min(left, _CALM))
        if self._stopping.is_set():
            raise _Stopped
        return busy

    def _is_busy(self) -> bool:
        """Return whether something was appended just now."""
        puts, now = self._space.index.taken()[1], time.monotonic()
        if puts != self._puts:
            self._puts, self._put_at = puts, now
        return now - self._put_at < _CALM

    def _text_at(self, index: Index, name: str, line: int) -> _Text | None:
        """Return the text of a line; None if it is gone."""
        stored = index.conversations.find(name)
        places = index.messages.of_lines(stored.number, line, line) if stored else []
        messages = read_found(self._space, name, places)
        if stored is None or not messages or not (text := text_of(messages[0])):
            return None
        return _Text(
            name,
            stored.number,
            line,
            messages[0].timestamp,
            marks_of(messages[0]),
            text,
            hash_of(text),
        )

    def _texts_of(
        self, index: Index, name: str, after: int, most: int, most_bytes: int
    ) -> tuple[list[_Text], int, bool, int] | None:
        """Return the next texts of a conversation, one at least; up to which line they go, whether
        that is its end, and the bytes of their lines. None if the conversation is gone.
        """
        stored = index.conversations.find(name)
        if stored is None:
            return None
        # more was looked at than there is: it is another file
        after = after if after <= stored.lines else 0
        places = index.messages.of_lines(stored.number, after + 1, stored.lines)
        sizes = np.cumsum([length for _, _, length in places[:most]])
        count = max(1, int(np.searchsorted(sizes, most_bytes, "right")))
        whole = len(places) <= count
        chosen = places[:count]
        messages = read_found(self._space, name, chosen)
        if messages is None:
            return None
        texts = [
            _Text(
                name,
                stored.number,
                message.sequence,
                message.timestamp,
                marks_of(message),
                text,
                hash_of(text),
            )
            for message in messages
            if (text := text_of(message))
        ]
        if whole and (notes := stored.conversation.abbreviation):
            texts.append(_Text(name, stored.number, ABBREVIATION, 0, 0, notes, hash_of(notes)))
        size = sum(length for _, _, length in chosen)
        return texts, stored.lines if whole else places[count - 1][0], whole, size


def _show(copy: Copy, number: int, place: EmbeddedText, *, stood: bool) -> None:
    """Show an embedded text to searches; `stood`: it replaces another text at its place."""
    matrix = copy.abbreviations if place.line == ABBREVIATION else copy.messages
    identity = message_id(number, place.line)
    if stood:
        matrix.remove(number, identity)
    count = len(place.vectors)
    matrix.add(
        np.full(count, identity),
        np.full(count, place.time),
        np.full(count, place.marks),
        place.vectors,
    )
