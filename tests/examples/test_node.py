"""`examples/node`, against the running server."""

import shutil
import subprocess
from pathlib import Path

import pytest
from recollect import Client

from tests.conftest import RunningServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"


def test_the_node_client_writes_watches_over_a_dropped_connection_and_searches(server: RunningServer, client: Client) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here")
    if not (EXAMPLE / "node_modules").exists():
        pytest.skip("npm install was not done in examples/node")
    command = [node, "tour.js", server.target]
    result = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, check=False, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")
    (conversation,) = client.conversations.list()
    assert result.stdout.splitlines() == [
        f"Created   {conversation.id} on web",
        "Watches   1 conversation",
        "Saw       Why was the server so slow? / The disk is full: logs, mostly.",
        "Missed    Then rotate them daily. / Done: every night at three.",
        "Searched  turn 2: Then rotate them daily.",
    ]
