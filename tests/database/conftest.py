"""Servers whose logs are in PostgreSQL."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.channels.conftest import Post
from tests.conftest import RunningServer, Start
from tests.external.conftest import meet, watch
from tests.postgres import Postgres
from tests.server.conftest import connect
from tests.streaming.conftest import record, subscribe, watched

__all__ = ["connect", "meet", "record", "subscribe", "watch", "watched"]


@dataclass
class Replicas:
    """Two servers over one database."""

    url: str
    servers: list[RunningServer]
    one: Post
    two: Post

    def __getitem__(self, number: int) -> Post:
        return (self.one, self.two)[number % 2]


@pytest.fixture
def replicas(postgres: Postgres, start_server: Start, tmp_path: Path) -> Iterator[Replicas]:
    """Start two servers, each with a folder of its own."""
    url = postgres.new_database()
    servers = [start_server(store=url, data_dir=tmp_path / name) for name in ("one", "two")]
    with Post(servers[0].target) as one, Post(servers[1].target) as two:
        yield Replicas(url, servers, one, two)


def said(service: Post, conversation_id: str) -> list[tuple[str, int, int]]:
    messages = service.load(conversation_id, max_turns=200).messages
    return [(it.content, it.sequence, it.turn_number) for it in messages]


def index_files(replicas: Replicas) -> list[int]:
    """Return what tells the files of the indexes from others in their places."""
    paths = [path for it in replicas.servers for path in it.data_dir.rglob("conversations.db")]
    assert len(paths) == 2
    return [path.stat().st_ino for path in paths]
