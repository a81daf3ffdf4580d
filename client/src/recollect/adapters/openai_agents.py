"""A `Session` of the OpenAI Agents SDK over Recollect. Needs the extra
`recollect-client[openai-agents]`.

    from recollect import AsyncClient
    from recollect.adapters.openai_agents import RecollectSession

    async with AsyncClient() as client:
        session = RecollectSession("alex", client)
        await Runner.run(agent, "Why was the server slow?", session=session)

What it maps, and what not:

- Every item comes back exactly as the SDK gave it, and its words are found by
  `client.recall.search` at once.
- A session is a conversation of the channel `agents`, of the group that has the session's id.
- A transcript only grows. `pop_item` therefore writes a line that takes the item back: the session
  does not have it any more, the transcript and the search do.
- `clear_session` begins a new conversation of that group, which is the session from then on. The
  old one stays, and is found; to be rid of it, `client.conversations.delete` it.
- A conversation that another program wrote can be continued: `RecollectSession.of(conversation_id,
  client)`.
"""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Self, cast

from agents.items import TResponseInputItem
from agents.memory import SessionSettings

from recollect import (
    ArchiveFilter,
    AsyncClient,
    Conversation,
    InvalidArgument,
    Message,
    Party,
    ResourceExhausted,
)
from recollect._shared.history import MAX_TOKENS, History
from recollect.adapters.items import Item, items_of, message_of, taken_back, what_it_takes_back

CHANNEL = "agents"
_MAX_BATCH = 1000
_NO_CALL = re.compile(r"messages\[(\d+)\]\.tool_call")


class RecollectSession:
    """The memory of one agent's conversation. Tasks of one event loop may share it; every process
    that names it sees the same.
    """

    def __init__(
        self,
        session_id: str,
        client: AsyncClient,
        *,
        channel: str = CHANNEL,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Open a session by its id, any text of 1 to 320 characters. The conversation begins with
        the first item.
        """
        if not session_id:
            raise ValueError("a session has an id")
        self.session_id = session_id
        self.session_settings: SessionSettings | None = session_settings or SessionSettings()
        self._client = client
        self._channel = channel
        self._conversation_id = ""

    @classmethod
    def of(
        cls,
        conversation_id: str,
        client: AsyncClient,
        *,
        session_settings: SessionSettings | None = None,
    ) -> Self:
        """Return the session of an existing conversation, whoever began it. It cannot be cleared by
        `clear_session`.
        """
        session = cls(conversation_id, client, session_settings=session_settings)
        session._conversation_id = conversation_id
        return session

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the session, oldest first; with `limit` the latest so many. Raises
        RecollectError.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        conversation = await self._current()
        if conversation is None or (limit is not None and limit <= 0):
            return []
        items = await self._latest(conversation, limit)
        return [cast(TResponseInputItem, item) for _, item in items]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all of one call or none; more than 1000 are sent in thousands. Raises
        RecollectError.
        """
        if not items:
            return
        conversation = await self._current() or await self._begin(1)
        for start in range(0, len(items), _MAX_BATCH):
            await self._add(
                conversation.id,
                [cast(Item, dict(item)) for item in items[start : start + _MAX_BATCH]],
            )

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the latest item back and return it; None if there is none. Raises RecollectError."""
        conversation = await self._current()
        while conversation is not None:
            newest = await self._latest(conversation, 1)
            if not newest:
                break
            (sequence, index), item = newest[0]
            stored = await self._client.conversations.append_turn(
                conversation.id,
                [taken_back(sequence, index)],
                request_id=_request_id("pop", conversation.id, sequence, index),
            )
            if not stored.duplicate:  # else another task or process took this one
                return cast(TResponseInputItem, item)
            conversation = await self._current()
        return None

    async def clear_session(self) -> None:
        """Begin anew: the session has no items from now on. Earlier items stay in their
        conversation. Raises RecollectError.
        """
        if self._conversation_id:
            raise NotImplementedError(
                "this session is one conversation, which only grows: begin another"
            )
        conversation = await self._current()
        if conversation is not None and conversation.message_count:
            await self._begin(_generation(conversation) + 1)

    async def _current(self) -> Conversation | None:
        """Return the session's current conversation; None before its first item."""
        calls = self._client.conversations
        if self._conversation_id:
            return await calls.get(self._conversation_id)
        candidates = [
            it
            async for it in calls.list(
                channels=[self._channel],
                party=Party(group_id=self.session_id),
                archived=ArchiveFilter.ALL,
            )
        ]
        return max(candidates, key=_generation, default=None)

    async def _begin(self, generation: int) -> Conversation:
        """Create the conversation of this generation. Concurrent callers get the same one."""
        return await self._client.conversations.create(
            self._channel,
            party=Party(group_id=self.session_id, thread_id=str(generation)),
            request_id=_request_id("session", self._channel, self.session_id, generation),
        )

    async def _add(self, conversation_id: str, items: list[Item]) -> None:
        messages = list(map(message_of, items))
        try:
            await self._client.conversations.append_turn(conversation_id, messages)
        except InvalidArgument as error:
            # A result whose call was taken back, or stands in another turn: it is kept, but as no
            # result.
            orphans = {
                int(match[1]) for it in error.violations if (match := _NO_CALL.match(it.field))
            }
            if not orphans:
                raise
            await self._add_bare(conversation_id, items, messages, orphans)

    async def _add_bare(
        self, conversation_id: str, items: list[Item], messages: list[Message], orphans: set[int]
    ) -> None:
        while True:
            bare = [
                message_of(items[index], bare=True) if index in orphans else it
                for index, it in enumerate(messages)
            ]
            try:
                await self._client.conversations.append_turn(conversation_id, bare)
            except InvalidArgument as error:
                more = {
                    int(match[1]) for it in error.violations if (match := _NO_CALL.match(it.field))
                } - orphans
                if not more:
                    raise
                orphans |= more
            else:
                return

    async def _latest(
        self, conversation: Conversation, limit: int | None
    ) -> list[tuple[tuple[int, int], Item]]:
        """Return the items that were not taken back, oldest first, each with its message and its
        place there.
        """
        history = History(conversation)
        if limit is not None:
            history.max_turns = min(history.max_turns, max(limit, 10))
        items = _items(history.messages)
        while history.more and (limit is None or len(items) < limit):
            try:
                page = await self._client.conversations.load(
                    conversation.id,
                    max_turns=history.max_turns,
                    max_tokens=MAX_TOKENS,
                    before_turn=history.before_turn,
                    before_sequence=history.before_sequence,
                )
            except ResourceExhausted:
                if not history.too_large():
                    raise
                continue
            history.received(page)
            items = _items(history.messages)
        return items if limit is None else items[-limit:]


def _items(messages: Sequence[Message]) -> list[tuple[tuple[int, int], Item]]:
    withdrawn = {what_it_takes_back(message) for message in messages}
    return [
        ((message.sequence, index), item)
        for message in messages
        if what_it_takes_back(message) is None
        for index, item in enumerate(items_of(message))
        if (message.sequence, index) not in withdrawn
    ]


def _generation(it: Conversation) -> int:
    return int(it.party.thread_id) if it.party and it.party.thread_id.isdecimal() else 0


def _request_id(*parts: Any) -> str:
    return f"agents-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"
