"""`examples/memory.py`, as an agent's author runs it."""

import re
import subprocess
import sys
from pathlib import Path

from recollect import Client

from tests.conftest import RunningServer

SCRIPT = Path(__file__).parents[2] / "examples" / "memory.py"


def test_the_second_conversation_remembers_the_first(server: RunningServer, client: Client) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), server.target],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (0, "")
    anchors_line, name, before, source, quote, *_, answer = result.stdout.splitlines()
    assert (anchors_line, name) == ("What is known about the user:", "- name: Alex")
    assert re.fullmatch(
        r"What was said before and may help \(now it is 20[\d-]{8}T[\d:]{5}Z, \w+day\):", before
    )
    assert re.fullmatch(r"\[1\] [\d-]{10}, conv-\w+, turn 1:", source)
    assert quote == "  user: The backup of the photo server runs every night at three."
    assert answer.startswith("(a model's answer to ")
    assert {conversation.turn_count for conversation in client.conversations.list()} == {1}


def test_it_says_how_to_start_a_server_where_none_is() -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "127.0.0.1:1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert "recollect-server serve" in result.stderr
