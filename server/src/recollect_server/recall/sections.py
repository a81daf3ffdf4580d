"""Sections: a long conversation is ranked as if each of its parts were a conversation.

What a message's conversation says of it counts much in the ranking. Of one that goes on for years
this says nothing: with a history of RealMem in one conversation, by words, a question has a right
message among the first ten in 31 % of cases, split into its conversations in 58 %. So a long
conversation is split where it was quiet, and messages are judged beside those of their section.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.ids import MAX_LINES, SEQUENCE_BITS
from recollect_server.kernel.index.conversations import Outline
from recollect_server.recall.fusion import FIRST_LINE
from recollect_server.recall.retrievers import Array, ConversationLegs, MessageLegs
from recollect_server.recall.search import SECTION, Search, Sections
from recollect_server.text.ranking import Counts, Postings, conversation_bm25, starts

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
