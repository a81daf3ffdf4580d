"""Bad input: refused by the field's name and a reason, and nothing is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as ProtoMessage
from google.protobuf.timestamp_pb2 import Timestamp
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.conversation_pb2 import Party
from recollect.v1.message_pb2 import Attachment, Message, ToolCall, Usage
from recollect.v1.recall_pb2 import DateRange

from tests.conftest import MovableClock, RunningServer
from tests.server.conftest import UNKNOWN, Service, agent, failure_of, kept_by, moment, server_process, tool, user

DAY = 86_400_000
LATE = 253_402_300_799_000  # the last second of the year 9999
MIB = 1 << 20


def refused(
    service: Service, server: RunningServer, call: Callable[[], object], *fields: str, reason: str = "INVALID_FIELD"
) -> None:
    """The call is refused with these fields' names, and no file has changed."""
    kept = kept_by(service, server)
    failure = failure_of(call)
    assert (failure.code, failure.reason, failure.domain) == ("INVALID_ARGUMENT", reason, "recollect")
    assert failure.fields == fields
    assert all(field in failure.text for field in fields)
    assert kept_by(service, server) == kept


IDS = [
    "",
    "x",
    "conv-",
    "../../etc/passwd",
    "conv-../../../etc/passwd00000",
    "conv-01J0000000000000000000000/",
    UNKNOWN.lower(),
    UNKNOWN + "0",
    UNKNOWN[:-1],
    " " + UNKNOWN,
    UNKNOWN + "\n",
    UNKNOWN.replace("01J", "81J"),
    UNKNOWN.replace("J", "I"),
    UNKNOWN.replace("0", "O"),
    "conv-０1J00000000000000000000000",
    UNKNOWN + ".jsonl",
    "conv-*",
    "CONV" + UNKNOWN[4:],
    "/" + UNKNOWN,
    "a" * 100_000,
    UNKNOWN[:-1] + "\0",
]


@pytest.mark.parametrize("name", IDS, ids=lambda name: repr(name[:40]))
def test_what_is_not_the_name_of_a_conversation_is_refused_by_every_call(
    service: Service, server: RunningServer, name: str
) -> None:
    service.told("something")
    calls: list[Callable[[], object]] = [
        lambda: service.get(name),
        lambda: service.append(name, user("x")),
        lambda: service.rename(name, "T"),
        lambda: service.conversations.SetModel(api.SetModelRequest(conversation_id=name)),
        lambda: service.compress(name, 1, "s"),
        lambda: service.abbreviate(name, "s"),
        lambda: service.delete(name),
        lambda: service.context(name),
    ]
    if name:  # unset, it is left out
        calls += [lambda: service.load(name), lambda: service.search("x", conversation_id=name)]
    for call in calls:
        refused(service, server, call, "conversation_id")
    if name:
        refused(
            service,
            server,
            lambda: service.conversations.Switch(api.SwitchRequest(from_conversation_id=name)),
            "from_conversation_id",
        )
        refused(
            service, server, lambda: service.conversations.Switch(api.SwitchRequest(to_conversation_id=name)), "to_conversation_id"
        )


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
    ("NUL in a tool's id", agent("a", tool_calls=[ToolCall(id="\0", name="n")]), "tool_calls[0].id"),
    ("NUL in a tool's arguments", agent("a", tool_calls=[ToolCall(id="a", name="n", arguments="\0")]), "tool_calls[0].arguments"),
    ("NUL in a uri", user("", attachments=[Attachment(media_type="a/b", uri="\0")]), "attachments[0].uri"),
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
    ("a long tool name", agent("", tool_calls=[ToolCall(id="c", name="n" * 257)]), "tool_calls[0].name"),
    ("two calls of one id", agent("", tool_calls=[CALL, CALL]), "tool_calls"),
    ("129 calls", agent("", tool_calls=[ToolCall(id=str(n), name="n") for n in range(129)]), "tool_calls"),
    ("65 attachments", user("", attachments=[Attachment(media_type="a/b", uri="u")] * 65), "attachments"),
    ("an attachment without a type", user("", attachments=[Attachment(uri="u")]), "attachments[0].media_type"),
    ("an attachment without a uri", user("", attachments=[Attachment(media_type="a/b")]), "attachments[0].uri"),
    ("a long uri", user("", attachments=[Attachment(media_type="a/b", uri="u" * 8193)]), "attachments[0].uri"),
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
    ("a channel in upper case", user("x", channel="Web"), "channel"),
    ("a long channel", user("x", channel="w" * 33), "channel"),
    ("a time before 1970", user("x", timestamp=Timestamp(seconds=-1)), "timestamp"),
    ("a time in the year 1", user("x", timestamp=Timestamp(seconds=-62_135_596_800)), "timestamp"),
    ("a time after the year 9999", user("x", timestamp=Timestamp(seconds=253_402_300_800)), "timestamp"),
    ("the last number", user("x", timestamp=Timestamp(seconds=2**63 - 1)), "timestamp"),
    ("negative nanoseconds", user("x", timestamp=Timestamp(seconds=1, nanos=-1)), "timestamp"),
    ("too many nanoseconds", user("x", timestamp=Timestamp(seconds=1, nanos=1_000_000_000)), "timestamp"),
    ("a time in the far future", user("x", timestamp=moment(LATE)), "timestamp"),
]


