"""Packing: within the budget, nothing twice, no half of a tool call, and a reason for what is left out."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recollect_server.domain.context import Budget, Candidate, Packed
from recollect_server.domain.message import Role
from recollect_server.domain.packing import pack_cold, pack_hot, pack_warm
from recollect_server.domain.relevance import Weights, evenly, overlap, says_little, words_of
from recollect_server.domain.time import DAY

from tests.context.conftest import THERE, candidate

A_TOKEN = "word"  # noqa: S105 - four bytes


def sequences(candidates: list[Candidate]) -> list[int]:
    return [it.message.sequence for it in candidates]


@st.composite
def conversations(draw: st.DrawFn) -> list[Candidate]:
    """Turns of a user's words, tool calls with their results (one of them may be missing), and answers, of any length."""
    made: list[Candidate] = []

    def add(role: Role, turn: int, **fields: object) -> None:
        content = A_TOKEN * draw(st.integers(0, 60))
        relevance = draw(st.floats(0, 1))
        made.append(candidate(len(made) + 2, content, role, turn=turn, relevance=relevance, **fields))  # type: ignore[arg-type]

    for turn in range(1, draw(st.integers(1, 9)) + 1):
        add(Role.USER, turn)
        for call in range(draw(st.integers(0, 2))):
            names = (f"{turn}-{call}-a", f"{turn}-{call}-b")[: draw(st.integers(1, 2))]
            add(Role.ASSISTANT, turn, calls=names)
            for name in names:
                if draw(st.integers(0, 9)):
                    add(Role.TOOL, turn, answers=name)
        add(Role.ASSISTANT, turn)
    return made


def packers() -> list[Callable[[list[Candidate], int], Packed]]:
    return [pack_hot, pack_warm, lambda candidates, budget: pack_cold(candidates, budget, 0.5)]


@pytest.mark.parametrize("pack", packers(), ids=["hot", "warm", "cold"])
@given(offered=conversations(), budget=st.integers(0, 400))
def test_a_tier_stays_within_its_budget_and_packs_nothing_twice(
    pack: Callable[[list[Candidate], int], Packed], offered: list[Candidate], budget: int
) -> None:
    packed = pack(offered, budget)
    assert packed.used <= budget
    places = [it.place for it in packed.packed]
    assert len(places) == len(set(places))
    left_out = [(it.conversation_id, it.sequence) for it in packed.dropped]
    assert not set(places) & set(left_out)
    assert len(left_out) == len(set(left_out))
    assert all(it.reason for it in packed.dropped)
    assert packed.considered == len(offered)
    assert packed.left == budget - packed.used


@pytest.mark.parametrize("pack", packers()[:2], ids=["hot", "warm"])
@given(offered=conversations(), budget=st.integers(0, 400))
def test_a_tool_call_and_its_results_are_packed_together_or_not_at_all(
    pack: Callable[[list[Candidate], int], Packed], offered: list[Candidate], budget: int
) -> None:
    packed = pack(offered, budget).packed
    calls = [call.id for it in packed for call in it.message.tool_calls]
    results = [it.message.tool_call_id for it in packed if it.message.role is Role.TOOL]
    assert sorted(calls) == sorted(results)
    assert sequences(packed) == sorted(sequences(packed))


@given(offered=conversations())
def test_with_room_for_all_everything_whole_is_packed(offered: list[Candidate]) -> None:
    warm = pack_warm(offered, 100_000)
    assert len(warm.packed) + len(warm.dropped) == len(offered)
    assert all("belong together" in it.reason for it in warm.dropped)


def test_hot_keeps_the_users_words_and_drops_the_long_answer() -> None:
    offered = [candidate(2, A_TOKEN * 10), candidate(3, A_TOKEN * 90, Role.ASSISTANT, turn=2), candidate(4, A_TOKEN * 5, turn=3)]
    packed = pack_hot(offered, 20)
    assert sequences(packed.packed) == [2, 4]
    assert [(it.sequence, it.tokens, it.reason) for it in packed.dropped] == [(3, 90, "90 tokens and 5 were left")]


