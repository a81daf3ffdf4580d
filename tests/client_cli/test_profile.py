"""The profile on the command line: listed, as of a moment, and a statement of it taken away."""

import pytest
from recollect import Client, Message

from tests.client_cli.conftest import Inside
from tests.conftest import MovableClock, RunningServer, Start
from tests.waiting import until

ALLERGY, WORK = "I'm allergic to peanuts.", "I work as a bus driver."


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    return start_server(embedder="onnx")


def test_a_profile_is_listed_as_of_a_moment_and_a_statement_taken_away(
    inside: Inside, server: RunningServer, client: Client, clock: MovableClock
) -> None:
    there = client.conversations.create("cli").id
    client.conversations.append_turn(there, [Message.user(ALLERGY)])
    clock.move(86_400_000 * 40)
    client.conversations.append_turn(there, [Message.user(f"Hello. {WORK}")])
    until(lambda: len(client.recall.get_profile().statements) == 2)
    first, second = client.recall.get_profile().statements
    lines = inside("profile", "list").lines
    assert {(it["text"], it["sequence"]) for it in lines} == {(ALLERGY, 2), (WORK, 3)}
    day = first.time if first.text == ALLERGY else second.time
    [before] = inside("profile", "list", "--as-of", f"{day:%Y-%m-%d}T23:59:59Z").lines
    assert before["text"] == ALLERGY
    shown = inside("profile", "list", on_terminal=True).out
    assert f"{WORK}\nwork, said " in shown
    assert f"from {there} 3 {len('Hello. ')}\n" in shown
    assert inside("profile", "remove", there, "3", "6").code == 2  # it asks, and nobody is there
    removal = ("profile", "remove", there, "3", "7")
    assert "It is in no context any more." in inside(*removal, on_terminal=True, stdin="y\n").out
    assert [it["text"] for it in inside("profile", "list").lines] == [ALLERGY]
    assert inside("profile", "remove", there, "3", "1", "--yes").code == 3
