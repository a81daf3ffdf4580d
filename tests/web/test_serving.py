"""`make serve` starts the page beside the server, and ends it with the server."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import PAGE, ran
from tests.waiting import until
from tests.web.conftest import Http

SCRIPT = Path(__file__).parents[2] / "scripts/serve.py"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def refuses(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def test_the_page_stands_beside_the_server_and_ends_with_it(tmp_path: Path) -> None:
    page_port = free_port()
    environment = os.environ | {"RECOLLECT_WEB_LISTEN": f"127.0.0.1:{page_port}"}
    listen = f"127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        sys.executable,
        SCRIPT,
        "--listen",
        listen,
        "--data-dir",
        tmp_path / "data",
    ]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        until(lambda: re.search(rf"http://127\.0\.0\.1:{page_port}/#key=", log.read_text()))
        until(lambda: f"Recollect listens on {listen}" in log.read_text())
        assert Http(page_port).send("GET", "/").status == 200
    finally:
        os.kill(process.pid, signal.SIGKILL)  # no signal reaches the page: it sees the pipe end
        process.wait(30)
    until(lambda: refuses(page_port))


@pytest.mark.parametrize(
    ("listen", "refusal"),
    [
        ("0.0.0.0:0", "can be reached from other machines"),
        ("192.0.2.1:80", "can be reached from other machines"),
        ("127.0.0.1", "is no address such as"),
        ("127.0.0.1:99999", "is no address such as"),
        ("page.example:80", "is no address such as"),
    ],
)
def test_the_page_is_served_to_this_machine_alone(listen: str, refusal: str) -> None:
    status, _, errors = ran(PAGE, ["--listen", listen])
    assert status == 2
    assert refusal in " ".join(errors.split())


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, _, errors = ran(PAGE, ["--listen", address])
    assert status == 1
    assert f"cannot listen on {address}" in errors
    assert "--listen or RECOLLECT_WEB_LISTEN" in errors
