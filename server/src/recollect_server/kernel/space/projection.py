"""The projection of a space's logs: the index that is used now, and how far it can be believed.

An index may be replaced by one that was made anew. It may lack lines that it refused (the overlay
knows which conversations those are of). One that no server closed is believed: it has what was
committed, and its start caught it up. It is compared with the logs all the same, for damage that is
nobody's crash, and is sealed once it was.
"""

import threading
from collections.abc import Hashable, Mapping
from itertools import count

import structlog

from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind, is_communication_id
from recollect_server.kernel.domain.telemetry import UNMEASURED, Telemetry
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import Line

log = structlog.get_logger("recollect.space")
index_log = structlog.get_logger("recollect.index")

_PRUNE = 1024  # facts added between two looks at what the index has taken in

Key = Hashable
"""Of a fact about conversations: what leads to them. A number may lead to several."""


@frozen
class _Fact:
    """Conversations that a key leads to. The index had got `puts` additions when it was noted."""

    conversations: tuple[str, ...]
    index: Index
    puts: int


class Overlay:
    """The overlay of a space's index: what is written, or waits to be written, and what the index
    may not have yet. Safe to call from any thread.

    A read that must see the newest writes asks here first and the index then, so nothing falls
    between. The overlay knows the logs that the index lacks lines of, requests by id, and facts of
    features about conversations, each by a key.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()  # guards everything below; nothing slow happens under it
        self._notices = count(1)
        self._lagging: dict[str, int] = {}
        self.is_lagging = self._lagging.__contains__
        """Returns True if the index lacks lines of a log."""
        self._refused: dict[str, KnownRequest] = {}
        self._pending: dict[str, KnownRequest] = {}
        self.held_because = ""
        """Reason that a transcript gave last for refusing messages."""
        self._facts: dict[Key, _Fact] = {}
        self._room = _PRUNE

    # Logs ---------------------------------------------------------------------------------------

    def lagging(self, kind: Kind = Kind.CONVERSATION) -> dict[str, int]:
        """Return the logs of a kind that the index lacks lines of, each with its last notice."""
        is_external = kind is Kind.COMMUNICATION
        with self._guard:
            return {
                name: notice
                for name, notice in self._lagging.items()
                if is_communication_id(name) == is_external
            }

    @property
    def is_any_lagging(self) -> bool:
        """Return whether the index lacks lines of a log, of whatever kind."""
        return bool(self._lagging)

    def note_lag(self, name: str, reason: str = "", refused: list[Line] | None = None) -> None:
        """Note that the index lacks lines of a log, with the request of those it refused.

        With a reason, logs the first such conversation.
        """
        with self._guard:
            is_first = reason and all(map(is_communication_id, self._lagging))
            self._lagging[name] = next(self._notices)
            if refused and refused[0].entry and (stamp := refused[0].entry.stamp).request_id:
                self._refused[stamp.request_id] = KnownRequest(
                    stamp.request_id,
                    stamp.request_hash,
                    name,
                    refused[0].sequence,
                    refused[-1].sequence,
                )
        if is_first:
            index_log.error("index_behind", conversation=name, reason=reason)

    def caught_up(self, name: str, notice: int | None = None) -> None:
        """Note that the index has all of a log, or that the log is deleted; with a `notice`, unless
        a later one came: it is about lines that may have come since.
        """
        with self._guard:
            if name not in self._lagging or notice not in (None, self._lagging[name]):
                return
            del self._lagging[name]
            self._refused = {
                it: record for it, record in self._refused.items() if record.conversation_id != name
            }
            is_last = not is_communication_id(name) and all(map(is_communication_id, self._lagging))
        if is_last:
            index_log.warning("index_caught_up")

    # Requests -----------------------------------------------------------------------------------

    def request(self, request_id: str) -> KnownRequest | None:
        """Return a request whose messages are pending, or whose lines the index refused."""
        return self._pending.get(request_id) or self._refused.get(request_id)

    def pending(self, request_id: str) -> KnownRequest | None:
        """Return a request whose messages are pending."""
        return self._pending.get(request_id)

    def add_pending(self, request: KnownRequest) -> None:
        """Note that a request's messages wait to be written."""
        self._pending[request.request_id] = request

    def drop_pending(self, request_id: str) -> None:
        """Note that a request's messages are written, or dropped."""
        self._pending.pop(request_id, None)

    # Facts --------------------------------------------------------------------------------------

    def add_facts(self, index: Index, facts: Mapping[Key, str]) -> None:
        """Note which conversation each key leads to. Call it after the lines are put into the
        index.

        A number leads to every conversation that has it, any other key to the last one only.
        """
        _, puts = index.taken()
        with self._guard:
            for key, conversation_id in facts.items():
                others = self.conversations_of(key) if isinstance(key, int) else ()
                if conversation_id not in others:
                    self._facts[key] = _Fact((*others, conversation_id), index, puts)
            if len(self._facts) > self._room:
                self._prune(index)

    def prune_facts(self, index: Index) -> None:
        """Drop the facts that the index has taken in: it may have later ones, which nobody noted
        here.
        """
        with self._guard:
            self._prune(index)

    def conversations_of(self, key: Key) -> tuple[str, ...]:
        """Return the conversations that a key leads to, as far as the index may not know."""
        fact = self._facts.get(key)
        return fact.conversations if fact else ()

    def forget(self, conversation_id: str) -> None:
        """Drop a conversation, which is deleted, and every fact about it."""
        self.caught_up(conversation_id)
        with self._guard:
            for key, fact in list(self._facts.items()):
                left = tuple(it for it in fact.conversations if it != conversation_id)
                if key == conversation_id or not left:
                    del self._facts[key]
                elif left != fact.conversations:
                    self._facts[key] = _Fact(left, fact.index, fact.puts)

    def _prune(self, index: Index) -> None:
        """Drop the facts that the index has taken in. One put into an index that was replaced waits
        once more.
        """
        taken, puts = index.taken()  # before the look at what was refused, which it tells first
        for key, fact in list(self._facts.items()):
            if any(it in self._lagging for it in fact.conversations):
                continue
            if fact.index is not index:
                self._facts[key] = _Fact(fact.conversations, index, puts)
            elif fact.puts <= taken:
                del self._facts[key]
        self._room = len(self._facts) + _PRUNE


