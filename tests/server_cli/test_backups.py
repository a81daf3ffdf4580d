"""Scheduled backups: a folder with the time in its name, verified, and older ones removed by rules,
but never the last good one.
"""

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import hypothesis
import pytest
from click.testing import Result
from hypothesis import strategies
from recollect_server.backup.folder import BackupFolder, verified
from recollect_server.backup.manifest import CannotCopy
from recollect_server.backup.names import backup_time, kept, parse_keep

from tests.conftest import RunningServer, Start
from tests.programs import SERVER, Forked
from tests.server.conftest import Connect, agent, answers, delete_index, user
from tests.server_cli.conftest import QUERIES, on, run

NOW = datetime(2026, 11, 22, 3, tzinfo=UTC)


def milliseconds(time: datetime) -> int:
    return int(time.timestamp() * 1000)


@pytest.fixture
def made(server: RunningServer, filled: list[str], tmp_path: Path) -> Path:
    """Return a good backup, from which a test makes others."""
    assert on(server, "backup", tmp_path / "made").exit_code == 0
    return tmp_path / "made"


def age(folder: Path, made: Path, *days: float) -> list[Path]:
    """Make a copy of a backup for each number of days before NOW, by hard links."""
    paths = []
    for number in days:
        path = folder / f"recollect-{NOW - timedelta(days=number):%Y%m%dt%H%M%Sz}"
        for source in sorted(made.rglob("*")):
            target = path / source.relative_to(made)
            if source.is_dir():
                target.mkdir(parents=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(source, target)
        paths.append(path)
    return paths


def damage(backup: Path) -> None:
    """Change a byte of a backup, in a copy of the file that it shares with others."""
    path = next(backup.rglob("conv-*.jsonl"))
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data.replace(b"zebra", b"zebrA", 1))


def prune(folder: Path, *arguments: str) -> Result:
    return run("backups", "prune", "--backup-dir", folder, *arguments)


