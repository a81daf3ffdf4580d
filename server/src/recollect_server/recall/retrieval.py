"""Retrieval: run the retrievers of a search, and rank what they find.

`gather` takes three steps. The retrievers propose messages and conversations, by their words in the
index and by their meaning in the vectors (`proposals`); each candidate gets the score of every
retriever, whichever proposed it (`_judge`); the scores become one ranking and probabilities
(`_rank`). The words of the best messages are compared with those of the question one by one
(`word_matches`).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.telemetry import UNMEASURED, Step, Telemetry
from recollect_server.kernel.domain.time import Deadline
from recollect_server.kernel.index.conversations import Outline
from recollect_server.kernel.index.index import Index
from recollect_server.recall.calibration import (
    calibrated,
    of_small_talk,
    with_dates,
    without_identifier,
)
from recollect_server.recall.candidates import KEYWORD_LEGS, Candidates
from recollect_server.recall.dates.dates import asks_of_dates, read_dates, words_of_dates
from recollect_server.recall.fusion import dates_of, fuse, unsaid, with_identifiers, with_titles
from recollect_server.recall.identifiers import shares
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.proposals import SCORED, Proposals, Query, Request, propose, read
from recollect_server.recall.retrievers import (
    Array,
    ConversationLegs,
    Fused,
    Matches,
    MessageLegs,
    Question,
    conversation_legs,
    message_legs,
    whitened_cosines,
    with_normal_words,
)
from recollect_server.recall.search import Messages, Search
from recollect_server.recall.sections import by_sections
from recollect_server.recall.word_matches import word_matches
from recollect_server.text.languages import says_little
from recollect_server.text.ranking import among, highest, union
from recollect_server.text.words import MAX_TEXT

KEYWORD_BUDGET = (
    "keyword_budget: the words are so common, or so many, that a part of their places was searched;"
    " ask with rarer words, fewer words or a narrower filter"
)
"""Reason of `degraded` where a search used up its budget."""
_DIGITS = 9  # of a score: sums that were added up in another order, as over a new index, are equal


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The candidates, and what each retriever says of them."""

    messages: Messages
    conversations: list[Outline]
    numbers: NDArray[np.int64]
    """Numbers of the conversations, ascending."""
    of_messages: MessageLegs
    of_conversations: ConversationLegs
    compared: ConversationLegs
    """Legs by which the conversations are compared (`retrievers.conversation_legs`)."""


def gather(
    index: Index,
    meaning: Meaning,
    request: Request,
    deadline: Deadline,
    telemetry: Telemetry = UNMEASURED,
) -> Candidates:
    """Run every retriever, and rank what they find. Raises IndexUnavailable, CallerGone,
    DeadlineExceeded.
    """
    query = read(index, request)
    proposals = propose(index, meaning, query, deadline, telemetry)
    with telemetry.step(Step.RANKING):
        evidence = _judge(index, query, proposals, request.most, deadline)
        order, scores, matches = _rank(index, query, proposals, evidence, deadline)
    degraded = proposals.late
    is_partly_searched = proposals.words.postings.is_cut or not proposals.terms.words.is_whole
    if is_partly_searched or len(request.query) > MAX_TEXT:
        degraded = degraded | dict.fromkeys(KEYWORD_LEGS, KEYWORD_BUDGET)
    found_otherwise = int((~among(evidence.numbers, proposals.whole.names)).sum())
    return Candidates(
        messages=evidence.messages,
        message_scores=scores.messages.tolist(),
        message_legs=evidence.of_messages,
        conversations=evidence.conversations,
        conversation_scores=scores.conversations.tolist(),
        conversation_legs=evidence.of_conversations,
        matches=matches,
        order=order,
        total=len(proposals.whole.names) + found_otherwise,
        terms=proposals.terms,
        noted=proposals.noted,
        words=proposals.words,
        scans=proposals.scans,
        degraded=degraded,
    )


def _judge(
    index: Index, query: Query, proposals: Proposals, most: int, deadline: Deadline
) -> _Evidence:
    """Read the candidates, and collect the score that each retriever gives to each of them."""
    shown = Search(index).showable(proposals.messages, query.scope)
    leading = proposals.whole.names[highest(proposals.whole.values, most)]
    conversations = index.conversations.outlines(
        union(leading, proposals.abbreviated, proposals.titled, shown.numbers)
    )
    numbers = np.array([outline.number for outline in conversations], np.int64)
    messages = shown.only(among(shown.numbers, numbers))
    deadline.check()
    of_messages = message_legs(query.text, messages, numbers, proposals.keyword, proposals.scans)
    deadline.check()
    of_conversations, compared = conversation_legs(
        conversations, numbers, proposals.whole, of_messages, proposals.scans
    )
    return _Evidence(messages, conversations, numbers, of_messages, of_conversations, compared)


def _rank(
    index: Index,
    query: Query,
    proposals: Proposals,
    evidence: _Evidence,
    deadline: Deadline,
) -> tuple[Fused, Fused, Matches | None]:
    """Return the order of the candidates, their probabilities, and the scores of their words
    compared one by one.
    """
    messages, now, dates = evidence.messages, query.now, query.dates
    if dates:
        newest = int(messages.times.max(initial=0)) or now
        dates = read_dates(query.text, now, newest, query.zone)
    deadline.check()
    sections = by_sections(
        Search(index),
        proposals.words.postings,
        proposals.counts,
        evidence.conversations,
        evidence.of_messages,
        evidence.compared,
        whitened_cosines(messages.ids, proposals.scans),
    )
    deadline.check()
    legs = evidence.of_messages, evidence.of_conversations
    normal = proposals.words.normal(SCORED)
    if normal is not None:
        legs = with_normal_words(messages, normal, *legs)
    weights = proposals.terms.words
    looking_back = among(messages.ids, proposals.looking_back)
    question = Question(query.text, dates, unsaid(weights, legs[0].keyword), looking_back)
    words = proposals.scans.words if proposals.scans else ()
    dated = words_of_dates(query.text, dates)
    matches: Matches | None = None

    def match(scores: Array) -> Matches | None:
        nonlocal matches
        if words:
            rarities, legs = proposals.terms.rarities, evidence.of_messages
            matches = word_matches(
                words, rarities, messages, legs, evidence.conversations, scores, dated
            )
            deadline.check()
        return matches

    order = fuse(question, evidence.of_messages, evidence.compared, sections, match)
    named = shares(messages.ids, proposals.named)
    order = with_identifiers(order, evidence.of_messages, named)
    order = _rounded(with_titles(order, among(evidence.numbers, proposals.titled)))
    # "today" is said in passing, and a time of all that is stored is a word that everything has
    if (
        not query.is_everything
        and (past := tuple(it for it in dates if it.end <= now))
        and asks_of_dates(query.text)
    ):
        of_past = dates_of(replace(question, dates=past), evidence.of_messages)
        weights, legs = with_dates(weights, *legs, of_past)
    scores = calibrated(order, weights, *legs, matches)
    if says_little(query.text):
        scores = of_small_talk(scores)
    return order, _rounded(without_identifier(scores, proposals.unsaid)), matches


def _rounded(fused: Fused) -> Fused:
    return Fused(np.round(fused.messages, _DIGITS), np.round(fused.conversations, _DIGITS))
