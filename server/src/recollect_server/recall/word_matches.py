"""Late interaction: the words of the best candidates, compared with those of the question one by
one.

A vector holds the meaning of a whole message, and BM25 takes the words as they are. Between the two
lies a message that says "job" where the question says "work". Each word piece of the question is
compared with each of the message, by the codes that the model's run left of them
(`recall.model.word_codes`), and the highest cosine counts (MaxSim, as in ColBERT), weighed by the
rarity of its word. What the messages right before and behind it say counts somewhat less than its
own words. Of a long message its best passage counts: all of it has a piece near to anything.

What is asked belongs to the reply: in a chat the words of a question stand in the message that
asks, and the answer in the next one. So they count half for the former, and wholly for the latter.
Beside an agent that answers at length both fade: there the question is what is looked for.

This reads codes, so only the best messages are compared (`bench/late-interaction.md`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.index.conversations import Outline
from recollect_server.recall.candidates import best_first
from recollect_server.recall.fusion import agents_share
from recollect_server.recall.meaning import AskedWords
from recollect_server.recall.model.embedder import CannotEmbed
from recollect_server.recall.model.questions import marked
from recollect_server.recall.model.word_codes import WIDTH, QuestionPieces
from recollect_server.recall.retrievers import Array, Matches, MessageLegs
from recollect_server.recall.search import Messages
from recollect_server.recall.vectors.file import VectorsUnavailable
from recollect_server.text.languages import STOP_WORDS
from recollect_server.text.ranking import among, union

COMPARED = 60
"""Messages of a search that are compared: those that look best."""
LEAST_KNOWN = 0.5
"""Share of these whose codes are known, below which none is compared."""
NEIGHBOUR = 0.7
"""Factor of a piece that stands in the message right before or behind."""
ASKED, ASKED_BEFORE = 0.5, 1.0
"""Factors, where people talk, of a piece in a sentence that asks: for its own message, and for the
next one, by somebody else.
"""
PASSAGE, STEP = 32, 16
"""Word pieces of a passage, and of which the next one begins behind it."""
MET = 0.5
"""Cosine from which on a word of a message is shown as one that met a word of the question."""
LOWER = 0.1
"""Difference between the nearness of a text about something else by the pieces of
all-MiniLM-L6-v2 and by those of multilingual-e5-small: in open text 0.21 and 0.11, with deviations
of 0.07 and 0.06.
"""
LONGER, TYPICAL = 0.05, 30
"""By how much the nearness of a text by the pieces of multilingual-e5-small falls where it is e
times as long, and the word pieces of one that keeps it: of two texts about something else the
longer one has the nearer pieces.
"""
_COMMON = 0.1  # weight of a piece whose word is in every message, beside its rarity
_EVENLY = 5.0  # how much more the least near word of a question counts than the others
_SHORT = 5  # word pieces that are added, so that a text of one word is no exception
_NOTHING = -0.2  # cosine of a piece to a message that has none
_DIGITS = 9  # of a score: sums that were added up in another order are equal


class PieceCosines(NamedTuple):
    """Cosines of the word pieces of messages with those of a question."""

    cosines: NDArray[np.float32]
    """Those of all messages, one behind the other: [pieces, pieces of the question]."""
    counts: NDArray[np.int64]
    """Number of pieces of each message."""
    asking: NDArray[np.bool_]
    """True of a piece in a sentence that asks: [pieces]."""


class Talk(NamedTuple):
    """Messages that are compared, in order, and how they follow one another."""

    ids: NDArray[np.int64]
    """Ascending."""
    senders: Array
    """A number for the sender of each; nan where it is not known."""
    agents: float
    """By how much an agent answers at length (`fusion.agents_share`)."""


def word_matches(
    models: Sequence[AskedWords],
    rarities: Mapping[str, float],
    messages: Messages,
    legs: MessageLegs,
    conversations: list[Outline],
    scores: Array,
    dated: AbstractSet[str] = frozenset(),
) -> Matches | None:
    """Return how near the best candidates come to the words of the question, each by the first
    model that has read both; None where nothing is compared. `legs` are those of the messages,
    `scores` say which look best. Words of dates (`dated`, in small letters) count nothing: when a
    message was said is asked of its time, and hardly any says the date.
    """
    models = [it for it in models if it.question.words]
    if not models or not len(messages):
        return None
    owners = legs.conversation
    ranked = best_first(np.round(scores, _DIGITS), messages, owners, conversations)
    best = np.sort(ranked[:COMPARED])
    of_best = messages.ids[best]
    beside = np.flatnonzero(among(messages.ids, union(of_best - 1, of_best, of_best + 1)))
    names = [
        (conversations[owner].id, line)
        for owner, line in zip(
            owners[beside].tolist(), messages.sequences[beside].tolist(), strict=True
        )
    ]
    talk = Talk(messages.ids[beside], legs.sender[beside], agents_share(legs))
    near, even = np.full((2, len(beside)), np.nan)
    is_across = np.zeros(len(beside), np.bool_)
    is_best = among(beside, best)
    for words in models:
        if not np.isnan(near[is_best]).any():
            break
        compared = compare(words, names)
        of_model = nearness(compared, weights(words.question, rarities, dated), talk)
        is_new = np.isnan(near) & ~np.isnan(of_model[0])
        level: Array = np.zeros(len(beside))
        if not words.is_main:
            is_across = is_new
            level = LOWER - LONGER * np.log((compared.counts + _SHORT) / (TYPICAL + _SHORT))
        near = np.where(is_new, of_model[0] + level, near)
        even = np.where(is_new, of_model[1] + level, even)
    is_known = ~np.isnan(near)
    if is_known[is_best].mean() < LEAST_KNOWN:
        return None
    is_compared = is_known & is_best
    matches = Matches(
        np.full(len(messages), np.nan),
        np.zeros(len(messages), np.bool_),
        np.full(len(messages), np.nan),
        np.zeros(len(messages), np.bool_),
    )
    matches.near[beside[is_compared]] = near[is_compared]
    matches.even[beside[is_compared]] = even[is_compared]
    matches.is_across[beside[is_compared & is_across]] = True
    matches.lacking[beside[is_best & ~is_known]] = True
    return matches


def compare(words: AskedWords, names: Sequence[tuple[str, int]]) -> PieceCosines:
    """Compare messages, by conversation and line, with the question, and note the cosines of each;
    of one without codes there are none.
    """
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for conversation, line in names:
        lines[conversation].append(line)
    codes: dict[tuple[str, int], tuple[bytes, bytes]] = {}
    with suppress(VectorsUnavailable):
        codes = words.store.codes_of(words.model, lines)
    compared = piece_cosines(words.question, [codes.get(it, (b"", b"")) for it in names])
    ends = np.cumsum(compared.counts).tolist()
    words.cosines.update(
        (name, compared.cosines[start:end])
        for name, start, end in zip(names, [0, *ends], ends, strict=False)
    )
    return compared


def piece_cosines(
    question: QuestionPieces, messages: Sequence[tuple[bytes, bytes]]
) -> PieceCosines:
    """Compare messages with a question: each by its codes, and which of its pieces ask
    (`VectorStore.codes_of`).
    """
    counts = np.array([len(codes) // WIDTH for codes, _ in messages], np.int64)
    pieces = np.frombuffer(b"".join(codes for codes, _ in messages), np.uint8)
    asking = np.zeros(len(pieces) // WIDTH, np.bool_)
    for first, count, (_, of) in zip(
        (np.cumsum(counts) - counts).tolist(), counts.tolist(), messages, strict=True
    ):
        if of:
            asking[first : first + count] = marked(of, count)
    return PieceCosines(question.cosines(pieces.reshape(-1, WIDTH)), counts, asking)


def met_words(
    words: AskedWords, rare: Sequence[int], cosines: NDArray[np.float32], text: str
) -> list[tuple[int, int]]:
    """Return where the words of a message are that come nearest to the rare words of the question,
    in order; none of a message without codes. `rare` are the pieces of those words, `text` is the
    one that was embedded.
    """
    if not len(cosines) or not rare:
        return []
    of_rare = cosines[:, rare]
    nearest = of_rare.argmax(axis=0)[of_rare.max(axis=0) >= MET]
    if not len(nearest):  # to cut a text into pieces is dear
        return []
    with suppress(CannotEmbed):
        met = words.embedder.word_spans(text, {*nearest.tolist()})
        return sorted(it for it in met if text[slice(*it)].lower() not in STOP_WORDS)
    return []


def weights(
    question: QuestionPieces, rarities: Mapping[str, float], dated: AbstractSet[str] = frozenset()
) -> Array:
    """Return what each piece of a question counts, 1 in all: its word's rarity; of a stop word or a
    sign hardly anything, of a date nothing beside other words.
    """
    each = np.array([rarities.get(word, 0.0) + _COMMON for word in question.words])
    others = each * [word not in dated for word in question.words]
    each = others if others.any() else each
    return np.asarray(each / each.sum())


def nearness(compared: PieceCosines, piece_weights: Array, talk: Talk) -> tuple[Array, Array]:
    """Return for each message the weighted mean of the highest cosines, in its best passage or in
    the messages right before and behind it, and how even these are (`Matches`).
    """
    ids, agents = talk.ids, talk.agents
    cosines, asking = compared.cosines, compared.asking[:, None]
    follows = np.flatnonzero(ids[1:] == ids[:-1] + 1)
    whole = _highest(cosines, compared.counts)
    beside = np.full_like(whole, -1.0)
    beside[follows + 1] = whole[follows]
    beside[follows] = np.maximum(beside[follows], whole[follows + 1])
    beside *= NEIGHBOUR
    if asking.any():
        senders = talk.senders
        replies = follows[senders[follows] != senders[follows + 1]] + 1
        earlier = _highest(np.where(asking, cosines, _NOTHING), compared.counts)[replies - 1]
        earlier *= ASKED_BEFORE + (NEIGHBOUR - ASKED_BEFORE) * agents
        beside[replies] = np.maximum(beside[replies], earlier)
    of, passages = _passages(cosines, compared.counts)  # ascending indices of their messages
    highest = np.maximum(passages, beside[of])
    means = highest @ piece_weights
    if asking.any():  # for the rank alone: `even` tells whether this or its reply answers at all
        _, own = _passages(
            np.where(asking, (ASKED + (1 - ASKED) * agents) * cosines, cosines), compared.counts
        )
        means = np.maximum(own, beside[of]) @ piece_weights
    evens = -np.log(np.exp(-_EVENLY * highest) @ piece_weights) / _EVENLY
    near, even = np.full((2, len(ids)), np.nan)
    order = np.lexsort((-np.arange(len(of)), means))  # what is assigned last stays: the best
    near[of[order]], even[of[order]] = means[order], evens[order]
    return np.round(near, _DIGITS), np.round(even, _DIGITS)


def _highest(cosines: NDArray[np.floating], counts: NDArray[np.int64]) -> Array:
    """Return the highest cosines of each message: [messages, pieces of the question]."""
    highest = np.full((len(counts), cosines.shape[1]), _NOTHING)
    some = np.flatnonzero(counts)
    if len(some):
        highest[some] = np.maximum.reduceat(cosines, (np.cumsum(counts) - counts)[some])
    return highest


def _passages(
    cosines: NDArray[np.floating], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.floating]]:
    """Return the highest cosines in each passage of the messages, [passages, pieces of the
    question], and the index of the message of each.
    """
    behind_first = np.maximum(-(-(counts - PASSAGE) // STEP), 0)
    of = np.repeat(np.arange(len(counts)), np.where(counts > 0, behind_first + 1, 0))
    if not len(of):
        return of, cosines[:0]
    place = np.arange(len(of)) - np.searchsorted(of, of)  # among those of its message
    ends = np.cumsum(counts)[of]
    last = np.maximum(counts - PASSAGE, 0)[of]
    begins = ends - counts[of] + np.minimum(place * STEP, last)
    bounds = np.stack([begins, np.minimum(begins + PASSAGE, ends)], axis=1).ravel()
    # a row more, for no passage may end behind the last one
    padded = np.vstack([cosines, np.zeros((1, cosines.shape[1]), np.float32)])
    return of, np.maximum.reduceat(padded, bounds)[::2]
