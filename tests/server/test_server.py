"""The server around the services: health, reflection, what is not built yet, starting, stopping, settings, faults."""

import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from recollect.v1 import (
    channel_service_pb2,
    conversation_service_pb2,
    external_communication_service_pb2,
    recall_service_pb2,
)
from recollect_server.services.conversations import Conversations
from recollect_server.settings import Settings, WrongSettings
from recollect_server.transport.server import CannotListen

from tests.conftest import RunningServer
from tests.server.conftest import Service, code_of, failure_of, kept_by, server_process, user

Start = Callable[..., RunningServer]
Connect = Callable[[RunningServer], Service]

SERVICES = [
    conversation_service_pb2.DESCRIPTOR.services_by_name["ConversationService"],
    recall_service_pb2.DESCRIPTOR.services_by_name["RecallService"],
    channel_service_pb2.DESCRIPTOR.services_by_name["ChannelService"],
    external_communication_service_pb2.DESCRIPTOR.services_by_name["ExternalCommunicationService"],
]
METHODS = [method for service in SERVICES for method in service.methods]


def test_every_service_is_healthy_while_the_server_runs(service: Service) -> None:
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    for name in ("", *(described.full_name for described in SERVICES)):
        answer = health.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
    assert code_of(lambda: health.Check(health_pb2.HealthCheckRequest(service="recollect.v1.Nothing"))) == "NOT_FOUND"


def test_a_watcher_of_health_is_told_that_the_server_stops(server: RunningServer, service: Service) -> None:
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    watch = health.Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
    watch.cancel()
    stopping.join(30)
    assert not stopping.is_alive()


def reflected(service: Service) -> set[str]:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(service.channel)
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    (answer,) = stub.ServerReflectionInfo(asked)
    return {found.name for found in answer.list_services_response.service}


def test_reflection_names_every_service(service: Service) -> None:
    assert reflected(service) >= {described.full_name for described in SERVICES} | {"grpc.health.v1.Health"}


def test_reflection_can_be_turned_off(start_server: Start, connect: Connect) -> None:
    quiet = connect(start_server(reflection=False))
    assert code_of(lambda: reflected(quiet)) == "UNIMPLEMENTED"
    assert len(quiet.listed().conversations) == 0


def bare(service: Service, path: str) -> Callable[[bytes], object]:
    """A call of any method with any bytes."""
    call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = service.channel.unary_unary(path)
    return call


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_every_method_of_the_contract_is_built_and_refuses_broken_bytes(service: Service, method: MethodDescriptor) -> None:
    path = f"/{method.containing_service.full_name}/{method.name}"
    streaming: grpc.UnaryStreamMultiCallable[bytes, bytes] = service.channel.unary_stream(path)
    failure = failure_of(lambda: list(streaming(b"\xff")) if method.server_streaming else bare(service, path)(b"\xff"))
    assert (failure.code, failure.reason) == ("INVALID_ARGUMENT", "MALFORMED_REQUEST")
    empty = GetMessageClass(method.input_type)().SerializeToString()
    if not method.server_streaming:
        assert code_of(lambda: bare(service, path)(empty)) in ("OK", "INVALID_ARGUMENT")


