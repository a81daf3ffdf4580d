"""Candidates of a search: run the retrievers, and collect the score that each gives to every
candidate, as input of `fusion`.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from dataclasses import field as made
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from recollect_server.domain.deadline import Deadline
from recollect_server.domain.embedding import DIMENSIONS, asks, name_hash, names, roles
from recollect_server.domain.filters import Scope
from recollect_server.domain.ids import SEQUENCE_BITS
from recollect_server.domain.telemetry import UNMEASURED, Step, Telemetry
from recollect_server.domain.text import is_gibberish
from recollect_server.services.recall.calibration import calibrated, with_dates
from recollect_server.services.recall.dates import Mention, asks_of_dates, read_dates, without_dates
from recollect_server.services.recall.fusion import dates_of, fuse, share, unsaid
from recollect_server.services.recall.meaning import Meaning, MeaningUnavailable, Scans
from recollect_server.services.recall.models import is_foreign
from recollect_server.services.recall.retrievers import (
    Array,
    ConversationLegs,
    Fused,
    MessageLegs,
    Question,
)
from recollect_server.services.recall.sections import by_sections
from recollect_server.storage.index.conversations import Outline
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.postings import KeywordScores
from recollect_server.storage.index.search import Messages
from recollect_server.storage.index.words import MAX_TEXT, MAX_WORDS, QueryTerms, Term
from recollect_server.storage.ranking import Bm25, Counts, among, conversation_bm25, highest, starts
from recollect_server.storage.vectors.scan import Scores

KEYWORD_LEGS = ("keyword_messages", "keyword_conversations")
VECTOR_LEGS = ("vector_messages", "vector_windows", "vector_abbreviations")
# How much of each leg is looked at. Twice of each changed nothing for the better, half of each cost
# 0.4 points of messages any@10 (`docs/decisions/retrieval-depth.md`).
_MESSAGES = 200  # the best messages of each leg
_ABBREVIATIONS = 50  # the best of them
_NOTED = 200  # conversations that are found by the words of their notes
_NOTES = 0.5  # what BM25 of a conversation's notes counts beside BM25 of all its words
_DATED = 100  # messages of a time that the question names, by each leg
_AROUND = np.arange(-2, 3)[:, None]  # of a message: the two before it, itself, the two behind it
# messages whose words are scored: for the others, found by their meaning, words count nothing
_SCORED = 1500
LEAST = 0.2
"""A cosine below this says nothing: such texts are found by their words alone. Texts about other
things have 0.0 to 0.2.
"""
KEYWORD_BUDGET = (
    "keyword_budget: the words are so common, or so many, that a part of their places was searched;"
    " ask with rarer words, fewer words or a narrower filter"
)
"""Reason of `degraded` where a search used up its budget."""
_DIGITS = 9  # of a score: sums that were added up in another order, as over a new index, are equal

_WORD = re.compile(r"\w+")
_NO_IDS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Candidates with calibrated probabilities as scores. Messages have one order, conversations
    another.
    """

    messages: Messages
    message_scores: list[float]
    message_legs: MessageLegs
    conversations: list[Outline]
    conversation_scores: list[float]
    conversation_legs: ConversationLegs
    order: Fused
    """Rank order: shares of the best one's score, finer than the probabilities where these are near
    0.
    """
    total: int
    """Number of matching conversations."""
    noted: set[int]
    """The numbers of the conversations whose title, topics or abbreviation has any of the words."""
    words: KeywordScores
    scans: Scans | None
    degraded: dict[str, str] = made(default_factory=dict)

    def conversation_of(self, message: int) -> Outline:
        """Return the conversation of a message, which is given by its index."""
        return self.conversations[int(self.message_legs.conversation[message])]

    def fitting(self) -> NDArray[np.bool_]:
        """Return whether each message has any of the words or is near in meaning; not only beside
        one that does.
        """
        fitting: NDArray[np.bool_] = (self.message_legs.keyword > 0) | (
            self.message_legs.vector >= LEAST
        )
        return fitting

    def best_messages(self) -> list[int]:
        """Return the indices of the messages, best first. Ties are ordered by conversation and
        line, which a rebuilt index does not change.
        """
        by_id = sorted(range(len(self.conversations)), key=lambda at: self.conversations[at].id)
        rank = np.empty(len(by_id), np.int64)
        rank[by_id] = np.arange(len(by_id))
        keys = (self.messages.sequences, rank[self.message_legs.conversation], -self.order.messages)
        best: list[int] = np.lexsort(keys).tolist()
        return best

    def best_conversations(self) -> list[int]:
        """Return the indices of the conversations, best first. Ties are ordered by the
        conversation's id.
        """
        order = self.order.conversations.tolist()
        return sorted(range(len(order)), key=lambda at: (-order[at], self.conversations[at].id))


