"""Tiers: what is hot, warm and cold, how it came to be, and that nobody waits for it."""

from typing import Any

import apsw
import pytest
from recollect.v1 import context_pb2
from recollect.v1 import recall_service_pb2 as api
from recollect_server.services.context.recent_turns import RecentTurns
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.tiers import Transition

from tests.conftest import MovableClock, RunningServer, Start
from tests.context.conftest import COLD, HOT, WARM, built, candidate
from tests.server.conftest import Connect, Service, delete_index, failure_of, moment, user
from tests.server_cli.conftest import on
from tests.waiting import until

MINUTE = 60_000


def transitions(
    service: Service, conversation_id: str = "", **fields: Any
) -> list[context_pb2.TierTransition]:
    request = api.ListTierTransitionsRequest(conversation_id=conversation_id, **fields)
    return list(service.recall.ListTierTransitions(request).transitions)


def moves(service: Service, conversation_id: str = "") -> list[tuple[int, int]]:
    """Return the moves between tiers, newest first."""
    return [(it.from_tier, it.to_tier) for it in transitions(service, conversation_id)]


def test_a_conversation_is_hot_once_a_context_was_built_for_it_and_cools_down(
    service: Service, clock: MovableClock
) -> None:
    conversation = service.conversation_of("one")
    assert transitions(service) == []
    built(service, conversation)
    built(service, conversation)
    [hot] = transitions(service, conversation)
    assert (hot.from_tier, hot.to_tier, hot.time) == (COLD, HOT, moment(clock.now))
    assert (hot.conversation_id, hot.reason) == (conversation, "a context was built for it")
    clock.move(29 * MINUTE)
    built(service, conversation)
    clock.move(29 * MINUTE)
    assert moves(service) == [(COLD, HOT)]
    clock.move(2 * MINUTE)
    assert moves(service) == [(HOT, WARM), (COLD, HOT)]
    clock.move(31 * MINUTE)
    assert moves(service) == [(WARM, COLD), (HOT, WARM), (COLD, HOT)]


def test_what_is_fetched_found_or_packed_is_warm_for_a_while(
    service: Service, clock: MovableClock
) -> None:
    fetched, searched, packed = (
        service.conversation_of("first okapi"),
        service.conversation_of("second zebra"),
        service.conversation_of("third pangolin"),
    )
    here = service.conversation_of("one")
    service.context(fetched)
    service.search("zebra")
    built(service, here, "Where is the pangolin?")
    assert [moves(service, name) for name in (fetched, searched, packed, here)] == [
        [(COLD, WARM)]
    ] * 3 + [[(COLD, HOT)]]
    assert {it.reason for it in transitions(service)} == {
        "turns of it were fetched",
        "a search found it",
        "messages of it were packed into a context",
        "a context was built for it",
    }
    clock.move(31 * MINUTE)
    assert moves(service, fetched) == [(WARM, COLD), (COLD, WARM)]


def test_how_long_is_a_setting(start_server: Start, connect: Connect, clock: MovableClock) -> None:
    service = connect(start_server(warm_for="1m"))
    service.context(conversation := service.conversation_of("one"))
    clock.move(MINUTE)
    assert moves(service, conversation) == [(WARM, COLD), (COLD, WARM)]


def test_transitions_come_in_pages_newest_first(service: Service) -> None:
    names = [service.conversation_of(f"number {number}") for number in range(5)]
    for name in names:
        service.context(name)
    first = service.recall.ListTierTransitions(api.ListTierTransitionsRequest(page_size=3))
    rest = service.recall.ListTierTransitions(
        api.ListTierTransitionsRequest(page_size=3, page_token=first.next_page_token)
    )
    assert [it.conversation_id for it in [*first.transitions, *rest.transitions]] == names[::-1]
    assert (rest.next_page_token, len(first.transitions)) == ("", 3)
    other = api.ListTierTransitionsRequest(
        conversation_id=names[0], page_token=first.next_page_token
    )
    assert (
        failure_of(lambda: service.recall.ListTierTransitions(other)).reason == "INVALID_PAGE_TOKEN"
    )
    for fields, wrong in (
        ({"page_size": -1}, "page_size"),
        ({"conversation_id": "x"}, "conversation_id"),
    ):
        request = api.ListTierTransitionsRequest(**fields)
        assert failure_of(
            lambda given=request: service.recall.ListTierTransitions(given)  # type: ignore[misc]
        ).fields == (wrong,)


