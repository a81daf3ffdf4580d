"""The commands that look after a data folder know third parties too."""

from pathlib import Path

from tests.conftest import RunningServer, Start
from tests.external.conftest import KNOWN, Meet, Outside, answers, folder_of, transcript
from tests.server_cli.conftest import run


def two_parties(outside: Outside) -> tuple[str, str]:
    """Return the names of two communications with everything in them."""
    ann = outside.write("zebra one", party="ann").communication.id
    bob = outside.write("zebra two", party="bob").communication.id
    outside.resolve(outside.escalations(communication_id=ann)[0].id, request_id="r1")
    outside.reply(ann, "zebra three", request_id="r2")
    outside.trust(bob, KNOWN, "billing", request_id="r3")
    return ann, bob


def test_verify_finds_them_whole_and_names_what_is_not(
    outside: Outside, server: RunningServer
) -> None:
    ann, bob = two_parties(outside)
    server.stop()
    result = run("verify", "--data-dir", server.data_dir)
    assert (result.exit_code, result.stdout) == (
        0,
        "0 conversations, 0 messages, 2 external communications, 0 problems\n",
    )
    path = transcript(server, ann)
    path.write_bytes(path.read_bytes().replace(b"zebra one", b"zebra 0ne"))
    with transcript(server, bob).open("ab") as file:
        file.write(b"half")
    result = run("verify", "--data-dir", server.data_dir)
    assert result.exit_code == 1
    assert f"{ann}: line 2 is damaged" in result.stdout
    assert f"{ann}: its messages stand in the index otherwise" in result.stdout
    assert f"{bob}: the last 4 bytes are torn" in result.stdout
    path.unlink()
    assert (
        f"{ann}: is in the index and has no transcript"
        in run("verify", "--data-dir", server.data_dir).stdout
    )


def test_rebuild_makes_the_same_answers(
    outside: Outside, server: RunningServer, start_server: Start, meet: Meet
) -> None:
    two_parties(outside)
    before = answers(outside)
    server.stop()
    result = run("rebuild", "--data-dir", server.data_dir)
    assert result.exit_code == 0
    assert result.stdout.startswith("3 messages of 0 conversations")
    assert answers(meet(start_server())) == before
    assert run("verify", "--data-dir", server.data_dir).exit_code == 0  # by the server that has it


def test_a_backup_of_a_running_server_restores_them(
    outside: Outside, server: RunningServer, tmp_path: Path, start_server: Start, meet: Meet
) -> None:
    two_parties(outside)
    before = answers(outside)
    result = run("backup", tmp_path / "copy", "--data-dir", server.data_dir)
    assert result.exit_code == 0
    assert "0 conversations, 2 external communications" in result.stdout
    result = run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new")
    assert (result.exit_code, "2 external communications" in result.stdout) == (0, True)
    assert run("verify", "--data-dir", tmp_path / "new").exit_code == 0
    assert answers(meet(start_server(data_dir=tmp_path / "new"))) == before


def test_a_backup_that_lacks_one_of_them_says_so(
    outside: Outside, server: RunningServer, tmp_path: Path
) -> None:
    ann, bob = two_parties(outside)
    run("backup", tmp_path / "copy", "--data-dir", server.data_dir)
    (tmp_path / "copy/default/external" / f"{ann}.jsonl").unlink()
    result = run("restore", tmp_path / "copy", "--data-dir", tmp_path / "new")
    assert result.exit_code == 1
    assert f"{ann}: is missing in the backup" in result.stdout
    assert [path.stem for path in (tmp_path / "new/default/external").iterdir()] == [bob]


def test_stats_counts_them(outside: Outside, server: RunningServer) -> None:
    ann, _ = two_parties(outside)
    size = sum(path.stat().st_size for path in folder_of(server).glob("*.jsonl"))
    lines = run("stats", "--data-dir", server.data_dir).stdout.splitlines()
    assert {
        "external_communications: 2", "external_messages: 3", f"external_bytes: {size}", "external_not_indexed_yet: 0",
        "escalations_open: 1",
    } <= set(lines)  # fmt: skip
    with transcript(server, ann).open("ab") as file:
        file.write(b"half")
    assert "external_not_indexed_yet: 1" in run("stats", "--data-dir", server.data_dir).stdout
