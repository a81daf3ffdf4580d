"""A chat store of LlamaIndex. Needs the extra `recollect-client[llama-index]`.

    from llama_index.core.memory import ChatMemoryBuffer
    from recollect.adapters.llama_index import RecollectChatStore

    memory = ChatMemoryBuffer.from_defaults(
        chat_store=RecollectChatStore(Client()), chat_store_key="alex"
    )

Each key is a conversation; a `ChatMessage` comes back as it was, and its words are found by
`client.recall.search`. A transcript only grows: `delete_message`, `delete_last_message` and
`set_messages` write lines that take messages back, and the search has them all the same;
`delete_messages` deletes the conversation for good.
"""

from typing import Any
from urllib.parse import quote, unquote

from llama_index.core.llms import ChatMessage
from llama_index.core.storage.chat_store.base import BaseChatStore
from pydantic import PrivateAttr

from recollect import ArchiveFilter, Client, Message, Party, Role
from recollect.adapters.clients import blocking
from recollect.adapters.packing import Path
from recollect.adapters.transcripts import Kept, Transcript, Words

CHANNEL = "llama-index"


class RecollectChatStore(BaseChatStore):
    """Messages by key. Threads and tasks may share it; its asynchronous methods call in threads."""

    _client: Client = PrivateAttr()
    _channel: str = PrivateAttr()

    def __init__(self, client: Client, *, channel: str = CHANNEL) -> None:
        """Keep messages with a client, in conversations of a channel."""
        super().__init__()
        self._client = blocking(client)
        self._channel = channel

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
        every = self._client.conversations.list(
            channels=[self._channel], archived=ArchiveFilter.ALL
        )
        return sorted({unquote(it.party.group_id[1:]) for it in every if it.party})

    def _of(self, key: str) -> Transcript:
        party = Party(group_id=f"/{quote(key, safe='')}")  # a key may be empty
        return Transcript(self._client, self._channel, party, "llamaIndex")


def _packed(it: ChatMessage) -> tuple[dict[str, Any], Words]:
    dumped = it.model_dump(mode="json")
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
    return ChatMessage.model_validate(it.item)
