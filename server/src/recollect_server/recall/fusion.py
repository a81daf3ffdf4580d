"""Fuse the retrievers' scores into one ranking of messages, and one of conversations.

`fuse` is pure. Every candidate gets features (`message_features`, `conversation_features`), and its
score is their weighted sum. The weights follow the question: each is a base plus so much for every
gate, and the gates say how the question is put. Features were chosen that mean the same in every
kind of text: a message's length is that beside others of its role, and what only holds where an
agent answers at length is multiplied by how much longer it speaks (`docs/decisions/ranking.md`).

The words of the best messages are then compared with those of the question one by one, which
changes their scores, and by these the conversations'.

A message that is not embedded yet gets the cosine that its words lead to expect, so that it is not
behind the others for that.

The weights in `recall/fusion_weights.py` were learned by `bench/learn.py`, which says from
what.
"""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from recollect_server.kernel.domain.time import DAY
from recollect_server.recall.fusion_weights import CONVERSATION_WEIGHTS, MESSAGE_WEIGHTS
from recollect_server.recall.model.marks import ASSISTANT
from recollect_server.recall.retrievers import (
    Array,
    ConversationLegs,
    Fused,
    Matches,
    MessageLegs,
    Question,
)
from recollect_server.text.words import QuestionWords

_WORD = re.compile(r"\w+")
_OWN = frozenset(["i", "me", "my", "we", "us", "our"])
# Scales of features, chosen by hand before the weights were learned, which compensate for most of
# them (`docs/decisions/ranking.md`).
_GRACE = 7 * DAY  # events of a day are mentioned within a week
_FADING = 10 * DAY
_SLOWLY = 0.4  # of it, within that week
_BESIDE, _BESIDE_RELATIVE = 0.8, 0.6  # what counts of a time beside the one that is named
_LOOKING_BACK = 1.15  # "yesterday I bought a canoe", on the day behind the one that is named
_REACH = 120  # places beyond which exp(-places / 3) adds nothing that a float holds
_SEEDS = 5  # conversations whose topic others are compared with
# of the gate `long`, 54 words: beyond it the weights of words would have the wrong sign
_LONGEST = 1.5
# Weights of how near the words of the compared messages are to the question's (z), where people
# talk and where an agent speaks this much longer than they; and of their lengths (z), which count
# against a message beside such an agent: a long answer has a passage near to anything. Learned
# (`bench/late-interaction.md`). What nearness weighs more where nobody speaks longer than others,
# and nothing from half that much on, was chosen on FriendsQA beside the rule of replies.
_NEAR, _NEAR_TO_AGENTS, _LENGTH = 0.86, 0.61, 0.54
_NEARER = 0.54
_MUCH_LONGER = 1.5
IDENTIFIER = 7.0
"""Weight of the identifiers of a question that a message has: that of a time which it names."""
_INFLECTED, _INFLECTED_ABOVE = 0.7, 0.3
"""Factors of the weights of a message's words, and of its conversation's, of a question in another
language than English: stems are cut off by rule, and the weights were learned in English. Chosen
on household notes in eight languages (`docs/decisions/languages.md`).
"""
_OF_WORDS = ("keyword", "keyword_z", "keyword_window", "keyword_before", "keyword_after")
_ABOVE = ("conversation_keyword",)
_FIRST = 5  # hits that a standing instruction stands among
_STEP = 2e-9  # between two scores that stay apart once they are rounded
_LEAST_ODDS = 1e-12  # a score so low may be rounded to 0
SOFTNESS = 4.0  # changes no order: only how fast scores fall from 1
FIRST_LINE = 2
"""The line of a transcript's first message."""


Match = Callable[[Array], Matches | None]
"""Comparison of the best messages' words with the question's (`word_matches`), given the scores."""
Sections = tuple[MessageLegs, ConversationLegs]
"""The legs of messages by the sections of long conversations, which stand for the conversations."""