def gather(
    index: Index,
    meaning: Meaning,
    query: str,
    terms: QueryTerms,
    scope: Scope,
    most: int,
    deadline: Deadline,
    now: int,
    embedded: int | None = None,
    telemetry: Telemetry = UNMEASURED,
) -> Candidates:
    """Run every leg. `most` conversations are found by all their words at the least, if there are
    so many.

    `now` is the time of asking: what the dates in the query are told from. Of the query so many
    bytes are `embedded` at most, and they are brief (`Meaning.ask`); None: as many as the embedder
    takes. Raises IndexUnavailable, CallerGone, DeadlineExceeded.
    """
    degraded: dict[str, str] = {}
    if len(query) > MAX_TEXT:
        query, degraded = query[:MAX_TEXT], dict.fromkeys(KEYWORD_LEGS, KEYWORD_BUDGET)
    now = now if scope.end is None else min(now, scope.end)
    dates = read_dates(query, now)
    within = index.search.numbers_of(scope.conversations)
    text = without_dates(query, dates).encode()[:embedded].decode(errors="ignore")
    # embedded while the words are looked for
    with _question_of(
        index, meaning, text, scope, within, telemetry, is_brief=embedded is not None
    ) as scans_when_ready:
        with telemetry.step(Step.WORDS):
            words = index.search.keyword(terms.chosen, scope, within)
            deadline.check()
            counts = words.postings.counts()
            numbers, whole, noted = _by_all_words(index, terms.chosen, words, counts, scope, within)
            deadline.check()
            keyword = words.best(_SCORED)
        deadline.check()
        scans, late = scans_when_ready()
    degraded |= late
    deadline.check()
    hidden = np.array(sorted(scope.hidden), np.int64)
    visible = ~among(keyword.ids, hidden)
    best = Bm25(keyword.ids[visible], keyword.scores[visible]).best(_MESSAGES)
    near, abbreviated = _NO_IDS, _NO_IDS
    if scans:
        with telemetry.step(Step.VECTORS):
            near, abbreviated = _near(scans, len(hidden))
    deadline.check()
    dated = _NO_IDS
    if dates and asks_of_dates(query):
        with telemetry.step(Step.DATES):
            dated, keyword = _dated(index, words, scope, scans, dates, keyword)
    deadline.check()
    with telemetry.step(Step.RANKING):
        retrieved = _union(best - 1, best, best + 1, near, dated)
        shown = index.search.showable(retrieved[~among(retrieved, hidden)], scope)
        leading = numbers[highest(whole, most)]
        conversations = index.conversations.outlines(_union(leading, abbreviated, shown.numbers))
        there = np.array([outline.number for outline in conversations], np.int64)
        messages = shown.only(among(shown.numbers, there))
        deadline.check()
        of_messages = _message_legs(query, messages, there, keyword, scans)
        deadline.check()
        of_conversations, compared = _conversation_legs(
            conversations, there, _Values(numbers, whole), of_messages, scans
        )
        if dates:
            dates = read_dates(query, now, int(messages.times.max(initial=0)) or now)
        deadline.check()
        cosines = _whitened(messages.ids, scans)
        sections = by_sections(
            index, words.postings, counts, conversations, of_messages, compared, cosines
        )
        deadline.check()
        normal = words.normal(_SCORED)
        judged = (
            (of_messages, of_conversations)
            if normal is None
            else _normal(messages, normal, of_messages, of_conversations)
        )
        weights = terms.words
        question = Question(query, dates, unsaid(weights, judged[0].keyword))
        order = _rounded(fuse(question, of_messages, compared, sections))
        # "today" is said in passing
        if (past := tuple(it for it in dates if it.end <= now)) and asks_of_dates(query):
            weights, judged = with_dates(
                weights, *judged, dates_of(Question(query, past), of_messages)
            )
        is_few = weights.vocabulary < 1  # elsewhere it makes no difference
        scores = _rounded(
            calibrated(order, weights, *judged, is_foreign=is_few and is_foreign(query))
        )
    total = len(numbers) + int((~among(there, numbers)).sum())
    if words.postings.is_cut or not weights.is_whole:
        degraded |= dict.fromkeys(KEYWORD_LEGS, KEYWORD_BUDGET)
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
        words,
        scans,
        degraded,
    )


