"""The message history of a LangGraph graph, and a store that finds what was said. Needs the extra
`recollect-client[langgraph]`.

    from recollect import Client
    from recollect.adapters.langgraph import RecallStore, RecollectMemory

    memory = RecollectMemory(Client())
    builder.add_node("load", memory.load)
    builder.add_node("answer", call_model)
    builder.add_node("keep", memory.keep)
    graph = builder.compile(store=RecallStore(Client()))
    graph.invoke({"messages": [HumanMessage("Hi")]}, {"configurable": {"thread_id": "alex"}})

What it maps, and what not:

- `load` puts the working context of the thread's conversation before the messages of the state;
  `keep` appends those that are not kept yet, exactly once however often the node runs. Every
  message comes back as it was, but for the mark `recollect_sequence` in its `response_metadata`.
  System messages are not kept: they belong to the program.
- It is no checkpointer. A checkpoint is the state of a graph between two steps, with its channels
  and pending writes; a transcript is what was said. Use LangGraph's own checkpointers for
  interrupts and time travel, beside this or without it.
- `RecallStore` is a `BaseStore` to read: `search` and `get` over all conversations, or those of one
  channel. It has no place for values of your own: `put` and `delete` are refused.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    Result,
    SearchItem,
    SearchOp,
)

from recollect import (
    MATCH_END,
    MATCH_START,
    ArchiveFilter,
    Client,
    Conversation,
    Message,
    NotFound,
    Party,
    Role,
    ToolCall,
    Usage,
)
from recollect.adapters.packing import CONTENT, THINKING, Packed, Path, unpacked

CHANNEL = "langgraph"
KEY = "langchain"
MARK = "recollect_sequence"
ROOT = "conversations"
_MOST = 100


class RecollectMemory:
    """Two nodes of a graph with the state key `messages`: the first one and the last one. Graphs
    and threads may share it.
    """

    def __init__(
        self, client: Client, *, channel: str = CHANNEL, max_turns: int | None = None
    ) -> None:
        """Keep messages with a client. `max_turns` bounds the messages that `load` brings; by
        default the server decides.
        """
        self._client = client
        self._channel = channel
        self._max_turns = max_turns

    def load(self, state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """Run as the first node: return the earlier messages of this thread, then those of the
        state. Raises RecollectError.

        With a summary of compressed turns it comes first, as a system message.
        """
        conversation = self._find(_thread(config))
        if conversation is None:
            return {"messages": []}
        loaded = self._client.conversations.load(conversation.id, max_turns=self._max_turns)
        summary = []
        if loaded.compression_summary:
            summary = [
                _marked(
                    SystemMessage(f"Earlier in this conversation: {loaded.compression_summary}"), 0
                )
            ]
        earlier = list(map(langchain_message, loaded.messages))
        # A checkpointer brings back what was loaded before: what is kept is loaded anew, once.
        new = [it for it in state["messages"] if MARK not in it.response_metadata]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), *summary, *earlier, *new]}

    def keep(self, state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        """Run as the last node: append the messages that are not kept yet, all or none, and mark
        them. Raises RecollectError.
        """
        new = [
            it
            for it in state["messages"]
            if MARK not in it.response_metadata and not isinstance(it, SystemMessage)
        ]
        if not new:
            return {"messages": []}
        thread = _thread(config)
        conversation = self._find(thread) or self._begin(thread)
        stored = self._client.conversations.append_turn(
            conversation.id,
            [message_of(it) for it in new],
            request_id=_request_id("keep", conversation.id, *(it.id for it in new)),
        )
        return {
            "messages": [
                _marked(it, stored_message.sequence)
                for it, stored_message in zip(new, stored.messages, strict=True)
            ]
        }

    def conversation_of(self, thread_id: str) -> Conversation | None:
        """Return the conversation of a thread; None before its first message. Raises
        RecollectError.
        """
        return self._find(thread_id)

    def _find(self, thread_id: str) -> Conversation | None:
        return next(
            iter(
                self._client.conversations.list(
                    channels=[self._channel],
                    party=Party(group_id=thread_id),
                    archived=ArchiveFilter.ALL,
                )
            ),
            None,
        )

    def _begin(self, thread_id: str) -> Conversation:
        """Create the conversation. Concurrent callers get the same one."""
        return self._client.conversations.create(
            self._channel,
            party=Party(group_id=thread_id),
            request_id=_request_id("thread", self._channel, thread_id),
        )


def message_of(it: BaseMessage) -> Message:
    """Return the message that keeps one of LangChain. Raises TypeError for one that no conversation
    has, or that JSON cannot hold.
    """
    overflow = THINKING if isinstance(it, AIMessage) else CONTENT
    packed = Packed(message_to_dict(it), [(CONTENT, path) for path in _texts(it)], overflow)
    content, metadata = packed.words(CONTENT), {KEY: packed.shape}
    match it:
        case HumanMessage():
            return Message.user(content or "[message]", sender=it.name or "", metadata=metadata)
        case AIMessage():
            usage = it.usage_metadata
            return Message.assistant(
                content or ("" if it.tool_calls else "[message]"),
                thinking_text=packed.words(THINKING),
                tool_calls=[
                    ToolCall(call["id"] or "", call["name"], json.dumps(call["args"]))
                    for call in it.tool_calls
                ],
                usage=Usage(usage["input_tokens"], usage["output_tokens"]) if usage else None,
                sender=it.name or "",
                metadata=metadata,
            )
        case ToolMessage():
            return Message.tool(content, tool_call_id=it.tool_call_id, metadata=metadata)
    raise TypeError(f"a message of the type {it.type!r} is no part of a conversation")


def langchain_message(message: Message) -> BaseMessage:
    """Return the message of LangChain for one of Recollect, whoever wrote it, marked as kept."""
    shape = message.metadata.get(KEY)
    result: BaseMessage
    if isinstance(shape, str):
        words = {CONTENT: message.content, THINKING: message.thinking_text}
        [result] = messages_from_dict([unpacked(shape, words)])
    elif message.role is Role.USER:
        result = HumanMessage(message.content, name=message.sender or None)
    elif message.role is Role.TOOL:
        result = ToolMessage(message.content, tool_call_id=message.tool_call_id)
    else:
        calls = [
            {"id": it.id, "name": it.name, "args": _arguments(it.arguments)}
            for it in message.tool_calls
        ]
        result = AIMessage(message.content, tool_calls=calls)
    return _marked(result, message.sequence)


class RecallStore(BaseStore):
    """Conversations as items to search and to get. The namespace is `("conversations",)`, or
    `("conversations", CHANNEL)`.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations one by one. Raises NotImplementedError for those that write,
        ValueError, RecollectError.
        """
        return list(map(self._answer, ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer operations as `batch` does, in a thread of its own."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _answer(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._get(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                namespaces: list[tuple[str, ...]] = [(ROOT,)]
                return namespaces
        raise NotImplementedError(
            "Recollect keeps what is said, not values of your own: this store is to read"
        )

    def _get(self, op: GetOp) -> Item | None:
        channel = _channel(op.namespace)
        try:
            it = self._client.conversations.get(op.key)
        except NotFound:
            return None
        if channel not in {None, it.channel}:
            return None
        value = {
            "name": it.title,
            "topics": list(it.topics),
            "abbreviation": it.abbreviation,
            "turns": it.turn_count,
        }
        return Item(
            value=value,
            key=it.id,
            namespace=(ROOT, it.channel),
            created_at=it.create_time,
            updated_at=it.update_time,
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.filter:
            raise NotImplementedError(
                "this store has no filter but its namespace: (conversations, CHANNEL)"
            )
        if op.limit + op.offset > _MOST:
            raise ValueError(f"limit and offset: Recollect answers at most {_MOST} conversations")
        channel, most = _channel(op.namespace_prefix), op.limit + op.offset
        if not op.query:
            recent = self._client.recall.recent(channel=channel, limit=most)
            items = [
                _found(
                    it.conversation.id, it.conversation.channel, it.conversation.update_time, None
                )
                | {
                    "name": it.conversation.title,
                    "snippet": it.snippet,
                    "abbreviation": it.conversation.abbreviation,
                }
                for it in recent
            ]
        else:
            answer = self._client.recall.search(op.query, channel=channel, limit=most)
            items = [
                _found(it.conversation_id, it.channel, it.date, it.score)
                | {
                    "name": it.conversation_name,
                    "snippet": _plain(it.snippet),
                    "abbreviation": it.abbreviation,
                }
                | {"turns": list(it.matched_turns)}
                for it in answer.results
            ]
        return [_item(it) for it in items[op.offset :]]


def _found(
    conversation_id: str, channel: str, date: datetime, score: float | None
) -> dict[str, Any]:
    return {"key": conversation_id, "channel": channel, "date": date, "score": score}


def _item(fields: dict[str, Any]) -> SearchItem:
    key, channel, date, score = (fields.pop(name) for name in ("key", "channel", "date", "score"))
    return SearchItem((ROOT, channel), key, fields, date, date, score)


def _channel(namespace: Sequence[str]) -> str | None:
    """Return the channel of a namespace; None for all. Raises ValueError."""
    match tuple(namespace):
        case () | ("conversations",):
            return None
        case ("conversations", channel):
            return channel
    raise ValueError(
        f"the namespace is ({ROOT!r},) or ({ROOT!r}, CHANNEL), not {tuple(namespace)!r}"
    )


def _texts(it: BaseMessage) -> Iterable[Path]:
    """Return the places of a message's words in the output of `message_to_dict`."""
    if isinstance(it.content, str):
        yield ["data", "content"]
        return
    for index, part in enumerate(it.content):
        if isinstance(part, str):
            yield ["data", "content", index]
        elif isinstance(part.get("text"), str):
            yield ["data", "content", index, "text"]


def _marked(it: BaseMessage, sequence: int) -> BaseMessage:
    return it.model_copy(update={"response_metadata": it.response_metadata | {MARK: sequence}})


def _plain(snippet: str) -> str:
    return snippet.replace(MATCH_START, "").replace(MATCH_END, "")


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"arguments": text}


def _thread(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    if not thread:
        raise ValueError('a thread has an id: {"configurable": {"thread_id": "…"}}')
    return str(thread)


def _request_id(*parts: Any) -> str:
    return f"langgraph-{hashlib.sha256(repr(parts).encode()).hexdigest()[:40]}"
