"""Changes of external communications for panels: a snapshot, then every change in its order.

As `services.streaming.log` for conversations: the changes are read in the order of the space, and
what came with each from the lines that it wrote. They are few, so every watcher reads them by its
position, and the last answer is kept for those who ask the same.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from recollect_server.domain.conversation import MessagesRedacted
from recollect_server.domain.errors import DataUnavailable
from recollect_server.domain.external import (
    Changed,
    Communication,
    CommunicationDeleted,
    CommunicationUpdate,
    Escalated,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    Exchanged,
    ExternalMessage,
    Listed,
    MessageRedacted,
    Trust,
)
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.space.events import ExchangeRedacted
from recollect_server.services.streaming.followed import FollowedLog, Placed, Watcher
from recollect_server.services.streaming.replaying import Replaying
from recollect_server.services.streaming.watching import Batch, NewUpdates
from recollect_server.storage.index.external_rows import update_of
from recollect_server.storage.logs.kinds import Action, Kind
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.order import (
    Key,
    Mark,
    Order,
    OrderedChange,
    OrderedChanges,
)

_LISTED = 50  # communications in a snapshot
EncodeChange = Callable[[CommunicationUpdate], bytes]


@dataclass(frozen=True, slots=True)
class _State:
    """A communication with its escalations, those that are answered too."""

    communication: Communication
    escalations: dict[str, Escalation]
    trusts: tuple[tuple[int, Trust], ...] = ()
    """Each line that changed the trust, and what it set."""
    tombstones: tuple[ExternalMessage, ...] = ()
    """The messages whose text was removed."""

    def at(self, sequence: int) -> Communication:
        """Return the communication with the trust that held at a line."""
        trust = Trust.UNTRUSTED
        for line, it in self.trusts:
            trust = it if line <= sequence else trust
        return replace(self.communication, trust=trust)

    def redacted(self, sequence: int) -> MessageRedacted:
        """Return what is left of the message of a line."""
        messages = (it for it in self.tombstones if it.sequence == sequence)
        opened = (it for it in self.escalations.values() if it.sequence == sequence)
        return MessageRedacted(self.communication, next(messages, None), next(opened, None))


class LiveCommunications(FollowedLog[_State, CommunicationUpdate]):
    """Changes of external communications, for watchers. Safe to call from any thread."""

    kind = Kind.COMMUNICATION
    prefix = "x"  # a cursor of this stream is never one of the conversations' updates
    giver = "stream"
    value = CommunicationUpdate

    def __init__(self, store: CommunicationStore, order: Order, encode: EncodeChange) -> None:
        """`encode` makes what is sent."""
        states: Replaying[_State] = Replaying(store.space, self._folded, lambda _: None)
        super().__init__(store.space, order, states, encode)
        self._store = store
        self._changes = self._delivered = 0
        self._stale: set[str] = set()  # communications whose states have a text that was removed
        # the last one
        self._answered: tuple[tuple[Mark, int, int], tuple[Batch, Mark]] | None = None
        store.space.subscribe(ExchangeRedacted, self._redacted)

    def _redacted(self, event: ExchangeRedacted) -> None:
        with self._guard:
            self._answered = None
            self._stale.add(event.communication_id)

    def subscribe(self, cursor: str) -> "CommunicationWatcher":
        """Begin a subscription, behind a cursor or with a snapshot. Raises InvalidField,
        DataUnavailable.
        """
        self._store.catch_up()
        return self.subscribed(lambda: CommunicationWatcher(self, cursor))

    def expect(self) -> None:
        """Signal changes that came since the last `advance`."""
        if self._changes != self._delivered:
            self._signal()

    def _take(self, changes: OrderedChanges) -> None:
        count = sum(it.kind == Kind.COMMUNICATION for it in changes.rows)
        with self._guard:
            self._horizon = changes.complete_before
            if any(it.action is Action.DELETE for it in changes.rows):
                self._answered = None  # it may have the text
            self._changes += max(count, 1)  # a horizon that moved lets earlier ones be read
            self._guard.notify_all()
            self._signal()

    def _lost(self) -> None:
        self._clear()
        with self._guard:
            self._changes += 1
            self._answered = None

    def advance(self) -> NewUpdates:
        """Take the changes that came."""
        self._collect()
        with self._guard:
            count = self._changes - self._delivered
            self._delivered = self._changes
        return NewUpdates((), count, everyone=count > 0)

    def tick(self) -> None:
        """Try again what the index refused, and follow nothing if nobody watches."""
        super().tick()
        if self._store.behind:
            # it was logged when it was refused
            with suppress(DataUnavailable):
                self._store.catch_up()

    def behind(self, position: Mark, most: int) -> tuple[Batch, Mark]:
        """Return the oldest updates behind a position, and the position behind them.

        Raises Renewed, StorageUnavailable.
        """
        with self._guard:
            question = (position, most, self._changes)
            if self._answered and self._answered[0] == question:
                return self._answered[1]
            horizon = self._horizon
        if position.missing:
            placed, end = self._missed(position, horizon, most)
        else:
            changes = self._read(position, position.key, most)
            placed, end = self._updates(position, changes.rows)
            placed = [it for it in placed if it.mark.key > position.key]
        self._check(position)
        answer = Batch([self.encode(it.update) for it in placed]), end
        answer = answer[0], replace(end, timeline=self._timeline())
        with self._guard:
            if self._changes == question[2]:  # else a delete may have come since
                self._answered = question, answer
        return answer

    def _timeline(self) -> int:
        """Return the timeline of what is delivered now."""
        following = self._following
        return following.mark.timeline if following else self.order.timeline()

    def _updates_of(self, change: OrderedChange, end: Mark) -> list[Placed[CommunicationUpdate]]:
        if change.action is Action.DELETE:
            self._states.forget(change.log)
            cursor = self.cursor(end)
            deletion = CommunicationUpdate(cursor, change.log, change.time, CommunicationDeleted())
            return [Placed(end, deletion)]
        with self._guard:
            stale, self._stale = self._stale, set()
        for name in stale:
            self._states.forget(name)
        state = self._states.behind(change) if change.lines else None
        if state is None:
            return []
        kinds: list[tuple[int, Any]] = []
        now = state.communication
        for line in change.lines:
            row = update_of(line, state.at(line.sequence))
            if row is None or line.entry is None:
                continue
            content, escalation = line.entry.content, state.escalations.get(row[1])
            if isinstance(content, ExternalMessage):
                kinds.append((line.sequence, Exchanged(now, content)))
            elif isinstance(content, MessagesRedacted):
                kinds.append((line.sequence, state.redacted(content.sequences[0])))
            elif escalation is not None:
                kinds.append((line.sequence, Escalated(escalation)))
            else:
                kinds.append((line.sequence, Changed(now)))
        placed: list[Placed[CommunicationUpdate]] = []
        for at, (sequence, kind) in enumerate(kinds, start=1):
            mark = end
            if at < len(kinds):
                mark = replace(end, key=Key(change.transaction, change.number, sequence))
            update = CommunicationUpdate(self.cursor(mark), change.log, change.time, kind)
            placed.append(Placed(mark, update))
        return placed

    def _folded(self, before: _State | None, line: Line, name: str) -> _State | None:
        """Return the state behind a line."""
        logs = self.space.communications
        after = logs.folded(before.communication if before else None, line, name)
        if after is None:
            return None
        escalations = before.escalations if before else {}
        tombstones = before.tombstones if before else ()
        match line.entry.content if line.entry else None:
            case EscalationOpened() as it:
                opened = Escalation(it.id, name, it.sequence, it.question, it.time)
                escalations = escalations | {it.id: opened}
            case EscalationResolved() as it if it.id in escalations:
                closed = replace(escalations[it.id], answer=it.answer, resolve_time=it.time)
                escalations = escalations | {it.id: closed}
            case ExternalMessage() as it if it.redaction:
                tombstones = (*tombstones, it)
            case _:
                pass
        trusts = before.trusts if before else ()
        if before is None or before.communication.trust is not after.trust:
            trusts = (*trusts, (line.sequence, after.trust))
        return _State(after, escalations, trusts, tombstones)

    def snapshot(self, *, reset: bool) -> tuple[bytes, Mark]:
        """Return the newest communications, and the position that they belong to. Raises
        DataUnavailable.
        """
        mark = self.begin()
        communications = self.space.index.external.newest(_LISTED)
        update = CommunicationUpdate(
            self.cursor(mark),
            "",
            self.space.clock(),
            Listed(tuple(communications)),
            reset=reset,
        )
        return self.encode(update), mark


class CommunicationWatcher(Watcher):
    """One watcher's place in the log."""

    __slots__ = ()

    _log: LiveCommunications

    def _behind(self, position: Mark, most: int) -> tuple[Batch, Mark]:
        return self._log.behind(position, most)

    def _begin(self, *, reset: bool) -> None:
        first, self._position = self._log.snapshot(reset=reset)
        self._parts = (first,)
