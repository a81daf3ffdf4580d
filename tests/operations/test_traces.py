"""Traces: spans of calls and of their steps, sent by OTLP to a collector, in the trace of whoever
called; and the ids that log lines have.
"""

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry import trace as api_of_traces
from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from recollect import AsyncClient, Client
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1 import recall_service_pb2 as recall_api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.kernel.domain.telemetry import CALL, UNMEASURED, CallIds, Step, trace_of
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings import Settings, WrongSettings
from recollect_server.run.tracing import Tracing

from tests.cases import each
from tests.conftest import LOOPBACK, RunningServer, Start
from tests.operations.conftest import OBSERVED, scrape, token
from tests.server.conftest import Connect, code_of, user
from tests.waiting import until, until_embedded

GEN_AI = (
    "gen_ai.operation.name",
    "gen_ai.conversation.id",
    "gen_ai.memory.record.count",
    "gen_ai.retrieval.documents",
    "error.type",
)
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


class Collector:
    """A collector of OpenTelemetry, which keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.paths: list[str] = []
        self.text = b""
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                collector.paths.append(self.path)
                collector.text += body
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans += scope.spans
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def named(self, name: str) -> Any:
        (span,) = (it for it in self.spans if it.name == name)
        return span


def attributes(span: Any) -> dict[str, str | int]:
    return {it.key: it.value.string_value or it.value.int_value for it in span.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Start a collector."""
    started = Collector()
    yield started
    started.server.shutdown()
    started.server.server_close()


def test_a_call_and_its_steps_are_spans_of_its_callers_trace(
    start_server: Start, connect: Connect, collector: Collector
) -> None:
    server = start_server(traces=collector.url, embedder="onnx", **OBSERVED)
    service = connect(server)
    name = service.create().id
    service.conversations.AppendTurn(
        api.AppendTurnRequest(
            conversation_id=name, messages=[user("a secret zebra")], request_id="req-1"
        ),
        metadata=(("traceparent", SAMPLED),),
    )
    until_embedded(service, server)
    service.found("zebra")
    assert code_of(lambda: service.append("conv-1", user("x"))) == "INVALID_ARGUMENT"
    assert scrape(server).value("recollect_write_step_seconds_count", step="write") == 2
    server.stop()
    assert set(collector.paths) == {"/v1/traces"}
    call = next(it for it in collector.spans if it.trace_id.hex() == TRACE and it.kind == 2)
    assert call.name == "recollect.v1.ConversationService/AppendTurn"
    assert call.parent_span_id.hex() == SPAN
    assert attributes(call) == {
        "rpc.system": "grpc",
        "rpc.service": "recollect.v1.ConversationService",
        "rpc.method": "AppendTurn",
        "rpc.grpc.status_code": "OK",
        "recollect.request": "req-1",
        "gen_ai.operation.name": "create_memory",
        "gen_ai.conversation.id": name,
        "gen_ai.memory.record.count": 1,
    }
    steps = [it for it in collector.spans if it.parent_span_id == call.span_id]
    assert [it.name for it in steps] == ["lock", "write", "index"]
    assert {it.trace_id for it in steps} == {call.trace_id}
    searches = [it for it in collector.spans if it.name == "recollect.v1.RecallService/Search"]
    below = {it.name for it in collector.spans if it.parent_span_id == searches[-1].span_id}
    assert below == {"question", "words", "vectors", "ranking"}
    refused = collector.spans[-1]
    assert attributes(refused)["rpc.grpc.status_code"] == "INVALID_ARGUMENT"
    assert "gen_ai.conversation.id" not in attributes(refused)  # it is a text of the caller's
    assert b"zebra" not in collector.text