class Projection:
    """The index of a space, with what it lacks. Safe to call from any thread."""

    def __init__(
        self,
        index: Index,
        telemetry: Telemetry = UNMEASURED,
        *,
        is_compared: bool = True,
    ) -> None:
        self.index = index
        """The index that is used now."""
        self.is_compared = is_compared
        """True if a server closed it, if it was made from the logs, or once it was compared with
        all of them.
        """
        self.overlay = Overlay()
        self._telemetry = telemetry
        index.writer.telemetry = telemetry
        self._retired: list[Index] = []  # closed at the end: somebody may still read them

    @property
    def doubt(self) -> str:
        """Return why the index may lack something of what is stored; empty if it has everything."""
        if not (count := len(self.overlay.lagging())):
            return ""
        return f"the newest messages of {counted(count, 'conversation')} are not indexed yet"

    def replace(self, index: Index) -> None:
        """Use another index, which was made from the logs. Nobody may write meanwhile."""
        self._retired.append(self.index)
        index.writer.telemetry = self._telemetry
        self.index = index
        self.is_compared = True

    def give_up(self, reason: str) -> None:
        """Stop using the index at once: it contradicts the logs and is to be made anew."""
        index = self.index  # another one may take its place while it waits for its writer
        index.condemn(reason)
        if index.give_up(reason):
            log.error("index_damaged", reason=reason)

    @property
    def may_rest(self) -> bool:
        """Return whether the index has everything and is known to be right."""
        is_behind = self.doubt or self.overlay.is_any_lagging
        return self.is_compared and not (is_behind or self._retired or self.index.lost())

    def abandon(self) -> None:
        """Let nobody wait for the index, nor for those used before it (see `Writer.abandon`)."""
        for index in (*self._retired, self.index):
            index.abandon()

    def close(self) -> None:
        """Close the index, and those used before it. No call may be under way. The next start
        compares one that this server did not compare to the end.
        """
        is_sound = self.is_compared and not self.index.lost()
        for index in self._retired:
            index.close()
        self.index.close(sound=is_sound)
