"""Changes of external communications for panels: a snapshot, then every change in its order.

As `services.streaming.log` for conversations: the changes are read in the order of the space, and
what came with each from the lines that it wrote. They are few, so every watcher reads them by its
position, and the last answer is kept for those who ask the same.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from recollect_server.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.external import (
    Changed,
    Communication,
    CommunicationUpdate,
    Escalated,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    Exchanged,
    ExternalMessage,
    Listed,
    Trust,
)
from recollect_server.domain.update import Heartbeat
from recollect_server.services.external.store import CommunicationStore
from recollect_server.services.streaming.replaying import Replaying
from recollect_server.services.streaming.watching import Batch, NewUpdates, Renewed
from recollect_server.storage.index.external_rows import update_of
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.order import (
    Following,
    Key,
    Mark,
    Order,
    OrderedChange,
    OrderedChanges,
)

_LISTED = 50  # communications in a snapshot
_OURS = "x"  # before a position: a cursor of this stream is never one of the conversations' updates

EncodeChange = Callable[[CommunicationUpdate], bytes]

_PART = 200  # changes that are read at once
_PART_BYTES = 4 << 20  # of their lines
_LONGEST_WAIT = 1.0  # seconds that a panel which comes back waits for the horizon


@dataclass(frozen=True, slots=True)
class _State:
    """A communication with its escalations, those that are answered too."""

    communication: Communication
    escalations: dict[str, Escalation]
    trusts: tuple[tuple[int, Trust], ...] = ()
    """Each line that changed the trust, and what it set."""

    def at(self, sequence: int) -> Communication:
        """Return the communication with the trust that held at a line."""
        trust = Trust.UNTRUSTED
        for line, it in self.trusts:
            trust = it if line <= sequence else trust
        return replace(self.communication, trust=trust)


class LiveCommunications:
    """Changes of external communications, for watchers. Safe to call from any thread."""

    def __init__(self, store: CommunicationStore, order: Order, encode: EncodeChange) -> None:
        """`encode` makes what is sent."""
        self.store = store
        self.encode = encode
        self._order = order
        self._makes = threading.Lock()  # guards `_states`; held while lines are read
        self._states: Replaying[_State] = Replaying(store.space, self._folded, lambda _: None)
        self._begins = threading.Lock()  # held while the following begins or ends
        # guards everything below; nothing slow happens under it
        self._guard = threading.Condition()
        self._following: Following | None = None
        self._watchers = 0
        self._signal: Callable[[], None] | None = None
        self._changes = self._delivered = 0
        self._horizon = 0
        # the last one
        self._answered: tuple[tuple[Mark, int, int], tuple[Batch, Mark]] | None = None

    def subscribe(self, cursor: str) -> "CommunicationWatcher":
        """Begin a subscription, behind a cursor or with a snapshot. Raises InvalidField,
        IndexUnavailable, StorageUnavailable.
        """
        with self._begins:
            if self._following is None:
                following = self._order.follow(
                    Kind.COMMUNICATION, self._take, self._lost, lambda: None
                )
                with self._guard:
                    self._following, self._horizon = following, 0
                following.start()
            with self._guard:
                self._watchers += 1
        try:
            return CommunicationWatcher(self, cursor)
        except BaseException:
            self.unsubscribe()
            raise

    def unsubscribe(self) -> None:
        """Count one watcher less."""
        with self._guard:
            self._watchers -= 1

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal`, which returns at once, when `advance` has something to do."""
        with self._guard:
            self._signal = signal

    def expect(self) -> None:
        """Signal changes that came since the last `advance`."""
        if self._changes != self._delivered and self._signal is not None:
            self._signal()

    def _take(self, changes: OrderedChanges) -> None:
        count = sum(it.kind == Kind.COMMUNICATION for it in changes.rows)
        with self._guard:
            self._horizon = changes.complete_before
            self._changes += max(count, 1)  # a horizon that moved lets earlier ones be read
            signal = self._signal
            self._guard.notify_all()
        if signal is not None:
            signal()

    def _lost(self) -> None:
        """Let every watcher begin again: a copy of the store took over which lacks some changes."""
        with self._makes:
            self._states.clear()
        with self._guard:
            self._changes += 1
            self._answered = None

    def advance(self) -> NewUpdates:
        """Take the changes that came."""
        with self._guard:
            count = self._changes - self._delivered
            self._delivered = self._changes
        return NewUpdates((), count, everyone=count > 0)

    def tick(self) -> None:
        """Try again what the index refused, and follow nothing if nobody watches."""
        if self._following is not None and not self._watchers:
            self._rest()
        if self.store.behind:
            # it was logged when it was refused
            with suppress(IndexUnavailable, StorageUnavailable):
                self.store.catch_up()

    def _rest(self) -> None:
        with self._begins:
            if self._watchers or self._following is None:
                return
            following, self._following = self._following, None
            following.close()
            with self._makes:
                self._states.clear()

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
            answer = self._missed(position, horizon, min(most, _PART))
        else:
            changes = self._order.after(
                position.key, Kind.COMMUNICATION, min(most, _PART), _PART_BYTES
            )
            updates, end = self._updates(position, changes.rows)
            data = [self.encode(it) for mark, it in updates if mark.key > position.key]
            answer = Batch(data), end
        # Asked behind the read: they may be pruned, or lost with a server of PostgreSQL.
        if not self._order.reaches(position):
            raise Renewed
        answer = answer[0], replace(answer[1], timeline=self._timeline())
        with self._guard:
            self._answered = question, answer
        return answer

    def _timeline(self) -> int:
        """Return the timeline of what is delivered now."""
        following = self._following
        return following.mark.timeline if following else self._order.timeline()

    def _missed(self, position: Mark, horizon: int, most: int) -> tuple[Batch, Mark]:
        """Read the oldest updates of transactions that had not ended when a cursor was given out,
        and have now (see `UpdateLog`).
        """
        ended = position.ended(horizon)
        if not ended:
            return Batch([]), position
        only = [it.transaction for it in ended]
        changes = self._order.after(ended[0], Kind.COMMUNICATION, most, _PART_BYTES, only)
        data: list[bytes] = []
        for mark, update in self._updates(position, changes.rows)[0]:
            if position.lacks(mark.key):
                rest = position.without(mark.key)
                data.append(self.encode(replace(update, cursor=cursor_text(rest))))
        end = changes.rows[-1].end if changes.more else Key(horizon)
        return Batch(data), position.without(end)

    def _updates(
        self, before: Mark, changes: Sequence[OrderedChange]
    ) -> tuple[list[tuple[Mark, CommunicationUpdate]], Mark]:
        """Return the updates of changes with their marks, and the mark behind all."""
        updates: list[tuple[Mark, CommunicationUpdate]] = []
        end = before
        with self._makes:
            for change in changes:
                end = Mark(before.epoch, before.timeline, change.end, change.tag)
                if change.kind == Kind.COMMUNICATION and change.lines:
                    state = self._states.behind(change)
                    if state is not None:
                        updates += self._updates_of(change, state, end)
        return updates, end

    def _updates_of(
        self, change: OrderedChange, state: _State, end: Mark
    ) -> list[tuple[Mark, CommunicationUpdate]]:
        kinds: list[tuple[int, Any]] = []
        now = state.communication
        for line in change.lines:
            row = update_of(line, state.at(line.sequence))
            if row is None or line.entry is None:
                continue
            content, escalation = line.entry.content, state.escalations.get(row[1])
            if isinstance(content, ExternalMessage):
                kinds.append((line.sequence, Exchanged(now, content)))
            elif escalation is not None:
                kinds.append((line.sequence, Escalated(escalation)))
            else:
                kinds.append((line.sequence, Changed(now)))
        updates: list[tuple[Mark, CommunicationUpdate]] = []
        for at, (sequence, kind) in enumerate(kinds, start=1):
            mark = end
            if at < len(kinds):
                mark = replace(end, key=Key(change.transaction, change.number, sequence))
            update = CommunicationUpdate(cursor_text(mark), change.log, change.time, kind)
            updates.append((mark, update))
        return updates

    def _folded(self, before: _State | None, line: Line, name: str) -> _State | None:
        """Return the state behind a line."""
        logs = self.store.space.communications
        after = logs.folded(before.communication if before else None, line, name)
        if after is None:
            return None
        escalations = before.escalations if before else {}
        match line.entry.content if line.entry else None:
            case EscalationOpened() as it:
                opened = Escalation(it.id, name, it.sequence, it.question, it.time)
                escalations = escalations | {it.id: opened}
            case EscalationResolved() as it if it.id in escalations:
                closed = replace(escalations[it.id], answer=it.answer, resolve_time=it.time)
                escalations = escalations | {it.id: closed}
            case _:
                pass
        trusts = before.trusts if before else ()
        if before is None or before.communication.trust is not after.trust:
            trusts = (*trusts, (line.sequence, after.trust))
        return _State(after, escalations, trusts)

    def snapshot(self, *, reset: bool) -> tuple[bytes, Mark]:
        """Return the newest communications, and the position that they belong to. Raises
        IndexUnavailable, StorageUnavailable.
        """
        mark = self._order.now()
        self.store.space.follow()
        communications = self.store.space.index.external.newest(_LISTED)
        update = CommunicationUpdate(
            cursor_text(mark),
            "",
            self.store.space.clock(),
            Listed(tuple(communications)),
            reset=reset,
        )
        return self.encode(update), mark

    def position_of(self, cursor: str) -> Mark | None:
        """Return the position that a cursor names; None if the store does not reach back to it.
        Raises InvalidField, StorageUnavailable.
        """
        text = cursor.removeprefix(_OURS) if cursor.startswith(_OURS) else ""
        mark = Mark.of(text)
        if mark is None:
            raise InvalidField.of("cursor", "is not a cursor that this stream gave out")
        if not self._order.reaches(mark):
            return None
        end = self._order.now().key.transaction
        until = time.monotonic() + _LONGEST_WAIT
        self._order.hurry()
        with self._guard:  # else it would count as having missed nothing
            self._guard.wait_for(lambda: self._horizon > end, until - time.monotonic())
        return mark


