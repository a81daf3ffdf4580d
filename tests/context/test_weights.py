"""Weights of a message in a context: each part is settable."""

import math
from collections.abc import Callable

import pytest

from tests.anchors.conftest import set_anchor
from tests.conftest import MovableClock, RunningServer
from tests.context.conftest import built
from tests.server.conftest import Service

Start = Callable[..., RunningServer]
Connect = Callable[[RunningServer], Service]
DAY = 86_400_000


@pytest.mark.parametrize(
    ("settings", "relevance"),
    [
        ({"similarity_weight": 0, "anchor_weight": 0}, math.exp(-1)),
        ({"similarity_weight": 0, "anchor_weight": 0, "recency_decay": 0.2}, math.exp(-2)),
        ({"recency_weight": 0, "similarity_weight": 0}, 0.25),
        (
            {"recency_weight": 0.25, "similarity_weight": 0, "anchor_weight": 0.75},
            (math.exp(-1) + 3 * 0.25) / 4,
        ),
    ],
    ids=["recency alone", "a faster decay", "anchors alone", "both"],
)
def test_what_counts_is_a_setting(
    settings: dict[str, float],
    relevance: float,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    service = connect(start_server(**settings))
    there = service.conversation_of("The zebra lives in Ghent.")
    set_anchor(service, "zebra", "in Ghent", (there, 2), confidence=0.25)
    clock.move(10 * DAY)
    [packed] = built(
        service, service.conversation_of("Hello there, you."), "Where does the zebra live?"
    ).cold
    assert packed.relevance == pytest.approx(relevance, rel=1e-3)


def test_by_similarity_alone_age_counts_nothing(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    service = connect(start_server(recency_weight=0, anchor_weight=0))
    service.conversation_of("The zebra lives in Ghent.")
    here = service.conversation_of("Hello there, you.")
    results = []
    for _ in range(2):
        [packed] = built(service, here, "Where does the zebra live?").cold
        results.append(packed.relevance)
        clock.move(100 * DAY)
    assert results[0] == results[1] > 0


@pytest.mark.parametrize(("share", "conversations", "messages"), [(1.0, 1, 4), (0.1, 2, 3)])
def test_what_one_conversation_may_have_is_a_setting(
    share: float,
    conversations: int,
    messages: int,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    # What counts here is what fits beside each other, not how low the last of five equal answers
    # scores.
    service = connect(
        start_server(context_conversation_share=share, relevance_threshold=0.0, embedder="off")
    )
    service.conversation_of("The zebra lives in Ghent, in house 9.")
    clock.move(10 * DAY)
    service.conversation_of(
        *(f"The zebra lives in Ghent, in house {number}." for number in range(4))
    )
    here = service.conversation_of("Hello there, you.")
    packed = built(service, here, "zebra Ghent", hot=1, warm=1, cold=108, total=110).cold
    assert (len(packed), len({it.conversation_id for it in packed})) == (
        messages,
        conversations,
    )  # a second source takes room for its line
