"""Notifications to a host: changes of the resources that it subscribed to, and the progress of a
call. Pages of lists, and completion.
"""

import asyncio
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
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated
from recollect import Client, Conversation, Message

from tests.client.conftest import Scripted, scripted
from tests.conftest import RunningServer, Start
from tests.mcp.conftest import COMMAND, UNKNOWN, environment, over_http, over_stdio
from tests.mcp.test_access import listening, token_of

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


@pytest.mark.parametrize("connected", [over_stdio, over_http, handshaken])
async def test_a_call_that_takes_long_tells_that_it_still_runs(
    scripted: Scripted, connected: Any
) -> None:
    reports: list[tuple[float, float | None, str | None]] = []

    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        reports.append((seconds, total, message))
        if len(reports) == 2:
            scripted.hang.set()

    scripted.hang.clear()
    async with connected(scripted.target) as mcp:
        with anyio.fail_after(30):
            result = await mcp.call_tool("recent_conversations", {}, progress_callback=progress)
    assert not result.is_error
    assert 0 < reports[0][0] < reports[1][0] <= 30
    assert reports[0][1:] == (30, f"waiting for {scripted.target}")


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
