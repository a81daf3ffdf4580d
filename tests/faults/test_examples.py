"""The examples under a server that cannot write."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import RunningServer
from tests.faults.conftest import Disk

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_an_example_tells_a_server_that_cannot_write_from_none(
    server: RunningServer, disk: Disk
) -> None:
    disk.refuse("pwrite", "open")
    started = {  # at once: each repeats its call for seconds
        name: subprocess.Popen(
            [sys.executable, str(EXAMPLES / f"{name}.py"), server.target],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("quickstart", "memory")
    }
    for name, process in started.items():
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 1, name
        assert errors.startswith("Error: "), name
        assert "the transcript cannot be written" in errors
        assert "no Recollect server answers" not in errors
