"""Health of a server that serves with a degraded part."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from grpc_health.v1 import health_pb2, health_pb2_grpc
from recollect_server.recall.candidates import KEYWORD_LEGS, VECTOR_LEGS
from recollect_server.recall.embedding.service import Embedding
from recollect_server.recall.recall import Recall
from recollect_server.run.commands import commands

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, code_of

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
RECALL = "recollect.v1.RecallService"


def check(service: Service, name: str = "") -> tuple[int, list[str]]:
    """Return the status of a name and its degraded parts."""
    stub: Any = health_pb2_grpc.HealthStub(service.channel)
    answer, call = stub.Check.with_call(health_pb2.HealthCheckRequest(service=name), timeout=30)
    return answer.status, [
        value for key, value in call.trailing_metadata() if key == "recollect-degraded"
    ]


def printed(server: RunningServer) -> tuple[int, list[str]]:
    """Return the exit status and the lines of `recollect-server health`."""
    done = CliRunner().invoke(commands, ["health", "--listen", server.target])
    return done.exit_code, done.stdout.splitlines()


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Hold what follows the loading of the model until the event is set."""
    go_on = threading.Event()
    make_copy = Embedding._make_copy

    def held(*arguments: Any) -> Any:
        assert go_on.wait(60)
        return make_copy(*arguments)

    monkeypatch.setattr(Embedding, "_make_copy", held)
    yield go_on
    go_on.set()


def test_after_a_start_health_serves_and_names_what_is_not_there_yet(
    start_server: Start, connect: Connect, loading: threading.Event, no_log: None
) -> None:
    server = start_server(embedder="onnx")
    service = connect(server)
    stub: Any = health_pb2_grpc.HealthStub(service.channel)
    part = f"{RECALL}/{VECTOR_LEGS[0]}"
    watch = stub.Watch(health_pb2.HealthCheckRequest(service=part), timeout=60)
    assert next(watch).status == NOT_SERVING

    expected = [f"{RECALL}/{leg}: the embedding model is not loaded yet" for leg in VECTOR_LEGS]
    assert check(service) == (SERVING, expected)
    assert check(service, RECALL) == (SERVING, expected)
    assert check(service, "recollect.v1.ConversationService") == (SERVING, [])
    assert check(service, part) == (NOT_SERVING, expected[:1])
    assert check(service, f"{RECALL}/{KEYWORD_LEGS[0]}") == (SERVING, [])
    assert {it.leg: it.reason for it in service.search("zebra").degraded} == dict.fromkeys(
        VECTOR_LEGS, "the embedding model is not loaded yet"
    )
    assert printed(server) == (0, ["SERVING", *(f"degraded: {line}" for line in expected)])

    loading.set()
    assert next(watch).status == SERVING
    watch.cancel()
    assert check(service) == (SERVING, [])
    assert check(service, part) == (SERVING, [])
    assert printed(server) == (0, ["SERVING"])


def test_by_words_alone_there_is_no_health_of_vectors(service: Service) -> None:
    assert check(service, f"{RECALL}/{KEYWORD_LEGS[0]}") == (SERVING, [])
    assert code_of(lambda: check(service, f"{RECALL}/{VECTOR_LEGS[0]}")) == "NOT_FOUND"
    assert check(service) == (SERVING, [])


def test_health_answers_whatever_breaks_and_a_reason_of_any_text_is_told(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_broken = False

    def degraded(_: Recall) -> dict[str, str]:
        if is_broken:
            raise KeyError("secret")
        return {"keyword_messages": "Größe\nof x" + 999 * "y"}

    monkeypatch.setattr(Recall, "degraded", degraded)
    service = connect(start_server())
    status, reasons = check(service)
    assert status == SERVING
    assert reasons[0].startswith(f"{RECALL}/keyword_messages: Gr\\xf6\\xdfe of xyyy")
    assert len(reasons[0]) < 400
    is_broken = True
    assert check(service) == (SERVING, [])


def test_a_server_that_does_not_answer_has_no_health(server: RunningServer) -> None:
    server.stop()
    status, lines = printed(server)
    assert (status, lines) == (1, [])
