"""Races: whatever callers do to the same few conversations at the same moment, each acknowledged
change is there once, streams tell it once, and the indexes agree.

`HOSTILE_SCALE=20` takes some minutes; `RACE_SEEDS=100` tries so many seeds, from `RACE_FIRST` on.
"""

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recollect import Client
from recollect.v1.update_pb2 import Update

from tests.administration.test_verification import verified
from tests.channels.conftest import Post
from tests.conftest import RunningServer, Start
from tests.hostile.race_model import KEPT, PERSONS, TOMBSTONE, Model
from tests.hostile.races import Caller
from tests.postgres import Postgres
from tests.server.conftest import answers, delete_index, files_with
from tests.streaming import checkers
from tests.streaming.conftest import Subscriber

FIRST = int(os.environ.get("RACE_FIRST", "1"))
ERASED = {"conversation_renamed", "conversation_abbreviated", "conversation_updated"}
QUERIES = ["zebra", "title", "tea"]
ALL = {"max_turns": 1000, "max_tokens": 10_000_000}


def seeds(scale: int) -> range:
    """Return the seeds to try."""
    return range(FIRST, FIRST + int(os.environ.get("RACE_SEEDS", str(scale))))


def calls(scale: int) -> int:
    """Return the number of calls of each caller."""
    return 120 if scale > 1 or "RACE_SEEDS" in os.environ else 40


def race(
    servers: list[RunningServer],
    seed: int,
    calls: int,
    join: Callable[[], RunningServer] | None = None,
) -> Model:
    """Let callers race on some servers, and check what there is afterwards, on each of them, and on
    the one that `join` starts meanwhile.
    """
    model = Model(is_shared=len(servers) > 1)
    clock = servers[0].clock
    with Post(servers[0].target) as post:
        post.own("whatsapp", PERSONS[0])
        post.own("email", "alex@example.org")
    subscribers = [Subscriber(it.target).ready() for it in servers]
    wanderer = Subscriber(servers[0].target).ready()
    subscribers.append(wanderer)
    late: list[Subscriber] = []  # it does not know how often an id came back before
    callers = [
        Caller(model, servers[n % len(servers)].target, f"{seed}c{n}", f"{seed}.{n}", clock)
        for n in range(6)
    ]
    threads = [threading.Thread(target=it.run, args=(calls,)) for it in callers]
    for thread in threads:
        thread.start()
    if join is not None:
        while model.calls < calls and not model.failures:
            threads[0].join(0.01)
        servers = [*servers, join()]
        late.append(Subscriber(servers[-1].target).ready())
    order = random.Random(seed)  # noqa: S311 - no secret
    while any(it.is_alive() for it in threads):
        threads[0].join(order.random() / 4)
        if wanderer.error is None and wanderer.updates:
            wanderer.resume(order.choice(servers).target)
            wanderer.ready()
    for thread in threads:
        thread.join()
    assert not model.failures, "\n".join(model.failures)
    services = [Post(it.target) for it in servers]
    try:
        services[0].conversation_of("the end")
        for one in subscribers + late:
            one.until(lambda one=one: "the end" in one.messages())  # type: ignore[misc]
            one.close()
        check_words(model, subscribers)
        for server, service in zip(servers, services, strict=True):
            check_contents(model, service)
            check_stream(service, subscribers + late)
            with Client(server.target) as client:
                verification = verified(client)
            assert not verification.problems, (verification.problems, verification.failure)
        first, *others = [answers(it, QUERIES) for it in services]
        assert all(it == first for it in others)
    finally:
        for service in services:
            service.channel.close()
        for caller in callers:
            caller.channel.close()
    return model


def check_contents(model: Model, service: Post) -> None:
    """Check that each acknowledged message is there once, and what was removed is nowhere."""
    living = {it.id for page in service.pages(page_size=100, archived=2) for it in page}
    assert living >= set(model.ids) - model.deleted, "an acknowledged conversation is not there"
    stored: dict[str, dict[int, Any]] = {}
    for name in living:
        messages = service.load(name, before_turn=100_000, **ALL).messages
        lines = [it.sequence for it in messages]
        assert len(lines) == len(set(lines)), f"{name} has a line twice"
        stored[name] = {it.sequence: it for it in messages}
        assert service.get(name).message_count == len(messages)
    for request_id, appends in model.appends.items():
        there = [it for it in appends if it.conversation_id not in model.deleted]
        assert len({(it.conversation_id, tuple(n for n, _ in it.lines)) for it in there}) <= 1, (
            f"{request_id} was carried out twice: {there}"
        )
        for append in there:
            for line, text in append.lines:
                message = stored[append.conversation_id][line]
                if (append.conversation_id, line) in model.redacted:
                    assert message.content == TOMBSTONE
                else:
                    assert message.content == text
    held = {
        word: {name for name, them in stored.items() for it in them.values() if word == it.content}
        for word in model.words
    }
    for word, names in held.items():
        answer = set(service.found(word, limit=50))
        assert names <= answer, f"{word} stands in {names} and is found in {answer}"
    model.removed = {word for word, names in held.items() if not names}


