"""The commands of `recollect-server` over a data folder with several spaces."""

from pathlib import Path

import pytest

from tests.conftest import RunningServer, Start
from tests.server_cli.conftest import on, run
from tests.spaces.conftest import Enter

SPACES = ("default", "ana", "bo")


@pytest.fixture
def three(server: RunningServer, enter: Enter) -> RunningServer:
    """Start a server with three spaces that each have a conversation."""
    for space in SPACES:
        enter(server.target, space).conversation_of(f"Words of {space}")
    return server


def test_a_backup_has_every_space(
    three: RunningServer, start_server: Start, enter: Enter, tmp_path: Path
) -> None:
    result = on(three, "backup", tmp_path / "copy")
    assert (result.exit_code, result.stdout.split(",")[0]) == (0, "3 conversations")
    three.stop()
    new = ("--data-dir", tmp_path / "new")
    assert run("restore", tmp_path / "copy", *new).exit_code == 0
    assert run("verify", *new).stdout.startswith("3 conversations, 3 messages in 3 spaces, 0 ")
    again = start_server(data_dir=tmp_path / "new")
    for space in SPACES:
        service = enter(again.target, space)
        (name,) = service.found("words")
        assert service.load(name).messages[0].content == f"Words of {space}"


def test_a_backup_of_one_space_has_that_one_alone(three: RunningServer, tmp_path: Path) -> None:
    result = on(three, "backup", tmp_path / "copy", "--space", "ana")
    assert result.stdout.startswith("1 conversation, ")
    names = {path.name for path in (tmp_path / "copy").iterdir()}
    assert names == {"ana", "backup.json", "recollect.format"}
    new = ("--data-dir", tmp_path / "new")
    assert run("restore", tmp_path / "copy", *new).exit_code == 0
    (copied,) = (tmp_path / "new" / "default" / "conversations").glob("*.jsonl")
    assert b"Words of ana" in copied.read_bytes()


def test_a_damaged_space_is_named(three: RunningServer) -> None:
    three.stop()
    (path,) = (three.data_dir / "bo" / "conversations").glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"Words", b"Swords"))
    result = on(three, "verify")
    assert result.exit_code == 1
    problems = result.stdout.splitlines()[1:]
    assert problems
    assert all(line.startswith("space bo: ") for line in problems)
    assert on(three, "verify", "--space", "ana").exit_code == 0


def test_stats_and_rebuild_are_of_all_spaces_or_of_one(three: RunningServer) -> None:
    lines = on(three, "stats").stdout.splitlines()
    assert lines[0] == "spaces: 3"
    named = [line.removeprefix("space: ") for line in lines if line.startswith("space: ")]
    assert named == ["default", "ana", "bo"]
    assert lines.count("conversations: 1") == 3
    assert on(three, "stats", "--space", "bo").stdout.splitlines()[0] == "conversations: 1"
    three.stop()
    rebuilt = on(three, "rebuild").stdout.splitlines()
    assert [line.split(":")[0] for line in rebuilt] == ["space default", "space ana", "space bo"]
