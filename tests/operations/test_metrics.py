"""Metrics of a server: what each counts, that labels stay few, and who may read them."""

import re
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from recollect import Client
from recollect.v1 import conversation_service_pb2 as api
from recollect.v1.conversation_service_pb2_grpc import ConversationServiceStub
from recollect_server.contract.listening import CannotListen
from recollect_server.contract.streams import StreamLimits
from recollect_server.kernel.domain.telemetry import Count
from recollect_server.kernel.index.writer import Writer
from recollect_server.run import app
from recollect_server.run.jobs.of_space import FollowerJob
from recollect_server.run.metrics import METRICS, OTHER, Metrics
from recollect_server.run.pages import metrics_page
from recollect_server.run.settings import Settings, WrongSettings

from tests.conftest import LOOPBACK, Start
from tests.faults.conftest import Disk, disk
from tests.operations.conftest import OBSERVED, get, samples_of, scrape, token
from tests.postgres import Postgres
from tests.server.conftest import Connect, code_of, user
from tests.waiting import until

__all__ = ["disk"]

WRITE = "recollect_write_step_seconds_count"


def test_every_metric_is_there_from_the_start_and_means_what_it_says(
    start_server: Start, connect: Connect
) -> None:
    server = start_server(**OBSERVED, abbreviator="extractive")
    service = connect(server)
    before = scrape(server)
    expected = {
        sample
        for name, metric in METRICS.items()
        for sample in samples_of(name)
        if not metric.only and "method" not in (metric.labels or ())
    }
    assert expected <= before.names
    name = service.create().id
    for number in range(3):
        service.append(name, user(f"zebra {number}"))
    assert service.found("zebra")
    assert code_of(lambda: service.append("conv-1", user("x"))) == "INVALID_ARGUMENT"
    now = scrape(server)
    calls = partial(now.value, "recollect_calls_total", method="ConversationService.AppendTurn")
    assert (calls(code="OK"), calls(code="INVALID_ARGUMENT")) == (3, 1)
    assert now.value("recollect_call_seconds_count", method="ConversationService.AppendTurn") == 4
    assert [now.value(WRITE, step=it) for it in ("lock", "write", "index")] == [3, 4, 4]
    assert now.value("recollect_index_transaction_seconds_count") >= 1
    assert now.value("recollect_retriever_seconds_count", retriever="words") == 1
    assert now.value("recollect_spaces", state="open") == 1
    assert now.value("recollect_notes_due") == 1
    assert now.value("process_resident_memory_bytes") > 1 << 20
    assert now.value("process_open_fds") > 3
    described = re.findall(r"^# TYPE (recollect_\w+) ", now.text, re.MULTILINE)
    assert sorted(described) == sorted(name for name, it in METRICS.items() if not it.only)
    declared = {it for name in METRICS for it in samples_of(name)}
    assert {it for it in now.names if it.startswith("recollect_")} <= declared


