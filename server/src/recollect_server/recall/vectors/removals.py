"""Removals: which texts went when, so that no vector that was computed for one meanwhile is kept.

A caller that computes vectors notes when the texts were read, and gives that with them. A
conversation that is begun again with its id is another one, so what went before that moment says
nothing of it.
"""

import threading
from collections.abc import Collection


class VectorRemovals:
    """The removals from one file since it was opened. Safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moment = 0
        self._conversations: dict[str, int] = {}
        """The moments at which conversations were deleted or unindexed."""
        self._lines: dict[tuple[str, int], int] = {}
        """The moments at which messages were redacted."""

    def note(self, conversation_id: str, lines: Collection[int] | None = None) -> None:
        """Note that a conversation is removed, or only some lines of it."""
        with self._lock:
            self._moment += 1
            if lines is None:
                self._conversations[conversation_id] = self._moment
            else:
                own = ((conversation_id, line) for line in lines)
                self._lines.update(dict.fromkeys(own, self._moment))

    def is_gone(self, conversation_id: str, line: int | None, read_at: int) -> bool:
        """Return whether a text that was read at a moment is removed since; None for the line:
        whether the conversation is.
        """
        with self._lock:
            return self._conversations.get(conversation_id, 0) > read_at or (
                line is not None and self._lines.get((conversation_id, line), 0) > read_at
            )

    def after(self, moment: int, oldest: int) -> tuple[list[str], int]:
        """Return the conversations that were removed after a moment, or lines of them, and the
        present moment.

        Forget the removals up to `oldest`: no text that was read before is still at work.
        """
        with self._lock:
            names = {name for name, at in self._conversations.items() if at > moment}
            names |= {name for (name, _), at in self._lines.items() if at > moment}
            if oldest < self._moment:
                self._conversations = {k: v for k, v in self._conversations.items() if v > oldest}
                self._lines = {k: v for k, v in self._lines.items() if v > oldest}
            return sorted(names), self._moment
