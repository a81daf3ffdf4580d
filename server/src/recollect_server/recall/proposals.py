"""Proposals of the retrievers: the messages and conversations that fit a query by their words or by
their meaning.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.filters import SearchScope
from recollect_server.kernel.domain.ids import SEQUENCE_BITS
from recollect_server.kernel.domain.telemetry import Step, Telemetry
from recollect_server.kernel.domain.time import Deadline
from recollect_server.kernel.index.index import Index
from recollect_server.recall.candidates import LEAST, VECTOR_LEGS
from recollect_server.recall.dates.dates import (
    Mention,
    asks_of_dates,
    asks_only_of_dates,
    days_named,
    is_only_of_dates,
    looks_back,
    read_dates,
    without_dates,
)
from recollect_server.recall.identifiers import (
    all_named,
    identifiers_of,
    messages_named,
    otherwise_spelled,
    unsaid_share,
)
from recollect_server.recall.meaning import Meaning, MeaningUnavailable, Scans
from recollect_server.recall.postings import KeywordScores
from recollect_server.recall.retrievers import Values
from recollect_server.recall.search import Search
from recollect_server.recall.vectors.scan import Scores
from recollect_server.text.ranking import Bm25, Counts, among, conversation_bm25, highest, union
from recollect_server.text.text import is_gibberish, normal_form
from recollect_server.text.words import MAX_TEXT, QueryTerms

# How much of each leg is looked at. Twice of each changed nothing for the better, half of each cost
# 0.4 points of messages any@10 (`docs/decisions/retrieval-depth.md`).
_MESSAGES = 200  # the best messages of each leg
_ABBREVIATIONS = 50  # the best of them
_NOTED = 200  # conversations that are found by the words of their notes
_TITLED = 20  # conversations of one title: one that more have is a subject
_NOTES = 0.5  # what BM25 of a conversation's notes counts beside BM25 of all its words
_DATED = 100  # messages of a time that the question names, by each leg
SCORED = 1500
"""Messages whose words are scored. For the others, found by their meaning, words count nothing."""
_GOVERNS = 0.35
"""Cosine from which on the nearest standing instruction governs the answer to a question."""
_NO_IDS = np.zeros(0, np.int64)
Hides = Callable[[NDArray[np.int64]], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Request:
    query: str
    scope: SearchScope
    most: int
    """Conversations that are found by all their words at the least, if there are so many."""
    now: int
    """Time of asking, relative to which the dates in the query are resolved."""
    embedded: int | None = None
    """Bytes of the query that are embedded at most, and they are brief (`Meaning.ask`); None: as
    many as the embedder takes.
    """
    hides: Hides | None = None
    """Given the messages that have all words of the query, says which are no candidates."""
    zone: tzinfo = UTC
    """Time zone of the dates in the query."""
    is_typed: bool = False
    """True if somebody types it: its last word may be the beginning of a word."""
    instructions: Callable[[], Sequence[tuple[str, int]]] | None = None
    """Returns the conversation and the line of each message with a standing instruction."""


@dataclass(frozen=True, slots=True)
class Query:
    """A request as it was read: its texts, its dates and its scope."""

    text: str
    now: int
    dates: tuple[Mention, ...]
    is_everything: bool
    """True if all that is stored was said in one of these times: it tells none from others."""
    is_word: bool
    """True if it is nothing but the name of such a time, as "2025": its words are searched for."""
    wording: str
    """Text whose words are searched for: the whole query without its dates; none where nothing but
    a time is asked for, and something was said then.
    """
    identifiers: list[tuple[str, ...]]
    """Words of each identifier that it names."""
    meant: str
    """Text that is embedded."""
    is_brief: bool
    scope: SearchScope
    within: NDArray[np.int64] | None
    """Numbers of the conversations in the scope; None: all."""
    hides: Hides | None = None
    """As in Request."""
    zone: tzinfo = UTC
    """As in Request."""
    is_typed: bool = False
    """As in Request."""
    instructions: Callable[[], Sequence[tuple[str, int]]] | None = None
    """As in Request."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """Candidates that the retrievers propose, and what they know of all that is stored."""

    messages: NDArray[np.int64]
    """Ids of messages that fit, and of those beside them."""
    abbreviated: NDArray[np.int64]
    """Numbers of conversations whose notes are near."""
    terms: QueryTerms
    words: KeywordScores
    counts: Counts
    keyword: Bm25
    whole: Values
    """BM25 of conversations by all their words, by number."""
    noted: set[int]
    titled: NDArray[np.int64]
    """Numbers of conversations, ascending, whose title has all words of the question."""
    scans: Scans | None
    named: list[NDArray[np.int64]]
    """The messages that have each identifier of the question."""
    unsaid: float
    """Share of the question's weight in identifiers that nobody said (`unsaid_share`)."""
    looking_back: NDArray[np.int64]
    """Ids of messages, ascending, that name a day that the question names: "yesterday" on the day
    behind it.
    """
    governing: NDArray[np.int64]
    """The message with the standing instruction that governs the answer; none without one."""
    late: dict[str, str]
    """Reasons why less was found by meaning than could be."""