class CommunicationWatcher:
    """One watcher's place in the log."""

    __slots__ = ("_first", "_live", "_position")

    def __init__(self, live: LiveCommunications, cursor: str) -> None:
        self._live = live
        self._first: bytes | None = None
        self._position: Mark
        position = live.position_of(cursor) if cursor else None
        if position is None:
            self._begin(reset=bool(cursor))
        else:
            self._position = position

    def concerned(self, new: NewUpdates) -> bool:
        """Return whether there may be something for it."""
        return new.everyone

    def take(self, most: int) -> tuple[Batch, bool]:
        """Return at most `most` updates that come next, and whether more wait. Raises
        IndexUnavailable, StorageUnavailable.
        """
        if self._first is not None:
            first, self._first = self._first, None
            return Batch([first]), True
        before = self._position
        try:
            batch, self._position = self._live.behind(before, most)
        except Renewed:
            self._begin(reset=True)
            return self.take(most)
        # Changes of other logs may have been passed: then there may be more behind them.
        if batch.updates or self._position != before:
            return batch, True
        # An answer is shared by those who ask the same; to an empty one a heartbeat may be added.
        return Batch([]), False

    def heartbeat(self) -> bytes:
        """Return a heartbeat with the cursor."""
        now = self._live.store.space.clock()
        return self._live.encode(
            CommunicationUpdate(cursor_text(self._position), "", now, Heartbeat())
        )

    def _begin(self, *, reset: bool) -> None:
        self._first, self._position = self._live.snapshot(reset=reset)


def cursor_text(position: Mark) -> str:
    """Return a position in the log in the form that callers see."""
    return f"{_OURS}{position}"
