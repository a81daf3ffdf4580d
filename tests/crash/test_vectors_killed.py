"""Kills while messages are embedded: afterwards every one is, once, and what was deleted is in no
file.
"""

import signal
from functools import partial
from pathlib import Path

import pytest
from recollect import Client, Message
from recollect_server.kernel.index import checking as index
from recollect_server.recall.vectors import checking as vectors

from tests.at_rest import problems
from tests.crash.load import process
from tests.waiting import until

_MESSAGES = 12  # of a conversation


def _text(number: int, name: str) -> str:
    """Return the text of a message: every fourth is the other model's."""
    if number % 4:
        return f"Message {number} of {name}, about the {number}. harbour."
    return f"Das ist die {number}. Nachricht von {name}, und sie ist über den Hafen."


def _has(folder: Path, most: int) -> bool:
    """Return whether `most` vectors are stored."""
    return vectors.state_of(folder).vectors >= most


def test_a_server_that_is_killed_while_it_embeds_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_EMBEDDER", "onnx")
    folder = tmp_path / "default" / "conversations"
    ids: list[str] = []
    for count in (1, 36):  # how many vectors are there when it is killed
        with process(tmp_path) as server, Client(server.target) as client:
            for _ in range(4):
                ids.append(client.conversations.create("web").id)
                texts = [_text(number, ids[-1]) for number in range(_MESSAGES)]
                client.conversations.append_turn(ids[-1], list(map(Message.user, texts)))
            until(partial(_has, folder, count))
            server.popen.send_signal(signal.SIGKILL)
            server.popen.wait()
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
        server.popen.wait()
    assert problems(folder) == []
    assert vectors.state_of(folder).vectors == _MESSAGES * (len(ids) - 1)
