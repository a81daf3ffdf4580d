"""Settings: where each comes from, and what is refused by its name."""

import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from recollect_server.run.settings import Settings, WrongSettings

from tests.cases import each
from tests.conftest import Start
from tests.server.conftest import Connect, failure_of
from tests.streaming.conftest import Subscriber, subscribe, watched

__all__ = ["subscribe", "watched"]


@pytest.mark.parametrize(
    "listen",
    [
        "0.0.0.0:50051", "[::]:50051", "192.168.1.5:50051", "example.org:50051",
        "127.0.0.1", "127.0.0.1:", ":50051", "", "unix:",
        "127.0.0.1:70000", "localhost.example.org:1", "127.0.0.1:1,0.0.0.0:2", "dns:///127.0.0.1:5", "[::1]:x", "127.0.0.1:-1",
        "50051", "127.0.0.1:1\n", "1127.0.0.1:1", "ipv4:0.0.0.0:1", "[::ffff:0.0.0.0]:1",
    ],
)  # fmt: skip
def test_an_address_that_is_not_this_machines_own_is_refused(
    start_server: Start, listen: str
) -> None:
    with pytest.raises(WrongSettings, match=r"^listen: "):
        start_server(listen=listen)


@each(("name", "value"), [
        ("space", "../up"), ("space", ""), ("space", "Up"), ("space", "a/b"), ("durability", "maybe"), ("max_working_turns", 0),
        ("max_working_turns", 1001), ("max_working_tokens", -1), ("max_message_bytes", 10), ("max_batch_bytes", "much"),
        ("threads", 0), ("reflection", "perhaps"), ("shutdown_grace", "10"), ("shutdown_grace", "10 s"), ("shutdown_grace", "-1s"),
        ("shutdown_grace", "1y"), ("shutdown_grace", "9" * 400 + "d"), ("log_level", "loud"),
        ("log_format", "xml"), ("durabilty", "fsync"), ("heartbeat", "0s"), ("heartbeat", "49ms"), ("heartbeat", timedelta()),
        ("sweep_interval", "0s"), ("sweep_interval", "999ms"), ("shutdown_grace", "25h"), ("shutdown_grace", "300000d"),
        ("search_timeout", "0s"), ("data_dir", ""),
    ])  # fmt: skip
def test_a_wrong_setting_is_refused_by_its_name(name: str, value: object) -> None:
    with pytest.raises(WrongSettings, match=rf"^{name}: "):
        Settings.load(None, {name: value})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("heartbeat", "0s", "heartbeat: must be 50ms or longer (it is '0s')"),
        ("sweep_interval", "0s", "sweep_interval: must be 1s or longer (it is '0s')"),
        ("search_timeout", "0s", "search_timeout: must be 1ms or longer (it is '0s')"),
        ("shutdown_grace", "25h", "shutdown_grace: must be 1d or shorter (it is '25h')"),
    ],
)
def test_a_duration_that_no_thread_could_keep_to_is_refused_with_its_bound(
    name: str, value: str, sentence: str
) -> None:
    with pytest.raises(WrongSettings) as refused:
        Settings.load(None, {name: value})
    assert str(refused.value) == sentence


def test_all_wrong_settings_are_named_at_once() -> None:
    with pytest.raises(WrongSettings) as refused:
        Settings.load(None, {"listen": "0.0.0.0:1", "threads": 0, "nonsense": 1})
    assert [line.split(":")[0] for line in str(refused.value).splitlines()] == [
        "listen",
        "threads",
        "nonsense",
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("RECOLLECT_THREAD", "THREADS"),
        ("RECOLLECT_DATADIR", "DATA_DIR"),
        ("recollect_listne", "LISTEN"),
        ("RECOLLECT_DURABILTY", "DURABILITY"),
    ],
)
def test_a_misspelt_name_in_the_environment_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, meant: str
) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(WrongSettings) as refused:
        Settings.load(None, {"threads": 0})
    wrong, misspelt = str(refused.value).splitlines()
    assert wrong.startswith("threads: ")
    assert misspelt == f"{name}: there is no such setting: do you mean RECOLLECT_{meant}?"
    with pytest.raises(WrongSettings, match=f"^{name}: "):
        Settings.load(None, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RECOLLECT_QUOKKA", "1"),
        ("RECOLLECT_", "1"),
        ("RECOLLECT_WATERMELONS", "1"),
        ("RECOLLECT_PORT", "50052"),  # a person's, not Kubernetes'
        ("RECOLLECT_GRPC_PORT", "50052"),
        ("RECOLLECT_TARGET", "127.0.0.1:1"),
        ("recollect_quokka", ""),
    ],
)
def test_a_name_in_the_environment_that_is_no_setting_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(WrongSettings, match=f"^{name}: there is no such setting: unset it"):
        Settings.load(None, {})


