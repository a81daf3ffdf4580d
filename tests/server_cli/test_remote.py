"""Commands that reach a running server, and what they print about one that is not theirs."""

from pathlib import Path

import click
import pytest
from recollect._shared.channel import ADDRESS
from recollect.cli.group import commands as client_commands
from recollect_server.run.commands import commands, health

from tests.cases import each
from tests.conftest import RunningServer
from tests.server_cli.conftest import run

NOBODY = "127.0.0.1:1"
DIALLING = {"health"}
"""The commands of `recollect-server` that call a running server."""


def test_every_command_that_calls_a_server_takes_its_address_by_one_name() -> None:
    groups: list[click.Group] = [client_commands]
    while groups:
        for command in groups.pop().commands.values():
            if isinstance(command, click.Group):
                groups.append(command)
            else:
                shown = [
                    opt
                    for it in command.params
                    if not getattr(it, "hidden", False)
                    for opt in it.opts
                ]
                assert "--address" in shown, command.name
    context = click.Context(commands)
    for name in commands.list_commands(context):
        loaded = commands.get_command(context, name)
        assert loaded is not None
        shown = [opt for it in loaded.params if not getattr(it, "hidden", False) for opt in it.opts]
        assert ("--address" in shown) == (name in DIALLING), name
        assert "--target" not in shown
    assert health.ADDRESS == ADDRESS


def test_the_address_is_a_flag_or_stands_in_the_environment(server: RunningServer) -> None:
    ways: list[tuple[list[str], dict[str, str | None]]] = [
        (["--address", server.target], {ADDRESS: NOBODY, "RECOLLECT_LISTEN": NOBODY}),
        ([], {ADDRESS: server.target, "RECOLLECT_LISTEN": NOBODY}),
        ([], {ADDRESS: "", "RECOLLECT_LISTEN": server.target}),
    ]
    for flags, environment in ways:
        result = run("health", *flags, env=environment)
        assert (result.exit_code, result.output) == (0, "SERVING\n")


def test_what_is_said_on_the_command_line_goes_before_the_environment(
    server: RunningServer, tmp_path: Path
) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text(f"listen: {server.target}\n")
    assert run("health", "--config", config, env={ADDRESS: NOBODY}).exit_code == 0
    assert run("health", "--listen", server.target, env={ADDRESS: NOBODY}).output == "SERVING\n"


@each(
    "address",
    ["127.0.0.1:99999", "localhost", "http://127.0.0.1:1", "unix:", "a b:1", "127.0.0.1:"],
)
def test_an_address_that_is_none_is_refused_by_name(address: str) -> None:
    for result, code, named in (
        (run("health", "--address", address), 2, "'--address': "),
        (run("health", env={ADDRESS: address}), 1, f"{ADDRESS}: "),
    ):
        assert (result.exit_code, result.stdout) == (code, "")
        assert named in result.stderr
        assert "127.0.0.1:50051" in result.stderr  # how one looks


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_command_that_moved_says_where_to(
    command: str, server: RunningServer, tmp_path: Path
) -> None:
    result = run(command, tmp_path, "--target", server.target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"moved: recollect {command}" in result.stderr


@pytest.mark.parametrize("arguments", [["backup", ""], ["restore", ""], ["serve", "--config", ""]])
def test_an_empty_path_is_refused_and_is_not_the_current_folder(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert "must not be empty" in result.output
    assert list(tmp_path.iterdir()) == []
