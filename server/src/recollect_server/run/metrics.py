"""The metrics of a server: each is declared here, with its help and the values of its labels.

What happens (calls, steps, counts) is accumulated by `Metrics`, the adapter of
`kernel.domain.telemetry`; what is (streams, backlogs, threads) is read when somebody asks
(`run.pages`). The instruments of prometheus-client, which writes both down, are not used for
what happens: an observation takes them some 3 us, and these 0.5.

A label has one of the values that its metric declares, or `other`. So the number of series does
not depend on what callers send, and no conversation, token or space is ever a label.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from types import TracebackType
from typing import Literal

from recollect_server.contract.handling import CODES
from recollect_server.contract.server import SERVICES
from recollect_server.kernel.domain.telemetry import Count, Step, Telemetry
from recollect_server.kernel.log.store import Purpose
from recollect_server.notes.naming import Outcome
from recollect_server.recall.candidates import KEYWORD_LEGS, VECTOR_LEGS
from recollect_server.run.jobs.notes import NOTES
from recollect_server.run.jobs.of_space import JOBS

OTHER = "other"
"""Label of a value that is not declared."""

_METHODS = tuple(f"{it.name}.{method.name}" for it in SERVICES for method in it.methods)
_POOLS = ("call", "write", "search")
_RETRIEVERS = (Step.QUESTION, Step.WORDS, Step.VECTORS, Step.DATES, Step.RANKING)
_PARTS = (*KEYWORD_LEGS, *VECTOR_LEGS, "anchors", "hot", "warm", "cold", "group")

_CALLS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STEPS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_MODELS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its name, kind, help, and each label with its values."""

    name: str
    kind: Kind
    help: str
    labels: Mapping[str, tuple[str, ...]] | None = None
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram."""
    only: str = ""
    """Condition under which it is there; empty: always."""


_POSTGRES = "over PostgreSQL"
_ALL = (
    Metric("recollect_build_info", "gauge", "1, with the version of the server.", {"version": ()}),
    Metric(
        "recollect_calls_total",
        "counter",
        "Calls that are over, and streams that were opened, by method and gRPC code.",
        {"method": _METHODS, "code": CODES},
    ),
    Metric(
        "recollect_call_seconds",
        "histogram",
        "Time from the start of a call's handler to its answer; of a stream, to its opening.",
        {"method": _METHODS},
        _CALLS,
    ),
    Metric("recollect_call_threads", "gauge", "Threads of a pool.", {"pool": _POOLS}),
    Metric(
        "recollect_call_threads_busy",
        "gauge",
        "Threads of a pool that run calls; more than it has where calls of a space take long.",
        {"pool": _POOLS},
    ),
    Metric(
        "recollect_calls_waiting",
        "gauge",
        "Calls whose requests are here and that wait for a thread.",
        {"pool": _POOLS},
    ),
    Metric(
        "recollect_write_step_seconds",
        "histogram",
        "Steps of a write to a conversation: lock (waiting for it), write (until the lines are"
        " durable: one system call writes and syncs), index (queueing them for the index).",
        {"step": (Step.LOCK, Step.WRITE, Step.INDEX)},
        _STEPS,
    ),
    Metric(
        "recollect_index_transaction_seconds",
        "histogram",
        "Transactions that take queued lines into the index, behind the calls.",
        None,
        _STEPS,
    ),
    Metric("recollect_index_waiting", "gauge", "Additions that wait for the index."),
    Metric("recollect_index_waiting_bytes", "gauge", "Bytes of those additions."),
    Metric(
        "recollect_index_lag_seconds",
        "gauge",
        "Time that the oldest addition waits for the index of an open space.",
    ),
    Metric(
        "recollect_conversations_not_indexed",
        "gauge",
        "Conversations of which the index refused lines: reads use the log meanwhile.",
    ),
    Metric(
        "recollect_retriever_seconds",
        "histogram",
        "Steps of a search or a context: question (embedding it), words, vectors, dates, ranking.",
        {"retriever": _RETRIEVERS},
        _CALLS,
    ),
    Metric(
        "recollect_degraded_total",
        "counter",
        "Searches and contexts of which a part answered less than it could, by part.",
        {"part": _PARTS},
    ),
    Metric(
        "recollect_conversations_not_embedded",
        "gauge",
        "Conversations of open spaces with texts that are not embedded yet.",
    ),
    Metric("recollect_embedding_lag_seconds", "gauge", "Time that the first of those texts waits."),
    Metric("recollect_streams", "gauge", "Open streams of live updates (subscribers)."),
    Metric(
        "recollect_stream_lag_seconds",
        "gauge",
        "Time that the subscriber who is furthest behind waits for something new.",
    ),
    Metric(
        "recollect_stream_delivery_seconds",
        "histogram",
        "Time from the commit of an update in the index to the end of its sending, for each subscriber.",
        None,
        _STEPS,
    ),
    Metric(
        "recollect_streams_ended_total",
        "counter",
        "Streams that ended: by their caller, by the server (a stop, a revoked token, a fault), or"
        " because the subscriber was too slow and was dropped.",
        {"reason": ("caller", "server", "slow")},
    ),
    Metric(
        "recollect_held_messages",
        "gauge",
        "Messages in memory whose log refused them, which are tried again without a call. A kill would"
        " lose them, and while the log still refuses a stop, or the close of their space where no"
        " other one can leave its place.",
    ),
    Metric("recollect_held_bytes", "gauge", "Bytes of those messages."),
    Metric("recollect_notes_due", "gauge", "Conversations with turns that no notes have."),
    Metric("recollect_notes_failed", "gauge", "Conversations whose last try of notes failed."),
    Metric(
        "recollect_notes_total",
        "counter",
        "Turns of conversations for notes, by outcome.",
        {"outcome": (*(it.value for it in Outcome), "failed")},
    ),
    Metric(
        "recollect_notes_seconds", "histogram", "Time that one of those turns took.", None, _MODELS
    ),
    Metric("recollect_model_calls_total", "counter", "Calls of a hosted model, failed ones too."),
    Metric(
        "recollect_model_call_seconds", "histogram", "Time that one of them took.", None, _MODELS
    ),
    Metric(
        "recollect_model_tokens_total",
        "counter",
        "Tokens that a hosted model read and wrote.",
        {"direction": ("read", "written")},
    ),
    Metric(
        "recollect_model_cost_dollars_total",
        "counter",
        "Cost of hosted models in US dollars, by the two prices of the settings.",
    ),
    Metric("recollect_spaces", "gauge", "Spaces by state.", {"state": ("open",)}),
    Metric(
        "recollect_jobs_failing",
        "gauge",
        "Open spaces in which the last turn of a job failed, by job.",
        {"job": (*(it.name for it in JOBS), NOTES)},
    ),
    Metric("recollect_data_free_bytes", "gauge", "Bytes free on the disk of data_dir."),
    Metric("recollect_data_size_bytes", "gauge", "Size of that disk."),
    Metric(
        "recollect_postgres_up", "gauge", "1 if PostgreSQL answered the last look.", only=_POSTGRES
    ),
    Metric(
        "recollect_postgres_connections",
        "gauge",
        "Connections of the pool.",
        {"state": ("idle", "used")},
        only=_POSTGRES,
    ),
    Metric(
        "recollect_postgres_calls_waiting",
        "gauge",
        "Calls that wait for a connection.",
        only=_POSTGRES,
    ),
    Metric(
        "recollect_postgres_connections_lost_total",
        "counter",
        "Connections that the pool found lost.",
        only=_POSTGRES,
    ),
    Metric(
        "recollect_postgres_horizon_age_seconds",
        "gauge",
        "Age of the oldest transaction of the cluster that writes: as far as it holds back what is"
        " committed behind it. Needs pg_read_all_stats to see other roles' transactions.",
        only=_POSTGRES,
    ),
    Metric(
        "recollect_postgres_leases",
        "gauge",
        "Spaces in which this server does the work that one server does at a time, by work.",
        {"work": tuple(it.value for it in Purpose)},
        only=_POSTGRES,
    ),
)
METRICS: Mapping[str, Metric] = {metric.name: metric for metric in _ALL}
"""Every metric by its name. prometheus-client adds those of the process: `process_…`."""

_OF_STEPS: dict[Step, tuple[str, str | None]] = {
    Step.LOCK: ("recollect_write_step_seconds", Step.LOCK),
    Step.WRITE: ("recollect_write_step_seconds", Step.WRITE),
    Step.INDEX: ("recollect_write_step_seconds", Step.INDEX),
    Step.TAKE_IN: ("recollect_index_transaction_seconds", None),
    **{step: ("recollect_retriever_seconds", step.value) for step in _RETRIEVERS},
    Step.NOTES: ("recollect_notes_seconds", None),
    Step.MODEL: ("recollect_model_call_seconds", None),
}
_OF_COUNTS = {
    Count.DEGRADED: "recollect_degraded_total",
    Count.STREAMS_ENDED: "recollect_streams_ended_total",
    Count.NOTES: "recollect_notes_total",
    Count.MODEL_CALLS: "recollect_model_calls_total",
    Count.MODEL_TOKENS: "recollect_model_tokens_total",
    Count.MODEL_DOLLARS: "recollect_model_cost_dollars_total",
}

Sample = tuple[tuple[str, ...], float]
"""The values of a metric's labels, and its own."""