def fuse(
    question: Question,
    messages: MessageLegs,
    conversations: ConversationLegs,
    sections: Sections | None = None,
    match: Match | None = None,
) -> Fused:
    """Score every candidate: 1 for the best, exp(-distance / 4) for one that is `distance` behind
    it.

    With `sections`, messages are compared within their section. `match` compares the words of the
    best messages with those of the question: the order of the others shows which these are.
    """
    gates = gates_of(question, messages, conversations)
    dates = dates_of(question, messages)
    features = message_features(*(sections or (messages, conversations)), dates)
    of_messages = weighted(features, MESSAGE_WEIGHTS, gates)
    if match is not None and (matches := match(_odds(of_messages))) is not None:
        of_words = weighted({it: features[it] for it in _OF_WORDS}, MESSAGE_WEIGHTS, gates)
        of_messages = of_messages + of_matches(messages, matches, gates["unsaid"])
        of_messages += words_across(matches, of_words)
        if matches.across == 1.0:
            above = weighted({it: features[it] for it in _ABOVE}, MESSAGE_WEIGHTS, gates)
            of_messages -= (1 - _INFLECTED) * of_words + (1 - _INFLECTED_ABOVE) * above
    of_conversations = weighted(
        conversation_features(messages, conversations, of_messages),
        CONVERSATION_WEIGHTS,
        gates,
    )
    return Fused(_odds(of_messages), _odds(of_conversations))


def gates_of(
    question: Question, messages: MessageLegs, conversations: ConversationLegs
) -> dict[str, float]:
    """Return the form of the question, and which retrievers there are.

    `long`: log(1 + words) - 2.5. `own`: 1 if it speaks of the asker. `notes`: 1 if any conversation
    has an abbreviation. `blind`: 1 if nothing is known by meaning. `unsaid`: the question's, 0 if
    `blind`.
    """
    words = _WORD.findall(question.text.lower())
    blind = np.isnan(messages.vector).all() and np.isnan(conversations.vector).all()
    return {
        "base": 1.0,
        "long": min(max(float(np.log1p(len(words))) - 2.5, -1.2), _LONGEST),
        "own": float(not _OWN.isdisjoint(words)),
        "notes": float(not np.isnan(conversations.abbreviation).all()),
        "blind": float(blind),
        "unsaid": 0.0 if blind else question.unsaid,
    }


def unsaid(words: QuestionWords, keyword: Array) -> float:
    """Return the share of a question's words that no message has, if the best message has none of
    the others; 0 if it has as much as all of them weigh. `keyword` is BM25 of each candidate.
    """
    best = float(keyword.max(initial=0.0)) / words.weight if words.weight else 0.0
    return words.missing * (1 - min(best, 1.0))


def message_features(legs: MessageLegs, above: ConversationLegs, dates: Array) -> dict[str, Array]:
    """Return the features of the messages by name, each of shape [n]; 0 is neutral. `z` subtracts
    the candidates' mean and divides by their standard deviation.
    """
    top = _top(legs.keyword)
    own, before, after = legs.keyword / top, legs.keyword_before / top, legs.keyword_after / top
    of = legs.conversation
    vector = _expected(legs.vector[None, :], legs.keyword)[0]
    vector_before = z(legs.vector_before[None, :], legs.vector)[0]
    conversation_vector = _expected(above.vector[None, :], above.keyword)[0, of]
    agent = legs.role == ASSISTANT
    length, longer = _lengths(legs.tokens, agent)
    first = legs.sequence <= FIRST_LINE
    return {
        "keyword": own,  # share of the best
        "keyword_z": z(np.sqrt(legs.keyword)[None, :])[0],
        "keyword_window": share(own + 0.5 * (before[0] + after[0]) + 0.25 * (before[1] + after[1])),
        "keyword_before": before[0],
        "keyword_after": after[0],
        "vector": vector,
        "vector_before": vector_before,
        "conversation_keyword": share(above.keyword)[of],
        "conversation_vector": conversation_vector,
        "named": known(legs.named),  # the question names who said it
        "other": known(1 - legs.named) * (legs.named == 1).any(),  # it names someone else
        "length": length,  # log of the share of the median of its role
        "short": np.minimum(length, 0),
        "agent": agent * longer,
        "first": first.astype(float),
        "first_to_agent": first * longer,
        "newer": _newness(above.begin)[of],
        "date": dates,
    }


