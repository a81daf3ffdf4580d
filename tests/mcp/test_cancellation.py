"""A request that its host gives up ends, and the bridge goes on."""

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.client.conftest import Scripted, scripted
from tests.mcp.conftest import called, over_http, over_stdio

__all__ = ["scripted"]


@pytest.mark.parametrize("connected", [over_stdio, over_http])
async def test_a_call_that_is_given_up_leaves_the_bridge_able_to_answer(
    scripted: Scripted, connected: Any
) -> None:
    async def cancel(scope: anyio.CancelScope) -> None:
        assert await asyncio.to_thread(scripted.arrived.wait, 30)
        scope.cancel()

    async with connected(scripted.target) as mcp, anyio.create_task_group() as group:
        for seconds in (None, None, 0.1):
            scripted.hang.clear()
            scripted.arrived.clear()
            with anyio.CancelScope() as scope, suppress(MCPError):
                if seconds is None:
                    group.start_soon(cancel, scope)
                await mcp.call_tool("recent_conversations", {}, read_timeout_seconds=seconds)
            assert scope.cancelled_caught == (seconds is None)
            scripted.hang.set()
            with anyio.fail_after(30):
                answer = await called(mcp, "recent_conversations")
            assert answer["conversations"] == []
