"""The server around the services: health, reflection, every method, faults, what is logged."""

from collections.abc import Callable
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from recollect.v1 import conversation_service_pb2
from recollect_server.conversations.service import Conversations

from tests.cases import each
from tests.conftest import RunningServer, Start
from tests.credentials.contract import METHODS
from tests.server.conftest import Connect, Service, code_of, failure_of, kept_by, user

ALLOWED = {"OK", "INVALID_ARGUMENT", "FAILED_PRECONDITION"}
"""Outcomes of a call with an empty request: the server is built, and has no fault."""
SERVICES = {method.containing_service.full_name for method in METHODS.values()}


def test_every_service_is_healthy_while_the_server_runs(service: Service) -> None:
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    for name in ("", *SERVICES):
        answer = health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
    assert (
        code_of(lambda: health.Check(health_pb2.HealthCheckRequest(service="recollect.v1.Nothing")))
        == "NOT_FOUND"
    )


def reflected(service: Service) -> set[str]:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    (answer,) = stub.ServerReflectionInfo(requests)
    return {named.name for named in answer.list_services_response.service}


def test_reflection_names_every_service(service: Service) -> None:
    assert reflected(service) >= SERVICES | {"grpc.health.v1.Health"}


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_describes_every_method_and_message(service: Service, version: str) -> None:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    ask = service.channel.stream_stream(
        path,
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )
    names = [it.full_name for method in METHODS.values() for it in (method, method.input_type)]
    names += [f"grpc.reflection.{version}.ServerReflection.ServerReflectionInfo"]
    unknown = ["recollect.v1.RecallService.Find", "Search", ".", ""]
    requests = [
        reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
        for name in [*names, *unknown]
    ]
    answers: Any = list(ask(iter(requests)))
    for name, answer in zip(names, answers, strict=False):
        files = answer.file_descriptor_response.file_descriptor_proto
        own = [FileDescriptorProto.FromString(file) for file in files]
        assert any(name.startswith(f"{file.package}.") for file in own), name
        assert answer.original_request.file_containing_symbol == name
    assert [it.error_response.error_code for it in answers[len(names) :]] == [5] * len(unknown)


def test_reflection_can_be_turned_off(start_server: Start, connect: Connect) -> None:
    quiet = connect(start_server(reflection=False))
    assert code_of(lambda: reflected(quiet)) == "UNIMPLEMENTED"
    assert len(quiet.listed().conversations) == 0


def bare(service: Service, path: str) -> Callable[[bytes], object]:
    """Return a call of any method with any bytes."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = service.channel.unary_unary(path)
    return call


@each(("name", "method"), METHODS.items())
def test_every_method_of_the_contract_is_built_and_refuses_broken_bytes(
    service: Service, name: str, method: MethodDescriptor
) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"
    streaming: grpc.UnaryStreamMultiCallable[bytes, bytes] = service.channel.unary_stream(path)
    failure = failure_of(
        lambda: (
            next(streaming(b"\xff")) if method.server_streaming else bare(service, path)(b"\xff")
        )
    )
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    empty = GetMessageClass(method.input_type)().SerializeToString()
    if not method.server_streaming:
        assert code_of(lambda: bare(service, path)(empty)) in ALLOWED


def test_a_fault_of_the_server_says_nothing_but_where_to_look(
    service: Service,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("secret-in-the-text")

    conversation_id = service.create().id
    files = kept_by(service, server)
    monkeypatch.setattr(Conversations, "append", broken)
    failure = failure_of(lambda: service.append(conversation_id, user("secret-that-was-said")))
    assert (failure.code, failure.reason, failure.domain) == ("INTERNAL", "INTERNAL", "recollect")
    assert set(failure.metadata) == {"log_id"}
    assert "secret" not in failure.text + str(failure.metadata)
    assert kept_by(service, server) == files
    logged = capsys.readouterr()
    assert failure.metadata["log_id"] in logged.out + logged.err
    monkeypatch.undo()
    assert service.append(conversation_id, user("again")).turn_number == 1


def test_what_was_said_is_not_logged(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    conversation_id = service.conversation_of("wimblezark")
    service.search("wimblezark")
    service.rename(conversation_id, "Wimblezark")
    logged = capsys.readouterr()
    assert "AppendTurn" in logged.out + logged.err
    assert "wimblezark" not in (logged.out + logged.err).lower()


def test_more_callers_than_threads_are_all_answered(start_server: Start, connect: Connect) -> None:
    service = connect(start_server(threads=1))
    conversation_id = service.create().id
    calls = [
        service.conversations.AppendTurn.future(
            conversation_service_pb2.AppendTurnRequest(
                conversation_id=conversation_id, messages=[user(str(n))]
            )
        )
        for n in range(50)
    ]
    assert sorted(call.result(30).turn_number for call in calls) == list(range(1, 51))


def test_an_unknown_method_is_refused_and_the_server_lives(service: Service) -> None:
    assert (
        code_of(lambda: bare(service, "/recollect.v1.ConversationService/Nothing")(b""))
        == "UNIMPLEMENTED"
    )
    assert code_of(lambda: bare(service, "/nothing/at/all")(b"")) == "UNIMPLEMENTED"
    assert service.create().channel == "web"
