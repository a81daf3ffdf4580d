"""Watchers of the server's health: however many open, cancel, vanish or stay, the server goes on
and stops in time.
"""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from recollect.v1 import recall_service_pb2
from recollect_server.anchors.service import Anchors

from tests.conftest import Start
from tests.server.conftest import Connect, Service, at_once, code_of, failure_of, server_process
from tests.waiting import until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
CLIENTS = 3
WATCHES = 30
HELD = 60
GRACE = ("--shutdown-grace", "5m")
PROMPT = 60.0
"""Seconds within which a server stops that has nothing to wait for: far less than its grace."""


@contextmanager
def health_of(target: str) -> Iterator[Any]:
    """Connect a stub of the health service over a connection of its own."""
    with grpc.insecure_channel(target, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield health_pb2_grpc.HealthStub(channel)


def asked(service: str = "") -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


def test_clients_that_open_watches_and_cancel_them_never_stop_the_server(
    tmp_path: Path, scale: int
) -> None:
    with server_process(tmp_path / "data", *GRACE) as (process, target):

        def watch_and_cancel(_: int) -> None:
            with health_of(target) as health:
                for _ in range(WATCHES * scale):
                    watch = health.Watch(asked(), timeout=30)
                    assert next(watch).status == SERVING
                    watch.cancel()

        at_once(CLIENTS, watch_and_cancel)
        with health_of(target) as health:
            assert health.Check(asked(), timeout=10).status == SERVING
        service = Service(target)
        assert service.conversation_of("still served")
        service.channel.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PROMPT) == 0


def test_a_stop_right_after_watches_were_opened_and_cancelled_ends_in_time(
    tmp_path: Path, scale: int
) -> None:
    for number in range(scale):
        with (
            server_process(tmp_path / f"data{number}", *GRACE) as (process, target),
            health_of(target) as health,
        ):
            watches = [health.Watch(asked(), timeout=60) for _ in range(HELD)]
            for watch in watches:
                assert next(watch).status == SERVING
            for watch in watches[::2]:
                watch.cancel()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PROMPT) == 0


def test_clients_that_have_grpc_check_health_come_and_go_without_harm(
    start_server: Start, connect: Connect, scale: int
) -> None:
    server = start_server(shutdown_grace="10m")
    config = {
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": "recollect.v1.ConversationService"},
    }
    options = [("grpc.service_config", json.dumps(config)), ("grpc.use_local_subchannel_pool", 1)]
    held = [grpc.insecure_channel(server.target, options=options) for _ in range(5)]
    for channel in held:
        # ready by its health, not by its connection alone
        grpc.channel_ready_future(channel).result(30)
    for _ in range(8 * scale):
        with grpc.insecure_channel(server.target, options=options) as channel:
            grpc.channel_ready_future(channel).result(30)
    assert connect(server).conversation_of("still served")
    server.stop()
    for channel in held:
        channel.close()


def test_held_watches_are_told_of_a_stop_and_ended_before_its_grace(start_server: Start) -> None:
    server = start_server(shutdown_grace="10m")
    with health_of(server.target) as health:
        watches = [
            health.Watch(asked(name))
            for name in ("", "recollect.v1.RecallService", "nothing.of.the.kind")
        ]
        assert [next(watch).status for watch in watches] == [SERVING, SERVING, SERVICE_UNKNOWN]
        server.stop()
        for watch, status in zip(watches, (NOT_SERVING, NOT_SERVING, None), strict=True):
            assert [answer.status for answer in rest_of(watch)] == ([status] if status else [])
            assert watch.code() == grpc.StatusCode.UNAVAILABLE


def rest_of(watch: Any) -> list[health_pb2.HealthCheckResponse]:
    """Return the answers that a watch receives until the server ends it."""
    answers = []
    try:
        for answer in watch:
            answers.append(answer)  # noqa: PERF402 - what came before the error is kept
    except grpc.RpcError:
        pass
    return answers


def test_more_watches_than_are_kept_are_refused_and_the_others_go_on(start_server: Start) -> None:
    server = start_server(max_subscribers=5)
    with health_of(server.target) as health:
        held = [health.Watch(asked()) for _ in range(5)]
        assert [next(watch).status for watch in held] == [SERVING] * 5
        failure = failure_of(lambda: next(health.Watch(asked(), timeout=30)))
        assert (failure.code, failure.reason) == ("RESOURCE_EXHAUSTED", "TOO_MANY_SUBSCRIBERS")
        held.pop().cancel()
        until(lambda: code_of(lambda: next(health.Watch(asked(), timeout=30))) == "OK")


def test_calls_that_take_every_thread_leave_health_its_own(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def held(*_: object, **__: object) -> list[object]:
        entered.set()
        assert go_on.wait(60)
        return []

    monkeypatch.setattr(Anchors, "listed", held)
    server = start_server(threads=1)
    call = connect(server).recall.ListAnchors.future(recall_service_pb2.ListAnchorsRequest())
    try:
        assert entered.wait(30)
        with health_of(server.target) as health:
            assert health.Check(asked(), timeout=10).status == SERVING
            watch = health.Watch(asked(), timeout=10)
            assert next(watch).status == SERVING
            watch.cancel()
    finally:
        go_on.set()
    call.result(30)


def test_a_name_that_nothing_has_is_not_found_and_broken_bytes_are_refused(
    service: Service,
) -> None:
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    failure = failure_of(lambda: health.Check(asked("recollect.v1.Nothing")))
    assert (failure.code, failure.text) == ("NOT_FOUND", "there is no service recollect.v1.Nothing")
    check: Any = service.channel.unary_unary("/grpc.health.v1.Health/Check")
    assert code_of(lambda: check(b"\xff")) == "INVALID_ARGUMENT"
    watch: Any = service.channel.unary_stream("/grpc.health.v1.Health/Watch")
    assert code_of(lambda: list(watch(b"\xff"))) == "INVALID_ARGUMENT"


def test_every_name_is_listed(service: Service) -> None:
    health: Any = health_pb2_grpc.HealthStub(service.channel)
    listing: Any = health_pb2  # its types lack List
    statuses = health.List(listing.HealthListRequest()).statuses
    assert {"", "recollect.v1.ConversationService", "recollect.v1.RecallService"} <= set(statuses)
    assert {answer.status for answer in statuses.values()} == {SERVING}
