"""Wrong arguments of the tools: named as the caller wrote them. One bridge answers all, as none of
them changes anything.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client as McpClient
from recollect_server.run import app
from recollect_server.run.settings import Settings

from tests.mcp.conftest import UNKNOWN, called, listening, refused


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a bridge on a port for an empty server, and yield its URL."""
    settings = Settings.load(
        None, {"listen": "127.0.0.1:0", "data_dir": tmp_path_factory.mktemp("empty") / "data"}
    )
    server = app.start(settings)
    with listening(server.address) as url:
        yield url
    server.stop()


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search_conversations", {}, "query: Field required"),
    ("search_conversations", {"query": ""}, "query: "),
    ("search_conversations", {"query": "  "}, "query: "),
    ("search_conversations", {"query": "x", "limit": 0}, "limit: "),
    ("search_conversations", {"query": "x", "limit": 101}, "limit: "),
    ("search_conversations", {"query": "x", "minScore": 1.5}, "minScore: "),
    ("search_conversations", {"query": "x", "date_range": {}}, "date_range: "),
    ("search_conversations", {"query": "x", "channel": "Not A Channel"}, "channel: "),
    (
        "search_conversations",
        {"query": "x", "dateRange": {"from": "yesterday"}},
        "dateRange.from: 'yesterday' is no date",
    ),
    (
        "search_conversations",
        {"query": "x", "dateRange": {"to": "2026-02-30"}},
        "dateRange.to: ",
    ),
    (
        "search_conversations",
        {"query": "x", "dateRange": {"until": "2026-02-14"}},
        "dateRange.until: ",
    ),
    (
        "search_conversations",
        {"query": "x", "dateRange": {"from": "2026-02-14", "to": "2026-02-12"}},
        "dateRange.to: is not after dateRange.from",
    ),
    (
        "recent_conversations",
        {"dateRange": {"from": "2026-02-14", "to": "2026-02-12"}},
        "dateRange.to: is not after dateRange.from",
    ),
    ("fetch_context", {"conversationId": "../../etc/passwd"}, "conversationId: "),
    ("fetch_context", {"conversationId": UNKNOWN}, "conversationId: "),
    (
        "fetch_context",
        {"conversationId": UNKNOWN, "turnRange": {"from": 0, "to": 1}},
        "turnRange.from: ",
    ),
    (
        "fetch_context",
        {"conversationId": UNKNOWN, "turnRange": {"from": 3, "to": 1}},
        "turnRange.to: ",
    ),
    ("fetch_context", {"conversationId": UNKNOWN, "turnRange": {"from": 1}}, "turnRange.to: "),
    ("delete_everything", {}, "no such tool: delete_everything"),
]
"""Calls of tools, and words of the errors that they get."""


async def test_a_wrong_argument_is_named_and_the_next_call_is_answered(empty: str) -> None:
    async with McpClient(empty) as mcp:
        for tool, arguments, message in WRONG:
            assert message in await refused(mcp, tool, **arguments), (tool, arguments)
            assert (await called(mcp, "recent_conversations"))["conversations"] == []
