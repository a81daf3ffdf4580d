"""A real Prometheus, configured as `compose.yaml` configures it, reads a real server: it takes the
metrics, evaluates the alerts and every expression of the dashboard, and notices when the server is
gone.
"""

import json
import shutil
import socket
import subprocess
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import yaml

from tests.conftest import LOOPBACK, RunningServer, Start
from tests.operations.conftest import OBSERVED, get
from tests.operations.test_alerts import DEPLOY, expressions, rules
from tests.server.conftest import Connect, user
from tests.waiting import until

Ask = Callable[..., Any]
"""Type of the fixture `prometheus`: asks a page of its API, and returns what `data` has."""


@pytest.fixture
def server(start_server: Start) -> RunningServer:
    return start_server(**OBSERVED)


@pytest.fixture
def prometheus(server: RunningServer, tmp_path: Path) -> Iterator[Ask]:
    """Run Prometheus over the files of `deploy/`; the address and the intervals alone differ."""
    if (program := shutil.which("prometheus")) is None:
        pytest.skip("prometheus is not installed: Debian's package prometheus has it")
    settings = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())
    settings["global"] = dict.fromkeys(settings["global"], "500ms")
    [job] = settings["scrape_configs"]
    job |= {
        "static_configs": [{"targets": [server.app.metrics_address]}],
        "scrape_timeout": "500ms",
    }
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(settings))
    shutil.copy(DEPLOY / "prometheus/alerts.yaml", tmp_path)
    with socket.create_server((LOOPBACK, 0)) as listening:
        address = f"{LOOPBACK}:{listening.getsockname()[1]}"
    flags = [f"--config.file={tmp_path}/prometheus.yaml", f"--storage.tsdb.path={tmp_path}/tsdb"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [program, *flags, f"--web.listen-address={address}"], stdout=log, stderr=log
        )

    def ask(page: str, **query: str) -> Any:
        assert process.poll() is None, (tmp_path / "log").read_text()
        url = f"http://{address}/api/v1/{page}?{urllib.parse.urlencode(query)}"
        with suppress(URLError, ConnectionError):  # it starts
            status, text = get(url)
            if status != 503:
                answer = json.loads(text)
                assert answer["status"] == "success", (query, answer)
                return answer["data"]
        return None

    try:
        yield ask
    finally:
        process.kill()
        process.wait()


def value(ask: Ask, expression: str) -> float | None:
    """Return the value of an expression; None if it has none, or several."""
    result = (ask("query", query=expression) or {"result": []})["result"]
    return float(result[0]["value"][1]) if len(result) == 1 else None


def alerts(ask: Ask) -> dict[str, dict[str, Any]] | None:
    """Return the alerts by name once each was evaluated."""
    groups = (ask("rules") or {"groups": []})["groups"]
    by_name = {it["name"]: it for group in groups for it in group["rules"]}
    is_done = by_name and all(it["health"] != "unknown" for it in by_name.values())
    return by_name if is_done else None


def states(ask: Ask, *names: str) -> set[str]:
    """Return the states of alerts, of all if none is named."""
    by_name = alerts(ask) or {}
    return {by_name[name]["state"] for name in names or by_name}


def test_prometheus_takes_the_metrics_and_evaluates_every_expression(
    server: RunningServer, connect: Connect, prometheus: Ask
) -> None:
    service = connect(server)
    name = service.create().id
    for number in range(3):
        service.append(name, user(f"zebra {number}"))
    assert service.found("zebra")
    appends = 'recollect_calls_total{method="ConversationService.AppendTurn",code="OK"}'
    until(lambda: value(prometheus, appends) == 3)
    [target] = prometheus("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    assert target["labels"]["job"] == "recollect"
    evaluated = until(partial(alerts, prometheus))
    assert evaluated.keys() == {rule["alert"] for rule in rules()}
    assert [it["lastError"] for it in evaluated.values() if it["health"] != "ok"] == []
    until(lambda: states(prometheus) == {"inactive"})
    for expression in expressions():
        text = expression.replace("$__rate_interval", "5m").replace("$instance", ".*")
        assert prometheus("query", query=text) is not None
    server.stop()
    until(lambda: value(prometheus, 'up{job="recollect"}') == 0)
    until(lambda: states(prometheus, "RecollectDown") == {"pending"})
