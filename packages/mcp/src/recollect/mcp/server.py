"""The tools on the wire: over stdio, or over streamable HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from recollect import AsyncClient, RecollectError, __version__
from recollect.mcp import definitions, prompts
from recollect.mcp.bounds import LISTING_TIMEOUT
from recollect.mcp.changes import Subscriptions
from recollect.mcp.definitions import EVERY, TOOLS, Tool, ToolError
from recollect.mcp.errors import sentence
from recollect.mcp.http import HttpOptions, serve_http
from recollect.mcp.resources import Resources
from recollect.mcp.stdio import standard_streams

_PROGRESS_SECONDS = 1.0
"""Between two reports that a call of a tool still runs."""
_INSTRUCTIONS = (
    "Recollect keeps every conversation that the user had with their agents. Search it before"
    " you say that you do not know"
    " something the user may have told you, and read the turns around what you found before you"
    " rely on it."
)


@dataclass(frozen=True, slots=True)
class Bridge:
    """The server that a bridge calls, and the tools that it offers."""

    target: str
    timeout: float
    access: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the client: `space`, `ca`, `insecure`. They hold no token."""
    tools: tuple[str, ...] = tuple(TOOLS)


def run(bridge: Bridge, http: HttpOptions | None) -> None:
    """Serve until the input ends, or for ever on a port. Raises OSError where it cannot listen, and
    InvalidArgument for a client that cannot be made.
    """
    anyio.run(_serve, bridge, http)


async def _serve(bridge: Bridge, http: HttpOptions | None) -> None:
    async with AsyncClient(bridge.target, timeout=bridge.timeout, **bridge.access) as client:
        subscriptions = Subscriptions(client, lambda error: sentence(error, bridge.target))
        server = build(client, bridge, subscriptions, has_sessions=http is None)
        try:
            if http is not None:
                await serve_http(server, http, bridge.target)
                return
            async with standard_streams() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            subscriptions.close()


def build(
    client: AsyncClient, bridge: Bridge, subscriptions: Subscriptions, *, has_sessions: bool
) -> Server[Any]:
    """Build the MCP server over a client. Without sessions a subscription needs a stream of its
    own, which clients of MCP 2026-07-28 open.
    """
    reads_turns = "fetch_context" in bridge.tools
    offers, written = _Tools(client, bridge), _Prompts(client)
    resources = Resources(client, bridge.target, reads_turns=reads_turns)
    return Server(
        "recollect",
        title="Recollect",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=offers.list_tools,
        on_call_tool=offers.call,
        on_list_resources=resources.list_newest,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read,
        on_list_prompts=written.list_prompts,
        on_get_prompt=written.get,
        on_completion=written.complete,
        on_subscriptions_listen=subscriptions.listen if reads_turns else None,
        on_subscribe_resource=subscriptions.subscribe if reads_turns and has_sessions else None,
        on_unsubscribe_resource=subscriptions.unsubscribe if reads_turns and has_sessions else None,
    )


class _Tools:
    """Answers to the calls about tools."""

    def __init__(self, client: AsyncClient, bridge: Bridge) -> None:
        self._client = client
        self._bridge = bridge
        self._offered = bridge.tools

    async def list_tools(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Answer the list of tools."""
        return types.ListToolsResult(
            tools=[_described(name, EVERY[name]) for name in await self._allowed()]
        )

    async def call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call a tool, and answer what it returns or why it failed."""
        try:
            async with _progress(context, self._bridge):
                structured = await definitions.run(
                    self._client, params.name, params.arguments, self._offered, self._bridge.target
                )
        except ToolError as error:
            return _failed(str(error))
        text = types.TextContent(type="text", text=json.dumps(structured, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=structured)

    async def _allowed(self) -> list[str]:
        """Return the tools that are offered and that the client's token has the scopes for."""
        try:
            caller = await self._client.access.who_am_i(timeout=LISTING_TIMEOUT)
        except RecollectError:  # the tools that are called say what is wrong
            return list(self._offered)
        return [name for name in self._offered if caller.scopes.issuperset(EVERY[name].scopes)]


class _Prompts:
    """Answers to the calls about prompts."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list_prompts(
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """Answer the list of prompts."""
        return types.ListPromptsResult(prompts=prompts.listed())

    async def get(
        self, _: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Answer a prompt with its arguments. Raises MCPError."""
        try:
            return prompts.written(params.name, params.arguments or {})
        except ValueError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None

    async def complete(
        self, _: ServerRequestContext[Any], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Answer the values that an argument may have."""
        given = (params.context.arguments if params.context else None) or {}
        argument = params.argument
        values = await prompts.completed(self._client, argument.name, argument.value, given)
        return types.CompleteResult(completion=values)


@asynccontextmanager
async def _progress(context: ServerRequestContext[Any], bridge: Bridge) -> AsyncIterator[None]:
    """Report how long a call runs, of the seconds that it may take, to a host that asked for it:
    many wait longer for a tool that tells them that it is alive.
    """

    async def report() -> None:
        began = anyio.current_time()
        message = f"waiting for {bridge.target}"
        while True:
            await anyio.sleep(_PROGRESS_SECONDS)
            seconds = round(anyio.current_time() - began, 1)
            if seconds > bridge.timeout:
                return
            await context.session.report_progress(seconds, bridge.timeout, message)

    reporting = asyncio.create_task(report())
    try:
        yield
    finally:
        reporting.cancel()


def _described(name: str, tool: Tool) -> types.Tool:
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=definitions.schema_of(tool),
        output_schema=tool.answers.model_json_schema(by_alias=True, mode="serialization"),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=not tool.writes,
            destructive_hint=tool.deletes,
            idempotent_hint=not tool.writes,
            open_world_hint=False,
        ),
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
