"""Conversations that begin with their first messages, in one call; and empty messages beside tool
calls.
"""

from functools import partial

import pytest
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import Message, ToolCall

from tests.at_rest import problems
from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    assert_refused,
    delete_index,
    failure_of,
    tool,
    user,
)


def begun(service: Service, *messages: Message, **fields: str) -> api.CreateResponse:
    return service.conversations.Create(
        api.CreateRequest(channel="web", messages=messages, **fields)  # type: ignore[arg-type]
    )


CALL = agent("", tool_calls=[ToolCall(id="c1", name="look")])


def test_a_conversation_begins_with_its_first_messages(
    service: Service, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    made = begun(
        service, user("Is the zebra in?"), CALL, tool("c1", "no"), agent("No."), request_id="r1"
    )
    assert [(it.sequence, it.turn_number) for it in made.messages] == [
        (2, 1),
        (3, 1),
        (4, 1),
        (5, 1),
    ]
    assert (made.conversation.message_count, made.conversation.turn_count, made.duplicate) == (
        4,
        1,
        False,
    )
    assert list(service.load(made.conversation.id).messages) == list(made.messages)
    assert service.found("zebra") == [made.conversation.id]
    again = begun(
        service, user("Is the zebra in?"), CALL, tool("c1", "no"), agent("No."), request_id="r1"
    )
    made.duplicate = True
    assert again == made
    for other in ([], [user("Is the zebra in?")]):
        assert (
            failure_of(partial(begun, service, *other, request_id="r1")).reason
            == "REQUEST_ID_REUSED"
        )
    server.stop()
    delete_index(server)
    restarted = start_server()
    again = begun(
        connect(restarted),
        user("Is the zebra in?"),
        CALL,
        tool("c1", "no"),
        agent("No."),
        request_id="r1",
    )
    again.cursor = made.cursor  # a new index has other cursors
    assert again == made
    restarted.stop()
    assert problems(server.folder) == []


def test_whoever_comes_back_with_a_cursor_of_a_create_gets_what_follows_it(
    service: Service,
) -> None:
    made = begun(service, user("one"))
    service.append(made.conversation.id, user("two"))
    stream = service.conversations.StreamUpdates(
        api.StreamUpdatesRequest(cursor=made.cursor), timeout=20
    )
    assert [it.content for it in next(stream).update.conversation_updated.messages] == ["two"]
    stream.cancel()


def test_without_messages_a_repeat_is_answered_as_by_an_earlier_version(service: Service) -> None:
    made = begun(service, request_id="r1")
    assert (
        begun(service, request_id="r1").duplicate,
        list(made.messages),
        made.conversation.message_count,
    ) == (True, [], 0)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([user("")], "messages[0].content"),
        ([user("go"), tool("c1")], "messages[1].tool_call_id"),
        ([user("go"), CALL, CALL], "messages[2].tool_calls[0].id"),
        ([user("x")] * 1001, "messages"),
        ([user("x", channel="No Channel")], "messages[0].channel"),
    ],
)
def test_a_conversation_with_wrong_first_messages_does_not_begin(
    service: Service, server: RunningServer, messages: list[Message], field: str
) -> None:
    assert_refused(service, server, partial(begun, service, *messages), field)
    assert service.pages() == [[]]


def test_an_empty_answer_is_taken_beside_tool_calls_and_left_out_of_contexts(
    service: Service,
) -> None:
    conversation_id = service.create().id
    stored = service.append(conversation_id, user("go"), CALL, agent(""))
    assert len(stored.messages) == 3
    service.append(conversation_id, tool("c1", "done"), agent(""))
    assert [it.content for it in service.load(conversation_id).messages] == [
        "go",
        "",
        "",
        "done",
        "",
    ]


@pytest.mark.parametrize("beside", [(), (user("go"),), (user("go"), agent("well"))])
def test_an_empty_answer_without_tool_calls_is_refused_by_its_field(
    service: Service, server: RunningServer, beside: tuple[Message, ...]
) -> None:
    conversation_id = service.create().id
    field = f"messages[{len(beside)}].content"
    assert_refused(
        service, server, partial(service.append, conversation_id, *beside, agent("")), field
    )
    failure = failure_of(partial(service.append, conversation_id, *beside, agent("")))
    assert "is empty" in failure.text
    assert "leave it out" in failure.text
