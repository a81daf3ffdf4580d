"""`recollect-server config`: which setting wins, and what is said of a wrong one."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from recollect_server.run.settings import FORMER, Settings
from recollect_server.run.settings.environment import take_secrets

from tests.cases import each
from tests.server_cli.conftest import run

WRONG = {
    "listen": ["0.0.0.0:50051", "127.0.0.1:70000", "127.0.0.1", "unix:", ""],
    "space": ["../other", "Upper", ""],
    "durability": ["never"],
    "max_working_turns": ["0", "1001", "many"],
    "max_working_tokens": ["0"],
    "max_message_bytes": ["1023", "16777217"],
    "max_batch_bytes": ["1023", "67108865"],
    "threads": ["0", "1001"],
    "compaction_messages": ["1", "100001"],
    "compaction_keep": ["0", "40"],
    "context_hot_turns": ["0", "51"],
    "context_warm_turns": ["-1", "1001"],
    "reflection": ["perhaps"],
    "shutdown_grace": ["10 seconds", "-1s", "1w"],
    "log_level": ["loud"],
    "log_format": ["xml"],
    "store": ["sqlite", "", "mysql://db/logs", "postgresql://db/a b"],
}


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"RECOLLECT_{name.upper()}", raising=False)


def settings_of(*arguments: object, env: dict[str, str | None] | None = None) -> dict[str, Any]:
    """Return the settings that `config` prints."""
    result = run("config", *arguments, env=env)
    assert result.exit_code == 0, result.output
    settings = yaml.safe_load(result.stdout)
    assert isinstance(settings, dict)
    return settings


def write(path: Path, **settings: Any) -> Path:
    path.write_text(yaml.safe_dump(settings))
    return path


def test_every_setting_is_printed_with_its_default() -> None:
    settings = settings_of()
    assert list(settings) == list(Settings.model_fields)
    assert settings["listen"] == "127.0.0.1:50051"
    assert settings["data_dir"] == ".recollect"
    assert settings["durability"] == "fsync"
    assert (settings["max_working_turns"], settings["max_working_tokens"]) == (20, 8000)


def test_a_file_wins_over_defaults(tmp_path: Path) -> None:
    config = write(tmp_path / "settings.yaml", max_working_turns=30, space="file")
    settings = settings_of("--config", config)
    assert (settings["max_working_turns"], settings["space"], settings["threads"]) == (
        30,
        "file",
        32,
    )


def test_the_environment_wins_over_a_file(tmp_path: Path) -> None:
    config = write(tmp_path / "settings.yaml", max_working_turns=30, space="file")
    settings = settings_of("--config", config, env={"RECOLLECT_MAX_WORKING_TURNS": "40"})
    assert (settings["max_working_turns"], settings["space"]) == (40, "file")


def test_a_flag_wins_over_the_environment_and_a_file(tmp_path: Path) -> None:
    config = write(tmp_path / "settings.yaml", max_working_turns=30, space="file", threads=5)
    environment: dict[str, str | None] = {
        "RECOLLECT_MAX_WORKING_TURNS": "40",
        "RECOLLECT_SPACE": "environment",
    }
    settings = settings_of("--config", config, "--max-working-turns", "50", env=environment)
    assert (settings["max_working_turns"], settings["space"], settings["threads"]) == (
        50,
        "environment",
        5,
    )


def test_what_is_printed_can_be_read_as_a_file(tmp_path: Path) -> None:
    printed = run(
        "config", "--shutdown-grace", "1.5s", "--listen", "unix:/tmp/socket", "--log-format", "json"
    ).stdout
    config = tmp_path / "settings.yaml"
    config.write_text(printed)
    assert run("config", "--config", config).stdout == printed
    assert "shutdown_grace: 1500ms" in printed


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_setting_is_refused_by_name_wherever_it_stands(
    name: str, value: str, tmp_path: Path
) -> None:
    config = write(tmp_path / "settings.yaml", **{name: value})
    for result in (
        run("config", f"--{name.replace('_', '-')}={value}"),
        run("config", env={f"RECOLLECT_{name.upper()}": value}),
        run("config", "--config", config),
    ):
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.startswith("Error: wrong settings:\n")
        assert f"\n{name}: " in result.stderr, result.stderr
        assert repr(value) in result.stderr


def test_all_that_is_wrong_is_named_at_once() -> None:
    result = run("config", "--threads", "0", "--log-level", "loud", env={"RECOLLECT_SPACE": "Ä"})
    assert [line.split(":")[0] for line in result.stderr.splitlines()[1:]] == [
        "space",
        "threads",
        "log_level",
    ]


def test_a_setting_that_there_is_not_is_refused_by_name(tmp_path: Path) -> None:
    result = run("config", "--config", write(tmp_path / "settings.yaml", listne="127.0.0.1:1"))
    assert result.exit_code == 1
    assert "listne: there is no such setting" in result.stderr


@pytest.mark.parametrize(
    "text",
    ["- a\n- b\n", "just words", "listen: [", "\0"],
)
def test_a_file_that_holds_no_settings_is_refused_by_name(tmp_path: Path, text: str) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(text)
    result = run("config", "--config", config)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert str(config) in result.stderr


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    result = run("config", "--config", tmp_path / "none.yaml")
    assert result.exit_code == 1
    assert f"{tmp_path / 'none.yaml'}: there is no such file" in result.stderr


def test_a_start_names_what_it_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    named = write(tmp_path / "named.yaml", data_dir="elsewhere", threads=5)
    write(tmp_path / "recollect.yaml", threads=6)
    (tmp_path / "file").write_text("")  # no folder: it ends before it serves
    result = run("serve", "--config", named, "--data-dir", tmp_path / "file")
    assert result.stderr.splitlines()[:2] == [
        f"Note: recollect.yaml is not read: {named} is.",
        f"Note: a flag or the environment goes before {named} for data_dir.",
    ]


def test_a_setting_that_is_a_constant_now_is_ignored_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECOLLECT_WRITE_THREADS", "9")
    file = write(tmp_path / "named.yaml", recency_weight=0.1, threads=5)
    (tmp_path / "file").write_text("")  # no folder: it ends before it serves
    given = ("--config", file, "--abbreviation-rest", "1m", "--data-dir", tmp_path / "file")
    lines = run("serve", *given).stderr.splitlines()
    assert lines[:3] == [
        f"Note: {name} ({source}) is no setting any more, ignored: take it out."
        for name, source in {
            "abbreviation_rest": "flag",
            "recency_weight": "file",
            "write_threads": "environment",
        }.items()
    ]
    assert "cannot use the data folder" in lines[3]
    printed = run("config", *given).stdout
    assert "threads: 5\n" in printed
    assert not FORMER & {line.partition(":")[0] for line in printed.splitlines()}
    assert "--abbreviation-rest" not in run("serve", "--help").stdout


def test_secrets_come_from_files_and_from_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "")  # so that what is put there is taken back at the end
        monkeypatch.delenv(name)
    (tmp_path / "PGPASSWORD").write_text("from systemd\n")
    (tmp_path / "key").write_text("from a file\n")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(tmp_path / "key"))
    assert take_secrets() == []
    taken = (os.environ["PGPASSWORD"], os.environ["OPENAI_API_KEY"])
    assert taken == ("from systemd", "from a file")
    assert "ANTHROPIC_API_KEY" not in os.environ
    monkeypatch.setenv("ANTHROPIC_API_KEY_FILE", str(tmp_path / "missing"))
    result = run("config")
    assert result.exit_code == 1
    assert f"ANTHROPIC_API_KEY: {tmp_path / 'missing'} cannot be read" in result.stderr
    assert "OPENAI_API_KEY: is set, and " in result.stderr


def test_a_flag_before_the_command_is_sent_behind_it() -> None:
    result = run("--data-dir", "conversations", "serve")
    assert result.exit_code == 2
    assert "as in: recollect-server serve --data-dir …" in result.stderr
    assert "No such option '--colour'" in run("--colour", "serve").stderr


def test_serve_refuses_what_config_refuses() -> None:
    result = run("serve", "--listen", "0.0.0.0:50051")
    assert result.exit_code == 1
    assert (
        "listen: 0.0.0.0:50051 can be reached from other machines, so it needs TLS" in result.stderr
    )


@each("text", ["1ms", "500ms", "1500ms", "2s", "90s", "10m", "3h", "36h", "7d"])
def test_a_duration_is_printed_as_it_is_written(text: str) -> None:
    assert settings_of("--idle-timeout", text)["idle_timeout"] == text


@each("command", ["verify", "rebuild", "stats", "backup", "restore", "config", "health"])
def test_the_help_of_a_command_fits_a_screen_and_leads_to_all_settings(command: str) -> None:
    text = run(command, "--help").stdout
    assert len(text.splitlines()) < 40
    assert "--data-dir" in text
    assert "`recollect-server serve --help` lists" in " ".join(text.split())
    assert "--idle-timeout" not in text


def test_a_command_that_is_misspelt_is_named() -> None:
    assert "'verfy': do you mean verify?" in run("verfy").stderr
    assert "'frob': there are audit, backup, " in run("frob").stderr


def test_commands_take_flags_that_their_help_leaves_out() -> None:
    assert settings_of("--idle-timeout", "7m")["idle_timeout"] == "7m"


@pytest.mark.parametrize("command", [(), ("backups",), ("token",)])
def test_commands_are_listed_by_whole_sentences(command: tuple[str, ...]) -> None:
    listed = run(*command, "--help").stdout.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


def test_the_help_of_a_flag_says_its_default_as_it_is_written() -> None:
    help_text = " ".join(run("serve", "--help").stdout.split())
    assert "a conversation gets notes after it was quiet for this long [10m]" in help_text
    assert "how long a subscriber may be away without missing updates [7d]" in help_text
