"""Conversations that name and summarise themselves, through the running server."""

import pytest
from recollect import Client
from recollect.v1 import conversation_service_pb2 as conversation_api
from recollect.v1 import insight_service_pb2 as insight_api
from recollect.v1.insight_service_pb2_grpc import InsightServiceStub
from recollect.v1.recall_service_pb2 import BuildContextRequest

from tests.anchors.conftest import values
from tests.conftest import MovableClock, RunningServer, Start
from tests.crash.digest import digest, rebuilt_digest
from tests.naming.conftest import MINUTE, NOTES, TURNS, Answer, Api, events, kinds, refused, wrote
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    code_of,
    delete_index,
    failure_of,
    moment,
    transcript,
    user,
)
from tests.server_cli.conftest import run
from tests.waiting import until


def leave(service: Service, left: str, following: str = "") -> None:
    """Switch away from a conversation, and wait for its notes."""
    service.switch(left, following)
    until(lambda: service.get(left).abbreviation)


@pytest.fixture
def naming(start_server: Start) -> RunningServer:
    """Start a server that writes notes offline."""
    return start_server(abbreviator="extractive")


@pytest.fixture
def service(naming: RunningServer, connect: Connect) -> Service:
    return connect(naming)


def test_ten_quiet_minutes_bring_notes_and_not_a_minute_less(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    first, second = (
        service.conversation_of("Rotate the logs daily."),
        service.conversation_of("What is a pangolin?"),
    )
    clock.move(9 * MINUTE)
    service.append(second, agent("A scaly mammal."))
    clock.move(MINUTE)
    until(lambda: service.get(first).abbreviation)
    assert service.get(first).abbreviation == "User: Rotate the logs daily."
    clock.move(9 * MINUTE - 1)
    # once this one has notes, the writer has looked around again
    leave(service, service.conversation_of("Ask Marta about it."))
    assert not service.get(second).abbreviation
    assert not service.get(first).title  # one turn is too little to name it by
    clock.move(1)
    until(lambda: service.get(second).abbreviation)
    assert kinds(naming, first) == ["abbreviation"]


def test_a_message_of_a_clock_that_is_a_little_ahead_makes_nobody_idle(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    clock.move(9 * MINUTE)
    ahead = service.conversation_of("What is a pangolin?")
    clock.move(-9 * MINUTE)  # as that of a second server may be, or one that was read just before
    leave(service, service.conversation_of("Ask Marta about it."))
    assert not service.get(ahead).abbreviation
    clock.move(19 * MINUTE)
    until(lambda: service.get(ahead).abbreviation)
    assert kinds(naming, ahead) == ["abbreviation"]


def test_a_conversation_that_is_left_gets_its_notes_at_once(service: Service) -> None:
    left, stayed = (
        service.conversation_of("Rotate the logs daily."),
        service.conversation_of("Hello there, server."),
    )
    leave(service, left, stayed)
    assert not service.get(stayed).abbreviation


def test_the_fifth_user_message_brings_a_title_and_no_notes_yet(
    service: Service, naming: RunningServer
) -> None:
    four, five = service.conversation_of(*TURNS[:4]), service.conversation_of(*TURNS)
    until(lambda: service.get(five).title)
    title = service.get(five).title
    assert title == "Why Is the Web Server Slow"
    assert service.get(five).topics
    assert kinds(naming, five) == ["title_assigned"]
    assert not service.get(four).title


def test_a_title_is_sought_anew_on_idle_once_ten_turns_have_passed(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    conversation = service.conversation_of(*TURNS)
    until(lambda: service.get(conversation).title)
    for number in range(9):
        service.append(conversation, user(f"Pangolins eat ants, fact {number}."))
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    assert kinds(naming, conversation) == ["title_assigned", "abbreviation"]
    service.append(conversation, user("Pangolins eat ants at night."))
    clock.move(10 * MINUTE)
    until(lambda: kinds(naming, conversation)[2:])
    assert kinds(naming, conversation)[2:] == ["abbreviation", "title_assigned"]
    assert "Pangolins" in service.get(conversation).title


def test_a_renewed_title_that_says_the_same_is_not_written_again(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    conversation = service.conversation_of(*TURNS)
    until(lambda: service.get(conversation).title)
    for _ in range(10):
        service.append(conversation, user("Thanks!"))
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    assert kinds(naming, conversation) == ["title_assigned", "abbreviation"]
    assert service.get(conversation).title == "Why Is the Web Server Slow"


def test_the_turns_after_which_a_title_is_sought_anew_are_a_setting(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    with Client(naming.target) as client:
        client.admin.set_setting("title_turns", "4")
    conversation = service.conversation_of(*TURNS)
    until(lambda: service.get(conversation).title)
    for number in range(4):
        service.append(conversation, user(f"I saw the pangolins in the zoo, fact {number}."))
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    assert kinds(naming, conversation)[-1] == "title_assigned"
    assert kinds(naming, conversation).count("title_assigned") == 2


def test_the_turn_from_which_an_idle_conversation_gets_a_title_is_a_setting(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    untitled = service.conversation_of("Why is the web server slow?")
    clock.move(10 * MINUTE)
    until(lambda: service.get(untitled).abbreviation)
    with Client(naming.target) as client:
        client.admin.set_setting("first_title_turn", "1")
    titled = service.conversation_of("Why is the mail server slow?")
    clock.move(10 * MINUTE)
    until(lambda: service.get(titled).abbreviation)
    assert (service.get(untitled).title, service.get(titled).title) == (
        "",
        "Why Is the Mail Server Slow",
    )


def test_a_title_that_a_person_gave_is_never_changed(
    service: Service, naming: RunningServer, clock: MovableClock
) -> None:
    conversation = service.conversation_of(*TURNS[:4])
    service.rename(conversation, "Mine")
    for number in range(20):
        service.append(conversation, user(f"Rotate log {number}."))
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    assert service.get(conversation).title == "Mine"
    assert "title_assigned" not in kinds(naming, conversation)


def test_what_is_said_after_the_notes_brings_new_ones_even_within_the_same_turn(
    service: Service, clock: MovableClock
) -> None:
    conversation = service.conversation_of("Why is the web server slow?")
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    service.append(conversation, agent("The disk of the web server is full of logs."))
    clock.move(10 * MINUTE)
    until(lambda: "full of logs" in service.get(conversation).abbreviation)
    assert service.get(conversation).turn_count == 1


def test_anchors_come_from_their_message_and_are_not_written_twice(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    server = start_server(abbreviator="anthropic")
    service = connect(server)

    def found(*anchors: tuple[str, str, int]) -> list[dict[str, object]]:
        keys = ("key", "value", "line", "confidence")
        return [dict(zip(keys, (*it, 0.9), strict=True)) for it in anchors]

    first = found(("name", "Alex", 2), ("location", "Ghent", 3))
    api.answers = [wrote(NOTES | {"anchors": first})]
    conversation = service.conversation_of("My name is Alex.", "I live in Ghent.")
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    line = service.append(conversation, user("Call me Al. I live in Bruges.")).messages[0].sequence
    then = found(("location", "Bruges", line), ("preferred_name", "Al", line))
    api.answers = [wrote(NOTES | {"abbreviation": "In Bruges.", "anchors": first + then})]
    clock.move(10 * MINUTE)
    until(lambda: "Bruges" in service.get(conversation).abbreviation)
    listed = [
        (e["key"], e["value"], e["sequence"])
        for e in events(server, conversation)
        if e["event"] == "anchor"
    ]
    assert listed == [
        ("name", "Alex", 2),
        ("location", "Ghent", 3),
        ("location", "Bruges", line),
        ("preferred_name", "Al", line),
    ]
    assert failure_of(lambda: service.delete(conversation)).reason == "ANCHORS_PRESENT"
    receipt = service.delete(conversation, anchors=2)
    assert {place.place: place.count for place in receipt.removed}["anchors"] == 4
    assert code_of(lambda: service.get(conversation)) == "NOT_FOUND"


def test_a_restart_and_a_lost_index_lose_no_work(
    service: Service,
    naming: RunningServer,
    clock: MovableClock,
    start_server: Start,
    connect: Connect,
) -> None:
    conversations = [
        service.conversation_of(f"Rotate log {number}. My name is Alex.") for number in range(3)
    ]
    naming.stop()
    delete_index(naming)
    clock.move(10 * MINUTE)
    again = start_server(abbreviator="extractive")
    service = connect(again)
    until(lambda: all(service.get(conversation).abbreviation for conversation in conversations))
    again.stop()
    tmp = again.data_dir.parent / "beside"
    assert digest(again.folder) == rebuilt_digest(again.folder, tmp)


def test_notes_are_durable_and_need_no_second_writing_after_a_restart(
    service: Service,
    naming: RunningServer,
    clock: MovableClock,
    start_server: Start,
    connect: Connect,
) -> None:
    conversation = service.conversation_of("Rotate the logs daily.")
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation)
    naming.stop()
    delete_index(naming)
    again = connect(start_server(abbreviator="extractive"))
    marker = again.conversation_of("What is a pangolin?")
    clock.move(10 * MINUTE)
    until(lambda: again.get(marker).abbreviation)
    assert kinds(naming, conversation) == ["abbreviation"]


def test_off_means_that_nobody_takes_notes(
    start_server: Start, connect: Connect, clock: MovableClock
) -> None:
    off = start_server(abbreviator="off")
    conversation = connect(off).conversation_of(*TURNS)
    clock.move(10 * MINUTE)
    off.stop()
    on = start_server(abbreviator="extractive")
    service = connect(on)
    until(lambda: service.get(conversation).abbreviation)
    assert kinds(on, conversation)[0] in ("abbreviation", "title_assigned")


def test_a_model_that_fails_is_asked_again_with_the_next_sweep_and_logged_once(
    start_server: Start,
    connect: Connect,
    clock: MovableClock,
    api: Api,
    capsys: pytest.CaptureFixture[str],
) -> None:
    api.answers = [refused(401, "authentication_error")]
    server = start_server(abbreviator="anthropic")
    service = connect(server)
    conversations = [service.conversation_of(f"Rotate log {number}.") for number in range(3)]
    clock.move(10 * MINUTE)
    until(lambda: len(api.requests) == 1)
    clock.move(5 * MINUTE)
    until(lambda: len(api.requests) == 2)
    assert [service.get(conversation).abbreviation for conversation in conversations] == [
        "",
        "",
        "",
    ]
    assert capsys.readouterr().out.count("notes_not_written") == 1
    output = run("stats", "--data-dir", server.data_dir).stdout
    assert "notes_failed: 2 conversations, as: the API answered 401 authentication_error" in output
    assert "model_spending: 2 calls, 0 tokens on 2026-" in output
    api.answers = [wrote(NOTES)]
    clock.move(5 * MINUTE)
    until(
        lambda: all(
            service.get(conversation).abbreviation == "Alex ships on Friday."
            for conversation in conversations
        )
    )
    server.stop()


def test_one_conversation_that_the_model_refuses_holds_up_no_other(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    api.answers = [wrote(NOTES, stop_reason="refusal", content=[]), wrote(NOTES)]
    server = start_server(abbreviator="auto")
    service = connect(server)
    refused_one = service.conversation_of("Something that it will not read.")
    clock.move(1)
    other = service.conversation_of("Rotate the logs daily.")
    clock.move(10 * MINUTE)
    until(lambda: service.get(other).abbreviation)
    assert not service.get(refused_one).abbreviation
    clock.move(5 * MINUTE)
    until(lambda: service.get(refused_one).abbreviation)


def test_a_conversation_that_goes_on_while_the_model_writes_waits_again(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    server = start_server(abbreviator="anthropic")
    service = connect(server)
    api.answers = [
        Answer(body=wrote(NOTES).body, wait=True),
        wrote(NOTES | {"abbreviation": "Second."}),
    ]
    conversation = service.conversation_of("When do we ship?")
    clock.move(10 * MINUTE)
    until(lambda: len(api.requests) == 1)
    service.append(conversation, agent("On Friday."))  # nobody who talks waits for the model
    api.go_on.set()
    clock.move(10 * MINUTE)
    until(lambda: service.get(conversation).abbreviation == "Second.")
    assert kinds(server, conversation) == ["abbreviation", "anchor"]
    assert "On Friday." in api.requests[1]["messages"][0]["content"]


def test_notes_of_a_deleted_conversation_are_not_those_of_another_one_with_its_id(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    server = start_server(abbreviator="anthropic")
    service = connect(server)
    api.answers = [
        Answer(body=wrote(NOTES).body, wait=True),
        wrote(
            {"abbreviation": "Second.", "title": "Rotating the logs", "topics": [], "anchors": []}
        ),
    ]
    name = service.conversation_of("When do we ship?")
    clock.move(10 * MINUTE)
    until(lambda: len(api.requests) == 1)
    service.delete(name)
    service.create(conversation_id=name, messages=[user("Rotate the logs daily.")])
    api.go_on.set()
    clock.move(10 * MINUTE)
    until(lambda: service.get(name).abbreviation)
    assert "ships" not in transcript(server, name).read_text()
    assert service.get(name).abbreviation == "Second."


def test_a_server_stops_while_a_model_is_still_asked_and_the_next_one_takes_the_notes(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    api.answers = [Answer(hold=True), wrote(NOTES)]
    server = start_server(abbreviator="anthropic")
    conversation = connect(server).conversation_of("When do we ship?")
    clock.move(10 * MINUTE)
    until(lambda: len(api.requests) == 1)
    server.stop()
    again = connect(start_server(abbreviator="anthropic"))
    until(lambda: again.get(conversation).abbreviation)
    assert len(api.requests) == 2


def test_a_split_is_suggested_to_who_watches_and_only_once(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    split = {
        "reason": "Two unrelated things.",
        "titles": ["disk of the server", "holiday in Ghent"],
    }
    api.answers = [wrote(NOTES | {"split": split})]
    server = start_server(abbreviator="anthropic")
    service = connect(server)
    stream = service.conversations.StreamUpdates(
        conversation_api.StreamUpdatesRequest(), timeout=60
    )
    watched = (response.update for response in stream)
    assert next(watched).WhichOneof("kind") == "conversation_list"
    conversation = service.conversation_of("The disk is full.", "And I go to Ghent in May.")
    clock.move(10 * MINUTE)
    kind = "conversation_list"
    suggestions: list[str] = []
    while kind != "split_suggested":
        update = next(watched)
        kind = str(update.WhichOneof("kind"))
        suggestions.append(kind)
    assert update.conversation_id == conversation
    assert list(update.split_suggested.titles) == ["Disk of the Server", "Holiday in Ghent"]
    assert "conversation_abbreviated" in suggestions
    stream.cancel()
    service.append(conversation, user("The disk is still full."))
    clock.move(10 * MINUTE)
    until(lambda: kinds(server, conversation).count("abbreviation") == 2)
    assert kinds(server, conversation).count("split_suggested") == 1
    for is_rebuilt in (False, True):
        if is_rebuilt:
            server.stop()
            delete_index(server)
            service = connect(start_server(abbreviator="anthropic"))
        built = service.recall.BuildContext(BuildContextRequest(conversation_id=conversation))
        (listed,) = service.listed().conversations
        for shown in (service.get(conversation), listed, built):
            assert shown.split_suggestion.reason == "Two unrelated things."
            assert list(shown.split_suggestion.titles) == ["Disk of the Server", "Holiday in Ghent"]
    service.rename(conversation, "Disk and Ghent")
    assert not service.get(conversation).HasField("split_suggestion")


def test_a_message_dated_ahead_and_a_clock_that_jumped_do_not_stop_the_idle_clock(
    service: Service, clock: MovableClock
) -> None:
    ahead, jumped = service.create().id, service.create().id
    service.append(
        ahead, user("Rotate the logs daily.", timestamp=moment(clock.now + 20 * 60 * MINUTE))
    )
    clock.move(10 * MINUTE)
    until(lambda: service.get(ahead).abbreviation)
    now = clock.now
    clock.now += 100 * 365 * 24 * 60 * MINUTE
    service.append(jumped, user("What is a pangolin?"))
    clock.now = now
    until(lambda: service.get(jumped).abbreviation)
    assert "pangolin" in service.get(jumped).abbreviation


def test_notes_by_a_model_keep_what_they_cost_and_insight_counts_it(
    start_server: Start, connect: Connect, api: Api, clock: MovableClock
) -> None:
    garbage = wrote("Sure! Here are the notes.")
    api.answers = [garbage, wrote(NOTES)]
    server = start_server(
        abbreviator="anthropic", abbreviation_input_price=3.0, abbreviation_output_price=15.0
    )
    service = connect(server)
    left = service.conversation_of(*TURNS)
    service.switch(left)
    until(lambda: service.get(left).notes.failure)
    clock.move(60 * MINUTE)  # the answer that was none is not among the notes' calls
    until(lambda: service.get(left).abbreviation)
    use = {"calls": 1, "input": 100, "output": 20, "cost": 0.0006}
    assert [it.get("modelUse") for it in events(server, left)][:1] == [use]
    assert sum("modelUse" in it for it in events(server, left)) == 1
    [row] = InsightServiceStub(service.channel).Usage(insight_api.UsageRequest()).rows
    notes = row.activity.notes
    assert (notes.calls, notes.usage.input, notes.usage.output) == (1, 100, 20)
    assert round(notes.cost, 9) == 0.0006


def test_what_a_model_has_taken_back_is_not_set_again_by_what_was_said_before(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    service = connect(start_server(abbreviator="anthropic"))
    conversation = service.create().id

    def noted(text: str, place: str, **diets: int) -> list[tuple[str, str]]:
        """Append a message, which the model finds a place in; return the anchors that hold."""
        line = service.append(conversation, user(text)).messages[0].sequence
        diet = [("diet", value.strip("_"), at or line) for value, at in diets.items()]
        keys = ("key", "value", "line", "confidence")
        anchors = [
            dict(zip(keys, (*it, 0.9), strict=True)) for it in (*diet, ("location", place, line))
        ]
        api.answers = [wrote(NOTES | {"anchors": anchors})]
        clock.move(10 * MINUTE)
        until(lambda: ("location", place) in values(service))
        return [it for it in values(service) if it[0] == "diet"]

    first = service.load(conversation).conversation.message_count + 2
    assert noted("I am vegan, and live in Bath.", "Bath", vegan=0) == [("diet", "vegan")]
    assert noted("Not vegan any more. I live in Ghent.", "Ghent", vegan=first, _=0) == []
    assert noted("I live in Rome.", "Rome", vegan=first) == []
    vegetarian = service.append(conversation, user("I eat no meat.")).messages[0].sequence
    clock.move(MINUTE)
    both = {"vegan": 0, "vegetarian": vegetarian}  # one answer of the model, the newer one first
    assert noted("Vegan again, in Oslo.", "Oslo", **both) == [("diet", "vegan")]
    now = [("diet", "vegetarian")]
    assert noted("Vegetarian after all, in Lima.", "Lima", vegetarian=0) == now


def test_a_word_that_a_fifth_of_twenty_conversations_have_is_no_topic(
    naming: RunningServer, connect: Connect, clock: MovableClock
) -> None:
    service = connect(naming)

    def topics() -> set[str]:
        """Return the topics of a conversation about a boiler and a pump."""
        conversation = service.conversation_of(
            "There is water at the boiler, and at the pump.", "Is it the boiler, or the pump?"
        )
        clock.move(10 * MINUTE)
        until(lambda: service.get(conversation).abbreviation)
        return set(service.get(conversation).topics)

    assert topics() == {"boiler", "pump"}
    for number in range(15):
        service.conversation_of("Hello." if number else "My boiler is warm.")
    assert topics() == {"boiler", "pump"}  # the seventeenth: nothing is common among so few
    for _ in range(3):
        service.conversation_of("Good evening.")
    assert topics() == {"pump"}  # 4 of 21 have the boiler, 3 the pump