def read(index: Index, request: Request) -> Query:
    """Return what a request asks for."""
    scope = request.scope
    text = request.query[:MAX_TEXT]
    now = request.now if scope.end is None else min(request.now, scope.end)
    dates = read_dates(text, now, zone=request.zone)
    is_whole = text == request.query and now == request.now
    of_whole = dates if is_whole else read_dates(request.query, request.now, zone=request.zone)
    within = Search(index).numbers_of(scope.conversations)
    is_everything = any(not Search(index).has_outside(int(it.begin), int(it.end)) for it in dates)
    is_word = is_everything and is_only_of_dates(text, dates)
    is_time = (
        asks_only_of_dates(text, dates, now)
        and not is_word
        and len(_said_then(index, scope, dates, 1)) > 0
        and not any(_is_spoken_of(index, it, scope, within) for it in days_named(text, dates))
    )
    meant = "" if is_time else normal_form(without_dates(text, dates))
    wording = "" if is_time else without_dates(request.query, of_whole)
    spoken = normal_form(text)
    wording, spelled = otherwise_spelled(
        Search(index), wording, (spoken[it.first : it.last] for it in dates)
    )
    return Query(
        text,
        now,
        dates,
        is_everything,
        is_word,
        wording=wording,
        identifiers=[*identifiers_of(text, dates), *spelled],
        meant=meant.encode()[: request.embedded].decode(errors="ignore"),
        is_brief=request.embedded is not None,
        scope=scope,
        within=within,
        hides=request.hides,
        zone=request.zone,
        is_typed=request.is_typed,
        instructions=request.instructions,
    )


def _is_spoken_of(
    index: Index, day: str, scope: SearchScope, within: NDArray[np.int64] | None
) -> bool:
    """Return whether a message has all words of a day: what is asked of may have been said of it on
    another one.
    """
    terms = Search(index).terms(day)
    words = dict.fromkeys(terms.rarities)
    return (
        bool(words)
        and len(Search(index).keyword(terms.chosen, scope, within).with_all([*words])) > 0
    )


