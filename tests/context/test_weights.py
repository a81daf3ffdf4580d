"""Weights of a message in a context: its age, its similarity, and an anchor that came from it."""

import math

import pytest

from tests.anchors.conftest import set_anchor
from tests.conftest import MovableClock
from tests.context.conftest import built
from tests.server.conftest import Service

DAY = 86_400_000


def test_a_recalled_message_counts_less_as_it_ages_and_more_for_its_anchor(
    service: Service, clock: MovableClock
) -> None:
    there = service.conversation_of("The zebra lives in Ghent.")
    here = service.conversation_of("Hello there, you.")
    relevances = []
    for confidence in (None, 0.25):
        if confidence:
            set_anchor(service, "zebra", "in Ghent", (there, 2), confidence=confidence)
        [packed] = built(service, here, "Where does the zebra live?").cold
        relevances.append(packed.relevance)
    clock.move(10 * DAY)
    [packed] = built(service, here, "Where does the zebra live?").cold
    assert relevances[1] - relevances[0] == pytest.approx(0.05, rel=1e-3)
    assert relevances[1] - packed.relevance == pytest.approx(0.5 * (1 - math.exp(-1)), rel=1e-3)
