"""Every command of both command lines with values that nobody means: each ends with a sentence and
changes nothing.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from recollect import Client
from recollect.cli.exits import MEANINGS
from recollect.cli.group import commands as client_commands
from recollect_server.run.commands import commands as server_commands
from recollect_server.run.settings import Settings

from tests.client_cli.conftest import Inside, inside
from tests.conftest import RunningServer

__all__ = ["inside"]

UNKNOWN = {
    "conversation": "conv-01HQ0000000000000000000000",
    "communication": "ext-01HQ0000000000000000000000",
}
NUMBERS = [
    "1" + "0" * 20,
    "-1" + "0" * 20,
    "9" * 5000,
    "-1",
    "1e400",
    "nan",
    "0x10",
    "١٢x",
    "",
    "many",
]
ADDRESSES = [
    "127.0.0.1:1",
    "127.0.0.1:99999",
    "localhost",
    "",
    "unix:",
    "\udcff:1",
    "x" * 100_000,
    "http://127.0.0.1:1",
]
DIALLING = {"address", "target"}
TEXTS = [
    "\udcff",
    "x" * 100_000,
    "a\nb",
    "\x1b[2J",
    "\u202e",
    "../../etc/passwd",
    " ",
    "",
    "\x7f",
    "-",
]


def leaves(group: click.Group, *above: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command of a group that is none itself, with the words that name it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, *above, name)
        else:
            yield (*above, name), command


def is_number(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType)


def is_path(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.Path | click.File)


def harmless(parameter: click.Argument, file: Path) -> str:
    """Return a value for an argument that another value is tried beside. No conversation and no
    party has it.
    """
    if is_path(parameter):
        return str(file)
    if isinstance(parameter.type, click.Choice):
        return str(next(iter(parameter.type.choices)))
    name = (parameter.name or "").rstrip("s")
    return UNKNOWN.get(name, "x")


def calls(
    words: tuple[str, ...], command: click.Command, paths: list[str], file: Path, part: int
) -> Iterator[list[str]]:
    """Yield command lines in each of which one value is wrong: of the values for a parameter one in
    `part`, in turn others.
    """
    turn = itertools.count()

    def wrong(parameter: click.Parameter) -> list[str]:
        values = NUMBERS if is_number(parameter) else paths if is_path(parameter) else TEXTS
        return values[next(turn) % part :: part]

    arguments = [it for it in command.params if isinstance(it, click.Argument)]
    usual = [harmless(it, file) for it in arguments]
    for index, argument in enumerate(arguments):
        for value in wrong(argument):
            yield [*words, "--", *usual[:index], value, *usual[index + 1 :]]
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag and option.name not in DIALLING:
            for value in wrong(option):
                # an empty cursor is the beginning, which `tail` would follow
                if value or option.name != "cursor":
                    yield [*words, option.opts[-1], *[value] * option.nargs, "--", *usual]


@pytest.fixture
def wrong_files(tmp_path: Path) -> list[str]:
    """Return paths of unusable files: missing, folders, devices, and files with other contents."""
    contents = {
        "binary": bytes(range(256)) * 40,
        "deep": b"[" * 100_000,
        "deeper": b'{"type":"meta","channel":"web","participants":'
        + b'{"a":' * 50_000
        + b"1"
        + b"}" * 50_001,
        "digits": b'{"type":"meta","channel":"web!","created":' + b"9" * 5000 + b"}\n",
        "empty": b"",
        "half a character": b'{"type":"meta","id":"\\ud800","channel":"\\ud800"}\n',
        "settings": b"threads: " + b"9" * 5000 + b"\n",
        "zeros": b"\0" * 10_000,
    }
    folder = tmp_path / "wrong"
    folder.mkdir()
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "link").symlink_to("nowhere")
    others = [
        "/dev/null",
        str(folder),
        str(folder / "none"),
        str(folder / ("x" * 300)),
        "",
        "\udcff",
    ]
    return [*map(str, sorted(folder.iterdir())), *others]


def test_no_value_makes_recollect_fail_without_a_sentence(
    inside: Inside, client: Client, wrong_files: list[str], tmp_path: Path, scale: int
) -> None:
    nothing = tmp_path / "nothing.jsonl"
    nothing.write_text("")
    tried = 0
    for words, command in leaves(client_commands):
        for line in calls(words, command, wrong_files, nothing, part=3 if scale == 1 else 1):
            ran = inside(*line)
            shown = [it[:50] for it in line]
            assert ran.code in MEANINGS, shown
            assert ("Error: " in ran.err) == (ran.code != 0), (shown, ran)
            assert len(ran.err) < 2000, shown
            tried += 1
    assert tried > 100
    assert list(client.conversations.list()) == []
    assert [it for it in client.external.list_communications() if it.message_count] == []


def test_no_value_makes_recollect_server_fail_without_a_sentence(
    no_log: None,
    server: RunningServer,
    client: Client,
    wrong_files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scale: int,
) -> None:
    monkeypatch.chdir(tmp_path)  # where an export into a folder without a name goes
    before = client.conversations.create("web")
    part = 5 if scale == 1 else 1
    lines: list[list[str]] = []
    for index, name in enumerate(Settings.model_fields):
        flag = f"--{name.replace('_', '-')}"
        lines += [["config", flag, value] for value in [*NUMBERS, *TEXTS][index % part :: part]]
    for index, command in enumerate(["stats", "verify", "rebuild", "config", "health"]):
        lines += [[command, "--config", path] for path in wrong_files[index % part :: part]]
        lines += [
            [command, "--listen", ADDRESSES[0], "--data-dir", path]
            for path in wrong_files[index % part :: part]
        ]
    for address in ADDRESSES:
        lines += [["health", "--address", address]]
    for path in wrong_files[:: min(part, 2)]:
        lines += [["restore", "--data-dir", str(tmp_path / "new"), "--", path]]
    for line in lines:
        result = CliRunner().invoke(server_commands, line)
        shown = [it[:50] for it in line]
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            shown,
            repr(result.exception)[:300],
        )
        assert result.exit_code in {0, 1, 2}, shown
        assert result.exit_code == 0 or result.output.strip(), shown
    assert [it.id for it in client.conversations.list()] == [before.id]