def propose(
    index: Index, meaning: Meaning, query: Query, deadline: Deadline, telemetry: Telemetry
) -> Proposals:
    """Run the retrievers. The question is embedded while its words are looked for."""
    with _question_of(index, meaning, query, telemetry) as scans_when_ready:
        with telemetry.step(Step.WORDS):
            terms = Search(index).terms(query.wording, is_typed=query.is_typed)
            words = Search(index).keyword(terms.chosen, query.scope, query.within)
            deadline.check()
            counts = words.postings.counts()
            whole, noted, titled = _by_all_words(index, query, terms, words, counts)
            deadline.check()
            keyword = words.best(SCORED)
            named = messages_named(query.identifiers, terms, words)
            unsaid = unsaid_share(query.identifiers, terms, words)
        deadline.check()
        scans, late = scans_when_ready()
    deadline.check()
    hidden = np.array(sorted(query.scope.hidden), np.int64)
    if query.hides and terms.rarities:
        hidden = union(hidden, query.hides(words.with_all([*terms.rarities])))
    visible = ~among(keyword.ids, hidden)
    best = Bm25(keyword.ids[visible], keyword.scores[visible]).best(_MESSAGES)
    near, abbreviated = _NO_IDS, _NO_IDS
    if scans:
        with telemetry.step(Step.VECTORS):
            near, abbreviated = _near(scans, len(hidden))
    deadline.check()
    dated, looking_back = _NO_IDS, _NO_IDS
    if query.dates and not query.is_word and asks_of_dates(query.text):
        with telemetry.step(Step.DATES):
            dated, keyword = _dated(index, query, words, scans, keyword)
            looking_back = _looking_back(index, query)
    deadline.check()
    governing = _governing(index, query, scans, hidden) if scans else _NO_IDS
    of_words = union(best - 1, best, best + 1)
    messages = union(of_words, near, dated, looking_back, all_named(named), governing)
    messages = messages[~among(messages, hidden)]
    return Proposals(
        messages,
        abbreviated,
        terms,
        words,
        counts,
        keyword,
        whole,
        noted,
        titled,
        scans,
        named,
        unsaid,
        looking_back,
        governing,
        late,
    )


@contextmanager
def _question_of(
    index: Index, meaning: Meaning, query: Query, telemetry: Telemetry
) -> Iterator[Callable[[], tuple[Scans | None, dict[str, str]]]]:
    """Begin to embed the question in its own thread, and yield a function that waits for the scans
    of the vectors. It returns them (None where nothing is embedded) and, by retriever, why one
    misses something.

    A search that fails meanwhile leaves no work behind: so its callers, who may give up and ask
    again at once, never have more questions embedded than they have threads.
    """
    if not meaning.on or is_gibberish(query.meant):
        yield lambda: (None, {})
        return
    future: Future[Scans] = Future()
    try:
        future = meaning.ask(
            query.meant,
            index,
            query.within,
            query.scope.start,
            query.scope.end,
            is_brief=query.is_brief,
            telemetry=telemetry,
        )
    except MeaningUnavailable as error:
        future.set_exception(error)

    def scans() -> tuple[Scans | None, dict[str, str]]:
        try:
            prepared = future.result()
        except MeaningUnavailable as error:
            return None, dict.fromkeys(VECTOR_LEGS, str(error))
        backlog = meaning.backlog() or prepared.lack
        return prepared, dict.fromkeys(VECTOR_LEGS, backlog) if backlog else {}

    try:
        yield scans
    finally:
        if not future.cancel():
            wait((future,))


def _by_all_words(
    index: Index, query: Query, terms: QueryTerms, words: KeywordScores, counts: Counts
) -> tuple[Values, set[int], NDArray[np.int64]]:
    """Return the conversations in the scope that have any of the words in their messages or their
    notes, with BM25 of all their words, to which that of their notes is added; which of them have
    any in their notes; and which have all in their title, if these are at most `_TITLED`.
    """
    if not terms.chosen:
        return Values(_NO_IDS, np.zeros(0)), set(), _NO_IDS
    numbers, scores = conversation_bm25(counts, *Search(index).lengths())
    # Of a time: a conversation's own times do not say which of its words were said then.
    allowed = words.conversations() if query.scope.timed else query.within
    if allowed is not None:
        inside = among(numbers, allowed)
        numbers, scores = numbers[inside], scores[inside]
    notes, titled = _by_notes(index, query, terms)
    either = union(numbers, notes.names)
    total = Values(numbers, scores).of(either, 0) + _NOTES * notes.of(either, 0)
    return Values(either, total), {*notes.names.tolist()}, titled


def _by_notes(index: Index, query: Query, terms: QueryTerms) -> tuple[Values, NDArray[np.int64]]:
    """Return BM25 of the notes of the conversations in the scope whose notes fit best, and which of
    them have all words in their title.
    """
    numbers, scores, titled = Search(index).notes_scores(terms, _NOTED)
    inside = np.ones(len(numbers), np.bool_)
    if query.within is not None:
        inside &= among(numbers, query.within)
    if (
        query.scope.timed
    ):  # notes are of a whole conversation: a time finds those that lie within it
        inside &= among(numbers, Search(index).numbers_within(query.scope.start, query.scope.end))
    titled = titled[among(titled, numbers[inside])]
    return Values(numbers[inside], scores[inside]), titled if len(titled) <= _TITLED else _NO_IDS


