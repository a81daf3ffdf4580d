"""Retrieval: run the retrievers of a search, and rank what they find.

`gather` takes three steps. The retrievers propose messages and conversations, by their words in the
index and by their meaning in the vectors (`proposals`); each candidate gets the score of every
retriever, whichever proposed it (`_judge`); the scores become one ranking and probabilities
(`_rank`). The words of the best messages are compared with those of the question one by one
(`word_matches`).

A long conversation is ranked as if each of its sections were a conversation (`by_sections`). What a
message's conversation says of it counts much in the ranking. Of one that goes on for years this
says nothing: with a history of RealMem in one conversation, by words, a question has a right
message among the first ten in 31 % of cases, split into its conversations in 58 %. So a long
conversation is split where it was quiet, and messages are judged beside those of their section.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.ids import MAX_LINES, SEQUENCE_BITS
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
from recollect_server.recall.fusion import (
    FIRST_LINE,
    dates_of,
    fuse,
    unsaid,
    with_identifiers,
    with_instruction,
    with_titles,
)
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
from recollect_server.recall.search import SECTION, Messages, Search, Sections
from recollect_server.recall.word_matches import word_matches
from recollect_server.text.languages import says_little
from recollect_server.text.ranking import (
    Counts,
    Postings,
    among,
    conversation_bm25,
    highest,
    starts,
    union,
)
from recollect_server.text.words import MAX_TEXT

LONG = 200
"""Messages of a conversation that is split. Meetings of some 400 messages were learned from
whole.
"""
_MOST = 8  # conversations of one search that are split: those with the most candidates


def by_sections(
    search: Search,
    postings: Postings,
    counts: Counts,
    conversations: list[Outline],
    messages: MessageLegs,
    above: ConversationLegs,
    cosines: Callable[[], Array] | None = None,
) -> tuple[MessageLegs, ConversationLegs] | None:
    """Return the legs of the messages, and legs of sections in place of those of long
    conversations; None if no conversation is long (`LONG`). `cosines` returns the whitened cosines
    of the messages; without it `messages.vector` is taken.

    Of the sections only what ranks messages is known: `keyword`, `vector` and `begin`. The
    neighbours of a message count only within its section: what was said last before a quiet hour
    says nothing of what came after it.
    """
    candidates = Counter(messages.conversation.tolist())
    split = [at for at, _ in candidates.most_common() if conversations[at].message_count > LONG][
        :_MOST
    ]
    if not split:
        return None
    of, sequence = messages.conversation.copy(), messages.sequence.copy()
    # lines of the section before and behind each message
    before, behind = np.full((2, len(of)), np.inf)
    count = len(conversations)
    sections: dict[int, Sections] = {}  # by the place of the conversation
    for at in split:
        inside = np.flatnonzero(messages.conversation == at)
        lines = messages.sequence[inside].astype(np.int64)
        section = search.sections(conversations[at].number, np.sort(lines))
        if not len(section.first):
            continue  # its messages are being removed
        place = np.maximum(np.searchsorted(section.first, lines, "right") - 1, 0)
        of[inside] = count + place
        before[inside] = lines - section.first[place]
        behind[inside] = section.last[place] - lines
        sequence[inside] = FIRST_LINE + before[inside]
        count += len(section.first)
        sections[at] = section
    # Only the sections of candidates are compared, as only conversations that were found are.
    used, of = np.unique(
        np.concatenate([np.setdiff1d(np.arange(len(conversations)), split), of]),
        return_inverse=True,
    )
    of = of[len(conversations) - len(split) :]
    unknown = np.full(count - len(conversations), np.nan)
    legs = replace(
        above,
        keyword=_keyword(search, postings, counts, conversations, sections)[used],
        vector=_best(
            cosines() if cosines else messages.vector,
            of,
            np.concatenate([above.vector, unknown])[used],
        ),
        begin=np.concatenate([above.begin, *(it.begin for it in sections.values())])[used],
    )
    nearest = np.arange(2)[:, None]
    return (
        replace(
            messages,
            conversation=of,
            sequence=sequence,
            keyword_before=np.where(before > nearest, messages.keyword_before, 0),
            keyword_after=np.where(behind > nearest, messages.keyword_after, 0),
            vector_before=np.where(before > 0, messages.vector_before, np.nan),
        ),
        legs,
    )


def _best(values: Array, of: NDArray[np.int64], whole: Array) -> Array:
    """Return the values of whole conversations, and of each section its best message's; nan where
    none is known.
    """
    best = np.full(len(whole), np.nan)
    np.fmax.at(best, of, values)
    return np.where(np.isnan(whole), best, whole)


def _keyword(
    search: Search,
    postings: Postings,
    counts: Counts,
    conversations: list[Outline],
    sections: dict[int, Sections],
) -> Array:
    """Return BM25 of the conversations, those that are split included, and of the sections behind
    them.

    How many sections there are, and how many have a term, is about right: only those of candidates
    were read.
    """
    lengths, total, mean = search.lengths()
    whole = np.array([conversations[at].number for at in sections], np.int64)
    not_split = ~np.isin(counts.numbers, whole)
    of_terms, numbers, often = (
        [counts.terms[not_split]],
        [counts.numbers[not_split]],
        [counts.frequencies[not_split]],
    )
    # of each message, once
    first = starts(postings.ids, postings.terms)
    ids, terms = postings.ids[first], postings.terms[first]
    spread = np.bincount(of_terms[0], minlength=int(terms.max(initial=-1)) + 1)
    base, number_of_sections = len(lengths), 0
    for at, section in sections.items():
        inside = np.flatnonzero(ids >> SEQUENCE_BITS == conversations[at].number)
        lines, inside_terms = ids[inside] & MAX_LINES, terms[inside]
        spread += np.bincount(
            inside_terms[starts(lines // SECTION, inside_terms)], minlength=len(spread)
        )
        place = np.searchsorted(section.first, lines, "right") - 1
        read = (place >= 0) & (lines <= section.last[place])
        pairs, times = np.unique(
            inside_terms[read] * len(section.first) + place[read], return_counts=True
        )
        of_terms.append(pairs // len(section.first))
        numbers.append(base + pairs % len(section.first))
        often.append(times)
        base += len(section.first)
        number_of_sections += max(
            len(section.first),
            round(conversations[at].message_count * len(section.first) / section.messages),
        )
    extended = Counts(np.concatenate(of_terms), np.concatenate(numbers), np.concatenate(often))
    all_lengths = np.concatenate([lengths, *(it.bytes for it in sections.values())])
    count = total - len(sections) + number_of_sections
    scores = np.zeros(len(all_lengths))
    scored, values = conversation_bm25(
        extended, all_lengths, count, mean * total / max(count, 1), spread
    )
    scores[scored] = values
    return np.concatenate([scores[[it.number for it in conversations]], scores[len(lengths) :]])


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
    order = with_titles(order, among(evidence.numbers, proposals.titled))
    order = _rounded(with_instruction(order, among(messages.ids, proposals.governing)))
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
