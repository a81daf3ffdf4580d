"""Backups that an administrator asks for by a call."""

import os
from pathlib import Path

import pytest
import structlog
from recollect import Client, FailedPrecondition, InvalidArgument, Message, StoredBackup
from recollect_server.access.principal import EVERY_SPACE
from recollect_server.kernel.domain.time import system_clock

from tests.conftest import Start
from tests.credentials.conftest import grant, tokens_of
from tests.server_cli.conftest import run


def test_a_backup_holds_what_was_acknowledged_and_can_be_restored(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(backup_dir=tmp_path / "backups")
    for space in ("default", "ada"):
        with Client(server.target, space=space) as client:
            conversation = client.conversations.create("web")
            client.conversations.append_turn(conversation.id, [Message.user(f"I am {space}.")])
    with Client(server.target) as client:
        made = client.admin.backup(name="tuesday")
        assert (made.spaces, made.conversations, made.problems) == (("default", "ada"), 2, ())
        assert Path(made.path) == tmp_path / "backups" / "tuesday"
        with pytest.raises(InvalidArgument, match="there is a backup tuesday already"):
            client.admin.backup(name="tuesday")
        again = client.admin.backup()
        assert Path(again.path).name.startswith("recollect-")
    restored = run("restore", made.path, "--data-dir", tmp_path / "restored")
    assert (restored.exit_code, "2 conversations" in restored.stdout) == (0, True)


def test_an_administrator_of_a_space_backs_up_that_space_alone(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(backup_dir=tmp_path / "backups", auth="required")
    tokens = tokens_of(server.data_dir, system_clock)
    own, all_ = (tokens.create(grant("admin", it))[1] for it in ("ada", EVERY_SPACE))
    for space in ("ada", "ben"):
        with Client(server.target, token=all_, space=space) as client:
            client.conversations.create("web")
    with Client(server.target, token=own) as client:
        assert client.admin.backup().spaces == ("ada",)
    with Client(server.target, token=all_) as client:
        assert client.admin.backup(name="all").spaces == ("default", "ada", "ben")


def test_a_backup_by_a_call_is_followed_by_the_removal_of_older_ones(
    start_server: Start, tmp_path: Path
) -> None:
    server = start_server(backup_dir=tmp_path / "backups", backup_keep="last=1", auth="required")
    tokens = tokens_of(server.data_dir, system_clock)
    own, all_ = (tokens.create(grant("admin", it))[1] for it in ("ada", EVERY_SPACE))
    with Client(server.target, token=own) as client:
        client.conversations.create("web")
        partial = client.admin.backup()
    with Client(server.target, token=all_) as client:
        named = client.admin.backup(name="tuesday")
        first = client.admin.backup()
        server.clock.move(1000)
        second = client.admin.backup()
        assert sorted(path.name for path in (tmp_path / "backups").iterdir()) == sorted(
            Path(it.path).name for it in (partial, named, second)
        )
        assert first.path != second.path
        # a removal removes folders, and fails at a file
        (tmp_path / "backups/.removing-recollect-file").touch()
        server.clock.move(1000)
        with structlog.testing.capture_logs() as lines:
            assert Path(client.admin.backup().path).is_dir()
        assert "backups_not_removed" in {line["event"] for line in lines}
        for setting, value in (("backup_keep", ""), ("backup_dir", str(tmp_path))):
            with pytest.raises(InvalidArgument, match="where data lies"):
                client.admin.set_setting(setting, value)


def test_the_backups_are_listed_newest_first_as_the_command_lists_them(
    start_server: Start, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    server = start_server(backup_dir=folder)
    with Client(server.target) as client:
        assert list(client.admin.list_backups()) == []
        client.conversations.create("web", messages=[Message.user("Hello.")])
        first = client.admin.backup()
        server.clock.move(60_000)
        second = client.admin.backup()
        named = client.admin.backup(name="tuesday")
        # within the millisecond that a page's place has, the later one by its name first
        other = client.admin.backup(name="monday")
        for name, nanoseconds in (("monday", 400_000), ("tuesday", 100_000)):
            times = 2 * (1_700_000_000_000_000_000 + nanoseconds,)
            os.utime(folder / name / "backup.json", ns=times)
        (folder / "recollect-20200101t000000z").mkdir()  # it was interrupted
        (folder / "no-backup").mkdir()
        (folder / ".removing-recollect-20200102t000000z").mkdir()
        listed = list(client.admin.list_backups())
        assert {
            (it.path, it.spaces, it.conversations, it.bytes) for it in listed if it.complete
        } == {(it.path, ("default",), 1, it.bytes) for it in (first, second, named, other)}
        assert [it.create_time for it in listed] == sorted(
            (it.create_time for it in listed), reverse=True
        )
        oldest = listed[-1]
        assert (oldest.name, oldest.complete) == ("recollect-20200101t000000z", False)
        assert not any(it.encrypted or it.problem or it.damaged_lines for it in listed)
        pages: list[StoredBackup] = []
        token = None
        while token != "":
            page = client.admin.list_backups_page(page_size=1, page_token=token)
            pages += page.backups
            token = page.next_page_token
        assert pages == listed
        # one that was changed since is read anew
        (Path(second.path) / "backup.json").write_text("{}")
        problem = next(it for it in client.admin.list_backups() if it.path == second.path)
        assert (problem.complete, "cannot be read" in problem.problem) == (False, True)
    command = run("backups", "list", "--backup-dir", folder).stdout.splitlines()
    assert [line.split("  ")[1] for line in command] == [it.path for it in listed]


def test_encrypted_backups_are_listed_with_their_key_and_without_contents(
    start_server: Start, tmp_path: Path
) -> None:
    keys, folder = tmp_path / "keys", tmp_path / "backups"
    assert run("backups", "new-key", keys).exit_code == 0
    server = start_server(backup_dir=folder, backup_key_file=keys)
    with Client(server.target) as client:
        made = client.admin.backup(name="locked")
        (it,) = client.admin.list_backups()
        size = (folder / "locked" / "backup.encrypted").stat().st_size
        assert (it.path, it.encrypted, it.complete, it.bytes) == (made.path, True, True, size)
        assert f"key {it.key_id}" in run("backups", "list", "--backup-dir", folder).stdout
        assert (it.spaces, it.conversations) == ((), 0)
        (folder / "locked" / "backup.encrypted").write_bytes(b"nothing")
        (it,) = client.admin.list_backups()
        assert (it.complete, it.key_id, it.problem) == (False, "", "its start is damaged")


def test_an_administrator_of_a_space_sees_no_backup_with_another_space(
    start_server: Start, tmp_path: Path
) -> None:
    keys, folder = tmp_path / "keys", tmp_path / "backups"
    assert run("backups", "new-key", keys).exit_code == 0
    server = start_server(backup_dir=folder, auth="required")
    tokens = tokens_of(server.data_dir, system_clock)
    own, all_ = (tokens.create(grant("admin", it))[1] for it in ("ada", EVERY_SPACE))
    with Client(server.target, token=all_) as client:
        for space in ("ada", "ben"):
            client.admin.create_space(space)
        client.admin.backup(name="all")
        whole = client.admin.backup()
    encrypted = folder / "encrypted"
    flags = ("--data-dir", server.data_dir, "--backup-key-file", keys, "--space", "ada")
    assert run("backup", encrypted, *flags).exit_code == 0
    with Client(server.target, token=own) as client:
        mine = client.admin.backup()
        assert [it.path for it in client.admin.list_backups()] == [mine.path]
    with Client(server.target, token=all_) as client:
        assert {it.path for it in client.admin.list_backups()} == {
            str(folder / "all"),
            whole.path,
            mine.path,
            str(encrypted),
        }


def test_no_call_writes_where_no_folder_is_set(start_server: Start, tmp_path: Path) -> None:
    with Client(start_server().target) as client:
        with pytest.raises(FailedPrecondition, match="set backup_dir"):
            client.admin.backup(name="elsewhere")
        with pytest.raises(FailedPrecondition, match="set backup_dir"):
            list(client.admin.list_backups())
        with pytest.raises(InvalidArgument, match="who reaches the server"):
            client.admin.set_setting("backup_dir", str(tmp_path))
    assert [it.name for it in tmp_path.iterdir()] == ["data"]
