"""The Helm chart: linted, rendered, and valid for Kubernetes, for both stores; what cannot work is
refused with what to do.
"""

from pathlib import Path
from typing import Any

import helm_python as helm
import kubernetes_validate
import pytest
import yaml

from tests.deploy.conftest import DEPLOY, Load

CHART = DEPLOY / "helm/recollect"
VALUES = sorted((DEPLOY / "helm/values").glob("*.yaml"))
KUBERNETES = ("1.27.0", "1.37.0")
"""The oldest version that the chart says it is for, and the newest that is known here."""


def values_of(path: Path) -> dict[str, Any]:
    values = yaml.safe_load(path.read_text())
    assert isinstance(values, dict)
    return values


def render(values: dict[str, Any]) -> list[dict[str, Any]]:
    with helm.Chart.load(CHART) as chart:
        rendered = chart.render(values, name="memory", namespace="agents")
    texts = [text for path, text in rendered.items() if path.endswith(".yaml")]
    return [it for text in texts for it in yaml.safe_load_all(text) if it]


def pods_of(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the specifications of the pods that the manifests make."""
    specs = [it["spec"] for it in manifests if "template" in it.get("spec", {})]
    specs += [it["spec"]["jobTemplate"]["spec"] for it in manifests if it["kind"] == "CronJob"]
    return [it["template"]["spec"] for it in specs]


with_values = pytest.mark.parametrize(
    "values", [values_of(it) for it in VALUES], ids=[it.stem for it in VALUES]
)


@with_values
def test_the_chart_is_valid(values: dict[str, Any]) -> None:
    report = helm.lint(str(CHART), values, strict=True)
    assert report["errors"] == []
    assert [it for it in report["messages"] if it["severity"] > 1] == []
    for manifest in render(values):
        for version in KUBERNETES:
            kubernetes_validate.validate(manifest, version, strict=True)


def test_the_kinds_are_those_of_the_store() -> None:
    kinds = {path.stem: sorted(it["kind"] for it in render(values_of(path))) for path in VALUES}
    network = ["NetworkPolicy", "Service", "Service"]
    assert kinds["folder"] == sorted([*network, "CronJob", "PersistentVolumeClaim", "StatefulSet"])
    assert kinds["mesh"] == sorted([*network, "CronJob", "StatefulSet"])
    assert kinds["postgresql"] == sorted([*network, "Deployment", "PodDisruptionBudget"])


@with_values
def test_no_container_may_more_than_it_needs(values: dict[str, Any]) -> None:
    pods = pods_of(render(values))
    assert pods
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        names = {it["name"] for it in pod["volumes"]}
        names |= {"data"}  # of a StatefulSet: by its claim
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]
            assert {it["name"] for it in container["volumeMounts"]} <= names
        server = pod["containers"][0]
        if server["args"] == ["serve"]:
            ports = {it["name"]: it["containerPort"] for it in server["ports"]}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                assert server[probe]["httpGet"]["port"] in ports


@with_values
def test_the_settings_can_be_and_every_port_is_listened_on(
    values: dict[str, Any], load: Load
) -> None:
    for pod in pods_of(render(values)):
        [container] = pod["containers"]
        url = "postgresql://recollect@db/recollect"
        environment = {
            it["name"]: it.get("value", url)
            for it in container["env"]
            if it["name"].startswith("RECOLLECT_")
        }
        settings = load(environment)
        mounted = {it["mountPath"] for it in container["volumeMounts"]}
        for path in (settings.data_dir, settings.backup_dir):
            assert path is None or str(path) in mounted
        for file in (settings.tls_cert, settings.backup_key_file):
            assert file is None or str(file.parent) in mounted
        addresses = f"{settings.listen} {settings.health_listen} {settings.metrics}"
        for port in container.get("ports", ()):
            assert f":{port['containerPort']}" in addresses
        if container["args"] == ["serve"]:
            assert pod["terminationGracePeriodSeconds"] > settings.shutdown_grace.total_seconds()


def test_settings_that_are_numbers_reach_the_server_as_they_are(load: Load) -> None:
    numbers = {"max_answer_bytes": 16_777_216, "token_calls": 0.5, "max_open_spaces": 200}
    [pod, *_] = pods_of(render(values_of(VALUES[0]) | {"settings": numbers}))
    [container] = pod["containers"]
    given = {it["name"]: it["value"] for it in container["env"] if "value" in it}
    environment = {name: given[name] for it in numbers if (name := f"RECOLLECT_{it.upper()}")}
    settings = load(environment)
    assert {it: getattr(settings, it) for it in numbers} == numbers


@with_values
def test_services_policies_and_budgets_choose_the_pods_of_the_server_alone(
    values: dict[str, Any],
) -> None:
    manifests = render(values)
    [server] = [it for it in manifests if it["kind"] in ("StatefulSet", "Deployment")]
    labels = server["spec"]["template"]["metadata"]["labels"].items()
    others = [
        it["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"].items()
        for it in manifests
        if it["kind"] == "CronJob"
    ]
    selectors = [
        it["spec"].get("podSelector", it["spec"].get("selector"))
        for it in manifests
        if it["kind"] in ("Service", "NetworkPolicy", "PodDisruptionBudget")
    ]
    assert len(selectors) >= 3
    for selector in selectors:
        chosen = selector.get("matchLabels", selector).items()
        assert chosen <= labels
        assert not any(chosen <= other for other in others)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "callers in other pods need TLS: set tls.existingSecret"),
        ({"tls": {"existingSecret": "a"}}, "need a token: set tokens.existingSecret"),
        (
            {"tls": {"existingSecret": "a"}, "store": {"kind": "postgresql"}},
            "needs store.existingSecret",
        ),
        (
            {"tls": {"existingSecret": "a", "plaintextInMesh": True}},
            "exclude each other",
        ),
        (
            {
                "tls": {"existingSecret": "a"},
                "store": {"kind": "postgresql", "existingSecret": "b"},
                "backup": {"enabled": True},
            },
            "back up a database with its own tools",
        ),
    ],
)
def test_values_that_cannot_work_are_refused_with_what_to_do(
    values: dict[str, Any], text: str
) -> None:
    with pytest.raises(helm.HelmError, match=text):
        render(values)


@pytest.mark.parametrize(
    "values",
    [{"replica": 3}, {"replicas": 0}, {"store": {"kind": "sqlite"}}, {"tls": {"secret": "a"}}],
)
def test_a_misspelt_value_is_refused(values: dict[str, Any]) -> None:
    with helm.Chart.load(CHART) as chart, pytest.raises(helm.HelmError):
        chart.validate_schema(values)
