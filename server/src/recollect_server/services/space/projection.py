"""The projection of a space's logs: the index that is used now, and how far it can be believed.

An index may be replaced by one that was made anew. It may lack lines that it refused (the overlay
knows which conversations those are of), and one that no server closed is believed only after it was
compared with the transcripts (`Suspects`).
"""

import threading
from collections.abc import Collection, Mapping
from contextlib import suppress

import structlog

from recollect_server.domain.errors import IndexUnavailable
from recollect_server.domain.ids import is_communication_id
from recollect_server.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.domain.text import counted
from recollect_server.services.space.overlay import Overlay
from recollect_server.storage.index.index import Index

log = structlog.get_logger("recollect.space")


_UNVERIFIED = "the index was not closed, and is being compared with the transcripts"
_REQUESTS_UNVERIFIED = f"{_UNVERIFIED}: repeat the call with the same request_id"


class Suspects:
    """Conversations and communications that the index must be compared with before it is believed.
    Safe to call from any thread.
    """

    def __init__(self, conversation_ids: Mapping[str, bool] | None) -> None:
        """Begin with these logs, none of which anybody reads yet, each with whether the index is
        known to have its requests; None if the index is trusted.
        """
        self._guard = threading.Lock()  # guards everything below
        self._waiting = dict(conversation_ids or {})
        self._unread = {name for name, has_requests in self._waiting.items() if not has_requests}
        self._communications = {it for it in self._waiting if is_communication_id(it)}
        self.reason = "" if conversation_ids is None else _UNVERIFIED
        """Reason why the index is not trusted yet; empty if it is."""

    @property
    def reason_of_requests(self) -> str:
        """Return why the index may not know a request that a conversation has; empty if it knows
        all.
        """
        return _REQUESTS_UNVERIFIED if self._unread else ""

    @property
    def reason_of_communications(self) -> str:
        """Return why nothing is known of third parties yet; empty once the index was compared with
        all that they said.
        """
        return _UNVERIFIED if self._communications else ""

    def has(self, conversation_id: str) -> bool:
        """Return True if a conversation waits for its comparison."""
        return conversation_id in self._waiting

    def waiting(self) -> dict[str, bool]:
        """Return those that wait, each with whether the index is known to have its requests."""
        with self._guard:
            return {name: name not in self._unread for name in self._waiting}

    def note_requests(self, conversation_ids: Collection[str]) -> None:
        """Note that the index has the requests of these."""
        with self._guard:
            self._unread.difference_update(conversation_ids)

    def clear(self, conversation_id: str) -> None:
        """Note that the index is right about a conversation, or that it is deleted."""
        with self._guard:
            self._waiting.pop(conversation_id, None)
            self._unread.discard(conversation_id)
            self._communications.discard(conversation_id)

    def end(self) -> None:
        """Note that the index is believed, or that another one is used."""
        with self._guard:
            self._waiting.clear()
            self._unread.clear()
            self._communications.clear()
            self.reason = ""


class Projection:
    """The index of a space, with what it lacks. Safe to call from any thread."""

    def __init__(
        self,
        index: Index,
        unverified: Mapping[str, bool] | None = None,
        telemetry: Telemetry = UNMEASURED,
    ) -> None:
        """`unverified` conversations are compared with the index before it is believed (see
        `Suspects`).
        """
        self.index = index
        """The index that is used now."""
        self.overlay = Overlay()
        self.suspects = Suspects(unverified)
        self._telemetry = telemetry
        index.writer.telemetry = telemetry
        self._retired: list[Index] = []  # closed at the end: somebody may still read them

    @property
    def doubt(self) -> str:
        """Return why the index may lack something of what is stored; empty if it has everything."""
        if reason := self.suspects.reason:
            return reason
        if not (count := len(self.overlay.lagging())):
            return ""
        return f"the newest messages of {counted(count, 'conversation')} are not indexed yet"

    def replace(self, index: Index) -> None:
        """Use another index, which was made from the logs. Nobody may write meanwhile."""
        self._retired.append(self.index)
        index.writer.telemetry = self._telemetry
        self.index = index
        self.suspects.end()

    def give_up(self, reason: str) -> None:
        """Stop using the index at once: it contradicts the logs and is to be made anew."""
        index = self.index
        with suppress(IndexUnavailable):
            index.want_rebuild(reason)
        if index.give_up(reason):
            log.error("index_damaged", reason=reason)

    @property
    def may_rest(self) -> bool:
        """Return whether the index has everything and is known to be right."""
        return not (self.doubt or self._retired or self.index.lost())

    def close(self) -> None:
        """Close the index, and those used before it. No call may be under way. The next start
        compares what this server did not.
        """
        sound = not self.index.lost()
        for index in self._retired:
            index.close()
        self.index.close(
            sound=sound, suspects=self.suspects.waiting() if self.suspects.reason else None
        )
