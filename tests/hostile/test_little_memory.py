"""Starts with too little memory, and starts that are told to end: each ends at once, with a
sentence where it can say one.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.conftest import server_process

SERVE = ["serve", "--listen", "127.0.0.1:0", "--data-dir"]
SENTENCE = re.compile(rb"Error: [^\n]*(memory|threads)[^\n]*: raise (it|the limit)[^\n]*\n")


def ended(folder: Path, mebibytes: int) -> tuple[int | None, bytes, bytes]:
    """Start a server with so much address space; what it exits with, None if it serves, and what it
    prints.
    """

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

    command = [sys.executable, "-m", "recollect_server", *SERVE, str(folder / str(mebibytes))]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit
    ) as process:
        assert process.stdout is not None
        try:
            if line := process.stdout.readline():
                process.send_signal(signal.SIGTERM)
                assert process.wait() == 0, (
                    "a server that serves with little memory does not stop in order"
                )
                return None, line, b""
            process.wait()
        finally:
            process.kill()
        return process.returncode, line, process.communicate()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
def test_a_start_with_too_little_memory_ends_with_a_sentence(tmp_path: Path, scale: int) -> None:
    sizes = [700] if scale == 1 else [200, *range(300, 1500, 2400 // scale)]
    served = []
    for size in sizes:
        code, output, problem = ended(tmp_path, size)
        if code is None:
            assert output.startswith(b"Recollect listens on"), size
            served.append(size)
        else:
            assert code == 1, (size, problem)
            assert SENTENCE.fullmatch(problem), (size, problem)
    assert served == sizes[len(sizes) - len(served) :], "more memory never makes a start fail"


def test_a_start_that_hangs_heeds_the_signals(tmp_path: Path, scale: int) -> None:
    program = (
        "import sys, threading; from recollect_server.run import app; from recollect_server.run.commands import commands\n"
        "def hang(*_, **__): print('starting', flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire()\n"
        "app.start = hang; commands(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, *SERVE, str(tmp_path / "data")]
    for number in [signal.SIGTERM] if scale == 1 else [signal.SIGTERM, signal.SIGINT]:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"starting\n"
                process.send_signal(number)
                assert process.wait() == -number
            finally:
                process.kill()


def test_a_signal_that_comes_as_soon_as_the_server_listens_stops_it_in_order(
    tmp_path: Path, scale: int
) -> None:
    for number in range(scale):
        with server_process(tmp_path / f"data{number}") as (process, _):
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait() == 0
