"""Calibrate the scores of a ranking: make each a probability, which means the same in every answer.

`calibrated` is pure. The score of a candidate becomes the probability that it answers the question,
as far as own questions differ from those of strangers. Where the words of the best candidate were
compared with the question's (`word_matches`), it is a logistic regression over the candidate's own
values (how near all words of the question come, how near the whole is, how far it is behind the
best) and which share of the question nobody said, or everybody says. The order stays: a candidate
has at least the score of those behind it.

Words that the model of other languages compared have weights of their own: its cosines are of
another scale.

By words alone, and where the best candidate is not embedded yet, a score is the probability that
the question is answered there or further down, of a logistic regression over a few features of the
whole answer (`evidence`: how much of the question's rare words was found, how near in meaning, how
far ahead of the field the best is) and two of the candidate (`standing`: how far it is behind the
best, and how much of the ranking's softmax lies at its place and below). The features of the answer
are absolute: they can say that nothing fits.

A store of few messages has fewer that are near a question by chance, so a cosine says more there.
The features of such stores (`few`) fade out until the store has `LEAST_MESSAGES`, and leave the
scores of larger ones as they are.

`bench/calibrate.py` learns the weights in `calibration_weights.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from recollect_server.recall.calibration_weights import ACROSS, COMPARED, CONVERSATIONS, MESSAGES
from recollect_server.recall.fusion import SOFTNESS, known
from recollect_server.recall.retrievers import Array, ConversationLegs, Fused, Matches, MessageLegs
from recollect_server.text.words import QuestionWords

_LEADING = 5  # candidates whose words are averaged
# of a fused score, and of a share of the softmax: below it differences say nothing
_LEAST_ODDS = 1e-9
# candidates of a full ranking, and how far behind the best its median usually is
_FIELD, _FAR = 50, 6.0
_LEAST_SHARE = 0.05  # of the question's words: keeps the logarithm of a share finite
# a time that the question names says as much as a word that one of some 200 messages has
_DATE = 5.0
_UNSAID = 4
"""Power of the share of a question that is not an identifier nobody said. Chosen on questions to
small stores: `docs/decisions/ranking.md`.
"""
_SMALL_TALK = 0.2
"""Factor of the scores of small talk: what says the same is below the threshold of recall."""
_LEAST_WEIGHT = 1e-3  # a question without words has this weight, not 0


@dataclass(frozen=True, slots=True)
class Signals:
    """The input of the features, for one kind of candidates: arrays of shape [n]. Unknown cosines
    are nan.
    """

    odds: Array
    """The fused scores, of which the best is 1."""
    keyword: Array
    """BM25 of the candidate alone."""
    around: Array
    """BM25 of the candidate with its neighbours."""
    vector: Array
    """Cosine of the candidate to the question."""


def calibrated(
    fused: Fused,
    words: QuestionWords,
    messages: MessageLegs,
    conversations: ConversationLegs,
    matches: Matches | None = None,
) -> Fused:
    """Return the scores as probabilities, in the order of those given. Equal scores stay equal."""
    if matches is not None and are_compared(fused, matches):
        return _of_compared(fused, words, messages, conversations, matches)
    way = way_of(messages, conversations)
    words = judged_words(words, way)
    of_messages, of_conversations = signals_of(fused, messages, conversations)
    return Fused(
        probabilities(of_messages, words, MESSAGES[way_of_best(of_messages, way)]),
        probabilities(of_conversations, words, CONVERSATIONS[way_of_best(of_conversations, way)]),
    )


def are_compared(fused: Fused, matches: Matches | None) -> bool:
    """Return whether the words of the best message were compared with the question's."""
    return matches is not None and not np.isnan(matches.even[fused.messages.argmax()])