def conversation_features(
    messages: MessageLegs, legs: ConversationLegs, scores: Array
) -> dict[str, Array]:
    """Return the features of the conversations by name, each of shape [m]. `scores` are the
    messages' own, before they become shares.
    """
    of, count = messages.conversation, len(legs.keyword)
    chances = np.exp(scores - scores.max(initial=-np.inf)) if len(scores) else scores
    mass: Array = np.bincount(of, weights=chances / (chances.sum() or 1.0), minlength=count).astype(
        np.float64
    )
    best = np.full(count, scores.min(initial=np.inf) if len(scores) else 0.0)
    np.maximum.at(best, of, scores)
    vector = _expected(legs.vector[None, :], legs.keyword)[0]
    keyword, best_keyword = share(legs.keyword), share(legs.message_keyword)
    behind = (best - best.max(initial=-np.inf)) / 2 if count else best
    near = _related(legs.mean_vector, mass, keyword + best_keyword + 0.3 * vector + behind)
    return {
        "keyword": keyword,
        "best_keyword": best_keyword,
        "vector": vector,
        "abbreviation": _abbreviation(legs.abbreviation, keyword),
        "mass": np.log(mass + 1e-4),  # of its messages' chances, by their scores
        "best": behind,  # its best message's score
        "newer": _newness(legs.begin),
        "messages": np.log(np.maximum(legs.messages, 1)),
        "related": near[0],  # to the conversations of those chances
        "related_best": near[1],  # to the five that look best
        "beside": np.log(_beside(legs.begin, mass) + 1e-3),  # began right before or behind those
    }


def of_matches(messages: MessageLegs, matches: Matches, unsaid: float = 0.0) -> Array:
    """Return what the words of the compared messages add to their scores. One that was not compared
    keeps its score; one that lacks codes gets what its vector, or else its words, lead to expect.
    Across languages, what nobody said in the question's words (`unsaid`) is left to nearness, as it
    is to the vectors.
    """
    longer = agents_share(messages)
    best = matches.lacking | ~np.isnan(matches.near)
    rows = [matches.near, np.log(messages.tokens + 5), messages.vector, np.sqrt(messages.keyword)]
    near, length, vector, words = z(np.where(best, np.array(rows), np.nan))
    # As much as the nearest for the one with the best words: it is not embedded yet.
    highest = near.max(initial=0.0)
    words = words * highest / (words.max(initial=0.0) or 1.0)
    expected = np.where(np.isnan(messages.vector), words, np.minimum(vector, highest))
    near = np.where(matches.lacking, expected, near)
    weight = _NEAR + (_NEAR_TO_AGENTS - _NEAR) * longer + _NEARER * max(0.0, 1 - 2 * longer)
    weight += MESSAGE_WEIGHTS["vector"]["unsaid"] * unsaid * matches.across
    added: Array = weight * near
    added += _LENGTH * (1 - 2 * longer) * length
    return added


def words_across(matches: Matches, of_words: Array) -> Array:
    """Return what messages that only the model of other languages compared get in place of words,
    where the main model compared others: they say the question's words in their own. `of_words` is
    what words add to each score. The nearest message gets as much as the best words add.
    """
    if matches.across in (0.0, 1.0):
        return np.zeros_like(of_words)
    near = share(np.maximum(z(matches.near[None, :])[0], 0))
    expected = of_words.min() + np.ptp(of_words) * near
    return np.where(matches.is_across, np.maximum(expected - of_words, 0), 0)


