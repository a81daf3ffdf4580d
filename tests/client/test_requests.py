"""Arguments of the client: they become requests of the contract, or are refused before anything is
sent.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import recollect
from google.protobuf.json_format import MessageToDict
from recollect import Attachment, Message, Party, Role, ToolCall, Usage
from recollect.v1 import conversation_service_pb2 as pb

from tests.cases import each
from tests.client.conftest import Scripted

CONVERSATION = "conv-01HQ0000000000000000000000"
NOON = datetime(2026, 2, 14, 12, 0, 0, 123000, tzinfo=UTC)
HALF = "a\ud83d"

Call = Callable[[recollect.Client], object]


def deep(levels: int) -> dict[str, Any]:
    return {"a": deep(levels - 1)} if levels > 1 else {"a": 1}


def append(*messages: Message) -> Call:
    return lambda client: client.conversations.append_turn(CONVERSATION, messages)


REFUSED: dict[str, tuple[Call, str]] = {
    "a lone surrogate in a text": (lambda c: c.conversations.rename(CONVERSATION, HALF), "title"),
    "a lone surrogate in a list": (
        lambda c: c.conversations.create("web", participants=["ok", HALF]),
        "participants[1]",
    ),
    "a lone surrogate in a part": (
        lambda c: c.conversations.create("web", party=Party(subject=HALF)),
        "party.subject",
    ),
    "a lone surrogate in a query": (lambda c: c.recall.search(HALF), "query"),
    "a lone surrogate in a message": (
        append(Message.user("ok"), Message.user(HALF)),
        "messages[1].content",
    ),
    "a lone surrogate in a tool call": (
        append(Message.assistant(tool_calls=[ToolCall("1", "x"), ToolCall("2", "x", HALF)])),
        "messages[0].tool_calls[1].arguments",
    ),
    "a lone surrogate in an attachment": (
        append(Message.user(attachments=[Attachment("image/png", HALF)])),
        "messages[0].attachments[0].uri",
    ),
    "a lone surrogate in metadata": (
        append(Message.user("a", metadata={"x": [HALF]})),
        "messages[0].metadata.x[0]",
    ),
    "a lone surrogate in a metadata key": (
        append(Message.user("a", metadata={HALF: 1})),
        "messages[0].metadata",
    ),
    "a naive datetime": (lambda c: c.recall.recent(before=datetime(2026, 1, 1)), "before"),  # noqa: DTZ001
    "a naive datetime in a message": (
        append(Message.user("a", timestamp=datetime(2026, 1, 1))),  # noqa: DTZ001
        "messages[0].timestamp",
    ),
    "a naive datetime in a range": (
        lambda c: c.recall.search("a", date_range=recollect.DateRange(end=datetime(2026, 1, 1))),  # noqa: DTZ001
        "date_range.end",
    ),
    "a date that is no datetime": (lambda c: c.recall.recent(after=NOON.date()), "after"),  # type: ignore[arg-type]
    "a time whose year in UTC is none": (
        lambda c: c.recall.recent(after=datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))),
        "after",
    ),
    "a number out of range": (
        lambda c: c.conversations.load(CONVERSATION, max_turns=2**31),
        "max_turns",
    ),
    "a number that is a text": (
        lambda c: c.conversations.load(CONVERSATION, max_turns="3"),  # type: ignore[arg-type]
        "max_turns",
    ),
    "an id that is no text": (lambda c: c.conversations.get(17), "conversation_id"),  # type: ignore[arg-type]
    "one text where several belong": (
        lambda c: c.conversations.create("web", participants="alex"),
        "participants",
    ),
    "one message where several belong": (
        lambda c: c.conversations.append_turn(CONVERSATION, Message.user("a")),  # type: ignore[arg-type]
        "messages",
    ),
    "a dict where a message belongs": (append({"role": "user"}), "messages[0]"),  # type: ignore[arg-type]
    "an unknown role": (append(Message(role="system", content="a")), "messages[0].role"),  # type: ignore[arg-type]
    "a dict where a tool call belongs": (
        append(Message.assistant(tool_calls=[{"id": "1"}])),  # type: ignore[list-item]
        "messages[0].tool_calls[0]",
    ),
    "usage out of range": (
        append(Message.assistant("a", usage=Usage(2**63))),
        "messages[0].usage.input",
    ),
    "metadata too deep": (
        append(Message.user("a", metadata=deep(25))),
        "messages[0].metadata" + ".a" * 24,
    ),
    "metadata that JSON lacks": (
        append(Message.user("a", metadata={"x": NOON})),
        "messages[0].metadata.x",
    ),
    "metadata that is not finite": (
        append(Message.user("a", metadata={"x": float("nan")})),
        "messages[0].metadata.x",
    ),
    "a number that would lose digits": (
        append(Message.user("a", metadata={"x": 2**53 + 1})),
        "messages[0].metadata.x",
    ),
    "a metadata key that is no text": (
        append(Message.user("a", metadata={1: 2})),  # type: ignore[dict-item]
        "messages[0].metadata",
    ),
    "a party that is a dict": (
        lambda c: c.conversations.create("web", party={"contact": "a"}),  # type: ignore[arg-type]
        "party",
    ),
    "a turn range of one": (lambda c: c.recall.fetch_context(CONVERSATION, (1,)), "turn_range"),  # type: ignore[arg-type]
    "an unknown order": (lambda c: c.recall.recent(order="sideways"), "order"),  # type: ignore[arg-type]
}


@each("what", REFUSED)
def test_what_cannot_be_sent_is_refused_by_the_fields_name(
    scripted: Scripted, scripted_client: recollect.Client, what: str
) -> None:
    call, field = REFUSED[what]
    with pytest.raises(recollect.InvalidArgument) as caught:
        call(scripted_client)
    assert [violation.field for violation in caught.value.violations] == [field]
    assert caught.value.reason is recollect.ErrorReason.INVALID_FIELD
    assert str(caught.value).encode().startswith(field.encode()), "the text itself can be printed"
    assert scripted.requests == []


def test_a_value_of_a_wrong_kind_is_told_the_kind_that_the_field_takes(
    scripted_client: recollect.Client,
) -> None:
    calls: dict[str, Call] = {
        "conversation_id: takes text, not int 17": lambda c: c.conversations.get(17),  # type: ignore[arg-type]
        "max_turns: takes a whole number, not str '3'": lambda c: c.conversations.load(
            CONVERSATION,
            max_turns="3",  # type: ignore[arg-type]
        ),
        "after: takes a datetime with a time zone, not date datetime.date(2026, 2, 14)": (
            lambda c: c.recall.recent(after=NOON.date())  # type: ignore[arg-type]
        ),
    }
    for sentence, call in calls.items():
        with pytest.raises(recollect.InvalidArgument) as caught:
            call(scripted_client)
        assert str(caught.value) == sentence


def test_a_list_refuses_its_arguments_at_once_and_not_at_the_first_page(
    scripted_client: recollect.Client,
) -> None:
    with pytest.raises(recollect.InvalidArgument):
        scripted_client.conversations.list(query=HALF)


def test_what_is_left_out_is_not_sent(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted_client.conversations.create("web", request_id="r")
    scripted_client.conversations.load(CONVERSATION)
    scripted_client.recall.recent()
    assert [MessageToDict(received.request) for received in scripted.requests] == [
        {"channel": "web", "requestId": "r"},
        {"conversationId": CONVERSATION},
        {},
    ]


def test_a_message_is_sent_with_all_its_fields(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    message = Message.assistant(
        "Let me look.",
        thinking_text="disk?",
        tool_calls=[ToolCall("call-1", "df", '{"path": "/"}')],
        usage=Usage(1200, 350),
        cost=0.0,
        sender="agent",
        attachments=[Attachment("image/png", "file:///a.png", 12)],
        channel="email",
        timestamp=NOON.astimezone(timezone(timedelta(hours=9))),
        metadata={"n": 1, "x": 1.5, "t": True, "no": None, "list": [1, {"a": "ü"}], "empty": {}},
    )
    scripted_client.conversations.append_turn(
        CONVERSATION, iter([message]), expected_turn=0, request_id="r"
    )
    request = scripted.requests[0].request
    assert request.HasField("expected_turn")
    assert MessageToDict(request.messages[0]) == {
        "role": "ROLE_ASSISTANT",
        "content": "Let me look.",
        "timestamp": "2026-02-14T12:00:00.123Z",
        "thinkingText": "disk?",
        "usage": {"input": "1200", "output": "350"},
        "cost": 0.0,
        "channel": "email",
        "sender": "agent",
        "toolCalls": [{"id": "call-1", "name": "df", "arguments": '{"path": "/"}'}],
        "attachments": [{"mediaType": "image/png", "uri": "file:///a.png", "bytesLength": "12"}],
        "metadata": {
            "n": 1.0,
            "x": 1.5,
            "t": True,
            "no": None,
            "list": [1.0, {"a": "ü"}],
            "empty": {},
        },
    }


def test_a_message_comes_back_as_it_was_sent(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    messages = (
        Message.user(
            "Hi",
            sender="Caroline",
            attachments=[Attachment("image/png", "u")],
            metadata={"deep": deep(23)},
        ),
        Message.assistant(
            tool_calls=[ToolCall("1", "df")], usage=Usage(1, 2), cost=0.5, timestamp=NOON
        ),
        Message.tool("97%", tool_call_id="1", metadata={"n": 3, "f": 0.25, "l": [None, True, "x"]}),
    )
    scripted_client.conversations.append_turn(CONVERSATION, messages)
    scripted.script = [
        pb.LoadResponse(messages=scripted.requests[0].request.messages, has_more=True)
    ]
    loaded = scripted_client.conversations.load(CONVERSATION)
    assert loaded.messages == messages
    assert [message.role for message in loaded.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL]
    assert isinstance(loaded.messages[2].metadata["n"], int)
    assert loaded.messages[1].timestamp == NOON
    assert (loaded.conversation, loaded.has_more) == (None, True)


def test_a_role_that_the_client_does_not_know_is_told_and_not_guessed(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    scripted.script = [pb.LoadResponse(messages=[{"role": 9}])]  # type: ignore[list-item]
    with pytest.raises(recollect.InternalError, match="role 9"):
        scripted_client.conversations.load(CONVERSATION)


def test_a_message_is_frozen_and_can_be_a_key() -> None:
    message = Message.user("Hi", metadata={"a": [1]})
    with pytest.raises(AttributeError):
        message.content = "Ho"  # type: ignore[misc]
    assert {message: 1}[Message.user("Hi", metadata={"a": [1]})] == 1


def test_a_list_reads_page_after_page_with_the_same_filters(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    def page(names: list[str], token: str) -> pb.ListResponse:
        return pb.ListResponse(
            conversations=[{"id": name} for name in names],  # type: ignore[misc]
            next_page_token=token,
        )

    scripted.script = [page(["a", "b"], "t1"), page([], "t2"), page(["c"], "")]
    conversations = scripted_client.conversations.list(channels=["web"], pinned=False, page_size=2)
    assert scripted.requests == [], "nothing is fetched before it is read"
    assert [next(conversations).id, next(conversations).id] == ["a", "b"]
    assert len(scripted.requests) == 1
    assert [conversation.id for conversation in conversations] == ["c"]
    assert [received.request.page_token for received in scripted.requests] == ["", "t1", "t2"]
    assert all(
        received.request.channels == ["web"] and received.request.page_size == 2
        for received in scripted.requests
    )
    assert all(received.request.HasField("pinned") for received in scripted.requests)


async def test_an_async_list_reads_page_after_page(scripted: Scripted) -> None:
    scripted.script = [
        pb.ListResponse(conversations=[{"id": "a"}], next_page_token="t1"),  # type: ignore[list-item]  # noqa: S106
        pb.ListResponse(conversations=[{"id": "b"}]),  # type: ignore[list-item]
    ]
    async with recollect.AsyncClient(scripted.target) as client:
        ids = [conversation.id async for conversation in client.conversations.list()]
    assert ids == ["a", "b"]


def test_one_page_is_what_it_holds(scripted: Scripted, scripted_client: recollect.Client) -> None:
    scripted.script = [pb.ListResponse(conversations=[{"id": "a"}], next_page_token="t1")]  # type: ignore[list-item]  # noqa: S106
    page = scripted_client.conversations.list_page(page_size=1, page_token="t0")  # noqa: S106
    assert (len(page), [it.id for it in page], page.next_page_token) == (1, ["a"], "t1")
    assert scripted.requests[0].request.page_token == "t0"  # noqa: S105
