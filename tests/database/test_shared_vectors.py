"""Several servers over one database embed each text once, and keep no vector of what is gone."""

import threading
from pathlib import Path
from typing import Any

import pytest
from recollect import Client, Message
from recollect_server.kernel.erase.redaction import Redactions
from recollect_server.kernel.log.store import START
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.store import PostgresStore
from recollect_server.recall.model.workers import Workers
from recollect_server.recall.vectors import checking as vectors
from recollect_server.recall.vectors.store import VectorStore

from tests.channels.conftest import Post
from tests.conftest import Start
from tests.logs.test_store import CONVERSATION, begin, end_of
from tests.postgres import Postgres
from tests.server.test_redact import redact
from tests.waiting import until

TEXTS = [f"The zebra number {number} eats apricots in Vienna." for number in range(12)]
LOGS = "SELECT DISTINCT log FROM recollect.vectors ORDER BY log"


def near(client: Client) -> set[str]:
    """Return the conversations that are found by meaning alone, once nothing is missing."""
    answer = client.recall.search("striped animals", limit=50)
    return set() if answer.degraded else {it.conversation_id for it in answer.hits}


def test_each_text_is_embedded_once_by_whichever_server_and_taken_over_by_the_others(
    postgres: Postgres, start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    embed = Workers.embed

    def noted(workers: Workers, embedder: Any, pieces: list[Any], yields: Any) -> Any:
        embedded.append(len(pieces))
        return embed(workers, embedder, pieces, yields)

    monkeypatch.setattr(Workers, "embed", noted)
    url = postgres.new_database()
    servers = [
        start_server(store=url, data_dir=tmp_path / name, embedder="onnx")
        for name in ("one", "two")
    ]
    with Client(servers[0].target) as one, Client(servers[1].target) as two:
        names = [
            (one, two)[at % 2].conversations.create("web", messages=[Message.user(text)]).id
            for at, text in enumerate(TEXTS)
        ]
        for client in (one, two):
            until(lambda client=client: near(client) == set(names))  # type: ignore[misc]
        assert sum(embedded) == len(TEXTS)
        for server in servers:
            server.stop()
    third = start_server(store=url, data_dir=tmp_path / "three", embedder="onnx")
    with Client(third.target) as client, Post(third.target) as service:
        until(lambda: near(client) == set(names))
        assert sum(embedded) == len(TEXTS), "it embedded what others did"
        assert postgres.execute(LOGS, url) == [(name,) for name in sorted(names)]
        client.conversations.delete(names[0])
        redact(service, names[1], sequence=client.conversations.load(names[1]).messages[0].sequence)
        assert postgres.execute(LOGS, url) == [(name,) for name in sorted(names[2:])]


def test_vectors_of_a_text_that_was_redacted_or_deleted_meanwhile_are_not_kept(
    postgres: Postgres, tmp_path: Path
) -> None:
    database = PostgresDatabase(postgres.new_database())
    store = PostgresStore(database, "default", tmp_path)
    sharing, texts = store.sharing, [(CONVERSATION, b"1"), (CONVERSATION, b"2")]
    begin(store)
    before = sharing.moment()
    sharing.keep_vectors("m", CONVERSATION, {b"1": b"one"}, before)
    assert sharing.vectors("m", texts) == {b"1": b"one"}
    assert sharing.vectors("another", texts) == {}
    lines = [body + b"\n" for body in store.raw(CONVERSATION)]
    store.swap(CONVERSATION, lines, keep=True)
    sharing.keep_vectors("m", CONVERSATION, {b"2": b"two"}, before)
    assert sharing.vectors("m", texts) == {}
    sharing.keep_vectors("m", CONVERSATION, {b"2": b"two"}, sharing.moment())
    assert sharing.vectors("m", texts) == {b"2": b"two"}
    assert end_of(list(store.read(CONVERSATION, START))).lines
    store.swap(CONVERSATION, None)
    sharing.keep_vectors("m", CONVERSATION, {b"1": b"one"}, sharing.moment())
    assert sharing.vectors("m", texts) == {}
    database.close()


def test_a_long_text_that_another_server_redacts_while_it_is_embedded_is_not_kept(
    postgres: Postgres, start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_database()
    two = start_server(store=url, data_dir=tmp_path / "two")
    add_parts, follow = VectorStore.add_parts, Redactions.follow
    released, slices = threading.Event(), 0

    def redacting(store: VectorStore, *arguments: Any) -> bool:
        nonlocal slices
        slices += 1
        if slices == 1:  # of several: the turn of the embedder that keeps the text begins later
            with Post(two.target) as service:
                redact(service, own, turn_number=1)
        return add_parts(store, *arguments)

    def held(redactions: Redactions, conversation_id: str) -> None:
        released.wait(60)
        follow(redactions, conversation_id)

    monkeypatch.setattr(VectorStore, "add_parts", redacting)
    monkeypatch.setattr(Redactions, "follow", held)
    one = start_server(store=url, data_dir=tmp_path / "one", embedder="onnx")
    text = TEXTS[0] * (40 * 1024 // len(TEXTS[0]))
    with Client(one.target) as client:
        own = client.conversations.create("web", messages=[Message.user(text)]).id
        until(lambda: vectors.state_of(one.folder).vectors)  # the text is kept here
        assert slices > 1
        assert postgres.execute(LOGS, url) == []
        released.set()
        until(lambda: not vectors.state_of(one.folder).vectors)


def test_a_conversation_that_another_server_begins_again_is_found_by_its_meaning(
    postgres: Postgres, start_server: Start, tmp_path: Path
) -> None:
    url = postgres.new_database()
    one = start_server(store=url, data_dir=tmp_path / "one", embedder="onnx")
    two = start_server(store=url, data_dir=tmp_path / "two")
    with Client(one.target) as client, Client(two.target) as other:
        own = client.conversations.create("web", messages=[Message.user(TEXTS[0])]).id
        until(lambda: near(client) == {own})
        other.conversations.delete(own)
        until(lambda: not vectors.state_of(one.folder).vectors)
        other.conversations.create(
            "web", conversation_id=own, messages=[Message.user("Zebras live in a zoo.")]
        )
        until(lambda: near(client) == {own})
        assert vectors.state_of(one.folder).vectors == 1
