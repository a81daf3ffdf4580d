"""`backup` and `restore`: all that was acknowledged, byte for byte, and what is not as it was is
named.
"""

import threading
from pathlib import Path

import pytest
from recollect_server.backup.folder import back_up
from recollect_server.kernel.domain.keys import new_key
from recollect_server.kernel.log.folder import FolderStore

from tests.at_rest import lines_of
from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, answers, transcript, user
from tests.server_cli.conftest import QUERIES, on, run


def test_a_restored_backup_gives_the_same_answers_byte_for_byte(
    server: RunningServer, filled: list[str], start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    before = answers(connect(server), QUERIES)
    result = on(server, "backup", tmp_path / "copy")
    assert result.exit_code == 0
    assert result.stdout.startswith("4 conversations, ")
    assert not list((tmp_path / "copy").rglob("*.db"))
    new = ("--data-dir", tmp_path / "new")
    restored = run("restore", tmp_path / "copy", *new)
    assert restored.exit_code == 0
    assert "held no tokens: until `recollect-server token create` makes one" in restored.stderr
    assert run("verify", *new).exit_code == 0
    assert (tmp_path / "new/recollect.format").exists()  # before a server has used it
    for name in filled:
        assert (
            tmp_path / "new/default/conversations" / f"{name}.jsonl"
        ).read_bytes() == transcript(server, name).read_bytes()
    again = start_server(data_dir=tmp_path / "new")
    assert again.app.recovered.messages == 0
    assert answers(connect(again), QUERIES) == before


def test_a_server_can_run_on_a_backup_itself(
    server: RunningServer, filled: list[str], start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    before = answers(connect(server), QUERIES)
    assert on(server, "backup", tmp_path / "copy").exit_code == 0
    assert answers(connect(start_server(data_dir=tmp_path / "copy")), QUERIES) == before


def test_a_backup_under_load_has_all_that_was_acknowledged_before_it_and_only_whole_batches(
    server: RunningServer, connect: Connect, tmp_path: Path
) -> None:
    service = connect(server)
    ids = [service.create().id for _ in range(4)]
    counts = dict.fromkeys(ids, 0)
    stop = threading.Event()
    began = threading.Barrier(5)

    def write(name: str) -> None:
        while not stop.is_set():
            service.append(
                name, *(user(f"message {counts[name]} {n} " + "x" * 3000) for n in range(5))
            )
            counts[name] += 5
            if counts[name] == 25:
                began.wait(30)

    threads = [threading.Thread(target=write, args=(name,)) for name in ids]
    for thread in threads:
        thread.start()
    began.wait(30)
    try:
        for number in range(3):
            acknowledged = dict(counts)
            assert on(server, "backup", tmp_path / f"copy{number}").exit_code == 0
            for name in ids:
                lines = lines_of(tmp_path / f"copy{number}/default/conversations/{name}.jsonl")
                assert all(line.entry is not None for line in lines)
                assert len(lines) - 1 >= acknowledged[name]
                assert (len(lines) - 1) % 5 == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert run("restore", tmp_path / "copy2", "--data-dir", tmp_path / "new").exit_code == 0
    assert run("verify", "--data-dir", tmp_path / "new").exit_code == 0


def test_a_backup_leaves_out_a_torn_tail(
    server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    server.stop()
    path = transcript(server, filled[0])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"type":"turn","half')
    assert on(server, "backup", tmp_path / "copy").exit_code == 0
    assert (tmp_path / "copy/default/conversations" / path.name).read_bytes() == whole


def test_a_backup_into_a_folder_with_something_in_it_is_refused(
    server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mine").write_text("")
    result = on(server, "backup", tmp_path / "copy")
    assert result.exit_code == 1
    assert "is not empty: name a new folder" in result.stderr
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["mine"]


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_backup_that_the_disk_has_no_room_for_leaves_nothing_and_says_so(
    server: RunningServer,
    connect: Connect,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    is_encrypted: bool,
    is_there: bool,
) -> None:
    service = connect(server)
    service.create()
    service.append(service.create().id, *(user("x" * 700_000) for _ in range(5)))
    server.stop()
    copy = tmp_path / "copy"
    if is_there:
        copy.mkdir()
    keys = {"RECOLLECT_BACKUP_KEY": new_key().text} if is_encrypted else {}
    request.getfixturevalue("small_disk")
    result = run("backup", copy, "--data-dir", server.data_dir, env=keys)
    assert (result.exit_code, "File too large" in result.stderr) == (1, True)
    assert ([*copy.iterdir()] if copy.exists() else None) == ([] if is_there else None)


def test_a_folder_that_another_backup_writes_is_left_to_it(
    server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    theirs = copy / f"default/conversations/{min(filled)}.jsonl"

    def begin_another(_done: int, _of: int) -> None:
        theirs.write_text("theirs")

    with pytest.raises(FileExistsError):
        back_up({"default": FolderStore.of(server.data_dir, "default")}, copy, begin_another)
    assert theirs.read_text() == "theirs"


def test_a_damaged_line_is_backed_up_as_it_is_and_named(
    server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    path = transcript(server, filled[1])
    path.write_bytes(path.read_bytes().replace(b'"zebra 0', b'"zebrA 0'))
    result = on(server, "backup", tmp_path / "copy")
    assert result.exit_code == 1
    assert f"{filled[1]}: line 2 is damaged" in result.stdout
    assert (tmp_path / "copy/default/conversations" / path.name).read_bytes() == path.read_bytes()


def test_restore_names_what_is_not_as_it_was_backed_up_and_restores_the_rest(
    server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    assert on(server, "backup", tmp_path / "copy").exit_code == 0
    folder = tmp_path / "copy/default/conversations"
    (folder / f"{filled[0]}.jsonl").unlink()
    changed = folder / f"{filled[1]}.jsonl"
    changed.write_bytes(changed.read_bytes().replace(b'"zebra 0', b'"zebrA 0'))
    result = run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new")
    assert result.exit_code == 1
    assert f"{filled[0]}: is missing in the backup" in result.stdout
    assert f"{filled[1]}: is not as it was backed up" in result.stdout
    assert f"{filled[1]}: line 2 is damaged" in result.stdout
    assert len(list((tmp_path / "new/default/conversations").glob("*.jsonl"))) == 3


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        b"{",
        b"{}",
        b'{"space":"default","files":7}',
        b'{"space":"default","files":{"../x":[1,2]}}',
    ],
)
def test_a_backup_that_is_not_complete_is_not_restored(
    server: RunningServer, filled: list[str], tmp_path: Path, manifest: bytes | None
) -> None:
    assert on(server, "backup", tmp_path / "copy").exit_code == 0
    (tmp_path / "copy/backup.json").unlink()
    if manifest is not None:
        (tmp_path / "copy/backup.json").write_bytes(manifest)
    result = run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new")
    assert result.exit_code == 1
    assert "backup.json" in result.stderr
    assert not list((tmp_path / "new").rglob("*.jsonl"))


def test_a_restore_over_something_is_refused_and_one_that_was_interrupted_begins_anew(
    server: RunningServer, filled: list[str], tmp_path: Path
) -> None:
    assert on(server, "backup", tmp_path / "copy").exit_code == 0
    server.stop()
    result = on(server, "restore", tmp_path / "copy")
    assert result.exit_code == 1
    assert "is not empty" in result.stderr
    half = tmp_path / "new/default/conversations.restoring"
    half.mkdir(parents=True)
    (half / f"{filled[0]}.jsonl").write_text("half")
    assert run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new").exit_code == 0
    assert not half.exists()
    assert run("verify", "--data-dir", tmp_path / "new").exit_code == 0
