"""Texts to embed: what the messages and the notes of conversations say, a part of one at a time;
and the plan of which models embed the texts of a space now.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import structlog

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import read_found
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.embedder import Embedder
from recollect_server.recall.model.marks import marks_of
from recollect_server.recall.model.models import Census, is_foreign
from recollect_server.recall.model.weights import NoWeights, WrongWeights
from recollect_server.recall.vectors.store import ABBREVIATION, VectorStore, hash_of
from recollect_server.text.languages import ENGLISH, guess_language

log = structlog.get_logger("recollect.meaning")

_RETRY = 60.0  # seconds after which a model of other languages that failed is loaded again
# facts in the file of vectors
_LANGUAGES, _CENSUS, _ASKED = "languages", "census", "asked"


_PART, _PART_OVERLAP = 64 << 10, 150


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is to be embedded, and where it stands."""

    conversation_id: str
    number: int
    line: int
    time: int
    marks: int
    text: str
    hash: bytes
    content: str
    """The words alone, which tell the language."""


@dataclass(frozen=True, slots=True)
class TextBatch:
    texts: list[Text]
    until: int
    """The line up to which they go."""
    is_end: bool
    """True at the end of what waits."""
    bytes: int
    """The bytes of their lines."""


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


MAX_TEXTS = 128
"""Texts of one part."""
# characters of a long text that are cut into pieces at a time: a MiB takes a second or more


class TextReader:
    """Reader of the texts of a space. Every method raises DataUnavailable."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def _stored(self, index: Index, name: str) -> Stored[Conversation] | None:
        """Return what the index has of a conversation; None if it is gone, or goes just now: its
        row goes behind its vectors.
        """
        if self._space.deletions.is_left(name):
            return None
        return index.conversations.find(name)

    def at(self, index: Index, name: str, line: int) -> Text | None:
        """Return the text of a line; None if it is gone."""
        stored = self._stored(index, name)
        places = index.messages.of_lines(stored.number, line, line) if stored else []
        messages = read_found(self._space, name, places)
        if stored is None or stored.state.unindexed or not messages:
            return None
        return _text(stored.number, name, messages[0])

    def newest(
        self, index: Index, name: str, after: int, ahead: int, most_bytes: int
    ) -> TextBatch | None:
        """Return the newest texts of a conversation that were not embedded ahead of their turn;
        None if that is all that waits of it, or it is gone.
        """
        stored = self._stored(index, name)
        if stored is None or stored.state.unindexed or after > stored.lines:
            return None
        places = index.messages.of_lines(stored.number, after + 1, stored.lines)
        sizes = np.cumsum([length for _, _, length in reversed(places)])
        count = max(1, int(np.searchsorted(sizes, most_bytes, "right")))
        if len(places) <= count:
            return None
        chosen = [it for it in places[-min(count, MAX_TEXTS) :] if it[0] > ahead]
        messages = (read_found(self._space, name, chosen) if chosen else []) or []
        texts = [text for it in messages if (text := _text(stored.number, name, it))]
        return TextBatch(texts, stored.lines, is_end=False, bytes=sum(it[2] for it in chosen))

    def following(
        self, index: Index, name: str, after: int, most: int, most_bytes: int
    ) -> TextBatch | None:
        """Return the next texts of a conversation, one at least. None if it is gone."""
        stored = self._stored(index, name)
        if stored is None:
            return None
        if stored.state.unindexed:  # all of it is looked at when somebody writes to it
            return TextBatch([], 0, is_end=True, bytes=0)
        # more was looked at than there is: it is another file
        after = after if after <= stored.lines else 0
        places = index.messages.of_lines(stored.number, after + 1, stored.lines)
        sizes = np.cumsum([length for _, _, length in places[:most]])
        count = max(1, int(np.searchsorted(sizes, most_bytes, "right")))
        is_end = len(places) <= count
        chosen = places[:count]
        messages = read_found(self._space, name, chosen)
        if messages is None:
            return None
        texts = [text for it in messages if (text := _text(stored.number, name, it))]
        if is_end and (notes := stored.state.abbreviation):
            texts.append(
                Text(name, stored.number, ABBREVIATION, 0, 0, notes, hash_of(notes), notes)
            )
        size = sum(length for _, _, length in chosen)
        return TextBatch(texts, stored.lines if is_end else places[count - 1][0], is_end, size)


def text_of(message: Message) -> str:
    """Return the text of a message to embed: the speaker, where a name says so, and the words;
    empty without words.
    """
    if not message.content.strip():
        return ""
    return f"{message.sender}: {message.content}" if message.sender else message.content


def _text(number: int, name: str, message: Message) -> Text | None:
    """Return the text of a message; None if it has no words."""
    if not (text := text_of(message)):
        return None
    return Text(
        name,
        number,
        message.sequence,
        message.timestamp,
        marks_of(message),
        text,
        hash_of(text),
        message.content,
    )


def parts_of(text: str) -> Iterator[str]:
    """Yield the parts of a long text that are cut into pieces at a time, which takes moments. Each
    begins with the end of the one before, and none ends within a word.
    """
    start = 0
    while start + _PART < len(text):
        end = max(text.rfind(" ", start + _PART // 2, start + _PART), start + _PART // 2)
        yield text[start:end]
        start = end - _PART_OVERLAP
    yield text[start:]
