"""What the legs of a search find, and what every leg says of each of these: the arrays that `domain.fusion` makes an order of."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.fusion import fuse, share
from recollect_server.domain.legs import Array, ConversationLegs, Fused, MessageLegs, Question
from recollect_server.domain.marks import asks, named, roles
from recollect_server.domain.ranking import conversation_bm25, highest
from recollect_server.services.meaning import Asked, Meaning, MeaningUnavailable
from recollect_server.storage.index.conversations import Outline
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.migrations import SEQUENCE_BITS
from recollect_server.storage.index.search import Found, Scope
from recollect_server.storage.index.words import Term
from recollect_server.storage.vectors.rows import DIMENSIONS

KEYWORD_LEGS = ("keyword_messages", "keyword_conversations")
VECTOR_LEGS = ("vector_messages", "vector_windows", "vector_abbreviations")
_MESSAGES = 200  # the best messages of each leg that are looked at; more did not change the answers
_SPARE = 200  # more of each, where one conversation is left out: they may be its own
_NOTES = 50  # the best abbreviations
_NO_VECTOR = np.zeros(DIMENSIONS, np.float32)
_SCORED = 1500  # messages whose words are scored: for the others, found by their meaning, words count nothing
LEAST = 0.2
"""A cosine below this says nothing: such texts are found by their words alone. Texts about other things have 0.0 to 0.2."""

Scores = dict[int, float]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What was found, scored. The order of `ids` and `numbers` is that of the arrays."""

    ids: list[int]
    numbers: list[int]
    known: dict[int, Outline]
    shown: dict[int, Found]
    messages: MessageLegs
    conversations: ConversationLegs
    fused: Fused
    total: int
    """How many conversations were found."""
    asked: Asked | None
    degraded: dict[str, str] = made(default_factory=dict)


def gather(index: Index, meaning: Meaning, query: str, terms: list[Term], scope: Scope, most: int) -> Candidates:
    """Runs every leg. `most` conversations are found by all their words at the least, if there are so many."""
    asked, degraded = _ask(index, meaning, query, scope)
    numbers, whole = _conversations(index, terms, scope)
    keyword = index.message_scores(terms, scope, _SCORED) if terms else {}
    best = nsmallest(_MESSAGES, keyword, key=lambda identity: (-keyword[identity], identity))
    near: set[int] = set()
    notes: set[int] = set()
    if asked:
        most_near = _MESSAGES if scope.without is None else _MESSAGES + _SPARE
        for found in (asked.messages.nearest(most_near), asked.messages.nearest_windows(most_near)):
            near |= {identity for identity, cosine in found.items() if cosine >= LEAST}
        notes = {i >> SEQUENCE_BITS for i, cosine in asked.abbreviations.nearest(_NOTES).items() if cosine >= LEAST}
    if scope.without is not None:
        near = {identity for identity in near if identity >> SEQUENCE_BITS != scope.without}
        notes.discard(scope.without)
    around = {beside for identity in best for beside in (identity - 1, identity + 1)}
    shown = index.showable({*best, *near, *around}, scope)
    ids = sorted(shown)
    leading = set(numbers[highest(whole, most)].tolist())
    chosen = sorted({*leading, *notes, *(found.number for found in shown.values())})
    known = index.outlines(chosen)
    ids = [identity for identity in ids if shown[identity].number in known]
    chosen = [number for number in chosen if number in known]
    messages = _message_legs(query, ids, chosen, shown, keyword, asked)
    conversations = _conversation_legs(chosen, known, _Values(numbers, whole), messages, asked)
    now = scope.end if scope.end is not None else int(max(messages.time, default=0))
    fused = fuse(Question(query, now), messages, conversations)
    total = len({*numbers.tolist(), *chosen})
    return Candidates(ids, chosen, known, shown, messages, conversations, fused, total, asked, degraded)


def message_parts(found: Candidates) -> dict[str, Array]:
    """What each leg says of the messages: their words' share of the best, or a cosine."""
    legs, above = found.messages, found.conversations
    return {
        "keyword_messages": share(legs.keyword),
        "keyword_conversations": share(above.keyword)[legs.conversation],
        "vector_messages": legs.vector,
        "vector_windows": legs.window,
        "vector_abbreviations": above.abbreviation[legs.conversation],
    }


def conversation_parts(found: Candidates) -> dict[str, Array]:
    """What each leg says of the conversations, likewise."""
    legs = found.conversations
    return {
        "keyword_messages": share(legs.message_keyword),
        "keyword_conversations": share(legs.keyword),
        "vector_messages": legs.vector,
        "vector_windows": legs.window,
        "vector_abbreviations": legs.abbreviation,
    }


