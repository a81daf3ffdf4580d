"""A cache of the newest turns of conversations, which a context is built from first.

A conversation enters it when a context is built for it, and its appends are added. An entry knows
its last line and a reader says how many lines the transcript has, so a stale entry is never used.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from recollect_server.kernel.domain.message import Message, reading_order
from recollect_server.kernel.space.events import Appended, Reloaded, Resting

_MAX_CONVERSATIONS = 4096
_MAX_BYTES = 64 << 20  # of all entries together
_MAX_ENTRY = 256 << 10  # bytes; the turns of a larger one are read from the disk each time


@dataclass(slots=True)
class _Entry:
    lines: int
    messages: list[Message]
    size: int


class RecentTurns:
    """The cache of a space. Safe to call from any thread; a conversation's methods are called under
    its lock.
    """

    def __init__(self, turns: int, most: int = _MAX_CONVERSATIONS) -> None:
        """Keep the last `turns` turns of at most `most` conversations."""
        self._most = most
        self._turns = turns
        # guards the order and the total; nothing slow happens under it
        self._guard = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0

    def get(self, conversation_id: str, lines: int) -> list[Message] | None:
        """Return the messages of the newest turns, oldest first, of a transcript of `lines` lines;
        None if not cached.
        """
        with self._guard:
            entry = self._entries.get(conversation_id)
            if entry is None or entry.lines != lines:
                return None
            self._entries.move_to_end(conversation_id)
            return list(entry.messages)

    def put(self, conversation_id: str, lines: int, messages: list[Message]) -> None:
        """Cache the messages of the newest turns of a transcript of `lines` lines."""
        entry = _Entry(lines, list(messages), sum(map(_size, messages)))
        with self._guard:
            self._drop(conversation_id)
            if entry.size > _MAX_ENTRY:
                return
            self._entries[conversation_id] = entry
            self._bytes += entry.size
            while len(self._entries) > self._most or self._bytes > _MAX_BYTES:
                self._drop(next(iter(self._entries)))

    def follow(self, event: Appended) -> None:
        """Add appended lines. A conversation that is not cached costs one dictionary lookup."""
        conversation_id, lines = event.conversation_id, event.lines
        if conversation_id not in self._entries:
            return
        with self._guard:
            entry = self._entries.get(conversation_id)
            if entry is None:
                return
            new = [
                line.entry.content
                for line in lines
                if line.entry and isinstance(line.entry.content, Message)
            ]
            grown = sorted(entry.messages + new, key=reading_order) if new else entry.messages
            after = grown[-1].turn_number - self._turns if grown else 0
            messages = (
                [message for message in grown if message.turn_number > after]
                if new
                else entry.messages
            )
            size = sum(map(_size, messages)) if new else entry.size
            if entry.lines != lines[0].sequence - 1 or size > _MAX_ENTRY:
                self._drop(conversation_id)
                return
            self._bytes += size - entry.size
            self._entries[conversation_id] = _Entry(lines[-1].sequence, messages, size)

    def forget(self, event: Reloaded) -> None:
        """Drop a conversation, whose file changed or is gone."""
        with self._guard:
            self._drop(event.conversation_id)

    def clear(self, _: Resting) -> None:
        """Drop every conversation."""
        with self._guard:
            self._entries.clear()
            self._bytes = 0

    def _drop(self, conversation_id: str) -> None:
        if entry := self._entries.pop(conversation_id, None):
            self._bytes -= entry.size


def _size(message: Message) -> int:
    arguments = sum(len(call.arguments) for call in message.tool_calls)
    return 500 + len(message.content) + len(message.thinking_text) + arguments
