"""A restore that is killed at any step, or that fails: nobody serves a part of the backup, and the
same command finishes it in the same place.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from signal import SIGKILL

import pytest
from recollect import CheckpointRecord, Client, Message
from recollect_server.kernel.domain.keys import new_key
from recollect_server.kernel.failpoints import FAILPOINTS
from recollect_server.run.folder import CannotStart

from tests.anchors.conftest import set_anchor
from tests.conftest import RunningServer, Start
from tests.programs import SERVER, Forked
from tests.server.conftest import Connect, answers
from tests.server_cli.conftest import QUERIES, on, run

OF_RESTORES = {point for point in FAILPOINTS if point.startswith("restore.")}


@pytest.fixture
def backup(server: RunningServer, filled: list[str], connect: Connect, tmp_path: Path) -> Path:
    """Back up logs of every kind in two spaces, with a key, and stop the server."""
    for space in ("default", "ada"):
        with Client(server.target, space=space) as client:
            client.conversations.create("web", messages=[Message.user(f"apricot of {space}")])
            client.channels.add_owner_identity("whatsapp", "+1555000")
            client.channels.receive("whatsapp", "m2", "butter of a stranger", sender="+1555999")
            client.checkpoints.put_records("alex", [CheckpointRecord("a", b"1" * 3000)])
    set_anchor(connect(server), "name", "Alex")
    for name, keys in (("encrypted", {"RECOLLECT_BACKUP_KEY": KEY}), ("plain", {})):
        made = run("backup", tmp_path / name, "--data-dir", server.data_dir, env=keys)
        assert made.exit_code == 0
    return tmp_path


KEY = new_key().text
POINTS = [(point, 1) for point in sorted(OF_RESTORES)]
POINTS += [("restore.named", 3), ("restore.copied", 6), ("restore.indexed", 2)]


def logs_of(data_dir: Path) -> dict[str, bytes]:
    names = (path for path in data_dir.rglob("*.jsonl") if path.name != "audit.jsonl")
    return {str(path.relative_to(data_dir)): path.read_bytes() for path in names}


def remains(data_dir: Path) -> list[str]:
    """Return the names of what only a restore that has not ended may leave."""
    return [it.name for it in data_dir.rglob("*") if "restoring" in it.name]


def killed(point: str, *arguments: object) -> None:
    environment = os.environ | {"RECOLLECT_KILL_AT": point, "RECOLLECT_BACKUP_KEY": KEY}
    with Forked(SERVER, [*map(str, arguments)], env=environment, stdout=subprocess.DEVNULL) as it:
        assert it.wait() == -SIGKILL, point


def test_a_restore_that_is_killed_at_any_step_is_finished_by_its_repeat(
    backup: Path, server: RunningServer, start_server: Start, connect: Connect
) -> None:
    before = answers(connect(server), QUERIES)
    server.stop()
    expected = logs_of(server.data_dir)
    assert {Path(it).parent.name for it in expected} >= {"ada", "threads", "external"}
    new = backup / "new"
    for point, nth in POINTS:
        restore = ("restore", backup / "encrypted", "--data-dir", new)
        killed(f"{point}:{nth}", *restore)
        if is_whole := point == "restore.ended":
            assert "is not empty" in run(*restore, env={"RECOLLECT_BACKUP_KEY": KEY}).stderr
        else:
            with pytest.raises(CannotStart, match=f"holds a part of the backup {restore[1]}: run"):
                start_server(data_dir=new)
            again = run(*restore, env={"RECOLLECT_BACKUP_KEY": KEY})
            assert (again.exit_code, point) == (0, point), again.output
        assert (is_whole, logs_of(new) == expected, remains(new)) == (is_whole, True, []), point
        if (point, nth) != POINTS[-1]:
            shutil.rmtree(new)
    assert run("verify", "--data-dir", new).exit_code == 0
    assert answers(connect(start_server(data_dir=new)), QUERIES) == before


def test_nobody_uses_a_part_of_a_backup_and_nothing_else_is_put_into_its_place(
    backup: Path, server: RunningServer, tmp_path: Path
) -> None:
    server.stop()
    new = tmp_path / "new"
    killed("restore.named:3", "restore", backup / "plain", "--data-dir", new)
    part = f"the data folder {new} holds a part of the backup {backup / 'plain'}: run `recollect-"
    for command in (
        ("verify",), ("rebuild",), ("stats",), ("backup", tmp_path / "copy"), ("serve",),
    ):  # fmt: skip
        refused = run(*command, "--data-dir", new)
        assert (refused.exit_code, part in refused.stderr) == (1, True), command
    for origin, target in ((new, tmp_path / "b"), (server.data_dir, new)):
        assert part in run("migrate", "--from", origin, "--to", target).stderr
    other = run("restore", backup / "plain", "--data-dir", new, "--space", "bob")
    assert other.stderr == (
        f"Error: {new} holds a part of the backup {backup / 'plain'}, in the spaces default, ada:"
        " restore that again first, or name an empty folder with --data-dir\n"
    )
    again = run("restore", backup / "plain", "--data-dir", new)
    assert (again.exit_code, logs_of(new)) == (0, logs_of(server.data_dir))
    assert "An earlier restore into this folder did not end: begun anew.\n" in again.stderr


def test_a_restore_removes_nothing_that_was_there_before_it(
    backup: Path, server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    """A refused restore, repeated, and one beside a space that is there."""
    server.stop()
    shutil.rmtree(server.data_dir / "ada")
    before = logs_of(server.data_dir)
    for _ in range(2):
        assert "is not empty" in on(server, "restore", backup / "plain").stderr
        assert logs_of(server.data_dir) == before
    killed("restore.copied", "restore", backup / "plain", "--space", "ada", "--data-dir",
           server.data_dir)  # fmt: skip
    assert "is not empty" in on(server, "restore", backup / "plain").stderr
    assert "begun anew" in on(server, "restore", backup / "plain", "--space", "ada").stderr
    after = logs_of(server.data_dir)
    assert before.items() < after.items()
    assert any(name.startswith("ada/external/") for name in after)
    assert on(server, "verify").exit_code == 0


def test_a_restore_that_fails_before_it_copies_leaves_no_mark_and_a_later_failure_does(
    backup: Path, server: RunningServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    new = tmp_path / "new"
    without = run("restore", backup / "encrypted", "--data-dir", new)
    assert "name the file that has it" in without.stderr
    assert remains(new) == []
    with Client(server.target) as client:
        long = client.conversations.create("web")
        for _ in range(5):
            client.conversations.append_turn(long.id, [Message.user("x" * 700_000)])
    assert on(server, "backup", tmp_path / "long").exit_code == 0
    request.getfixturevalue("small_disk")
    failed = run("restore", tmp_path / "long", "--data-dir", new)
    assert (failed.exit_code, "File too large" in failed.stderr) == (1, True)
    assert json.loads((new / "restoring.json").read_text()) == {
        "backup": str(tmp_path / "long"),
        "spaces": ["default", "ada"],
    }