def _rounded(fused: Fused) -> Fused:
    return Fused(np.round(fused.messages, _DIGITS), np.round(fused.conversations, _DIGITS))


def legs_of_messages(candidates: Candidates) -> dict[str, Array]:
    """Return each retriever's scores of the messages: BM25 as a share of the best, or a cosine."""
    legs, above = candidates.message_legs, candidates.conversation_legs
    return {
        "keyword_messages": share(legs.keyword),
        "keyword_conversations": share(above.keyword)[legs.conversation],
        "vector_messages": legs.vector,
        "vector_windows": legs.window,
        "vector_abbreviations": above.abbreviation[legs.conversation],
    }


def legs_of_conversations(candidates: Candidates) -> dict[str, Array]:
    """Return each retriever's scores of the conversations, likewise."""
    legs = candidates.conversation_legs
    return {
        "keyword_messages": share(legs.message_keyword),
        "keyword_conversations": share(legs.keyword),
        "vector_messages": legs.vector,
        "vector_windows": legs.window,
        "vector_abbreviations": legs.abbreviation,
    }


@contextmanager
def _question_of(
    index: Index,
    meaning: Meaning,
    query: str,
    scope: Scope,
    within: NDArray[np.int64] | None,
    telemetry: Telemetry,
    *,
    is_brief: bool,
) -> Iterator[Callable[[], tuple[Scans | None, dict[str, str]]]]:
    """Begin to embed the query, and yield what waits for its scans. These come with the reasons why
    they miss something, or are None.

    A search that fails meanwhile leaves no work behind: so its callers, who may give up and ask
    again at once, never have more questions embedded than they have threads.
    """
    if not meaning.on or is_gibberish(query):
        yield lambda: (None, {})
        return
    future: Future[Scans] = Future()
    try:
        future = meaning.ask(
            query, index, within, scope.start, scope.end, is_brief=is_brief, telemetry=telemetry
        )
    except MeaningUnavailable as error:
        future.set_exception(error)

    def scans() -> tuple[Scans | None, dict[str, str]]:
        try:
            prepared = future.result()
        except MeaningUnavailable as error:
            return None, dict.fromkeys(VECTOR_LEGS, str(error))
        backlog = meaning.backlog()
        return prepared, dict.fromkeys(VECTOR_LEGS, backlog) if backlog else {}

    try:
        yield scans
    finally:
        if not future.cancel():
            wait((future,))


def _by_all_words(
    index: Index,
    terms: list[Term],
    words: KeywordScores,
    counts: Counts,
    scope: Scope,
    within: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], Array, set[int]]:
    """Return the conversations in the scope that have any of the words in their messages or their
    notes, with BM25 of all their words, to which that of their notes is added; and which of them
    have any in their notes.
    """
    if not terms:
        return np.zeros(0, np.int64), np.zeros(0), set()
    numbers, scores = conversation_bm25(counts, *index.search.lengths())
    # Of a time: a conversation's own times do not say which of its words were said then.
    allowed = words.conversations() if scope.timed else within
    if allowed is not None:
        inside = among(numbers, allowed)
        numbers, scores = numbers[inside], scores[inside]
    noted, note_scores = _by_notes(index, terms, scope, within)
    union = _union(numbers, noted)
    total = _Values(numbers, scores).of(union, 0) + _NOTES * _Values(noted, note_scores).of(
        union, 0
    )
    return union, total, {*noted.tolist()}