class Held:
    """A service method that waits in the middle of a call until a test lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        append = Conversations.append

        def held(*arguments: Any, **named: Any) -> Any:
            self.entered.set()
            assert self.go_on.wait(30)
            return append(*arguments, **named)

        monkeypatch.setattr(Conversations, "append", held)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    holding = Held(monkeypatch)
    yield holding
    holding.go_on.set()


def test_a_stop_finishes_the_call_under_way(start_server: Start, connect: Connect, held: Held) -> None:
    server = start_server(shutdown_grace="30s")
    service = connect(server)
    conversation_id = service.create().id
    call = service.conversations.AppendTurn.future(
        conversation_service_pb2.AppendTurnRequest(conversation_id=conversation_id, messages=[user("in time")])
    )
    ended = threading.Event()
    call.add_done_callback(lambda _: ended.set())
    assert held.entered.wait(30)
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    while code_of(lambda: health.Check(health_pb2.HealthCheckRequest())) == "OK":
        pass  # until it takes no new calls
    assert not ended.wait(0.2), "the call was cut off"
    held.go_on.set()
    assert call.result(30).turn_number == 1
    stopping.join(30)
    assert not stopping.is_alive()
    again = connect(start_server())
    assert [message.content for message in again.load(conversation_id).messages] == ["in time"]


def test_a_stopped_server_frees_its_folder_and_its_port(server: RunningServer, start_server: Start, connect: Connect) -> None:
    connect(server).told("one")
    server.stop()
    again = start_server(listen=server.target)
    assert again.target == server.target
    assert len(connect(again).listed().conversations) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_in_order(tmp_path: Path, number: signal.Signals) -> None:
    with server_process(tmp_path / "data") as (process, target):
        service = Service(target)
        conversation_id = service.told("kept")
        service.channel.close()
        process.send_signal(number)
        assert process.wait(30) == 0
    assert not (tmp_path / "data" / "default" / "conversations" / "conversations.db-wal").exists()
    with server_process(tmp_path / "data") as (_, target):
        service = Service(target)
        assert service.get(conversation_id).message_count == 1
        service.channel.close()


def test_a_killed_server_has_kept_what_it_acknowledged_and_starts_again(tmp_path: Path) -> None:
    with server_process(tmp_path / "data") as (process, target):
        service = Service(target)
        conversation_id = service.told(*(f"zebra {number}" for number in range(20)))
        process.send_signal(signal.SIGKILL)
        service.channel.close()
        assert process.wait(30) == -signal.SIGKILL
    with server_process(tmp_path / "data") as (_, target):
        service = Service(target)
        assert [message.content for message in service.load(conversation_id).messages] == [
            f"zebra {number}" for number in range(20)
        ]
        assert service.search("zebra", limit=100).hits[0].conversation_id == conversation_id
        assert service.append(conversation_id, user("more")).turn_number == 21
        service.channel.close()


def test_a_port_in_use_is_refused_with_a_sentence_and_nothing_is_left_running(start_server: Start, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotListen, match=rf"cannot listen on {re.escape(address)}: another program listens there"):
            start_server(listen=address, data_dir=tmp_path / "other")
    assert start_server(listen=address, data_dir=tmp_path / "other").target == address


def test_two_servers_never_share_a_port(server: RunningServer, start_server: Start, tmp_path: Path) -> None:
    with pytest.raises(CannotListen):
        start_server(listen=server.target, data_dir=tmp_path / "other")


def test_a_server_on_a_unix_socket(start_server: Start, connect: Connect, tmp_path: Path) -> None:
    listen = f"unix:{tmp_path / 's'}"
    server = start_server(listen=listen)
    assert server.target == listen
    assert connect(server).create("cli").channel == "cli"
    server.stop()
    assert len(connect(start_server(listen=listen)).listed().conversations) == 1


@pytest.mark.parametrize(
    "listen",
    [
        "0.0.0.0:50051", "[::]:50051", "192.168.1.5:50051", "example.org:50051",
        "127.0.0.1", "127.0.0.1:", ":50051", "", "unix:",
        "127.0.0.1:70000", "localhost.example.org:1", "127.0.0.1:1,0.0.0.0:2", "dns:///127.0.0.1:5", "[::1]:x", "127.0.0.1:-1",
        "50051", "127.0.0.1:1\n", "1127.0.0.1:1", "ipv4:0.0.0.0:1", "[::ffff:0.0.0.0]:1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_this_machines_own_is_refused(start_server: Start, listen: str) -> None:
    with pytest.raises(WrongSettings, match=r"^listen: "):
        start_server(listen=listen)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:0", "127.9.9.9:0"])
def test_loopback_addresses_are_listened_on(start_server: Start, connect: Connect, listen: str) -> None:
    assert connect(start_server(listen=listen)).create().channel == "web"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("space", "../up"), ("space", ""), ("space", "Up"), ("space", "a/b"), ("durability", "maybe"), ("max_working_turns", 0),
        ("max_working_turns", 1001), ("max_working_tokens", -1), ("max_message_bytes", 10), ("max_batch_bytes", "much"),
        ("threads", 0), ("reflection", "perhaps"), ("shutdown_grace", "10"), ("shutdown_grace", "10 s"), ("shutdown_grace", "-1s"),
        ("shutdown_grace", "1y"), ("shutdown_grace", "9" * 400 + "d"), ("log_level", "loud"),
        ("log_format", "xml"), ("durabilty", "fsync"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(WrongSettings, match=rf"^{name}: "):
        Settings.load(None, {name: value})


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(WrongSettings) as refused:
        Settings.load(None, {"listen": "0.0.0.0:1", "threads": 0, "nonsense": 1})
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == ["listen", "threads", "nonsense"]


def test_a_flag_goes_before_the_environment_before_the_file_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text("threads: 3\nspace: from-file\nmax_working_turns: 7\nshutdown_grace: 500ms\n")
    monkeypatch.setenv("RECOLLECT_THREADS", "4")
    monkeypatch.setenv("RECOLLECT_SPACE", "from-environment")
    settings = Settings.load(file, {"threads": 5})
    assert (settings.threads, settings.space, settings.max_working_turns) == (5, "from-environment", 7)
    assert (settings.shutdown_grace.total_seconds(), settings.max_working_tokens) == (0.5, 8000)


@pytest.mark.parametrize(
    "text", ["threads: [", "- a list", "just text", "threads: 0", "nonsense: 1", "\x00", "threads: !!python/object:x {}"]
)
def test_a_wrong_settings_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text(text)
    with pytest.raises(WrongSettings):
        Settings.load(file, {})
    with pytest.raises(WrongSettings, match="there is no such file"):
        Settings.load(tmp_path / "nowhere.yaml", {})


def test_spaces_never_meet(start_server: Start, connect: Connect) -> None:
    first = start_server(space="ana")
    conversation_id = connect(first).told("ana's zebra")
    first.stop()
    second = start_server(space="bo")
    service = connect(second)
    assert service.found("zebra") == []
    assert failure_of(lambda: service.get(conversation_id)).reason == "CONVERSATION_NOT_FOUND"
    assert {path.name for path in second.data_dir.iterdir() if path.is_dir()} == {"ana", "bo"}


def test_a_fault_of_the_server_says_nothing_but_where_to_look(
    service: Service, server: RunningServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("secret-in-the-text")

    conversation_id = service.create().id
    kept = kept_by(service, server)
    monkeypatch.setattr(Conversations, "append", broken)
    failure = failure_of(lambda: service.append(conversation_id, user("secret-that-was-said")))
    assert (failure.code, failure.reason, failure.domain) == ("INTERNAL", "INTERNAL", "recollect")
    assert set(failure.metadata) == {"log_id"}
    assert "secret" not in failure.text + str(failure.metadata)
    assert kept_by(service, server) == kept
    logged = capsys.readouterr()
    assert failure.metadata["log_id"] in logged.out + logged.err
    monkeypatch.undo()
    assert service.append(conversation_id, user("again")).turn_number == 1


def test_what_was_said_is_not_logged(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    conversation_id = service.told("wimblezark")
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
            conversation_service_pb2.AppendTurnRequest(conversation_id=conversation_id, messages=[user(str(n))])
        )
        for n in range(50)
    ]
    assert sorted(call.result(30).turn_number for call in calls) == list(range(1, 51))


def test_without_fsync_everything_else_is_the_same(start_server: Start, connect: Connect) -> None:
    server = start_server(durability="os")
    conversation_id = connect(server).told("one", "two")
    server.stop()
    assert connect(start_server(durability="os")).get(conversation_id).turn_count == 2


def test_an_unknown_method_is_refused_and_the_server_lives(service: Service) -> None:
    assert code_of(lambda: bare(service, "/recollect.v1.ConversationService/Nothing")(b"")) == "UNIMPLEMENTED"
    assert code_of(lambda: bare(service, "/nothing/at/all")(b"")) == "UNIMPLEMENTED"
    assert service.create().channel == "web"


def test_a_caller_that_gives_up_costs_nothing_but_its_own_answer(service: Service, held: Held) -> None:
    conversation_id = service.create().id
    request = conversation_service_pb2.AppendTurnRequest(conversation_id=conversation_id, messages=[user("once")], request_id="r1")
    call = service.conversations.AppendTurn.future(request)
    assert held.entered.wait(30)
    call.cancel()
    held.go_on.set()
    again = service.conversations.AppendTurn(request)
    assert again.messages[0].sequence == 2
    assert service.get(conversation_id).message_count == 1
