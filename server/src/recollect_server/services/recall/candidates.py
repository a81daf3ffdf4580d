"""What the legs of a search find, and what every leg says of each of these: the arrays that `domain.fusion` makes an order of."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as made
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.calibration import calibrated
from recollect_server.domain.deadline import Deadline
from recollect_server.domain.fusion import fuse, share
from recollect_server.domain.legs import DIMENSIONS, Array, ConversationLegs, Fused, MessageLegs, Question
from recollect_server.domain.marks import asks, named, roles
from recollect_server.domain.message_ids import number_of
from recollect_server.domain.ranking import conversation_bm25, highest
from recollect_server.services.recall.meaning import Meaning, MeaningUnavailable, Scans
from recollect_server.services.recall.sections import Counts, by_sections
from recollect_server.storage.index.conversations import Outline
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.search import Found, Scope
from recollect_server.storage.index.words import Term

KEYWORD_LEGS = ("keyword_messages", "keyword_conversations")
VECTOR_LEGS = ("vector_messages", "vector_windows", "vector_abbreviations")
# How much of each leg is looked at. Twice of each changed nothing for the better, half of each cost 0.4 points of messages any@10
# (`bench/README.md`, recall).
_MESSAGES = 200  # the best messages of each leg
_ABBREVIATIONS = 50  # the best of them
_NOTED = 200  # conversations that are found by the words of their notes
_NOTES = 0.5  # what BM25 of a conversation's notes counts beside BM25 of all its words
_NO_VECTOR = np.zeros(DIMENSIONS, np.float32)
_SCORED = 1500  # messages whose words are scored: for the others, found by their meaning, words count nothing
LEAST = 0.2
"""A cosine below this says nothing: such texts are found by their words alone. Texts about other things have 0.0 to 0.2."""
_DIGITS = 9  # of a score: sums that were added up in another order, as over a new index, are equal

Scores = dict[int, float]


@dataclass(frozen=True, slots=True)
class Candidates:
    """What was found, with probabilities as scores (`domain.calibration`). Messages have one order, conversations another."""

    messages: list[Found]
    message_scores: list[float]
    message_legs: MessageLegs
    conversations: list[Outline]
    conversation_scores: list[float]
    conversation_legs: ConversationLegs
    order: Fused
    """What orders them: a share of the best one's, finer than the scores where these are near 0."""
    total: int
    """How many conversations were found."""
    noted: set[int]
    """The numbers of the conversations whose title, topics or abbreviation has any of the words."""
    scans: Scans | None
    degraded: dict[str, str] = made(default_factory=dict)

    def conversation_of(self, message: int) -> Outline:
        """The conversation of the message at a place."""
        return self.conversations[int(self.message_legs.conversation[message])]

    def fits(self, message: int) -> bool:
        """Whether the message at a place has any of the words or is near in meaning; not only beside one that does."""
        return bool(self.message_legs.keyword[message] > 0 or self.message_legs.vector[message] >= LEAST)

    def best_messages(self) -> list[int]:
        """The places of the messages, best first; of equal ones in an order that a new index has too."""
        ids = [self.conversations[of].id for of in self.message_legs.conversation.tolist()]
        order = self.order.messages.tolist()
        return sorted(range(len(ids)), key=lambda at: (-order[at], ids[at], self.messages[at].place))

    def best_conversations(self) -> list[int]:
        """The places of the conversations, likewise."""
        order = self.order.conversations.tolist()
        return sorted(range(len(order)), key=lambda at: (-order[at], self.conversations[at].id))