def check_words(model: Model, subscribers: list[Subscriber]) -> None:
    """Check the six words of a stream. An id that comes back after a delete is another
    conversation. A name or notes that are redacted before they are told are told to nobody.
    """
    written = [it for it in model.written if it.conversation_id not in KEPT]
    runs = [list(incarnations(one.runs)) for one in subscribers]
    redacted = {
        it.conversation_id for run in runs[0] for it in run if it.kind == "messages_redacted"
    }

    def is_told(it: checkers.Received) -> bool:
        is_kept = it.sequences or it.kind not in ERASED
        return bool(is_kept or it.conversation_id not in redacted)

    runs = [[[it for it in run if is_told(it)] for run in one] for one in runs]
    for one in runs:
        checkers.check(one, written, runs[0][0])


def incarnations(runs: list[list[Update]]) -> Iterator[list[checkers.Received]]:
    """Yield what each connection brought, with a number behind each id that was deleted before."""
    deletes: Counter[str] = Counter()
    for run in runs:
        them = []
        for update in run:
            it = checkers.received(update)
            if number := deletes[it.conversation_id]:
                it = replace(it, conversation_id=f"{it.conversation_id} {number}")
            deletes[update.conversation_id] += it.kind == "conversation_deleted"
            them.append(it)
        yield them


def check_stream(service: Post, subscribers: list[Subscriber]) -> None:
    """Check that the last update of each conversation says what it is."""
    for one in subscribers:
        last: dict[str, Any] = {}
        for update in one.updates:
            kind = str(update.WhichOneof("kind"))
            value = getattr(update, kind)
            if kind == "conversation_list":
                last = {it.id: it for it in value.conversations}
            elif kind == "conversation_deleted":
                last.pop(update.conversation_id, None)
            elif kind == "conversation_renamed" and update.conversation_id in last:
                last[update.conversation_id].title = value.title
            elif hasattr(value, "conversation") and update.conversation_id:
                last[update.conversation_id] = value.conversation
        for name, conversation in last.items():
            now = service.get(name)
            for field in ("title", "message_count", "turn_count", "archived", "pinned", "model"):
                assert getattr(conversation, field) == getattr(now, field), (name, field)
            assert conversation.metadata == now.metadata


@pytest.mark.timeout(3600)
def test_callers_that_race_on_one_server_lose_nothing(
    start_server: Start, tmp_path: Path, scale: int
) -> None:
    for seed in seeds(scale):
        server = start_server(data_dir=tmp_path / f"race {seed}")
        model = race([server], seed, calls(scale))
        with Post(server.target) as service:
            before = answers(service, QUERIES)
        server.stop()
        assert not files_with(server.data_dir, *model.removed)
        delete_index(server)
        server = start_server(data_dir=tmp_path / f"race {seed}")
        with Post(server.target) as service:
            assert answers(service, QUERIES) == before
        server.stop()


@pytest.mark.timeout(3600)
def test_callers_that_race_on_two_servers_lose_nothing(
    start_server: Start, postgres: Postgres, tmp_path: Path, scale: int
) -> None:
    for seed in seeds(scale):
        url = postgres.new_database()
        servers = [
            start_server(store=url, data_dir=tmp_path / f"race {seed} {name}")
            for name in ("one", "two")
        ]
        model = race(servers, seed, calls(scale))
        for server in servers:
            server.stop()
            assert not files_with(server.data_dir, *model.removed)


@pytest.mark.timeout(3600)
def test_a_server_that_joins_a_race_of_two_others_agrees_with_them(
    start_server: Start, postgres: Postgres, tmp_path: Path, scale: int
) -> None:
    for seed in seeds(scale):
        url = postgres.new_database()

        def start(name: str, seed: int = seed, url: str = url) -> RunningServer:
            return start_server(store=url, data_dir=tmp_path / f"race {seed} {name}")

        servers = [start("one"), start("two")]
        third: list[RunningServer] = []

        def join(start: Any = start, third: list[RunningServer] = third) -> RunningServer:
            third.append(start("three"))
            return third[0]

        model = race(servers, seed, calls(scale), join)
        servers += third
        for server in servers:
            server.stop()
            assert not files_with(server.data_dir, *model.removed)
