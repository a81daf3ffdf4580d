"""A chat store of LlamaIndex. Needs the extra `recollect-client[llama-index]`.

    from llama_index.core.memory import ChatMemoryBuffer
    from recollect.adapters.llama_index import RecollectChatStore

    memory = ChatMemoryBuffer.from_defaults(
        chat_store=RecollectChatStore(Client()), chat_store_key="alex"
    )

The newer `Memory` takes `RecollectDBChatStore`, in the same way: both keep the same conversations.
With `memory_blocks=[RecollectMemoryBlock(Client())]` it shows the model what was said before, under
any key.

Each key is a conversation; a `ChatMessage` comes back as it was, and its words are found by
`client.recall.search`. A transcript only grows: `delete_message`, `delete_last_message` and
`set_messages` write lines that take messages back, and the search has them all the same;
`delete_messages` deletes the conversation for good.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote, unquote

from llama_index.core.llms import ChatMessage
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store.base import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic import PrivateAttr

from recollect import ArchiveFilter, Client, Message, Party, Role
from recollect.adapters.clients import blocking
from recollect.adapters.packing import Path
from recollect.adapters.transcripts import Kept, Transcript, Words, transcripts
from recollect.adapters.turn_recall import Budget, TurnRecall, newest_turn

CHANNEL = "llama-index"
_STATUS = "recollectStatus"


class RecollectChatStore(BaseChatStore):
    """Messages by key. Threads and tasks may share it; its asynchronous methods call in threads."""

    _client: Client = PrivateAttr()
    _channel: str = PrivateAttr()
    _of: Callable[[str], Transcript] = PrivateAttr()

    def __init__(self, client: Client, *, channel: str = CHANNEL) -> None:
        """Keep messages with a client, in conversations of a channel."""
        super().__init__()
        self._client = blocking(client)
        self._channel = channel
        self._of = _transcripts(client, channel)

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows the class."""
        return "RecollectChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Put messages in the place of all earlier ones."""
        self._of(key).add(map(_packed, messages), replaces=True)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """Return the messages of a key, oldest first."""
        return [_chat_message(it) for it in self._of(key).read()]

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Add a message, durable on return."""
        self._of(key).add([_packed(message)])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Delete a key's conversation for good and return its messages; None if there is none."""
        messages = self.get_messages(key)
        return messages if self._of(key).delete() else None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take a message back and return it; None if there is no such one."""
        transcript = self._of(key)
        messages = transcript.read()
        if not -len(messages) <= idx < len(messages):
            return None
        transcript.take_back([messages[idx].sequence])
        return _chat_message(messages[idx])

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Take the latest message back and return it; None if there is none."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """Return the keys that have a conversation."""
        return _keys(self._client, self._channel)


class RecollectDBChatStore(AsyncDBChatStore):
    """Messages by key, for `Memory.from_defaults(chat_store=…)`. An archived one is not in the
    agent's memory any more, and is found. Tasks may share it; it calls in threads.
    """

    _client: Client = PrivateAttr()
    _channel: str = PrivateAttr()
    _of: Callable[[str], Transcript] = PrivateAttr()

    def __init__(self, client: Client, *, channel: str = CHANNEL) -> None:
        """Keep messages with a client, in conversations of a channel."""
        super().__init__()
        self._client = blocking(client)
        self._channel = channel
        self._of = _transcripts(client, channel)

    @classmethod
    def class_name(cls) -> str:
        """Return the name by which LlamaIndex knows the class."""
        return "RecollectDBChatStore"

    async def get_messages(
        self,
        key: str,
        status: MessageStatus | None = MessageStatus.ACTIVE,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[ChatMessage]:
        """Return the messages of a key, oldest first; None as `status` is for all."""
        rows = await self._read(key, status)
        return [_chat_message(it) for it in rows[offset or 0 :][:limit]]

    async def count_messages(
        self, key: str, status: MessageStatus | None = MessageStatus.ACTIVE
    ) -> int:
        """Count the messages of a key."""
        return len(await self._read(key, status))

    async def add_message(
        self, key: str, message: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add a message, durable on return."""
        await self.add_messages(key, [message], status)

    async def add_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Add messages, all of a call or none up to 6 MiB."""
        await self._add(key, [_packed(it, status) for it in messages])

    async def set_messages(
        self, key: str, messages: list[ChatMessage], status: MessageStatus = MessageStatus.ACTIVE
    ) -> None:
        """Put messages in the place of all earlier ones, the archived ones too."""
        await self._add(key, [_packed(it, status) for it in messages], replaces=True)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take an active message back by its place and return it; None if there is no such one."""
        rows = await self._read(key, MessageStatus.ACTIVE)
        if not 0 <= idx < len(rows):
            return None
        return (await self._remove(key, rows[idx : idx + 1]))[0]

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Delete a key's conversation for good; with `status` take only those back that have it."""
        if status is None:
            await asyncio.to_thread(self._of(key).delete)
        else:
            await self._remove(key, await self._read(key, status))

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Take the oldest active messages back and return them."""
        return await self._remove(key, (await self._read(key, MessageStatus.ACTIVE))[:n])

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Archive the oldest active messages and return them."""
        return await self._remove(
            key, (await self._read(key, MessageStatus.ACTIVE))[:n], archives=True
        )

    async def get_keys(self) -> list[str]:
        """Return the keys that have a conversation."""
        return await asyncio.to_thread(_keys, self._client, self._channel)

    async def _read(self, key: str, status: MessageStatus | None) -> list[Kept]:
        rows = await asyncio.to_thread(self._of(key).read, archived=True)
        return [it for it in rows if status in {None, _status(it)}]

    async def _add(
        self, key: str, items: Iterable[tuple[Any, Words]], *, replaces: bool = False
    ) -> None:
        await asyncio.to_thread(self._of(key).add, items, replaces=replaces)

    async def _remove(
        self, key: str, rows: list[Kept], *, archives: bool = False
    ) -> list[ChatMessage]:
        sequences = [it.sequence for it in rows]
        if rows:
            await asyncio.to_thread(self._of(key).take_back, sequences, archives=archives)
        return [_chat_message(it) for it in rows]