def _of_compared(
    fused: Fused,
    words: QuestionWords,
    messages: MessageLegs,
    conversations: ConversationLegs,
    matches: Matches,
) -> Fused:
    """Return the probabilities where the best messages' words were compared: of a conversation that
    of its best message, or of its notes.
    """
    of_messages = answering(matches.even, messages.vector, fused.messages, words)
    if matches.across:
        of_others = answering(matches.even, messages.vector, fused.messages, words, ACROSS)
        is_across = matches.is_across | (matches.across == 1.0)
        of_messages = np.where(is_across, of_others, of_messages)
    notes = np.full(len(conversations.abbreviation), np.nan)
    model = ACROSS if matches.across == 1.0 else COMPARED
    best = answering(notes, conversations.abbreviation, fused.conversations, words, model)
    np.maximum.at(best, messages.conversation, of_messages)
    return Fused(in_order(of_messages, fused.messages), in_order(best, fused.conversations))


def answering(
    even: Array,
    vector: Array,
    odds: Array,
    words: QuestionWords,
    weights: Mapping[str, float] = COMPARED,
) -> Array:
    """Return the probability that each text answers, by its own values, its fused score and the
    weights of the model that compared it. A text that was not compared gets the evenness that its
    cosine leads to expect.

    In a small store much is said of few people: a name that a question shares with a text says
    little there, and what nobody said says something again.
    """
    even = np.where(
        np.isnan(even), weights["even_else"] + weights["even_by_vector"] * known(vector), even
    )
    few = 1 - words.vocabulary
    logits = (
        weights["base"]
        + weights["even"] * even
        + weights["vector"] * known(vector)
        + weights["behind"] * _behind(odds)
        + weights["missing"] * words.missing * words.vocabulary
        + weights["everyday"] * words.everyday
        + few * weights["few"]
        + few * weights["few_named"] * words.named
        + few * weights["few_missing"] * words.missing * (words.named > 0)
    )
    chances: Array = 1 / (1 + np.exp(-logits))
    return chances


def in_order(chances: Array, odds: Array) -> Array:
    """Return the probabilities so that none is below those of the candidates behind it."""
    order = np.argsort(odds)
    rising: Array = np.maximum.accumulate(chances[order])
    return rising[np.searchsorted(odds[order], odds, "right") - 1]


def way_of(messages: MessageLegs, conversations: ConversationLegs) -> str:
    """Return whether anything is known by `meaning`, or by `words` alone."""
    blind = np.isnan(messages.vector).all() and np.isnan(conversations.vector).all()
    return "words" if blind else "meaning"


def way_of_best(signals: Signals, way: str) -> str:
    """Return the way by which the best candidate was found: `unembedded` if others are known by
    meaning and it is not.
    """
    if way == "words" or not len(signals.odds):
        return way
    best = signals.odds == signals.odds.max()
    return "unembedded" if np.isnan(signals.vector[best]).all() else way


def judged_words(words: QuestionWords, way: str) -> QuestionWords:
    """Return the words as the features take them. In a small store a missing word says little if a
    message may answer without it; by words alone such a message would not have been found.
    """
    if way == "words":
        return words
    return replace(words, missing=words.missing * words.vocabulary)


def with_dates(
    words: QuestionWords, messages: MessageLegs, conversations: ConversationLegs, dates: Array
) -> tuple[QuestionWords, tuple[MessageLegs, ConversationLegs]]:
    """Return the words and the legs of a question that names a time: it counts as one more rare
    word.

    `dates` says of each message how near it is to that time (`fusion.dates_of`); one of 1 or more,
    which was said in it or names it, has the word.
    """
    bonus = _DATE * (dates >= 1)
    best = np.zeros(len(conversations.keyword))
    np.maximum.at(best, messages.conversation, bonus)
    weight = words.weight + _DATE
    rest = words.weight / weight
    return (
        replace(
            words,
            weight=weight,
            missing=words.missing * rest,
            only_stops=False,
            everyday=words.everyday * rest,
            named=words.named * rest,
        ),
        (
            replace(messages, keyword=messages.keyword + bonus),
            replace(
                conversations,
                message_keyword=conversations.message_keyword + best,
                keyword=conversations.keyword + best,
            ),
        ),
    )


