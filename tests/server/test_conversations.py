"""Beginning, reading, naming and noting conversations."""

from collections.abc import Callable

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import (
    ROLE_ASSISTANT,
    ROLE_TOOL,
    ROLE_USER,
    Attachment,
    Message,
    ToolCall,
    Usage,
)
from recollect_server.kernel.domain.conversation import TitleAssigned
from recollect_server.kernel.domain.ids import is_conversation_id
from recollect_server.kernel.log.lines import Entry, encode

from tests.cases import each
from tests.conftest import MovableClock, RunningServer, Start
from tests.server.conftest import (
    UNKNOWN,
    Connect,
    Service,
    agent,
    failure_of,
    moment,
    tool,
    transcript,
    user,
)


def test_a_new_conversation_has_what_was_asked_and_nothing_else(
    service: Service, clock: MovableClock
) -> None:
    party = Party(contact="4915112345", group_id="g1", thread_id="t1", subject="Hello")
    made = service.create("whatsapp", participants=["ana", "bo"], party=party, model="haiku")
    assert is_conversation_id(made.id)
    assert (made.channel, list(made.participants), made.party, made.model) == (
        "whatsapp",
        ["ana", "bo"],
        party,
        "haiku",
    )
    assert made.create_time == made.update_time == moment(clock.now)
    assert (made.title, made.abbreviation, made.turn_count, made.message_count) == ("", "", 0, 0)
    assert not made.manually_named
    assert not made.pinned
    assert service.get(made.id) == made


def test_without_participants_it_is_the_user(service: Service) -> None:
    made = service.create()
    assert list(made.participants) == ["user"]
    assert not made.HasField("party")


def test_an_import_begins_when_it_began(service: Service) -> None:
    assert service.create(create_time=moment(1_600_000_000_123)).create_time == moment(
        1_600_000_000_123
    )


def test_what_does_not_exist_is_not_found_by_any_call(service: Service) -> None:
    calls: list[Callable[[], object]] = [
        lambda: service.get(UNKNOWN),
        lambda: service.load(UNKNOWN),
        lambda: service.append(UNKNOWN, user("hello")),
        lambda: service.rename(UNKNOWN, "A Title"),
        lambda: service.conversations.SetModel(
            api.SetModelRequest(conversation_id=UNKNOWN, model="m")
        ),
        lambda: service.compress(UNKNOWN, 1, "s"),
        lambda: service.abbreviate(UNKNOWN, "notes"),
        lambda: service.delete(UNKNOWN),
        lambda: service.context(UNKNOWN),
        lambda: service.conversations.Switch(api.SwitchRequest(from_conversation_id=UNKNOWN)),
        lambda: service.conversations.Switch(api.SwitchRequest(to_conversation_id=UNKNOWN)),
    ]
    for call in calls:
        failure = failure_of(call)
        assert (failure.code, failure.reason) == ("NOT_FOUND", "CONVERSATION_NOT_FOUND")
        assert failure.metadata == {"conversation_id": UNKNOWN}


def test_a_message_comes_back_as_it_was_given(service: Service, clock: MovableClock) -> None:
    conversation_id = service.create().id
    given = [
        Message(
            role=ROLE_USER, content="Look at this 👀\u2028and \u0301 this\n\ttoo", sender="Caroline", channel="email",
            timestamp=moment(1_700_000_000_456), attachments=[Attachment(media_type="image/png", uri="s3://x", bytes_length=7)],
        ),
        Message(
            role=ROLE_ASSISTANT, content="", thinking_text="hm", usage=Usage(input=3, output=0), cost=0.25,
            tool_calls=[ToolCall(id="c1", name="look", arguments='{"broken": ')],
        ),
        Message(role=ROLE_TOOL, tool_call_id="c1"),
    ]  # fmt: skip
    given[1].metadata.update({"a": [1, None, {"b": "ü"}], "t": True})
    given[2].metadata.SetInParent()
    stored = service.append(conversation_id, *given).messages
    assert list(stored) == list(service.load(conversation_id).messages)
    for number, (sent, received) in enumerate(zip(given, stored, strict=True)):
        expected = Message()
        expected.CopyFrom(sent)
        expected.sequence, expected.turn_number = number + 2, 1
        if not sent.HasField("timestamp"):
            expected.timestamp.CopyFrom(moment(clock.now))
        assert received == expected


