"""A store of Haystack's chat messages. Needs the extra `recollect-client[haystack]`.

    from haystack_experimental.components.retrievers import ChatMessageRetriever
    from recollect.adapters.haystack import RecollectChatMessageStore

    retriever = ChatMessageRetriever(RecollectChatMessageStore(Client()))

`RecollectRecall` is a component that puts what was said before ahead of messages for a generator.

Each `chat_history_id` is a conversation; a `ChatMessage` comes back as it was, with the id that the
store gives it (`chat_message_id`), and its words are found by `client.recall.search`. One with an
id that the conversation has is not written again.
"""

import json
from dataclasses import replace
from typing import Any, Self, cast
from urllib.parse import quote

from haystack import component, default_from_dict, default_to_dict
from haystack.dataclasses import ChatMessage, ChatRole

from recollect import Client, Message, Party, Role, ToolCall
from recollect.adapters.packing import Path
from recollect.adapters.transcripts import Kept, Transcript, Words, delete_all, transcripts
from recollect.adapters.turn_recall import TurnRecall, newest_turn

CHANNEL = "haystack"
_ID = "chat_message_id"
_RECALLED = "recollect_recalled"
"""In the metadata of a message that a store does not write: it was recalled, not said."""
_ROUND = 4  # messages of a round, as a guess


class _WithSettings:
    """A part of a pipeline that is written as its settings, without its client."""

    _settings: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the settings but for the client."""
        return dict(default_to_dict(self, **self._settings))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return a part with these settings."""
        return cast(Self, default_from_dict(cls, data))


class RecollectChatMessageStore(_WithSettings):
    """Chat messages by the id of their history. Threads may share it. Raises RecollectError."""

    def __init__(
        self,
        client: Client | None = None,
        *,
        channel: str = CHANNEL,
        skip_system_messages: bool = True,
        last_k: int | None = 10,
    ) -> None:
        """Keep messages with a client, in conversations of a channel; without one the environment
        says where the server is. The rest is as in Haystack's own store.
        """
        self._client = Client() if client is None else client
        self._channel = channel
        self._skips_system, self._last_k = skip_system_messages, last_k
        self._settings = {
            "channel": channel, "skip_system_messages": skip_system_messages, "last_k": last_k
        }  # fmt: skip
        self._opened = transcripts(self._client, channel, "haystack")

    def count_messages(self, chat_history_id: str) -> int:
        """Count the messages of a history."""
        return len(self._of(chat_history_id).read())

    def write_messages(self, chat_history_id: str, messages: list[ChatMessage]) -> int:
        """Write those messages that are not there yet, durable on return; return their number."""
        if any(not isinstance(it, ChatMessage) for it in messages):
            raise ValueError("messages: a list of ChatMessage is needed")
        transcript = self._of(chat_history_id)
        stored = [_chat_message(it) for it in transcript.read()]
        ids = {it.meta.get(_ID) for it in stored}
        count, written = len(stored), []
        for it in messages:
            if _RECALLED in it.meta or (self._skips_system and it.is_from(ChatRole.SYSTEM)):
                continue
            if it.meta.get(_ID) is None:
                it = replace(it, _meta={_ID: str(count), **it.meta})
                count += 1
            if it.meta[_ID] not in ids:
                written.append(it)
        transcript.add(map(_packed, written))
        return len(written)

    def retrieve_messages(
        self, chat_history_id: str, last_k: int | None = None
    ) -> list[ChatMessage]:
        """Return the messages of a history, oldest first: of its last rounds of a question and its
        answer so many as `last_k` says, here or in the constructor; all if neither does.
        """
        last_k = self._last_k if last_k is None else last_k
        if last_k is not None and last_k < 0:
            raise ValueError("last_k: 0 or more")
        most = last_k and _ROUND * (last_k + 1)
        rounds = _rounds(self._of(chat_history_id).read(latest=most))
        if last_k and len(rounds) <= last_k:  # the first one may lack its beginning
            rounds = _rounds(self._of(chat_history_id).read())
        return [it for one in rounds[-(last_k or 0) :] for it in one]

    def delete_messages(self, chat_history_id: str) -> None:
        """Delete a history's conversation for good."""
        self._of(chat_history_id).delete()

    def delete_all_messages(self) -> None:
        """Delete every history of the channel for good."""
        delete_all(self._client, self._channel)

    def _of(self, chat_history_id: str) -> Transcript:
        return self._opened(_party(chat_history_id))


