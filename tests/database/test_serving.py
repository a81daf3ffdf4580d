"""`make serve-postgres`: a PostgreSQL and servers over it, which all end with Ctrl-C."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGINT, SIGKILL
from tempfile import TemporaryDirectory

import pytest
from recollect import Client, Message

from tests.waiting import until

SCRIPT = Path(__file__).parents[2] / "scripts/serve_postgres.py"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that the user of root's PostgreSQL can reach, as no folder of pytest's is."""
    with TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "its"


@contextmanager
def served(folder: Path, replicas: int) -> Iterator[tuple["subprocess.Popen[str]", list[str]]]:
    """Start the script; yield it with what it printed when its servers ran."""
    flags = ["--folder", str(folder), "--replicas", str(replicas), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, str(SCRIPT), *flags, "--log-level", "error"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines: list[str] = []
            while "servers run" not in (line := process.stdout.readline()):
                assert line, lines
                lines.append(line)
            yield process, [*lines, line]
        finally:
            process.send_signal(SIGINT)  # harmless if it has ended


def running_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name a folder."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            commands.append(command)
    return commands


@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes are left")
def test_the_servers_and_postgresql_of_make_serve_postgres_end_with_it_and_lose_nothing(
    folder: Path,
) -> None:
    with served(folder, 2) as (process, lines):
        targets = [line.split()[6].rstrip(",") for line in lines if "listens on" in line]
        with Client(targets[0]) as client:
            one = client.conversations.create("web", messages=[Message.user("zebra")])
        assert f"{len(targets)} of 2 servers run" in lines[-1]
        again = subprocess.run(
            [sys.executable, str(SCRIPT), "--folder", str(folder), "--port", "0"],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (again.returncode, again.stderr.count("\n")) == (1, 1)
        assert f"{folder}: stop it, or name another folder with --folder" in again.stderr
        with Client(targets[-1]) as client:
            assert client.conversations.load(one.id).messages[0].content == "zebra"
        process.send_signal(SIGINT)
        assert process.wait() == 0
        assert process.stdout is not None
        assert "The servers and PostgreSQL are stopped." in process.stdout.read()
    assert running_in(folder) == []
    with served(folder, 1) as (process, lines):
        target = next(line.split()[6] for line in lines if "listens on" in line)
        with Client(target) as client:
            assert client.conversations.load(one.id).messages[0].content == "zebra"
        process.send_signal(SIGKILL)
        process.wait()
        until(lambda: running_in(folder) == [])
