"""Traces by OpenTelemetry: a span for each call, and below it one for each step of its work. They
go to a collector by OTLP over HTTP.

Spans are made by hand: OpenTelemetry's interceptor for gRPC costs a third of a call. A call that is
not sampled makes no spans of steps. A trace holds ids of requests, tokens and conversations, and
never a text.

Calls that read or write memory carry the attributes of OpenTelemetry's conventions for generative
AI (open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md, status Development).
"""

import json
import logging
import os
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

import structlog

from recollect_server import __version__
from recollect_server.contract.handling import conversation_of
from recollect_server.kernel.domain.ids import is_conversation_id
from recollect_server.kernel.domain.telemetry import CALL, TRACEPARENT, CallIds, Step, Telemetry
from recollect_server.run.folder import CannotStart

log = structlog.get_logger("recollect.traces")

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXTRA = "pip install 'recollect-server[otel]'"
_STOP_SECONDS = 2.0  # that a stop waits for the last spans to reach the collector
_FAULTS = {"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
"""Codes that OpenTelemetry counts as errors of a server."""
_MEMORY = {
    "ConversationService.Create": ("create_memory", "messages"),
    "ConversationService.AppendTurn": ("create_memory", "messages"),
    "ChannelService.Receive": ("create_memory", ""),
    "RecallService.Search": ("search_memory", "hits"),
    "RecallService.BuildContext": ("search_memory", "cold"),
    "RecallService.SetAnchor": ("upsert_memory", ""),
    "RecallService.DeleteAnchor": ("delete_memory", "anchors"),
    "RecallService.RemoveProfileStatement": ("delete_memory", ""),
    "ConversationService.RedactMessage": ("delete_memory", ""),
    "ConversationService.Delete": ("delete_memory", ""),
    "ConversationService.DeleteMany": ("delete_memory", ""),
}
"""Value of `gen_ai.operation.name` by method, and the field of request or answer that has the
records of the operation; empty: they are not counted.
"""
_MOST_SCORES = 100  # of a span; a context may hold thousands of messages


class _Troubles(logging.Handler):
    """Passes on what OpenTelemetry logs as lines of the server's own log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("traces_not_sent", reason=record.getMessage()[:300])


class Tracing(Telemetry):
    """Telemetry that traces, in front of another that measures. Safe to call from any thread."""

    def __init__(self, inner: Telemetry, endpoint: str = "") -> None:
        """Spans go to `endpoint`, a collector's URL, else where OpenTelemetry's environment says.
        Raises ImportError without the extra.
        """
        from opentelemetry import context, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        troubles = logging.getLogger("opentelemetry")
        if not any(isinstance(it, _Troubles) for it in troubles.handlers):
            troubles.addHandler(_Troubles(logging.WARNING))
            troubles.propagate = False
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        name = os.environ.get("OTEL_SERVICE_NAME", "recollect-server")
        resource = Resource.create({"service.name": name, "service.version": __version__})
        self._provider: TracerProvider = TracerProvider(resource=resource)
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint=url)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        self._inner = inner
        self._tracer = self._provider.get_tracer("recollect", __version__)
        self._trace, self._context = trace, context
        self._propagator = TraceContextTextMapPropagator()
        self.count, self.deliver = inner.count, inner.deliver  # type: ignore[method-assign]

    def trace(self, method: str, ids: CallIds) -> AbstractContextManager[object]:
        """Return a context that traces a call, as a part of its caller's trace if it names one."""
        parent = ids.parent
        service, _, name = method.partition(".")
        span = self._tracer.start_span(
            f"recollect.v1.{service}/{name}",
            self._propagator.extract({TRACEPARENT: parent}) if isinstance(parent, str) else None,
            kind=self._trace.SpanKind.SERVER,
            attributes={
                "rpc.system": "grpc",
                "rpc.service": f"recollect.v1.{service}",
                "rpc.method": name,
            },
        )
        ids.trace = f"{span.get_span_context().trace_id:032x}"
        if span.is_recording():
            ids.span = span
        return _Spanned(self, span)

    def step(self, step: Step) -> AbstractContextManager[object]:
        """Return a context that measures a step, and traces it where it is part of a trace: of a
        call that is sampled, or of notes, which begin one.
        """
        inner = self._inner.step(step)
        ids = CALL.get()
        if (ids is None or ids.span is None) and not (
            step is Step.NOTES or (step is Step.MODEL and self.current().is_recording())
        ):
            return inner
        return _Spanned(self, self._tracer.start_span(step.value), inner)

    def call(self, method: str, code: str, seconds: float) -> None:
        """Note a call that is over, in its span too."""
        self._inner.call(method, code, seconds)
        ids = CALL.get()
        span: Any = None if ids is None else ids.span
        if ids is None or span is None:
            return
        span.set_attribute("rpc.grpc.status_code", code)
        for name, value in (("request", ids.request), ("token", ids.token)):
            if value:
                span.set_attribute(f"recollect.{name}", value)
        if code != "OK":
            span.set_attribute("error.type", code)
        if code in _FAULTS:
            span.set_status(self._trace.StatusCode.ERROR, code)

    def memory(self, method: str, request: object, answer: object) -> None:
        """Note which records a call read or wrote in its span: ids and scores, no text."""
        ids = CALL.get()
        span: Any = None if ids is None else ids.span
        if span is None or method not in _MEMORY:
            return
        operation, field = _MEMORY[method]
        span.set_attribute("gen_ai.operation.name", operation)
        if is_conversation_id(conversation := conversation_of(request, answer)):
            span.set_attribute("gen_ai.conversation.id", conversation)
        records = getattr(answer, field, getattr(request, field, None))
        if records is not None:
            span.set_attribute("gen_ai.memory.record.count", len(records))
        if operation == "search_memory" and records:
            documents = [_document(it) for it in records[:_MOST_SCORES]]
            span.set_attribute("gen_ai.retrieval.documents", json.dumps(documents))

    def stop(self) -> None:
        """Send the last spans, as long as that takes no more than seconds."""
        # A collector that is away would be tried again for longer, whatever the time limit.
        last = threading.Thread(target=self._provider.force_flush, name="traces", daemon=True)
        last.start()
        last.join(_STOP_SECONDS)
        if last.is_alive():  # the provider does it too, and OpenTelemetry warns of a second time
            self._exporter.shutdown()
        self._provider.shutdown()

    def current(self) -> Any:
        """Return the span that this thread works in."""
        return self._trace.get_current_span()

    def enter(self, span: Any) -> object:
        """Let a span be that of this thread. Return what `leave` needs."""
        return self._context.attach(self._trace.set_span_in_context(span))

    def leave(self, span: Any, before: Any, error: BaseException | None) -> None:
        self._context.detach(before)
        if error is not None and span.is_recording():
            # The name alone: a text of an error may hold what was said.
            span.set_status(self._trace.StatusCode.ERROR, type(error).__name__)
        span.end()


def _document(record: Any) -> dict[str, str | float]:
    """Return the place of a hit of a search, or of a message of a context, and its score. What a
    context gives unranked has none, which is not the score 0.
    """
    line = getattr(record, "message", record).sequence
    score: dict[str, str | float] = {"score": round(record.score, 4)} if record.score else {}
    return {"id": f"{record.conversation_id}/{line}", **score}


class _Spanned:
    """A span around some work, and what measures it else."""

    __slots__ = ("_before", "_inner", "_span", "_tracing")

    def __init__(
        self, tracing: Tracing, span: Any, inner: AbstractContextManager[object] | None = None
    ) -> None:
        self._tracing = tracing
        self._span = span
        self._inner = inner

    def __enter__(self) -> None:
        self._before = self._tracing.enter(self._span)
        if self._inner is not None:
            self._inner.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._inner is not None:
            self._inner.__exit__(kind, error, traceback)
        self._tracing.leave(self._span, self._before, error)


def tracing(inner: Telemetry, endpoint: str) -> Tracing | None:
    """Return what traces, if the setting or OpenTelemetry's environment names a collector; None if
    neither does. Raises CannotStart if the setting does and the extra is missing, or if the
    environment contradicts itself.
    """
    named = next((name for name in _ENDPOINTS if os.environ.get(name)), "")
    if not endpoint and (not named or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true"):
        return None
    try:
        return Tracing(inner, endpoint)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise CannotStart(
            f"traces cannot be set up: {reason}: look at the variables OTEL_… of the environment"
        ) from error
    except ImportError as error:
        if endpoint:
            raise CannotStart(
                f"traces need OpenTelemetry, which cannot be imported ({error}): {_EXTRA}"
            ) from error
        # The variable may be set for every program of the machine.
        log.warning("traces_off", reason=f"{named} is set, and OpenTelemetry is missing: {_EXTRA}")
        return None
