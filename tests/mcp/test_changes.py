"""Notifications to a host: changes of the resources that it subscribed to, and the progress of a
call. Pages of lists, and completion.
"""

import asyncio
import fcntl
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp import MCPDeprecationWarning, StdioServerParameters
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from recollect import AsyncClient, Client, Conversation, Message
from recollect.mcp.changes import Subscriptions
from recollect.mcp.server import Bridge, build

from tests.client.conftest import Scripted, scripted
from tests.conftest import RunningServer, Start
from tests.mcp.conftest import COMMAND, UNKNOWN, environment, over_http, over_stdio
from tests.mcp.test_access import listening, token_of
from tests.streaming.proxy import Proxy
from tests.waiting import until

__all__ = ["scripted"]

Talked = Callable[..., Conversation]


@asynccontextmanager
async def handshaken(address: str, handler: Any = None) -> AsyncIterator[McpClient]:
    """Connect over stdio as hosts did before MCP 2026-07-28."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND], env=environment(address)
    )
    async with McpClient(parameters, mode="legacy", message_handler=handler) as connected:
        yield connected


@asynccontextmanager
async def in_process(address: str, handler: Any) -> AsyncIterator[tuple[McpClient, Subscriptions]]:
    """Connect, as hosts did before MCP 2026-07-28, to a bridge of which a test sees the inside."""
    async with AsyncClient(address) as client:
        subscriptions = Subscriptions(client, str)
        bridge = build(client, Bridge(address, 30), subscriptions, has_sessions=True)
        try:
            async with McpClient(bridge, mode="legacy", message_handler=handler) as connected:
                yield connected, subscriptions
        finally:
            subscriptions.close()


def write(client: Client, name: str, text: str) -> None:
    client.conversations.append_turn(name, [Message.user(text)])


@pytest.mark.parametrize("connected", [over_stdio, over_http])
async def test_a_stream_of_changes_tells_what_it_was_asked_for_and_nothing_else(
    server: RunningServer, client: Client, talked: Talked, connected: Any
) -> None:
    watched, other = talked(), talked()
    uri, turn = f"recollect://conversation/{watched.id}", f"recollect://{watched.id}/turns/1"
    async with connected(server.target) as mcp:
        assert mcp.server_capabilities.resources.subscribe
        uris = [uri, turn, "file:///etc/passwd"]
        async with mcp.listen(resource_subscriptions=uris, tools_list_changed=True) as events:
            assert events.honored.resource_subscriptions == [uri, turn]
            assert not events.honored.tools_list_changed
            with anyio.fail_after(30):
                # A change that is made as soon as the stream is acknowledged is told.
                for text in ("one", "two"):
                    await asyncio.to_thread(write, client, other.id, "not asked for")
                    await asyncio.to_thread(client.conversations.create, "web")
                    await asyncio.to_thread(write, client, watched.id, text)
                    changed = {await anext(events), await anext(events)}
                    assert changed == {ResourceUpdated(uri), ResourceUpdated(turn)}
        async with mcp.listen(resources_list_changed=True) as events:
            with anyio.fail_after(30):
                await asyncio.to_thread(client.conversations.create, "web")
                assert await anext(events) == ResourcesListChanged()


async def test_one_subscription_may_end_while_another_begins(
    server: RunningServer, client: Client, talked: Talked
) -> None:
    uri = f"recollect://conversation/{talked().id}"
    name = uri.rpartition("/")[2]
    async with over_http(server.target) as mcp:

        async def hear(count: int) -> None:
            for _ in range(count):
                async with mcp.listen(resource_subscriptions=[uri]) as events:
                    await asyncio.to_thread(write, client, name, "heard")
                    assert await anext(events) == ResourceUpdated(uri)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(3):
                    group.start_soon(hear, 10)


async def test_a_host_of_an_earlier_version_subscribes_over_stdio(
    server: RunningServer, client: Client, talked: Talked
) -> None:
    it = talked()
    uri = f"recollect://conversation/{it.id}"
    updated: list[str] = []
    arrived = asyncio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.append(str(message.params.uri))
            arrived.set()

    async with handshaken(server.target, note) as mcp:
        assert mcp.server_capabilities.resources
        assert mcp.server_capabilities.resources.subscribe
        with pytest.warns(MCPDeprecationWarning):  # noqa: PT031 - each call of it warns
            for wrong in (f"recollect://conversation/{UNKNOWN}", "file:///etc/passwd"):
                with pytest.raises(MCPError, match=r"there is no conversation|uri: is like"):
                    await mcp.subscribe_resource(wrong)
            await mcp.subscribe_resource(uri)
            await mcp.subscribe_resource(uri)
            await asyncio.to_thread(write, client, it.id, "told once")
            with anyio.fail_after(30):
                await arrived.wait()
            await mcp.unsubscribe_resource(uri)
            await mcp.unsubscribe_resource(uri)
        await asyncio.to_thread(write, client, it.id, "told nobody")
        await mcp.list_resources()
    assert updated == [uri]


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_who_subscribes_again_after_the_stream_was_refused_is_told_of_changes(
    start_server: Start, caplog: pytest.LogCaptureFixture
) -> None:
    arrived = asyncio.Event()

    async def note(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            arrived.set()

    server = start_server()
    with Client(server.target) as client:
        name = client.conversations.create("web").id
    uri = f"recollect://conversation/{name}"
    proxy = Proxy(server.target)
    async with in_process(proxy.address, note) as (mcp, subscriptions):
        await mcp.subscribe_resource(uri)
        following = subscriptions._changes._task
        assert following is not None
        for settings in ({"auth": "required"}, {}):
            await asyncio.to_thread(server.stop)
            server = start_server(**settings)
            proxy.target = server.target
            await asyncio.to_thread(until, following.done)
        await mcp.subscribe_resource(uri)
        with Client(server.target) as client:
            await asyncio.to_thread(write, client, name, "told")
        with anyio.fail_after(30):
            await arrived.wait()
    proxy.close()
    assert [it.message for it in caplog.records if it.name == "asyncio"] == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pipe that is made small")
async def test_a_host_that_does_not_read_has_one_notification_of_many_changes_to_come(
    server: RunningServer, client: Client, talked: Talked
) -> None:
    name = talked().id
    uri = f"recollect://conversation/{name}"
    theirs, ours = os.pipe()
    answers, output = os.pipe()
    fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, 4096)
    published: list[Any] = []

    def call(number: int, method: str, **params: Any) -> None:
        it = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        os.write(ours, f"{json.dumps(it)}\n".encode())

    async def run(bridge: Any) -> None:
        with os.fdopen(theirs) as reading, os.fdopen(output, "w") as writing:
            async with stdio_server(anyio.wrap_file(reading), anyio.wrap_file(writing)) as streams:
                await bridge.run(*streams, bridge.create_initialization_options())

    async with AsyncClient(server.target) as connected, anyio.create_task_group() as group:
        subscriptions = Subscriptions(connected, str)
        bridge = build(connected, Bridge(server.target, 30), subscriptions, has_sessions=True)
        group.start_soon(run, bridge)
        with anyio.fail_after(30), os.fdopen(answers) as lines:
            info = {"name": "test", "version": "1"}
            call(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=info)
            await asyncio.to_thread(lines.readline)
            call(2, "resources/subscribe", uri=uri)
            await asyncio.to_thread(lines.readline)
            subscriptions._changes.subscribe(published.append)
            for number in range(100):
                await asyncio.to_thread(write, client, name, f"{number}")
            await asyncio.to_thread(until, lambda: len(published) == 100)
            call(3, "ping")
            text = ""
            while '"id":3' not in text:
                text += await asyncio.to_thread(lines.readline)
            os.close(ours)
            subscriptions.close()
            await asyncio.to_thread(lines.read)  # to its end: else the server writes to nobody
    assert 1 < text.count(uri) < 60


async def test_a_token_without_the_scope_of_streams_subscribes_to_nothing(
    start_server: Start,
) -> None:
    server = start_server(auth="required")
    token = token_of(server, "gateway")
    with listening(server.target, RECOLLECT_TOKEN=token) as url:
        async with McpClient(url) as mcp:
            with pytest.raises(MCPError, match=r"conversations\.read"):
                async with mcp.listen(resources_list_changed=True):
                    pass


async def test_a_call_that_takes_long_tells_that_it_still_runs(scripted: Scripted) -> None:
    ways = {"stdio": over_stdio, "HTTP": over_http, "stdio with a handshake": handshaken}
    reports: dict[str, list[tuple[float, float | None, str | None]]] = {way: [] for way in ways}

    async def call(way: str) -> None:
        async def note(progress: float, total: float | None, message: str | None) -> None:
            reports[way].append((progress, total, message))
            if all(len(it) >= 2 for it in reports.values()):
                scripted.hang.set()

        async with ways[way](scripted.target) as mcp:
            with anyio.fail_after(30):
                result = await mcp.call_tool("recent_conversations", {}, progress_callback=note)
        assert not result.is_error, way

    scripted.hang.clear()
    await asyncio.gather(*map(call, ways))
    for way, (first, second, *_) in reports.items():
        assert 0 < first[0] < second[0] <= 30, way
        assert first[1:] == (30, f"waiting for {scripted.target}"), way


async def test_resources_are_listed_page_by_page(server: RunningServer, client: Client) -> None:
    names = [client.conversations.create("web").id for _ in range(45)]
    listed: list[str] = []
    async with over_http(server.target) as mcp:
        cursor: str | None = None
        sizes: list[int] = []
        while cursor is not None or not sizes:
            page = await mcp.list_resources(cursor=cursor)
            sizes.append(len(page.resources))
            listed += [it.uri for it in page.resources]
            cursor = page.next_cursor
        with pytest.raises(MCPError, match="cursor: 7 is none of this server"):
            await mcp.list_resources(cursor="7")
    assert sizes == [20, 20, 5]
    # All were made at one moment: the clock of the tests stands still.
    assert sorted(listed) == sorted(f"recollect://conversation/{it}" for it in names)


async def test_turns_and_days_are_completed(
    server: RunningServer, client: Client, talked: Talked
) -> None:
    it = talked(12)
    async with over_http(server.target) as mcp:
        template = types.ResourceTemplateReference(
            type="ref/resource", uri="recollect://{conversationId}/turns/{turn}"
        )
        turns = await mcp.complete(
            template, {"name": "turn", "value": "1"}, context_arguments={"conversationId": it.id}
        )
        assert turns.completion.values == ["12", "11", "10", "1"]
        prompt = types.PromptReference(type="ref/prompt", name="catch_up")
        days = await mcp.complete(prompt, {"name": "since", "value": "20"})
        assert days.completion.values == [f"{it.update_time:%Y-%m-%d}"]
        nothing = await mcp.complete(template, {"name": "turn", "value": "1"})
        assert nothing.completion.values == []
        with pytest.raises(MCPError, match=re.escape("uri: is like")) as caught:
            await mcp.read_resource("file:///etc/passwd")
    assert caught.value.error.data == {"uri": "file:///etc/passwd"}
