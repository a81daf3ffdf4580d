"""Connecting, closing, and what goes with every call."""

import asyncio
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import grpc
import pytest
import recollect
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from recollect._shared import channel
from recollect.v1 import recall_service_pb2 as recall_pb

from tests.cases import each
from tests.client.conftest import Fault, Scripted, error_info, retry_info

CONVERSATION = "conv-01HQ0000000000000000000000"


def test_closing_twice_is_harmless_and_a_call_afterwards_is_refused(scripted: Scripted) -> None:
    client = recollect.Client(scripted.target)
    with client as same:
        assert same is client
    client.close()
    client.close()
    with pytest.raises(recollect.ClientClosed):
        client.conversations.get(CONVERSATION)
    assert scripted.requests == []


async def test_the_address_comes_from_the_environment(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECOLLECT_ADDRESS", raising=False)
    async with recollect.AsyncClient() as client:
        assert repr(client) == "<AsyncClient of 127.0.0.1:50051>"
    monkeypatch.setenv("RECOLLECT_ADDRESS", scripted.target)
    with recollect.Client() as client, recollect.Client("127.0.0.1:1") as other:
        client.conversations.get(CONVERSATION)
        assert repr(other) == "<Client of 127.0.0.1:1>"
    assert len(scripted.requests) == 1


async def test_closing_the_async_client_twice_is_harmless(scripted: Scripted) -> None:
    client = recollect.AsyncClient(scripted.target)
    await client.conversations.get(CONVERSATION)
    await client.close()
    await client.close()
    with pytest.raises(recollect.ClientClosed):
        await client.conversations.get(CONVERSATION)
    assert len(scripted.requests) == 1


async def test_an_async_client_that_was_never_used_can_be_closed() -> None:
    async with recollect.AsyncClient("127.0.0.1:1") as client:
        assert repr(client) == "<AsyncClient of 127.0.0.1:1>"


def test_closing_ends_a_call_that_runs_in_another_thread(scripted: Scripted) -> None:
    scripted.hang.clear()
    client = recollect.Client(scripted.target, retry=None)
    raised: list[BaseException] = []

    def call() -> None:
        try:
            client.conversations.get(CONVERSATION)
        except recollect.RecollectError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert scripted.arrived.wait(10)
    client.close()
    thread.join(10)
    assert [type(error) for error in raised] == [recollect.ClientClosed]


async def test_closing_ends_a_call_of_another_task_without_cancelling_the_task(
    scripted: Scripted,
) -> None:
    scripted.hang.clear()
    client = recollect.AsyncClient(scripted.target)
    task = asyncio.create_task(client.conversations.get(CONVERSATION))
    assert await asyncio.to_thread(scripted.arrived.wait, 10)
    await client.close()
    with pytest.raises(recollect.ClientClosed):
        await task


def _paused(scripted: Scripted) -> tuple[threading.Event, recollect.RetryPolicy]:
    """Script failures after which a client pauses for ten minutes, and return its policy and an
    event that is set when a pause is due.
    """
    info = error_info("ERROR_REASON_LIMIT_EXCEEDED")
    fault = Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info, retry_info(600)])
    scripted.script, scripted.streams = [fault], [[fault]]
    due = threading.Event()

    def jitter() -> float:
        due.set()
        return 0.0

    return due, recollect.RetryPolicy(random=jitter)


@pytest.mark.parametrize("waiting", ["call", "watch of the client", "watch"])
def test_closing_ends_what_pauses_before_a_retry(scripted: Scripted, waiting: str) -> None:
    due, policy = _paused(scripted)
    client = recollect.Client(scripted.target, timeout=3600, retry=policy)
    watch = client.conversations.watch()
    outcomes: list[object] = []

    def call() -> None:
        try:
            outcomes.append(client.conversations.get(CONVERSATION))
        except recollect.RecollectError as error:
            outcomes.append(type(error))

    target = call if waiting == "call" else lambda: outcomes.append(list(watch))
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    assert due.wait(10)
    (watch if waiting == "watch" else client).close()
    thread.join(10)
    assert outcomes == [recollect.ClientClosed if waiting == "call" else []]
    client.close()


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("waiting", ["call", "watch of the client", "watch"])
async def test_closing_ends_what_pauses_before_a_retry_in_a_task(
    scripted: Scripted, waiting: str, elsewhere: bool
) -> None:
    due, policy = _paused(scripted)
    client = recollect.AsyncClient(scripted.target, timeout=3600, retry=policy)
    watch = client.conversations.watch()
    work = client.conversations.get(CONVERSATION) if waiting == "call" else anext(watch, None)
    task = asyncio.ensure_future(work)
    assert await asyncio.to_thread(due.wait, 10)

    async def close() -> None:
        await (watch if waiting == "watch" else client).close()

    if elsewhere:  # in a thread with a loop of its own
        await asyncio.to_thread(asyncio.run, close())
    else:
        await close()
    done, _ = await asyncio.wait({task}, timeout=10)
    assert done, "the pause goes on"
    if waiting == "call":
        assert isinstance(task.exception(), recollect.ClientClosed)
    else:
        assert task.result() is None
    await client.close()


