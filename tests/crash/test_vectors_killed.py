"""Kills while messages are embedded: afterwards every one is, once, and what was deleted is in no
file.
"""

import signal
from functools import partial
from pathlib import Path

import pytest
from recollect import Client, Message
from recollect_server.services.upkeep.recovery import unheard
from recollect_server.services.upkeep.verification import verify
from recollect_server.storage.index import checking as index
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.vectors import checking as vectors

from tests.crash.load import process
from tests.waiting import until


def _has(folder: Path, most: int) -> bool:
    """Return whether `most` vectors are stored."""
    return vectors.state_of(folder).vectors >= most


def test_a_server_that_is_killed_while_it_embeds_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "onnx")
    folder = tmp_path / "default" / "conversations"
    ids: list[str] = []
    for count in (1, 40, 120):  # how many vectors are there when it is killed
        with process(tmp_path) as server, Client(server.target) as client:
            for _ in range(4):
                ids.append(client.conversations.create("web").id)
                texts = [
                    Message.user(f"Message {number} of {ids[-1]}, about the {number}. harbour.")
                    for number in range(20)
                ]
                client.conversations.append_turn(ids[-1], texts)
            until(partial(_has, folder, count))
            server.popen.send_signal(signal.SIGKILL)
            server.popen.wait(30)
    with process(tmp_path) as server, Client(server.target) as client:
        client.conversations.delete(ids[0])
        until(lambda: index.state_of(folder).lines == vectors.state_of(folder).lines)
        # What is in the file is in the copy that a search reads a moment later.
        until(
            lambda: (
                client.recall.search("a port with ships", limit=100).total_matches == len(ids) - 1
            )
        )
        server.popen.terminate()
        server.popen.wait(30)
    done = verify(FolderStore(folder), unheard)
    assert done.problems == []
    assert vectors.state_of(folder).vectors == 20 * (len(ids) - 1)
