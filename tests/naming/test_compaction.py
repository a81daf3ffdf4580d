"""Conversations that are condensed for an agent that does not do it itself."""

import pytest
from recollect.v1.message_pb2 import ToolCall
from recollect_server.kernel.domain.message import estimate_tokens

from tests.conftest import RunningServer, Start
from tests.naming.conftest import Answer, Api, wrote
from tests.server.conftest import Connect, Service, agent, tool, transcript, user
from tests.waiting import until


@pytest.fixture
def compacting(start_server: Start) -> RunningServer:
    return start_server(abbreviator="extractive", compaction=True)


@pytest.fixture
def service(compacting: RunningServer, connect: Connect) -> Service:
    return connect(compacting)


def talk(service: Service, conversation: str, turns: int, first: int = 0) -> None:
    for number in range(first, first + turns):
        service.append(
            conversation,
            user(f"Inspect the reactor of plant {number}."),
            agent(f"Plant {number} is at 70 degrees."),
        )


def test_all_but_twenty_of_more_than_forty_messages_become_a_summary_that_names_the_tools(
    service: Service, compacting: RunningServer
) -> None:
    conversation = service.create().id
    calls = [ToolCall(id="1", name="thermometer", arguments="{}")]
    service.append(
        conversation,
        user("How hot is plant 99?"),
        agent("", tool_calls=calls),
        tool("1", "71"),
        agent("71 degrees."),
    )
    talk(service, conversation, 18)
    marker = service.create().id
    talk(service, marker, 21)
    until(lambda: service.load(marker).compression_summary)
    assert not service.load(conversation).compression_summary  # 40 messages are not too many
    talk(service, conversation, 1, first=18)
    until(lambda: service.load(conversation).compression_summary)
    loaded = service.load(conversation, max_turns=100)
    assert "thermometer" in loaded.compression_summary
    assert len(loaded.compression_summary.encode()) <= 4 * 500
    assert loaded.messages[0].content == "Inspect the reactor of plant 9."
    assert len(loaded.messages) == 20
    assert service.found("How hot is plant 99?")[0] == conversation
    assert transcript(compacting, conversation).read_bytes().count(b'"compression"') == 1


def test_how_many_messages_are_condensed_and_kept_are_settings(
    start_server: Start, connect: Connect
) -> None:
    service = connect(
        start_server(
            abbreviator="extractive", compaction=True, compaction_messages=6, compaction_keep=2
        )
    )
    conversation = service.create().id
    talk(service, conversation, 4)
    until(lambda: service.load(conversation).compression_summary)
    assert [it.content for it in service.load(conversation).messages] == [
        "Inspect the reactor of plant 3.",
        "Plant 3 is at 70 degrees.",
    ]


def test_who_writes_summaries_and_how_long_they_are_is_a_setting(
    start_server: Start, connect: Connect, api: Api
) -> None:
    api.answers = [wrote({"summary": "All plants are hot. " * 100})]
    settings = {"compaction": True, "compaction_messages": 6, "compaction_keep": 2}
    for writer in ("anthropic", "extractive"):
        server = start_server(
            abbreviator=writer, compaction_tokens=120, compaction_model="claude-opus-9", **settings
        )
        service = connect(server)
        conversation = service.create().id
        service.rename(conversation, "Plants")
        talk(service, conversation, 30)
        until(lambda: service.load(conversation).compression_summary)  # noqa: B023
        summary = service.load(conversation).compression_summary
        assert 60 < estimate_tokens(summary) <= 120, writer
        server.stop()
    assert {it["model"] for it in api.requests} == {"claude-opus-9"}
    assert all("at most 96 tokens" in it["system"] for it in api.requests)


def test_a_recorded_summary_has_500_tokens_at_most_however_much_there_is(service: Service) -> None:
    conversation = service.create().id
    for number in range(21):
        plants = (
            f"Reactor {number}.{at} of plant {at % 7} was inspected by team {at % 5}."
            for at in range(40)
        )
        service.append(
            conversation, user(" ".join(plants)), agent(f"Plant {number} is at 70 degrees.")
        )
    until(lambda: service.load(conversation).compression_summary)
    assert 450 < estimate_tokens(service.load(conversation).compression_summary) <= 500


def test_the_next_summary_goes_on_from_the_last(service: Service) -> None:
    conversation = service.create().id
    talk(service, conversation, 21)
    until(lambda: service.load(conversation).compression_summary)
    first = service.load(conversation)
    talk(service, conversation, 10, first=21)
    talk(service, conversation, 1, first=31)
    until(lambda: service.load(conversation).compression_summary != first.compression_summary)
    assert service.load(conversation).compression_summary.startswith(first.compression_summary[:40])
    assert len(service.load(conversation, max_turns=100).messages) == 20


def test_an_agent_that_compresses_itself_is_left_alone(
    service: Service, compacting: RunningServer
) -> None:
    conversation = service.create().id
    talk(service, conversation, 15)
    service.compress(conversation, 12, "All plants are at 70 degrees.")
    talk(service, conversation, 10, first=15)
    marker = service.create().id
    talk(service, marker, 21)
    until(lambda: service.load(marker).compression_summary)
    assert service.load(conversation).compression_summary == "All plants are at 70 degrees."


def test_a_summary_of_a_deleted_conversation_is_not_that_of_another_one_with_its_id(
    start_server: Start, connect: Connect, api: Api
) -> None:
    service = connect(
        start_server(
            abbreviator="anthropic", compaction=True, compaction_messages=6, compaction_keep=2
        )
    )
    api.answers = [
        Answer(wrote({"summary": "All plants are hot."}).body, wait=True),
        wrote({"summary": "Second."}),
    ]
    name = service.create().id
    service.rename(name, "Plants")
    talk(service, name, 4)
    until(lambda: len(api.requests) == 1)
    service.delete(name)
    service.create(conversation_id=name)
    service.rename(name, "Other plants")
    talk(service, name, 4, first=4)
    api.go_on.set()
    until(lambda: service.load(name).compression_summary)
    assert service.load(name).compression_summary == "Second."


def test_a_model_is_asked_thrice_for_a_summary_and_then_the_offline_writer_writes_it(
    start_server: Start, connect: Connect, api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    service = connect(
        start_server(
            abbreviator="anthropic", compaction=True, compaction_messages=6, compaction_keep=2
        )
    )
    refused = wrote({}, stop_reason="refusal", content=[])
    conversation = service.create().id
    service.rename(conversation, "Plants")

    def summary_after(turns: int, first: int, *answers: Answer) -> str:
        api.answers = list(answers)
        before = service.get(conversation).compressed_through
        talk(service, conversation, turns, first)
        until(lambda: service.get(conversation).compressed_through > before)
        return service.load(conversation).compression_summary

    good = wrote({"summary": "All plants are hot."})
    assert summary_after(4, 0, refused, wrote({"summary": 7}), good) == "All plants are hot."
    assert len(api.requests) == 3
    offline = summary_after(4, 4, refused)
    assert offline.startswith("All plants are hot.\n[4 user] Inspect the reactor of plant 3.")
    assert len(api.requests) == 6
    until(lambda: "the model refused; the offline writer wrote" in capsys.readouterr().out)
    assert summary_after(4, 8, good) == "All plants are hot."  # the model is asked again


def test_nothing_is_condensed_unless_it_is_asked_for(start_server: Start, connect: Connect) -> None:
    server = start_server(abbreviator="extractive")
    service = connect(server)
    conversation = service.create().id
    talk(service, conversation, 25)
    until(lambda: service.get(conversation).title)  # the writer was there
    assert b'"compression"' not in transcript(server, conversation).read_bytes()