def test_output_only_fields_of_a_request_are_ignored(service: Service) -> None:
    conversation_id = service.create().id
    stored = service.append(conversation_id, user("hello", sequence=900, turn_number=77)).messages
    assert [(message.sequence, message.turn_number) for message in stored] == [(2, 1)]


def test_a_user_message_opens_a_turn_and_everything_else_joins_it(service: Service) -> None:
    conversation_id = service.create().id
    answer = service.append(
        conversation_id, user("one"), agent("a"), agent("b"), user("two"), user("three"), agent("c")
    )
    assert [message.turn_number for message in answer.messages] == [1, 1, 1, 2, 3, 3]
    assert (
        answer.turn_number,
        answer.conversation.turn_count,
        answer.conversation.message_count,
    ) == (3, 3, 6)
    assert service.append(conversation_id, agent("d")).turn_number == 3
    assert service.append(conversation_id, user("four")).turn_number == 4


def test_a_first_message_that_is_not_the_users_opens_turn_1(service: Service) -> None:
    conversation_id = service.create().id
    answer = service.append(conversation_id, agent("Good morning!"), user("Hello"))
    assert [message.turn_number for message in answer.messages] == [1, 2]


def test_the_sequence_of_a_message_is_its_line_in_the_transcript(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.create().id
    service.turn(conversation_id, "first", "answer")
    service.rename(conversation_id, "In Between")
    service.turn(conversation_id, "second", "answer")
    lines = transcript(server, conversation_id).read_bytes().split(b"\n")
    messages = service.load(conversation_id).messages
    assert [message.sequence for message in messages] == [2, 3, 5, 6]
    for message in messages:
        assert f'"content":"{message.content}"'.encode() in lines[message.sequence - 1]


def test_a_tool_result_answers_an_open_call_whichever_request_appended_it(service: Service) -> None:
    conversation_id = service.create().id
    calls = [ToolCall(id="c1", name="a"), ToolCall(id="c2", name="b")]
    service.append(conversation_id, user("go"), agent("", tool_calls=calls))
    service.append(conversation_id, tool("c2", "second first"))
    service.append(conversation_id, tool("c1", ""), agent("done"))
    assert [message.tool_call_id for message in service.load(conversation_id).messages] == [
        "",
        "",
        "c2",
        "c1",
        "",
    ]


@each(
    ("before", "messages", "field"),
    [
        ([], [user("go"), tool("c1")], "messages[1].tool_call_id"),
        ([], [tool("c1")], "messages[0].tool_call_id"),
        (
            [user("go"), agent("", tool_calls=[ToolCall(id="c1", name="a")]), tool("c1")],
            [tool("c1")],
            "messages[0].tool_call_id",
        ),
        (
            [user("go"), agent("", tool_calls=[ToolCall(id="c1", name="a")])],
            [tool("C1")],
            "messages[0].tool_call_id",
        ),
        (
            [],
            [user("go"), tool("c1"), agent("", tool_calls=[ToolCall(id="c1", name="a")])],
            "messages[1].tool_call_id",
        ),
        (
            [user("go"), agent("", tool_calls=[ToolCall(id="c1", name="a")])],
            [agent("again", tool_calls=[ToolCall(id="c1", name="a")])],
            "messages[0].tool_calls[0].id",
        ),
        (
            [user("go"), agent("", tool_calls=[ToolCall(id="c1", name="a")])],
            [agent("", tool_calls=[ToolCall(id="c0", name="a"), ToolCall(id="c1", name="a")])],
            "messages[0].tool_calls[1].id",
        ),
    ],
)
def test_a_tool_result_without_an_open_call_is_refused_and_nothing_is_stored(
    service: Service, before: list[Message], messages: list[Message], field: str
) -> None:
    conversation_id = service.create().id
    if before:
        service.append(conversation_id, *before)
    failure = failure_of(lambda: service.append(conversation_id, *messages))
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        (field,),
    )
    assert service.get(conversation_id).message_count == len(before)


