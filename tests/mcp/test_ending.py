"""Ends of the bridge's process, and standard streams that nobody reads."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp.conftest import environment
from tests.mcp.test_http import ACCEPT, INITIALIZE
from tests.programs import BRIDGE, Forked, closed_pipe, free_port, ran, refuses
from tests.waiting import until


def begin(process: Forked) -> None:
    """Send the first message of a host. The input stays open."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()


def test_it_ends_when_its_input_ends(server: Any) -> None:
    assert ran(BRIDGE, [], env=environment(server.target)) == (0, "", "")


def test_ctrl_c_ends_it_while_it_waits_for_its_input(server: Any) -> None:
    with Forked(
        BRIDGE, [], stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(server.target)
    ) as process:
        begin(process)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["id"] == INITIALIZE["id"]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("is_full", "code", "sentence"),
    [
        (False, 0, ""),
        (True, 1, "recollect-mcp: cannot write standard output: No space left on device\n"),
    ],
    ids=["a pipe that nobody reads", "a full disk"],
)
def test_an_output_that_cannot_be_written_ends_it_without_a_traceback(
    server: Any, is_full: bool, code: int, sentence: str
) -> None:
    full = Path("/dev/full")
    if is_full and not full.is_char_device():
        pytest.skip("there is no /dev/full here")
    with (
        closed_pipe() as closed,
        (full if is_full else Path(os.devnull)).open("wb") as file,
        Forked(
            BRIDGE,
            [],
            stdin=subprocess.PIPE,
            stdout=file.fileno() if is_full else closed,
            stderr=subprocess.PIPE,
            env=environment(server.target),
        ) as process,
    ):
        begin(process)
        assert process.wait(20) == code
        assert process.stderr is not None
        assert process.stderr.read() == sentence


def test_over_http_it_serves_although_nobody_reads_where_it_listens(server: Any) -> None:
    port = free_port()
    with (
        closed_pipe() as closed,
        Forked(
            BRIDGE,
            ["--http", f"127.0.0.1:{port}"],
            stderr=closed,
            env=environment(server.target),
        ) as process,
    ):
        try:
            until(lambda: process.poll() is not None or not refuses(port))
            answer = httpx2.post(f"http://127.0.0.1:{port}/mcp", json=INITIALIZE, headers=ACCEPT)
            assert answer.status_code == 200
        finally:
            process.terminate()
