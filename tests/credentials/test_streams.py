"""Open streams end when their caller's token does, within a second, and others go on."""

import threading
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2
from recollect import Client
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import external_communication_service_pb2 as external
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.at_rest import INDEX
from tests.conftest import LOOPBACK, Start
from tests.credentials.conftest import Caller, Callers, grant, tokens_of
from tests.server.conftest import failure_in, user

STREAMS = {
    "ConversationService.StreamUpdates": api.StreamUpdatesRequest(),
    "ExternalCommunicationService.StreamCommunicationUpdates": (
        external.StreamCommunicationUpdatesRequest()
    ),
}
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def ended(stream: Any) -> tuple[str, str, float]:
    """Read a stream to its end; return its reason, its text and the seconds that it took."""
    began = time.monotonic()
    with pytest.raises(grpc.RpcError) as raised:
        for _ in stream:
            pass
    failure = failure_in(raised.value)
    assert failure.code == "UNAUTHENTICATED"
    return failure.reason, failure.text, time.monotonic() - began


def opened(caller: Caller, name: str) -> Any:
    """Open a stream, and return it once it has begun."""
    stream = caller.begin(name, STREAMS[name])
    next(stream)
    return stream


@pytest.mark.parametrize("name", STREAMS)
def test_a_revoked_tokens_stream_ends_within_a_second_and_others_go_on(
    name: str, callers: Callers
) -> None:
    reader, other = callers.of("reader"), callers.of("reader")
    stream, going_on = opened(reader, name), opened(other, name)
    callers.tokens.revoke(callers.tokens.all()[0].id)
    reason, text, seconds = ended(stream)
    assert (reason, "revoked" in text) == ("UNAUTHENTICATED", True)
    assert seconds < 1
    assert going_on.is_active()
    going_on.cancel()


def test_what_was_said_after_a_revocation_is_not_streamed(callers: Callers) -> None:
    reader, brain = callers.of("reader"), callers.of("brain")
    made = brain.call("ConversationService.Create", api.CreateRequest(channel="web")).conversation
    stream = reader.begin("ConversationService.StreamUpdates", api.StreamUpdatesRequest())
    assert [next(stream).update.WhichOneof("kind") for _ in range(2)]
    callers.tokens.revoke(callers.tokens.all()[0].id)
    time_of_end = time.monotonic() + 1
    count = 0
    contents: list[str] = []
    try:
        while time.monotonic() < time_of_end + 1:
            count += 1
            brain.call(
                "ConversationService.AppendTurn",
                api.AppendTurnRequest(
                    conversation_id=made.id, messages=[user(f"{time.monotonic() < time_of_end}")]
                ),
            )
            contents += [it.content for it in next(stream).update.conversation_updated.messages]
    except grpc.RpcError as error:
        assert failure_in(error).reason == "UNAUTHENTICATED"  # noqa: PT017 - the loop must end so
    else:
        pytest.fail("the stream did not end")
    assert "False" not in contents


def test_a_stream_ends_when_its_token_expires(start_server: Start) -> None:
    server = start_server(auth="required")
    made = Callers(server.target, tokens_of(server.data_dir, server.clock))
    stream = opened(made.of("reader", expires=server.clock.now + 1000), next(iter(STREAMS)))
    server.clock.move(1000)
    _, text, seconds = ended(stream)
    assert "expired" in text
    assert seconds < 1
    made.close()


def test_streams_without_a_token_end_when_the_first_token_is_created(start_server: Start) -> None:
    server = start_server()
    anybody = Caller(server.target)
    stream = opened(anybody, next(iter(STREAMS)))
    tokens_of(server.data_dir, server.clock).create(grant())
    assert ended(stream)[2] < 1
    anybody.channel.close()


@pytest.mark.files
def test_a_stream_whose_space_takes_long_to_open_ends_with_its_token(
    start_server: Start, tmp_path: Path
) -> None:
    first = start_server(data_dir=tmp_path / "cold")
    with Client(first.target, space="ada") as client:
        client.conversations.create("web")
    first.stop()
    (tmp_path / "cold" / "ada" / "conversations" / INDEX).unlink()
    is_read = threading.Event()

    def progress(_: int, of: int) -> None:
        if of:
            is_read.wait(30)

    values = {"listen": f"{LOOPBACK}:0", "data_dir": tmp_path / "cold", "auth": "required"}
    server = app.start(Settings.load(None, values), progress=progress)
    callers = Callers(server.address, tokens_of(tmp_path / "cold", system_clock))
    try:
        name = next(iter(STREAMS))
        stream = callers.of("reader", "ada").begin(name, STREAMS[name])
        is_read.wait(6)  # longer than a server waits for calls before it rests
        is_read.set()
        next(stream)
        callers.tokens.revoke(callers.tokens.all()[0].id)
        assert ended(stream)[2] < 1
    finally:
        is_read.set()
        callers.close()
        server.stop()


def test_a_reflection_stream_ends_with_its_token(callers: Callers) -> None:
    gateway = callers.of("gateway")
    request = reflection_pb2.ServerReflectionRequest(list_services="*").SerializeToString()
    held = Held(request)
    multi: Any = gateway.channel.stream_stream(REFLECTION)
    stream = multi(held, metadata=gateway.metadata, timeout=30)
    next(stream)
    callers.tokens.revoke(callers.tokens.all()[0].id)
    assert ended(stream)[2] < 1
    held.close()


class Held:
    """Requests of a stream that stays open behind its first one."""

    def __init__(self, request: bytes) -> None:
        self._requests = [request]
        self._closing = threading.Event()

    def __iter__(self) -> "Held":
        return self

    def __next__(self) -> bytes:
        if self._requests:
            return self._requests.pop()
        self._closing.wait(60)
        raise StopIteration

    def close(self) -> None:
        """End the requests."""
        self._closing.set()
