"""Files that somebody planted: links, pipes and devices where a command writes or reads. No victim
changes, nothing hangs.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import Result
from recollect import (
    CheckpointRecord,
    Client,
    DeadlineExceeded,
    Message,
    RecollectError,
    Unavailable,
)
from recollect_server.run.folder import LOCK

from tests.client_cli.conftest import Recollect
from tests.conftest import LOOPBACK, RunningServer, Start
from tests.server_cli.conftest import on, run
from tests.waiting import until

# seconds that a command may take; one that waits for a pipe's other end takes for ever
TIMEOUT = 30

pytestmark = pytest.mark.timeout(60)

Plant = Callable[[Path], None]


@pytest.fixture(autouse=True)
def _logs_apart(no_log: None) -> None:
    """Discard the log of the server, which runs in this process, so that it does not mix with a
    command's output.
    """


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Return a file that no command may touch."""
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


@pytest.fixture
def ids(client: Client) -> list[str]:
    """Return the ids of a few conversations on `server`."""
    names = [client.conversations.create("web").id for _ in range(3)]
    for name in names:
        client.conversations.append_turn(name, [Message.user("hello")])
    return names


def plant_socket(path: Path) -> None:
    """Bind a socket to a path of any length."""
    with socket.socket(socket.AF_UNIX) as planted:
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            planted.bind(f"/proc/self/fd/{handle}/{path.name}")
        finally:
            os.close(handle)


PLANTS = [
    pytest.param(os.mkfifo, id="fifo"),
    pytest.param(lambda path: path.symlink_to("/dev/zero"), id="link to a device"),
    pytest.param(Path.mkdir, id="folder"),
    pytest.param(
        plant_socket,
        id="socket",
        marks=pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/fd"),
    ),
]


