"""`examples/quickstart.py`, as a newcomer runs it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from recollect import Client

SCRIPT = Path(__file__).parents[2] / "examples" / "quickstart.py"


def quickstart(target: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), target],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_quickstart_begins_a_conversation_names_it_and_finds_it_again(
    server: Any, client: Client
) -> None:
    result = quickstart(server.target)
    assert (result.returncode, result.stderr) == (0, "")
    [conversation] = client.conversations.list()
    assert (conversation.title, conversation.turn_count, conversation.message_count) == (
        "Slow Server, Full Disk",
        2,
        6,
    )
    words = [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert words == ["Created", "Appended", "Appended", "Loaded", "Renamed", "Searched"]
    assert conversation.id in result.stdout
    output = result.stdout.split("Searched")[1]
    assert "Slow Server, Full Disk" in output
    assert "rotate the logs daily" in output


def test_the_quickstart_says_how_to_start_a_server_where_none_is() -> None:
    result = quickstart("127.0.0.1:1")
    assert (result.returncode, result.stdout) == (1, "")
    assert "recollect-server serve" in result.stderr
    assert "Traceback" not in result.stderr
