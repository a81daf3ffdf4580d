"""Tiers of contexts: what they were made of, and that the newest turns stay in memory."""

import pytest
from recollect.v1 import recall_service_pb2 as api
from recollect_server.context.recent_turns import RecentTurns

from tests.conftest import RunningServer
from tests.context.conftest import built, candidate
from tests.server.conftest import Service, user
from tests.server_cli.conftest import on
from tests.waiting import until


def until_counted(server: RunningServer, contexts: int) -> str:
    """Return the statistics once so many contexts are counted: that is written behind the calls."""
    return until(
        lambda: output if f"contexts: {contexts}" in (output := on(server, "stats").output) else ""
    )


def test_conversations_move_between_no_tiers(service: Service) -> None:
    conversation = service.conversation_of("one")
    built(service, conversation)
    answer = service.recall.ListTierTransitions(api.ListTierTransitionsRequest())
    assert answer == api.ListTierTransitionsResponse()


def test_stats_say_what_contexts_were_made_of(service: Service, server: RunningServer) -> None:
    service.conversation_of("The zebra lives in Ghent.")
    here = service.conversation_of(*(f"turn {number}" for number in range(7)))
    built(service, here, "Where does the zebra live?")
    built(service, here, "Where does the zebra live?")
    output = until_counted(server, 2)
    assert (
        "contexts: 2, of them 1 with the newest turns from memory and 2 that asked other conversations"
        in output
    )
    assert "messages_in_contexts: 10 hot, 4 warm, 2 cold" in output


def test_the_newest_turns_stay_in_memory_while_a_conversation_goes_on(
    service: Service, server: RunningServer
) -> None:
    here = service.conversation_of("one")
    for number in range(3):
        built(service, here)
        service.append(here, user(f"and {number}"))
    output = until_counted(server, 3)
    assert "contexts: 3, of them 2 with the newest turns from memory" in output


@pytest.mark.parametrize("most", [1, 2])
def test_tails_are_bounded(most: int) -> None:
    tails = RecentTurns(10, most)
    for name in ("a", "b", "c"):
        tails.put(name, 2, [candidate(2).message])
    assert [tails.get(name, 2) is not None for name in ("a", "b", "c")] == [False, most > 1, True]
    assert tails.get("c", 3) is None


def test_a_tail_that_is_too_long_is_not_kept() -> None:
    tails = RecentTurns(10)
    tails.put("a", 2, [candidate(2, "x" * 300_000).message])
    assert tails.get("a", 2) is None
