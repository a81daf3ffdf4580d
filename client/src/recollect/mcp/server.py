"""The tools on the wire: over stdio, or over streamable HTTP on a loopback address."""

import ipaddress
import json
import re
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from recollect import AsyncClient, NotFound, RecollectError, Unavailable
from recollect.mcp import shapes, tools
from recollect.mcp.tools import WrongArgument, resource_of

_PATH = "/mcp"
_MAX_CONNECTIONS = 256
"""Open at the same time over HTTP, streams that wait for nothing included. A request over another
one is answered 503.
"""
_SHUTDOWN_GRACE = 2
"""Seconds that a stop waits for open streams."""
_RESOURCE = re.compile(r"recollect://(conv-[0-9A-Z]{26})/turns/([0-9]{1,9})")
_INSTRUCTIONS = (
    "Recollect keeps every conversation that the user had with their agents. Search it before"
    " you say that you do not know"
    " something the user may have told you, and read the turns around what you found before you"
    " rely on it."
)
_FIELDS = {
    "conversation_id": "conversationId",
    "turn_range.first": "turnRange.from",
    "turn_range.last": "turnRange.to",
    "turn_range": "turnRange",
    "date_range.start": "dateRange.from",
    "date_range.end": "dateRange.to",
    "date_range": "dateRange",
    "after": "dateRange.from",
    "before": "dateRange.to",
}
"""The contract's names, in those of the tools."""


@dataclass(frozen=True, slots=True)
class _Tool:
    title: str
    description: str
    takes: type[BaseModel]
    answers: type[BaseModel]
    run: Callable[[AsyncClient, Any], Awaitable[BaseModel]]


_TOOLS = {
    "search_conversations": _Tool(
        "Search conversations",
        "Search the user's past conversations by words and by meaning. Answers the"
        " conversations and the messages that fit best,"
        " each with the turns to read on with fetch_context.",
        shapes.Search,
        shapes.Found,
        tools.search_conversations,
    ),
    "fetch_context": _Tool(
        "Fetch context",
        "Read turns of a past conversation word for word: those around something that"
        " search_conversations found, or the last 10."
        " A turn is one message of the user's and everything that was done and said in answer.",
        shapes.FetchContext,
        shapes.Fetched,
        tools.fetch_context,
    ),
    "recent_conversations": _Tool(
        "Recent conversations",
        "Browse the user's past conversations by time, the newest first, with their notes. For"
        " questions that name no subject to"
        ' search for, as "what did we talk about yesterday?".',
        shapes.RecentConversations,
        shapes.Recent,
        tools.recent_conversations,
    ),
}


def loopback(listen: str) -> tuple[str, int]:
    """Split `HOST:PORT`. Raises ValueError for an address that other machines reach: there is
    neither TLS nor a token.
    """
    host, colon, port = listen.rpartition(":")
    host = host.strip("[]")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 0xFFFF:
        raise ValueError(f"--http {listen:.100}: is no address such as 127.0.0.1:8765")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        allowed = ipaddress.ip_address(host).is_loopback
    except ValueError:
        allowed = False
    if not allowed:
        raise ValueError(
            f"--http {listen:.100}: must be a loopback address as 127.0.0.1:8765, for others"
            " would need TLS and a token"
        )
    return host, int(port)


def run(target: str, timeout: float, listen: tuple[str, int] | None) -> None:
    """Serve until the input ends, or for ever on a port. Raises OSError where it cannot listen."""
    if listen is None:
        anyio.run(_serve_stdio, target, timeout)
    else:
        anyio.run(_serve_http, target, timeout, listen)


async def _serve_stdio(target: str, timeout: float) -> None:
    async with AsyncClient(target, timeout=timeout) as client, stdio_server() as (reading, writing):
        server = build(client, target)
        await server.run(reading, writing, server.create_initialization_options())


async def _serve_http(target: str, timeout: float, listen: tuple[str, int]) -> None:
    import uvicorn

    host, port = listen
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listening:
        shown = f"[{host}]" if ":" in host else host
        port = listening.getsockname()[1]
        names = (shown, "127.0.0.1", "localhost", "[::1]")
        # Given even where mcp would set it: it does so for three spellings of this machine, and
        # 127.0.0.2 is none of them.
        guarded = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[f"{name}:{port}" for name in names],
            allowed_origins=[f"http://{name}:{port}" for name in names],
        )
        async with AsyncClient(target, timeout=timeout) as client:
            # Without sessions: no tool needs one, and each that a host never ended was kept for
            # ever, some 40 KiB of memory.
            app = build(client, target).streamable_http_app(
                streamable_http_path=_PATH,
                stateless_http=True,
                transport_security=guarded,
                host=host,
            )
            sys.stderr.write(
                f"recollect-mcp listens on http://{shown}:{port}{_PATH} and asks {target}\n"
            )
            sys.stderr.flush()
            config = uvicorn.Config(
                app,
                log_level="error",
                limit_concurrency=_MAX_CONNECTIONS,
                timeout_graceful_shutdown=_SHUTDOWN_GRACE,
            )
            await uvicorn.Server(config).serve(sockets=[listening])


def build(client: AsyncClient, target: str) -> Server[Any]:
    """Build the MCP server over a client. Errors name `target` where nobody answers."""

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_described(name, tool) for name, tool in _TOOLS.items()]
        )

    async def call_tool(
        _: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = _TOOLS.get(params.name)
        if tool is None:
            return _failed(f"no such tool: {params.name}. There are {', '.join(_TOOLS)}.")
        try:
            answer = await tool.run(client, tool.takes.model_validate(params.arguments or {}))
        except ValidationError as error:
            return _failed(
                "; ".join(
                    f"{'.'.join(map(str, it['loc'])) or 'arguments'}: {it['msg']}"
                    for it in error.errors()
                )
            )
        except WrongArgument as error:
            return _failed(str(error))
        except RecollectError as error:
            return _failed(_sentence(error, target))
        structured = answer.model_dump(mode="json", by_alias=True)
        text = types.TextContent(type="text", text=json.dumps(structured, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=structured)

    async def list_resources(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[])

    async def list_templates(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=resource_of("{conversationId}", "{turn}"),
            name="turn",
            title="A turn, whole",
            description="Everything that was stored of one turn, where fetch_context had to cut"
            " it.",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        _: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        named = _RESOURCE.fullmatch(str(params.uri))
        if named is None:
            raise MCPError(
                code=types.INVALID_PARAMS,
                message=f"uri: is like {resource_of('conv-01HQ…', 7)}, not {params.uri}",
            )
        try:
            turn = await tools.whole_turn(client, named[1], int(named[2]))
        except RecollectError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=_sentence(error, target)) from None
        text = json.dumps(turn, ensure_ascii=False)
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
            ]
        )

    return Server(
        "recollect",
        title="Recollect",
        version=version("recollect-client"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def _described(name: str, tool: _Tool) -> types.Tool:
    return types.Tool(
        name=name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.takes.model_json_schema(by_alias=True),
        output_schema=tool.answers.model_json_schema(by_alias=True, mode="serialization"),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=True,
            destructive_hint=False,
            idempotent_hint=True,
            open_world_hint=False,
        ),
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _sentence(error: RecollectError, target: str) -> str:
    if isinstance(error, Unavailable) and error.reason is None:
        return f"no Recollect server answers on {target}: start one with `recollect-server serve`"
    if isinstance(error, NotFound):
        return f"conversationId: {error}"
    violations = (f"{_FIELDS.get(it.field, it.field)}: {it.description}" for it in error.violations)
    return "; ".join(violations) or str(error)
