"""Bad messages: one that is wrong is refused with its whole batch, by its place and its field's
name, and nothing is written.
"""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.message_pb2 import Attachment, Message, ToolCall, Usage

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.server.conftest import (
    Connect,
    Service,
    agent,
    assert_refused,
    failure_of,
    kept_by,
    moment,
    tool,
    user,
)

LATE = 253_402_300_799_000  # the last second of the year 9999

MIB = 1 << 20


def metadata_of(value: Any) -> Message:
    message = user("x")
    message.metadata.update({"k": value})
    return message


CALL = ToolCall(id="c", name="n")

MESSAGES: list[tuple[str, Message, str]] = [
    ("no role", Message(content="x"), "role"),
    ("an unknown role", Message(content="x", role=99), "role"),  # type: ignore[arg-type]
    ("a negative role", Message(content="x", role=-1), "role"),  # type: ignore[arg-type]
    ("nothing said", user(""), "content"),
    ("nothing answered", agent(""), "content"),
    ("NUL in content", user("a\0b"), "content"),
    ("NUL in thinking", agent("a", thinking_text="\0"), "thinking_text"),
    ("NUL in the sender", user("a", sender="\0"), "sender"),
    (
        "NUL in a tool's id",
        agent("a", tool_calls=[ToolCall(id="\0", name="n")]),
        "tool_calls[0].id",
    ),
    (
        "NUL in a tool's arguments",
        agent("a", tool_calls=[ToolCall(id="a", name="n", arguments="\0")]),
        "tool_calls[0].arguments",
    ),
    (
        "NUL in a uri",
        user("", attachments=[Attachment(media_type="a/b", uri="\0")]),
        "attachments[0].uri",
    ),
    ("NUL in metadata", metadata_of("a\0b"), "metadata"),
    ("NUL in metadata behind a backslash", metadata_of("a\\\0b"), "metadata"),
    ("NUL in a key of metadata", metadata_of({"a\0b": 1}), "metadata"),
    ("a NaN in metadata", metadata_of(float("nan")), "metadata"),
    ("an infinity in metadata", metadata_of([1, {"x": float("-inf")}]), "metadata"),
    ("large metadata", metadata_of("x" * 65536), "metadata"),
    ("content over 1 MiB", user("x" * (MIB + 1)), "content"),
    ("content of 1 MiB in another script", user("あ" * (MIB // 3 + 1)), "content"),
    ("a thought of the user's", user("x", thinking_text="hm"), "thinking_text"),
    ("a tool call of the user's", user("x", tool_calls=[CALL]), "tool_calls"),
    ("a tool result of the user's", user("x", tool_call_id="c"), "tool_call_id"),
    ("a result without a call's id", tool("", "x"), "tool_call_id"),
    ("a result without a call", tool("c", "x"), "tool_call_id"),
    ("a long call id", tool("c" * 257), "tool_call_id"),
    ("a call without an id", agent("", tool_calls=[ToolCall(name="n")]), "tool_calls[0].id"),
    ("a call without a name", agent("", tool_calls=[CALL, ToolCall(id="d")]), "tool_calls[1].name"),
    (
        "a long tool name",
        agent("", tool_calls=[ToolCall(id="c", name="n" * 257)]),
        "tool_calls[0].name",
    ),
    ("two calls of one id", agent("", tool_calls=[CALL, CALL]), "tool_calls"),
    (
        "129 calls",
        agent("", tool_calls=[ToolCall(id=str(n), name="n") for n in range(129)]),
        "tool_calls",
    ),
    (
        "65 attachments",
        user("", attachments=[Attachment(media_type="a/b", uri="u")] * 65),
        "attachments",
    ),
    (
        "an attachment without a type",
        user("", attachments=[Attachment(uri="u")]),
        "attachments[0].media_type",
    ),
    (
        "an attachment without a uri",
        user("", attachments=[Attachment(media_type="a/b")]),
        "attachments[0].uri",
    ),
    (
        "a long uri",
        user("", attachments=[Attachment(media_type="a/b", uri="u" * 8193)]),
        "attachments[0].uri",
    ),
    (
        "a negative length",
        user("", attachments=[Attachment(media_type="a/b", uri="u", bytes_length=-1)]),
        "attachments[0].bytes_length",
    ),
    ("negative usage", agent("x", usage=Usage(input=-1)), "usage.input"),
    ("negative usage of output", agent("x", usage=Usage(output=-(2**63))), "usage.output"),
    ("a negative cost", agent("x", cost=-0.01), "cost"),
    ("an infinite cost", agent("x", cost=float("inf")), "cost"),
    ("a cost that is no number", agent("x", cost=float("nan")), "cost"),
    ("a long sender", user("x", sender="s" * 257), "sender"),
    ("a sender on two lines", user("x", sender="Ann\nBob"), "sender"),
    ("a channel in upper case", user("x", channel="Web"), "channel"),
    ("a long channel", user("x", channel="w" * 33), "channel"),
    ("a time before 1970", user("x", timestamp=Timestamp(seconds=-1)), "timestamp"),
    ("a time in the year 1", user("x", timestamp=Timestamp(seconds=-62_135_596_800)), "timestamp"),
    (
        "a time after the year 9999",
        user("x", timestamp=Timestamp(seconds=253_402_300_800)),
        "timestamp",
    ),
    ("the last number", user("x", timestamp=Timestamp(seconds=2**63 - 1)), "timestamp"),
    ("negative nanoseconds", user("x", timestamp=Timestamp(seconds=1, nanos=-1)), "timestamp"),
    (
        "too many nanoseconds",
        user("x", timestamp=Timestamp(seconds=1, nanos=1_000_000_000)),
        "timestamp",
    ),
    ("a time in the far future", user("x", timestamp=moment(LATE)), "timestamp"),
]


@pytest.mark.parametrize("cost", [float("inf"), float("nan")])
def test_a_cost_that_is_not_finite_is_refused_as_that(service: Service, cost: float) -> None:
    here = service.conversation_of("before")
    failure = failure_of(lambda: service.append(here, agent("x", cost=cost)))
    assert failure.text == f"messages[0].cost: is {cost}; it must be a finite number"


@each(("message", "field"), [case[1:] for case in MESSAGES])
def test_a_wrong_message_is_refused_by_its_fields_name(
    service: Service, server: RunningServer, message: Message, field: str
) -> None:
    conversation_id = service.conversation_of("before")
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, agent("good"), message),
        f"messages[1].{field}",
    )


def test_all_that_is_wrong_is_named_at_once(service: Service, server: RunningServer) -> None:
    conversation_id = service.create().id
    wrong = [user("", sender="s" * 300), Message(content="x"), agent("ok"), user("x", cost=-1.0)]
    fields = [
        "messages[0].content",
        "messages[0].sender",
        "messages[1].role",
        "messages[3].cost",
        "request_id",
    ]
    failure = failure_of(lambda: service.append(conversation_id, *wrong, request_id="a b"))
    assert sorted(failure.fields) == fields


@pytest.mark.parametrize("count", [0, 1001])
def test_a_batch_has_1_to_1000_messages(
    service: Service, server: RunningServer, count: int
) -> None:
    conversation_id = service.create().id
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, *(user("x") for _ in range(count))),
        "messages",
    )


