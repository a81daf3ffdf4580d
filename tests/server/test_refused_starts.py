"""Errors of a server that cannot start: one sentence with the problem and its remedy."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from recollect_server.contract.listening import CannotListen
from recollect_server.run.folder import CannotStart
from recollect_server.run.settings import Settings, WrongSettings

from tests.conftest import RunningServer
from tests.programs import SERVER, ran

Start = Callable[..., RunningServer]
ROOT = Path(__file__).parents[2]
NOBODY = 65534
OTHER = "or name another folder with --data-dir"


@contextmanager
def as_anybody() -> Iterator[None]:
    """Drop the right to write everywhere during the block."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def let_in(folder: Path) -> None:
    """Open a folder of a test to every user, as far up as it is the test's own."""
    while not folder.stat().st_mode & 0o001:
        folder.chmod(folder.stat().st_mode | 0o077)
        folder = folder.parent


def said(kind: type[Exception], call: Callable[[], object]) -> str:
    """Return the text of the exception."""
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """Return a folder that may be read and not written."""
    let_in(tmp_path)
    folder = tmp_path / "sealed"
    folder.mkdir(0o555)
    return folder


def test_a_folder_without_permission(start_server: Start, sealed: Path) -> None:
    folder = sealed / "data"
    with as_anybody():
        sentence = said(CannotStart, lambda: start_server(data_dir=folder))
    assert (
        sentence
        == f"cannot use the data folder {folder}: permission denied: let this user read and write there, {OTHER}"
    )


def test_a_data_folder_a_part_of_which_is_not_this_users(
    start_server: Start, server: RunningServer
) -> None:
    server.stop()
    let_in(server.data_dir)
    for file in server.data_dir.glob("*.*"):
        file.chmod(0o666)
    server.folder.parent.chmod(0o500)
    with as_anybody():
        sentence = said(CannotStart, lambda: start_server(data_dir=server.data_dir))
    assert re.fullmatch(
        rf"cannot use the data folder {server.data_dir}: permission denied \({server.folder.parent}[^)]*\):"
        rf" let this user read and write there, {OTHER}",
        sentence,
    )


def test_a_data_folder_that_is_a_file(start_server: Start, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder in (file, file / "below"):
        assert said(CannotStart, lambda folder=folder: start_server(data_dir=folder)) == (  # type: ignore[misc]
            f"cannot use the data folder {folder}: not a directory: move the file that is in its place away, {OTHER}"
        )


def test_a_second_server_on_a_folder(start_server: Start, server: RunningServer) -> None:
    assert said(CannotStart, lambda: start_server(data_dir=server.data_dir)) == (
        f"another server uses the data folder {server.data_dir}: stop it, {OTHER}"
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_in_use(
    start_server: Start, tmp_path: Path, host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken, socket.socket(socket.AF_INET6) as taken6:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        # a machine may have no IPv6: then the name does not stand for it either
        with suppress(OSError):
            taken6.bind(("::1", port))
            taken6.listen()
        assert said(
            CannotListen, lambda: start_server(listen=f"{host}:{port}", data_dir=tmp_path / "other")
        ) == (
            f"cannot listen on {host}:{port}: another program listens there: stop it, or name another address with --listen"
        )
    # gRPC's own words would stand before the sentence
    assert "add_port" not in capfd.readouterr().err


def test_a_socket_in_a_folder_that_is_not_there(start_server: Start, tmp_path: Path) -> None:
    listen = f"unix:{tmp_path / 'none' / 'socket'}"
    assert said(CannotListen, lambda: start_server(listen=listen)) == (
        f"cannot listen on {listen}: there is no folder {tmp_path / 'none'}: make it, or name another path with --listen"
    )


def test_a_socket_in_a_folder_without_permission(start_server: Start, sealed: Path) -> None:
    listen = f"unix:{sealed / 'socket'}"
    with as_anybody():
        sentence = said(
            CannotListen, lambda: start_server(listen=listen, data_dir=sealed.parent / "data")
        )
    assert (
        sentence
        == f"cannot listen on {listen}: this user may not write in {sealed}: name another path with --listen"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("listen: [", "is no YAML in line 1"),
        ("threads: 3\nspace: !!python/object:x {}\n", "is no YAML in line 2"),
        ("\0", "is no YAML"),
        ("- a\n- b\n", "holds no settings"),
        ("just words", "holds no settings"),
    ],
)
def test_a_settings_file_that_holds_none(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text(text)
    expected = "write a name and its value in each line, as `threads: 32` (recollect-server config prints such a file)"
    assert said(WrongSettings, lambda: Settings.load(file, {})) == f"{file}: {sentence}: {expected}"


def test_a_settings_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_bytes("space: hüte\n".encode("latin-1"))
    assert (
        said(WrongSettings, lambda: Settings.load(file, {}))
        == f"{file}: is not UTF-8: save it as UTF-8"
    )


def test_a_settings_file_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "none.yaml"
    assert (
        said(WrongSettings, lambda: Settings.load(file, {}))
        == f"{file}: there is no such file: name another with --config"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("listne: x", "listne: there is no such setting: do you mean listen?"),
        ("quokka: x", "quokka: there is no such setting: recollect-server config names all"),
        ("durability: never", "durability: must be 'fsync' or 'os' (it is 'never')"),
        ("profile_tokens: many", "profile_tokens: must be a whole number (it is 'many')"),
        ("profile_tokens: -1", "profile_tokens: must be greater than or equal to 0 (it is -1)"),
        ("reflection: perhaps", "reflection: must be true or false (it is 'perhaps')"),
        (
            "idle_timeout: 10 minutes",
            "idle_timeout: is not a duration as 500ms, 2s, 10m, 3h or 7d (it is '10 minutes')",
        ),
        (
            "space: ../x",
            "space: must be 1 to 64 lower case letters, digits, _ and -, beginning with a letter or"
            " digit, or an e-mail address in lower case (it is '../x')",
        ),
    ],
)
def test_a_wrong_setting(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "recollect.yaml"
    file.write_text(text)
    assert said(WrongSettings, lambda: Settings.load(file, {})) == sentence


def test_a_command_ends_with_the_sentence_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, output, error = ran(SERVER, ["serve", "--data-dir", str(tmp_path / "file")])
    assert (code, output) == (1, "")
    assert re.fullmatch(r"Error: cannot use the data folder .*\n", error)


def test_a_wrong_python(tmp_path: Path) -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("there is no make here")
    old = tmp_path / "python3.9"
    pretend = "import sys; sys.version_info = (3, 9, 2); sys.version = '3.9.2 (old)'; sys.executable = '/usr/bin/python3.9'; "
    old.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{pretend}$2"\n')
    old.chmod(0o755)
    command = [make, "--no-print-directory", "serve", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode
    assert done.stderr.splitlines()[0] == (
        "Recollect needs Python 3.11 or newer, and /usr/bin/python3.9 is 3.9.2. Name another: make serve PYTHON=python3.12"
    )
    assert not (tmp_path / "venv").exists()