def test_hot_takes_five_turns_and_the_older_two_only_whole() -> None:
    offered = [candidate(turn + 1, A_TOKEN * 10, turn=turn) for turn in range(1, 9)]
    assert sequences(pack_hot(offered, 1000).packed) == [5, 6, 7, 8, 9]
    offered[4] = candidate(6, A_TOKEN * 10, turn=5)
    offered.insert(5, candidate(60, A_TOKEN * 100, Role.ASSISTANT, turn=5))
    assert sequences(pack_hot(offered, 60).packed) == [7, 8, 9]


def test_warm_packs_the_most_relevant_turns_first() -> None:
    offered = [candidate(turn, A_TOKEN * 10, relevance=value) for turn, value in ((2, 0.1), (3, 0.9), (4, 0.2), (5, 0.8))]
    assert sequences(pack_warm(offered, 20).packed) == [3, 5]


def test_one_conversation_does_not_eat_everything_while_others_wait() -> None:
    much = [candidate(at, A_TOKEN * 10, relevance=0.9, conversation=THERE) for at in range(2, 12)]
    other = candidate(2, A_TOKEN * 10, relevance=0.1)
    packed = pack_cold([*much, other], 60, 0.5)
    assert other in packed.packed
    assert len(packed.packed) == 6  # what is left goes to the one that has more
    assert packed.packed[-1] == other


@pytest.mark.parametrize(
    ("given_", "settled"),
    [
        (Budget(), Budget(1500, 2000, 900, 4400)),
        (Budget(total=500), Budget(170, 227, 103, 500)),
        (Budget(hot=100), Budget(100, 2000, 900, 4400)),
        (Budget(hot=100, total=50), Budget(50, 22, 11, 50)),
        (Budget(5000, 5000, 5000), Budget(5000, 5000, 5000, 15000)),
    ],
)
def test_budgets_have_defaults(given_: Budget, settled: Budget) -> None:
    assert given_.settled() == settled


def test_relevance_is_half_recency_three_tenths_similarity_and_a_fifth_anchor() -> None:
    weigh = Weights().relevance
    assert weigh(age=0, similarity=1, anchor=1) == pytest.approx(1)
    assert weigh(age=0, similarity=0, anchor=0) == pytest.approx(0.5)
    assert weigh(age=10 * DAY, similarity=0, anchor=0) == pytest.approx(0.5 * 2.718281828**-1)
    assert weigh(age=10**15, similarity=1, anchor=0) == pytest.approx(0.3)
    assert weigh(age=10**15, similarity=0, anchor=0.5) == pytest.approx(0.1)
    assert weigh(age=-5, similarity=0, anchor=0) == pytest.approx(0.5)
    assert Weights(0, 0, 0).relevance(age=0, similarity=1, anchor=1) == 0


def test_overlap_is_the_share_of_the_words_that_say_something() -> None:
    asked = words_of("When do the disks fill up?")
    assert overlap(asked, "The disks fill") == pytest.approx(2 / len(asked))
    assert overlap(words_of("北京大学"), "我在北京大学读书") > overlap(words_of("北京大学"), "上海")
    assert overlap(frozenset(), "anything") == 0


@pytest.mark.parametrize("message", ["Hi!", "hello there", "Thanks a lot"[:6], "ok, great", "Guten Morgen!", "yes", "👋"])
def test_small_talk_says_little(message: str) -> None:
    assert says_little(message)


@pytest.mark.parametrize("message", ["Hi, why is the disk full?", "yes, delete the logs", "Paris", "北京"])
def test_what_asks_something_says_more(message: str) -> None:
    assert not says_little(message)


def test_evenly_spaced_numbers_reach_from_end_to_end() -> None:
    assert list(evenly(1, 3, 5)) == [1, 2, 3]
    assert list(evenly(1, 100, 4)) == [1, 34, 67, 100]
    assert list(evenly(7, 100, 1)) == [7]
