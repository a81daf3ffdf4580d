"""The message history of a LangGraph graph, its checkpoints, and a store that finds what was said.
Needs the extra `recollect-client[langgraph]`.

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
  message comes back as it was, but for two marks in its `response_metadata`. System messages are
  not kept: they belong to the program. The state's key `messages` has the reducer `add_messages`,
  as in `MessagesState`, or none.
- A message that is edited or removed in the state is so from then on: `keep` writes a line that
  replaces it or takes it away, which every program that loads the thread sees. The transcript only
  grows: the first wording stays there, and is found. (A state whose messages were all removed looks
  like one that never had any: to begin anew, take another thread.)
- A transcript is what was said; a checkpoint is the state of a graph between two steps, with its
  channels and pending writes. `RecollectSaver` is a checkpointer, for interrupts, time travel and
  runs that are killed: `builder.compile(checkpointer=RecollectSaver(Client()))`, beside the two
  nodes or without them. Its checkpoints are in a log of their own for each thread, which is neither
  searched nor listed with conversations (`langgraph_saver`).
- `recalling` makes a node that writes what was said before, in any thread, into the state's key
  `recalled`: a text to begin the model's instructions with, and no message.
- `RecallStore` is a `BaseStore`: `search` and `get` over all conversations, or those of one
  channel, in the namespace `conversations`. They are only to read. All other namespaces are those
  of your own values, which a `RecollectStore` keeps: a `BaseStore` by itself, with filters, vectors
  of your embedding function and times to live (`langgraph_store`). Another one can be given, as
  `RecallStore(Client(), values=InMemoryStore())`.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from typing_extensions import ReadOnly, TypedDict

from recollect import ArchiveFilter, Client, Conversation, LoadedConversation, Message, Party
from recollect._shared.file_parts import is_part
from recollect.adapters.clients import blocking
from recollect.adapters.files import Files, batches
from recollect.adapters.langchain import langchain_message, message_of, messages_of
from recollect.adapters.langgraph_saver import RecollectSaver
from recollect.adapters.langgraph_store import RecollectStore
from recollect.adapters.packing import request_id
from recollect.adapters.recall_store import RecallStore
from recollect.adapters.turn_recall import Budget, TurnRecall, newest_turn

__all__ = [
    "HasMessages",
    "RecallStore",
    "RecollectMemory",
    "RecollectSaver",
    "RecollectStore",
    "langchain_message",
    "message_of",
]

CHANNEL = "langgraph"
MARK = "recollect_sequence"
STATE = "recollect_state"
_MARKS = (MARK, STATE)
_CHANGE = "langgraphChange"


class HasMessages(TypedDict):
    """State with messages, whatever else it has."""

    messages: ReadOnly[Sequence[BaseMessage]]


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
        self._client = blocking(client)
        self._channel = channel
        self._max_turns = max_turns

    def load(self, state: HasMessages, config: RunnableConfig) -> dict[str, Any]:
        """Run as the first node: return the earlier messages of this thread, then those of the
        state. Raises RecollectError.

        With a summary of compressed turns it comes first, as a system message.
        """
        messages = list(state["messages"])
        conversation = self._find(_thread(config))
        if conversation is None:
            return {"messages": messages if _is_plain(messages) else []}
        loaded, stored = self._load(conversation)
        result: list[BaseMessage] = []
        if loaded.compression_summary:
            text = f"Earlier in this conversation: {loaded.compression_summary}"
            result = [_marked(SystemMessage(text), 0)]
        # A checkpointer brings back what was loaded before: what is kept is loaded anew, once.
        view = _View(_versions(stored), messages)
        extent = _ranges([*view.current, *view.removed])
        for sequence, it in view.current.items():
            digest = _digest(view.versions[sequence])
            result.append(_marked(it, sequence, seen=extent, digest=digest))
        # The new ones tell what the state had, where a node removes all earlier ones.
        result += [_marked(it, None, seen=extent) for it in view.new]
        if not _is_plain(messages):
            result.insert(0, RemoveMessage(id=REMOVE_ALL_MESSAGES))
        return {"messages": result}

    def keep(self, state: HasMessages, config: RunnableConfig) -> dict[str, Any]:
        """Run as the last node: append the messages that are not kept yet, all or none, and mark
        them; and what was edited or removed. Raises RecollectError.
        """
        messages = [it for it in state["messages"] if not isinstance(it, RemoveMessage)]
        thread = _thread(config)
        conversation = self._find(thread)
        if conversation is not None and _misses_any(messages):
            view = _View(_versions(self._load(conversation)[1]), messages)
        else:
            view = _View({}, messages)
        new = [it for it in view.new if not isinstance(it, SystemMessage)]
        groups = [_replacement(sequence, it) for sequence, it in view.edited.items()]
        if view.removed:
            groups.append([_removal(view.removed)])
        changes = sum(map(len, groups))
        if not new and not changes:
            return {"messages": []}
        conversation = conversation or self._begin(thread)
        identity = ["keep", conversation.id, *_identity(new, view, config)]
        groups += [messages_of(_unmarked(it)) for it in new]
        stored: list[Message] = []
        for number, batch in enumerate(batches(groups)):
            own_id = request_id("langgraph", *identity, *([number] if number else []))
            done = self._client.conversations.append_turn(conversation.id, batch, request_id=own_id)
            stored += done.messages
        sequences = [it.sequence for it in stored[changes:] if not is_part(it)]
        extent = _ranges([*view.marked, *sequences])
        placed = [*zip(sequences, new, strict=True), *view.edited.items()]
        marked = {
            id(it): _marked(it, sequence, seen=extent, digest=_digest(it))
            for sequence, it in placed
        }
        if not _is_plain(messages):
            return {"messages": list(marked.values())}
        return {"messages": [marked.get(id(it), it) for it in messages]}

    def _load(self, conversation: Conversation) -> tuple[LoadedConversation, list[Message]]:
        """Return the working context and its messages, in whole turns: one with images may be
        larger than an answer.
        """
        load = self._client.conversations.load
        page = loaded = load(conversation.id, max_turns=self._max_turns)
        messages = list(loaded.messages)
        while page.cut_before_sequence:
            page = load(
                conversation.id,
                max_turns=1,
                before_turn=messages[0].turn_number + 1,
                before_sequence=page.cut_before_sequence,
            )
            messages[:0] = page.messages
        return loaded, messages

    def recalling(self, budget: Budget = None) -> "RecallNode":
        """Return a node that writes what was said before about the user's newest message into the
        state's key `recalled`; an empty text if there is nothing. `budget` is that of
        `build_context`. The messages of the state do not have it, and `keep` stores nothing of it.
        """
        return RecallNode(self._client, self._find, budget)

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
            request_id=request_id("langgraph", "thread", self._channel, thread_id),
        )


class RecallNode:
    """A node that recalls once a turn. Graphs and threads may share it."""

    def __init__(
        self, client: Client, find: Callable[[str], Conversation | None], budget: Budget
    ) -> None:
        self._client = client
        self._find = find
        self._recall = TurnRecall(budget)

    def __call__(self, state: HasMessages, config: RunnableConfig) -> dict[str, str]:
        """Return the text for the newest turn of a state."""
        turn = newest_turn(state["messages"], lambda it: it.type == "human", lambda it: it.text)
        thread = _thread(config)
        find = partial(self._find, thread)
        return {"recalled": self._recall.text(self._client, thread, turn, find)}


class _View:
    """The messages of a state beside those that are kept."""

    def __init__(self, versions: dict[int, BaseMessage], messages: Sequence[BaseMessage]) -> None:
        """Compare a state with the newest version of each kept message, by sequence. Without
        versions the marks in the state say what was edited.
        """
        self.versions = versions
        self.new: list[BaseMessage] = []
        """Messages that are not kept yet."""
        self.marked: dict[int, BaseMessage] = {}
        """Those that are."""
        self.edited: dict[int, BaseMessage] = {}
        ids = {it.id: sequence for sequence, it in versions.items() if it.id}
        for it in messages:
            sequence = it.response_metadata.get(MARK)
            if sequence is None and it.id in ids:  # put in the place of a kept one
                sequence = ids[it.id]
                if _digest(it) != _digest(versions[sequence]):
                    self.edited[sequence] = it
            elif sequence and _digest(it) != _state(it).get("digest", _digest(it)):
                self.edited[sequence] = it
            if sequence is None:
                self.new.append(it)
            elif sequence:
                self.marked[sequence] = it
        before = _seen(messages)
        self.removed = [it for it in versions if it in before and it not in self.marked]
        """Sequences of messages that the state had and has no more."""
        self.current = {
            sequence: self.edited.get(sequence, it)
            for sequence, it in versions.items()
            if sequence not in self.removed
        }
        """Those to go on with, edited ones as the state has them."""


def _versions(messages: Sequence[Message]) -> dict[int, BaseMessage]:
    """Return the newest version of each message, by the sequence of its first one."""
    files = Files(messages)
    newest: dict[int, Message] = {}
    removed: set[int] = set()
    for message in sorted(messages, key=lambda it: it.sequence):
        change = message.metadata.get(_CHANGE)
        if not isinstance(change, str):
            continue
        read = json.loads(change)
        removed |= _sequences(read.get("removes", ""))
        if "replaces" in read:
            newest[read["replaces"]] = message
    result = {}
    for message in messages:
        if is_part(message) or _CHANGE in message.metadata:
            continue
        if message.sequence not in removed:
            it = langchain_message(newest.get(message.sequence, message), files)
            # Without an id it could not be edited.
            it.id = it.id or f"recollect-{message.sequence}"
            result[message.sequence] = it
    return result


def _replacement(sequence: int, it: BaseMessage) -> list[Message]:
    """Return the messages that replace a kept one. They are no call and no result: the first one
    was.
    """
    message, *parts = messages_of(_unmarked(it))
    metadata = {**message.metadata, _CHANGE: json.dumps({"replaces": sequence})}
    if isinstance(it, HumanMessage):
        return [replace(message, metadata=metadata), *parts]
    bare = Message.assistant(
        message.content or "[message]",
        thinking_text=message.thinking_text,
        sender="tool" if isinstance(it, ToolMessage) else "",
        metadata=metadata,
    )
    return [bare, *parts]


def _removal(sequences: Iterable[int]) -> Message:
    """Return the message that takes kept ones away: the transcript only grows."""
    change = json.dumps({"removes": _ranges(sequences)})
    return Message.assistant("[removed]", metadata={_CHANGE: change})


def _marked(it: BaseMessage, sequence: int | None, **state: str) -> BaseMessage:
    marks: dict[str, Any] = {} if sequence is None else {MARK: sequence}
    if state:
        marks[STATE] = state
    return it.model_copy(update={"response_metadata": it.response_metadata | marks})


def _unmarked(it: BaseMessage) -> BaseMessage:
    rest = {key: it.response_metadata[key] for key in it.response_metadata if key not in _MARKS}
    return it.model_copy(update={"response_metadata": rest})


def _state(it: BaseMessage) -> dict[str, str]:
    state: dict[str, str] = it.response_metadata.get(STATE, {})
    return state


def _seen(messages: Iterable[BaseMessage]) -> set[int]:
    """Return the sequences of all messages that the state had when it was marked."""
    return {
        sequence
        for text in {_state(it).get("seen", "") for it in messages}
        for sequence in _sequences(text)
    }


def _misses_any(messages: Sequence[BaseMessage]) -> bool:
    """Return whether the state had messages that it has no more."""
    return bool(_seen(messages) - {it.response_metadata.get(MARK) for it in messages})


def _digest(it: BaseMessage) -> str:
    """Return a digest of what a message says, by which an edit is noticed."""
    calls = it.tool_calls if isinstance(it, AIMessage) else []
    text = json.dumps([it.type, it.content, it.name, calls], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _ranges(sequences: Iterable[int]) -> str:
    """Return numbers as text, as `2-5,8`."""
    runs: list[list[int]] = []
    for it in sorted(sequences):
        if runs and it == runs[-1][1] + 1:
            runs[-1][1] = it
        else:
            runs.append([it, it])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def _sequences(ranges: str) -> set[int]:
    result: set[int] = set()
    for run in filter(None, ranges.split(",")):
        first, _, last = run.partition("-")
        result.update(range(int(first), int(last or first) + 1))
    return result


def _is_plain(messages: Sequence[BaseMessage]) -> bool:
    """Return whether the state's messages have no reducer: `add_messages` gives each an id."""
    return any(it.id is None for it in messages)


def _identity(new: Sequence[BaseMessage], view: _View, config: RunnableConfig) -> list[Any]:
    """Return what tells a repeat of the node from another run."""
    identity: list[Any] = [it.id for it in new]
    if None in identity:
        task = config.get("metadata", {}).get("langgraph_checkpoint_ns") or uuid4().hex
        identity += [task, *map(_digest, new)]
    if view.edited or view.removed:
        edits = [(sequence, _digest(it)) for sequence, it in view.edited.items()]
        identity += [edits, _ranges(view.removed)]
    return identity


def _thread(config: RunnableConfig) -> str:
    thread = config.get("configurable", {}).get("thread_id")
    if not thread:
        raise ValueError('a thread has an id: {"configurable": {"thread_id": "…"}}')
    return str(thread)