class RecollectMemoryBlock(BaseMemoryBlock[str]):
    """A block for `Memory.from_defaults(memory_blocks=[…])` with what was said before about the
    user's newest message. The memory stores nothing of it.
    """

    name: str = "recollect"
    _client: Client = PrivateAttr()
    _recall: TurnRecall = PrivateAttr()
    _of: Callable[[str], Transcript] = PrivateAttr()

    def __init__(
        self, client: Client, *, budget: Budget = None, channel: str = CHANNEL, **fields: Any
    ) -> None:
        """Recall with a client for the keys of a channel's store. `budget` is that of
        `build_context`; other fields are those of LlamaIndex's blocks.
        """
        super().__init__(**fields)
        self._client = blocking(client)
        self._recall = TurnRecall(budget)
        self._of = _transcripts(client, channel)

    async def _aget(
        self, messages: list[ChatMessage] | None = None, session_id: str = "", **_: Any
    ) -> str:
        turn = newest_turn(
            messages or [], lambda it: it.role.value == "user", lambda it: it.content or ""
        )
        find = self._of(session_id).find
        return await asyncio.to_thread(self._recall.text, self._client, session_id, turn, find)

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Take no messages: the chat store has them, and they are found."""


def _keys(client: Client, channel: str) -> list[str]:
    every = client.conversations.list(channels=[channel], archived=ArchiveFilter.ALL)
    return sorted({unquote(it.party.group_id[1:]) for it in every if it.party})


def _transcripts(client: Client, channel: str) -> Callable[[str], Transcript]:
    opened = transcripts(client, channel, "llamaIndex")
    return lambda key: opened(Party(group_id=f"/{quote(key, safe='')}"))  # a key may be empty


def _status(it: Kept) -> MessageStatus:
    added_so = isinstance(it.item, dict) and it.item.get(_STATUS) == MessageStatus.ARCHIVED.value
    return MessageStatus.ARCHIVED if it.is_archived or added_so else MessageStatus.ACTIVE


def _packed(
    it: ChatMessage, status: MessageStatus = MessageStatus.ACTIVE
) -> tuple[dict[str, Any], Words]:
    dumped = it.model_dump(mode="json")
    if status is MessageStatus.ARCHIVED:
        dumped[_STATUS] = status.value
    texts: list[Path] = [
        ["blocks", at, "text"]
        for at, block in enumerate(dumped["blocks"])
        if isinstance(block.get("text"), str)
    ]
    role = Role.USER if it.role.value == "user" else Role.ASSISTANT
    sender = "" if it.role.value in {"user", "assistant"} else it.role.value
    return dumped, Words(role=role, texts=texts, sender=sender)


def _chat_message(it: Kept) -> ChatMessage:
    if isinstance(it.item, Message):
        return ChatMessage(role=it.item.role.value, content=it.item.content)
    fields = {name: value for name, value in it.item.items() if name != _STATUS}
    return ChatMessage.model_validate(fields)