def _by_notes(
    index: Index, terms: list[Term], scope: Scope, within: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], Array]:
    """Return the conversations in the scope whose notes fit best, and BM25 of their notes."""
    numbers, scores = index.search.notes_scores(terms, _NOTED)
    inside = np.ones(len(numbers), np.bool_)
    if within is not None:
        inside &= among(numbers, within)
    if scope.timed:  # notes are of a whole conversation: a time finds those that lie within it
        inside &= among(numbers, index.search.numbers_within(scope.start, scope.end))
    return numbers[inside], scores[inside]


def _dated(
    index: Index,
    words: KeywordScores,
    scope: Scope,
    scans: Scans | None,
    dates: tuple[Mention, ...],
    keyword: Bm25,
) -> tuple[NDArray[np.int64], Bm25]:
    """Return the best messages of the times that the question names, by each leg, and BM25 with
    that of their words added.

    Without them the few of one week would not be among the best of many years.
    """
    parts = [_NO_IDS]
    for it in dates:
        start = max(int(it.begin), scope.start) if scope.start is not None else int(it.begin)
        end = min(int(it.end), scope.end) if scope.end is not None else int(it.end)
        if start >= end:
            continue
        period = replace(scope, start=start, end=end)
        scores = words.best_between(start, end, _DATED)
        keyword = keyword.joined(scores)
        parts.append(scores.ids)
        if scans:
            parts.append(scans.messages.nearest_of(start, end, _DATED).ids)
        parts.append(index.search.said_in(period, _DATED))
    return _union(*parts), keyword


