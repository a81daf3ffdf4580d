"""A cache of the newest turns of conversations, which a context is built from first.

A conversation enters it when a context is built for it, and its appends are added. An entry knows its
last line and a reader says how many lines the transcript has, so a stale entry is never used.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from recollect_server.domain.message import Message, reading_order
from recollect_server.domain.packing import HOT_TURNS
from recollect_server.storage.logs.lines import Line

_MAX_CONVERSATIONS = 4096
_MAX_BYTES = 64 << 20  # of all entries together
_MAX_ENTRY = 256 << 10  # bytes; the turns of a larger one are read from the disk each time


@dataclass(slots=True)
class _Entry:
    lines: int
    messages: list[Message]
    size: int


class RecentTurns:
    """The cache of a space. Safe to call from any thread; a conversation's methods are called under its lock."""

    def __init__(self, most: int = _MAX_CONVERSATIONS, turns: int = HOT_TURNS) -> None:
        """Keep the last `turns` turns of at most `most` conversations."""
        self.evicted: Callable[[str], None] = _nobody
        """Called with each conversation that made room for another."""
        self._most = most
        self._turns = turns
        self._guard = threading.Lock()  # guards the order and the total; nothing slow happens under it
        self._tails: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0

    def get(self, conversation_id: str, lines: int) -> list[Message] | None:
        """Return the messages of the newest turns, oldest first, of a transcript of `lines` lines; None if not cached."""
        with self._guard:
            tail = self._tails.get(conversation_id)
            if tail is None or tail.lines != lines:
                return None
            self._tails.move_to_end(conversation_id)
            return list(tail.messages)

    def put(self, conversation_id: str, lines: int, messages: list[Message]) -> None:
        """Cache the messages of the newest turns of a transcript of `lines` lines."""
        tail = _Entry(lines, list(messages), sum(map(_size, messages)))
        gone: list[str] = []
        with self._guard:
            self._drop(conversation_id)
            if tail.size > _MAX_ENTRY:
                return
            self._tails[conversation_id] = tail
            self._bytes += tail.size
            while len(self._tails) > self._most or self._bytes > _MAX_BYTES:
                gone.append(next(iter(self._tails)))
                self._drop(gone[-1])
        for name in gone:
            self.evicted(name)

    def follow(self, conversation_id: str, lines: list[Line]) -> None:
        """Add appended lines. A conversation that is not cached costs one dictionary lookup."""
        if conversation_id not in self._tails:
            return
        with self._guard:
            tail = self._tails.get(conversation_id)
            if tail is None:
                return
            new = [line.entry.content for line in lines if line.entry and isinstance(line.entry.content, Message)]
            grown = sorted(tail.messages + new, key=reading_order) if new else tail.messages
            after = grown[-1].turn_number - self._turns if grown else 0
            messages = [message for message in grown if message.turn_number > after] if new else tail.messages
            size = sum(map(_size, messages)) if new else tail.size
            if tail.lines != lines[0].sequence - 1 or size > _MAX_ENTRY:
                self._drop(conversation_id)
                return
            self._bytes += size - tail.size
            self._tails[conversation_id] = _Entry(lines[-1].sequence, messages, size)

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation, whose file changed or is gone."""
        with self._guard:
            self._drop(conversation_id)

    def _drop(self, conversation_id: str) -> None:
        if tail := self._tails.pop(conversation_id, None):
            self._bytes -= tail.size


def _size(message: Message) -> int:
    arguments = sum(len(call.arguments) for call in message.tool_calls)
    return 500 + len(message.content) + len(message.thinking_text) + arguments


def _nobody(_: str) -> None:
    """Nobody is to be told."""