async def test_a_pause_ends_after_its_time_and_when_its_task_is_cancelled(
    scripted: Scripted,
) -> None:
    info = error_info("ERROR_REASON_LIMIT_EXCEEDED")
    scripted.script = [Fault(grpc.StatusCode.RESOURCE_EXHAUSTED, [info, retry_info(0.01)])]
    async with recollect.AsyncClient(scripted.target) as client:
        await client.conversations.get(CONVERSATION)
    assert scripted.methods == ["Get", "Get"]
    due, policy = _paused(scripted)
    async with recollect.AsyncClient(scripted.target, timeout=3600, retry=policy) as client:
        task = asyncio.create_task(client.conversations.get(CONVERSATION))
        assert await asyncio.to_thread(due.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_task_that_is_cancelled_hears_of_it(scripted: Scripted) -> None:
    scripted.hang.clear()
    async with recollect.AsyncClient(scripted.target) as client:
        task = asyncio.create_task(client.conversations.get(CONVERSATION))
        assert await asyncio.to_thread(scripted.arrived.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_cancel_scope_of_anyio_ends_a_call_and_nothing_else(scripted: Scripted) -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        assert await asyncio.to_thread(scripted.arrived.wait, 10)
        scope.cancel()

    async with recollect.AsyncClient(scripted.target) as client, anyio.create_task_group() as group:
        for _ in range(3):
            scripted.hang.clear()
            scripted.arrived.clear()
            with anyio.CancelScope() as scope:
                group.start_soon(cancel, scope)
                await client.conversations.get(CONVERSATION)
            assert scope.cancelled_caught
            scripted.hang.set()
            await client.conversations.get(CONVERSATION)


def test_an_async_client_can_be_made_before_there_is_an_event_loop(scripted: Scripted) -> None:
    client = recollect.AsyncClient(scripted.target)

    async def use() -> None:
        async with client:
            await client.conversations.get(CONVERSATION)

    asyncio.run(use())
    assert scripted.methods == ["Get"]


def test_an_async_client_serves_one_event_loop_after_the_other_and_several_at_once(
    scripted: Scripted,
) -> None:
    client = recollect.AsyncClient(scripted.target)

    async def work() -> None:
        await client.conversations.get(CONVERSATION)

    for _ in range(3):
        asyncio.run(work())
    with ThreadPoolExecutor(3) as pool:
        for _ in pool.map(lambda _: asyncio.run(work()), range(6)):
            pass
    asyncio.run(client.close())
    with pytest.raises(recollect.ClientClosed):
        asyncio.run(work())
    assert len(scripted.methods) == 9


def test_a_unix_socket_is_a_target(scripted: Scripted, tmp_path: Path) -> None:
    with recollect.Client(f"unix:{tmp_path / 'socket'}") as client:
        client.conversations.get(CONVERSATION)
    assert scripted.methods == ["Get"]


async def test_a_unix_socket_is_a_target_of_the_async_client(
    scripted: Scripted, tmp_path: Path
) -> None:
    async with recollect.AsyncClient(f"unix:{tmp_path / 'socket'}") as client:
        await client.conversations.get(CONVERSATION)
    assert scripted.methods == ["Get"]


@each(
    ("target", "problem"),
    [
        ("", "is empty"),
        (" 127.0.0.1:1", "no address has"),
        ("127.0.0.1:1\n", "no address has"),
        ("local\0host:1", "no address has"),
        ("\udcff:1", "no address has"),
        ("two words:1", "cannot be read"),
        ("http://127.0.0.1:50051", "without a scheme"),
        ("grpc://localhost:1", "without a scheme"),
        ("127.0.0.1:99999", "99999"),
        ("127.0.0.1:65536", "65536"),
        ("127.0.0.1:0", "1 to 65535"),
        ("127.0.0.1:-1", "-1"),
        ("127.0.0.1:" + "9" * 5000, "1 to 65535"),
        ("127.0.0.1:port", "port"),
        ("127.0.0.1:", "1 to 65535"),
        ("127.0.0.1", "no port"),
        ("localhost", "no port"),
        ("50051", "no port"),
        (":50051", "no host"),
        ("::1", "brackets"),
        ("[::1]", "no port"),
        ("[::1]:99999", "99999"),
        ("dns:///127.0.0.1:70000", "70000"),
        ("dns:localhost", "no port"),
        ("ipv4:127.0.0.1:1,127.0.0.1:99999", "99999"),
        ("unix:", "no path"),
        ("unix://relative", "begins with /"),
        ("unix:/" + "x" * 107, "too long"),
        (50051, "not text"),
    ],
)
def test_a_target_that_is_no_address_is_refused(target: Any, problem: str) -> None:
    with pytest.raises(recollect.InvalidArgument, match=r"127\.0\.0\.1:50051") as caught:
        recollect.Client(target)
    assert problem in str(caught.value)
    assert (caught.value.violations[0].field, len(str(caught.value)) < 400) == ("target", True)
    with pytest.raises(recollect.InvalidArgument):
        recollect.AsyncClient(target)


@each(
    "target",
    [
        "127.0.0.1:1",
        "localhost:65535",
        "recollect.default.svc:50051",
        "[::1]:50051",
        "[fe80::1%eth0]:50051",
        "unix:socket",
        "unix:/tmp/my folder/socket",
        "unix:///tmp/socket",
        "unix-abstract:name",
        "dns:localhost:50051",
        "dns://192.0.2.1/localhost:50051",
        "ipv4:127.0.0.1:1,127.0.0.1:2",
        "ipv6:[::1]:50051",
        "dns:50051",  # a host of that name
    ],
)
def test_every_form_of_address_that_grpc_knows_is_a_target(target: str) -> None:
    with recollect.Client(target) as client:
        assert target in repr(client)


@pytest.mark.parametrize("timeout", [0, -1, 1e9, 1e10, float("inf"), float("nan"), "5", None])
def test_a_timeout_that_no_clock_can_measure_is_refused(scripted: Scripted, timeout: Any) -> None:
    with pytest.raises(recollect.InvalidArgument) as caught:
        recollect.Client(scripted.target, timeout=timeout)
    assert caught.value.violations[0].field == "timeout"


async def test_the_longest_timeout_waits_for_the_answer(scripted: Scripted) -> None:
    with recollect.Client(scripted.target, timeout=100_000_000) as client:
        client.conversations.get(CONVERSATION)
    async with recollect.AsyncClient(scripted.target, timeout=100_000_000) as another:
        await another.conversations.get(CONVERSATION)
    assert scripted.methods == ["Get", "Get"]


def test_the_token_goes_with_every_call(scripted: Scripted) -> None:
    with recollect.Client(scripted.target, token="s3cret") as client:  # noqa: S106
        client.conversations.get(CONVERSATION)
        client.recall.search("disk")
        assert "s3cret" not in repr(client)
    assert [received.metadata["authorization"] for received in scripted.requests] == [
        "Bearer s3cret"
    ] * 2


def test_without_a_token_none_is_sent(scripted: Scripted) -> None:
    with recollect.Client(scripted.target) as client:
        client.conversations.get(CONVERSATION)
    assert "authorization" not in scripted.requests[0].metadata


async def test_the_token_goes_with_every_async_call(scripted: Scripted) -> None:
    async with recollect.AsyncClient(scripted.target, token="s3cret") as client:  # noqa: S106
        await client.conversations.get(CONVERSATION)
    assert scripted.requests[0].metadata["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "schlüssel"])
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(recollect.InvalidArgument) as caught:
        recollect.Client(token=token)
    assert caught.value.violations[0].field == "token"
    assert not token or token not in str(caught.value)


def test_token_and_space_come_from_the_environment_and_arguments_win(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_TOKEN", "from-environment")
    monkeypatch.setenv("RECOLLECT_SPACE", "env")
    with recollect.Client(scripted.target) as client:
        client.conversations.get(CONVERSATION)
    with recollect.Client(scripted.target, token="given", space="alex") as client:  # noqa: S106
        client.conversations.get(CONVERSATION)
    keys = ("authorization", "recollect-space")
    assert [[received.metadata[key] for key in keys] for received in scripted.requests] == [
        ["Bearer from-environment", "env"],
        ["Bearer given", "alex"],
    ]


@pytest.mark.parametrize("name", ["RECOLLECT_TOKEN", "RECOLLECT_SPACE", "RECOLLECT_CA"])
def test_an_empty_variable_is_none(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "")
    with recollect.Client(scripted.target) as client:
        client.conversations.get(CONVERSATION)
    assert not {"authorization", "recollect-space"} & set(scripted.requests[0].metadata)


BEYOND = [
    "192.0.2.1:1",
    "recollect.example:1",
    "dns:///[2001:db8::1]:1",
    "ipv4:127.0.0.1:1,192.0.2.1:1",
]
HERE = ["127.0.0.2:1", "localhost:1", "[::1]:1", "unix:/s", "dns:localhost:1", "ipv4:127.0.0.1:1"]


@pytest.mark.parametrize("target", BEYOND)
def test_a_token_does_not_cross_the_network_in_plain_text(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(recollect.InvalidArgument, match="over the network in plain text") as raised:
        recollect.Client(target, token="s3cret")  # noqa: S106
    assert raised.value.violations[0].field == "token"
    assert "s3cret" not in str(raised.value)
    recollect.Client(target, token="s3cret", insecure=True).close()  # noqa: S106
    recollect.Client(target, token="s3cret", ca="system").close()  # noqa: S106
    recollect.Client(target).close()
    monkeypatch.setenv("RECOLLECT_TOKEN", "s3cret")
    with pytest.raises(recollect.InvalidArgument, match="over the network in plain text"):
        recollect.AsyncClient(target)


@each("target", HERE)
def test_a_token_goes_to_this_machine_without_tls(target: str) -> None:
    with recollect.Client(target, token="s3cret") as client:  # noqa: S106
        assert ("authorization", "Bearer s3cret") in client._invoker._connection._metadata


def test_no_part_of_a_client_shows_its_token(scripted: Scripted) -> None:
    client = recollect.Client(scripted.target, token="s3cret")  # noqa: S106
    invoker = client._invoker
    parts = [client, vars(client), invoker, vars(invoker), invoker._connection._endpoint]
    assert not [it for it in parts if "s3cret" in repr(it)]
    scripted.script = [Fault(grpc.StatusCode.UNAUTHENTICATED)]
    with pytest.raises(recollect.Unauthenticated) as raised:
        client.conversations.get(CONVERSATION)
    assert "s3cret" not in f"{raised.value!r}{vars(raised.value)}"
    client.close()


def test_an_answer_beyond_grpcs_own_limit_arrives(
    scripted: Scripted, scripted_client: recollect.Client
) -> None:
    large = "x" * (5 * 1024 * 1024)
    scripted.script = [recall_pb.FetchContextResponse(conversation_name=large)]
    assert scripted_client.recall.fetch_context(CONVERSATION, (1, 2)).conversation_name == large


def test_a_proxy_of_the_environment_is_not_used(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "")
    with recollect.Client(scripted.target, retry=None) as client:
        client.conversations.get(CONVERSATION)
    assert scripted.methods == ["Get"]


def test_grpcs_own_retries_are_off() -> None:
    assert ("grpc.enable_retries", 0) in channel.CHANNEL_OPTIONS


def test_threads_share_one_client(scripted: Scripted, scripted_client: recollect.Client) -> None:
    barrier = threading.Barrier(8)

    def call() -> None:
        barrier.wait(10)
        scripted_client.recall.recent(limit=1)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert scripted.methods == ["Recent"] * 8


def test_a_server_that_is_away_is_looked_for_twice_a_second() -> None:
    """A call with its retries takes two seconds, and must meet a server that is back by then."""
    ended = threading.Event()
    moments: list[float] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)

        def hang_up() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    listener.accept()[0].close()
                    moments.append(time.monotonic())

        hanging_up = threading.Thread(target=hang_up)
        hanging_up.start()
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        with grpc.insecure_channel(target, channel.CHANNEL_OPTIONS) as bare:
            stub: Any = HealthStub(bare)
            until = time.monotonic() + 4.5
            while time.monotonic() < until:
                with pytest.raises(grpc.RpcError):
                    stub.Check(HealthCheckRequest())
                ended.wait(0.02)
        ended.set()
        hanging_up.join()
    pauses = [after - before for before, after in pairwise(moments)]
    assert max(pauses) < 0.9, pauses
