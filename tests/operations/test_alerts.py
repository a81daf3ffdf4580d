"""The dashboard and the alerts: promtool reads every expression, each alert fires and rests, and
every metric and label that they name is one of a real server.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from recollect_server.run.metrics import METRICS

from tests.conftest import Start
from tests.operations.conftest import OBSERVED, samples_of, scrape
from tests.postgres import Postgres
from tests.server.conftest import Connect, user

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus/alerts.yaml"
DASHBOARD = DEPLOY / "grafana/recollect.json"

_HISTOGRAM = 'recollect_call_seconds_bucket{method="ConversationService.AppendTurn",le='
FIRING: dict[str, dict[str, str]] = {
    "RecollectDown": {'up{job="recollect"}': "0x120"},
    "RecollectErrors": {
        'recollect_calls_total{code="OK"}': "0+90x120",
        'recollect_calls_total{code="INTERNAL"}': "0+10x120",
    },
    "RecollectAppendsSlow": {
        f'{_HISTOGRAM}"0.5"}}': "0+90x120",
        f'{_HISTOGRAM}"1.0"}}': "0+100x120",
        f'{_HISTOGRAM}"+Inf"}}': "0+100x120",
    },
    "RecollectMessagesHeld": {"recollect_held_messages": "1x120"},
    "RecollectDiskFull": {
        "recollect_data_free_bytes": "9x120",
        "recollect_data_size_bytes": "100x120",
    },
    "RecollectDiskExhausted": {
        "recollect_data_free_bytes": "0.9x120",
        "recollect_data_size_bytes": "100x120",
    },
    "RecollectFilesExhausted": {
        'process_open_fds{job="recollect"}': "900x120",
        'process_max_fds{job="recollect"}': "1000x120",
    },
    "RecollectMemoryHigh": {'process_resident_memory_bytes{job="recollect"}': "5000000000x120"},
    "RecollectCallsWaiting": {'recollect_calls_waiting{pool="call"}': "30x120"},
    "RecollectIndexBehind": {
        "recollect_index_lag_seconds": "0x120",
        "recollect_conversations_not_indexed": "2x120",
    },
    "RecollectSearchDegraded": {'recollect_degraded_total{part="cold"}': "0+1x120"},
    "RecollectEmbeddingBehind": {"recollect_embedding_lag_seconds": "2000x120"},
    "RecollectStreamsBehind": {"recollect_stream_lag_seconds": "20x120"},
    "RecollectSubscribersDropped": {'recollect_streams_ended_total{reason="slow"}': "0+5x120"},
    "RecollectJobFailing": {'recollect_jobs_failing{job="notes"}': "1x120"},
    "RecollectNotesFailing": {
        'recollect_notes_total{outcome="failed"}': "0+6x120",
        'recollect_notes_total{outcome="written"}': "0+4x120",
    },
    "RecollectModelCost": {"recollect_model_cost_dollars_total": "0+1x120"},
    "RecollectTokensRefused": {'recollect_calls_total{code="UNAUTHENTICATED"}': "0+120x120"},
    "RecollectPostgresDown": {"recollect_postgres_up": "0x120"},
    "RecollectPostgresHorizonOld": {"recollect_postgres_horizon_age_seconds": "61x120"},
    "RecollectPostgresPoolExhausted": {"recollect_postgres_calls_waiting": "1x120"},
}
"""Series by which each alert fires within two hours, a sample each minute."""
RESTING: dict[str, dict[str, str]] = {
    **{name: dict.fromkeys(series, "0x120") for name, series in FIRING.items()},
    "RecollectDown": {'up{job="recollect"}': "1x120"},
    "RecollectErrors": FIRING["RecollectErrors"]
    | {'recollect_calls_total{code="INTERNAL"}': "0+1x120"},
    "RecollectAppendsSlow": FIRING["RecollectAppendsSlow"] | {f'{_HISTOGRAM}"0.5"}}': "0+100x120"},
    "RecollectDiskFull": FIRING["RecollectDiskFull"] | {"recollect_data_free_bytes": "11x120"},
    "RecollectDiskExhausted": FIRING["RecollectDiskExhausted"]
    | {"recollect_data_free_bytes": "2x120"},
    "RecollectFilesExhausted": FIRING["RecollectFilesExhausted"]
    | {'process_open_fds{job="recollect"}': "700x120"},
    "RecollectNotesFailing": FIRING["RecollectNotesFailing"]
    | {'recollect_notes_total{outcome="failed"}': "0+3x120"},
    "RecollectModelCost": {"recollect_model_cost_dollars_total": "0+0.01x120"},
    "RecollectPostgresDown": {"recollect_postgres_up": "1x120"},
    "RecollectPostgresHorizonOld": {"recollect_postgres_horizon_age_seconds": "59x120"},
}
"""Series by which it does not."""


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[str]:
    """Yield every expression of the alerts and of the dashboard."""
    yield from (str(rule["expr"]) for rule in rules())
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"].removeprefix("label_values(").partition(",")[0]


@pytest.fixture
def promtool(tmp_path: Path) -> Any:
    """Return how to run promtool over a YAML file."""
    if (program := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed: Debian's package prometheus has it")

    def run(*command: str, document: Any) -> None:
        file = tmp_path / "document.yaml"
        file.write_text(yaml.safe_dump(document, sort_keys=False))
        done = subprocess.run(
            [program, *command, file], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_promtool_reads_every_expression(promtool: Any) -> None:
    recorded = [
        {
            "record": f"expression:{number}",
            "expr": it.replace("$__rate_interval", "5m").replace("$instance", ".*"),
        }
        for number, it in enumerate(expressions())
    ]
    assert len(recorded) > 50
    promtool("check", "rules", document={"groups": [{"name": "all", "rules": recorded}]})
    promtool("check", "rules", document=yaml.safe_load(ALERTS.read_text()))


@pytest.mark.parametrize("fires", [True, False])
def test_each_alert_fires_when_it_should_and_only_then(promtool: Any, fires: bool) -> None:
    tests = []
    assert FIRING.keys() == RESTING.keys() == {rule["alert"] for rule in rules()}
    for rule in rules():
        series = (FIRING if fires else RESTING)[rule["alert"]]
        expected = [{"exp_labels": _labels(rule, series), "exp_annotations": rule["annotations"]}]
        tests.append(
            {
                "interval": "1m",
                "input_series": [
                    {"series": _of_instance(name), "values": values}
                    for name, values in series.items()
                ],
                "alert_rule_test": [
                    {
                        "alertname": rule["alert"],
                        "eval_time": "110m",
                        "exp_alerts": expected if fires else [],
                    }
                ],
            }
        )
    document = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}
    promtool("test", "rules", document=document)


def _of_instance(series: str) -> str:
    name, _, labels = series.partition("{")
    return f'{name}{{instance="a",{labels}' if labels else f'{name}{{instance="a"}}'


def _labels(rule: dict[str, Any], series: dict[str, str]) -> dict[str, str]:
    """Return the labels of the alert: those that its expression keeps, and its own."""
    labels = dict(re.findall(r'(\w+)="([^"]+)"', next(iter(series))))
    if by := re.search(r"\bby\s+\(([^)]*)\)", rule["expr"]):
        names = {name.strip() for name in by[1].split(",")} - {"le"}
        labels = {name: value for name, value in labels.items() if name in names}
    return {"instance": "a", **labels, **rule["labels"]}


def test_what_they_name_is_in_the_metrics_of_real_servers(
    postgres: Postgres, start_server: Start, connect: Connect
) -> None:
    server = start_server(store=postgres.new_database(), **OBSERVED)
    service = connect(server)
    service.append(service.create().id, user("zebra"))
    service.found("zebra")
    real = scrape(server).names | {"up"}
    named = {
        name
        for it in expressions()
        for name in re.findall(r"\b(?:recollect|process)_\w+", re.sub(r'"[^"]*"', "", it))
    }
    assert len(named) > 30
    assert named - real == set()
    shown = {name.removesuffix("_bucket") for name in named}
    assert {name for name in METRICS if {name, *samples_of(name)} & (named | shown)} == {
        *METRICS
    } - {"recollect_held_bytes"}


def test_every_label_that_they_name_has_a_value_that_its_metric_declares() -> None:
    pairs = 0
    for it in expressions():
        for name, selector in re.findall(r"(recollect_\w+)\{([^}]*)\}", it):
            metric = METRICS[name.removesuffix("_bucket")]
            for label, operator, value in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', selector):
                if label != "instance":
                    declared = (metric.labels or {})[label]
                    matching = [v for v in declared if re.fullmatch(value, v)]
                    parts = value.count("|") + 1 if operator == "=~" else 1
                    assert len(matching) == parts, (name, label, value)
                    pairs += 1
    assert pairs > 8


def test_the_page_says_what_to_do_about_each_alert() -> None:
    page = (DEPLOY.parent / "docs/operations/monitoring.md").read_text()
    for rule in rules():
        assert f"| `{rule['alert']}` |" in page
        assert " ".join(rule["annotations"]["action"].split()).replace("|", "\\|") in page


def test_panels_have_names_units_and_numbers_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({it["id"] for it in panels}) == len(panels) == len({it["title"] for it in panels})
    for it in panels:
        assert it["type"] == "row" or it["fieldConfig"]["defaults"]["unit"]