def test_the_same_tool_call_id_may_come_again_in_another_turn(service: Service) -> None:
    conversation_id = service.create().id
    for _ in range(2):
        service.append(
            conversation_id,
            user("go"),
            agent("", tool_calls=[ToolCall(id="c1", name="a")]),
            tool("c1"),
        )
    assert service.get(conversation_id).message_count == 6


def test_usage_and_cost_add_up(service: Service) -> None:
    conversation_id = service.create().id
    service.append(
        conversation_id, user("q"), agent("a", usage=Usage(input=100, output=20), cost=0.5)
    )
    after = service.append(
        conversation_id, agent("b", usage=Usage(output=1), cost=0.25), agent("c")
    ).conversation
    assert after.usage_total == Usage(input=100, output=21)
    assert after.cost_total == 0.75
    assert service.get(conversation_id) == after


def test_totals_that_leave_the_numbers_of_the_contract_stay_at_its_end(service: Service) -> None:
    conversation_id = service.create().id
    most = Usage(input=2**63 - 1, output=2**63 - 1)
    for _ in range(2):
        service.append(conversation_id, agent("expensive", usage=most, cost=1.7e308))
    after = service.get(conversation_id)
    assert (after.usage_total, after.message_count) == (most, 2)
    assert after.cost_total < float("inf")
    assert len(service.load(conversation_id).messages) == 2


def test_senders_become_participants_in_the_order_they_first_spoke_and_64_are_kept(
    service: Service,
) -> None:
    conversation_id = service.create(participants=["ana"]).id
    service.append(
        conversation_id,
        user("hi", sender="bo"),
        agent("hi", sender="assistant"),
        user("hi", sender="ana"),
    )
    assert list(service.get(conversation_id).participants) == ["ana", "bo", "assistant"]
    service.append(conversation_id, *(user("hi", sender=f"guest {number}") for number in range(70)))
    participants = list(service.get(conversation_id).participants)
    assert (len(participants), participants[3], participants[-1]) == (64, "guest 0", "guest 60")


def test_update_time_is_that_of_the_newest_message_and_naming_does_not_change_it(
    service: Service, clock: MovableClock
) -> None:
    conversation_id = service.create().id
    clock.move(1000)
    service.append(conversation_id, user("now"))
    sent_at = moment(clock.now)
    service.append(
        conversation_id, user("an old one comes late", timestamp=moment(clock.now - 500_000))
    )
    clock.move(1000)
    service.rename(conversation_id, "Title")
    service.abbreviate(conversation_id, "notes")
    assert service.get(conversation_id).update_time == sent_at


def test_the_update_time_of_an_import_is_its_newest_message(service: Service) -> None:
    conversation_id = service.create().id
    service.append(conversation_id, user("then", timestamp=moment(1_500_000_000_000)))
    assert service.get(conversation_id).update_time == moment(1_500_000_000_000)


def test_a_title_is_cut_to_what_is_said_and_is_manual(service: Service) -> None:
    conversation_id = service.create().id
    named = service.rename(conversation_id, "  Übersicht der Käufe\t ")
    assert (named.title, named.manually_named) == ("Übersicht der Käufe", True)
    assert service.rename(conversation_id, "x" * 80).title == "x" * 80
    assert service.get(conversation_id).title == "x" * 80