def test_a_backup_without_a_folder_goes_into_backup_dir_and_the_rules_remove_older_ones(
    server: RunningServer, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    old = age(folder, made, 400, 2, 1)
    (folder / "mine").mkdir()
    (folder / "recollect-notes").mkdir()
    flags = ("--backup-dir", folder, "--backup-keep", "daily=2")
    result = on(server, "backup", *flags)
    assert result.exit_code == 0
    assert f"removed {old[0]}" in result.stdout
    assert "backed up to" in result.stdout
    # The clock of the machine is not the tests': what is newest by it is one of two that stay.
    stays = {it.path for it in BackupFolder(folder).stored()}
    assert len(stays) == 2
    assert {it.name for it in folder.iterdir()} == {it.name for it in stays} | {
        "mine",
        "recollect-notes",
    }
    assert run("backups", "verify", "--backup-dir", folder).stdout.count(" good\n") == 2
    partial = on(server, "backup", "--backup-dir", folder, "--space", "default")
    assert "partial-" in partial.stdout
    assert {it.path for it in BackupFolder(folder).stored()} == stays


def test_a_backup_without_a_folder_needs_one_to_be_set(server: RunningServer) -> None:
    result = on(server, "backup")
    assert result.exit_code == 2
    assert "the folder of all backups, --backup-dir" in result.stderr


@pytest.mark.parametrize("command", ["list", "verify", "prune", "rekey"])
def test_a_folder_of_backups_that_is_not_there_is_not_taken_for_an_empty_one(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "misspelt", tmp_path / "file"):
        flags = ("--backup-keep", "last=1") if command == "prune" else ()
        result = run("backups", command, "--backup-dir", path, *flags)
        assert result.exit_code == 1
        assert f"there is no folder {path}: name another with --backup-dir" in result.stderr


def test_the_last_good_backup_stays_whatever_the_rules_say(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    newest, middle, oldest = age(folder, made, 1, 2, 30)
    damage(newest)
    damage(middle)
    shown = prune(folder, "--backup-keep", "last=1", "--dry-run")
    assert (shown.exit_code, shown.stdout.splitlines()[0]) == (0, f"would remove {middle}")
    assert middle.exists()
    assert prune(folder, "--backup-keep", "last=1").exit_code == 0
    assert (newest.exists(), middle.exists(), oldest.exists()) == (True, False, True)
    checked = run("backups", "verify", "--backup-dir", folder)
    assert checked.exit_code == 1
    assert "is not as it was backed up" in checked.stdout


def test_nothing_is_removed_where_no_backup_is_good(made: Path, tmp_path: Path) -> None:
    paths = age(tmp_path / "backups", made, 1, 2, 3)
    for path in paths:
        damage(path)
    result = prune(tmp_path / "backups", "--backup-keep", "last=1")
    assert result.exit_code == 1
    assert "is good: nothing is removed" in result.stderr
    assert all(path.exists() for path in paths)


def test_a_backup_of_a_damaged_transcript_does_not_push_out_the_one_before_the_damage(
    server: RunningServer, filled: list[str], made: Path, tmp_path: Path
) -> None:
    before = age(tmp_path / "backups", made, 1)[0]
    path = server.folder / f"{filled[1]}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"zebra 0', b'"zebrA 0'))
    assert on(server, "backup", tmp_path / "damaged").exit_code == 1
    age(tmp_path / "backups", tmp_path / "damaged", 0)
    assert prune(tmp_path / "backups", "--backup-keep", "last=1").exit_code == 0
    assert before.exists()
    checked = run("backups", "verify", "--backup-dir", tmp_path / "backups")
    assert "damaged when it was made: 1 line" in checked.stdout
    damage(before)  # now none is good, and the new one is not either
    flags = ("--backup-dir", tmp_path / "backups", "--backup-keep", "last=1")
    unpruned = on(server, "backup", *flags)
    assert (unpruned.exit_code, before.exists()) == (1, True)
    assert "is good: nothing is removed" in unpruned.stderr


def test_a_new_backup_that_the_disk_does_not_give_back_is_refused(made: Path) -> None:
    assert verified(made).is_good
    damage(made)
    with pytest.raises(CannotCopy, match="its disk may be failing: conv-"):
        verified(made)


def test_an_interrupted_backup_is_no_backup_and_is_removed_after_a_day(
    made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    running, interrupted, good = age(folder, made, 0, 2, 3)
    for path in (running, interrupted):
        (path / "backup.json").unlink()
    (folder / f".removing-{good.name}").mkdir()
    done = BackupFolder(folder).prune(parse_keep("last=1"), milliseconds(NOW))
    assert [it.path for it in done.removed] == [interrupted]
    assert {it.name for it in folder.iterdir()} == {running.name, good.name}
    assert "(not complete)" in run("backups", "list", "--backup-dir", folder).stdout


def test_backups_that_cannot_be_read_are_named_and_the_others_verified(
    made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    log, archive, good = age(folder, made, 1, 2, 3)
    link = next(log.rglob("conv-*.jsonl"))
    link.unlink()
    link.symlink_to(next(made.rglob("conv-*.jsonl")))
    (archive / "backup.encrypted").symlink_to(made / "backup.json")
    flags = ("--backup-dir", folder)
    listed = run("backups", "list", *flags)
    assert (listed.exit_code, "(encrypted, its start is damaged)" in listed.stdout) == (0, True)
    checked = run("backups", "verify", *flags)
    assert checked.exit_code == 1
    for path in (link, archive / "backup.encrypted"):
        assert f"{path}: Too many levels of symbolic links" in checked.stdout
    assert f"{good}: " in checked.stdout
    assert prune(folder, "--backup-keep", "last=1").exit_code == 0
    assert (log.exists(), archive.exists(), good.exists()) == (True, False, True)
    assert (made / "backup.json").exists()


def test_several_that_remove_the_same_backups_at_once_do_not_disturb_each_other(
    made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    newest, *_ = age(folder, made, *range(40))
    together = threading.Barrier(4)

    def remove() -> None:
        together.wait(30)
        BackupFolder(folder).prune(parse_keep("last=1"), milliseconds(NOW))

    with ThreadPoolExecutor(4) as pool:
        for pruned in [pool.submit(remove) for _ in range(4)]:
            pruned.result()
    assert list(folder.iterdir()) == [newest]


@hypothesis.given(
    strategies.lists(strategies.datetimes(datetime(2020, 1, 1), datetime(2026, 1, 1)), max_size=30),  # noqa: DTZ001
    strategies.integers(0, 5),
    strategies.integers(0, 5),
)
def test_the_rules_keep_the_newest_of_each_of_the_last_periods(
    times: list[datetime], daily: int, monthly: int
) -> None:
    rules = parse_keep(f"last=1 daily={daily} monthly={monthly}")
    stays = kept(times, rules)
    newest_first = sorted(set(times), reverse=True)
    for form, count in (("%F", daily), ("%Y-%m", monthly)):
        newest = {time.strftime(form): time for time in reversed(newest_first)}
        assert {newest[it] for it in sorted(newest, reverse=True)[:count]} <= stays
    assert len(stays) <= 1 + daily + monthly
    assert not times or max(times) in stays


@pytest.mark.parametrize("text", ["weekly", "often=3", "daily=0", "daily=1 daily=2", "daily=-1"])
def test_rules_that_say_nothing_are_refused(text: str, tmp_path: Path) -> None:
    result = prune(tmp_path, "--backup-keep", text)
    assert result.exit_code == 1
    assert "backup_keep: " in result.stderr
    assert backup_time("recollect-20261399t000000z") is None


def test_a_busy_server_restored_elsewhere_gives_the_same_answers(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    """Drill a restore. What the answers must be comes from the logs of the busy server itself, cut
    to the lengths of the backup and indexed anew.
    """
    server = start_server()
    service = connect(server)
    acknowledged: dict[str, int] = {}
    stop, busy = threading.Event(), threading.Barrier(3)

    def write() -> None:
        name, count = service.create().id, 0
        while not stop.is_set() and count < 400:  # what they write is read again below
            service.append(name, user(f"zebra {count} 北京" * 20), agent(f"butter {count}"))
            count += 1
            acknowledged[name] = 2 * count
            if count == 10:
                busy.wait(30)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    busy.wait(30)
    folders = ("--data-dir", str(server.data_dir), "--backup-dir", str(tmp_path / "backups"))
    try:
        before = dict(acknowledged)
        backing_up = Forked(SERVER, ["backup", *folders], stdout=subprocess.DEVNULL)
        assert backing_up.wait() == 0
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    [backup] = BackupFolder(tmp_path / "backups").stored()
    assert run("restore", backup.path, "--data-dir", tmp_path / "elsewhere").exit_code == 0
    assert run("verify", "--data-dir", tmp_path / "elsewhere").exit_code == 0
    server.stop()
    delete_index(server)
    restored = tmp_path / "elsewhere/default/conversations"
    for path in server.folder.glob("*.jsonl"):
        data = (restored / path.name).read_bytes()
        assert data.count(b"\n") > before[path.stem]
        assert path.read_bytes().startswith(data)
        os.truncate(path, len(data))
    elsewhere = connect(start_server(data_dir=tmp_path / "elsewhere"))
    expected = connect(start_server(data_dir=server.data_dir))
    assert answers(elsewhere, QUERIES) == answers(expected, QUERIES)
