"""The official MCP client, over a real process or a real port."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters
from recollect import Client, Conversation, Message

from tests.programs import BRIDGE, Forked

COMMAND = ("-m", BRIDGE)


def environment(address: str) -> dict[str, str]:
    """Return the environment of the bridge's process: the MCP client passes on little by itself."""
    inherited = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    return inherited | {"RECOLLECT_ADDRESS": address}


@asynccontextmanager
async def over_stdio(address: str, *flags: str, **more: str) -> AsyncIterator[McpClient]:
    """Connect the official client to a bridge that runs as its process."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *flags], env=environment(address) | more
    )
    async with McpClient(parameters) as connected:
        yield connected


@asynccontextmanager
async def over_http(address: str, *_: str, **more: str) -> AsyncIterator[McpClient]:
    """Connect the official client to a bridge on a port, which starts five times as fast as over
    stdio: it is forked.
    """
    with listening(address, **more) as url:
        async with McpClient(url) as connected:
            yield connected


@contextmanager
def listening(address: str, listen: str = "127.0.0.1:0", **more: str) -> Iterator[str]:
    """Run the bridge on a port and yield its URL."""
    with Forked(
        BRIDGE, ["--http", listen], stderr=subprocess.PIPE, env=environment(address) | more
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line.startswith("recollect-mcp listens on http://"), line + process.stderr.read()
            yield line.split()[3]
        finally:
            process.terminate()


@pytest.fixture
def talked(client: Client) -> Callable[..., Conversation]:
    """Return a function that begins a conversation whose turns differ by their number alone."""

    def talk(turns: int = 1, *, text: str = "line", length: int = 0, **fields: Any) -> Conversation:
        it = client.conversations.create(fields.pop("channel", "web"), **fields)
        for turn in range(1, turns + 1):
            answer = f"answer {turn} ".ljust(length, "x")
            client.conversations.append_turn(
                it.id, [Message.user(f"{text} {turn}", sender="alex"), Message.assistant(answer)]
            )
        return client.conversations.get(it.id)

    return talk


UNKNOWN = "conv-01HQ0000000000000000000000"


async def called(mcp: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the structured answer of a call that must succeed, and check that its text equals
    it.
    """
    result = await mcp.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return dict(result.structured_content)


async def refused(mcp: Any, name: str, **arguments: Any) -> str:
    """Return the text of a call that must fail."""
    result = await mcp.call_tool(name, arguments)
    assert result.is_error
    return str(result.content[0].text)
