"""Embeds what the index has and the file of vectors lacks: behind the appends, never on their way.

What is to do is told by the index alone: how far each conversation is indexed, against how far it
was embedded. While the server runs, the update log says which conversations changed. So a restart,
a lost file and an import are all the same work.

The work is done in short turns, so that nothing waits long behind something large. Of two turns,
one goes on where embedding stopped, oldest first, and one takes the newest messages, ahead of all
others. A very long text has slices of its own between the turns.

`models` tells which model a text is given to. A change of the models is work as after a restart:
every text is looked at, and only what has no vectors of its model is embedded.
"""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np
import structlog
from numpy.typing import NDArray

from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.ids import message_id
from recollect_server.inference.embedder import CannotEmbed, Embedder, Piece, quantised
from recollect_server.inference.weights import NoWeights, WrongWeights
from recollect_server.inference.workers import Workers
from recollect_server.services.recall.embedding_pace import Pace, Stopped
from recollect_server.services.recall.embedding_plan import Plan, Planner
from recollect_server.services.recall.embedding_texts import MAX_TEXTS, Text, TextReader, parts_of
from recollect_server.services.recall.meaning import Copy, Meaning, Waiting
from recollect_server.services.recall.models import Census
from recollect_server.services.recall.shared_vectors import SharedVectors
from recollect_server.services.space.space import Space
from recollect_server.storage.index.index import Index
from recollect_server.storage.vectors.file import VectorsDamaged, VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, EmbeddedText, VectorStore

log = structlog.get_logger("recollect.meaning")

_LONG = 16 << 10  # bytes of a text that is embedded a slice at a time, behind all shorter ones
# pieces of a long text between two looks for newer messages: at rest, and while others wait
_SLICE, _LITTLE_SLICE = 16, 2
_LONG_AT_ONCE = 4  # long texts that are at work in turns: each is in memory
_AHEAD = 8  # conversations that a turn of the newest messages looks at
_PACE = "pace"  # fact in the file of vectors


@dataclass(slots=True)
class _Waiting:
    """A conversation that is to be looked at."""

    after: int
    """The line behind which."""
    since: float
    """Since when, on the monotonic clock."""
    counted: int = 0
    """Its last line up to which the census counted its texts."""
    ahead: int = 0
    """Its last line up to which the newest were embedded before their turn."""


class _Changed(Exception):
    """A model is not there any more, or another one is needed: the next turn has another plan."""


class _Elsewhere(Exception):
    """Another process embeds the texts: their vectors are taken from the store in a moment."""


