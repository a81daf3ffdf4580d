"""Unix sockets: who may connect to one, and what a start does to whatever is at its path."""

import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from recollect_server.contract import listening as transport_listening
from recollect_server.contract.listening import CannotListen, UnixSocket

from tests.conftest import RunningServer, Start
from tests.server.conftest import Connect, Service, at_once


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_only_the_owner_may_connect_whatever_the_umask_is(
    start_server: Start, connect: Connect, tmp_path: Path, mask: int
) -> None:
    start_server().stop()  # the data folder is there, with modes of its own
    path = tmp_path / "s"
    with umask(mask):
        server = start_server(listen=f"unix:{path}")
    status = path.stat()
    assert (stat.S_ISSOCK(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid) == (
        True,
        0o600,
        os.geteuid(),
    )
    assert connect(server).conversation_of("zebra")
    assert {it.name for it in tmp_path.iterdir()} == {"data", "s"}
    server.stop()
    assert {it.name for it in tmp_path.iterdir()} == {"data"}


def test_a_live_server_keeps_its_path(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    listen = f"unix:{tmp_path / 's'}"
    first = connect(start_server(listen=listen))
    assert_a_second_is_refused(
        start_server,
        listen,
        "another program listens there: stop it, or name another path with --listen",
    )
    assert first.conversation_of("zebra")
    assert Service(listen).found("zebra")


def test_a_program_that_does_not_answer_keeps_its_path(start_server: Start, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(0)
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for it in waiting:
            it.setblocking(False)
            it.connect_ex(str(path))
        assert_a_second_is_refused(start_server, f"unix:{path}", "another program listens there")
        for it in waiting:
            it.close()


def assert_a_second_is_refused(start_server: Start, listen: str, why: str) -> None:
    """Check that a server on another data folder is refused the address."""
    with pytest.raises(CannotListen) as refused:
        start_server(listen=listen, data_dir=Path(listen.removeprefix("unix:")).parent / "other")
    assert str(refused.value).startswith(f"cannot listen on {listen}: {why}")


@pytest.mark.parametrize(
    "make",
    [
        lambda path, _: path.write_text("keep"),
        lambda path, _: path.mkdir(),
        lambda path, victim: path.symlink_to(victim),
        lambda path, _: path.symlink_to(path.parent / "nothing"),
        lambda path, _: os.mkfifo(path),
    ],
    ids=["file", "folder", "link to a file", "link to nothing", "fifo"],
)
def test_what_is_no_socket_is_left_alone(
    start_server: Start, tmp_path: Path, make: Callable[[Path, Path], object]
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    path = tmp_path / "s"
    make(path, victim)
    before = path.lstat()
    assert_a_second_is_refused(
        start_server, f"unix:{path}", "a file that is no socket is there: move it away"
    )
    assert path.lstat().st_ino == before.st_ino
    assert victim.read_text() == "keep"


def test_the_socket_of_a_killed_server_is_taken_over(
    tmp_path: Path, start_server: Start, connect: Connect
) -> None:
    path = tmp_path / "s"
    command = [
        sys.executable,
        "-m",
        "recollect_server",
        "serve",
        "--listen",
        f"unix:{path}",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"Recollect listens")
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert path.is_socket()
    assert connect(start_server(listen=f"unix:{path}")).conversation_of("zebra")


def test_the_socket_of_another_that_took_the_path_is_not_removed(
    server_on: RunningServer, tmp_path: Path
) -> None:
    path = tmp_path / "s"
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        server_on.stop()
        assert path.is_socket()


@pytest.fixture
def server_on(start_server: Start, tmp_path: Path) -> RunningServer:
    return start_server(listen=f"unix:{tmp_path / 's'}")


def test_a_path_as_long_as_can_be_is_served_and_a_longer_one_is_refused(
    start_server: Start, connect: Connect, tmp_path: Path
) -> None:
    most = 107 if sys.platform == "linux" else 103
    room = most - len(os.fsencode(tmp_path)) - 1
    if room < 1:
        pytest.skip(f"the temporary folder's own path has {most - room} bytes")
    folder = tmp_path / ("f" * (room - 2)) if room > 2 else tmp_path
    folder.mkdir(exist_ok=True)
    name = "s" * (most - len(os.fsencode(folder)) - 1)
    assert connect(start_server(listen=f"unix:{folder / name}")).conversation_of("zebra")
    assert_a_second_is_refused(
        start_server,
        f"unix:{folder / name}s",
        f"the path has more than {most} bytes: name a shorter one",
    )


def test_a_folder_that_somebody_keeps_locked_holds_up_no_start_for_ever(tmp_path: Path) -> None:
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with socket.socket(socket.AF_UNIX) as listening:

        def listen(address: str) -> None:
            listening.bind(address.removeprefix("unix:"))
            listening.listen()

        start = threading.Thread(target=UnixSocket, args=(tmp_path / "s", listen), daemon=True)
        start.start()
        start.join(15)
        is_late = start.is_alive()
    os.close(handle)
    assert not is_late
    assert (tmp_path / "s").is_socket()


def test_of_two_that_start_at_once_one_has_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s"
    looking = threading.Barrier(2, timeout=0.2)  # broken where the second one may not look yet
    real = transport_listening._identity

    def identity(of: Path) -> tuple[int, int]:
        its_identity = real(of)
        if of == path and listening:
            with suppress(threading.BrokenBarrierError):
                looking.wait()
        return its_identity

    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(path))  # left behind: nobody listens
    both_have_looked = threading.Barrier(2, timeout=30)
    listening: list[socket.socket] = []

    def listen(address: str) -> None:
        own = socket.socket(socket.AF_UNIX)
        own.bind(address.removeprefix("unix:"))
        own.listen()
        listening.append(own)
        both_have_looked.wait()

    def start(_: int) -> str:
        try:
            UnixSocket(path, listen)
        except CannotListen as error:
            return str(error)
        return ""

    with monkeypatch.context() as patched:
        patched.setattr(transport_listening, "_identity", identity)
        outcomes = sorted(at_once(2, start))
    assert outcomes[0] == ""
    assert "another program listens there" in outcomes[1]
    assert [it.name for it in tmp_path.iterdir()] == ["s"]
    for it in listening:
        it.close()
