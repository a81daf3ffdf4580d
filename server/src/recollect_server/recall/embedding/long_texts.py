"""Long texts, which are embedded a slice at a time, so that nothing shorter waits behind them.

A long text is put aside when its turn comes. The vectors of each slice are kept, so a restart goes
on where the last slice ended. Its conversation counts as embedded up to the line before it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from recollect_server.recall.embedding.texts import Plan, Text, TextReader, parts_of
from recollect_server.recall.embedding.vector_writer import (
    EmbeddedElsewhere,
    SharedVectors,
    VectorWriter,
)
from recollect_server.recall.model.embedder import Embedder, Piece
from recollect_server.recall.vectors.store import ABBREVIATION, EmbeddedText

LONG = 16 << 10
"""Bytes of a text above which it is long."""
# pieces of a long text between two looks for newer messages: at rest, and while others wait
_SLICE, _LITTLE_SLICE = 16, 2
_AT_ONCE = 4  # long texts that are at work in turns: each is in memory


@dataclass(slots=True)
class _Long:
    line: int
    since: float
    """Since when it waits, on the monotonic clock."""
    work: "_LongTextWork | None" = None


@dataclass(slots=True)
class _LongTextWork:
    """A long text that is being embedded with a model."""

    text: Text
    model: int
    read_at: int
    """Moment of the file of vectors at which it was read."""
    moment: str
    """The same for the processes that share its vectors."""
    rest: deque[str]
    """Parts of the text that are not cut into pieces yet."""
    done: int
    """Number of pieces whose vectors are kept."""
    cut: int = 0
    """Number of pieces that were cut."""
    pieces: deque[Piece] = field(default_factory=deque)
    """Pieces that are not embedded yet."""


@dataclass(slots=True)
class _LongConversation:
    looked_at: int
    """The line up to which the embedder has looked at it."""
    texts: list[_Long] = field(default_factory=list)
    """Ascending by line."""


class LongTexts:
    """The long texts of a space that wait to be embedded. One thread calls it."""

    def __init__(self, writer: VectorWriter, reader: TextReader, shared: SharedVectors) -> None:
        self._writer = writer
        self._reader = reader
        self._shared = shared
        self._conversations: dict[str, _LongConversation] = {}

    def __iter__(self) -> Iterator[str]:
        """Yield the conversations that have long texts."""
        return iter(self._conversations)

    def __bool__(self) -> bool:
        return bool(self._conversations)

    def clear(self) -> None:
        """Forget all texts: they are put aside again."""
        self._conversations = {}

    def forget(self, name: str) -> None:
        """Forget the texts of a conversation that is gone."""
        self._conversations.pop(name, None)

    def oldest_moment(self) -> int | None:
        """Return the moment of the file at which the oldest text at work was read."""
        works = (it.work for owner in self._conversations.values() for it in owner.texts)
        return min((work.read_at for work in works if work is not None), default=None)

    def starts(self) -> list[float]:
        """Return since when each text waits."""
        return [it.since for owner in self._conversations.values() for it in owner.texts]

    def looked_at(self, name: str) -> int | None:
        """Return up to which line a conversation was looked at; None without long texts."""
        owner = self._conversations.get(name)
        return None if owner is None else owner.looked_at

    def note_looked_at(self, name: str, line: int) -> None:
        """Note that a conversation was looked at up to a line."""
        if owner := self._conversations.get(name):
            owner.looked_at = line

    def whole_until(self, name: str, line: int) -> int:
        """Return the line up to which a conversation is embedded, of those up to `line`: that
        before its first long text.
        """
        owner = self._conversations.get(name)
        return min(line, owner.texts[0].line - 1) if owner else line

    def put_aside(
        self, plan: Plan, name: str, texts: list[Text], looked_at: int, since: float
    ) -> list[Text]:
        """Put the long ones of a conversation's texts aside whose vectors are not known, and return
        the others. `looked_at`: the line up to which the conversation was looked at before.
        """
        others: list[Text] = []
        for text in texts:
            if not is_long(text) or all(
                plan.store.has_text(model, text.hash) for model in plan.models_of(text)
            ):
                others.append(text)
                continue
            owner = self._conversations.setdefault(name, _LongConversation(looked_at))
            if all(it.line != text.line for it in owner.texts):
                owner.texts.append(_Long(text.line, since))
        return others

    def embed_slice(self, plan: Plan, *, in_haste: bool) -> None:
        """Embed the next pieces of a long text: of the first few, each in turn. There must be one.
        `in_haste`: something shorter waits.
        """
        name = next(iter(self._conversations))
        self._rotate()
        long = self._conversations[name].texts[0]
        if long.work is None:
            long.work = self._begun(plan, name, long.line)
        if (work := long.work) is None:
            return
        if plan.index.conversations.find(name) is None:
            self._end(plan, name)
            return
        embedder = dict(plan.embedders())[work.model]
        self._cut(plan, embedder, work)
        if work.pieces and not self._embed(plan, embedder, name, work, in_haste=in_haste):
            long.work = None  # begun anew, if the text is still there
        elif not work.pieces and not work.rest:
            self._keep(plan, embedder, name, work)
            long.work = None  # another model may want it too

    def _rotate(self) -> None:
        """Let the first of the conversations that are at work wait behind the others of them."""
        if len(self._conversations) > 1:
            names = [*self._conversations]
            turn = names[1:_AT_ONCE] + names[:1] + names[_AT_ONCE:]
            self._conversations = {name: self._conversations[name] for name in turn}

    def _begun(self, plan: Plan, name: str, line: int) -> _LongTextWork | None:
        """Read a text that is to be embedded. Return None if there is nothing to compute."""
        text = self._reader.at(plan.index, name, line)
        if text is None:  # it is gone, or has no words any more
            self._end(plan, name)
            return None
        models = [it for it in plan.models_of(text) if not plan.store.has_text(it, text.hash)]
        if not models:
            self._end(plan, name, text)
            return None
        model = models[0]
        identity = dict(plan.embedders())[model].identity
        if (made := self._shared.take(identity, [text]).get(text.hash)) is not None:
            place = EmbeddedText(name, text.line, text.time, text.marks, text.hash, made)
            self._writer.add(plan, model, [place], [text], {}, self._writer.moment)
            return None
        if not self._shared.may_embed(identity):
            raise EmbeddedElsewhere
        done = len(plan.store.parts_of(model, text.hash))
        read_at, moment = self._writer.moment, self._shared.moment
        return _LongTextWork(text, model, read_at, moment, deque(parts_of(text.text)), done)

    def _cut(self, plan: Plan, embedder: Embedder, work: _LongTextWork) -> None:
        """Cut the next part into pieces, if there are none."""
        if work.pieces or not work.rest:
            return
        pieces = self._writer.cut(plan, embedder, work.rest[0])
        work.rest.popleft()  # only now: what cannot be cut is cut again
        # those that an earlier server kept are passed over
        work.pieces.extend(pieces[max(0, work.done - work.cut) :])
        work.cut += len(pieces)

    def _embed(
        self, plan: Plan, embedder: Embedder, name: str, work: _LongTextWork, *, in_haste: bool
    ) -> bool:
        """Embed the next pieces. Return False if those before are not there any more."""
        part = [*islice(work.pieces, _LITTLE_SLICE if in_haste else _SLICE)]
        vectors = self._writer.vectors(plan, embedder, part)
        place = (name, work.text.line)
        if not plan.store.add_parts(
            work.model, place, work.text.hash, work.done, vectors, work.read_at
        ):
            return False
        for _ in part:
            work.pieces.popleft()
        work.done += len(part)
        return True

    def _keep(self, plan: Plan, embedder: Embedder, name: str, work: _LongTextWork) -> None:
        """Keep a text whose pieces are all embedded, unless some were removed meanwhile."""
        text, vectors = work.text, plan.store.parts_of(work.model, work.text.hash)
        if work.done <= len(vectors) > 0:
            self._shared.keep(embedder.identity, [text], {text.hash: vectors}, work.moment)
            place = EmbeddedText(name, text.line, text.time, text.marks, text.hash, vectors)
            self._writer.add(plan, work.model, [place], [text], {}, work.read_at)

    def _end(self, plan: Plan, name: str, text: Text | None = None) -> None:
        """Keep a long text that has all its vectors, or forget one that is gone."""
        owner = self._conversations[name]
        del owner.texts[0]
        if not owner.texts:
            del self._conversations[name]
        if plan.index.conversations.find(name) is not None:
            # Not up to the lines that it has by now: nobody looked at those that came since.
            progress = {name: self.whole_until(name, owner.looked_at)}
            self._writer.keep(plan, [text] if text else [], progress)


def is_long(text: Text) -> bool:
    """Return whether a text is embedded a slice at a time."""
    return text.line != ABBREVIATION and len(text.text.encode()) > LONG