def without_identifier(scores: Fused, unsaid: float) -> Fused:
    """Return the probabilities of a question of whose weight a share belongs to identifiers that
    nobody said: what fits its other words is mostly said of something else.
    """
    if not unsaid:
        return scores
    factor = (1 - unsaid) ** _UNSAID
    return Fused(factor * scores.messages, factor * scores.conversations)


def of_small_talk(scores: Fused) -> Fused:
    """Return the probabilities of a greeting or thanks: it asks for nothing."""
    return Fused(_SMALL_TALK * scores.messages, _SMALL_TALK * scores.conversations)


def signals_of(
    fused: Fused, messages: MessageLegs, conversations: ConversationLegs
) -> tuple[Signals, Signals]:
    beside = messages.keyword_before + messages.keyword_after
    return (
        Signals(
            fused.messages,
            messages.keyword,
            messages.keyword + 0.5 * beside[0] + 0.25 * beside[1],
            messages.vector,
        ),
        Signals(
            fused.conversations,
            conversations.message_keyword,
            conversations.keyword,
            np.fmax(conversations.vector, conversations.abbreviation),
        ),
    )


def probabilities(signals: Signals, words: QuestionWords, weights: Mapping[str, float]) -> Array:
    """Return the probability of each candidate by these weights, those of `standing` not
    negative.
    """
    if not len(signals.odds):
        return np.zeros(0)
    bias = weights["base"] + sum(
        weights[name] * value for name, value in evidence(signals, words).items()
    )
    logits = bias + sum(weights[name] * values for name, values in standing(signals.odds).items())
    chances: Array = 1 / (1 + np.exp(-logits))
    return chances


def evidence(signals: Signals, words: QuestionWords) -> dict[str, float]:
    """Return the features of the whole answer, by name. There is at least one candidate."""
    odds = signals.odds
    highest = np.partition(odds, -min(_LEADING, len(odds)))[-min(_LEADING, len(odds))]
    # by value, so that equal scores need no order
    leading, best = odds >= highest, odds == odds.max()
    vector, rare = float(known(signals.vector[best]).max()), float(np.log1p(words.weight))
    few = 1 - words.vocabulary
    return {
        "matched": float(np.log1p(max(signals.keyword.max(), 0.0))),
        "covered": float(
            np.log(
                signals.around[leading].sum() / leading.sum() / max(words.weight, _LEAST_WEIGHT)
                + _LEAST_SHARE
            )
        ),
        "missing": words.missing,
        "rare": rare,
        "ahead": _ahead(_behind(odds)),
        "only_stops": float(words.only_stops),
        "everyday": words.everyday,
        "vector": vector,
        "nearest": float(known(signals.vector).max()),
        "few": few,
        "few_vector": few * vector,
        "few_rare": few * rare,
    }


def standing(odds: Array) -> dict[str, Array]:
    """Return the features of each candidate, by name: they rise with its score, and equal scores
    have equal ones.
    """
    behind = _behind(odds)
    ascending = np.sort(behind)
    shares = np.cumsum(np.exp(ascending))
    rest = shares[np.searchsorted(ascending, behind, "right") - 1] / shares[-1]
    return {"behind": behind, "rest": np.log(np.maximum(rest, _LEAST_ODDS))}


def _ahead(behind: Array) -> float:
    """Return how far the best is ahead of the median. A short ranking is filled up: what was not
    found at all is far behind.
    """
    short = _FIELD - len(behind)
    field = np.sort(np.concatenate([behind, np.full(short, -_FAR)]) if short > 0 else behind)
    # numpy's median takes ten times as long
    return -float(field[(len(field) - 1) // 2] + field[len(field) // 2]) / 2


def _behind(odds: Array) -> Array:
    """Return how far the weighted sum behind each score is below the best one's."""
    behind: Array = SOFTNESS * np.log(np.maximum(odds / odds.max(), _LEAST_ODDS))
    return behind