@pytest.mark.parametrize(("message", "field"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_a_wrong_message_is_refused_by_its_fields_name(
    service: Service, server: RunningServer, message: Message, field: str
) -> None:
    conversation_id = service.told("before")
    refused(service, server, lambda: service.append(conversation_id, agent("good"), message), f"messages[1].{field}")


def test_all_that_is_wrong_is_named_at_once(service: Service, server: RunningServer) -> None:
    conversation_id = service.create().id
    wrong = [user("", sender="s" * 300), Message(content="x"), agent("ok"), user("x", cost=-1.0)]
    fields = ["messages[0].content", "messages[0].sender", "messages[1].role", "messages[3].cost", "request_id"]
    failure = failure_of(lambda: service.append(conversation_id, *wrong, request_id="a b"))
    assert sorted(failure.fields) == fields


@pytest.mark.parametrize("count", [0, 1001])
def test_a_batch_has_1_to_1000_messages(service: Service, server: RunningServer, count: int) -> None:
    conversation_id = service.create().id
    refused(service, server, lambda: service.append(conversation_id, *(user("x") for _ in range(count))), "messages")


def test_a_batch_of_more_than_8_mib_is_refused(service: Service, server: RunningServer) -> None:
    conversation_id = service.create().id
    refused(service, server, lambda: service.append(conversation_id, *(user("x" * (MIB - 100)) for _ in range(9))), "messages")


def test_a_message_and_a_batch_of_the_largest_size_are_stored(service: Service) -> None:
    conversation_id = service.create().id
    largest = user("x" * (MIB - 100))
    assert len(service.append(conversation_id, *(largest for _ in range(8))).messages) == 8
    assert len(service.load(conversation_id).messages[0].content) == MIB - 100


def test_the_limits_are_settings(start_server: Callable[..., RunningServer], connect: Callable[[RunningServer], Service]) -> None:
    server = start_server(max_message_bytes=2048, max_batch_bytes=4096)
    service = connect(server)
    conversation_id = service.create().id
    refused(service, server, lambda: service.append(conversation_id, user("x" * 2049)), "messages[0].content")
    refused(service, server, lambda: service.append(conversation_id, *(user("x" * 2000) for _ in range(3))), "messages")
    assert service.append(conversation_id, user("x" * 2000), user("x" * 2000)).turn_number == 2


def test_a_request_larger_than_the_server_reads_is_refused(service: Service, server: RunningServer) -> None:
    conversation_id = service.create().id
    kept = kept_by(service, server)
    failure = failure_of(lambda: service.append(conversation_id, user("x" * (18 * MIB))))
    assert failure.code in ("RESOURCE_EXHAUSTED", "INVALID_ARGUMENT")
    assert kept_by(service, server) == kept


REQUESTS: list[tuple[ProtoMessage, str]] = [
    (api.CreateRequest(), "channel"),
    (api.CreateRequest(channel="Web"), "channel"),
    (api.CreateRequest(channel="web "), "channel"),
    (api.CreateRequest(channel="wéb"), "channel"),
    (api.CreateRequest(channel="-web"), "channel"),
    (api.CreateRequest(channel="../web"), "channel"),
    (api.CreateRequest(channel="w" * 33), "channel"),
    (api.CreateRequest(channel="web\0"), "channel"),
    (api.CreateRequest(channel="web\n"), "channel"),
    (api.CreateRequest(channel="web", participants=[""]), "participants[0]"),
    (api.CreateRequest(channel="web", participants=["a", "b" * 257]), "participants[1]"),
    (api.CreateRequest(channel="web", participants=["a", "a"]), "participants"),
    (api.CreateRequest(channel="web", participants=[str(n) for n in range(65)]), "participants"),
    (api.CreateRequest(channel="web", participants=["a\0"]), "participants[0]"),
    (api.CreateRequest(channel="web", party=Party(contact="c" * 321)), "party.contact"),
    (api.CreateRequest(channel="web", party=Party(group_id="c" * 321)), "party.group_id"),
    (api.CreateRequest(channel="web", party=Party(thread_id="c" * 999)), "party.thread_id"),
    (api.CreateRequest(channel="web", party=Party(subject="c" * 999)), "party.subject"),
    (api.CreateRequest(channel="web", party=Party(subject="\0")), "party.subject"),
    (api.CreateRequest(channel="web", model="m" * 129), "model"),
    (api.CreateRequest(channel="web", create_time=Timestamp(seconds=-5)), "create_time"),
    (api.CreateRequest(channel="web", create_time=moment(LATE)), "create_time"),
    (api.CreateRequest(channel="web", request_id="x" * 129), "request_id"),
    (api.CreateRequest(channel="web", request_id="with space"), "request_id"),
    (api.CreateRequest(channel="web", request_id="tab\t"), "request_id"),
    (api.CreateRequest(channel="web", request_id="ü"), "request_id"),
    (api.CreateRequest(channel="web", request_id="nul\0"), "request_id"),
    (api.CreateRequest(channel="web", request_id="\x7f"), "request_id"),
    (api.ListRequest(page_size=-1), "page_size"),
    (api.ListRequest(channels=["web", "Web"]), "channels[1]"),
    (api.ListRequest(channels=[""]), "channels[0]"),
    (api.ListRequest(channels=[f"c{n}" for n in range(40_000)]), "channels"),
    (api.ListRequest(topics=["Not Kebab"]), "topics[0]"),
    (api.ListRequest(topics=["a"] * 65), "topics"),
    (api.ListRequest(party=Party(contact="c" * 321)), "party.contact"),
    (api.ListRequest(updated_after=moment(9000), updated_before=moment(9000)), "updated_before"),
    (api.ListRequest(updated_after=moment(9001), updated_before=moment(9000)), "updated_before"),
    (api.ListRequest(updated_after=Timestamp(seconds=-1)), "updated_after"),
    (api.ListRequest(updated_before=Timestamp(seconds=2**62)), "updated_before"),
    (api.ListRequest(query="x" * 257), "query"),
    (api.ListRequest(query="\0"), "query"),
    (api.LoadRequest(), "channel"),
    (api.LoadRequest(channel="Web"), "channel"),
    (api.LoadRequest(channel="web", max_turns=-1), "max_turns"),
    (api.LoadRequest(channel="web", max_tokens=-1), "max_tokens"),
    (api.LoadRequest(channel="web", before_turn=-1), "before_turn"),
    (api.LoadRequest(channel="web", max_turns=-(2**31)), "max_turns"),
    (api.AppendTurnRequest(conversation_id=UNKNOWN, messages=[user("x")], expected_turn=-1), "expected_turn"),
    (api.AppendTurnRequest(conversation_id=UNKNOWN, messages=[user("x")], draft_id="d" * 129), "draft_id"),
    (api.AppendTurnRequest(conversation_id=UNKNOWN, messages=[user("x")], request_id=" "), "request_id"),
    (api.SwitchRequest(), "to_conversation_id"),
    (api.SwitchRequest(to_conversation_id=UNKNOWN, max_turns=-1), "max_turns"),
    (api.RenameRequest(conversation_id=UNKNOWN), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title=" \t\u2003"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="x" * 81), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="x" * 500), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\nlines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\rlines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\u2028lines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="two\x85lines"), "title"),
    (api.RenameRequest(conversation_id=UNKNOWN, title="a\0"), "title"),
    (api.SetModelRequest(conversation_id=UNKNOWN, model="m" * 129), "model"),
    (api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1), "summary"),
    (api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1, summary=" "), "summary"),
    (api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=0, summary="s"), "compressed_through"),
    (api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1, summary="s" * (MIB + 1)), "summary"),
    (api.RecordCompressionRequest(conversation_id=UNKNOWN, compressed_through=1, summary="a\0"), "summary"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN), "text"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x" * (16 * 1024 + 1)), "text"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="\0"), "text"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a"] * 17), "topics"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["ok", "Upper"]), "topics[1]"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["-a"]), "topics[0]"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a--b"]), "topics[0]"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=[""]), "topics[0]"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a" * 65]), "topics[0]"),
    (api.RecordAbbreviationRequest(conversation_id=UNKNOWN, text="x", topics=["a\n"]), "topics[0]"),
    (api.DeleteRequest(conversation_id=UNKNOWN, anchors=7), "anchors"),  # type: ignore[arg-type]
    (recall_api.SearchRequest(), "query"),
    (recall_api.SearchRequest(query="x", limit=-1), "limit"),
    (recall_api.SearchRequest(query="x", channel="Web"), "channel"),
    (recall_api.SearchRequest(query="x", topics=["A"]), "topics[0]"),
    (recall_api.SearchRequest(query="x", topics=["a"] * 65), "topics"),
    (recall_api.SearchRequest(query="x", participants=[""]), "participants[0]"),
    (recall_api.SearchRequest(query="x", participants=[str(n) for n in range(65)]), "participants"),
    (recall_api.SearchRequest(query="x", date_range=DateRange(start=moment(2000), end=moment(1000))), "date_range.end"),
    (recall_api.SearchRequest(query="x", date_range=DateRange(start=moment(2000), end=moment(2000))), "date_range.end"),
    (recall_api.SearchRequest(query="x", date_range=DateRange(start=Timestamp(seconds=-1))), "date_range.start"),
    (recall_api.SearchRequest(query="x", date_range=DateRange(end=Timestamp(seconds=1, nanos=-1))), "date_range.end"),
    (recall_api.RecentRequest(limit=-1), "limit"),
    (recall_api.RecentRequest(channel="Web"), "channel"),
    (recall_api.RecentRequest(after=moment(2000), before=moment(1000)), "before"),
    (recall_api.RecentRequest(order=9), "order"),  # type: ignore[arg-type]
]