def _ask(index: Index, meaning: Meaning, query: str, scope: Scope) -> tuple[Asked | None, dict[str, str]]:
    if not meaning.on:
        return None, {}
    try:
        asked = meaning.ask(query, index, index.numbers_in([], Scope(scope.conversations)), scope.start, scope.end)
    except MeaningUnavailable as error:
        return None, dict.fromkeys(VECTOR_LEGS, str(error))
    return asked, dict.fromkeys(VECTOR_LEGS, meaning.backlog) if meaning.backlog else {}


def _conversations(index: Index, terms: list[Term], scope: Scope) -> tuple[NDArray[np.int64], Array]:
    """The conversations in the scope that have any of the words, and BM25 of all their words."""
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0)
    numbers, scores = conversation_bm25((index.conversation_counts(term) for term in terms), *index.lengths())
    if (allowed := index.numbers_in(terms, scope)) is not None:
        inside = np.isin(numbers, allowed, assume_unique=True)
        numbers, scores = numbers[inside], scores[inside]
    if scope.without is not None:
        others = numbers != scope.without
        numbers, scores = numbers[others], scores[others]
    return numbers, scores


def _message_legs(
    query: str, ids: list[int], numbers: list[int], shown: dict[int, Found], keyword: Scores, asked: Asked | None
) -> MessageLegs:
    place = {number: at for at, number in enumerate(numbers)}
    vectors: Scores = {}
    windows: Scores = {}
    marked: dict[int, int] = {}
    if asked:
        vectors, marked = asked.messages.of({*ids, *(i - 1 for i in ids), *(i + 1 for i in ids)})
        windows = asked.messages.windows_of(ids)
    names = np.array(ids, np.int64)
    words, vector, marks = _Values.by_name(keyword), _Values.by_name(vectors), _Values.by_name(marked)
    own, before = (marks.of(wanted, -1).astype(np.int64) for wanted in (names, names - 1))
    return MessageLegs(
        conversation=np.array([place[shown[i].number] for i in ids], np.int64),
        keyword=words.of(names, 0),
        keyword_before=np.stack([words.of(names - by, 0) for by in (1, 2)]),
        keyword_after=np.stack([words.of(names + by, 0) for by in (1, 2)]),
        vector=vector.of(names),
        vector_before=vector.of(names - 1),
        vector_after=vector.of(names + 1),
        window=_Values.by_name(windows).of(names),
        tokens=np.array([shown[i].tokens for i in ids], float),
        sequence=np.array([shown[i].place[0] for i in ids], float),
        time=np.array([shown[i].time for i in ids], float),
        role=np.where(own < 0, np.nan, roles(own)),
        asked=np.where(before < 0, np.nan, asks(before)),
        named=np.where(own < 0, np.nan, named(own, query)),
    )


def _conversation_legs(
    numbers: list[int], known: dict[int, Outline], whole: "_Values", messages: MessageLegs, asked: Asked | None
) -> ConversationLegs:
    near = asked.messages.conversations(numbers) if asked else {}
    notes = asked.abbreviations.conversations(numbers) if asked else {}
    names = np.array(numbers, np.int64)

    def best(values: Array) -> Array:
        found = np.zeros(len(numbers))
        np.maximum.at(found, messages.conversation, values)
        return found

    return ConversationLegs(
        keyword=whole.of(names, 0),
        message_keyword=best(messages.keyword),
        vector=_Values.by_name({n: it.best for n, it in near.items()}).of(names),
        user_vector=_Values.by_name({n: it.best_of_users for n, it in near.items()}).of(names),
        window=_Values.by_name({n: it.window for n, it in near.items()}).of(names),
        vector_mean=_Values.by_name({n: it.mean for n, it in near.items()}).of(names),
        mean_vector=np.stack([near[n].mean_vector if n in near else _NO_VECTOR for n in numbers] or [_NO_VECTOR])[: len(numbers)],
        abbreviation=_Values.by_name({n: it.best for n, it in notes.items()}).of(names),
        messages=np.array([known[n].message_count for n in numbers], float),
        begin=np.array([known[n].create_time for n in numbers], float),
    )


@dataclass(frozen=True, slots=True)
class _Values:
    """Values by name, to be asked for many names at once."""

    names: NDArray[np.int64]
    """Ascending."""
    values: Array

    @classmethod
    def by_name(cls, values: Mapping[int, float]) -> "_Values":
        """Those of a dictionary."""
        names = np.fromiter(values, np.int64, len(values))
        order = np.argsort(names)
        return cls(names[order], np.fromiter(values.values(), np.float64, len(values))[order])

    def of(self, wanted: NDArray[np.int64], missing: float = np.nan) -> Array:
        """The values of these names; `missing` for one that has none."""
        if not len(self.names):
            return np.full(len(wanted), missing, np.float64)
        at = np.minimum(np.searchsorted(self.names, wanted), len(self.names) - 1)
        return np.where(self.names[at] == wanted, self.values[at], missing)
