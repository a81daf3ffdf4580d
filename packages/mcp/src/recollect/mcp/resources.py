"""Conversations and turns as resources: to be listed, and read whole."""

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from recollect import AsyncClient, Conversation, RecollectError
from recollect.mcp import shapes, tools
from recollect.mcp.bounds import LISTING_TIMEOUT, MAX_NOTES, clipped
from recollect.mcp.changes import CONVERSATION, TURN
from recollect.mcp.errors import sentence
from recollect.mcp.tools import conversation_resource, resource_of

_LISTED = 20
"""Conversations on a page of the resources, the newest first."""
_MOST_RECENT = 100
_CURSOR = re.compile(r"([0-9]{1,14})-(conv-[0-9A-Z]{26})")


class Resources:
    """Answers to the calls about resources."""

    def __init__(self, client: AsyncClient, target: str, *, reads_turns: bool) -> None:
        """`reads_turns`: the tool that reads turns is offered; without it there is none here."""
        self._client = client
        self._target = target
        self._reads_turns = reads_turns

    async def list_newest(
        self, _: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Answer a page of the newest conversations."""
        if not self._reads_turns:
            return types.ListResourcesResult(resources=[])
        moment, behind = _position(params.cursor if params else None)
        try:
            page = await self._client.recall.recent(
                limit=_MOST_RECENT, before=moment, timeout=LISTING_TIMEOUT
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
        self, _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Answer how the addresses of turns and conversations are made."""
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
            resource_templates=[conversation, template] if self._reads_turns else []
        )

    async def read(
        self, _: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Read a turn, or the last turns of a conversation. Raises MCPError."""
        named = TURN.fullmatch(str(params.uri)) if self._reads_turns else None
        last_turns = CONVERSATION.fullmatch(str(params.uri)) if self._reads_turns else None
        try:
            if last_turns is not None:
                request = shapes.FetchContext.model_validate({"conversationId": last_turns[1]})
                answer = await tools.fetch_context(self._client, request)
                content = answer.model_dump(mode="json", by_alias=True)
            elif named is not None:
                content = await tools.whole_turn(self._client, named[1], int(named[2]))
            else:
                raise MCPError(
                    code=types.INVALID_PARAMS,
                    message=f"uri: is like {conversation_resource('conv-01HQ…')} or"
                    f" {resource_of('conv-01HQ…', 7)}, not {params.uri}",
                    data={"uri": str(params.uri)},
                )
        except RecollectError as error:
            raise MCPError(
                types.INVALID_PARAMS, sentence(error, self._target), {"uri": str(params.uri)}
            ) from None
        text = json.dumps(content, ensure_ascii=False)
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=params.uri, mime_type="application/json", text=text)
            ]
        )


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


def _resource(conversation: Conversation, snippet: str) -> types.Resource:
    return types.Resource(
        uri=conversation_resource(conversation.id),
        name=conversation.id,
        title=conversation.name or None,
        description=clipped(
            conversation.abbreviation or snippet, MAX_NOTES, "read it to have the turns"
        ),
        mime_type="application/json",
    )
