"""`compose.yaml`: what it names is there, and its settings can be."""

import re
from copy import deepcopy
from functools import cache
from typing import Any

import compose_spec
import pytest
import yaml
from recollect_server.contract import endpoints
from recollect_server.run.settings import Settings
from recollect_server.run.settings.values import text_of

from tests.deploy.conftest import DEPLOY, Load

OURS = ("server", "page", "backup")


@cache
def compose() -> dict[str, Any]:
    parsed = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert isinstance(parsed, dict)
    return parsed


def services() -> dict[str, Any]:
    services = compose()["services"]
    assert isinstance(services, dict)
    return services


def test_the_file_is_as_the_specification_says() -> None:
    compose_spec.PyCompose.from_yaml(yaml.safe_dump(compose())).validate()
    wrong = deepcopy(compose())
    wrong["services"]["server"]["read_onli"] = True
    with pytest.raises(ValueError, match="read_onli"):
        compose_spec.PyCompose.from_yaml(yaml.safe_dump(wrong)).validate()


def test_every_file_folder_volume_and_service_that_is_named_is_there() -> None:
    for name, service in services().items():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("."):
                assert (DEPLOY / source).exists(), f"{name}: {source}"
            else:
                assert source in compose()["volumes"], f"{name}: {source}"
        for other in service.get("depends_on", ()):
            assert other in services()
        if (mode := service.get("network_mode", "")).startswith("service:"):
            assert mode.removeprefix("service:") in services()
    assert (DEPLOY / services()["server"]["build"] / "Dockerfile").is_file()


@pytest.mark.parametrize("name", ["server", "backup"])
def test_the_settings_of_a_service_can_be(name: str, load: Load) -> None:
    service = services()[name]
    settings = load(service["environment"])
    mounted = {it.split(":")[1] for it in service["volumes"]}
    assert {str(settings.data_dir), str(settings.backup_dir)} <= mounted
    assert settings.insecure_plaintext
    published = services()["server"]["ports"]
    assert all(it.startswith("127.0.0.1:") for it in published)


def test_the_guide_tunes_the_server_by_settings_that_there_are_with_their_defaults() -> None:
    [file] = services()["server"]["env_file"]
    guide = (DEPLOY.parent / "docs" / "operations" / "deployment.md").read_text()
    assert (file["required"], f"`{file['path']}`" in guide) == (False, True)
    named = re.findall(r"`RECOLLECT_([A-Z_]+)` \((\w+)\)", guide)
    assert len(named) > 5
    for name, default in named:
        assert text_of(Settings.model_fields[name.lower()].default) == default, name


def test_who_waits_for_a_healthy_service_asks_an_address_that_it_listens_on(load: Load) -> None:
    for name, service in services().items():
        for other, condition in service.get("depends_on", {}).items():
            assert condition == {"condition": "service_healthy"}, name
            waited_for = services()[other]
            health = load(waited_for["environment"]).health_listen
            assert f"http://{health}/readyz" in waited_for["healthcheck"]["test"][-1]
    assert services()["page"]["depends_on"]


def test_no_service_may_more_than_it_needs() -> None:
    for name, service in services().items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        if name in OURS:
            assert service["user"] == "10001:10001", name
    assert services()["backup"]["volumes"][0] == "data:/data:ro"


def test_prometheus_reads_the_address_of_the_metrics_and_grafana_asks_prometheus(
    load: Load,
) -> None:
    metrics = load(services()["server"]["environment"]).metrics
    prometheus = yaml.safe_load((DEPLOY / "prometheus/prometheus.yaml").read_text())
    [job] = prometheus["scrape_configs"]
    assert job["static_configs"] == [{"targets": [metrics]}]
    assert job["job_name"] == "recollect"  # the alerts name it
    assert endpoints.is_local(metrics)
    assert services()["prometheus"]["network_mode"] == "service:server"
    assert all((DEPLOY / "prometheus" / it).is_file() for it in prometheus["rule_files"])
    sources = DEPLOY / "grafana/provisioning/datasources/prometheus.yaml"
    [source] = yaml.safe_load(sources.read_text())["datasources"]
    assert source["url"] == "http://server:9090"  # Prometheus has the network of the server
    dashboards = DEPLOY / "grafana/provisioning/dashboards/recollect.yaml"
    [provider] = yaml.safe_load(dashboards.read_text())["providers"]
    mounts = [it.split(":")[1] for it in services()["grafana"]["volumes"]]
    assert any(it.startswith(provider["options"]["path"] + "/") for it in mounts)