def _near(scans: Scans, hidden: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the messages that are near to the question, and conversations by their notes.

    So many of the messages may be `hidden`.
    """
    near = np.sort(_fits(scans.messages.nearest(_MESSAGES + hidden)))
    return near, union(_fits(scans.abbreviations.nearest(_ABBREVIATIONS)) >> SEQUENCE_BITS)


def _governing(
    index: Index, query: Query, scans: Scans, hidden: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the message in the scope with the standing instruction that is nearest to the
    question, if it is near.
    """
    places = query.instructions() if query.instructions else ()
    if not places:
        return _NO_IDS
    numbers = index.conversations.numbers([*{name for name, _ in places}])
    ids = union(
        np.array(
            [(numbers[name] << SEQUENCE_BITS) + line for name, line in places if name in numbers],
            np.int64,
        )
    )
    ids = ids[~among(ids, hidden)]
    if query.within is not None:
        ids = ids[among(ids >> SEQUENCE_BITS, query.within)]
    scores, _ = scans.messages.of(ids)
    near = scores.cosines >= _GOVERNS
    if query.scope.timed:
        near &= among(scores.ids, Search(index).showable(scores.ids, query.scope).ids)
    return scores.ids[near][highest(scores.cosines[near], 1)]


def _fits(scores: Scores) -> NDArray[np.int64]:
    return scores.ids[scores.cosines >= LEAST]


def _dated(
    index: Index, query: Query, words: KeywordScores, scans: Scans | None, keyword: Bm25
) -> tuple[NDArray[np.int64], Bm25]:
    """Return the best messages of the times that the question names, by each leg, and BM25 with
    that of their words added.

    Without them the few of one week would not be among the best of many years.
    """
    parts = [_said_then(index, query.scope, query.dates, _DATED)]
    for period in _periods(query.scope, query.dates):
        scores = words.best_between(*period, _DATED)
        keyword = keyword.joined(scores)
        parts.append(scores.ids)
        if scans:
            parts.append(scans.messages.nearest_of(*period, _DATED).ids)
    return union(*parts), keyword


def _looking_back(index: Index, query: Query) -> NDArray[np.int64]:
    """Return the messages of the scope that name a day of the question from behind it. Of a day
    that counts from the time of asking there are none: who asks of yesterday has just said so.
    """
    ids = _NO_IDS
    for date in query.dates:
        is_past = date.end <= query.now and not date.is_relative
        for it in looks_back(date, query.zone) if is_past else ():
            for start, end in _within(query.scope, it.begin, it.end):
                terms = [
                    replace(term, only_ranks=False)
                    for term in Search(index).terms(it.words).chosen
                    if not term.is_near
                ]
                words = Search(index).keyword(terms, query.scope, query.within)
                ids = union(ids, words.best_between(start, end, _DATED).ids)
    return ids


def _said_then(
    index: Index, scope: SearchScope, dates: Sequence[Mention], most: int
) -> NDArray[np.int64]:
    """Return messages of the scope that were said in each of the times that a question names."""
    periods = (replace(scope, start=start, end=end) for start, end in _periods(scope, dates))
    return union(_NO_IDS, *(Search(index).said_in(it, most) for it in periods))


def _periods(scope: SearchScope, dates: Sequence[Mention]) -> Iterator[tuple[int, int]]:
    """Give the times that a question names, as far as the scope goes."""
    for it in dates:
        yield from _within(scope, int(it.begin), int(it.end))


def _within(scope: SearchScope, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Give a time as far as the scope goes: nothing beyond it."""
    start = start if scope.start is None else max(start, scope.start)
    end = end if scope.end is None else min(end, scope.end)
    if start < end:
        yield start, end
