"""The tools on the wire: over stdio, or over streamable HTTP."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from recollect import AsyncClient, Conversation, NotFound, RecollectError, Unavailable
from recollect.mcp import prompts, shapes, tools
from recollect.mcp.bounds import MAX_NOTES, clipped
from recollect.mcp.http import HttpOptions, serve_http
from recollect.mcp.tools import WrongArgument, conversation_resource, resource_of

_LISTING_TIMEOUT = 5.0
"""Seconds that a list of the tools waits for the server: whoever lists them may wait to begin."""
_LISTED = 20
"""Conversations that are listed as resources: the newest ones."""
_CONVERSATION = re.compile(r"recollect://conversation/(conv-[0-9A-Z]{26})")
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
    scope: str = "recall"
    """The scope that the calls of the tool need."""
    writes: bool = False


TOOLS = {
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

WRITING = {
    "remember": _Tool(
        "Remember",
        "Keep a lasting fact about the user, so that every agent of theirs knows it from now on."
        " Only what the user said or would say again next month, and no secrets.",
        shapes.Remember,
        shapes.Remembered,
        tools.remember,
        "anchors.write",
        writes=True,
    ),
    "append_messages": _Tool(
        "Append messages",
        "Store messages at the end of a conversation, or as a new one, word for word. They cannot"
        " be changed later.",
        shapes.AppendMessages,
        shapes.Appended,
        tools.append_messages,
        "conversations.write",
        writes=True,
    ),
}
"""Tools that are offered only where `--write` asks for them."""

_EVERY = TOOLS | WRITING


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
        server = build(client, bridge.target, bridge.tools)
        if http is not None:
            await serve_http(server, http, bridge.target)
            return
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())


def build(client: AsyncClient, target: str, offered: tuple[str, ...] = tuple(TOOLS)) -> Server[Any]:
    """Build the MCP server over a client, with the tools that are offered. Errors name `target`
    where nobody answers.
    """
    reads_turns = "fetch_context" in offered

    async def allowed() -> list[str]:
        """Return the tools that are offered and that the client's token has the scopes for."""
        try:
            caller = await client.access.who_am_i(timeout=_LISTING_TIMEOUT)
        except RecollectError:  # the tools that are called say what is wrong
            return list(offered)
        return [name for name in offered if _EVERY[name].scope in caller.scopes]

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[_described(name, _EVERY[name]) for name in await allowed()]
        )

    async def call_tool(
        _: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = _EVERY.get(params.name) if params.name in offered else None
        if tool is None:
            return _failed(f"no such tool: {params.name}. There are {', '.join(offered)}.")
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
        if not reads_turns:
            return types.ListResourcesResult(resources=[])
        try:
            recent = await client.recall.recent(limit=_LISTED, timeout=_LISTING_TIMEOUT)
        except RecollectError:  # what is read says what is wrong
            return types.ListResourcesResult(resources=[])
        return types.ListResourcesResult(
            resources=[_resource(it.conversation, it.snippet) for it in recent]
        )

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
        conversation = types.ResourceTemplate(
            uri_template=conversation_resource("{conversationId}"),
            name="conversation",
            title="A conversation, its last turns",
            description="What fetch_context answers of a conversation without a range of turns.",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(
            resource_templates=[conversation, template] if reads_turns else []
        )

    async def read_resource(
        _: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        named = _RESOURCE.fullmatch(str(params.uri)) if reads_turns else None
        last_turns = _CONVERSATION.fullmatch(str(params.uri)) if reads_turns else None
        try:
            if last_turns is not None:
                request = shapes.FetchContext.model_validate({"conversationId": last_turns[1]})
                answer = await tools.fetch_context(client, request)
                content = answer.model_dump(mode="json", by_alias=True)
            elif named is not None:
                content = await tools.whole_turn(client, named[1], int(named[2]))
            else:
                raise MCPError(
                    code=types.INVALID_PARAMS,
                    message=f"uri: is like {conversation_resource('conv-01HQ…')} or"
                    f" {resource_of('conv-01HQ…', 7)}, not {params.uri}",
                )
        except RecollectError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=_sentence(error, target)) from None
        text = json.dumps(content, ensure_ascii=False)
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
            ]
        )

    async def list_prompts(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=prompts.listed())

    async def get_prompt(
        _: ServerRequestContext[Any], params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        try:
            return prompts.written(params.name, params.arguments or {})
        except ValueError as error:
            raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from None

    async def complete(
        _: ServerRequestContext[Any], params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        values = await prompts.completed(client, params.argument.name, params.argument.value)
        return types.CompleteResult(completion=values)

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
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
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
            read_only_hint=not tool.writes,
            destructive_hint=False,
            idempotent_hint=not tool.writes,
            open_world_hint=False,
        ),
    )


def _resource(conversation: Conversation, snippet: str) -> types.Resource:
    return types.Resource(
        uri=conversation_resource(conversation.id),
        name=conversation.id,
        title=conversation.title or None,
        description=clipped(
            conversation.abbreviation or snippet, MAX_NOTES, "read it to have the turns"
        ),
        mime_type="application/json",
    )


def _failed(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


def _sentence(error: RecollectError, target: str) -> str:
    if type(error) is Unavailable and error.reason is None:
        return f"no Recollect server answers on {target}: start one with `recollect-server serve`"
    if isinstance(error, NotFound):
        return f"conversationId: {error}"
    violations = (f"{_FIELDS.get(it.field, it.field)}: {it.description}" for it in error.violations)
    return "; ".join(violations) or str(error)