def gather(
    index: Index, meaning: Meaning, query: str, terms: list[Term], scope: Scope, most: int, deadline: Deadline
) -> Candidates:
    """Run every leg. `most` conversations are found by all their words at the least, if there are so many.

    Raises IndexUnavailable, CallerGone, DeadlineExceeded.
    """
    within = index.numbers_of(scope.conversations)
    scans, degraded = _scans(index, meaning, query, scope, within)
    deadline.check()
    counts = [index.conversation_counts(term) for term in terms]
    deadline.check()
    numbers, whole, noted = _by_all_words(index, terms, counts, scope, within)
    deadline.check()
    keyword = index.message_scores(terms, scope, _SCORED) if terms else {}
    deadline.check()
    best = nsmallest(_MESSAGES, keyword.keys() - scope.hidden, key=lambda identity: (-keyword[identity], identity))
    around = {beside for identity in best for beside in (identity - 1, identity + 1)}
    near, abbreviated = _near(scans, scope.hidden) if scans else (set[int](), set[int]())
    deadline.check()
    shown = index.showable({*best, *around, *near} - scope.hidden, scope)
    leading = numbers[highest(whole, most)].tolist()
    known = index.outlines({*leading, *abbreviated, *(found.number for found in shown.values())})
    ids = sorted(identity for identity, found in shown.items() if found.number in known)
    messages, conversations = [shown[identity] for identity in ids], [known[number] for number in sorted(known)]
    deadline.check()
    of_messages = _message_legs(query, ids, messages, conversations, keyword, scans)
    deadline.check()
    of_conversations = _conversation_legs(conversations, _Values(numbers, whole), of_messages, scans)
    now = scope.end if scope.end is not None else max((found.time for found in messages), default=0)
    deadline.check()
    sections = by_sections(index, terms, counts, conversations, of_messages, of_conversations)
    deadline.check()
    order = _rounded(fuse(Question(query, now), of_messages, of_conversations, sections))
    scores = _rounded(calibrated(order, index.weigh(query, terms), of_messages, of_conversations))
    others = np.isin([outline.number for outline in conversations], numbers, invert=True)
    total = len(numbers) + int(others.sum())
    return Candidates(
        messages,
        scores.messages.tolist(),
        of_messages,
        conversations,
        scores.conversations.tolist(),
        of_conversations,
        order,
        total,
        noted,
        scans,
        degraded,
    )


def _rounded(fused: Fused) -> Fused:
    return Fused(np.round(fused.messages, _DIGITS), np.round(fused.conversations, _DIGITS))


def legs_of_messages(found: Candidates) -> dict[str, Array]:
    """What each leg says of the messages: their words' share of the best, or a cosine."""
    legs, above = found.message_legs, found.conversation_legs
    return {
        "keyword_messages": share(legs.keyword),
        "keyword_conversations": share(above.keyword)[legs.conversation],
        "vector_messages": legs.vector,
        "vector_windows": legs.window,
        "vector_abbreviations": above.abbreviation[legs.conversation],
    }


def legs_of_conversations(found: Candidates) -> dict[str, Array]:
    """What each leg says of the conversations, likewise."""
    legs = found.conversation_legs
    return {
        "keyword_messages": share(legs.message_keyword),
        "keyword_conversations": share(legs.keyword),
        "vector_messages": legs.vector,
        "vector_windows": legs.window,
        "vector_abbreviations": legs.abbreviation,
    }


def _scans(
    index: Index, meaning: Meaning, query: str, scope: Scope, within: NDArray[np.int64] | None
) -> tuple[Scans | None, dict[str, str]]:
    if not meaning.on:
        return None, {}
    try:
        scans = meaning.ask(query, index, within, scope.start, scope.end)
    except MeaningUnavailable as error:
        return None, dict.fromkeys(VECTOR_LEGS, str(error))
    backlog = meaning.backlog()
    return scans, dict.fromkeys(VECTOR_LEGS, backlog) if backlog else {}


