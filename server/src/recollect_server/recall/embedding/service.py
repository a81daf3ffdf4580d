"""Embeds what the index has and the file of vectors lacks: behind the appends, never on their way.

The index alone says what is left to do: how far each conversation is indexed, against how far it
was embedded. While the server runs, the update log says which conversations changed. So a restart,
a lost file and an import are all the same work.

The work is done in short turns, so that nothing waits long behind something large. Of two turns,
one goes on where embedding stopped, oldest first, and one takes the newest messages, ahead of all
others. A very long text has slices of its own between the turns (`long_texts`).

`models` tells which model a text is given to. A change of the models is work as after a restart:
every text is looked at, and only what has no vectors of its model is embedded.
"""

import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import structlog

from recollect_server.kernel.domain.errors import DataUnavailable
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.space.space import Space
from recollect_server.recall.embedding.long_texts import LongTexts, is_long
from recollect_server.recall.embedding.missing_codes import MissingCodes
from recollect_server.recall.embedding.pace import Pace, Share, Stopped
from recollect_server.recall.embedding.statements import StatementFinder
from recollect_server.recall.embedding.texts import MAX_TEXTS, Plan, Planner, Text, TextReader
from recollect_server.recall.embedding.vector_writer import (
    EmbeddedElsewhere,
    PlanChanged,
    SharedVectors,
    VectorWriter,
)
from recollect_server.recall.meaning import Copy, EmbeddingBacklog, Meaning
from recollect_server.recall.model.embedder import CannotEmbed
from recollect_server.recall.model.models import Census
from recollect_server.recall.model.weights import NoWeights, WrongWeights
from recollect_server.recall.model.workers import Workers
from recollect_server.recall.vectors.file import VectorsDamaged, VectorsUnavailable
from recollect_server.recall.vectors.store import ABBREVIATION

log = structlog.get_logger("recollect.meaning")

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