def test_a_batch_of_more_than_8_mib_is_refused(service: Service, server: RunningServer) -> None:
    conversation_id = service.create().id
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, *(user("x" * (MIB - 100)) for _ in range(9))),
        "messages",
    )


def test_a_message_and_a_batch_of_the_largest_size_are_stored(service: Service) -> None:
    conversation_id = service.create().id
    largest = user("x" * (MIB - 100))
    assert len(service.append(conversation_id, *(largest for _ in range(8))).messages) == 8
    assert len(service.load(conversation_id).messages[0].content) == MIB - 100


def test_the_limits_are_settings(start_server: Start, connect: Connect) -> None:
    server = start_server(max_message_bytes=2048, max_batch_bytes=4096)
    service = connect(server)
    conversation_id = service.create().id
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, user("x" * 2049)),
        "messages[0].content",
    )
    assert_refused(
        service,
        server,
        lambda: service.append(conversation_id, *(user("x" * 2000) for _ in range(3))),
        "messages",
    )
    assert service.append(conversation_id, user("x" * 2000), user("x" * 2000)).turn_number == 2
    origin = service.create().id
    service.append(origin, user("x" * 1500), user("x" * 1500))
    fork, remember = service.conversations.Fork, service.conversations.SetTurnMemory
    for summary in ("s" * 1000, ""):  # a fork copies the summary of its turn too
        remember(api.SetTurnMemoryRequest(conversation_id=origin, turn_number=1, summary=summary))
        if summary:
            assert_refused(
                service,
                server,
                lambda: fork(api.ForkRequest(conversation_id=origin)),
                "through_turn",
            )
    assert fork(api.ForkRequest(conversation_id=origin)).conversation.message_count == 2


def test_a_request_larger_than_the_server_reads_is_refused(
    service: Service, server: RunningServer
) -> None:
    conversation_id = service.create().id
    files = kept_by(service, server)
    failure = failure_of(lambda: service.append(conversation_id, user("x" * (18 * MIB))))
    assert failure.code in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")
    assert kept_by(service, server) == files


def nested(levels: int) -> object:
    """Return lists and objects in turn, nested `levels` deep."""
    deep: object = ']}\\"['
    for level in range(1, levels):
        deep = [deep] if level % 2 else {"a": deep}
    return deep


def test_metadata_that_is_nested_too_deeply_is_refused(service: Service) -> None:
    conversation_id = service.create().id
    failure = failure_of(lambda: service.append(conversation_id, metadata_of(nested(25))))
    assert failure.fields == ("messages[0].metadata",)


def test_metadata_as_deep_as_allowed_comes_back(service: Service) -> None:
    conversation_id = service.create().id
    deep = nested(24)
    stored = service.append(conversation_id, metadata_of(deep)).messages[0]
    assert stored.metadata == metadata_of(deep).metadata
    assert service.load(conversation_id).messages[0].metadata == stored.metadata


def test_metadata_may_spell_a_nul_as_text(service: Service) -> None:
    message = metadata_of("a\\u0000b")
    [stored] = service.append(service.create().id, message).messages
    assert stored.metadata == message.metadata