def call_of(service: Service, request: ProtoMessage) -> Callable[[], object]:
    """The method that takes this request."""
    name = request.DESCRIPTOR.name.removesuffix("Request")
    stub = service.recall if hasattr(service.recall, name) else service.conversations
    return lambda: getattr(stub, name)(request)


@pytest.mark.parametrize(
    ("request_", "field"), REQUESTS, ids=[f"{request.DESCRIPTOR.name}-{n}-{field}" for n, (request, field) in enumerate(REQUESTS)]
)
def test_a_wrong_field_is_refused_by_its_name(service: Service, server: RunningServer, request_: ProtoMessage, field: str) -> None:
    refused(service, server, call_of(service, request_), field)


def test_times_are_measured_by_the_servers_clock(service: Service, server: RunningServer, clock: MovableClock) -> None:
    clock.now = 4_000_000_000_000  # in 2096
    conversation_id = service.create(create_time=moment(clock.now + DAY)).id
    service.append(conversation_id, user("tomorrow", timestamp=moment(clock.now + DAY)))
    late = moment(clock.now + DAY + 1000)
    refused(service, server, lambda: service.append(conversation_id, user("x", timestamp=late)), "messages[0].timestamp")
    refused(service, server, lambda: service.create(create_time=late), "create_time")
    clock.now = 1_000_000_000_000  # in 2001
    late = moment(clock.now + DAY + 1000)
    refused(service, server, lambda: service.append(conversation_id, user("x", timestamp=late)), "messages[0].timestamp")


