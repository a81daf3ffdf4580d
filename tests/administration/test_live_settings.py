"""Settings that count at once: each is read again after a change, by whatever uses it."""

from collections.abc import Iterator
from typing import Any

import pytest
from recollect import Client, Message
from recollect_server.run import app
from recollect_server.run.settings import Settings
from recollect_server.run.settings.in_force import LIVE

from tests.cases import each
from tests.waiting import until

OF_THE_COMMAND = {"log_level"}
"""Applied by `recollect-server serve`, which configures the log of its process."""


class Watched(Settings):
    """Settings that note which of them are read."""

    def __getattribute__(self, name: str) -> Any:
        """Return an attribute, and note its name."""
        if name in LIVE:
            READ.add(name)
        return super().__getattribute__(name)


READ: set[str] = set()


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[set[str]]:
    """Change the settings of a running server, use all of it, and yield what was read anew."""
    values = {
        "listen": "127.0.0.1:0",
        "data_dir": tmp_path_factory.mktemp("data"),
        "shutdown_grace": "2s",
        "abbreviator": "openai",
        "abbreviation_model": "any",
        "abbreviation_url": "http://127.0.0.1:9/v1",
        "sweep_interval": "1s",
        "idle_timeout": "0s",
        "embedder": "onnx",
        "embedding_idle": "1s",
        "max_open_spaces": "1",
    }
    settings = Settings.load(None, values)
    server = app.start(settings)
    with Client(server.address) as client, Client(server.address, space="other") as other:
        # Both spaces are made before the change: one that is opened later reads everything.
        other.conversations.create("web")
        conversation = client.conversations.create("web")
        watched = Watched.model_construct(**dict(settings))
        READ.clear()
        server.settings.set(watched)
        client.conversations.create("web")
        client.conversations.append_turn(
            conversation.id, [Message.user("zebra?"), Message.assistant("A zebra.")]
        )
        client.conversations.load(conversation.id)
        client.recall.search("zebra")
        client.recall.build_context(conversation.id, "zebra")
        client.channels.receive("discord", "1", "Hello, I am new.", sender="eve@example.org")
        # The first space is closed, and it is noted when its updates are due.
        other.conversations.create("web")
    yield READ
    server.stop()


@each("name", sorted(LIVE - OF_THE_COMMAND))
def test_a_change_is_read_by_what_uses_the_setting(name: str, read: set[str]) -> None:
    assert until(lambda: name in read)