def test_a_restart_goes_on_with_what_was_written_and_a_new_index_begins_cold(
    service: Service,
    server: RunningServer,
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
) -> None:
    hot, warm = service.conversation_of("one"), service.conversation_of("two")
    built(service, hot)
    service.context(warm)
    server.stop()
    second = start_server()
    again = connect(second)
    assert moves(again, hot) == [(HOT, WARM), (COLD, HOT)]
    assert moves(again, warm) == [(COLD, WARM)]
    clock.move(31 * MINUTE)
    assert moves(again, warm) == [(WARM, COLD), (COLD, WARM)]
    second.stop()
    delete_index(second)
    assert transitions(connect(start_server())) == []


def test_a_deleted_conversation_leaves_no_transition(
    service: Service, server: RunningServer
) -> None:
    stays, goes = service.conversation_of("one"), service.conversation_of("two")
    service.context(stays)
    service.context(goes)
    assert len(transitions(service)) == 2
    built(service, goes)  # waits to be written
    service.delete(goes)
    assert [it.conversation_id for it in transitions(service)] == [stays]
    with apsw.Connection(
        str(server.folder / "conversations.db"), flags=apsw.SQLITE_OPEN_READONLY
    ) as connection:
        assert (
            connection.execute(
                "SELECT count(*) FROM tier_transitions WHERE conversation_id = ?", (goes,)
            ).get
            == 0
        )
    connection.close()


def test_only_the_newest_transitions_are_kept(server: RunningServer) -> None:
    server.stop()
    index = Index(server.folder)
    try:
        moved = [Transition(f"conv-{number}", 3, 2, "made up", number) for number in range(10)]
        index.tiers.add(moved, {"contexts": 2}, limit=4)
        index.tiers.add([], {"contexts": 3}, limit=4)
        assert [it.time for it in index.tiers.select("", 0, 100)] == [9, 8, 7, 6]
    finally:
        index.close()


def test_stats_say_what_contexts_were_made_of(service: Service, server: RunningServer) -> None:
    service.conversation_of("The zebra lives in Ghent.")
    here = service.conversation_of(*(f"turn {number}" for number in range(7)))
    built(service, here, "Where does the zebra live?")
    built(service, here, "Where does the zebra live?")
    assert transitions(service)  # what waited is written now
    output = on(server, "stats").output
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
    assert transitions(service)
    assert "contexts: 3, of them 2 with the newest turns from memory" in on(server, "stats").output


def test_moves_are_written_behind_the_calls_within_a_second_or_so(
    service: Service, server: RunningServer
) -> None:
    conversation = service.conversation_of("one")
    service.context(conversation)

    def written() -> list[Any]:
        connection = apsw.Connection(
            str(server.folder / "conversations.db"), flags=apsw.SQLITE_OPEN_READONLY
        )
        try:
            return list(connection.execute("SELECT conversation_id, reason FROM tier_transitions"))
        finally:
            connection.close()

    assert until(written) == [(conversation, "turns of it were fetched")]


@pytest.mark.parametrize("most", [1, 2])
def test_tails_are_bounded_and_say_which_one_made_room(most: int) -> None:
    evicted: list[str] = []
    tails = RecentTurns(10, evicted.append, most)
    for name in ("a", "b", "c"):
        tails.put(name, 2, [candidate(2).message])
    assert evicted == ["a", "b", "c"][: 3 - most]
    assert (tails.get("c", 2) is not None, tails.get("a", 2), tails.get("c", 3)) == (
        True,
        None,
        None,
    )


def test_a_tail_that_is_too_long_is_not_kept() -> None:
    tails = RecentTurns(10, pytest.fail)
    tails.put("a", 2, [candidate(2, "x" * 300_000).message])
    assert tails.get("a", 2) is None
