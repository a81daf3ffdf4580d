"""`examples/node`, against the running server."""

import shutil
import subprocess
from pathlib import Path

import pytest
from recollect import Client

from tests.conformance.runner import FOLDER, cases
from tests.conftest import RunningServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "node"


def node(*arguments: str | Path) -> list[str]:
    """Run a program of the example, which must succeed, and return the lines that it prints."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("there is no node here")
    if not (EXAMPLE / "node_modules").exists():
        pytest.skip("npm install was not done in examples/node")
    result = subprocess.run(
        [program, *arguments], cwd=EXAMPLE, capture_output=True, text=True, check=False, timeout=100
    )
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    return result.stdout.splitlines()


def test_the_node_client_writes_watches_over_a_dropped_connection_and_searches(
    server: RunningServer, client: Client
) -> None:
    output = node("tour.js", server.target)
    (conversation,) = client.conversations.list()
    assert output == [
        f"Created   {conversation.id} on web",
        "Watches   1 conversation",
        "Saw       Why was the server so slow? / The disk is full: logs, mostly.",
        "Missed    Then rotate them daily. / Done: every night at three.",
        "Searched  turn 2: Then rotate them daily.",
    ]


def test_the_node_client_gets_what_every_case_of_the_conformance_suite_says(
    server: RunningServer,
) -> None:
    files = [
        file for folder in (FOLDER, FOLDER / "wrong") for file in sorted(folder.glob("*.json"))
    ]
    expected = [
        f"ok     {case.file}: {case.name}"
        for folder in (FOLDER, FOLDER / "wrong")
        for case in cases(folder)
    ]
    assert node("conformance.js", server.target, *files) == expected