class _Histogram:
    """A histogram of one series. Safe to call from any thread."""

    __slots__ = ("_bounds", "_counts", "_guard", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._guard = threading.Lock()

    def observe(self, value: float) -> None:
        at = bisect_left(self._bounds, value)
        with self._guard:
            self._counts[at] += 1
            self._sum += value

    def read(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative counts by upper bound, and the sum."""
        with self._guard:
            counts, total = list(self._counts), self._sum
        so_far, buckets = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), counts, strict=True):
            so_far += count
            buckets.append((bound, float(so_far)))
        return buckets, total


class _Timed:
    """The measurement of one step."""

    __slots__ = ("_began", "_histogram")

    def __init__(self, histogram: _Histogram) -> None:
        self._histogram = histogram

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._histogram.observe(time.perf_counter() - self._began)


class Metrics(Telemetry):
    """Counts and times of everything since the start. Safe to call from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards the sums of `_counts`
        # The counters that `Observed` yields are not among them: each metric is written once.
        self._counts: dict[str, dict[tuple[str, ...], float]] = {
            name: {} for name in ("recollect_calls_total", *_OF_COUNTS.values())
        }
        self._histograms: dict[str, dict[tuple[str, ...], _Histogram]] = {
            metric.name: {} for metric in _ALL if metric.kind == "histogram"
        }
        # Series with one label or none are there from the start: a rate needs a first value.
        for count, name in _OF_COUNTS.items():
            for labels in all_labels(METRICS[name]):
                self.count(count, 0.0, *labels)
        self._steps = {
            step: self._histogram(name, () if label is None else (label,))
            for step, (name, label) in _OF_STEPS.items()
        }
        self._delivery = self._histogram("recollect_stream_delivery_seconds", ())

    def step(self, step: Step) -> AbstractContextManager[object]:
        return _Timed(self._steps[step])

    def count(self, count: Count, amount: float = 1.0, label: str = "") -> None:
        name = _OF_COUNTS[count]
        self._add(name, (_declared(name, label),) if METRICS[name].labels else (), amount)

    def deliver(self, seconds: float) -> None:
        """Note that a stream was sent what is new."""
        self._delivery.observe(seconds)

    def call(self, method: str, code: str, seconds: float) -> None:
        """Note a call that is over."""
        method = _declared("recollect_calls_total", method)
        self._add("recollect_calls_total", (method, code), 1.0)
        self._histogram("recollect_call_seconds", (method,)).observe(seconds)

    def counts(self) -> Iterator[tuple[Metric, list[Sample]]]:
        """Yield each counter with its values."""
        for name, children in self._counts.items():
            with self._guard:
                samples = sorted(children.items())
            yield METRICS[name], samples

    def histograms(
        self,
    ) -> Iterator[tuple[Metric, list[tuple[tuple[str, ...], list[tuple[str, float]], float]]]]:
        """Yield each histogram with its buckets and sums."""
        for name, children in self._histograms.items():
            yield (
                METRICS[name],
                [(labels, *it.read()) for labels, it in sorted(children.copy().items())],
            )

    def _add(self, name: str, labels: tuple[str, ...], amount: float) -> None:
        children = self._counts[name]
        with self._guard:
            children[labels] = children.get(labels, 0.0) + amount

    def _histogram(self, name: str, labels: tuple[str, ...]) -> _Histogram:
        children = self._histograms[name]
        # `setdefault` is atomic: all callers get the same one.
        return children.get(labels) or children.setdefault(
            labels, _Histogram(METRICS[name].buckets)
        )


@cache
def _values(name: str) -> frozenset[str]:
    labels = METRICS[name].labels
    assert labels is not None
    return frozenset(next(iter(labels.values())))


def _declared(name: str, value: str) -> str:
    """Return the value of a metric's first label if the metric declares it, else `other`."""
    return value if value in _values(name) else OTHER


def all_labels(metric: Metric) -> list[tuple[str, ...]]:
    """Return the values of the only label of a metric, if it has one."""
    if metric.labels is None:
        return [()]
    (values,) = metric.labels.values()
    return [(value,) for value in values]
