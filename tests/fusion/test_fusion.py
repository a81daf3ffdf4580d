"""Promises of the fusion that hold for any weights."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest
from recollect_server.recall.dates.dates import read_dates
from recollect_server.recall.fusion import (
    conversation_features,
    dates_of,
    fuse,
    gates_of,
    message_features,
    of_matches,
    unsaid,
    words_across,
)
from recollect_server.recall.fusion_weights import CONVERSATION_WEIGHTS, MESSAGE_WEIGHTS
from recollect_server.recall.model.marks import ASSISTANT, USER
from recollect_server.recall.retrievers import Array, Fused, Matches, Question
from recollect_server.text.words import QuestionWords

from tests.cases import each
from tests.fusion.conftest import BY_MEANING, NOW, QUESTION, Legs, blind, made, shuffled


def in_range(fused: Fused) -> bool:
    """Return whether every score is above 0 and at most 1."""
    return all(
        ((scores > 0) & (scores <= 1)).all() for scores in (fused.messages, fused.conversations)
    )


def test_scores_are_above_0_and_the_best_has_1(legs: Legs) -> None:
    fused = fuse(QUESTION, *legs)
    assert in_range(fused)
    assert fused.messages.max() == fused.conversations.max() == 1


def test_the_order_of_the_candidates_does_not_matter(legs: Legs) -> None:
    random = np.random.default_rng(2)
    messages, conversations = random.permutation(48).tolist(), random.permutation(12).tolist()
    fused, other = fuse(QUESTION, *legs), fuse(QUESTION, *shuffled(legs, messages, conversations))
    np.testing.assert_allclose(other.messages, fused.messages[messages], rtol=1e-6)
    np.testing.assert_allclose(other.conversations, fused.conversations[conversations], rtol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2, 5, 6])
def test_few_candidates_get_scores_too(count: int) -> None:
    for legs in (made(count), blind(made(count))):
        fused = fuse(QUESTION, *legs)
        assert fused.messages.shape == (4 * count,)
        assert fused.conversations.shape == (count,)
        assert in_range(fused)


def test_a_conversation_without_any_message_that_was_found_has_a_score(legs: Legs) -> None:
    messages, above = legs
    none = replace(
        messages,
        **{field.name: getattr(messages, field.name)[..., :0] for field in fields(messages)},
    )
    fused = fuse(QUESTION, none, above)
    assert fused.messages.shape == (0,)
    assert in_range(fused)
    assert len(set(fused.conversations)) == 12


def test_legs_that_say_the_same_of_all_give_no_nan(legs: Legs) -> None:
    messages, above = legs
    same = {
        field.name: np.zeros_like(getattr(messages, field.name))
        for field in fields(messages)
        if field.name != "conversation"
    }
    nothing = {field.name: np.zeros_like(getattr(above, field.name)) for field in fields(above)}
    fused = fuse(QUESTION, replace(messages, **same), replace(above, **nothing))
    assert in_range(fused)
    assert np.ptp(fused.messages) == 0


@each(
    "text", ["", "?", "北京大学在哪里", "boat " * 5000, "Please go on with my plan.", "in May 2023"]
)
def test_any_question_gives_scores(legs: Legs, text: str) -> None:
    assert in_range(fuse(Question(text, read_dates(text, NOW)), *legs))


def test_without_vectors_the_words_decide(legs: Legs) -> None:
    messages, above = blind(legs)
    words = np.zeros(48)
    words[17] = 9.0
    nothing = np.zeros((2, 48))
    messages = replace(messages, keyword=words, keyword_before=nothing, keyword_after=nothing)
    above = replace(
        above,
        keyword=words.reshape(-1, 4).max(axis=1),
        message_keyword=words.reshape(-1, 4).max(axis=1),
    )
    fused = fuse(QUESTION, messages, above)
    assert fused.messages.argmax() == 17
    assert fused.conversations.argmax() == 4


def test_a_message_that_is_not_embedded_yet_leaves_the_others_their_vectors(legs: Legs) -> None:
    messages, above = legs
    unknown = messages.vector.copy()
    unknown[3] = np.nan
    features = message_features(replace(messages, vector=unknown), above, np.zeros(48))
    assert np.isfinite(features["vector"]).all()
    assert np.ptp(features["vector"]) > 1


def test_a_conversation_that_is_not_embedded_yet_is_as_near_as_its_words_say(legs: Legs) -> None:
    messages, above = legs
    words = messages.keyword.copy()
    words[20:24] = 0
    words[20] = 2 * words.max()
    whole = words.reshape(-1, 4).max(axis=1)
    messages = replace(messages, keyword=words)
    above = replace(above, keyword=whole, message_keyword=whole)
    assert fuse(QUESTION, messages, above).messages.argmax() == 20
    unseen = np.arange(48) // 4 == 5
    unknown = {name: np.where(unseen, np.nan, getattr(messages, name)) for name in BY_MEANING}
    cosines = ("vector", "abbreviation")
    none = {name: np.where(np.arange(12) == 5, np.nan, getattr(above, name)) for name in cosines}
    fused = fuse(QUESTION, replace(messages, **unknown), replace(above, **none))
    assert fused.messages.argmax() == 20
    assert fused.conversations.argmax() == 5


def test_a_message_that_fits_by_words_and_meaning_comes_before_one_that_fits_by_neither(
    legs: Legs,
) -> None:
    messages, above = legs
    for leg in ("keyword", "vector"):
        values = getattr(messages, leg).copy()
        values[20], values[22] = values.max(), values.min()
        messages = replace(messages, **{leg: values})
    fused = fuse(QUESTION, messages, above)
    assert fused.messages[20] > fused.messages[22]


def test_a_message_of_the_time_that_is_asked_about_gains(legs: Legs) -> None:
    messages, above = legs
    text = "What did Alex do in May 2021?"
    question = Question(text, read_dates(text, NOW))
    then = messages.time.copy()
    then[30] = 1_620_900_000_000  # 13 May 2021
    plain, dated = (
        fuse(question, messages, above),
        fuse(question, replace(messages, time=then), above),
    )
    assert np.flatnonzero(dates_of(question, replace(messages, time=then)) > 0.01).tolist() == [30]
    assert (dated.messages > dated.messages[30]).sum() <= (
        plain.messages > plain.messages[30]
    ).sum()
    assert dated.messages[30] / dated.messages[31] > plain.messages[30] / plain.messages[31]


def test_meaning_decides_where_a_question_has_words_that_nobody_said(legs: Legs) -> None:
    messages, above = legs
    keyword, vector = np.zeros(48), np.full(48, 0.2)
    keyword[20], vector[22] = 2.0, 0.6
    messages = replace(messages, keyword=keyword, vector=vector)
    here, other = (
        fuse(replace(QUESTION, unsaid=share), messages, above).messages for share in (0.0, 0.9)
    )
    assert here[20] > here[22]
    assert other[20] < other[22]


def test_by_words_alone_words_that_nobody_said_change_nothing(legs: Legs) -> None:
    here, other = (fuse(replace(QUESTION, unsaid=share), *blind(legs)) for share in (0.0, 0.9))
    np.testing.assert_array_equal(here.messages, other.messages)


@pytest.mark.parametrize(
    ("missing", "best", "share"), [(0.8, 0.0, 0.8), (0.8, 5.0, 0.4), (0.8, 12.0, 0.0), (0, 0, 0)]
)
def test_words_that_nobody_said_count_where_no_message_makes_up_for_them(
    missing: float, best: float, share: float
) -> None:
    words = QuestionWords(weight=10.0, missing=missing, only_stops=False, everyday=0.0)
    assert unsaid(words, np.array([0.0, best])) == pytest.approx(share)
    assert unsaid(words, np.zeros(0)) == missing


def likely(legs: Legs, conversation: int) -> dict[str, Array]:
    """Return the features of conversations where one has nearly all of the probability."""
    messages, above = legs
    scores = np.where(messages.conversation == conversation, 10.0, 0.0)
    return conversation_features(messages, above, scores)


def test_a_conversation_that_began_right_before_or_behind_a_likely_one_gains_the_most_by_that(
    legs: Legs,
) -> None:
    beside = likely(legs, 5)["beside"]  # they began in the order of their numbers
    assert {4, 6} == set(np.argsort(-beside)[:2].tolist())
    assert (np.diff(beside[6:]) < 0).all()
    assert (np.diff(beside[:5]) > 0).all()
    assert beside[5] < beside[[4, 6]].min()  # none is beside itself


@pytest.mark.parametrize("name", ["related", "related_best"])
def test_a_conversation_about_what_a_likely_one_is_about_gains(legs: Legs, name: str) -> None:
    messages, above = legs
    means = above.mean_vector.copy()
    means[2] = means[5]
    related = likely((messages, replace(above, mean_vector=means)), 5)[name]
    assert related.argmax() == 2
    assert likely(legs, 5)[name].argmax() != 2


def test_the_table_weighs_every_feature_by_gates_that_there_are(legs: Legs) -> None:
    messages, above = legs
    dates = dates_of(QUESTION, messages)
    gates = gates_of(QUESTION, messages, above)
    assert [*message_features(messages, above, dates)] == [*MESSAGE_WEIGHTS]
    assert [*conversation_features(messages, above, np.zeros(48))] == [*CONVERSATION_WEIGHTS]
    assert all(
        of.keys() <= gates.keys()
        for of in (*MESSAGE_WEIGHTS.values(), *CONVERSATION_WEIGHTS.values())
    )


def _spoken(legs: Legs, agent_tokens: float) -> Legs:
    """Return the candidates with messages of 30 tokens of people, and of so many of an agent."""
    messages, above = legs
    role = np.tile([USER, ASSISTANT], len(messages.time) // 2).astype(float)
    tokens = np.where(role == ASSISTANT, agent_tokens, 30.0)
    return replace(messages, role=role, tokens=tokens), above


def _same(matches: Matches, _scores: Array) -> Matches:
    return matches


def test_words_like_those_of_the_question_raise_what_was_compared_and_its_conversation(
    legs: Legs,
) -> None:
    messages, above = _spoken(legs, 30)
    fused = fuse(QUESTION, messages, above)
    second, third = np.argsort(-fused.messages)[1:3]
    matches = np.full(len(fused.messages), np.nan)
    matches[[second, third]] = 0.2, 0.9
    lacking = np.zeros(len(matches), np.bool_)
    raised = fuse(
        QUESTION, messages, above, None, lambda _: Matches(matches, lacking, matches, lacking)
    )
    before, after = np.log(fused.messages), np.log(raised.messages)
    change = after - before - np.median(after - before)
    assert change[third] > 0.1
    assert change[second] == pytest.approx(-change[third])
    assert np.abs(np.delete(change, [second, third])).max() < 1e-6
    of_third = messages.conversation[third]
    assert raised.conversations[of_third] >= fused.conversations[of_third]
    assert in_range(raised)


def test_where_an_agent_answers_at_length_its_length_counts_against_it(legs: Legs) -> None:
    messages, _ = _spoken(legs, 600)
    count = len(messages.tokens)
    level, none = np.full(count, 0.5), np.zeros(count, np.bool_)
    alike = Matches(level, none, level, none)
    longest = int(np.argmax(messages.tokens))
    messages = replace(messages, tokens=messages.tokens * np.where(messages.tokens > 99, 2, 1))
    assert of_matches(messages, alike)[longest] < 0
    people, _ = _spoken(legs, 30)
    longer = replace(people, tokens=np.where(np.arange(len(alike.near)) == longest, 90.0, 30.0))
    assert of_matches(longer, alike)[longest] > 0


def test_nearness_weighs_most_where_nobody_speaks_longer_than_others(legs: Legs) -> None:
    weights = []
    for tokens in (30, 60, 600):
        messages, _ = _spoken(legs, tokens)
        near, none = np.arange(len(messages.time)) % 3 / 3, np.zeros(len(messages.time), np.bool_)
        added = of_matches(messages, Matches(near, none, near, none))
        without = of_matches(messages, Matches(0 * near, none, near, none))
        weights.append(np.ptp(added - without))
    assert weights[0] > 1.5 * weights[1] > 1.5 * weights[2]


def test_messages_that_were_not_compared_keep_their_scores(legs: Legs) -> None:
    messages, above = _spoken(legs, 30)
    fused = fuse(QUESTION, messages, above)
    same = fuse(QUESTION, messages, above, None, lambda _: None)
    np.testing.assert_allclose(same.messages, fused.messages, rtol=1e-9)


def test_a_message_without_codes_gets_what_its_vector_or_its_words_lead_to_expect(
    legs: Legs,
) -> None:
    messages, _ = _spoken(legs, 30)
    count = len(messages.tokens)
    near, lacking = np.linspace(0.2, 0.9, count), np.zeros(count, np.bool_)
    keyword, vector = np.ones(count), np.linspace(0.1, 0.5, count)
    keyword[1], vector[1] = 30.0, np.nan
    near[[0, 1, count - 1]], lacking[[0, 1, count - 1]] = np.nan, True
    messages = replace(messages, keyword=keyword, vector=vector)
    none = np.zeros(count, np.bool_)
    added = of_matches(messages, Matches(near, lacking, near, none))
    assert added[1] == pytest.approx(np.nanmax(added))
    assert added[count - 1] > 0 > added[0]


def test_across_languages_what_nobody_said_is_left_to_nearness(legs: Legs) -> None:
    messages, _ = _spoken(legs, 30)
    count = len(messages.tokens)
    near, none = np.linspace(0.2, 0.9, count), np.zeros(count, np.bool_)
    alike = Matches(near, none, near, none)
    added = [of_matches(messages, alike, unsaid) for unsaid in (0.0, 1.0)]
    np.testing.assert_array_equal(added[0], added[1])
    none_across, all_across, without_gap = (
        np.ptp(of_matches(messages, replace(alike, is_across=across), unsaid))
        for across, unsaid in ((none, 1.0), (~none, 1.0), (~none, 0.0))
    )
    assert without_gap == none_across == np.ptp(added[0])
    assert all_across > 2 * none_across
    one = np.arange(count) == 0
    few = np.ptp(of_matches(messages, replace(alike, is_across=one), 1.0))
    assert few - none_across == pytest.approx((all_across - none_across) / count)


def test_where_the_model_of_other_languages_compared_all_words_count_less(legs: Legs) -> None:
    messages, above = _spoken(legs, 30)
    count = len(messages.tokens)
    alike, none = np.full(count, 0.5), np.zeros(count, np.bool_)
    main, other = (
        fuse(QUESTION, messages, above, None, partial(_same, Matches(alike, none, alike, across)))
        for across in (none, ~none)
    )
    assert np.ptp(np.log(other.messages)) < np.ptp(np.log(main.messages))


def test_a_message_in_another_language_that_is_near_counts_as_if_it_had_the_words() -> None:
    near, of_words = np.array([0.2, 0.3, 0.4, 0.9, 0.1]), np.array([1.0, 3.0, 0.5, 0.0, 0.0])
    none, across = np.zeros(5, np.bool_), np.arange(5) >= 3
    added = words_across(Matches(near, none, near, across), of_words)
    assert added[:3].tolist() == [0, 0, 0], "what the main model compared has its own words"
    assert added[3] == pytest.approx(3.0)
    assert added[4] == 0, "nor does one that is not near"
    for alone in (none, ~none):
        assert not words_across(Matches(near, none, near, alone), of_words).any()


def test_the_words_that_a_message_in_another_language_lacks_are_in_its_score(legs: Legs) -> None:
    messages, above = _spoken(legs, 30)
    count = len(messages.tokens)
    near, none = np.full(count, 0.2), np.zeros(count, np.bool_)
    silent = int(np.argmin(messages.keyword))
    near[int(np.argmax(messages.keyword))] = 0.9
    near[silent] = 0.5
    own = Matches(near, none, near, none)
    across = Matches(near, none, near, np.arange(count) == silent)
    by_one = fuse(QUESTION, messages, above, None, lambda _: own)
    by_both = fuse(QUESTION, messages, above, None, lambda _: across)
    assert by_both.messages[silent] > by_one.messages[silent]
