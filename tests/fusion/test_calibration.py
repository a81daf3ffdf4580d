"""Calibration: scores become probabilities, and the order stays."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recollect_server.recall.calibration import (
    Signals,
    answering,
    calibrated,
    in_order,
    probabilities,
    with_dates,
)
from recollect_server.recall.calibration_weights import ACROSS, COMPARED, CONVERSATIONS, MESSAGES
from recollect_server.recall.retrievers import Fused, Matches
from recollect_server.text.words import LEAST_MESSAGES, QuestionWords

from tests.fusion.conftest import made

WORDS = QuestionWords(weight=12.0, missing=0.0, only_stops=False, everyday=0.0)
WEIGHTS = [pytest.param(weights, id=f"{name} {way}") for name, of in (("messages", MESSAGES), ("conversations", CONVERSATIONS))
           for way, weights in of.items()]  # fmt: skip


def signals(odds: list[float], *, keyword: float = 10.0, cosine: float = 0.6) -> Signals:
    values = np.array(odds)
    return Signals(values, keyword * values, 1.3 * keyword * values, cosine * values)


@pytest.mark.parametrize("weights", WEIGHTS)
@given(
    odds=st.lists(st.floats(0, 1), min_size=1, max_size=60),
    missing=st.floats(0, 1),
    weight=st.floats(0, 200),
)
def test_the_order_stays_and_every_score_lies_between_0_and_1(
    weights: dict[str, float], odds: list[float], missing: float, weight: float
) -> None:
    odds.append(1.0)
    chances = probabilities(
        signals(odds), QuestionWords(weight, missing, only_stops=False, everyday=0.0), weights
    )
    assert ((chances >= 0) & (chances <= 1)).all()
    by_odds = np.argsort(-np.array(odds), kind="stable")
    assert (np.diff(chances[by_odds]) <= 0).all()
    same = np.array(odds)[:, None] == np.array(odds)[None, :]
    assert (chances[:, None] == chances[None, :])[same].all()


@pytest.mark.parametrize("weights", WEIGHTS)
@given(st.permutations(range(12)))
def test_the_scores_do_not_depend_on_the_order_of_the_candidates(
    weights: dict[str, float], order: list[int]
) -> None:
    odds = np.array([1, 0.9, 0.9, 0.8, 0.7, 0.7, 0.7, 0.5, 0.4, 0.2, 0.1, 0.0])
    expected = probabilities(signals(odds.tolist()), WORDS, weights)
    shuffled = probabilities(signals(odds[order].tolist()), WORDS, weights)
    np.testing.assert_allclose(shuffled, expected[order], rtol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_evidence_counts_for_and_what_is_missing_against(weights: dict[str, float]) -> None:
    odds = [1.0, 0.5, 0.2]

    def best(words: QuestionWords = WORDS, **fields: float) -> float:
        return float(probabilities(signals(odds, **fields), words, weights).max())

    assert best(keyword=14.0, cosine=0.8) > best() > best(keyword=1.0, cosine=0.1)
    assert best() > best(QuestionWords(WORDS.weight, 0.7, only_stops=False, everyday=0.0))
    assert best() >= best(QuestionWords(WORDS.weight, 0.0, only_stops=True, everyday=0.0))
    assert best() >= best(QuestionWords(WORDS.weight, 0.0, only_stops=False, everyday=1.0))


@pytest.mark.parametrize("of", [MESSAGES, CONVERSATIONS])
def test_only_a_small_store_is_judged_as_one(of: dict[str, dict[str, float]]) -> None:
    def best(messages: int) -> float:
        words = replace(WORDS, vocabulary=min(1.0, messages / LEAST_MESSAGES))
        evidence = signals([1.0, 0.5], keyword=0.0, cosine=0.5)
        return float(probabilities(evidence, words, of["meaning"]).max())

    sizes = [best(messages) for messages in range(1, LEAST_MESSAGES + 50)]
    assert sizes[10] != sizes[LEAST_MESSAGES] == sizes[-1]
    assert max(abs(one - next_one) for one, next_one in pairwise(sizes)) < 0.01


def test_where_words_were_compared_a_candidate_has_at_least_the_score_of_those_behind_it() -> None:
    even, vector = np.array([0.2, 0.6, 0.5, np.nan]), np.array([0.1, 0.5, np.nan, np.nan])
    same = np.ones(4)
    own = answering(even, vector, same, WORDS)
    assert own[1] > own[2] > own[3]
    assert answering(even, vector, same, replace(WORDS, missing=0.5))[1] < own[1]
    assert answering(even, vector, same, replace(WORDS, everyday=0.5))[1] < own[1]
    odds = np.array([1.0, 0.5, 0.5, 0.1])
    assert (answering(even, vector, odds, WORDS)[1:] < own[1:]).all()
    assert in_order(own, odds).tolist() == [own[1], own[1], own[1], own[3]]
    assert in_order(own, odds[::-1]).tolist() == [own[0], own[1], own[1], own[1]]


def test_what_the_model_of_other_languages_compared_is_judged_by_its_own_scale() -> None:
    messages, above = made(2)
    count, fused = len(messages.keyword), Fused(np.ones(8), np.ones(2))
    assert count == 8
    even, none = np.full(count, 0.45), np.zeros(count, np.bool_)
    by_main, by_other = (
        calibrated(fused, WORDS, messages, above, Matches(even, none, even, across))
        for across in (none, ~none)
    )
    expected = answering(even, messages.vector, fused.messages, WORDS, ACROSS).max()
    assert by_other.messages.max() == pytest.approx(expected)
    assert by_main.messages.max() == pytest.approx(
        answering(even, messages.vector, fused.messages, WORDS).max()
    )
    assert by_main.messages.max() != pytest.approx(expected)
    part = np.arange(count) < 4
    mixed = calibrated(fused, WORDS, messages, above, Matches(even, none, even, part))
    both = [
        answering(even, messages.vector, fused.messages, WORDS, it) for it in (ACROSS, COMPARED)
    ]
    assert mixed.messages.max() == pytest.approx(np.where(part, *both).max())


def test_a_small_store_is_judged_as_one_in_other_languages_too() -> None:
    even, vector, odds = np.array([0.45]), np.array([0.4]), np.ones(1)
    small = answering(even, vector, odds, replace(WORDS, vocabulary=0.1), ACROSS)
    assert small[0] > answering(even, vector, odds, WORDS, ACROSS)[0]


def test_no_candidates_have_no_scores() -> None:
    assert probabilities(signals([]), WORDS, MESSAGES["words"]).shape == (0,)


def test_in_a_small_store_a_shared_name_says_little_and_what_nobody_said_says_more() -> None:
    even, vector, odds = np.array([0.45]), np.array([0.4]), np.ones(1)

    def score(vocabulary: float, named: float, missing: float) -> float:
        words = replace(WORDS, vocabulary=vocabulary, named=named, missing=missing)
        return float(answering(even, vector, odds, words)[0])

    assert score(0.05, 0.5, 0.0) < score(0.05, 0.2, 0.0) < score(0.05, 0.0, 0.0)
    assert score(0.05, 0.5, 0.5) / score(0.05, 0.5, 0.0) < score(0.05, 0, 0.5) / score(0.05, 0, 0)
    assert score(1.0, 0.5, 0.2) == score(1.0, 0.0, 0.2), "a large store is judged as before"


def test_a_date_leaves_the_names_of_a_question_less_of_its_weight() -> None:
    words, _ = with_dates(replace(WORDS, named=0.5), *made(2), np.zeros(8))
    assert words.named / 0.5 == pytest.approx(WORDS.weight / words.weight)