class Embedding:
    """Embeds what is missing. One thread calls it."""

    def __init__(
        self,
        space: Space,
        meaning: Meaning,
        workers: Workers,
        share: Share,
        stopping: threading.Event,
    ) -> None:
        """Share the workers with other spaces. End the part under way soon once `stopping` is
        set.
        """
        self._space = space
        assert meaning.models is not None
        self._meaning, self._models = meaning, meaning.models
        self._index: Index | None = None  # the one that `_waiting` is of
        self._plan_name = ""  # likewise the plan
        self._model = 0
        self._cursor = 0
        self._waiting: dict[str, _Waiting] = {}  # those that changed last are last
        self._planner = Planner(meaning)
        self._texts = TextReader(space)
        self._shared = SharedVectors(space.shared_work)
        self.is_elsewhere = False
        """True if another process embeds what is missing."""
        self._newest_first = False
        self._pace = Pace(space, share, stopping)
        self._writer = VectorWriter(meaning, workers, self._planner, self._pace, self._shared)
        self._long = LongTexts(self._writer, self._texts, self._shared)
        self._statements = StatementFinder(self._texts)
        self._codes = MissingCodes(meaning, self._writer, self._texts, self._statements)
        self.failure = ""
        """Reason of the last try's failure; empty if it met none."""

    def mark(self) -> tuple[Index, int, bool]:
        """Return a value that changes with whatever there may be to embed."""
        index = self._space.index
        return index, index.taken()[1], self._meaning.wants_languages

    def tend(self) -> bool:
        """Embed one part of the missing texts. Return False if nothing is missing, or nothing can
        be done now. Never raises.
        """
        try:
            plan = self._planner.plan(self._space.index)
            self._codes.begin(plan)
            self._statements.begin(plan)
            if self._index is not plan.index:
                lengths = plan.index.conversations.progress()
                plan.store.forget_strays(
                    plan.model, plan.epoch, {name: lines for name, (_, lines) in lengths.items()}
                )
            copy = self._meaning.copy
            if copy is None or copy.index is not plan.index or not self._is_current(copy, plan):
                self._make_copy(plan)
            self._look(plan)
            self._notify()
            if self._waiting or self._long:
                self._shared.begin()
            began = time.monotonic()
            self.is_elsewhere = False
            size = self._step(plan)
            if size and self._writer.has_embedded:
                bytes_per_second = self._pace.adapt(size, began, is_last=not self._waiting)
                if self._waiting:
                    plan.store.note(_PACE, f"{bytes_per_second:.0f}")
            worked = bool(size)
            if self._long:
                in_haste = bool(self._waiting) or self._pace.rest(0.0, 0.0)
                self._long.embed_slice(plan, in_haste=in_haste)
                worked = True
            worked = self._statements.find_some(plan) or worked
            if not self._waiting and not self._long:
                self._complete(plan)
            settled = not self._waiting and not self._long
            self._meaning.whiten(self._meaning.copy, settled=settled)
            if settled:
                self._shared.begin()
                worked = self._codes.make_some(plan) or worked
        except Stopped:
            return False
        except PlanChanged:
            return True
        except EmbeddedElsewhere:
            self.is_elsewhere, worked = True, False
        except (NoWeights, WrongWeights, ImportError, CannotEmbed, VectorsUnavailable) as error:
            self._failed(str(error))
            return isinstance(error, VectorsDamaged) and self._start_over()
        except DataUnavailable as error:
            self._failed(str(error))
            return False
        self.failure = self._meaning.failure = ""
        self._notify()
        return worked

    @property
    def is_complete(self) -> bool:
        """Return whether the last look found everything embedded."""
        return not self._waiting and not self._long and not self.failure

    @property
    def has_texts(self) -> bool:
        """Return whether the last look left texts to embed."""
        return bool(self._waiting) or bool(self._long)

    @property
    def question_at(self) -> float:
        """Return the time of the last search or context, on the monotonic clock."""
        return self._meaning.question_at

    def _failed(self, reason: str) -> None:
        if reason != self.failure:
            log.warning("meaning_unavailable", reason=reason)
        self.failure = self._meaning.reason = reason
        if self._meaning.copy is not None:
            self._meaning.failure = reason

    def _start_over(self) -> bool:
        """Remove the file of vectors, so that everything is embedded again. Return False if that
        failed.
        """
        log.warning("vectors_made_anew", reason=self.failure)
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
        return beside == plan.beside_model and copy.beside_reads_all == self._reads_all(plan)

    def _reads_all(self, plan: Plan) -> bool:
        """Return whether the model of other languages reads English because of a question."""
        return plan.both and not self._models.both

    def _make_copy(self, plan: Plan) -> None:
        """Have searches read another copy."""
        if self._meaning.copy is None:
            self._meaning.reason = "the vectors are being loaded"
        self._index = None
        self._meaning.replace(plan.store, partial(self._loaded, plan))

    def _loaded(self, plan: Plan) -> Copy | None:
        """Return the copy that searches read. While another model's vectors are incomplete, it is
        that of the model that was complete last; None if its weights are not available.
        """
        store, index = plan.store, plan.index
        beside = None
        if plan.beside is not None and plan.beside_model is not None:
            store.accompany(plan.beside_model)
            beside = self._meaning.load(store, plan.beside_model, plan.beside, index)
        served = store.served()
        if served is not None and served[0] != plan.model:
            old = self._models.main.of_weights(served[1], served[2])
            if old is None:
                self._meaning.reason = "the vectors are computed anew for another model, and the one before is not available"
                return None
            copy = self._meaning.load(store, served[0], old, index)
        else:
            if served is None:
                store.serve(plan.model, plan.beside_model)
            copy = self._meaning.load(store, plan.model, plan.main, index)
        copy = replace(copy, beside=beside, beside_reads_all=self._reads_all(plan))
        self._meaning.whiten(copy)
        return copy

    def _complete(self, plan: Plan) -> None:
        """Serve the present models from now on, because everything is embedded with them."""
        store, copy = plan.store, self._meaning.copy
        is_new = copy is None or copy.model != plan.model
        if is_new or (plan.name != "lack" and store.has_others(plan.model, plan.beside_model)):
            store.serve(plan.model, plan.beside_model)
        if is_new:
            self._make_copy(plan)
            log.info("model_changed", identity=plan.main.identity)

    # What is to do --------------------------------------------------------------------------------

    def _look(self, plan: Plan) -> None:
        """Begin a turn: note the conversations that changed since the last look; all, if that
        is not known.
        """
        now = time.monotonic()
        store, index, model = plan.store, plan.index, plan.model
        # First: what goes from here on is not kept in this turn, and is looked at in the next one.
        oldest = self._long.oldest_moment()
        before = self._writer.moment
        removed, moment = store.removed_after(before, before if oldest is None else oldest)
        self._writer.begin(moment)
        if self._index is not index or self._model != model or self._plan_name != plan.name:
            changed, self._cursor = None, index.log.last_cursor()
        else:
            changed, self._cursor = index.log.changed_after(self._cursor)
        if changed is None:
            self._long.clear()
            done = store.progress(model, plan.epoch)
            # What the main model has read and another one reads now is not late.
            is_known = self._plan_name == "main" and plan.both and not self._waiting
            since = math.inf if is_known else now
            if not any(done.values()) and self._planner.census is not None:
                self._planner.census = Census()  # all texts are counted again
            self._waiting = {
                name: _Waiting(done.get(name, 0), since)
                for name, (_, lines) in sorted(index.conversations.progress().items())
                if done.get(name, 0) != lines
            }
            self._index, self._model, self._plan_name = index, model, plan.name
            changed = []
        # One that is there is another one with this id, is written again, or keeps notes through a
        # redaction, which removes the vectors of all notes behind the change that it is.
        for name in removed:
            self._waiting.pop(name, None)
            self._long.forget(name)
        for name in (*removed, *changed):
            waiting = self._waiting.pop(name, None)
            if waiting is None:
                after = self._long.looked_at(name)
                waiting = _Waiting(store.lines_of(model, name) if after is None else after, now)
            waiting.since = min(waiting.since, now)
            self._waiting[name] = waiting

    def _notify(self) -> None:
        """Report to searches how many conversations wait to be embedded, and since when."""
        late = {name: it.since for name, it in self._waiting.items() if it.since < math.inf}
        starts = [*late.values(), *self._long.starts()]
        self._meaning.waiting = (
            EmbeddingBacklog(len({*late, *self._long}), min(starts)) if starts else None
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
            texts = [it for it in part.texts if not is_long(it)]
            if texts:
                try:
                    self._writer.keep(plan, texts, {})
                except EmbeddedElsewhere:
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
                self._long.forget(name)
                continue
            size += part.bytes
            if self._planner.census is not None and part.until > waiting.counted:
                for text in part.texts:
                    if text.line == ABBREVIATION or text.line > waiting.counted:
                        self._planner.census.count(text.content)
                waiting.counted = part.until
            texts += self._long.put_aside(plan, name, part.texts, waiting.after, waiting.since)
            after[name] = part.until
            progress[name] = self._long.whole_until(name, part.until)
            if part.is_end:
                ended.append(name)
        if not texts and not progress and not ended:
            return 0
        if self._planner.note_census(plan.store):
            raise PlanChanged
        self._writer.keep(plan, texts, progress)
        for name, lines in after.items():
            self._waiting[name].after = lines
            self._long.note_looked_at(name, lines)
        for name in ended:
            del self._waiting[name]
        return max(1, size)
