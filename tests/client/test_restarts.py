"""Servers that are started again: a client waits for one that answered it before."""

import concurrent.futures
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
import recollect
from recollect import Message

from tests.client.conftest import Fault, Scripted, Waits, error_info
from tests.conftest import RunningServer, Start

QUICK = recollect.RetryPolicy(max_attempts=3, max_delay=0.05)
UNAVAILABLE = Fault(grpc.StatusCode.UNAVAILABLE)
CONVERSATION = "conv-01HQ0000000000000000000000"
NOBODY = "127.0.0.1:1"


class Away:
    """The pauses of a client. After so many of them something happens, such as a start."""

    def __init__(self, pauses: int, then: Callable[[], object]) -> None:
        self.seconds: list[float] = []
        self._pauses = pauses
        self._then = then

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._pauses:
            self._then()
        time.sleep(seconds)


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of a server that takes connections and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_call_waits_for_a_server_that_answered_before(
    server: RunningServer, start_server: Start
) -> None:
    away = Away(20, lambda: start_server(listen=server.target))
    with recollect.Client(server.target, retry=QUICK, sleep=away.sleep) as client:
        conversation = client.conversations.create("web").id
        server.stop()
        client.conversations.append_turn(conversation, [Message.user("Are you back?")])
        messages = client.conversations.load(conversation).messages
    assert [it.content for it in messages] == ["Are you back?"]
    assert len(away.seconds) >= 20


async def test_a_call_of_the_async_client_waits_too(
    server: RunningServer, start_server: Start
) -> None:
    away = Away(20, lambda: start_server(listen=server.target))

    async def sleep(seconds: float) -> None:
        away.sleep(seconds)

    async with recollect.AsyncClient(server.target, retry=QUICK, sleep=sleep) as client:
        conversation = await client.conversations.create("web")
        server.stop()
        assert await client.conversations.get(conversation.id) == conversation
    assert len(away.seconds) >= 20


def test_a_refusal_is_an_answer_too(server: RunningServer, start_server: Start) -> None:
    away = Away(20, lambda: start_server(listen=server.target))
    with recollect.Client(server.target, retry=QUICK, sleep=away.sleep) as client:
        for _ in range(2):
            with pytest.raises(recollect.NotFound):
                client.conversations.get(CONVERSATION)
            server.stop()
    assert len(away.seconds) >= 20


def test_six_writers_lose_nothing_and_write_nothing_twice_over_restarts(
    server: RunningServer, start_server: Start
) -> None:
    lives = [server]
    pauses = threading.Semaphore(0)

    def sleep(seconds: float) -> None:
        pauses.release()
        time.sleep(seconds)

    with recollect.Client(server.target, retry=QUICK, sleep=sleep) as client:
        conversations = [client.conversations.create("web").id for _ in range(6)]

        def write(conversation: str) -> list[str]:
            texts: list[str] = []
            while len(lives) < 4 or len(texts) < 40:
                texts.append(f"{len(lives)}.{len(texts)}")
                client.conversations.append_turn(conversation, [Message.user(texts[-1])])
            return texts

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            writing = [pool.submit(write, it) for it in conversations]
            while len(lives) < 4:
                lives[-1].stop()
                # far more pauses than the attempts of six calls have
                assert all(pauses.acquire() for _ in range(30))
                lives.append(start_server(listen=server.target))
            written = [it.result() for it in writing]
        for conversation, texts in zip(conversations, written, strict=True):
            loaded = client.conversations.load(conversation, max_turns=10_000).messages
            assert [it.content for it in loaded] == texts


def test_a_call_that_must_not_be_repeated_is_not_waited_with(
    server: RunningServer, waits: Waits
) -> None:
    with recollect.Client(server.target, retry=QUICK, sleep=waits.sleep) as client:
        conversation = client.conversations.create("web").id
        server.stop()
        with pytest.raises(recollect.Unavailable):
            client.conversations.append_turn(conversation, [Message.user("Hi")], request_id="")
    assert waits.seconds == []


