"""Bad bytes, which no client library would send: refused by the path of what is wrong, and the
server lives.
"""

from collections.abc import Callable
from pathlib import Path

import grpc
from recollect.v1 import conversation_service_pb2 as api

from tests.cases import each
from tests.conftest import RunningServer
from tests.server.conftest import UNKNOWN, Service, assert_refused, failure_of, server_process

BAD = b"\xed\xa0\x80"  # a lone surrogate, as some languages write it


def raw(service: Service, method: str, data: bytes) -> Callable[[], object]:
    """Return a call with these bytes as its request."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = service.channel.unary_unary(
        f"/recollect.v1.{method}",
        request_serializer=lambda value: value,
        response_deserializer=lambda value: value,
    )
    return lambda: call(data)


def part(number: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    length, size = b"", len(data)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + data


@each(
    ("method", "data", "field"),
    [
        ("ConversationService/Create", part(1, BAD), "channel"),
        (
            "ConversationService/Create",
            part(1, b"web") + part(2, b"ok") + part(2, b"\xff"),
            "participants[1]",
        ),
        ("ConversationService/Create", part(1, b"web") + part(3, part(4, BAD)), "party.subject"),
        (
            "ConversationService/AppendTurn",
            part(1, UNKNOWN.encode()) + part(2, part(4, BAD)),
            "messages[0].content",
        ),
        (
            "ConversationService/AppendTurn",
            part(2, part(4, b"ok")) + part(2, part(11, part(3, b"\x80"))),
            "messages[1].tool_calls[0].arguments",
        ),
        (
            "ConversationService/AppendTurn",
            part(2, part(13, part(2, b"\xc3"))),
            "messages[0].attachments[0].uri",
        ),
        ("ConversationService/Rename", part(2, b"\xf5"), "title"),
        ("RecallService/Search", part(1, BAD), "query"),
        ("RecallService/Search", part(1, b"x") + part(7, b"ok") + part(7, BAD), "participants[1]"),
    ],
)
def test_text_that_is_not_utf_8_is_refused_by_its_fields_path(
    service: Service, server: RunningServer, method: str, data: bytes, field: str
) -> None:
    assert_refused(service, server, raw(service, method, data), field, reason="MALFORMED_REQUEST")


def test_metadata_that_is_not_utf_8_is_refused(service: Service, server: RunningServer) -> None:
    entry = part(1, b"key") + part(2, part(3, BAD))
    data = part(1, UNKNOWN.encode()) + part(2, part(14, part(1, entry)))
    failure = failure_of(raw(service, "ConversationService/AppendTurn", data))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    assert failure.fields[0].startswith("messages[0].metadata")


@each(
    "data",
    [b"\x0a", b"\xff" * 10, part(1, b"x")[:-1], b"\x0b", b"\x00\x01", b"not protobuf at all"],
)
def test_bytes_that_are_no_message_are_refused(
    service: Service, server: RunningServer, data: bytes
) -> None:
    for method, expected in (
        ("ConversationService/Create", "CreateRequest"),
        ("ConversationService/AppendTurn", "AppendTurnRequest"),
        ("RecallService/Search", "SearchRequest"),
    ):
        call = raw(service, method, data)
        failure = assert_refused(service, server, call, reason="MALFORMED_REQUEST")
        assert failure.text.startswith(f"the request is not a {expected}: ")


def test_a_message_nested_without_end_is_refused_and_the_server_lives(tmp_path: Path) -> None:
    value = part(3, b"x")
    for _ in range(2000):
        value = part(6, part(1, value))  # a list in a list
    data = part(1, UNKNOWN.encode()) + part(2, part(14, part(1, part(1, b"k") + part(2, value))))
    # in a process of its own: it may die of it
    with server_process(tmp_path / "data") as (process, target):
        service = Service(target)
        failure = failure_of(raw(service, "ConversationService/AppendTurn", data))
        assert process.poll() is None
        assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
        assert service.get(service.create().id).channel == "web"
        service.channel.close()


def test_fields_of_a_later_contract_are_passed_over(service: Service) -> None:
    made = api.CreateResponse.FromString(
        raw(service, "ConversationService/Create", part(1, b"web") + part(15, b"later"))()  # type: ignore[arg-type]
    )
    assert service.get(made.conversation.id).channel == "web"