def with_identifiers(fused: Fused, messages: MessageLegs, named: Array) -> Fused:
    """Return the scores with what the identifiers of the question add: `named` is the share of them
    that each message has. A conversation has what its best message has.
    """
    if not named.any():
        return fused
    best = np.zeros(len(fused.conversations))
    np.maximum.at(best, messages.conversation, named)
    behind, behind_above = (
        SOFTNESS * np.log(np.maximum(it, _LEAST_ODDS))
        for it in (fused.messages, fused.conversations)
    )
    return Fused(_odds(behind + IDENTIFIER * named), _odds(behind_above + IDENTIFIER * best))


def with_titles(fused: Fused, titled: NDArray[np.bool_]) -> Fused:
    """Return the scores with what a title that has all words of the question adds to those of its
    conversations: as much as an identifier.
    """
    if not titled.any():
        return fused
    behind = SOFTNESS * np.log(np.maximum(fused.conversations, _LEAST_ODDS))
    return Fused(fused.messages, _odds(behind + IDENTIFIER * titled))


def with_instruction(fused: Fused, governing: NDArray[np.bool_]) -> Fused:
    """Return the scores with the message whose standing instruction governs the answer among the
    first `_FIRST`: in the last of these places, unless it has a better one.
    """
    if not governing.any() or len(governing) < _FIRST:
        return fused
    last = np.sort(fused.messages)[-_FIRST] + _STEP
    lifted = np.where(governing, np.maximum(fused.messages, last), fused.messages)
    return Fused(lifted, fused.conversations)


def z(columns: Array, like: Array | None = None) -> Array:
    """Return each row less its mean, by its standard deviation: its own, or those of `like`. 0
    where nothing is known.

    `columns` has shape [k, n], `like` [n].
    """
    rows = columns if like is None else like[None, :]
    missing = np.isnan(rows)
    count = np.maximum(rows.shape[1] - np.add.reduce(missing, 1, np.int64, keepdims=True), 1)
    mean = np.add.reduce(np.where(missing, 0, rows), 1, keepdims=True) / count
    behind = rows - mean
    behind[missing] = 0
    deviation = np.sqrt(np.add.reduce(behind * behind, 1, keepdims=True) / count)
    flat = deviation < 1e-9
    if like is not None:
        behind = columns - mean
    standard: Array = behind / np.where(flat, np.inf, deviation)
    standard[np.isnan(standard)] = 0
    return standard


