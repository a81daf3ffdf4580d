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
- Images and other files that an item has in itself are kept apart from its words, and restored: in
  the content stands a note, as `[image: image/png, 200 kB]`.
- A session is a conversation of the channel `agents`, of the group that has the session's id.
- A transcript only grows. `pop_item` therefore writes a line that takes the item back: the session
  does not have it any more, the transcript and the search do.
- `clear_session` begins a new conversation of that group, which is the session from then on, and
  marks the old one in its metadata: a session that has it open goes on in the new one. The old one
  stays, and is found, unless the session was opened with `delete_cleared=True`. What a session adds
  first that another one has cleared since, stands in both.
- A compacting session (`OpenAIResponsesCompactionSession`) replaces items by a line that takes them
  back. What others append meanwhile stays: the SDK then replaces nothing. A later answer to a
  turn that was compacted counts as compacted too.
- A conversation that another program wrote can be continued: `RecollectSession.of(conversation_id,
  client)`. Its `clear_session` writes a line that takes everything before it back.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from agents.items import TResponseInputItem
from agents.memory import SessionABC, SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from agents.run_config import CallModelData, ModelInputData

from recollect import (
    AnchorDisposition,
    AppendedTurn,
    ArchiveFilter,
    AsyncClient,
    Conversation,
    InvalidArgument,
    LoadedConversation,
    Message,
    NotFound,
    Party,
    ResourceExhausted,
)
from recollect._shared.file_parts import is_part
from recollect._shared.history import MAX_TURNS, History
from recollect.adapters.clients import asynchronous
from recollect.adapters.files import Files, batches
from recollect.adapters.items import (
    Item,
    Place,
    cleared,
    compacted,
    is_clearing,
    items_of,
    messages_of,
    taken_back,
    what_it_compacts,
    what_it_takes_back,
    without_call,
)
from recollect.adapters.packing import request_id
from recollect.adapters.turn_recall import Budget, TurnRecall, newest_turn

CHANNEL = "agents"
_PAGE = 10  # turns of the first page, where few items are wanted
_BEGINNING: Place = (0, 0, 0)
_NO_ID = "(a session without an id)"
_CLEARED = "agentsCleared"
"""In the metadata of a conversation: the session goes on in another one."""

_Placed = tuple[Place, Item]


