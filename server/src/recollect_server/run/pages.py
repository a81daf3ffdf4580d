"""The pages of a server over HTTP: its health, and all metrics, those that `run.metrics`
accumulated and the state of its parts, which is read when somebody asks. The health service over
gRPC has the same of what is degraded.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recollect_server import __version__
from recollect_server.access.tokens import Tokens
from recollect_server.contract import endpoints
from recollect_server.contract.certificates import TlsFiles
from recollect_server.contract.gate import Gate
from recollect_server.contract.health import HealthPages
from recollect_server.contract.listening import CannotListen
from recollect_server.contract.server import Server
from recollect_server.contract.streams import Streams
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.log.store import Purpose
from recollect_server.kernel.space.spaces import Spaces
from recollect_server.recall.recall import Recall
from recollect_server.run.folder import CannotStart
from recollect_server.run.metrics import METRICS, Metric, Metrics, Sample, all_labels
from recollect_server.run.settings import Settings
from recollect_server.run.space import OpenSpace, SpaceLoad
from recollect_server.run.stores import Stores
from recollect_server.run.tracing import tracing

if TYPE_CHECKING:
    from recollect_server.contract.plain_http import Page, PlainHttp


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


@dataclass(frozen=True, slots=True)
class Pages:
    """Health and metrics over HTTP, and what the server measures."""

    health: HealthPages
    health_address: str
    metrics_address: str
    telemetry: Telemetry
    observed: list[Observed]
    """The running server that the metrics are of; empty before it listens."""


def open_pages(
    settings: Settings,
    stores: Stores,
    tokens: Tokens,
    gate: Gate,
    stops: list[Callable[[], None]],
) -> Pages:
    """Open the pages early, so that probes and scrapes are answered however long the start takes.
    They are closed late. Raises CannotListen, CannotStart.
    """
    pages = HealthPages(lambda: _unready(stores))
    health_address = metrics_address = ""
    if settings.health_listen:
        from recollect_server.contract.plain_http import PlainHttp  # as in _metrics_http

        http = PlainHttp("health-listen", settings.health_listen, pages.pages())
        health_address = http.open()
        stops.append(http.close)
    metrics = Metrics() if settings.metrics else None
    telemetry: Telemetry = metrics or UNMEASURED
    if (traces := tracing(telemetry, settings.traces)) is not None:
        telemetry = traces
        stops.append(traces.stop)
    observed: list[Observed] = []
    if metrics is not None:
        http = _metrics_http(settings, tokens, gate, metrics, observed)
        metrics_address = http.open()
        stops.append(http.close)
    return Pages(pages, health_address, metrics_address, telemetry, observed)


def degraded_recall(spaces: Spaces[OpenSpace], name: str) -> Mapping[str, str]:
    """Return what is degraded in a space, as `Recall.degraded` does; nothing new of a closed
    one.
    """
    for space in spaces.open_now():
        if space.name == name and (lease := spaces.borrow(space)) is not None:
            with lease:
                return space.service(Recall).degraded()
    return {}


def degraded_logs(spaces: Spaces[OpenSpace], stores: Stores) -> Mapping[str, str]:
    """Return why the logs or their index lack something: of the database, and of all open
    spaces.
    """
    state = stores.state()
    held = sum(space.held()[0] for space in spaces.open_now())
    not_indexed = sum(space.not_indexed() for space in spaces.open_now())
    store = state.problem if state is not None else ""
    if not store and held:
        # Anybody may ask for the health of a server, and a path is for its operator.
        reasons = sorted(it.held_because() for it in spaces.open_now())
        store = f"{counted(held, 'message')} held in memory, as the logs refuse to take more"
        store += next((f": {it}" for it in reasons if it and "/" not in it), "")
    conversations = counted(not_indexed, "conversation")
    index = f"the newest messages of {conversations} are not indexed yet"
    return {"store": store, "index": index if not_indexed else ""}


def _unready(stores: Stores) -> str:
    """Return why no calls should be sent to this server; empty if they should."""
    state = stores.state()
    return state.problem if state is not None else ""


def _metrics_http(
    settings: Settings, tokens: Tokens, gate: Gate, metrics: Metrics, observed: list[Observed]
) -> "PlainHttp":
    """Return the address of the metrics: on loopback for everybody, beyond it over TLS, or behind
    a proxy that ends it, and with a token. Raises CannotListen, CannotStart.
    """
    from recollect_server.contract.plain_http import PlainHttp  # 1 MiB of the standard library's

    try:
        page = metrics_page(metrics, lambda: next(iter(observed), None))
    except ImportError as error:
        raise CannotStart(
            f"metrics need prometheus-client, which cannot be imported ({error}):"
            " pip install prometheus-client, or start without --metrics"
        ) from error
    if endpoints.is_local(settings.metrics):
        return PlainHttp("metrics", settings.metrics, {"/metrics": page})
    if not tokens.any():
        raise CannotListen(
            f"cannot listen on {settings.metrics}: other machines reach it, and there is no token"
            " yet: make one with `recollect-server token create --kind monitor --space '*'"
            f" --data-dir {settings.data_dir}`"
        )
    return PlainHttp(
        "metrics", settings.metrics, {"/metrics": page}, gate.refusal, tls_files(settings)
    )


def tls_files(settings: Settings) -> TlsFiles | None:
    """Return the files of the server's certificate; None if its ports use no TLS."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return TlsFiles(settings.tls_cert, settings.tls_key, settings.client_ca)
