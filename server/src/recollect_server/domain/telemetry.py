"""The port through which the layers measure themselves: steps that take time, and counts.

Whoever does the work names a step or a count and knows nothing of Prometheus or OpenTelemetry;
`app.telemetry` has the adapter. A label is one of few values that are fixed beforehand: the adapter
refuses others, so no conversation, token or space ever becomes one.
"""

from contextlib import AbstractContextManager, nullcontext
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
    """Something that is counted."""

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


class Telemetry:
    """Measurements of a server. This one measures nothing. Safe to call from any thread."""

    def step(self, step: Step) -> AbstractContextManager[object]:  # noqa: ARG002 - for adapters
        """Return a context that measures a step of the work."""
        return _NOTHING

    def count(self, count: Count, amount: float = 1.0, label: str = "") -> None:
        """Count something."""

    def deliver(self, seconds: float) -> None:
        """Note that a stream was sent what is new, so many seconds after it was new."""

    def call(self, method: str, code: str, seconds: float) -> None:
        """Note a call that is over, or a stream that is open. `method` is `Service.Method`."""


_NOTHING: AbstractContextManager[object] = nullcontext()
UNMEASURED = Telemetry()
"""The telemetry of a server that is not observed."""
