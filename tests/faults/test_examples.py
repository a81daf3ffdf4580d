"""The examples under a server that cannot write."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import RunningServer
from tests.faults.conftest import Disk

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["quickstart", "memory"])
def test_an_example_tells_a_server_that_cannot_write_from_none(
    name: str, server: RunningServer, disk: Disk
) -> None:
    disk.refuse("pwrite", "open")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), server.target]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 1
    assert result.stderr.startswith("The server answers, and refuses: ")
    assert "the transcript cannot be written" in result.stderr
    assert "No server answers" not in result.stderr