@component
class RecollectRecall(_WithSettings):
    """A component that puts what was said before about the user's newest message ahead of the
    messages of a run, as a system message that no store writes.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        channel: str = CHANNEL,
        budget: int | None = None,
    ) -> None:
        """Recall with a client for the histories of a channel's store; without one the environment
        says where the server is. `budget` is the total of `build_context`, in tokens.
        """
        self._client = Client() if client is None else client
        self._settings = {"channel": channel, "budget": budget}
        self._recall = TurnRecall(budget)
        self._opened = transcripts(self._client, channel, "haystack")

    @component.output_types(messages=list[ChatMessage])
    def run(self, messages: list[ChatMessage], chat_history_id: str) -> dict[str, Any]:
        """Return the messages of a history, behind what is recalled for the newest of the user."""
        turn = newest_turn(
            messages, lambda it: it.is_from(ChatRole.USER), lambda it: "\n".join(it.texts)
        )
        find = self._opened(_party(chat_history_id)).find
        text = self._recall.text(self._client, chat_history_id, turn, find)
        before = [ChatMessage.from_system(text, meta={_RECALLED: True})] if text else []
        return {"messages": [*before, *messages]}


def _party(chat_history_id: str) -> Party:
    return Party(group_id=f"/{quote(chat_history_id, safe='')}")


def _rounds(rows: list[Kept]) -> list[list[ChatMessage]]:
    """Return messages in rounds: each ends with an answer that calls no tool, and a system message
    is one of its own.
    """
    rounds: list[list[ChatMessage]] = []
    current: list[ChatMessage] = []
    for it in map(_chat_message, rows):
        if it.is_from(ChatRole.SYSTEM):
            rounds.append([it])
            continue
        current.append(it)
        if it.is_from(ChatRole.ASSISTANT) and it.text and not it.tool_calls:
            rounds.append(current)
            current = []
    return [*rounds, current] if current else rounds


def _packed(it: ChatMessage) -> tuple[dict[str, Any], Words]:
    dumped = json.loads(json.dumps(it.to_dict()))
    texts: list[Path] = []
    thinking: list[Path] = []
    for at, part in enumerate(dumped["content"]):
        match part:
            case {"text": str()}:
                texts.append(["content", at, "text"])
            case {"tool_call_result": {"result": str()}}:
                texts.append(["content", at, "tool_call_result", "result"])
            case {"reasoning": {"reasoning_text": str()}}:
                thinking.append(["content", at, "reasoning", "reasoning_text"])
    calls = [
        ToolCall(call.id or f"call-{at}", call.tool_name, json.dumps(call.arguments))
        for at, call in enumerate(it.tool_calls)
    ]
    role, sender, answers = Role.ASSISTANT, it.name or "", ""
    if it.is_from(ChatRole.USER):
        role = Role.USER
    elif it.tool_call_result and it.tool_call_result.origin.id:
        role, answers = Role.TOOL, it.tool_call_result.origin.id
    elif not it.is_from(ChatRole.ASSISTANT):
        sender = it.role.value
    return dumped, Words(
        role=role, texts=texts, thinking=thinking, calls=calls, answers=answers, sender=sender
    )


def _chat_message(it: Kept) -> ChatMessage:
    if not isinstance(it.item, Message):
        return cast(ChatMessage, ChatMessage.from_dict(it.item))
    made = ChatMessage.from_user if it.item.role is Role.USER else ChatMessage.from_assistant
    return made(it.item.content)
