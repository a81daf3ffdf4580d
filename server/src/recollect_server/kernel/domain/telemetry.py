"""The port through which the layers measure themselves: steps that take time, and counts.

The code that does the work names a step or a count and knows nothing of Prometheus or
OpenTelemetry; `run.metrics` and `run.tracing` have the adapters. A label is one of few values that
are fixed beforehand: others become `other`, so no conversation, token or space ever becomes one.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from enum import StrEnum


class Step(StrEnum):
    """A step that takes time."""

    LOCK = "lock"
    """Wait for the locks of a conversation and of a request, to write."""
    WRITE = "write"
    """Write lines to the log, until they are durable."""
    INDEX = "index"
    """Queue the lines for the index, and tell those who keep copies in memory."""
    TAKE_IN = "take_in"
    """Take queued lines into the index, behind the calls."""
    QUESTION = "question"
    """Embed a question and prepare the scans of vectors."""
    WORDS = "words"
    """Find messages and conversations by their words."""
    VECTORS = "vectors"
    """Find messages and notes by their vectors."""
    DATES = "dates"
    """Find what was said at the dates of a question."""
    RANKING = "ranking"
    """Read the candidates and fuse the scores."""
    NOTES = "notes"
    """Take the notes of a conversation."""
    MODEL = "model"
    """Ask a hosted model once."""


class Count(StrEnum):
    DEGRADED = "degraded"
    """A retriever answered less than it could; the label names it."""
    STREAMS_ENDED = "streams_ended"
    """A stream ended; the label says why."""
    NOTES = "notes"
    """A conversation had its turn for notes; the label is the outcome."""
    MODEL_CALLS = "model_calls"
    MODEL_TOKENS = "model_tokens"
    """Tokens that a hosted model read or wrote, by the label."""
    MODEL_DOLLARS = "model_dollars"


Metadata = Iterable[tuple[str, str | bytes]]
"""Metadata of a call, by their names in lower case."""


class CallIds:
    """Ids of the call that a thread carries out, for the lines that it logs. Empty: there is none,
    or it is not known yet.
    """

    __slots__ = ("_metadata", "_trace", "request", "span", "token")

    def __init__(self, metadata: Callable[[], Metadata | None]) -> None:
        """`metadata` returns that of the call, when somebody asks."""
        self._metadata = metadata
        self._trace: str | None = None
        self.request = ""
        """Request id of the caller."""
        self.token = ""
        self.span: object = None
        """Span of the call, of its tracer."""

    @property
    def parent(self) -> str | bytes | None:
        """Trace and span that the caller names (W3C Trace Context); None if it names none."""
        metadata = self._metadata() or ()
        return next((value for name, value in metadata if name == TRACEPARENT), None)

    @property
    def trace(self) -> str:
        """Trace that the caller is in, looked up when somebody asks."""
        if self._trace is None:
            self._trace = trace_of(self.parent or "")
        return self._trace

    @trace.setter
    def trace(self, trace: str) -> None:
        self._trace = trace


TRACEPARENT = "traceparent"
"""Metadata that names a caller's trace and span."""
CALL: ContextVar[CallIds | None] = ContextVar("call", default=None)
"""Call that this thread carries out."""


def trace_of(traceparent: str | bytes) -> str:
    """Return the trace in a `traceparent`; empty for one that is not valid."""
    parts = traceparent.split("-") if isinstance(traceparent, str) else []
    if len(parts) < 4 or [len(it) for it in parts[:4]] != [2, 32, 16, 2] or parts[0] == "ff":
        return ""
    is_hexadecimal = all(it in "0123456789abcdef" for part in parts[:4] for it in part)
    return parts[1] if is_hexadecimal and parts[1].strip("0") and parts[2].strip("0") else ""


class Telemetry:
    """Measurements of a server. This one measures nothing. Safe to call from any thread."""

    def step(self, step: Step) -> AbstractContextManager[object]:  # noqa: ARG002 - for adapters
        """Return a context that measures a step of the work."""
        return _NOTHING

    def count(self, count: Count, amount: float = 1.0, label: str = "") -> None:
        """Count something."""

    def deliver(self, seconds: float) -> None:
        """Note that a stream was sent what is new, so many seconds after it was new."""

    def trace(
        self,
        method: str,  # noqa: ARG002
        ids: CallIds,  # noqa: ARG002
    ) -> AbstractContextManager[object]:
        """Return a context that traces a call of `Service.Method`."""
        return _NOTHING

    def call(self, method: str, code: str, seconds: float) -> None:
        """Note a call that is over, or a stream that is open. `method` is `Service.Method`."""

    def memory(self, method: str, request: object, answer: object) -> None:
        """Note which records a call that is over read or wrote. `answer` is None if it failed."""


_NOTHING: AbstractContextManager[object] = nullcontext()
UNMEASURED = Telemetry()
"""The telemetry of a server that is not observed."""