def _by_all_words(
    index: Index, terms: list[Term], counts: Counts, scope: Scope, within: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], Array, set[int]]:
    """Return the conversations in the scope that have any of the words in their messages or their notes, with BM25 of all their
    words, to which that of their notes is added; and which of them have any in their notes.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0), set()
    numbers, scores = conversation_bm25(counts, *index.lengths())
    # Of a time: a conversation's own times do not say which of its words were said then.
    allowed = index.numbers_with(terms, scope) if scope.timed else within
    if allowed is not None:
        inside = np.isin(numbers, allowed, assume_unique=True)
        numbers, scores = numbers[inside], scores[inside]
    noted, note_scores = _by_notes(index, terms, scope, within)
    union = np.union1d(numbers, noted)
    total = np.zeros(len(union))
    total[np.searchsorted(union, numbers)] += scores
    total[np.searchsorted(union, noted)] += _NOTES * note_scores
    return union, total, {*noted.tolist()}


def _by_notes(index: Index, terms: list[Term], scope: Scope, within: NDArray[np.int64] | None) -> tuple[NDArray[np.int64], Array]:
    """Return the conversations in the scope whose notes fit best, and BM25 of their notes."""
    numbers, scores = index.notes_scores(terms, _NOTED)
    inside = np.ones(len(numbers), np.bool_)
    if within is not None:
        inside &= np.isin(numbers, within)
    if scope.timed:  # notes are of a whole conversation: a time finds those that lie within it
        inside &= np.isin(numbers, index.numbers_within(scope.start, scope.end))
    return numbers[inside], scores[inside]


def _near(scans: Scans, hidden: frozenset[int]) -> tuple[set[int], set[int]]:
    """The messages that are near to the question by themselves or with their neighbours; conversations by their abbreviations."""
    most = _MESSAGES + len(hidden)
    legs = (scans.messages.nearest(most), scans.messages.nearest_windows(most))
    near = {identity for leg in legs for identity, cosine in leg.items() if cosine >= LEAST}
    abbreviations = scans.abbreviations.nearest(_ABBREVIATIONS)
    return near - hidden, {number_of(identity) for identity, cosine in abbreviations.items() if cosine >= LEAST}


def _message_legs(
    query: str, ids: list[int], found: list[Found], conversations: list[Outline], keyword: Scores, scans: Scans | None
) -> MessageLegs:
    place = {outline.number: at for at, outline in enumerate(conversations)}
    vectors: Scores = {}
    windows: Scores = {}
    marked: dict[int, int] = {}
    if scans:
        vectors, marked = scans.messages.of({*ids, *(i - 1 for i in ids), *(i + 1 for i in ids)})
        windows = scans.messages.windows_of(ids)
    names = np.array(ids, np.int64)
    words, vector, marks = _Values.by_name(keyword), _Values.by_name(vectors), _Values.by_name(marked)
    own, before = (marks.of(wanted, -1).astype(np.int64) for wanted in (names, names - 1))
    return MessageLegs(
        conversation=np.array([place[it.number] for it in found], np.int64),
        keyword=words.of(names, 0),
        keyword_before=np.stack([words.of(names - by, 0) for by in (1, 2)]),
        keyword_after=np.stack([words.of(names + by, 0) for by in (1, 2)]),
        vector=vector.of(names),
        vector_before=vector.of(names - 1),
        vector_after=vector.of(names + 1),
        window=_Values.by_name(windows).of(names),
        tokens=np.array([it.tokens for it in found], float),
        sequence=np.array([it.place[0] for it in found], float),
        time=np.array([it.time for it in found], float),
        role=np.where(own < 0, np.nan, roles(own)),
        asked=np.where(before < 0, np.nan, asks(before)),
        named=np.where(own < 0, np.nan, named(own, query)),
    )


def _conversation_legs(
    conversations: list[Outline], whole: "_Values", messages: MessageLegs, scans: Scans | None
) -> ConversationLegs:
    numbers = [outline.number for outline in conversations]
    near = scans.messages.conversations(numbers) if scans else {}
    notes = scans.abbreviations.conversations(numbers) if scans else {}
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
        messages=np.array([it.message_count for it in conversations], float),
        begin=np.array([it.create_time for it in conversations], float),
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