def _near(scans: Scans, hidden: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the messages that are near to the question by themselves or with their neighbours, and
    conversations by their notes.

    So many of the messages may be `hidden`.
    """
    most = _MESSAGES + hidden
    near = _union(_fits(scans.messages.nearest(most)), _fits(scans.messages.nearest_windows(most)))
    return near, _union(_fits(scans.abbreviations.nearest(_ABBREVIATIONS)) >> SEQUENCE_BITS)


def _fits(scores: Scores) -> NDArray[np.int64]:
    return scores.ids[scores.cosines >= LEAST]


def _union(*parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what is in any of the arrays, ascending, each once. Faster than `np.unique`."""
    joined = np.concatenate(parts)
    joined.sort()
    once: NDArray[np.int64] = joined[starts(joined)]
    return once


def _message_legs(
    query: str, messages: Messages, numbers: NDArray[np.int64], keyword: Bm25, scans: Scans | None
) -> MessageLegs:
    """Return what each leg says of these messages; `numbers` are those of the conversations that
    they are of, ascending.
    """
    ids = messages.ids
    words = _Values(keyword.ids, keyword.scores).of(ids + _AROUND, 0)
    vectors = np.full((3, len(ids)), np.nan)
    windows, marks = vectors[0], np.full((2, len(ids)), -1)
    if scans:
        beside = ids + _AROUND[1:4]
        scores, marked = scans.messages.of(_union(*beside))
        vectors = _Values(scores.ids, scores.cosines).of(beside)
        marks = _Values(scores.ids, marked).of(beside[:2], -1).astype(np.int64)
        windows = _Values(*scans.messages.windows_of(ids)).of(ids)
    before, own = marks
    return MessageLegs(
        conversation=np.searchsorted(numbers, messages.numbers),
        keyword=words[2],
        keyword_before=words[1::-1],
        keyword_after=words[3:],
        vector=vectors[1],
        vector_before=vectors[0],
        vector_after=vectors[2],
        window=windows,
        tokens=messages.tokens.astype(np.float64),
        sequence=messages.sequences.astype(np.float64),
        time=messages.times.astype(np.float64),
        role=np.where(own < 0, np.nan, roles(own)),
        answers_question=np.where(before < 0, np.nan, asks(before)),
        named=np.where(own < 0, np.nan, _named(own, query)),
    )


def _named(marks: NDArray[np.int64], question: str) -> NDArray[np.bool_]:
    """Return for each message whether the question has its sender's first name among its first
    words.
    """
    first = islice(dict.fromkeys(_WORD.findall(question.lower())), MAX_WORDS)
    return among(names(marks), np.sort(np.array([*map(name_hash, first)], np.int64)))


def _conversation_legs(
    conversations: list[Outline],
    numbers: NDArray[np.int64],
    whole: "_Values",
    messages: MessageLegs,
    scans: Scans | None,
) -> tuple[ConversationLegs, ConversationLegs]:
    """Return the legs of the conversations; and those that compare them, with the nearest messages'
    cosines to the question without what all messages have in common. Scores take the former
    (`docs/decisions/ranking.md`).
    """
    unknown = np.full(len(numbers), np.nan)
    best, of_users, window, mean, whitened, abbreviation = (unknown,) * 6
    mean_vector = np.zeros((len(numbers), DIMENSIONS), np.float32)
    if scans:
        near = scans.messages.conversations(numbers)
        best, of_users, window, mean, whitened = (
            _Values(near.numbers, values).of(numbers)
            for values in (near.best, near.best_of_users, near.window, near.mean, near.whitened)
        )
        mean_vector[np.searchsorted(numbers, near.numbers)] = near.mean_vector
        abbreviation = _Values(*scans.abbreviations.best_of(numbers)).of(numbers)
    legs = ConversationLegs(
        keyword=whole.of(numbers, 0),
        message_keyword=_best_of_messages(messages.conversation, messages.keyword, len(numbers)),
        vector=best,
        user_vector=of_users,
        window=window,
        vector_mean=mean,
        mean_vector=mean_vector,
        abbreviation=abbreviation,
        messages=np.array([it.message_count for it in conversations], float),
        begin=np.array([it.create_time for it in conversations], float),
    )
    is_whitened = scans is not None and scans.messages.is_whitened
    return legs, replace(legs, vector=whitened) if is_whitened else legs


def _whitened(ids: NDArray[np.int64], scans: Scans | None) -> Callable[[], Array] | None:
    """Return how to get the cosines of messages by which conversations are compared; None if they
    are their own.
    """
    if scans is None or not scans.messages.is_whitened:
        return None
    messages = scans.messages
    return lambda: _Values(*messages.whitened_of(ids)).of(ids)


def _normal(
    candidates: Messages, words: Bm25, messages: MessageLegs, conversations: ConversationLegs
) -> tuple[MessageLegs, ConversationLegs]:
    """Return the legs with the BM25 that a larger store would give: the ranking compares messages,
    the calibration does not.
    """
    keyword = _Values(words.ids, words.scores).of(candidates.ids + _AROUND, 0)
    best = _best_of_messages(messages.conversation, keyword[2], len(conversations.keyword))
    return (
        replace(
            messages, keyword=keyword[2], keyword_before=keyword[1::-1], keyword_after=keyword[3:]
        ),
        replace(
            conversations, message_keyword=best, keyword=np.maximum(conversations.keyword, best)
        ),
    )


def _best_of_messages(conversation: NDArray[np.int64], keyword: Array, count: int) -> Array:
    best = np.zeros(count)
    np.maximum.at(best, conversation, keyword)
    return best


@dataclass(frozen=True, slots=True)
class _Values:
    """Values by name, to be asked for many names at once."""

    names: NDArray[np.int64]
    """Ascending."""
    values: NDArray[np.floating] | NDArray[np.int64]

    def of(self, names: NDArray[np.int64], missing: float = np.nan) -> Array:
        """Return the values of these names, and `missing` for each name without one."""
        if not len(self.names):
            return np.full(names.shape, missing, np.float64)
        at = self.names.searchsorted(names)
        return np.where(
            self.names.take(at, mode="clip") == names, self.values.take(at, mode="clip"), missing
        )
