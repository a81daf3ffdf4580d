"""The page of all metrics: those that `run.metrics` accumulated, and the state of a server's parts,
which is read when somebody asks.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recollect_server import __version__
from recollect_server.contract.server import Server
from recollect_server.contract.streams import Streams
from recollect_server.kernel.log.store import Purpose
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.run.metrics import METRICS, Metric, Metrics, Sample, all_labels
from recollect_server.run.space import OpenSpace, SpaceLoad
from recollect_server.run.stores import Stores

if TYPE_CHECKING:
    from recollect_server.contract.plain_http import Page


@dataclass(frozen=True, slots=True)
class Observed:
    """Parts of a server whose state is read when somebody asks for its metrics."""

    spaces: Spaces[OpenSpace]
    streams: Streams
    server: Server
    stores: Stores
    data_dir: Path

    def samples(self) -> Iterator[tuple[str, list[Sample]]]:
        """Yield the gauges, and the counters that others keep."""
        yield "recollect_build_info", [((__version__,), 1.0)]
        yield "recollect_streams", [((), float(self.streams.count()))]
        yield "recollect_stream_lag_seconds", [((), self.streams.lag())]
        loads = self.server.loads().items()
        yield "recollect_call_threads", [((pool,), float(it.threads)) for pool, it in loads]
        yield "recollect_call_threads_busy", [((pool,), float(it.busy)) for pool, it in loads]
        yield "recollect_calls_waiting", [((pool,), float(it.waiting)) for pool, it in loads]
        yield "recollect_spaces", [(("open",), float(len(self.spaces.names())))]
        yield from _of_spaces(self._loads_of_spaces())
        with suppress(OSError):
            disk = os.statvfs(self.data_dir)
            yield "recollect_data_free_bytes", [((), float(disk.f_bavail * disk.f_frsize))]
            yield "recollect_data_size_bytes", [((), float(disk.f_blocks * disk.f_frsize))]
        yield from _of_store(self.stores)

    def _loads_of_spaces(self) -> list[SpaceLoad]:
        loads = []
        for space in self.spaces.open_now():
            if (lease := self.spaces.borrow(space)) is not None:
                with lease:
                    loads.append(space.load())
        return loads


def _of_spaces(loads: list[SpaceLoad]) -> Iterator[tuple[str, list[Sample]]]:
    """Yield sums over the open spaces, and the longest of their lags."""
    sums: dict[str, Iterable[float]] = {
        "recollect_index_waiting": (it.index_waiting for it in loads),
        "recollect_index_waiting_bytes": (it.index_bytes for it in loads),
        "recollect_conversations_not_indexed": (it.not_indexed for it in loads),
        "recollect_conversations_not_embedded": (it.not_embedded for it in loads),
        "recollect_held_messages": (it.held_messages for it in loads),
        "recollect_held_bytes": (it.held_bytes for it in loads),
        "recollect_notes_due": (it.notes_due for it in loads),
        "recollect_notes_failed": (it.notes_failed for it in loads),
    }
    for name, values in sums.items():
        yield name, [((), float(sum(values)))]
    lags = {
        "recollect_index_lag_seconds": (it.index_lag for it in loads),
        "recollect_embedding_lag_seconds": (it.embedding_lag for it in loads),
    }
    for name, lag in lags.items():
        yield name, [((), max(lag, default=0.0))]
    failing = {job: 0.0 for (job,) in all_labels(METRICS["recollect_jobs_failing"])}
    for load in loads:
        for job in load.jobs_failing:
            failing[job] += 1
    yield "recollect_jobs_failing", [((job,), count) for job, count in failing.items()]


def _of_store(stores: Stores) -> Iterator[tuple[str, list[Sample]]]:
    if (state := stores.state()) is None:
        return
    yield "recollect_postgres_up", [((), float(not state.problem))]
    connections = {"idle": state.idle, "used": state.used}
    yield (
        "recollect_postgres_connections",
        [((name,), float(count)) for name, count in connections.items()],
    )
    yield "recollect_postgres_calls_waiting", [((), float(state.waiting))]
    yield "recollect_postgres_connections_lost_total", [((), float(state.lost))]
    yield "recollect_postgres_horizon_age_seconds", [((), state.horizon_age)]
    yield (
        "recollect_postgres_leases",
        [((work.value,), float(state.leases.get(work, 0))) for work in Purpose],
    )


def metrics_page(metrics: Metrics, observed: Callable[[], Observed | None]) -> "Page":
    """Return the page with all metrics, in the format that the scraper accepts. Nothing is
    `observed` while the server starts and after it stopped.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.core import Metric as Family
    from prometheus_client.exposition import choose_encoder

    class Collector:
        """prometheus-client's view of the metrics."""

        def collect(self) -> Iterator[Family]:
            yield from (family(metric, samples) for metric, samples in metrics.counts())
            for metric, children in metrics.histograms():
                histogram = HistogramMetricFamily(
                    metric.name, metric.help, labels=list(metric.labels or ())
                )
                for labels, buckets, total in children:
                    histogram.add_metric(labels, buckets, total)
                yield histogram
            if (parts := observed()) is not None:
                for name, samples in parts.samples():
                    yield family(METRICS[name], samples)

    def family(metric: Metric, samples: Sequence[Sample]) -> Family:
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        own = kind(metric.name, metric.help, labels=list(metric.labels or ()))
        for labels, value in samples:
            own.add_metric(labels, value)
        return own

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    ProcessCollector(registry=registry)

    def page(accept: str) -> tuple[int, str, bytes]:
        try:
            encode, kind = choose_encoder(accept)
        except (TypeError, ValueError):  # of a version that is no number
            encode, kind = choose_encoder("")
        return 200, kind, encode(registry)

    return page
