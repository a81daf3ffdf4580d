"""The tools on the wire: over stdio, or over streamable HTTP."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
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
from recollect.mcp.changes import CONVERSATION, TURN, Subscriptions
from recollect.mcp.http import HttpOptions, serve_http
from recollect.mcp.tools import WrongArgument, conversation_resource, resource_of

_LISTING_TIMEOUT = 5.0
"""Seconds that a list of the tools waits for the server: whoever lists them may wait to begin."""
_LISTED = 20
"""Conversations on a page of the resources, the newest first."""
_MOST_RECENT = 100
_CURSOR = re.compile(r"([0-9]{1,14})-(conv-[0-9A-Z]{26})")
_PROGRESS_SECONDS = 1.0
"""Between two reports that a call of a tool still runs."""
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
        subscriptions = Subscriptions(client, lambda error: _sentence(error, bridge.target))
        server = build(client, bridge, subscriptions, has_sessions=http is None)
        try:
            if http is not None:
                await serve_http(server, http, bridge.target)
                return
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            subscriptions.close()


def build(
    client: AsyncClient, bridge: Bridge, subscriptions: Subscriptions, *, has_sessions: bool
) -> Server[Any]:
    """Build the MCP server over a client. Without sessions a subscription needs a stream of its
    own, which clients of MCP 2026-07-28 open.
    """
    target, offered = bridge.target, bridge.tools
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
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = _EVERY.get(params.name) if params.name in offered else None
        if tool is None:
            return _failed(f"no such tool: {params.name}. There are {', '.join(offered)}.")
        try:
            request = tool.takes.model_validate(params.arguments or {})
            async with _progress(context, bridge):
                answer = await tool.run(client, request)
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
        _: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        if not reads_turns:
            return types.ListResourcesResult(resources=[])
        moment, behind = _position(params.cursor if params else None)
        try:
            page = await client.recall.recent(
                limit=_MOST_RECENT, before=moment, timeout=_LISTING_TIMEOUT
            )
        except RecollectError:  # what is read says what is wrong
            return types.ListResourcesResult(resources=[])
        entries = list(page)
        names = [it.conversation.id for it in entries]
        if behind in names:
            entries = entries[names.index(behind) + 1 :]
        has_more = page.has_more or len(page) == _MOST_RECENT or len(entries) > _LISTED
        entries = entries[:_LISTED]
        return types.ListResourcesResult(
            resources=[_resource(it.conversation, it.snippet) for it in entries],
            next_cursor=_cursor(entries[-1].conversation) if has_more and entries else None,
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
        named = TURN.fullmatch(str(params.uri)) if reads_turns else None
        last_turns = CONVERSATION.fullmatch(str(params.uri)) if reads_turns else None
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
                    data={"uri": str(params.uri)},
                )
        except RecollectError as error:
            raise MCPError(
                types.INVALID_PARAMS, _sentence(error, target), {"uri": str(params.uri)}
            ) from None
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
        given = (params.context.arguments if params.context else None) or {}
        argument = params.argument
        values = await prompts.completed(client, argument.name, argument.value, given)
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
        on_subscriptions_listen=subscriptions.listen if reads_turns else None,
        on_subscribe_resource=subscriptions.subscribe if reads_turns and has_sessions else None,
        on_unsubscribe_resource=subscriptions.unsubscribe if reads_turns and has_sessions else None,
    )


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


def _cursor(conversation: Conversation) -> str:
    """Return the position behind a conversation in the list of the newest."""
    moment = conversation.update_time - datetime.fromtimestamp(0, UTC)
    return f"{moment // timedelta(milliseconds=1)}-{conversation.id}"


def _position(cursor: str | None) -> tuple[datetime | None, str]:
    """Return the time before which a page begins, and the conversation that it begins behind.
    Raises MCPError.
    """
    if cursor is None:
        return None, ""
    match = _CURSOR.fullmatch(cursor)
    if match is None:
        raise MCPError(types.INVALID_PARAMS, f"cursor: {cursor:.100} is none of this server")
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(match[1]) + 1)
    return moment, match[2]


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
