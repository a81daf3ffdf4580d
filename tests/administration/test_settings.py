"""Settings as an administrator sees them."""

from pathlib import Path

import pytest
from recollect import Client, Setting
from recollect_server.run.settings import Settings
from recollect_server.run.settings.catalogue import GROUPS

from tests.conftest import Start


def by_key(client: Client) -> dict[str, Setting]:
    return {setting.key: setting for setting in client.admin.list_settings().settings}


def test_every_setting_has_a_group_of_its_own() -> None:
    names = [name for _, listed in GROUPS.values() for name in listed]
    assert sorted(names) == sorted(Settings.model_fields)


def test_each_setting_says_where_its_value_comes_from(
    start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "its.yaml"
    file.write_text("slow_call: 90m\nprofile_tokens: 5\nthreads: 8\n")
    monkeypatch.setenv("RECOLLECT_PROFILE_TOKENS", "6")
    monkeypatch.setenv("RECOLLECT_THREADS", "9")
    server = start_server(config=file, threads=10)
    with Client(server.target) as client:
        listed = by_key(client)
        assert client.admin.list_settings().file == str(file)
    sources = {
        name: (listed[name].value, listed[name].source.value)
        for name in ("slow_call", "profile_tokens", "threads", "idle_timeout")
    }
    assert sources == {
        "slow_call": ("90m", "file"),
        "profile_tokens": ("6", "environment"),
        "threads": ("10", "flag"),
        "idle_timeout": ("10m", "default"),
    }
    assert "RECOLLECT_PROFILE_TOKENS" in listed["profile_tokens"].locked
    assert "--threads" in listed["threads"].locked
    assert (listed["slow_call"].locked, listed["idle_timeout"].locked) == ("", "")


def test_a_key_within_a_url_is_masked(start_server: Start) -> None:
    server = start_server(abbreviation_url="https://api.example.org/v1?key=swordfish")
    with Client(server.target) as client:
        listed = client.admin.list_settings()
    assert "swordfish" not in repr(listed)
    url = next(it for it in listed.settings if it.key == "abbreviation_url")
    assert (url.value, url.masked) == ("https://api.example.org/v1?…", True)