@pytest.mark.parametrize(
    "policy",
    [
        recollect.RetryPolicy(max_attempts=3, max_delay=0.05, fails_fast=True),
        recollect.RetryPolicy(max_attempts=1),
    ],
    ids=["fails_fast", "one attempt"],
)
def test_a_policy_may_give_up_after_its_attempts(
    server: RunningServer, waits: Waits, policy: recollect.RetryPolicy
) -> None:
    with recollect.Client(server.target, retry=policy, sleep=waits.sleep) as client:
        conversation = client.conversations.create("web").id
        server.stop()
        with pytest.raises(recollect.Unavailable):
            client.conversations.get(conversation)
    assert len(waits.seconds) == policy.max_attempts - 1


def test_a_server_that_refuses_for_a_reason_is_asked_as_often_as_any(
    scripted: Scripted, waits: Waits
) -> None:
    refusal = Fault(grpc.StatusCode.UNAVAILABLE, [error_info("ERROR_REASON_STORAGE_UNAVAILABLE")])
    with recollect.Client(scripted.target, retry=QUICK, sleep=waits.sleep) as client:
        client.conversations.get(CONVERSATION)
        scripted.script = [refusal] * 10
        with pytest.raises(recollect.Unavailable):
            client.conversations.get(CONVERSATION)
    assert len(waits.seconds) == 2


def test_pauses_while_a_server_is_away_last_a_second_at_most(
    scripted: Scripted, waits: Waits
) -> None:
    slow = recollect.RetryPolicy(initial_delay=4, random=lambda: 1.0)
    with recollect.Client(scripted.target, retry=slow, sleep=waits.sleep) as client:
        client.conversations.get(CONVERSATION)
        scripted.script = [UNAVAILABLE] * 3
        client.conversations.get(CONVERSATION)
    assert waits.seconds == [1.0, 1.0, 1.0]


def test_a_server_that_stays_away_is_told_at_the_time_out(server: RunningServer) -> None:
    with recollect.Client(server.target, retry=QUICK, timeout=1) as client:
        conversation = client.conversations.create("web").id
        server.stop()
        began = time.monotonic()
        with pytest.raises(recollect.Unavailable, match="no Recollect server answers on 127"):
            client.conversations.get(conversation)
    assert 0.5 < time.monotonic() - began < 5


def test_a_server_that_comes_back_and_hangs_is_said_to_hang(server: RunningServer) -> None:
    """GRPC goes on saying "Connection refused" while it waits for a hanging server's first word."""
    host, port = server.target.split(":")
    hanging: list[socket.socket] = []
    away = Away(5, lambda: hanging.append(socket.create_server((host, int(port)))))
    with recollect.Client(server.target, retry=QUICK, sleep=away.sleep, timeout=3) as client:
        conversation = client.conversations.create("web").id
        server.stop()
        with pytest.raises(recollect.DeadlineExceeded, match="takes connections and answers none"):
            client.conversations.get(conversation)
    hanging[0].close()


def test_a_server_that_hangs_from_the_beginning_is_said_to_hang(silent: str, waits: Waits) -> None:
    once = recollect.RetryPolicy(max_attempts=1)
    with (
        recollect.Client(silent, retry=once) as client,
        pytest.raises(recollect.DeadlineExceeded, match="takes connections and answers none"),
    ):
        client.conversations.get(CONVERSATION)


def test_a_time_out_names_the_server_and_the_seconds(silent: str) -> None:
    with (
        recollect.Client(silent, timeout=0.3) as client,
        pytest.raises(
            recollect.DeadlineExceeded, match=rf"^{silent} did not answer within 0\.3 s$"
        ),
    ):
        client.conversations.get(CONVERSATION)


def test_without_a_server_the_error_says_what_to_do(waits: Waits) -> None:
    with (
        recollect.Client(NOBODY, sleep=waits.sleep) as client,
        pytest.raises(recollect.Unavailable, match=f"{NOBODY}: start one with `recollect-server"),
    ):
        client.conversations.get(CONVERSATION)
    assert len(waits.seconds) == recollect.RetryPolicy().max_attempts - 1


def test_a_watch_begins_while_a_server_that_answered_before_is_away(
    server: RunningServer, start_server: Start
) -> None:
    away = Away(20, lambda: start_server(listen=server.target))
    with recollect.Client(server.target, retry=QUICK, sleep=away.sleep) as client:
        conversation = client.conversations.create("web").id
        server.stop()
        with client.conversations.watch(conversation_ids=[conversation]) as watch:
            first: Any = next(watch)
    assert first is not None
    assert len(away.seconds) >= 20