def test_a_manual_title_is_never_overwritten(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    named, unnamed = service.conversation_of("one"), service.conversation_of("two")
    service.rename(named, "By Hand")
    server.stop()
    for conversation_id in (named, unnamed):
        with transcript(server, conversation_id).open("ab") as file:
            file.write(encode(Entry(TitleAssigned("By Machine", ("a-topic",), 1_790_000_000_000))))
    again = connect(start_server())
    assert (again.get(named).title, again.get(named).manually_named) == ("By Hand", True)
    assert (again.get(unnamed).title, again.get(unnamed).manually_named) == ("By Machine", False)
    assert list(again.get(unnamed).topics) == ["a-topic"]
    assert again.rename(unnamed, "Now By Hand").manually_named


def test_the_model_is_set_and_taken_back(service: Service) -> None:
    conversation_id = service.create(model="haiku").id
    for model in ("opus", ""):
        answer = service.conversations.SetModel(
            api.SetModelRequest(conversation_id=conversation_id, model=model)
        )
        assert answer.conversation.model == model
        assert service.get(conversation_id).model == model


def test_a_compression_is_recorded_and_no_message_changes(service: Service) -> None:
    conversation_id = service.conversation_of("one", "two", "three")
    before = service.context(conversation_id).messages
    assert service.compress(conversation_id, 2, "what was said").compressed_through == 2
    assert service.context(conversation_id).messages == before
    assert service.found("what was said") == []


@pytest.mark.parametrize("through", [0, -1, 1, 4])
def test_a_compression_covers_what_exists_and_no_less_than_the_one_before(
    service: Service, through: int
) -> None:
    conversation_id = service.conversation_of("one", "two", "three")
    service.compress(conversation_id, 2, "first")
    failure = failure_of(lambda: service.compress(conversation_id, through, "second"))
    assert (failure.code, failure.reason, failure.fields) == (
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        ("compressed_through",),
    )
    assert service.load(conversation_id).compression_summary == "first"
    assert service.compress(conversation_id, 2, "better").compressed_through == 2


def test_an_abbreviation_is_recorded_and_unset_topics_stay(service: Service) -> None:
    conversation_id = service.conversation_of("one")
    noted = service.abbreviate(conversation_id, "notes", ["green-tea", "kyoto"])
    assert (noted.abbreviation, list(noted.topics)) == ("notes", ["green-tea", "kyoto"])
    noted = service.abbreviate(conversation_id, "newer notes")
    assert (noted.abbreviation, list(noted.topics)) == ("newer notes", ["green-tea", "kyoto"])
    assert service.get(conversation_id) == noted


def test_switch_loads_the_conversation_named_and_leaves_the_other(service: Service) -> None:
    left, following = service.conversation_of("bye"), service.conversation_of("one", "two", "three")
    request = api.SwitchRequest(
        from_conversation_id=left, to_conversation_id=following, max_turns=2
    )
    answer = service.conversations.Switch(request)
    assert answer.conversation.id == following
    assert [message.content for message in answer.messages] == ["two", "three"]
    assert answer.has_more
    alone = service.conversations.Switch(api.SwitchRequest(from_conversation_id=left))
    assert not alone.HasField("conversation")


def test_a_switch_is_exactly_once_by_its_request_id(service: Service) -> None:
    left, following = service.conversation_of("bye"), service.conversation_of("one")
    request = api.SwitchRequest(
        from_conversation_id=left, to_conversation_id=following, request_id="s1"
    )
    assert service.conversations.Switch(request) == service.conversations.Switch(request)
    other = api.SwitchRequest(
        from_conversation_id=following, to_conversation_id=left, request_id="s1"
    )
    assert failure_of(lambda: service.conversations.Switch(other)).reason == "REQUEST_ID_REUSED"
    only_to = api.SwitchRequest(to_conversation_id=left, request_id="s1")
    assert failure_of(lambda: service.conversations.Switch(only_to)).reason == "REQUEST_ID_REUSED"
