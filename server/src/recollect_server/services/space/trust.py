"""Trust in an index that may be wrong, and requests that are known without it."""

import threading
from collections import OrderedDict
from collections.abc import Iterable

import structlog

from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.store import LogStore, LogUnavailable, Position

log = structlog.get_logger("recollect.space")

_TAIL = 16 << 10  # bytes at a transcript's end that are read for its last requests
_EACH = 8  # requests kept of one conversation
_MOST = 4096  # conversations


class Suspects:
    """Conversations that the index must be compared with before it is believed. Safe to call from
    any thread.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards everything below
        self._waiting: dict[str, None] = {}
        self.reason = ""
        """Reason why the index is not trusted yet; empty if it is."""

    def begin(self, conversation_ids: Iterable[str], reason: str) -> None:
        """Begin with these conversations, none of which anybody reads yet."""
        with self._guard:
            self._waiting = dict.fromkeys(conversation_ids)
            self.reason = reason if self._waiting else ""

    def has(self, conversation_id: str) -> bool:
        """Return whether a conversation waits for its comparison."""
        return conversation_id in self._waiting

    def waiting(self) -> list[str]:
        """Return those that wait."""
        with self._guard:
            return list(self._waiting)

    def clear(self, conversation_id: str) -> None:
        """The index is right about a conversation, or the conversation is gone."""
        with self._guard:
            self._waiting.pop(conversation_id, None)

    def end(self) -> None:
        """The index is believed, or another one is used."""
        with self._guard:
            self._waiting.clear()
            self.reason = ""


class RecentRequests:
    """The last requests of conversations, as their transcripts have them: known whatever the index
    says.

    A conversation's are read from its transcript's end when the first request asks for one, and
    follow its appends. What concerns one conversation is called under its lock.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards `_requests`; nothing slow happens under it
        # hash, first and last line by id
        self._requests: OrderedDict[str, OrderedDict[str, tuple[str, int, int]]] = OrderedDict()

    def has(self, conversation_id: str) -> bool:
        """Return whether a conversation's are kept."""
        return conversation_id in self._requests

    def read(self, logs: LogStore, conversation_id: str, end: Position) -> None:
        """Keep the last requests of a transcript that ends there, unless it cannot be read."""
        try:
            self.begin(conversation_id, logs.read_last(conversation_id, end, _TAIL))
        except LogUnavailable as error:
            log.warning("last_requests_not_read", conversation=conversation_id, reason=error.reason)

    def begin(self, conversation_id: str, lines: list[Line]) -> None:
        """Keep the requests of a conversation's last lines from here on."""
        with self._guard:
            self._requests[conversation_id] = OrderedDict()
            while len(self._requests) > _MOST:
                self._requests.popitem(last=False)
        self.follow(conversation_id, lines)

    def find(self, conversation_id: str, request_id: str) -> KnownRequest | None:
        """Return one of the requests that are kept of a conversation, or None."""
        requests = self._requests.get(conversation_id)
        if requests is None or request_id not in requests:
            return None
        value, first, last = requests[request_id]
        return KnownRequest(request_id, value, conversation_id, first, last)

    def follow(self, conversation_id: str, lines: list[Line]) -> None:
        """Add the requests of lines that were appended. One look into a dictionary where none are
        kept.
        """
        requests = self._requests.get(conversation_id)
        if requests is None:
            return
        for line in lines:
            if line.entry is None or not line.entry.stamp.request_id:
                continue
            stamp = line.entry.stamp
            index, count = stamp.batch
            # at the last line of a batch all of it is known, though its first line may lie before
            # the tail
            if index == count:
                requests[stamp.request_id] = (
                    stamp.request_hash,
                    line.sequence - count + 1,
                    line.sequence,
                )
        while len(requests) > _EACH:
            requests.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """The conversation's file changed or went."""
        with self._guard:
            self._requests.pop(conversation_id, None)
