"""Subscriptions to resources: what StreamUpdates tells of conversations, as events of MCP."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent

from recollect import (
    AsyncClient,
    ConversationAbbreviated,
    ConversationCreated,
    ConversationDeleted,
    ConversationList,
    ConversationRenamed,
    ConversationUpdated,
    MessagesRedacted,
    NotFound,
    RecollectError,
    Update,
)

CONVERSATION = re.compile(r"recollect://conversation/(conv-[0-9A-Z]{26})")
TURN = re.compile(r"recollect://(conv-[0-9A-Z]{26})/turns/([0-9]{1,9})")
SCOPE = "conversations.read"
"""The scope that StreamUpdates needs."""
_MAX_STREAMS = 100
"""Of subscriptions that are open at the same time."""
_CHANGES_LIST = (ConversationCreated, ConversationDeleted, ConversationRenamed)
_CHANGES_TURNS = (ConversationUpdated, ConversationDeleted, MessagesRedacted, ConversationRenamed)


def conversation_of(uri: str) -> str | None:
    """Return the conversation of a resource; None if the resource is none of ours."""
    match = CONVERSATION.fullmatch(uri) or TURN.fullmatch(uri)
    return match[1] if match else None


class Changes(InMemorySubscriptionBus):
    """The bus of events. It follows the server as long as anybody watches."""

    def __init__(self, client: AsyncClient) -> None:
        super().__init__()
        self._client = client
        self._watched: Counter[str] = Counter()
        self._users = 0
        """Subscriptions, also those that are not acknowledged yet."""
        self._task: asyncio.Task[RecollectError | None] | None = None
        self._following = asyncio.Event()
        self.failed: Callable[[], None] = lambda: None
        """Is called when a watch fails for good."""

    def watch(self, uris: Iterable[str]) -> None:
        """Publish changes of these resources, until `unwatch` takes it back."""
        self._users += 1
        self._watched.update(uris)

    def unwatch(self, uris: Iterable[str]) -> None:
        """Take back one `watch`. The last one ends the stream of updates."""
        self._users -= 1
        self._watched.subtract(uris)
        self._watched += Counter()  # without those at zero
        if self._users == 0:
            self.close()

    async def follow(self) -> None:
        """Return once every change from now on is published. Raises RecollectError."""
        if self._task is None or self._task.done():
            self._following = asyncio.Event()
            self._task = asyncio.create_task(self._run(self._following))
        task = self._task
        waiting = asyncio.create_task(self._following.wait())
        try:
            await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if task.done() and not task.cancelled() and (error := task.result()):
            raise error

    def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, following: asyncio.Event) -> RecollectError | None:
        """Publish changes until the watch is closed or fails, and return its failure."""
        try:
            # A snapshot of the newest turn alone: what is wanted is that the stream has begun.
            async with self._client.conversations.watch(max_turns=1) as updates:
                async for update in updates:
                    for event in self._events(update):
                        await self.publish(event)
                    following.set()
        except RecollectError as error:
            self.failed()
            return error
        return None

    def _events(self, update: Update) -> list[ServerEvent]:
        kind, events = update.kind, list[ServerEvent]()
        if isinstance(kind, ConversationList) and update.reset:
            events = [ResourcesListChanged(), *map(ResourceUpdated, self._watched)]
        elif isinstance(kind, (*_CHANGES_LIST, ConversationAbbreviated)):
            events.append(ResourcesListChanged())
        if isinstance(kind, _CHANGES_TURNS):
            name = update.conversation_id
            changed = [it for it in self._watched if conversation_of(it) == name]
            events += map(ResourceUpdated, changed)
        return events


class Subscriptions:
    """The handlers of `subscriptions/listen`, of MCP 2026-07-28, and of `resources/subscribe`,
    which earlier versions have instead.
    """

    def __init__(self, client: AsyncClient, sentence: Callable[[RecollectError], str]) -> None:
        """`sentence` says what went wrong with a call."""
        self._client = client
        self._sentence = sentence
        self._changes = Changes(client)
        self._listen = ListenHandler(self._changes, max_subscriptions=_MAX_STREAMS)
        self._changes.failed = self._listen.close
        self._subscribed: dict[str, Callable[[], None]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._unsent: set[str] = set()
        self._writing = asyncio.Lock()

    def close(self) -> None:
        """End all subscriptions."""
        self._listen.close()
        self._changes.close()

    async def listen(
        self, context: ServerRequestContext[Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Serve a stream of events. What never changes or is not ours is not acknowledged."""
        filters = params.notifications
        uris = [uri for uri in filters.resource_subscriptions or () if conversation_of(uri)]
        honored = types.SubscriptionFilter(
            resources_list_changed=filters.resources_list_changed, resource_subscriptions=uris
        )
        self._changes.watch(uris)
        try:
            if uris or honored.resources_list_changed:
                await self._follow()
            params = params.model_copy(update={"notifications": honored})
            return await self._listen(context, params)
        finally:
            self._changes.unwatch(uris)

    async def subscribe(
        self, context: ServerRequestContext[Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Notify the one client of this connection of the changes of a resource."""
        uri = str(params.uri)
        name = conversation_of(uri)
        if name is None:
            raise MCPError(
                types.INVALID_PARAMS,
                "uri: is like recollect://conversation/conv-01HQ… or"
                f" recollect://conv-01HQ…/turns/7, not {uri:.200}",
                {"uri": uri},
            )
        try:
            await self._client.conversations.get(name)
        except NotFound as error:
            raise MCPError(types.INVALID_PARAMS, self._sentence(error), {"uri": uri}) from None
        except RecollectError as error:
            raise MCPError(types.INTERNAL_ERROR, self._sentence(error)) from None
        session = context.session

        def deliver(event: ServerEvent) -> None:
            # A host that does not read has one notification of a resource to come, not one of each
            # change.
            if event == ResourceUpdated(uri) and uri not in self._unsent:
                self._unsent.add(uri)
                task = asyncio.create_task(self._send(session, uri))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

        if uri not in self._subscribed:
            self._subscribed[uri] = self._changes.subscribe(deliver)
            self._changes.watch([uri])
        try:
            await self._follow()
        except MCPError:
            self._unsubscribe(uri)
            raise
        return types.EmptyResult()

    async def unsubscribe(
        self, _: ServerRequestContext[Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """End a subscription. Ending it again does nothing."""
        self._unsubscribe(str(params.uri))
        return types.EmptyResult()

    def _unsubscribe(self, uri: str) -> None:
        if remove := self._subscribed.pop(uri, None):
            self._changes.unwatch([uri])
            remove()

    async def _send(self, session: ServerSession, uri: str) -> None:
        async with self._writing:
            self._unsent.discard(uri)
            await session.send_resource_updated(uri)

    async def _follow(self) -> None:
        try:
            await self._changes.follow()
        except RecollectError as error:
            raise MCPError(types.INTERNAL_ERROR, self._sentence(error)) from None
