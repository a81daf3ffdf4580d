"""Notes that are written anew, and the record of who wrote each."""

from typing import Any

from recollect.v1 import conversation_service_pb2 as contract

from tests.conftest import MovableClock, Start
from tests.naming.conftest import MINUTE, NOTES, TURNS, Api, events
from tests.server.conftest import Connect, Service, delete_index, failure_of, user
from tests.waiting import until


def regenerate(service: Service, **fields: Any) -> tuple[int, int]:
    answer = service.conversations.RegenerateNotes(contract.RegenerateNotesRequest(**fields))
    return answer.queued, answer.kept


def record(service: Service, conversation: str, text: str, **fields: Any) -> None:
    service.conversations.RecordAbbreviation(
        contract.RecordAbbreviationRequest(conversation_id=conversation, text=text, **fields)
    )


def writer(service: Service, conversation: str) -> str:
    return str(service.get(conversation).notes.abbreviation.writer)


def test_a_model_writes_offline_notes_anew_on_demand_and_the_record_survives_a_rebuild(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    offline = start_server(abbreviator="extractive")
    service = connect(offline)
    first, second = (
        service.conversation_of(*TURNS),
        service.conversation_of("Rotate the logs daily."),
    )
    named = service.conversation_of(*TURNS)
    service.rename(named, "Mine")
    clock.move(10 * MINUTE)
    until(lambda: all(service.get(it).abbreviation for it in (first, second, named)))
    notes = service.get(first).notes
    assert (notes.abbreviation.writer, notes.abbreviation.model, notes.title.writer) == (
        "extractive",
        "",
        "extractive",
    )
    assert service.get(named).notes.title.writer == "caller"
    offline.stop()
    server = start_server(abbreviator="anthropic")
    service = connect(server)
    assert regenerate(service, writers=["extractive"], dry_run=True) == (3, 0)
    assert regenerate(service, conversation_id=first, request_id="r1") == (1, 0)
    assert regenerate(service, conversation_id=first, request_id="r1") == (1, 0)
    until(lambda: service.get(first).abbreviation == "Alex ships on Friday.")
    assert service.get(first).title == "Shipping on Friday"
    assert len(api.requests) == 1
    assert regenerate(service, all=True) == (3, 0)
    until(lambda: writer(service, second) == writer(service, named) == "anthropic")
    assert service.get(named).title == "Mine"
    server.stop()
    delete_index(server)
    notes = connect(start_server(abbreviator="off")).get(first).notes
    assert (notes.abbreviation.writer, notes.abbreviation.model) == (
        "anthropic",
        "claude-haiku-5-5",
    )
    assert (notes.title.writer, notes.title.write_time.seconds) == ("anthropic", clock.now // 1000)


def test_offline_notes_replace_none_of_a_model_or_of_a_caller(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    model = start_server(abbreviator="anthropic")
    service = connect(model)
    by_model, by_caller = (
        service.conversation_of("When do we ship?"),
        service.conversation_of("Rotate the logs daily."),
    )
    record(service, by_caller, "Logs are rotated.")
    clock.move(10 * MINUTE)
    until(lambda: service.get(by_model).abbreviation)
    model.stop()
    server = start_server(abbreviator="extractive")
    service = connect(server)
    assert regenerate(service, all=True) == (0, 2)
    for it in (by_model, by_caller):
        service.append(it, user("Water the plants."))
        service.switch(it)
    clock.move(10 * MINUTE)
    marker = service.conversation_of("What is a pangolin?")
    clock.move(10 * MINUTE)
    until(lambda: service.get(marker).abbreviation)
    assert service.get(by_model).abbreviation == "Alex ships on Friday."
    assert service.get(by_caller).abbreviation == "Logs are rotated."
    assert [event["event"] for event in events(server, by_caller)] == ["abbreviation"]


def test_a_callers_notes_are_written_anew_only_where_they_are_named(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    service = connect(start_server(abbreviator="anthropic"))
    conversation = service.conversation_of("Rotate the logs daily.")
    record(service, conversation, "Logs are rotated.")
    assert regenerate(service, all=True) == (0, 1)
    assert regenerate(service, writers=["caller"], channels=["web"]) == (1, 0)
    until(lambda: writer(service, conversation) == "anthropic")


def test_old_offline_notes_are_written_anew_in_the_background_within_half_of_the_budget(
    start_server: Start, connect: Connect, clock: MovableClock, api: Api
) -> None:
    offline = start_server(abbreviator="extractive")
    service = connect(offline)
    conversations = []
    for number in range(4):
        conversations.append(service.conversation_of(f"Rotate log {number}."))
        clock.move(10 * MINUTE)
        until(lambda: service.get(conversations[-1]).abbreviation)
    offline.stop()
    service = connect(
        start_server(abbreviator="anthropic", redo_offline_notes=True, abbreviation_daily_calls=6)
    )
    until(
        lambda: [writer(service, it) for it in conversations] == ["anthropic"] * 3 + ["extractive"]
    )
    new = service.conversation_of("When do we ship?")
    clock.move(10 * MINUTE)
    until(lambda: service.get(new).abbreviation == NOTES["abbreviation"])
    assert len(api.requests) == 4


def test_an_import_keeps_the_record_and_an_old_transcript_has_none(
    start_server: Start, connect: Connect
) -> None:
    service = connect(start_server(abbreviator="off"))
    conversation = service.conversation_of("Rotate the logs daily.")
    record(service, conversation, "Logs.", writer="openai", writer_model="llama3.2")
    notes = service.get(conversation).notes
    assert (notes.abbreviation.writer, notes.abbreviation.model) == ("openai", "llama3.2")
    record(service, conversation, "Logs.", writer="unknown")
    assert writer(service, conversation) == "unknown"
    assert failure_of(lambda: record(service, conversation, "Logs.", writer="somebody")).fields == (
        "writer",
    )
    assert failure_of(lambda: regenerate(service)).fields == ("all",)