class RecollectSession(SessionABC):
    """The memory of one agent's conversation. Tasks of one event loop may share it; every process
    that names it sees the same.
    """

    def __init__(
        self,
        session_id: str,
        client: AsyncClient,
        *,
        channel: str = CHANNEL,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        delete_cleared: bool = False,
    ) -> None:
        """Open a session by its id, any text of at most 320 characters. The conversation begins
        with the first item. With `delete_cleared`, `clear_session` deletes the earlier items and
        the anchors of them for good.
        """
        self.session_id = session_id
        self.session_settings: SessionSettings | None = (
            SessionSettings()
            if session_settings is None
            else coerce_session_settings(session_settings)
        )
        self._client = asynchronous(client)
        self._channel = channel
        self._delete_cleared = delete_cleared
        self._conversation_id = ""  # once it is known; a call on it tells if it was cleared since
        self._is_fixed = False
        self._end: _End | None = None

    @classmethod
    def of(
        cls,
        conversation_id: str,
        client: AsyncClient,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> Self:
        """Return the session of an existing conversation, which any program may have begun."""
        session = cls(conversation_id, client, session_settings=session_settings)
        session._conversation_id, session._is_fixed = conversation_id, True
        return session

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items of the session, oldest first; with `limit` the latest so many, else as
        `session_settings` say. Raises RecollectError.
        """
        limit = resolve_session_limit(limit, self.session_settings)
        end = None if limit is not None and limit <= 0 else await self._latest(limit)
        if end is None:
            return []
        items = end.items if limit is None else end.items[-limit:]
        return [_theirs(it) for it in items]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, all of one call or none; more than 1000, or than 6 MiB, are sent in batches of
        so many. Raises RecollectError.
        """
        if not items:
            return
        groups = [_Group(cast(Item, dict(item))) for item in items]
        for batch in batches([group.messages for group in groups]):
            await self._add(batch, groups)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the latest item back and return it; None if there is none. Raises RecollectError."""
        while True:
            end, self._end = self._end, None
            if end is not None:
                now = await self._current()
                end = end if now is not None and end.is_of(now) else None
            end = end or await self._latest(1)
            if end is None:
                return None
            await self._read(end, 1)
            if not end.items:
                return None
            (_, sequence, index), item = end.items.pop()
            stored = await self._client.conversations.append_turn(
                end.conversation_id,
                [taken_back(sequence, index)],
                request_id=request_id("agents", "pop", end.conversation_id, sequence, index),
            )
            if not stored.duplicate:  # else another task or process took this one
                if end.appended(stored):
                    self._end = end
                return cast(TResponseInputItem, item)

    async def clear_session(self) -> None:
        """Begin anew: the session has no items from now on. Earlier items stay in their
        conversation, unless they are to be deleted. Raises RecollectError.
        """
        conversation = await self._current()
        if conversation is None or not conversation.message_count:
            return
        if self._is_fixed:
            await self._client.conversations.append_turn(conversation.id, [cleared()])
            return
        await self._client.conversations.update_metadata(conversation.id, {_CLEARED: True})
        await self._begin(_generation(conversation) + 1)
        if self._delete_cleared:
            await self._client.conversations.delete(
                conversation.id, anchors=AnchorDisposition.DELETE, force=True
            )

    def recalling(
        self, budget: Budget = None
    ) -> Callable[[CallModelData[Any]], Awaitable[ModelInputData]]:
        """Return a filter for `RunConfig(call_model_input_filter=…)` that puts what was said before
        about the user's newest message ahead of the items. `budget` is that of `build_context`.

        The session stores nothing of it.
        """
        recall = TurnRecall(budget)

        async def put_before(data: CallModelData[Any]) -> ModelInputData:
            items = data.model_data.input
            turn = newest_turn(items, _is_users, _words)
            text = await recall.atext(self._client, self.session_id, turn, self._current)
            if text:
                before: Any = {"role": "system", "content": text}
                items = [before, *items]
            return ModelInputData(input=items, instructions=data.model_data.instructions)

        return put_before

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[TResponseInputItem], bool] | None = None
    ) -> "_Snapshot | None":
        """Return the latest items, for the SDK's compacting session: it asks this private method of
        a session for what it then replaces. `prune_prefix` says which of the oldest items go too.
        """
        if type(self).get_items is not RecollectSession.get_items:
            return None  # a subclass shows other items than are stored
        end = await self._latest(limit + 1) if limit > 0 else None
        if end is None:
            return None
        latest = end.items[-limit:]

        async def replace_suffix(start: int, output: list[TResponseInputItem]) -> bool:
            replaced = latest[start:]
            current = await self._current()
            if not replaced or current is None or not end.is_of(current):
                return False
            first = replaced[0][0]
            if prune_prefix is not None:
                await self._read(end, None)
            before = [it for it in end.items if it[0] < first]
            pruned = 0
            while prune_prefix and pruned < len(before) and prune_prefix(_theirs(before[pruned])):
                pruned += 1
            spans = [(first, replaced[-1][0])]
            if not end.history.more and pruned == len(before):
                spans = [(_BEGINNING, replaced[-1][0])]
            elif pruned:
                spans.append((_BEGINNING, before[pruned - 1][0]))
            groups = [_Group(cast(Item, dict(item))) for item in output]
            # The lines come last: what is cut short between two batches leaves all that there was.
            lines = [[compacted(*span)] for span in spans]
            self._end = None
            for batch in batches([*(group.messages for group in groups), *lines]):
                await self._append(current.id, batch, groups)
            return True

        items = [_theirs(it) for it in latest]
        return _Snapshot(items, len(end.items) <= limit, replace_suffix)

    def _party(self, thread_id: str = "") -> Party:
        if not self.session_id:
            return Party(subject=_NO_ID, thread_id=thread_id)
        return Party(group_id=self.session_id, thread_id=thread_id)

    async def _current(self) -> Conversation | None:
        """Return the session's conversation as it is now; None before its first item."""
        calls = self._client.conversations
        if self._is_fixed:
            return await calls.get(self._conversation_id)
        candidates = [
            it
            async for it in calls.list(
                channels=[self._channel], party=self._party(), archived=ArchiveFilter.ALL
            )
        ]
        newest = max(candidates, key=_generation, default=None)
        if newest is not None and _CLEARED in newest.metadata:
            return await self._begin(_generation(newest) + 1)
        self._conversation_id = newest.id if newest is not None else ""
        return newest

    async def _begin(self, generation: int) -> Conversation:
        """Create the conversation of this generation. Concurrent callers get the same one."""
        conversation = await self._client.conversations.create(
            self._channel,
            party=self._party(str(generation)),
            request_id=request_id("agents", "session", self._channel, self.session_id, generation),
        )
        self._conversation_id = conversation.id
        return conversation

    async def _latest(self, count: int | None) -> "_End | None":
        """Read the latest so many items, or all; None before the first one."""
        while True:
            is_known = bool(self._conversation_id)
            if not is_known and await self._current() is None:
                return None
            end = _End(self._conversation_id, None if count is None else (count + 1) // 2)
            try:
                await self._read(end, count)
            except NotFound:  # another process may have deleted what it cleared
                if self._is_fixed or not is_known:
                    raise
            else:
                if self._is_fixed or not end.is_cleared:
                    return end
            self._conversation_id = ""

    async def _add(self, messages: list[Message], groups: "list[_Group]") -> None:
        """Append to the session's conversation; where that was cleared meanwhile, to the next."""
        while True:
            is_known = bool(self._conversation_id)
            if not is_known and await self._current() is None:
                await self._begin(1)
            try:
                stored = await self._append(self._conversation_id, messages, groups)
            except NotFound:
                if self._is_fixed or not is_known:
                    raise
            else:
                if self._is_fixed or _CLEARED not in stored.conversation.metadata:
                    return
            self._conversation_id = ""

    async def _append(
        self, conversation_id: str, messages: list[Message], groups: "list[_Group]"
    ) -> AppendedTurn:
        by_message = {id(group.messages[0]): group for group in groups}
        orphans = set[int]()
        while True:
            try:
                stored = await self._client.conversations.append_turn(conversation_id, messages)
            except InvalidArgument as error:
                more = without_call(error) - orphans  # which are kept, but as no results
                if not more:
                    raise
                orphans |= more
                for index in more:
                    messages[index] = by_message[id(messages[index])].bare()
            else:
                break
        if self._end is not None and not self._end.appended(stored):
            self._end = None
        return stored

    async def _read(self, end: "_End", count: int | None) -> None:
        """Read backwards until there are so many items; None reads all."""
        history = end.history
        while history.more and (count is None or len(end.items) < count):
            try:
                page = await self._client.conversations.load(end.conversation_id, **history.request)
            except ResourceExhausted as error:
                if not history.can_shrink_after(error):
                    raise
                continue
            end.read(page)


@dataclass(frozen=True)
class _Snapshot:
    """The latest items of a session, as the SDK's compacting session takes them."""

    items: list[TResponseInputItem]
    complete: bool
    """True if there are no others."""
    replace_suffix: Callable[[int, list[TResponseInputItem]], Awaitable[bool]]
    """Put items in the place of those from an index on. False, and nothing is done, if anything was
    appended since.
    """


class _Group:
    """The messages of one item: the one with its words, and the parts of its files."""

    def __init__(self, item: Item) -> None:
        self._item = item
        self.messages = messages_of(item)

    def bare(self) -> Message:
        """Return the message of an item that has no call."""
        return messages_of(self._item, bare=True)[0]


class _End:
    """The last items of a conversation that were read and not taken back.

    `pop_item` keeps it for the next one, for as long as nobody else appends: the lines that take
    items back stand in the transcript, and were read over and over.
    """

    def __init__(self, conversation_id: str, turns: int | None) -> None:
        """Begin at the end of a conversation. `turns` bounds the first page."""
        self.conversation_id = conversation_id
        self.items: list[_Placed] = []
        self.history = History()
        self.history.max_turns = MAX_TURNS if turns is None else min(max(turns, _PAGE), MAX_TURNS)
        self.is_cleared = False
        self._message_count: int | None = None
        self._taken_back: set[tuple[int, int]] = set()
        self._compacted: list[tuple[Place, Place]] = []
        self._files = Files()

    def is_of(self, conversation: Conversation) -> bool:
        """Return whether this is the end of the conversation as it is now."""
        return (self.conversation_id, self._message_count) == (
            conversation.id,
            conversation.message_count,
        )

    def read(self, page: LoadedConversation) -> None:
        """Add the page before those that were read."""
        if self._message_count is None and page.conversation is not None:
            self._message_count = page.conversation.message_count
            self.is_cleared = _CLEARED in page.conversation.metadata
        self.history.received(page)
        self.history.max_turns = min(2 * self.history.max_turns, MAX_TURNS)
        self.items[:0] = self._items(page.messages)
        if page.messages:
            oldest = _place(page.messages[0])
            for first, last in self._compacted:
                if first <= oldest <= last:
                    self.history.skip_to(first[0])

    def appended(self, stored: AppendedTurn) -> bool:
        """Add what this session appended. Return False if somebody else appended before."""
        self.items += self._items(stored.messages)
        self._message_count = (self._message_count or 0) + len(stored.messages)
        return self.is_of(stored.conversation)

    def _items(self, messages: Sequence[Message]) -> list[_Placed]:
        for index, message in reversed(list(enumerate(messages))):
            if is_clearing(message):
                self.history.more, messages = False, messages[index + 1 :]
                break
        self._files.add(messages)  # those of a message follow it, so that they are read before it
        own: list[Message] = []
        for message in messages:
            if (withdrawn := what_it_takes_back(message)) is not None:
                self._taken_back.add(withdrawn)
            elif (span := what_it_compacts(message)) is not None:
                self._compacted.append(span)
            elif not is_part(message):
                own.append(message)
        return [
            (place, item)
            for message in own
            for index, item in enumerate(items_of(message, self._files))
            if (place := _place(message, index))[1:] not in self._taken_back
            and not any(first <= place <= last for first, last in self._compacted)
        ]


def _place(message: Message, index: int = 0) -> Place:
    return message.turn_number, message.sequence, index


def _is_users(item: TResponseInputItem) -> bool:
    return cast(Item, item).get("role") == "user"


def _words(item: TResponseInputItem) -> str:
    """Return the words of a user's item, and all of another one, of which some cannot be stored."""
    return messages_of(cast(Item, dict(item)))[0].content if _is_users(item) else repr(item)


def _theirs(placed: _Placed) -> TResponseInputItem:
    return cast(TResponseInputItem, placed[1])


def _generation(it: Conversation) -> int:
    return int(it.party.thread_id) if it.party and it.party.thread_id.isdecimal() else 0