@dataclass(slots=True)
class _Long:
    """A long text that is embedded a slice at a time."""

    line: int
    since: float
    looked_at: int
    """Up to which line its conversation was looked at by then."""
    text: Text | None = None
    """Set, with what follows, while it is at work."""
    model: int = 0
    rest: deque[str] = field(default_factory=deque)
    """Parts of the text that are not cut into pieces yet."""
    pieces: deque[Piece] = field(default_factory=deque)
    """Pieces that are not embedded yet."""
    cut: int = 0
    """Number of pieces that were cut."""
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
        self._plan_name = ""  # likewise the plan
        self._model = 0
        self._cursor = 0
        self._waiting: dict[str, _Waiting] = {}  # those that changed last are last
        self._long: dict[str, list[_Long]] = {}  # by conversation, ascending by line
        self._planner = Planner(meaning)
        self._texts = TextReader(space)
        self._shared = SharedVectors(space)
        self._is_elsewhere = False
        self._newest_first = False
        self._pace = Pace(space, stopping)
        self._has_embedded = False  # in this turn
        self._failure = ""

    def mark(self) -> tuple[Index, int]:
        """Return a value that changes with whatever there may be to embed."""
        index = self._space.index
        return index, index.taken()[1]

    def tend(self) -> bool:
        """Embed one part of the missing texts. Return False if nothing is missing, or nothing can
        be done now. Never raises.
        """
        try:
            plan = self._planner.plan(self._space.index)
            if self._index is not plan.index:
                lengths = plan.index.conversations.progress()
                plan.store.forget_strays(
                    plan.model, plan.epoch, {name: lines for name, (_, lines) in lengths.items()}
                )
            copy = self._meaning.copy
            if copy is None or copy.index is not plan.index or not self._is_current(copy, plan):
                self._make_copy(plan)
            self._look(plan)
            self._tell()
            if self._waiting or self._long:
                self._shared.begin()
            began, self._has_embedded = time.monotonic(), False
            self._is_elsewhere = False
            size = self._step(plan)
            if size and self._has_embedded:
                bytes_per_second = self._pace.adapt(size, time.monotonic() - began)
                if self._waiting:
                    plan.store.note(_PACE, f"{bytes_per_second:.0f}")
            worked = bool(size)
            worked = self._slice(plan) or worked
            if not self._waiting and not self._long:
                self._complete(plan)
            self._meaning.whiten(self._meaning.copy, settled=not self._waiting and not self._long)
        except Stopped:
            return False
        except _Changed:
            return True
        except _Elsewhere:
            self._is_elsewhere, worked = True, False
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
    def is_complete(self) -> bool:
        """Return whether the last look found everything embedded."""
        return not self._waiting and not self._long and not self._failure

    @property
    def is_elsewhere(self) -> bool:
        """Return whether another process embeds what is missing."""
        return self._is_elsewhere

    @property
    def well(self) -> bool:
        """Return whether the last try met no failure."""
        return not self._failure

    @property
    def failure(self) -> str:
        """Reason of the last try's failure; empty if it met none."""
        return self._failure

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

    # Models ---------------------------------------------------------------------------------------

    def _is_current(self, copy: Copy, plan: Plan) -> bool:
        """Return whether searches read the vectors of the plan's model of other languages."""
        beside = None if copy.beside is None else copy.beside.model
        return beside == plan.beside_model

    def _make_copy(self, plan: Plan) -> None:
        """Load the copy that searches read. While another model's vectors are incomplete, load
        those of the model that was complete last, if its weights are available.
        """
        store, index = plan.store, plan.index
        if self._meaning.copy is None:
            self._meaning.reason = "the vectors are being loaded"
        self._index = None
        beside = None
        if plan.beside is not None and plan.beside_model is not None:
            store.accompany(plan.beside_model)
            beside = self._meaning.load(store, plan.beside_model, plan.beside, index)
        served = store.served()
        if served is not None and served[0] != plan.model:
            old = self._meaning.of_weights(served[1], served[2])
            if old is None:
                self._meaning.reason = "the vectors are computed anew for another model, and the one before is not available"
                return
            copy = self._meaning.load(store, served[0], old, index)
        else:
            if served is None:
                store.serve(plan.model, plan.beside_model)
            copy = self._meaning.load(store, plan.model, plan.main, index)
        self._meaning.whiten(copy)
        self._meaning.copy = replace(copy, beside=beside)

    def _complete(self, plan: Plan) -> None:
        """Serve the present models from now on, because everything is embedded with them."""
        store, copy = plan.store, self._meaning.copy
        if copy is None or copy.model != plan.model:
            loaded = self._meaning.load(store, plan.model, plan.main, plan.index)
            beside = copy.beside if copy is not None else None
            if beside is None and plan.beside is not None and plan.beside_model is not None:
                beside = self._meaning.load(store, plan.beside_model, plan.beside, plan.index)
            self._meaning.whiten(loaded)
            self._meaning.copy = replace(loaded, beside=beside)
            store.serve(plan.model, plan.beside_model)
            log.info("model_changed", identity=plan.main.identity)
        elif plan.name != "lack" and store.has_others(plan.model, plan.beside_model):
            store.serve(plan.model, plan.beside_model)

    # What is to do --------------------------------------------------------------------------------

    def _look(self, plan: Plan) -> None:
        now = time.monotonic()
        store, index, model = plan.store, plan.index, plan.model
        if self._index is not index or self._model != model or self._plan_name != plan.name:
            self._cursor = index.log.last_cursor()
            self._long = {}
            done = store.progress(model, plan.epoch)
            if not any(done.values()) and self._planner.census is not None:
                self._planner.census = Census()  # all texts are counted again
            self._waiting = {
                name: _Waiting(done.get(name, 0), now)
                for name, (_, lines) in sorted(index.conversations.progress().items())
                if done.get(name, 0) != lines
            }
            self._index, self._model, self._plan_name = index, model, plan.name
            return
        changed, self._cursor = index.log.changed_after(self._cursor)
        for name in changed:
            waiting = self._waiting.pop(name, None)
            if waiting is None:
                long = self._long.get(name)
                after = long[0].looked_at if long else store.lines_of(model, name)
                waiting = _Waiting(after, now)
            self._waiting[name] = waiting

    def _tell(self) -> None:
        """Report to searches how many conversations wait to be embedded, and since when."""
        starts = [waiting.since for waiting in self._waiting.values()] + [
            it.since for long in self._long.values() for it in long
        ]
        self._meaning.waiting = (
            Waiting(len({*self._waiting, *self._long}), min(starts)) if starts else None
        )

    # The work -------------------------------------------------------------------------------------

    def _step(self, plan: Plan) -> int:
        """Embed the texts of one turn. Return the bytes of their lines, 1 at least; 0 if nothing
        waits.
        """
        self._newest_first = not self._newest_first
        if self._newest_first:
            return self._newest(plan) or self._oldest(plan)
        return self._oldest(plan) or self._newest(plan)

    def _oldest(self, plan: Plan) -> int:
        """Go on where embedding stopped."""
        return self._take(plan, self._waiting)

    def _newest(self, plan: Plan) -> int:
        """Embed what was written last: the conversations that changed last, to their ends, and of
        one with much before that only the newest messages.
        """
        name = next(reversed(self._waiting), None)
        if name is None:
            return 0
        for name in [*islice(reversed(self._waiting), _AHEAD)]:
            waiting = self._waiting[name]
            part = self._texts.newest(
                plan.index, name, waiting.after, waiting.ahead, self._pace.turn_bytes // 2
            )
            if part is None:
                return self._take(plan, [name])
            before, waiting.ahead = waiting.ahead, max(waiting.ahead, part.until)
            texts = [it for it in part.texts if len(it.text.encode()) <= _LONG]
            if texts:
                try:
                    self._keep(plan, texts, {})
                except _Elsewhere:
                    waiting.ahead = before
                    raise
                return part.bytes
        return 0

    def _take(self, plan: Plan, names: Iterable[str]) -> int:
        """Embed the next texts of some conversations, in order."""
        texts: list[Text] = []
        progress: dict[str, int] = {}
        ended: list[str] = []
        after: dict[str, int] = {}
        size = 0
        for name in names:
            if len(texts) >= MAX_TEXTS or size >= self._pace.turn_bytes:
                break
            waiting = self._waiting[name]
            part = self._texts.following(
                plan.index,
                name,
                waiting.after,
                MAX_TEXTS - len(texts),
                self._pace.turn_bytes - size,
            )
            if part is None:
                ended.append(name)
                self._long.pop(name, None)
                continue
            size += part.bytes
            if self._planner.census is not None and part.until > waiting.counted:
                for text in part.texts:
                    if text.line == ABBREVIATION or text.line > waiting.counted:
                        self._planner.census.count(text.content)
                waiting.counted = part.until
            texts += self._put_aside(plan, name, part.texts, waiting)
            after[name] = part.until
            progress[name] = self._whole_until(name, part.until)
            if part.is_end:
                ended.append(name)
        if not texts and not progress and not ended:
            return 0
        if self._planner.note_census(plan.store):
            raise _Changed
        self._keep(plan, texts, progress)
        for name, lines in after.items():
            self._waiting[name].after = lines
            for long in self._long.get(name, ()):
                long.looked_at = lines
        for name in ended:
            del self._waiting[name]
        return max(1, size)

    def _keep(self, plan: Plan, texts: list[Text], progress: dict[str, int]) -> None:
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
            self._add(plan, model, places, texts, progress if model == plan.model else {})

    def _add(
        self,
        plan: Plan,
        model: int,
        places: list[EmbeddedText],
        texts: list[Text],
        progress: dict[str, int],
    ) -> None:
        """Keep the vectors of some of the texts, and show them to searches."""
        changed = plan.store.add(model, places, progress)
        copy = self._meaning.copy.of_model(model) if self._meaning.copy else None
        if copy is not None:
            numbers = {text.conversation_id: text.number for text in texts}
            for place, stood in changed:
                _show(copy, numbers[place.conversation_id], place, stood=stood)

    def _remove(self, store: VectorStore, model: int, texts: list[Text]) -> None:
        """Remove the vectors of texts that another model has now."""
        copy = self._meaning.copy.of_model(model) if self._meaning.copy else None
        for name, number in {(text.conversation_id, text.number) for text in texts}:
            lines = [text.line for text in texts if text.conversation_id == name]
            for line in store.remove_places(model, name, lines):
                if copy is not None:
                    matrix = copy.abbreviations if line == ABBREVIATION else copy.messages
                    matrix.remove(number, message_id(number, line))

    def _cut(self, plan: Plan, embedder: Embedder, text: str) -> list[Piece]:
        """Split a text into pieces. Raises CannotEmbed for the main model, _Changed for the other
        one.
        """
        with self._doing_without(plan, embedder):
            return embedder.cut(text)

    def _vectors(self, plan: Plan, embedder: Embedder, pieces: list[Piece]) -> NDArray[np.int8]:
        """Return the vectors of pieces. Raises CannotEmbed for the main model, _Changed for the
        other one.
        """
        self._has_embedded = True
        with self._doing_without(plan, embedder):
            return quantised(self._workers.embed(embedder, pieces, self._pace.rest))

    @contextmanager
    def _doing_without(self, plan: Plan, embedder: Embedder) -> Iterator[None]:
        """Do without the model of other languages if it fails: raise _Changed."""
        try:
            yield
        except CannotEmbed as error:
            if embedder is not plan.beside:
                raise
            self._planner.do_without(embedder.profile.name, error)
            raise _Changed from error

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
        missing = [it for it in missing if it.hash not in vectors_by_hash]
        if missing and not self._shared.may_embed(embedder.identity):
            raise _Elsewhere
        new = {
            text.hash: self._cut(plan, embedder, text.text)
            for text in texts
            if text.hash not in vectors_by_hash
        }
        pieces = [piece for cut in new.values() for piece in cut]
        vectors = self._vectors(plan, embedder, pieces) if pieces else None
        start = 0
        for text_hash, cut in new.items():
            assert vectors is not None
            vectors_by_hash[text_hash] = vectors[start : start + len(cut)]
            start += len(cut)
        self._shared.keep(embedder.identity, missing, vectors_by_hash)
        return [
            EmbeddedText(
                t.conversation_id, t.line, t.time, t.marks, t.hash, vectors_by_hash[t.hash]
            )
            for t in texts
        ]

    def _put_aside(self, plan: Plan, name: str, texts: list[Text], waiting: _Waiting) -> list[Text]:
        """Put long texts aside whose vectors are not known. Return the others."""
        long = [it for it in texts if it.line != ABBREVIATION and len(it.text.encode()) > _LONG]
        aside = [
            it
            for it in long
            if any(not plan.store.has_text(model, it.hash) for model in plan.models_of(it))
        ]
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

    def _slice(self, plan: Plan) -> bool:
        """Embed the next pieces of a long text: of the first few, each in turn. False if there is
        none.
        """
        name = next(iter(self._long), None)
        if name is None:
            return False
        if len(self._long) > 1:
            self._long = _rotated(self._long, _LONG_AT_ONCE)
        long = self._long[name][0]
        embedders = dict(plan.embedders())
        if long.text is None:
            text = self._texts.at(plan.index, name, long.line)
            if text is None:  # it is gone, or has no words any more
                self._end_long(plan, name)
                return True
            models = [it for it in plan.models_of(text) if not plan.store.has_text(it, text.hash)]
            if not models:
                self._end_long(plan, name, text)
                return True
            identity = embedders[models[0]].identity
            if (made := self._shared.take(identity, [text]).get(text.hash)) is not None:
                place = EmbeddedText(name, text.line, text.time, text.marks, text.hash, made)
                self._add(plan, models[0], [place], [text], {})
                return True
            if not self._shared.may_embed(identity):
                raise _Elsewhere
            long.text, long.model, long.cut = text, models[0], 0
            long.rest, long.pieces = deque(parts_of(text.text)), deque()
            long.done = len(plan.store.parts_of(long.model, text.hash))
        if plan.index.conversations.find(name) is None:
            self._end_long(plan, name)
            return True
        embedder, text = embedders[long.model], long.text
        if not long.pieces and long.rest:
            pieces = self._cut(plan, embedder, long.rest[0])
            long.rest.popleft()  # only now: what cannot be cut is cut again
            # those that an earlier server kept are passed over
            long.pieces.extend(pieces[max(0, long.done - long.cut) :])
            long.cut += len(pieces)
        if long.pieces:
            count = _LITTLE_SLICE if self._waiting or self._pace.rest(0.0, 0.0) else _SLICE
            part = [*islice(long.pieces, count)]
            vectors = self._vectors(plan, embedder, part)
            plan.store.add_parts(long.model, name, text.hash, long.done, vectors)
            for _ in part:
                long.pieces.popleft()
            long.done += len(part)
        if not long.pieces and not long.rest:
            vectors = plan.store.parts_of(long.model, text.hash)
            if len(vectors):
                self._shared.keep(embedder.identity, [text], {text.hash: vectors})
                place = EmbeddedText(name, text.line, text.time, text.marks, text.hash, vectors)
                self._add(plan, long.model, [place], [text], {})
            long.text = None  # another model may want it too
        return True

    def _end_long(self, plan: Plan, name: str, text: Text | None = None) -> None:
        """Keep a long text that has all its vectors, or forget one that is gone."""
        first, *rest = self._long[name]
        if rest:
            self._long[name] = rest
        else:
            del self._long[name]
        if plan.index.conversations.find(name) is None:
            return
        # Not the lines that it has by now: nobody has looked at those that came meanwhile.
        looked_at = self._waiting[name].after if name in self._waiting else first.looked_at
        self._keep(plan, [text] if text else [], {name: self._whole_until(name, looked_at)})


def _rotated(long: dict[str, list[_Long]], most: int) -> dict[str, list[_Long]]:
    """Return the long texts with the first one behind the other ones of the first `most`."""
    names = [*long]
    turn = names[1:most] + names[:1] + names[most:]
    return {name: long[name] for name in turn}


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
