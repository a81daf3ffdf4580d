"""Commands on the files that channels write."""

from pathlib import Path

import apsw
from click.testing import CliRunner
from recollect.cli.importing import import_
from recollect_server.run.commands import commands

from tests.channels.conftest import ALEX, Post, Reach, home
from tests.conftest import Start


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(commands, [str(it) for it in arguments])
    return result.exit_code, result.output


def filled(post: Post) -> tuple[str, str]:
    """Write a thread that absorbed another one, and a deleted conversation that had a delivery.
    Return both conversations of the thread.
    """
    post.own("whatsapp", ALEX, "Alex")
    post.own("email", "alex@example.org", "Alex")
    older, younger = home(post.mail("One", "<a@x>")), home(post.mail("Two", "<b@x>"))
    post.mail("Both", "<c@x>", references=["<a@x>", "<b@x>"])
    post.delete(home(post.whatsapp("Gone", delivery="gone-1")))
    return older, younger


def test_a_backup_has_owners_and_what_was_forgotten(
    start_server: Start, reach: Reach, tmp_path: Path
) -> None:
    server = start_server()
    post = reach(server)
    older, _ = filled(post)
    owners = post.identities()
    assert run("backup", tmp_path / "backup", "--data-dir", server.data_dir)[0] == 0
    post.own("whatsapp", "+666")
    server.stop()
    assert run("restore", tmp_path / "backup", "--data-dir", tmp_path / "new")[0] == 0
    post = reach(start_server(data_dir=tmp_path / "new"))
    assert post.identities() == owners
    assert post.whatsapp("Gone", delivery="gone-1").WhichOneof("outcome") is None
    assert home(post.mail("Three", "<d@x>", "<b@x>")) == older


def test_a_backup_whose_owners_are_damaged_says_so(
    start_server: Start, reach: Reach, tmp_path: Path
) -> None:
    server = start_server()
    filled(reach(server))
    assert run("backup", tmp_path / "backup", "--data-dir", server.data_dir)[0] == 0
    ledger = tmp_path / "backup" / "default" / "identities.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"1555000", b"1555009"))
    code, output = run("restore", tmp_path / "backup", "--data-dir", tmp_path / "new")
    assert code == 1
    assert "identities: is not as it was backed up" in output
    assert run("restore", tmp_path / "backup", "--data-dir", tmp_path / "new")[0] == 1


def test_verify_sees_what_the_index_has_otherwise_and_rebuild_mends_it(
    start_server: Start, reach: Reach
) -> None:
    server = start_server()
    _, younger = filled(reach(server))
    server.stop()
    assert run("verify", "--data-dir", server.data_dir)[0] == 0
    for change, expected in (
        (
            "DELETE FROM mail WHERE name IN (SELECT name FROM mail LIMIT 1)",
            "the index leads other messages to it",
        ),
        ("DELETE FROM continued", f"{younger}: the index leads other messages to it"),
        ("DELETE FROM forgotten", "it knows 0 of 1 forgotten messages"),
    ):
        connection = apsw.Connection(str(server.folder / "conversations.db"))
        connection.execute(change)
        connection.close()
        code, output = run("verify", "--data-dir", server.data_dir)
        assert (code, expected in output) == (1, True)
        assert run("rebuild", "--data-dir", server.data_dir)[0] == 0
        assert run("verify", "--data-dir", server.data_dir)[0] == 0
    ledger = server.folder.parent / "identities.jsonl"
    ledger.write_bytes(ledger.read_bytes().replace(b"1555000", b"1555009"))
    assert "identities.jsonl: line 1 is damaged" in run("verify", "--data-dir", server.data_dir)[1]


def test_what_channels_wrote_is_imported_as_far_as_the_contract_takes_it(
    start_server: Start, reach: Reach, tmp_path: Path
) -> None:
    server = start_server()
    post = reach(server)
    _, younger = filled(post)
    post.cli("Hello")
    post.cli("/help")
    server.stop()
    there = start_server(data_dir=tmp_path / "there")
    ended = CliRunner().invoke(import_, [str(server.folder), "--address", there.target])
    assert ended.exit_code == 1, ended.output  # something was left out
    assert ended.stderr.count("commands are not run again, nor are threads joined") == 2
    texts = sorted(sorted(it) for it in reach(there).everything().values())
    assert texts == [["Both", "One"], ["Hello"], ["Two"]]
    assert younger