def test_what_is_just_inside_the_limits_is_taken(service: Service) -> None:
    party = Party(contact="c" * 320, group_id="g" * 320, thread_id="t" * 998, subject="s" * 998)
    participants = ["ü" * 256, *(str(n) for n in range(63))]
    made = service.create("a0_-" * 8, participants=participants, party=party, model="m" * 128, request_id="~" * 128)
    assert (made.party, list(made.participants)) == (party, participants)
    calls = [ToolCall(id=f"{n:0256}", name="n" * 256) for n in range(128)]
    attachments = [Attachment(media_type="m" * 255, uri="u" * 8192, bytes_length=2**63 - 1)] * 64
    message = agent("", sender="s" * 256, tool_calls=calls, attachments=attachments, cost=0.0, usage=Usage(), channel="c" * 32)
    message.metadata.update({"k": "x" * 65_000})
    stored = service.append(made.id, message, draft_id="d" * 128).messages[0]
    assert (stored.tool_calls, stored.attachments, stored.metadata) == (message.tool_calls, message.attachments, message.metadata)
    assert service.rename(made.id, "🦓" * 80).title == "🦓" * 80
    assert service.abbreviate(made.id, "n" * 16_384, ["a" * 64, *(f"topic-{n}" for n in range(15))]).abbreviation == "n" * 16_384
    assert service.compress(made.id, 1, "s" * MIB).compressed_through == 1


