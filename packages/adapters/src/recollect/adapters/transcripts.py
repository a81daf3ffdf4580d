"""The messages of another toolkit as a conversation: they come back exactly and in their order.

What the thin adapters share (`claude_agent`, `google_adk`, `llama_index` …): each says which texts
of a message are words, and this keeps them, with files apart (`files`), lines that take messages
back, and one that takes back all before it (`items`).
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Concatenate, ParamSpec, TypeVar

from recollect import (
    AnchorDisposition,
    ArchiveFilter,
    Client,
    Conversation,
    InvalidArgument,
    Message,
    NotFound,
    Party,
    Role,
    ToolCall,
)
from recollect._shared.file_parts import PART, is_part
from recollect._shared.history import read_history
from recollect.adapters.clients import blocking
from recollect.adapters.files import Files, batches, digest_of, parts_behind
from recollect.adapters.items import (
    cleared,
    is_clearing,
    taken_back,
    what_it_takes_back,
    without_call,
)
from recollect.adapters.packing import (
    CONTENT,
    FILES,
    THINKING,
    Packed,
    Path,
    is_long,
    request_id,
    unpacked,
)

_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")

_AT_HAND = 1024  # transcripts of a store
_ARCHIVED = -1
"""In the place of an item's index: the line archives its message."""
_REPLACES = "recollectReplaces"
"""In the metadata of a message: the sequence of the one in whose place it stands."""


@dataclass(frozen=True, kw_only=True)
class Words:
    """The parts of a toolkit's message that Recollect understands."""

    role: Role
    texts: Sequence[Path] = ()
    """Places of its words."""
    thinking: Sequence[Path] = ()
    calls: Sequence[ToolCall] = ()
    answers: str = ""
    """Id of the call whose result it is."""
    kind: str = "message"
    """Shown where it has no words."""
    sender: str = ""
    overflow: str = ""
    """The place of its other long texts (`packing`). Empty means with its words or its thinking.
    With `FILES` its words go there too if they are too long for a message.
    """
    timestamp: datetime | None = None
    """The time at which it was said. None means when it is stored."""
    is_hidden: bool = False
    """True for what only the toolkit reads: it is stored as a part of a file is."""


@dataclass
class Kept:
    """A message that is kept, with its place."""

    sequence: int
    """That of the message itself, or of the first one in its place."""
    item: Any
    is_archived: bool = False
    """True if its program no longer goes on with it."""


