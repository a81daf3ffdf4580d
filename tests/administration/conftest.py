"""Administrators of a server that asks everybody for a token."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import recollect
from recollect_server.access.principal import EVERY_SPACE
from recollect_server.access.tokens import Tokens
from recollect_server.kernel.domain.time import system_clock
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.conftest import LOOPBACK
from tests.credentials.conftest import grant, tokens_of


@dataclass
class Guarded:
    """A server that asks everybody for a token, with spaces `one`, `two` and `three`."""

    target: str
    tokens: Tokens
    connect: Callable[..., recollect.Client]
    """Connects a client with a new token: takes its kind, its spaces and fields of its grant."""

    ledger: Path

    @property
    def operator(self) -> recollect.Client:
        """A client with an admin token for every space."""
        return self.connect("admin", EVERY_SPACE)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Start one server for all tests of a module."""
    data_dir = tmp_path_factory.mktemp("data")
    values = {
        "listen": f"{LOOPBACK}:0",
        "data_dir": data_dir,
        "auth": "required",
        "shutdown_grace": "2s",
    }
    server = app.start(Settings.load(None, values))
    tokens = tokens_of(data_dir, system_clock)
    clients: list[recollect.Client] = []

    def connect(kind: str, *spaces: str, **fields: Any) -> recollect.Client:
        text = tokens.create(grant(kind, *spaces, **fields))[1]
        clients.append(recollect.Client(server.address, token=text))
        return clients[-1]

    for name in ("one", "two", "three"):
        client = connect("brain", name)
        messages = [recollect.Message.user(f"Hello from {name}.")]
        client.conversations.append_turn(client.conversations.create("web").id, messages)
    yield Guarded(server.address, tokens, connect, data_dir / "tokens.jsonl")
    for client in clients:
        client.close()
    server.stop()
