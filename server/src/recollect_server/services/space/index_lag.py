"""The lag of the index: conversations with lines that it refused, and the requests of those lines."""

import threading

import structlog

from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.logs.lines import Line

log = structlog.get_logger("recollect.index")


class IndexLag:
    """The conversations whose transcripts have lines that the index lacks. Safe to call from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards everything below
        self._requests: dict[str, KnownRequest] = {}
        self._conversations: dict[str, None] = {}
        self.reason = ""
        """The reason the index gave; empty if it lacks nothing."""

    def request(self, request_id: str) -> KnownRequest | None:
        """Return a request whose lines the index lacks, or None."""
        return self._requests.get(request_id)

    def has(self, conversation_id: str) -> bool:
        """Return True if the index lacks lines of a conversation."""
        return conversation_id in self._conversations

    def conversations(self) -> list[str]:
        """Return the conversations that the index lacks lines of."""
        with self._guard:
            return list(self._conversations)

    def add(self, conversation_id: str, lines: list[Line], reason: str) -> None:
        """Note that the index refused these lines. Log the first such conversation."""
        entry = lines[0].entry
        assert entry is not None
        with self._guard:
            first = not self._conversations
            self._conversations[conversation_id] = None
            self.reason = reason or self.reason
            if request_id := entry.stamp.request_id:
                self._requests[request_id] = KnownRequest(
                    request_id, entry.stamp.request_hash, conversation_id, lines[0].sequence, lines[-1].sequence
                )
        if first:
            log.error("index_behind", conversation=conversation_id, reason=reason)

    def note(self, conversation_id: str, reason: str) -> None:
        """Note that the index could not catch up with a conversation."""
        with self._guard:
            first = not self._conversations
            self._conversations[conversation_id] = None
            self.reason = reason
        if first:
            log.error("index_behind", conversation=conversation_id, reason=reason)

    def caught_up(self, conversation_id: str) -> None:
        """Note that the index has all of a conversation, or that the conversation is deleted."""
        with self._guard:
            if conversation_id not in self._conversations:
                return
            del self._conversations[conversation_id]
            for request_id in [r.request_id for r in self._requests.values() if r.conversation_id == conversation_id]:
                del self._requests[request_id]
            last = not self._conversations
            if last:
                self.reason = ""
        if last:
            log.warning("index_caught_up")