def command(*arguments: object) -> Result:
    """Run `recollect-server` in this process. It ends with an exit code and not with an
    exception.
    """
    result = run(*arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def names_of_parts(path: Path) -> list[Path]:
    """Return every guessable name of the unfinished copy of a file."""
    return [
        path.with_name(name)
        for name in (
            f".{path.name}.part",
            f"{path.name}.part",
            f"{path.name}.tmp",
            f".{path.name}.tmp",
        )
    ]


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_export_writes_through_no_link_that_is_planted_in_its_folder(
    server: RunningServer, ids: list[str], victim: Path, tmp_path: Path, overwrite: bool
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    for name in ids:
        for path in names_of_parts(folder / f"{name}.jsonl"):
            path.symlink_to(victim)
        if overwrite:
            (folder / f"{name}.jsonl").symlink_to(victim)
    ran = Recollect(server.target)(
        "export", "-d", str(folder), *(["--overwrite"] if overwrite else [])
    )
    assert victim.read_text() == "precious"
    assert (ran.code, ran.lines) == (0, [{"conversations": 3, "messages": 3, "leftOut": 0}])
    for name in ids:
        path = folder / f"{name}.jsonl"
        assert (path.is_symlink(), path.stat().st_mode & 0o777) == (False, 0o600)
    assert not victim.is_symlink()


def test_the_clients_export_writes_through_no_planted_link(
    server: RunningServer, ids: list[str], victim: Path, tmp_path: Path
) -> None:
    output = tmp_path / "shared" / "all.jsonl"
    output.parent.mkdir()
    for path in (*names_of_parts(output), output):
        path.symlink_to(victim)
    assert Recollect(server.target)("export", "-o", str(output)).code == 0
    assert victim.read_text() == "precious"
    assert (output.is_symlink(), output.stat().st_mode & 0o777) == (False, 0o600)
    assert len(output.read_text().splitlines()) == 6


def test_a_lock_that_is_a_planted_link_is_not_followed(victim: Path, tmp_path: Path) -> None:
    data = tmp_path / "linked"
    (data / "default" / "conversations").mkdir(parents=True)
    (data / LOCK).symlink_to(tmp_path / "made-elsewhere")
    ended = command("verify", "--data-dir", data)
    assert ended.exit_code == 1
    assert f"cannot use the data folder {data}" in ended.stderr
    assert not (tmp_path / "made-elsewhere").exists()


@pytest.mark.parametrize("plant", PLANTS)
def test_a_restore_of_what_is_no_file_ends_with_a_sentence(
    server: RunningServer, ids: list[str], tmp_path: Path, plant: Plant
) -> None:
    assert on(server, "backup", tmp_path / "copy").exit_code == 0
    conversations = tmp_path / "copy" / "default" / "conversations"
    for number, path in enumerate(
        (tmp_path / "copy" / "backup.json", conversations / f"{ids[1]}.jsonl")
    ):
        contents = path.read_bytes()
        path.unlink()
        plant(path)
        ended = command("restore", tmp_path / "copy", "--data-dir", tmp_path / f"new{number}")
        assert ended.exit_code == 1, ended.stdout
        assert path.name in ended.stderr
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        path.write_bytes(contents)
        assert (
            command("restore", tmp_path / "copy", "--data-dir", tmp_path / f"new{number}").exit_code
            == 0
        )


@pytest.mark.parametrize("plant", PLANTS)
def test_an_import_of_a_folder_names_what_is_no_file_and_takes_the_rest(
    server: RunningServer, ids: list[str], start_server: Start, tmp_path: Path, plant: Plant
) -> None:
    assert Recollect(server.target)("export", "-d", str(tmp_path / "out")).code == 0
    other = start_server(data_dir=tmp_path / "other")
    plant(tmp_path / "out" / "conv-01J00000000000000000000000.jsonl")
    ran = Recollect(other.target)("import", str(tmp_path / "out"))
    assert (ran.code, ran.lines[0]["conversationsNew"]) == (6, 3), ran.err
    assert "conv-01J00000000000000000000000.jsonl: cannot be read: " in ran.err
    sets = tmp_path / "sets" / "one"
    sets.mkdir(parents=True)
    plant(sets / "conversations.jsonl")
    for path in (tmp_path / "sets", sets, sets / "conversations.jsonl"):
        ran = Recollect(other.target)("import", str(path))
        assert ran.code in (1, 2, 6), ran.err
        assert "Error: " in ran.err
        assert not any(line["conversationsNew"] for line in ran.lines)


@pytest.mark.parametrize("plant", PLANTS[:2])
def test_the_clients_import_names_a_file_that_is_none(
    server: RunningServer, tmp_path: Path, plant: Plant
) -> None:
    plant(tmp_path / "in.jsonl")
    ran = Recollect(server.target)("import", str(tmp_path / "in.jsonl"))
    assert (ran.code != 0, "in.jsonl" in ran.err, "Traceback" in ran.err) == (True, True, False)


def test_the_clients_import_reads_the_pipe_that_a_shell_opens_for_it(
    server: RunningServer, client: Client, tmp_path: Path
) -> None:
    reading, writing = os.pipe()
    os.write(
        writing,
        b'{"type":"meta","channel":"web"}\n{"type":"turn","role":"user","content":"piped"}\n',
    )
    os.close(writing)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "recollect.cli.main", "import", f"/dev/fd/{reading}"],
            env=os.environ | {"RECOLLECT_ADDRESS": server.target}, pass_fds=[reading], timeout=TIMEOUT, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
    assert ended.returncode == 0
    assert [it.message_count for it in client.conversations.list()] == [1]


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_no_file_in_place_of_a_log_is_refused_by_every_call_and_holds_nobody(
    server: RunningServer, ids: list[str], start_server: Start, plant: Plant
) -> None:
    with Client(server.target) as client:
        client.checkpoints.put_records("run", [CheckpointRecord("key", b"value")])
    path = server.folder / f"{ids[0]}.jsonl"
    thread = next((server.data_dir / "default" / "threads").glob("*.jsonl"))
    for each in (path, thread):
        each.unlink()
        plant(each)
    with Client(server.target, timeout=20, retry=None) as client:
        calls: list[Callable[[], object]] = [
            lambda: client.conversations.redact_message(ids[0], turn_number=1),
            lambda: client.conversations.append_turn(ids[0], [Message.user("on")]),
            lambda: client.conversations.fork(ids[0]),
            lambda: client.checkpoints.put_records("run", [CheckpointRecord("key", b"new")]),
        ]
        for call in calls:
            with pytest.raises(RecollectError) as raised:
                call()
            assert not isinstance(raised.value, DeadlineExceeded), raised.value
        assert client.conversations.get(ids[1]).message_count == 1
    server.stop()
    again = start_server(listen=f"{LOOPBACK}:0")
    with Client(again.target, timeout=20) as client:
        assert client.conversations.get(ids[1]).message_count == 1
    again.stop()
    verified = command("verify", "--data-dir", server.data_dir)
    assert verified.exit_code == 1
    for each in (path, thread):
        named = f"{each.parent.name}/{each.name} is not read: it is no regular file"
        assert named in verified.stdout, verified.stdout + verified.stderr


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_no_file_in_the_data_folder_is_passed_over_and_the_server_answers(
    server: RunningServer, ids: list[str], start_server: Start, plant: Plant
) -> None:
    server.stop()
    planted = "conv-01J00000000000000000000000"
    plant(server.folder / f"{planted}.jsonl")
    started = start_server(listen=f"{LOOPBACK}:0")
    with Client(started.target, timeout=30) as client:
        assert sorted(it.id for it in client.conversations.list()) == sorted(ids)
        with (
            Client(started.target, timeout=30, retry=None) as impatient,
            pytest.raises(Exception, match=r"(?s)cannot be read|no conversation|damaged"),
        ):
            impatient.conversations.get(planted)
        assert client.conversations.get(ids[0]).message_count == 1


def test_a_pipe_in_place_of_a_running_servers_database_holds_nobody(
    server: RunningServer, ids: list[str], start_server: Start
) -> None:
    with Client(server.target, timeout=20, retry=None) as client:
        for name in ("conversations.db", "vectors.db"):
            (server.folder / name).unlink(missing_ok=True)
            os.mkfifo(server.folder / name)
        began = client.conversations.create("web", messages=[Message.user("An otter")]).id
        with suppress(Unavailable):  # the index is made anew
            client.conversations.delete(ids[0])
        until(lambda: not (server.folder / "conversations.db").is_fifo())
    server.stop()
    again = start_server(listen=f"{LOOPBACK}:0")
    with Client(again.target, timeout=20) as client:
        assert client.recall.search("otter").results[0].conversation_id == began
        assert {it.id for it in client.conversations.list()} >= {ids[1], began}


def test_a_pipe_in_place_of_the_lock_is_named(server: RunningServer) -> None:
    server.stop()
    lock = server.data_dir / LOCK
    lock.unlink()
    os.mkfifo(lock)
    refused = command("verify", "--data-dir", server.data_dir)
    assert refused.exit_code == 1
    assert f"it is no regular file ({lock})" in refused.stderr