class Transcript:
    """The conversation of a channel that has this party. Safe to use from many threads.

    It asks for its conversation once, and again only if that was deleted: keep it.
    """

    def __init__(self, client: Client, channel: str, party: Party, key: str) -> None:
        """Keep messages of the toolkit whose metadata is under this key."""
        self._calls = blocking(client).conversations
        self._channel = channel
        self._party = party
        self._key = key
        self._id = ""  # of the conversation, once it is known

    def find(self) -> Conversation | None:
        """Return the conversation; None before it begins."""
        conversations = self._calls.list(
            channels=[self._channel], party=self._party, archived=ArchiveFilter.ALL
        )
        # A party without a field, as that of an empty id, matches those that have one.
        own = [it for it in conversations if _names(it.party) == _names(self._party)]
        oldest = min(own, key=lambda it: it.create_time, default=None)
        self._id = oldest.id if oldest is not None else ""
        return oldest

    def begin(self) -> Conversation:
        """Return the conversation, which begins if it is not there. Concurrent callers get the same
        one.
        """
        place = self._channel, self._party.group_id, self._party.thread_id
        conversation = self.find() or self._calls.create(
            self._channel, party=self._party, request_id=request_id("transcript", *place)
        )
        self._id = conversation.id
        return conversation

    def delete(self) -> bool:
        """Delete the conversation for good, with the anchors of it. Return whether it was there."""
        conversation = self.find()
        if conversation is not None:
            self._calls.delete(conversation.id, anchors=AnchorDisposition.DELETE, force=True)
        return conversation is not None

    def add(
        self,
        items: Iterable[tuple[Any, Words]],
        *,
        replaces: bool = False,
        request_id: str | None = None,
    ) -> Conversation | None:
        """Add messages, all or none up to 6 MiB, and return the conversation as it is then. With
        `replaces` they take the place of all earlier ones.
        """
        added = [self._packed(item, words) for item, words in items]
        groups = [[cleared()]] * (replaces and self.find() is not None) + added
        conversation: Conversation | None = None
        for number, batch in enumerate(batches(groups)):
            own_id = request_id and (f"{request_id}-{number}" if number else request_id)
            if conversation is None:
                conversation = self._on(self.begin, self._append, batch, own_id)
            else:
                conversation = self._append(conversation.id, batch, own_id)
        return conversation

    def take_back(self, sequences: Iterable[int], *, archives: bool = False) -> None:
        """Take messages back, which stay in the transcript and are found; or only archive them."""
        lines = [[taken_back(it, _ARCHIVED if archives else 0)] for it in sequences]
        for batch in batches(lines):
            self._on(self.begin, self._append, batch, None)

    def replace(self, sequence: int, item: Any, words: Words) -> None:
        """Put a message in the place of another one, whose text and files are then removed for
        good. Its token needs the scope to delete.
        """
        group = self._packed(item, words)
        group[0].metadata[_REPLACES] = sequence
        self._on(self.find, self._replace, sequence, group)

    def read(self, *, latest: int | None = None, archived: bool = False) -> list[Kept]:
        """Return the messages, oldest first, but for those that were taken back, and unless
        `archived` is true those that were archived; or the latest so many.
        """
        return self.load(latest=latest, archived=archived)[1]

    def load(
        self, *, latest: int | None = None, archived: bool = False
    ) -> tuple[Conversation | None, list[Kept]]:
        """Return the messages as `read` does, at least one, with the conversation as it is then;
        None before it begins.
        """
        return self._on(self.find, self._read, latest, archived) or (None, [])

    def _on(
        self,
        find: Callable[[], Conversation | None],
        act: Callable[Concatenate[str, _Arguments], _Answer],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> _Answer | None:
        """Act on the conversation by its id: the known one, else the one that is found. None if
        there is none.
        """
        if self._id:
            try:
                return act(self._id, *args, **kwargs)
            except NotFound:
                self._id = ""
        conversation = find()
        return None if conversation is None else act(conversation.id, *args, **kwargs)

    def _replace(self, conversation_id: str, sequence: int, group: list[Message]) -> None:
        messages = read_history(self._calls.load, conversation_id).messages
        # It is stored before the other one goes: a kill between the two loses nothing.
        for batch in batches([group]):
            self._append(conversation_id, batch, None)
        for it in messages:
            shape = it.metadata.get(self._key)
            if isinstance(shape, str) and _place(it) == sequence:
                parts = parts_behind(it.sequence, json.loads(shape).get("files", ""), messages)
                for message in (*parts, it):
                    self._calls.redact_message(conversation_id, message.sequence)

    def _read(
        self, conversation_id: str, latest: int | None, archived: bool
    ) -> tuple[Conversation | None, list[Kept]]:
        if latest is None:
            history = read_history(self._calls.load, conversation_id)
            rows = self._kept(history.messages)
            return history.conversation, [it for it in rows if archived or not it.is_archived]
        history = read_history(
            self._calls.load,
            conversation_id,
            turns=latest,
            enough=lambda it: len(self._kept(it.messages)) >= latest,
        )
        return history.conversation, self._kept(history.messages)[-latest:]

    def _kept(self, messages: Sequence[Message]) -> list[Kept]:
        start = max((at + 1 for at, it in enumerate(messages) if is_clearing(it)), default=0)
        messages = messages[start:]
        places = [place for it in messages if (place := what_it_takes_back(it))]
        removed = {sequence for sequence, index in places if index != _ARCHIVED}
        archived = {sequence for sequence, index in places if index == _ARCHIVED}
        files = Files(messages)
        by_place: dict[int, Kept] = {}
        for it in messages:
            own = _place(it)
            if own not in removed and (item := self._original(it, files)) is not None:
                by_place[own] = Kept(own, item, own in archived)
        return [*by_place.values()]

    def _original(self, it: Message, files: Files) -> Any:
        """Return the toolkit's message. Another program's is a `Message`; None is for a line that
        is none.
        """
        shape = it.metadata.get(self._key)
        if isinstance(shape, str):
            words = {CONTENT: it.content, THINKING: it.thinking_text}
            original = unpacked(shape, words, files)
            if original is not None:
                return original
        return None if is_part(it) or what_it_takes_back(it) else it

    def _packed(self, item: Any, words: Words) -> list[Message]:
        overflow = words.overflow or (THINKING if words.role is Role.ASSISTANT else CONTENT)
        places = [
            *((CONTENT, it) for it in words.texts),
            *((THINKING, it) for it in words.thinking),
        ]
        if overflow == FILES and is_long(item, [path for _, path in places]):
            places = []  # its kind stands for it
        packed = Packed(item, places, overflow)
        content, thinking = packed.words(CONTENT), packed.words(THINKING)
        metadata = {self._key: packed.shape}
        if words.is_hidden:
            metadata[PART] = json.dumps([digest_of(packed.shape), 0, 1])
            first = Message.assistant(thinking_text=f"[{words.kind}]", metadata=metadata)
        elif words.role is Role.USER:
            first = Message.user(
                content or f"[{words.kind}]", sender=words.sender, metadata=metadata
            )
        elif words.role is Role.TOOL:
            first = Message.tool(content, tool_call_id=words.answers, metadata=metadata)
        else:
            first = Message.assistant(
                content or ("" if thinking or words.calls else f"[{words.kind}]"),
                thinking_text=thinking,
                tool_calls=list(words.calls),
                sender=words.sender,
                metadata=metadata,
            )
        return [replace(it, timestamp=words.timestamp) for it in (first, *packed.parts())]

    def _append(
        self, conversation_id: str, batch: list[Message], request_id: str | None
    ) -> Conversation:
        orphans: set[int] = set()
        while True:
            try:
                stored = self._calls.append_turn(conversation_id, batch, request_id=request_id)
            except InvalidArgument as error:
                more = without_call(error) - orphans  # which are kept, but as words alone
                if not more:
                    raise
                orphans |= more
                for at in more:
                    batch[at] = Message.assistant(
                        batch[at].content or "[call]",
                        thinking_text=batch[at].thinking_text,
                        sender="tool" if batch[at].role is Role.TOOL else "",
                        metadata=batch[at].metadata,
                        timestamp=batch[at].timestamp,
                    )
            else:
                return stored.conversation


def _place(it: Message) -> int:
    return int(it.metadata.get(_REPLACES, it.sequence))


def _names(party: Party | None) -> tuple[str, ...]:
    return (party.contact, party.group_id, party.thread_id) if party else ("", "", "")


def delete_all(client: Client, channel: str, group_id: str | None = None) -> None:
    """Delete every conversation of a channel, or of a group there, for good."""
    calls = client.conversations
    party = Party(group_id=group_id) if group_id else None
    listed = [*calls.list(channels=[channel], party=party, archived=ArchiveFilter.ALL)]
    for it in listed:
        if group_id is None or _names(it.party)[1] == group_id:
            calls.delete(it.id, anchors=AnchorDisposition.DELETE, force=True)


def transcripts(client: Client, channel: str, key: str) -> Callable[[Party], Transcript]:
    """Return what opens the transcript of a party; the latest ones are kept."""
    blocking(client)
    return lru_cache(_AT_HAND)(lambda party: Transcript(client, channel, party, key))
