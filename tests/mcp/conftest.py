"""What the tests of the MCP bridge share: the official client, over a real process or a real
port.
"""

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
    """What the bridge's process needs; the client of mcp passes on little by itself."""
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "PATH") if name in os.environ}
    return kept | {"RECOLLECT_ADDRESS": address}


@asynccontextmanager
async def over_stdio(address: str, *flags: str, **more: str) -> AsyncIterator[McpClient]:
    """The official client, with the bridge as its process."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *flags], env=environment(address) | more
    )
    async with McpClient(parameters) as connected:
        yield connected


@asynccontextmanager
async def over_http(address: str) -> AsyncIterator[McpClient]:
    """Connect the official client to a bridge on a port, which starts five times as fast as over
    stdio: it is forked.
    """
    with listening(address) as url:
        async with McpClient(url) as connected:
            yield connected


@contextmanager
def listening(address: str, listen: str = "127.0.0.1:0") -> Iterator[str]:
    """The bridge on a port; answers its URL."""
    with Forked(
        BRIDGE, ["--http", listen], stderr=subprocess.PIPE, env=environment(address)
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith("recollect-mcp listens on http://"), said + process.stderr.read()
            yield said.split()[3]
        finally:
            process.terminate()


@pytest.fixture
def talked(client: Client) -> Callable[..., Conversation]:
    """Begins a conversation of so many turns, all alike but for their number."""

    def talk(turns: int = 1, *, said: str = "line", length: int = 0, **fields: Any) -> Conversation:
        it = client.conversations.create(fields.pop("channel", "web"), **fields)
        for turn in range(1, turns + 1):
            answer = f"answer {turn} ".ljust(length, "x")
            client.conversations.append_turn(
                it.id, [Message.user(f"{said} {turn}", sender="alex"), Message.assistant(answer)]
            )
        return client.conversations.get(it.id)

    return talk


UNKNOWN = "conv-01HQ0000000000000000000000"


async def called(mcp: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """The structured answer of a call that must succeed. The text beside it says the same."""
    result = await mcp.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    assert json.loads(result.content[0].text) == result.structured_content
    return dict(result.structured_content)


async def refused(mcp: Any, name: str, **arguments: Any) -> str:
    """What a call that must fail says."""
    result = await mcp.call_tool(name, arguments)
    assert result.is_error
    return str(result.content[0].text)