def _lengths(tokens: Array, agent: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return log(length / median of the same role) of each message, between -2 and 2; and how much
    longer the median of agents is than that of people, as a log between 0 and 2.
    """
    people_median, agent_median = (_median(tokens[of]) + 5 for of in (~agent, agent))
    mixed = agent.any() and not agent.all()
    length = np.log((tokens + 5) / np.where(agent, agent_median, people_median))
    longer = min(max(float(np.log(agent_median / people_median)), 0.0), 2.0) if mixed else 0.0
    return np.clip(length, -2, 2), longer


def agents_share(messages: MessageLegs) -> float:
    """Return how much an agent answers at length: 0 where people talk, 1 beside an agent that
    speaks much longer than they.
    """
    return min(_lengths(messages.tokens, messages.role == ASSISTANT)[1] / _MUCH_LONGER, 1.0)


def _expected(columns: Array, keyword: Array) -> Array:
    """Return `z` of each row; where a value is missing beside others, that of the words, at most
    the highest.
    """
    rows, missing = z(columns), np.isnan(columns)
    some = missing & ~missing.all(axis=1, keepdims=True)
    if not some.any():
        return rows
    words = z(np.sqrt(keyword)[None, :])
    return np.where(some, np.minimum(words, rows.max(axis=1, keepdims=True)), rows)


def known(values: Array) -> Array:
    """Return the values, with 0 where one is not known. `np.nan_to_num` takes ten times as long."""
    return np.where(np.isnan(values), 0, values)


def _abbreviation(cosines: Array, keyword: Array) -> Array:
    """Return the cosines as a share of the highest; that of the words where one is missing beside
    others.
    """
    missing = np.isnan(cosines)
    near = share(np.maximum(known(cosines), 0))
    return near if missing.all() else np.where(missing, keyword, near)


def _median(values: Array) -> float:
    """Return the median, 0 of none. numpy's takes ten times as long."""
    if not len(values):
        return 0.0
    ascending, middle = np.sort(values), len(values) // 2
    return float(ascending[middle] + ascending[(len(values) - 1) // 2]) / 2


def share(scores: Array) -> Array:
    """Return the scores divided by the highest."""
    return scores / _top(scores)


def _top(scores: Array) -> float:
    return float(scores.max(initial=0.0)) or 1.0


def _newness(times: Array) -> Array:
    """Return -log(1 + number of conversations that began later)."""
    return -np.log1p(len(times) - np.searchsorted(np.sort(times), times, "right"))


def dates_of(question: Question, messages: MessageLegs) -> Array:
    """Return 1 in a time that the question names, somewhat less right behind it, then less and
    less; 0 if it names none. Somewhat more than 1 of a message that names that day itself.

    Events of a day are mentioned within a week, the sooner the likelier; a question about
    "yesterday" means messages of that day.
    """
    nearest = np.zeros(len(messages.time))
    for it in question.dates:
        behind = np.maximum(0, messages.time - it.end)
        behind -= (1 - _SLOWLY) * np.minimum(behind, _GRACE)
        gap = np.maximum(it.begin - messages.time, behind)
        inside = (messages.time >= it.begin) & (messages.time < it.end)
        beside = _BESIDE_RELATIVE if it.is_relative else _BESIDE
        nearest = np.maximum(nearest, np.where(inside, 1.0, beside * np.exp(-gap / _FADING)))
    if question.looking_back is not None:
        nearest = np.where(question.looking_back, _LOOKING_BACK, nearest)
    return nearest


def _related(means: NDArray[np.float32], mass: Array, scores: Array) -> Array:
    """Return how near each conversation's mean vector is to those of others (z), itself left out: a
    project's other sessions are.
    """
    vectors = means.astype(np.float64)
    own = np.einsum("ij,ij->i", vectors, vectors)
    seeds = np.argsort(-scores, kind="stable")[:_SEEDS]
    is_seed = np.zeros(len(mass))
    is_seed[seeds] = 1
    # The products with every other one, without a table of all pairs.
    by_mass, by_seeds = (
        vectors @ (share_of @ vectors) - own * share_of for share_of in (mass, is_seed)
    )
    return z(
        np.array(
            [
                by_mass / np.maximum(1 - mass, 0.05),
                by_seeds / np.maximum(len(seeds) - is_seed, 1),
            ]
        )
    )


def _beside(begins: Array, mass: Array) -> Array:
    """Return how much mass lies near each conversation in the order of time, itself left out:
    weighed by exp(-places between / 3).
    """
    if not len(mass):
        return mass
    place = np.searchsorted(np.sort(begins), begins)
    at_place = np.bincount(place, mass, minlength=len(mass))
    reach = min(_REACH, max(len(mass) - 1, 0))
    near = np.convolve(at_place, np.exp(-np.abs(np.arange(-reach, reach + 1)) / 3))
    beside: Array = near[place + reach] - mass
    return np.maximum(beside, 0)


def weighted(
    features: dict[str, Array], weights: dict[str, dict[str, float]], gates: dict[str, float]
) -> Array:
    """Return the weighted sum of the features. A feature's weight is its base weight plus what the
    gates add.
    """
    factors = []
    for name in features:
        factor = 0.0  # a loop: `sum` of a generator took twice as long
        for gate, weight in weights[name].items():
            factor += gates[gate] * weight
        factors.append(factor)
    total: Array = np.add.reduce(np.array([*features.values()]) * np.array(factors)[:, None])
    return total


def _odds(scores: Array) -> Array:
    return np.exp((scores - scores.max(initial=-np.inf)) / SOFTNESS) if len(scores) else scores
