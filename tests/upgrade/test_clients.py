"""The oldest client of this history calls today's server."""

import json
import os
import subprocess
import sys

from tests.conftest import RunningServer
from tests.upgrade.conftest import Sources

OLDEST = "ed49c030"
"""The first commit whose data `tests/fixtures` keeps."""

CALLS = """
import json, sys
import recollect
from recollect import Client, Message, NotFound, TurnOutOfDate

answers = {"package": recollect.__file__}
with Client(sys.argv[1]) as client:
    id = client.conversations.create("web", request_id="create").id
    answers["repeated"] = client.conversations.create("web", request_id="create").id == id
    messages = [Message.user("The heron nests here."), Message.assistant("On the island.")]
    client.conversations.append_turn(id, messages, request_id="append")
    client.conversations.append_turn(id, messages, request_id="append")
    answers["loaded"] = [it.content for it in client.conversations.load(id).messages]
    answers["listed"] = [it.id for it in client.conversations.list()] == [id]
    hits = client.recall.search("heron").hits
    answers["found"] = hits[0].conversation_id == id
    client.conversations.rename(id, "Herons")
    answers["title"] = client.conversations.get(id).title
    try:
        client.conversations.append_turn(id, messages, expected_turn=7)
    except TurnOutOfDate:
        answers["refused"] = True
    client.conversations.delete(id)
    try:
        client.conversations.get(id)
    except NotFound:
        answers["deleted"] = True
print(json.dumps(answers))
"""


def test_the_oldest_client_still_works(server: RunningServer, sources_of: Sources) -> None:
    package = sources_of(OLDEST) / "client/src"
    result = subprocess.run(
        [sys.executable, "-c", CALLS, server.target],
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {
        "package": str(package / "recollect/__init__.py"),
        "repeated": True,
        "loaded": ["The heron nests here.", "On the island."],
        "listed": True,
        "found": True,
        "title": "Herons",
        "refused": True,
        "deleted": True,
    }