def test_calls_of_memory_carry_opentelemetrys_attributes_for_generative_ai(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = InMemorySpanExporter()
    monkeypatch.setattr(trace_exporter, "OTLPSpanExporter", lambda endpoint: memory)  # noqa: ARG005
    server = start_server(traces="http://collector:4318")
    service = connect(server)
    name = service.turn(service.create().id, "the heron is a database", "Noted.").conversation.id
    hits = service.search("heron").hits
    cold = service.recall.BuildContext(
        recall_api.BuildContextRequest(message="Which database is the heron?")
    ).cold
    service.recall.SetAnchor(recall_api.SetAnchorRequest(key="home", value="Bonn"))
    service.recall.DeleteAnchor(recall_api.DeleteAnchorRequest(key="home"))
    service.recall.ListAnchors(recall_api.ListAnchorsRequest())
    assert code_of(lambda: service.search("")) == "INVALID_ARGUMENT"
    server.stop()
    spans = memory.get_finished_spans()
    shown = [
        (str(it.name).partition("/")[2], rest)
        for it in spans
        if (rest := {key: value for key, value in (it.attributes or {}).items() if key in GEN_AI})
    ]

    def documents(records: Any) -> str:
        named = [
            ({"id": f"{name}/{getattr(it, 'message', it).sequence}"}, it.score) for it in records
        ]
        return json.dumps(
            [{**it, "score": round(score, 4)} if score else it for it, score in named]
        )

    create, search = {GEN_AI[0]: "create_memory"}, {GEN_AI[0]: "search_memory"}
    assert shown == [
        ("Create", {**create, GEN_AI[1]: name, GEN_AI[2]: 0}),
        ("AppendTurn", {**create, GEN_AI[1]: name, GEN_AI[2]: 2}),
        ("Search", {**search, GEN_AI[2]: len(hits), GEN_AI[3]: documents(hits)}),
        ("BuildContext", {**search, GEN_AI[2]: len(cold), GEN_AI[3]: documents(cold)}),
        ("SetAnchor", {GEN_AI[0]: "upsert_memory"}),
        ("DeleteAnchor", {GEN_AI[0]: "delete_memory", GEN_AI[2]: 1}),
        ("Search", {**search, GEN_AI[4]: "INVALID_ARGUMENT"}),
    ]
    assert hits[0].score > 0
    assert {it.score for it in cold} == {0.0}  # what is given unranked has no score
    assert "heron" not in " ".join(it.to_json() for it in spans)


def test_notes_are_traced_and_counted_behind_the_calls(
    start_server: Start, connect: Connect, collector: Collector
) -> None:
    server = start_server(traces=collector.url, abbreviator="extractive", **OBSERVED)
    service = connect(server)
    name = service.create().id
    for number in range(3):
        service.turn(name, f"Please book flight {number} to Oslo.", "It is booked.")
    server.clock.move(3_600_000)
    until(lambda: scrape(server).value("recollect_notes_total", outcome="written") == 1)
    assert scrape(server).value("recollect_notes_seconds_count") >= 1
    server.stop()
    notes = next(it for it in collector.spans if it.name == "notes")
    assert notes.parent_span_id == b""
    assert b"Oslo" not in collector.text


def test_a_call_that_is_not_sampled_makes_no_span(
    start_server: Start, connect: Connect, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
    server = start_server()
    service = connect(server)
    request = api.CreateRequest(channel="web")
    service.conversations.Create(request)
    service.conversations.Create(request, metadata=(("traceparent", UNSAMPLED),))
    service.conversations.Create(request, metadata=(("traceparent", "garbage"),))
    service.conversations.Create(request, metadata=(("traceparent", SAMPLED),))
    server.stop()
    assert {it.trace_id.hex() for it in collector.spans} == {TRACE}
    assert [it.name for it in collector.spans if it.kind == 2] == [
        "recollect.v1.ConversationService/Create"
    ]


def test_the_steps_of_a_call_that_is_not_sampled_are_not_even_made(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracing = Tracing(UNMEASURED, collector.url)
    ids = CallIds(tuple)
    before = CALL.set(ids)
    try:
        with tracing.trace("ConversationService.Create", ids):
            assert tracing.step(Step.WRITE) is UNMEASURED.step(Step.WRITE)
    finally:
        CALL.reset(before)
        tracing.stop()


def test_a_collector_that_is_away_holds_up_neither_calls_nor_a_stop(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(traces=f"http://{LOOPBACK}:1")
    service = connect(server)
    service.conversation_of("one", "two")
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 6


def test_a_stop_that_sent_every_span_warns_of_nothing(
    start_server: Start, connect: Connect, collector: Collector
) -> None:
    warnings: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    handler, logger = Keeper(logging.WARNING), logging.getLogger("opentelemetry")
    logger.addHandler(handler)
    try:
        server = start_server(traces=collector.url)
        connect(server).create()
        server.stop()
    finally:
        logger.removeHandler(handler)
    assert collector.named("recollect.v1.ConversationService/Create")
    assert warnings == []


async def test_the_python_clients_send_the_trace_of_their_caller(
    server: RunningServer, connect: Connect
) -> None:
    parents: list[str] = []
    with server.app.spaces.use("default") as space:
        handlers: Any = space.handlers["ConversationService"]
        called = handlers.Get

        def note(request: Any, call: Any) -> Any:
            metadata = dict(call.context.invocation_metadata())
            parents.append(metadata.get("traceparent", ""))
            return called(request, call)

        handlers.Get = note
    name = connect(server).create().id
    tracer = TracerProvider().get_tracer("test")
    with Client(server.target) as client:
        client.conversations.get(name)
        with tracer.start_as_current_span("agent") as span:
            client.conversations.get(name)
            async with AsyncClient(server.target) as waiting:
                await waiting.conversations.get(name)
    context = span.get_span_context()
    sent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert parents == ["", sent, sent]
    assert not api_of_traces.get_current_span().get_span_context().is_valid


def test_lines_have_the_ids_of_the_request_the_token_and_the_trace(
    tmp_path: Path, connect: Connect
) -> None:
    bearer = token_in(tmp_path / "data")
    token_id = bearer.split("_")[1]
    program = [sys.executable, "-m", "recollect_server", "serve", "--log-level", "debug"]
    place = ["--data-dir", str(tmp_path / "data"), "--listen", f"{LOOPBACK}:0"]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [*program, *place, "--log-format", "json"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        address = process.stdout.readline().split(" listens on ")[1].split()[0]
        metadata = (("authorization", f"Bearer {bearer}"), ("traceparent", SAMPLED))
        with grpc.insecure_channel(address) as channel:
            create = ConversationServiceStub(channel).Create
            create(api.CreateRequest(channel="web", request_id="req-7"), metadata=metadata)
            longest = api.CreateRequest(channel="web", request_id="x" * 1_000_000)
            assert code_of(lambda: create(longest, metadata=metadata)) == "INVALID_ARGUMENT"
        process.terminate()
    lines = [json.loads(it) for it in (tmp_path / "log").read_text().splitlines()]
    calls = [it for it in lines if it["event"] == "call" and "Create" in it["method"]]
    for line, request in zip(calls, ("req-7", "x" * 128), strict=True):
        assert (line["request"], line["token"], line["trace"]) == (request, token_id, TRACE)
    assert not [it for it in lines if it["event"] != "call" and "trace" in it]


def token_in(folder: Path) -> str:
    """Create a token in a new data folder."""
    folder.mkdir()
    return token(folder, "brain", "*")


@each(
    ("traceparent", "trace"),
    [
        (SAMPLED, TRACE),
        (UNSAMPLED, TRACE),
        (f"01-{TRACE}-{SPAN}-01-more", TRACE),
        ("", ""),
        (b"\x00", ""),
        (f"ff-{TRACE}-{SPAN}-01", ""),
        (f"00-{'0' * 32}-{SPAN}-01", ""),
        (f"00-{TRACE}-{'0' * 16}-01", ""),
        (f"00-{TRACE.upper()}-{SPAN}-01", ""),
        (f"00-{TRACE}\n-{SPAN}-01", ""),
        (f"00-{TRACE[:-1]}-{SPAN}-01", ""),
    ],
)
def test_a_trace_is_read_from_a_valid_traceparent_alone(
    traceparent: str | bytes, trace: str
) -> None:
    assert trace_of(traceparent) == trace


def test_a_wrong_collector_is_named_and_a_missing_extra_says_what_to_install(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongSettings, match=r"traces: must be a URL as http://127.0.0.1:4318"):
        Settings.load(None, {"traces": "localhost:4318"})
    with monkeypatch.context() as wrong:
        wrong.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")
        with pytest.raises(CannotStart, match=r"max_queue_size.* variables OTEL_"):
            start_server(traces="http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(CannotStart, match=r"pip install 'recollect-server\[otel\]'"):
        start_server(traces="http://127.0.0.1:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    start_server()  # the variable may be meant for others
