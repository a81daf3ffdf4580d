"""Servers that operators observe: their metrics, and their health over HTTP."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from recollect_server.access.token import Grant, scopes_of
from recollect_server.access.token_log import TokenLedger
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run.metrics import METRICS

from tests.conftest import LOOPBACK, RunningServer
from tests.server.conftest import connect

__all__ = ["connect"]

OBSERVED = {"metrics": f"{LOOPBACK}:0", "health_listen": f"{LOOPBACK}:0"}
"""Settings of a server that is observed, at free ports."""


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Discard the logs of servers in this process."""


@dataclass(frozen=True)
class Scrape:
    """The metrics of a server at one moment."""

    text: str
    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.samples}


def get(url: str, **headers: str) -> tuple[int, str]:
    """Return the status and the text of a page."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - of this machine
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def scrape(server: RunningServer) -> Scrape:
    """Read the metrics of a server."""
    status, text = get(f"http://{server.app.metrics_address}/metrics")
    assert status == 200, text
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    return Scrape(text, samples)


def samples_of(name: str) -> list[str]:
    """Return the names that the samples of a metric have."""
    if METRICS[name].kind == "histogram":
        return [f"{name}_{suffix}" for suffix in ("bucket", "sum", "count")]
    return [name]


def token(data_dir: Path, kind: str, *spaces: str) -> str:
    """Create a token, and return its text."""
    tokens = Tokens(TokenLedger(data_dir), system_clock)
    return tokens.create(Grant(kind, scopes_of(kind, ()), spaces))[1]
