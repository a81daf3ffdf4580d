"""The bridge over streamable HTTP: for this machine's programs, and for no page that a browser
shows.
"""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from recollect import Conversation

from tests.cases import each
from tests.mcp.conftest import environment, listening
from tests.programs import BRIDGE, ran

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a page", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_the_official_client_calls_the_tools_over_http(
    server: Any, talked: Callable[..., Conversation]
) -> None:
    it = talked(2, text="the disk is full")
    with listening(server.target) as url:
        async with McpClient(url) as mcp, McpClient(url) as another:
            result = await mcp.call_tool("search_conversations", {"query": "disk"})
            fetched = await another.call_tool(
                "fetch_context", {"conversationId": it.id, "turnRange": {"from": 2, "to": 2}}
            )
    assert result.structured_content["results"][0]["conversationId"] == it.id
    assert [line["content"] for line in fetched.structured_content["messages"]] == [
        "the disk is full 2",
        "answer 2 ",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "[::1]"])
def test_a_page_that_points_its_own_name_here_is_refused(server: Any, host: str) -> None:
    with listening(server.target, f"{host}:0") as url, httpx2.Client(headers=ACCEPT) as http:
        assert http.post(url, json=INITIALIZE).status_code == 200
        rebound = http.post(url, json=INITIALIZE, headers={"Host": "evil.example:80"})
        assert rebound.status_code == 421
        foreign = http.post(url, json=INITIALIZE, headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403


@each(
    "listen",
    [
        "0.0.0.0:0",
        "192.0.2.1:80",
        "[::]:80",
        "example.org:80",
        "8765",
        "127.0.0.1:x",
        "127.0.0.1:70000",
    ],
)
def test_it_listens_for_this_machine_alone(listen: str) -> None:
    code, output, errors = ran(BRIDGE, ["--http", listen], env=environment("127.0.0.1:1"))
    assert (code, output) == (2, "")
    assert f"--http {listen}: " in errors
    assert "Traceback" not in errors


def test_a_port_that_is_taken_is_told_in_one_sentence(server: Any) -> None:
    code, _, errors = ran(BRIDGE, ["--http", server.target], env=environment(server.target))
    assert (code, errors) == (
        1,
        f"recollect-mcp: cannot listen on {server.target}: Address already in use\n",
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--address", "http://127.0.0.1:50051"), "argument --address: must be without a scheme"),
        (("--address", "127.0.0.1:99999"), "argument --address: has the port 99999"),
        (("--timeout", "1e300"), "argument --timeout: must be a number of seconds above 0"),
        (("--timeout", "soon"), "argument --timeout: "),
        (("--http", "127.0.0.1:" + "9" * 5000), "--http 127.0.0.1:9"),
    ],
)
def test_a_wrong_flag_is_told_at_once(flags: tuple[str, ...], message: str) -> None:
    code, output, errors = ran(BRIDGE, [*flags], env=environment("127.0.0.1:1"))
    assert (code, output) == (2, "")
    assert message in errors
    assert "Traceback" not in errors
