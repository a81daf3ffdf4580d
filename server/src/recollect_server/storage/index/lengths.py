"""Lengths of all conversations, in memory: BM25 needs them for each search. 8 bytes a
conversation.
"""

import threading

import apsw
import numpy as np
from numpy.typing import NDArray


class Lengths:
    """Bytes of text by conversation number, kept beside the table by who writes it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._guard = threading.Lock()  # guards everything below; only arithmetic happens under it
        rows: list[tuple[int, int]] = connection.execute(
            "SELECT number, text_bytes FROM conversations"
        ).fetchall()  # type: ignore[assignment]  # the table's types
        self._lengths = np.full(1 + max((row[0] for row in rows), default=0), -1, dtype=np.int64)
        for number, length in rows:
            self._lengths[number] = length
        self._conversations = len(rows)
        self._bytes = sum(row[1] for row in rows)
        self.messages = int(
            connection.execute("SELECT coalesce(sum(message_count), 0) FROM conversations").get
        )

    def read(self) -> tuple[NDArray[np.int64], int, float]:
        """Lengths by number (of a number that is free: anything), how many conversations there are,
        and their mean length.
        """
        with self._guard:
            return self._lengths, self._conversations, self._bytes / max(self._conversations, 1)

    def set(self, number: int, length: int, messages: int) -> None:
        """A conversation has this length now, with so many more messages."""
        with self._guard:
            if number >= len(self._lengths):
                self._lengths = np.concatenate(
                    [self._lengths, np.full(number + 1024, -1, dtype=np.int64)]
                )
            before = int(self._lengths[number])
            self._conversations += before < 0
            self._bytes += length - max(before, 0)
            self._lengths[number] = length
            self.messages += messages

    def remove(self, number: int) -> None:
        """A conversation is gone. Its messages are counted down as they go."""
        with self._guard:
            self._conversations -= 1
            self._bytes -= int(self._lengths[number])
            self._lengths[number] = -1

    def count(self, messages: int) -> None:
        """So many messages more."""
        with self._guard:
            self.messages += messages
