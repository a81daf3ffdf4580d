"""Reflection streams that stay open and idle, end early, or carry what is no request: everybody
else is served.
"""

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from recollect_server.contract import pool, reflection
from recollect_server.contract.server import SERVICES as CONTRACT

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, code_of, failure_of
from tests.waiting import until

IDLE = 40
SERVICES = len(CONTRACT) + 3  # health, and reflection in two versions
METHOD = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
FILE = "recollect/v1/conversation_service.proto"


class Streams:
    """Reflection streams of one connection, each of which sends what it is given and stays open."""

    def __init__(self, target: str) -> None:
        self.channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._closing = threading.Event()
        self.calls: list[Any] = []

    def open(self, *requests: bytes) -> Any:
        """Open a stream that sends these requests, and then nothing until it is closed."""
        multi: Any = self.channel.stream_stream(METHOD)
        call = multi(self._sent(requests))
        self.calls.append(call)
        return call

    def close(self) -> None:
        """End all streams as their callers."""
        self._closing.set()
        for call in self.calls:
            call.cancel()
        self.channel.close()

    def _sent(self, requests: tuple[bytes, ...]) -> Iterator[bytes]:
        yield from requests
        self._closing.wait(120)


@pytest.fixture
def streams(server: RunningServer) -> Iterator[Streams]:
    opened = Streams(server.target)
    yield opened
    opened.close()


def listing() -> bytes:
    return reflection_pb2.ServerReflectionRequest(list_services="*").SerializeToString()


def answer_of(data: bytes) -> reflection_pb2.ServerReflectionResponse:
    return reflection_pb2.ServerReflectionResponse.FromString(data)


def reflection_threads() -> int:
    return sum(thread.name.startswith("reflection") for thread in threading.enumerate())


def test_idle_streams_hold_no_thread_and_nobody_waits_for_them(
    start_server: Start, connect: Connect, scale: int
) -> None:
    server = start_server(threads=2, shutdown_grace="10m")
    service = connect(server)
    conversation_id = service.conversation_of("zebra")
    idle = Streams(server.target)
    try:
        for number in range(IDLE * scale):
            call = idle.open(*[listing()] * (number % 2))
            if number % 2:
                assert len(answer_of(next(call)).list_services_response.service) == SERVICES
        assert service.load(conversation_id).messages[0].content == "zebra"
        assert service.found("zebra") == [conversation_id]
        assert service.get(conversation_id).turn_count == 1
        health: Any = health_pb2_grpc.HealthStub(service.channel)
        assert (
            health.Check(health_pb2.HealthCheckRequest(), timeout=10).status
            == health_pb2.HealthCheckResponse.SERVING
        )
        assert len(answer_of(next(idle.open(listing()))).list_services_response.service) == SERVICES
        assert reflection_threads() <= 8  # those that open streams, however many stay open
        server.stop()  # which would take its grace of ten minutes if they were not ended first
        assert code_of(lambda: list(idle.calls[0])) == "UNAVAILABLE"
    finally:
        idle.close()


def test_one_stream_answers_many_requests_in_order_and_ends_when_its_caller_does(
    service: Service,
) -> None:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services="*"),
        reflection_pb2.ServerReflectionRequest(file_by_filename=FILE),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="recollect.v1.RecallService"),
        reflection_pb2.ServerReflectionRequest(file_by_filename="no/such.proto"),
        reflection_pb2.ServerReflectionRequest(
            all_extension_numbers_of_type="recollect.v1.Message"
        ),
        reflection_pb2.ServerReflectionRequest(),
    ] * 20
    answers = list(stub.ServerReflectionInfo(iter(requests), timeout=30))
    assert [answer.original_request for answer in answers] == requests
    assert [answer.WhichOneof("message_response") for answer in answers[:6]] == [
        "list_services_response",
        "file_descriptor_response",
        "file_descriptor_response",
        "error_response",
        "all_extension_numbers_response",
        "error_response",
    ]
    assert [answers[at].error_response.error_code for at in (3, 5)] == [
        grpc.StatusCode.NOT_FOUND.value[0],
        grpc.StatusCode.INVALID_ARGUMENT.value[0],
    ]
    assert list(stub.ServerReflectionInfo(iter(()), timeout=30)) == []


def test_what_is_no_request_ends_its_own_stream_with_the_reason(streams: Streams) -> None:
    other = streams.open(listing())
    broken = failure_of(lambda: list(streams.open(listing(), b"\xff\xff")))
    assert (broken.code, broken.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    assert "the request is not a ServerReflectionRequest" in broken.text
    long = reflection_pb2.ServerReflectionRequest(
        file_by_filename="x" * reflection.MAX_REQUEST_BYTES
    )
    large = failure_of(lambda: list(streams.open(long.SerializeToString())))
    assert (large.code, large.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    assert f"may have {reflection.MAX_REQUEST_BYTES}" in large.text
    assert len(answer_of(next(other)).list_services_response.service) == SERVICES


def test_streams_that_open_and_cancel_leave_nothing(
    streams: Streams, service: Service, scale: int
) -> None:
    for number in range(100 * scale):
        call = streams.open(*[listing()] * (number % 3))
        if number % 3:
            next(call)
        call.cancel()
    assert service.conversation_of("still served")
    assert len(answer_of(next(streams.open(listing()))).list_services_response.service) == SERVICES


def test_more_streams_than_are_kept_are_refused_and_the_others_go_on(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reflection, "_MAX_STREAMS", 3)
    opened = Streams(start_server().target)
    try:
        held = [opened.open(listing()) for _ in range(3)]
        for call in held:
            assert next(call)
        failure = failure_of(lambda: next(opened.open(listing())))
        assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_SUBSCRIBERS")
        held[0].cancel()
        until(lambda: code_of(lambda: next(opened.open(listing()))) == "OK")
    finally:
        opened.close()


def test_a_grpcio_without_the_private_means_is_served_by_threads_of_reflections_own(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "_MEANS", ("what_no_version_has",))
    server = start_server(threads=2)
    opened = Streams(server.target)
    try:
        for _ in range(4):
            assert (
                len(answer_of(next(opened.open(listing()))).list_services_response.service)
                == SERVICES
            )
        assert connect(server).conversation_of("zebra")
        assert 0 < reflection_threads() <= 8
        server.stop()
    finally:
        opened.close()