# Bytes that no client library would send ----------------------------------------------------------------------------------

BAD = b"\xed\xa0\x80"  # a lone surrogate, as some languages write it


def raw(service: Service, method: str, data: bytes) -> Callable[[], object]:
    """A call with these bytes as its request."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = service.channel.unary_unary(
        f"/recollect.v1.{method}", request_serializer=lambda value: value, response_deserializer=lambda value: value
    )
    return lambda: call(data)


def part(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    length, size = b"", len(data)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


@pytest.mark.parametrize(
    ("method", "data", "field"),
    [
        ("ConversationService/Create", part(1, BAD), "channel"),
        ("ConversationService/Create", part(1, b"web") + part(2, b"ok") + part(2, b"\xff"), "participants[1]"),
        ("ConversationService/Create", part(1, b"web") + part(3, part(4, BAD)), "party.subject"),
        ("ConversationService/AppendTurn", part(1, UNKNOWN.encode()) + part(2, part(4, BAD)), "messages[0].content"),
        (
            "ConversationService/AppendTurn",
            part(2, part(4, b"ok")) + part(2, part(11, part(3, b"\x80"))),
            "messages[1].tool_calls[0].arguments",
        ),
        ("ConversationService/AppendTurn", part(2, part(13, part(2, b"\xc3"))), "messages[0].attachments[0].uri"),
        ("ConversationService/Rename", part(2, b"\xf5"), "title"),
        ("RecallService/Search", part(1, BAD), "query"),
        ("RecallService/Search", part(1, b"x") + part(7, b"ok") + part(7, BAD), "participants[1]"),
    ],
)
def test_text_that_is_not_utf_8_is_refused_by_its_fields_path(
    service: Service, server: RunningServer, method: str, data: bytes, field: str
) -> None:
    refused(service, server, raw(service, method, data), field, reason="MALFORMED_REQUEST")


def test_metadata_that_is_not_utf_8_is_refused(service: Service, server: RunningServer) -> None:
    entry = part(1, b"key") + part(2, part(3, BAD))
    data = part(1, UNKNOWN.encode()) + part(2, part(14, part(1, entry)))
    failure = failure_of(raw(service, "ConversationService/AppendTurn", data))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    assert failure.fields[0].startswith("messages[0].metadata")


@pytest.mark.parametrize("data", [b"\x0a", b"\xff" * 10, part(1, b"x")[:-1], b"\x0b", b"\x00\x01", b"not protobuf at all"])
def test_bytes_that_are_no_message_are_refused(service: Service, server: RunningServer, data: bytes) -> None:
    for method in ("ConversationService/Create", "ConversationService/AppendTurn", "RecallService/Search"):
        refused(service, server, raw(service, method, data), reason="MALFORMED_REQUEST")


def test_a_message_nested_without_end_is_refused_and_the_server_lives(tmp_path: Path) -> None:
    value = part(3, b"x")
    for _ in range(2000):
        value = part(6, part(1, value))  # a list in a list
    data = part(1, UNKNOWN.encode()) + part(2, part(14, part(1, part(1, b"k") + part(2, value))))
    with server_process(tmp_path / "data") as (process, target):  # in a process of its own: it may die of it
        service = Service(target)
        failure = failure_of(raw(service, "ConversationService/AppendTurn", data))
        assert process.poll() is None
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
        assert service.get(service.create().id).channel == "web"
        service.channel.close()


def nested(levels: int) -> object:
    """Lists and objects in turn, so many levels of them with the outermost."""
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


def test_fields_of_a_later_contract_are_passed_over(service: Service) -> None:
    made = api.CreateResponse.FromString(raw(service, "ConversationService/Create", part(1, b"web") + part(15, b"later"))())  # type: ignore[arg-type]
    assert service.get(made.conversation.id).channel == "web"