KUBERNETES = {
    "SERVICE_HOST": "10.96.0.17",
    "SERVICE_PORT": "50051",
    "SERVICE_PORT_GRPC": "50051",
    "PORT": "tcp://10.96.0.17:50051",
    "PORT_50051_TCP": "tcp://10.96.0.17:50051",
    "PORT_50051_TCP_PROTO": "tcp",
    "PORT_50051_TCP_PORT": "50051",
    "PORT_50051_TCP_ADDR": "10.96.0.17",
    "PORT_53_UDP_ADDR": "10.96.0.17",
}
"""Environment variables that a pod gets for a service, after the service's name."""


def test_names_in_the_environment_that_are_others_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ADDRESS", "MODEL", "CONVERSATION_ID", "KILL_AT"):  # the client's, and the tests'
        monkeypatch.setenv(f"RECOLLECT_{name}", "1")
    for service in ("RECOLLECT", "RECOLLECT_BACKUP"):
        for name, value in KUBERNETES.items():
            monkeypatch.setenv(f"{service}_{name}", value)
    monkeypatch.setenv("RECOLLECTION", "1")
    monkeypatch.setenv("recollect_threads", "7")
    assert Settings.load(None, {}).threads == 7


def test_every_name_that_the_project_itself_uses_is_a_setting_or_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = Path(__file__).parents[2]
    sources = [
        *root.glob("client/src/**/*.py"),
        *root.glob("packages/*/src/**/*.py"),
        *root.glob("server/src/**/*.py"),
        *root.glob("*.md"),
        *root.glob("*/*.md"),
        *root.glob("docs/**/*.md"),
    ]
    names = {
        name
        for source in sources
        for name in re.findall(r"\bRECOLLECT_[A-Z_]*[A-Z]\b", source.read_text())
    }
    assert {"RECOLLECT_ADDRESS", "RECOLLECT_KILL_AT", "RECOLLECT_THREADS"} <= names
    for name in names - {f"RECOLLECT_{setting.upper()}" for setting in Settings.model_fields}:
        monkeypatch.setenv(name, "1")
    Settings.load(None, {})


def test_a_flag_goes_before_the_environment_before_the_file_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text("threads: 3\nspace: from-file\nmax_working_turns: 7\nshutdown_grace: 500ms\n")
    monkeypatch.setenv("RECOLLECT_THREADS", "4")
    monkeypatch.setenv("RECOLLECT_SPACE", "from-environment")
    settings = Settings.load(file, {"threads": 5})
    assert (settings.threads, settings.space, settings.max_working_turns) == (
        5,
        "from-environment",
        7,
    )
    assert (settings.shutdown_grace.total_seconds(), settings.max_working_tokens) == (0.5, 8000)


@pytest.mark.parametrize(
    "text",
    [
        "threads: [",
        "- a list",
        "just text",
        "threads: 0",
        "nonsense: 1",
        "\x00",
        "threads: !!python/object:x {}",
    ],
)
def test_a_wrong_settings_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text(text)
    with pytest.raises(WrongSettings):
        Settings.load(file, {})
    with pytest.raises(WrongSettings, match="there is no such file"):
        Settings.load(tmp_path / "nowhere.yaml", {})


def test_spaces_never_meet(start_server: Start, connect: Connect) -> None:
    first = start_server(space="ana")
    conversation_id = connect(first).conversation_of("ana's zebra")
    first.stop()
    second = start_server(space="bo")
    service = connect(second)
    assert service.found("zebra") == []
    assert failure_of(lambda: service.get(conversation_id)).reason == "CONVERSATION_NOT_FOUND"
    assert {path.name for path in second.data_dir.iterdir() if path.is_dir()} == {"ana", "bo"}


def test_a_server_whose_durations_are_as_short_as_is_allowed_is_idle(
    start_server: Start, connect: Connect, subscribe: Callable[..., Subscriber]
) -> None:
    none = dict.fromkeys(("update_retention", "draft_timeout", "idle_timeout", "slow_call"), "0s")
    server = start_server(
        **none, heartbeat="50ms", sweep_interval="1s", abbreviator="extractive", shutdown_grace="0s"
    )
    assert connect(server).conversation_of("zebra")
    watching = subscribe(server.target).ready()
    watching.until_count("heartbeat", 1)
    began, used = time.monotonic(), time.process_time()
    watching.until_count("heartbeat", 21)
    # A thread that spins takes all of a processor, or all that the machine leaves it.
    assert time.process_time() - used < 0.5 * (time.monotonic() - began)
    watching.drop()


def test_without_fsync_everything_else_is_the_same(start_server: Start, connect: Connect) -> None:
    server = start_server(durability="os")
    conversation_id = connect(server).conversation_of("one", "two")
    server.stop()
    assert connect(start_server(durability="os")).get(conversation_id).turn_count == 2