def test_no_label_and_no_number_of_series_depends_on_what_callers_send(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    folder = tmp_path / "guarded"
    folder.mkdir()
    tokens = [token(folder, "brain", "*") for _ in range(80)]
    server = start_server(data_dir=folder, **OBSERVED)
    service = connect(server)
    sizes, named = [], [it.split("_")[1] for it in tokens]
    for turn in range(2):
        for number in range(40):
            space = f"space-{turn}-{number}"
            bearer = f"Bearer {tokens.pop()}"
            metadata = (("recollect-space", space), ("authorization", bearer))
            created = service.conversations.Create(
                api.CreateRequest(channel=f"channel{turn}x{number}"), metadata=metadata
            )
            named += [space, created.conversation.id, f"channel{turn}x{number}"]
            service.conversations.AppendTurn(
                api.AppendTurnRequest(
                    conversation_id=created.conversation.id,
                    messages=[user("needle")],
                    request_id=f"req-{turn}-{number}",
                ),
                metadata=metadata,
            )
            named.append(f"req-{turn}-{number}")
        observed = scrape(server)
        sizes.append(len(observed.samples))
        assert not [it for it in (*named, "needle") if it in observed.text]
    assert sizes[0] == sizes[1]
    assert observed.value("recollect_spaces", state="open") == 81
    declared = {
        (label, value)
        for metric in METRICS.values()
        for label, values in (metric.labels or {}).items()
        for value in (*values, OTHER)
    }
    labels = {it for name, it in observed.samples if name.startswith("recollect_")}
    assert {
        pair for pairs in labels for pair in pairs if pair[0] not in ("le", "version")
    } <= declared


def test_a_label_that_is_not_declared_becomes_other() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.count(Count.DEGRADED, label=f"conv-{number}")
        metrics.call(f"Service.Method{number}", "OK", 0.1)
    samples = {metric.name: values for metric, values in metrics.counts()}
    assert dict(samples["recollect_degraded_total"])[OTHER,] == 1000
    assert samples["recollect_calls_total"] == [((OTHER, "OK"), 1000)]


def test_backlogs_are_seen_while_they_are_there(
    start_server: Start, connect: Connect, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(**OBSERVED)
    service = connect(server)
    name = service.conversation_of("one")
    disk.refuse("pwrite")
    assert code_of(lambda: service.append(name, user("two"))) == "UNAVAILABLE"
    held = scrape(server)
    assert held.value("recollect_held_messages") == 1
    assert held.value("recollect_held_bytes") > 10
    status, page = get(f"http://{server.app.health_address}/readyz")
    assert status == 200
    assert (
        "recollect.v1.ConversationService/store: NOT_SERVING:"
        " 1 message held in memory, as the logs refuse to take more"
    ) in page
    disk.restore()
    service.append(name, user("three"))
    assert scrape(server).value("recollect_held_messages") == 0
    service.listed()
    stands, go_on, take_in = threading.Event(), threading.Event(), Writer._take_in

    def stand_still(writer: Writer, documents: Any) -> None:
        stands.set()
        assert go_on.wait(60)
        take_in(writer, documents)

    monkeypatch.setattr(Writer, "_take_in", stand_still)
    try:
        service.append(name, user("four"))  # being taken in
        assert stands.wait(60)
        until(partial(Scraped(server), "recollect_index_lag_seconds"))
        service.append(name, user("five"))  # behind it
        late = scrape(server)
        assert late.value("recollect_index_waiting") >= 1
        assert late.value("recollect_index_waiting_bytes") > 10
    finally:
        go_on.set()
    until(lambda: scrape(server).value("recollect_index_lag_seconds") == 0)


def test_subscribers_are_counted_and_those_who_are_dropped(
    start_server: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "StreamLimits", partial(StreamLimits, send_timeout=1.5))
    server = start_server(**OBSERVED)
    service = connect(server)
    name = service.create().id
    with grpc.insecure_channel(server.target) as channel:
        stub = ConversationServiceStub(channel)
        reader = stub.StreamUpdates(api.StreamUpdatesRequest())
        next(reader)
        until(lambda: scrape(server).value("recollect_streams") == 1)
        service.append(name, user("news"))
        next(reader)
        delivered = "recollect_stream_delivery_seconds_count"
        until(lambda: scrape(server).value(delivered) >= 1)
        reader.cancel()
        ended = partial(Scraped(server), "recollect_streams_ended_total")
        until(lambda: ended(reason="caller") == 1)
        stuck = stub.StreamUpdates(api.StreamUpdatesRequest())  # nobody reads it
        until(lambda: scrape(server).value("recollect_streams") == 1)
        lags = []

        def is_dropped() -> bool:  # what lies between takes more or less, by the system's memory
            service.append(name, user("x" * 1_000_000))
            lags.append(scrape(server).value("recollect_stream_lag_seconds"))
            return ended(reason="slow") == 1

        until(is_dropped)
        assert max(lags) > 0
        stuck.cancel()
    assert scrape(server).value("recollect_streams") == 0


class Scraped:
    """One value of a server's metrics, read anew at each call."""

    def __init__(self, server: Any) -> None:
        self._server = server

    def __call__(self, name: str, **labels: str) -> float:
        return scrape(self._server).value(name, **labels)


def test_the_database_is_seen_and_its_loss(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    server = start_server(store=postgres.new_database(), **OBSERVED)
    connect(server).conversation_of("one")
    until(partial(Scraped(server), "recollect_postgres_connections", state="idle"))
    now = scrape(server)
    assert {name for name, it in METRICS.items() if it.only} <= now.names
    described = re.findall(r"^# TYPE (recollect_\w+) ", now.text, re.MULTILINE)
    assert sorted(described) == sorted(METRICS)  # each once
    assert now.value("recollect_postgres_up") == 1
    # Retention looks first a second after the start, and its lease is held for longer.
    until(lambda: scrape(server).value("recollect_postgres_leases", work="retention") == 1)
    assert scrape(server).value("recollect_postgres_leases", work="notes") == 0
    ready = f"http://{server.app.health_address}/readyz"
    assert get(ready)[0] == 200
    postgres.kill()
    try:
        until(lambda: scrape(server).value("recollect_postgres_up") == 0)
        status, page = get(ready)
        assert status == 503
        assert re.match(r"not ready: .*PostgreSQL", page)
        assert re.search(r"ConversationService/store: NOT_SERVING: .*PostgreSQL", page)
        assert get(f"http://{server.app.health_address}/livez") == (200, "alive\n")
    finally:
        postgres.start()
    until(lambda: scrape(server).value("recollect_postgres_up") == 1)
    assert get(ready)[0] == 200


def test_a_server_that_cannot_follow_the_others_says_so(
    postgres: Postgres,
    start_server: Start,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    no_log: None,
) -> None:
    def turn(*_: object) -> float:
        raise RuntimeError("a fault that nobody foresaw")

    monkeypatch.setattr(FollowerJob, "turn", turn)
    server = start_server(store=postgres.new_database(), **OBSERVED)
    service = connect(server)
    conversation_id = service.conversation_of("one")
    until(lambda: scrape(server).value("recollect_jobs_failing", job="following") == 1)
    assert service.found("one") == [conversation_id]  # calls ask for themselves what others wrote


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "text/plain; version=0.0.4"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
        ("application/openmetrics-text; version=abc", "text/plain; version=0.0.4"),
        ("\xff, */*;q=x", "text/plain; version=0.0.4"),
    ],
)
def test_whatever_a_scraper_accepts_it_gets_metrics(accept: str, kind: str) -> None:
    status, content_type, body = metrics_page(Metrics(), lambda: None)(accept)
    assert (status, content_type.startswith(kind)) == (200, True)
    assert b"recollect_model_calls_total 0.0" in body


# Who may read them --------------------------------------------------------------------------------


def test_beyond_loopback_metrics_need_tls_and_a_token(start_server: Start) -> None:
    everywhere = {"metrics": "0.0.0.0:0", "insecure_plaintext": True}
    with pytest.raises(WrongSettings, match=r"metrics: 0.0.0.0:0 can be reached .* needs TLS"):
        Settings.load(None, {"metrics": "0.0.0.0:0"})
    with pytest.raises(CannotListen, match=r"there is no token yet: .*--kind monitor"):
        start_server(**everywhere)
    data_dir = start_server().data_dir.parent / "guarded"
    data_dir.mkdir()
    monitor, brain = token(data_dir, "monitor", "*"), token(data_dir, "brain", "alex")
    server = start_server(data_dir=data_dir, **everywhere)
    url = f"http://{LOOPBACK}:{server.app.metrics_address.rpartition(':')[2]}/metrics"
    status, text = get(url)
    assert (status, text.startswith("the call brings no token")) == (401, True)
    assert get(url, Authorization=f"Bearer {brain}") == (
        401,
        "the token is not for every space: make one with --kind monitor --space '*'\n",
    )
    assert get(url, Authorization="Bearer rcl_x_y")[0] == 401
    assert get(url, Authorization=f"Bearer {monitor}")[0] == 200
    with Client(server.target, token=token(data_dir, "admin", "*")) as client:
        for text, counts in ((monitor, (1, 0)), (brain, (0, 1))):
            [use] = client.admin.list_token_uses(text.split("_")[1])
            assert (use.method, use.calls, use.refused_calls) == ("GET /metrics", *counts)
            assert use.peer == "ipv4:127.0.0.1"  # whatever loopback address was called


@pytest.mark.parametrize(
    ("setting", "value", "problem"),
    [
        ("metrics", "9464", "must be unix:PATH or HOST:PORT"),
        ("metrics", "unix:/x", "must be one HOST:PORT"),
        ("health_listen", "127.0.0.1:1,127.0.0.1:2", "must be"),
    ],
)
def test_a_wrong_address_is_named(setting: str, value: str, problem: str) -> None:
    with pytest.raises(WrongSettings, match=f"{setting}: {problem}"):
        Settings.load(None, {setting: value})


def test_an_address_that_cannot_be_ends_the_start_with_advice(start_server: Start) -> None:
    with pytest.raises(CannotListen, match=r"a\.\.b:0: no host .* with --health-listen"):
        start_server(health_listen="a..b:0")
    with socket.create_server((LOOPBACK, 0)) as other:
        taken = f"{LOOPBACK}:{other.getsockname()[1]}"
        with pytest.raises(
            CannotListen, match=f"{taken}: address already in use: .* with --metrics"
        ):
            start_server(metrics=taken)


def test_a_server_that_nobody_observes_imports_nothing_for_it() -> None:
    program = (
        "import sys, recollect_server.run.app;"
        "sys.exit(bool({'prometheus_client', 'opentelemetry'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
