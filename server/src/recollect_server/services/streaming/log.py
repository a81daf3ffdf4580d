"""Update log of a space: its changes in their order (`storage.logs.order`), the newest of them in
memory, encoded once for all who watch.

Where several processes share a store, the index of each takes in what is committed as soon as it
sees it, so its numbers are in an order that no other process has. Streams read the changes of the
order below its horizon, where nothing can come in between any more, and the lines that these wrote.
No watcher receives a change before that, and a change that a watcher received is found behind every
earlier cursor.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.update import ConversationDeleted, TextRedacted, Update, Updated
from recollect_server.services.space import events
from recollect_server.services.space.events import Appended, Suspended
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts, Growth
from recollect_server.services.streaming.reading import kind_of
from recollect_server.services.streaming.replaying import Replaying
from recollect_server.services.streaming.ring import Entry, Ring
from recollect_server.services.streaming.watching import (
    About,
    Batch,
    Encode,
    Interest,
    NewUpdates,
    Renewed,
)
from recollect_server.storage.index.columns import UpdateRow
from recollect_server.storage.index.incoming import updates_of
from recollect_server.storage.index.log import Newest
from recollect_server.storage.logs.kinds import Action, Kind
from recollect_server.storage.logs.order import (
    Following,
    Key,
    Mark,
    Order,
    OrderedChange,
    OrderedChanges,
    Part,
)
from recollect_server.storage.logs.store import Position

_PART = 500  # changes read from the store at once
_PART_BYTES = 4 << 20  # of their lines
_LONGEST_WAIT = 1.0  # seconds that a subscriber which comes back waits for the horizon


@dataclass(frozen=True, slots=True)
class Placed:
    """An update with its place in the order, and what filters ask for."""

    mark: Mark
    channel: str
    update: Update


@dataclass(frozen=True, slots=True)
class _Incoming:
    """Updates that wait for `advance`, up to a mark."""

    placed: list[Placed]
    entries: list[Entry]
    latest: Mark
    horizon: int


class UpdateLog:
    """The update log of a space. Safe to call from any thread, but for `advance`, which one thread
    calls.
    """

    def __init__(self, space: Space, order: Order, drafts: Drafts, encode: Encode) -> None:
        self.space = space
        self.encode = encode
        self.drafts = drafts
        self.resets = 0
        """Number of times that every watcher had to begin again."""
        self._order = order
        self._shared = space.shared_order
        self._makes = threading.Lock()  # guards `_states`; held while lines are read
        self._states: Replaying[Conversation] = Replaying(
            space, space.transcripts.folded, self._indexed
        )
        self._begins = threading.Lock()  # held while the following begins or ends
        self._guard = threading.RLock()  # guards everything below; nothing slow happens under it
        self._grown = threading.Condition(self._guard)  # what `_settle` waits for
        self._signal: Callable[[], None] = _ignore
        self._following: Following | None = None
        self._watchers = 0
        self._inbox: deque[_Incoming] = deque()
        self._touched: set[About] = set()  # drafts that grew or ended
        self._shown: set[About] = set()  # those that may be shown now
        self._waiting: dict[About, int] = {}  # grown ones, until the horizon reaches this
        self._is_awaited = False  # whether the caller of `advance` waits for a signal
        self._is_collecting = False  # whether it will see what comes, without a signal
        self._answered: tuple[tuple[Mark, Interest, int, Mark], tuple[Batch, Mark]] | None = None
        """The last answer from memory: many ask for the same in turn."""
        self._renewed = False
        self._timeline = 0
        self._latest = Mark("", 0, Key(), 0)
        self._horizon = 0  # everything below it can be read here
        self._reached = 0  # and below this, once `advance` was called
        self._ring: Ring = Ring(Key())
        space.subscribe(Suspended, lambda _: self._shrink())
        space.subscribe(Appended, self._appended)
        space.subscribe(events.Deleted, self._deleted)

    # Watchers -------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Count one watcher more, and follow the changes from the first one on. Raises
        StorageUnavailable.
        """
        with self._begins:
            if self._following is None:
                self._follow()
            with self._guard:
                self._watchers += 1
                self._await()

    def unwatch(self) -> None:
        """Count one watcher less. It waits for nothing: the end of a call calls it."""
        with self._guard:
            self._watchers -= 1
            self._await()

    def tick(self) -> None:
        """Follow nothing if nobody watches."""
        if self._following is not None and not self._watchers:
            self._rest()

    def _follow(self) -> None:
        following = self._order.follow(Kind.CONVERSATION, self._take, self._lost, self._ready)
        with self._guard:
            self._following = following
            self._inbox.clear()
            self._waiting.clear()
            self._latest = following.mark
            self._timeline = following.mark.timeline
            self._horizon = self._reached = 0
            self._ring.clear(self._latest.key)
            self._waiting = dict.fromkeys(self.drafts.about(), 0)
        if self._shared:
            parts, ceiling = self._shared.parts()
            self.drafts.retain({(part.conversation_id, part.draft_id) for part in parts})
            self._add(parts, ceiling)
        following.start()

    def _rest(self) -> None:
        with self._begins:
            if self._watchers or self._following is None:
                return
            following, self._following = self._following, None
            following.close()
            with self._makes:
                self._states.clear()
            with self._guard:
                self._inbox.clear()
                self._ring.clear(self._latest.key)

    # Drafts ---------------------------------------------------------------------------------------

    def publish(self, part: Part) -> None:
        """Add a part to a draft, here and on the other processes. Raises InvalidField,
        StorageUnavailable.
        """
        try:
            growth = self._grown_by(part)
        except InvalidField:
            # It may have begun on another process.
            if self._shared is None:
                raise
            parts, ceiling = self._shared.parts(part.conversation_id, part.draft_id)
            if not parts:
                raise
            self._add(parts, ceiling)
            growth = self._grown_by(part)
        if growth is not Growth.NONE:
            self._wait(part, self._ceiling(part, begins=growth is Growth.BEGAN))

    def _ceiling(self, part: Part, *, begins: bool) -> int:
        """Let other processes have a part, and return the ceiling of what was written before."""
        if self._shared is None:
            try:
                return self._order.now().key.transaction + 1
            except IndexUnavailable:
                return 0  # nothing of it is delivered before there is another one
        return self._shared.publish(
            part,
            lambda: self.drafts.text_of(part.conversation_id, part.draft_id),
            begins=begins,
        )

    def expired(self, conversation_id: str, draft_id: str) -> None:
        """Let the other processes have no more of a draft, which did not grow for too long."""
        if self._following is not None:  # else it may have grown on another one
            self._end(conversation_id, draft_id)

    def touch(self, about: About) -> None:
        """Note that a draft of this conversation grew or ended."""
        with self._guard:
            self._touched.add(about)
            self._signal()

    def _grown_by(self, part: Part) -> Growth:
        name, draft_id, channel, offset, text, done = part
        return self.drafts.publish(name, channel, draft_id, offset, text, done=done)

    def _add(self, parts: Sequence[Part], ceiling: int) -> None:
        """Add parts that other processes published. One that came twice changes nothing."""
        for part in parts:
            with suppress(InvalidField):  # its messages are stored, or its beginning is gone
                self._grown_by(part)
                self._wait(part, ceiling)

    def _wait(self, part: Part, ceiling: int) -> None:
        """Show a draft once everything that was written before it is delivered."""
        about = (part.conversation_id, part.channel)
        with self._guard:
            self._waiting[about] = max(ceiling, self._waiting.get(about, 0))
            self._release(self._reached)
        self._order.hurry()

    def _release(self, horizon: int) -> None:
        for about in [it for it, ceiling in self._waiting.items() if ceiling <= horizon]:
            del self._waiting[about]
            self._shown.add(about)
            self._touched.add(about)

    def _appended(self, event: Appended) -> None:
        """Remove the drafts that an append here completes. Streams learn it from its update."""
        for line in event.lines:
            if line.entry is not None and (draft_id := line.entry.stamp.draft_id):
                self._end(event.conversation_id, draft_id)
                if self._following is None:
                    self.drafts.land(event.conversation_id, draft_id)
                else:
                    self.drafts.complete(event.conversation_id, draft_id)
                break

    def _deleted(self, event: events.Deleted) -> None:
        if self._following is None:
            self.drafts.forget(event.conversation_id)
        self._end(event.conversation_id)

    def _end(self, conversation_id: str, draft_id: str = "") -> None:
        if self._shared:
            with suppress(StorageUnavailable):  # it is not given after an hour
                self._shared.end(conversation_id, draft_id)

    def listen(self, signal: Callable[[], None]) -> None:
        """Call `signal` when `advance` has something to do, and now if it has."""
        with self._guard:
            self._signal = signal
        signal()

    def expect(self) -> None:
        """Note that the caller of `advance` waits for the next signal from now on."""
        with self._guard:
            self._is_awaited = True
            self._await()
            if self._inbox or self._touched or self._renewed:
                self._signal()

    def _await(self) -> None:
        if self._following is not None:
            self._following.await_next(awaited=self._is_awaited and self._watchers > 0)

    def _ready(self) -> None:
        """Have the caller of `advance` collect what came."""
        with self._guard:
            self._signal()

    # What comes -----------------------------------------------------------------------------------

    def _take(self, changes: OrderedChanges) -> None:
        """Make updates of the next changes, in the thread of the store. Raises
        StorageUnavailable.
        """
        following = self._following
        if following is None:
            return
        if following.mark.timeline != self._timeline:
            # A copy of the store took over. The states may be of the index, which may have more.
            self.space.follow()
            with self._makes:
                self._states.clear()
            self._timeline = following.mark.timeline
        with self._makes:
            placed, mark = self._updates(following.mark, changes.rows)
        entries = [self._entry(it) for it in placed]
        self._add(changes.parts, changes.ceiling)
        with self._guard:
            self._inbox.append(_Incoming(placed, entries, mark, changes.complete_before))
            self._reached = changes.complete_before
            self._release(changes.complete_before)
            if not self._is_collecting:
                self._signal()

    def _lost(self) -> None:
        """Begin again: a copy of the store lacks some delivered changes, or there is another
        index.
        """
        with self._makes:
            self._states.clear()
        with self._guard:
            self.resets += 1
            self._renewed = True
            self._inbox.clear()
            if self._following is not None:
                self._latest = self._following.mark
            self._ring.clear(self._latest.key)
            self._answered = None
            self._grown.notify_all()
            self._signal()

    def advance(self) -> NewUpdates:
        """Make the updates that came readable, and return a summary of them."""
        with self._guard:
            self._is_awaited, self._is_collecting = False, True
            self._await()
            following = self._following
        if following is not None:
            following.collect()
        with self._guard:
            self._is_collecting = False
            taken = list(self._inbox)
            self._inbox.clear()
            everyone, self._renewed = self._renewed, False
            about, self._touched = self._touched, set()
            shown, self._shown = self._shown, set()
            count = 0
            for incoming in taken:
                count += len(incoming.entries)
                about.update(entry.about for entry in incoming.entries)
                for it in incoming.placed:
                    end_drafts(self.drafts, it.update)
                deleted = {
                    it.update.conversation_id: it.mark.key
                    for it in incoming.placed
                    if isinstance(it.update.kind, ConversationDeleted)
                }
                if deleted:
                    self._answered = None
                self._latest, self._horizon = incoming.latest, incoming.horizon
                self._ring.extend(incoming.entries, deleted, incoming.latest.key)
                if any(isinstance(it.update.kind, TextRedacted) for it in incoming.placed):
                    # The ring may have the text. Watchers that are behind read the log.
                    self._shrink()
            if taken:
                self._grown.notify_all()
        if shown:
            self.drafts.show({conversation_id for conversation_id, _ in shown})
        return NewUpdates(about, count, everyone)

    def _shrink(self) -> None:
        """Keep no updates in memory: they are read from the store again."""
        with self._guard:
            self._ring.clear(self._ring.latest)
            self._answered = None

    # What is read ---------------------------------------------------------------------------------

    def behind(self, position: Mark, interest: Interest, most: int) -> tuple[Batch, Mark]:
        """Return the oldest wanted updates behind a position, and the position behind all that were
        examined. Raises Renewed, StorageUnavailable.
        """
        with self._guard:
            latest, horizon = self._latest, self._horizon
            if latest.epoch != position.epoch:
                raise Renewed
        if position.timeline != latest.timeline:
            # One of the two is from before a takeover.
            if not self._order.reaches(position):
                raise Renewed
            if self._order.timeline() != latest.timeline:
                return Batch([]), position  # until what took over is followed
            position = replace(position, timeline=latest.timeline)
        with self._guard:
            if not position.missing:
                if position.key >= latest.key:
                    return Batch([]), position
                question = (position, interest, most, latest)
                if self._answered and self._answered[0] == question:
                    return self._answered[1]
                if newest := self._ring.run(position.key, most):
                    run, key = newest
                    data = [entry.data for entry in run if interest.wants(entry.about)]
                    end = latest if key == latest.key or not run else run[-1].mark
                    self._answered = question, (Batch(data), end)
                    return self._answered[1]
        if position.missing:
            return self._missed(position, interest, horizon, min(most, _PART))
        return self._older(position, latest, interest, min(most, _PART))

    def _older(
        self, position: Mark, latest: Mark, interest: Interest, most: int
    ) -> tuple[Batch, Mark]:
        """Read updates from the store, up to what is in memory."""
        changes = self._order.after(position.key, Kind.CONVERSATION, most, _PART_BYTES)
        self._check(position)
        rows = [row for row in changes.rows if row.transaction <= latest.key.transaction]
        with self._makes:
            placed, mark = self._updates(position, rows)
        entries = [self._entry(it) for it in placed if it.mark.key > position.key]
        end = mark if changes.more and len(rows) == len(changes.rows) else latest
        return Batch([it.data for it in entries if interest.wants(it.about)]), end

    def _missed(
        self, position: Mark, interest: Interest, horizon: int, most: int
    ) -> tuple[Batch, Mark]:
        """Read the oldest updates of transactions that had not ended when a cursor was given out,
        and have now. Each brings a cursor that says so.
        """
        ended = position.ended(horizon)
        if not ended:
            return Batch([]), position
        only = [it.transaction for it in ended]
        changes = self._order.after(ended[0], Kind.CONVERSATION, most, _PART_BYTES, only)
        self._check(position)
        with self._makes:
            placed, _ = self._updates(position, changes.rows)
        data: list[bytes] = []
        for it in placed:
            if position.lacks(it.mark.key):
                cursor = str(position.without(it.mark.key))
                entry = self._entry(replace(it, update=replace(it.update, cursor=cursor)))
                if interest.wants(entry.about):
                    data.append(entry.data)
        end = changes.rows[-1].end if changes.more else Key(horizon)
        return Batch(data), position.without(end)

    def _check(self, position: Mark) -> None:
        """Raise Renewed if changes behind a position were pruned before they were read."""
        if not self._order.reaches(position):
            raise Renewed

    def _updates(self, before: Mark, changes: Sequence[OrderedChange]) -> tuple[list[Placed], Mark]:
        """Return the updates of changes, and the mark behind them. `before` is one before them."""
        placed: list[Placed] = []
        mark = before
        for change in changes:
            mark = Mark(before.epoch, before.timeline, change.end, change.tag)
            if change.kind != Kind.CONVERSATION:
                continue
            if change.action is Action.DELETE:
                self._states.forget(change.log)
                update = Update(str(mark), change.log, change.time, ConversationDeleted())
                placed.append(Placed(mark, change.channel, update))
            elif change.lines and (state := self._state(change)) is not None:
                placed += _updates_of(change, state, mark)
        return placed, mark

    def _entry(self, placed: Placed) -> Entry:
        return Entry(
            placed.mark.key,
            (placed.update.conversation_id, placed.channel),
            self.encode(placed.update),
            placed.mark,
        )

    def _state(self, change: OrderedChange) -> Conversation | None:
        return change.state or self._states.behind(change)

    def _indexed(self, conversation_id: str) -> tuple[Position, Conversation] | None:
        """Return what the index has of a conversation, and up to where."""
        try:
            stored = self.space.index.conversations.find(conversation_id)
        except IndexUnavailable:
            return None
        if stored is None or stored.calls_unknown:
            return None
        return Position(stored.lines, stored.bytes), stored.conversation

    # Positions ------------------------------------------------------------------------------------

    def position_of(self, cursor: str) -> Mark | None:
        """Return the position that a cursor names; None if the store does not reach back to it.
        Raises InvalidField, IndexUnavailable, StorageUnavailable.
        """
        mark = Mark.of(cursor)
        if mark is None:
            raise InvalidField.of("cursor", "is not a cursor that this service gave out")
        if not self._order.reaches(mark):
            return None  # it is too old, or of another store or index
        self._settle()  # else it would count as having missed nothing
        return mark

    def _settle(self) -> None:
        """Wait until everything that is visible now is delivered, but not for a transaction that
        stays open.
        """
        end = self._order.now().key.transaction
        until = time.monotonic() + _LONGEST_WAIT
        self._order.hurry()
        with self._guard:
            self._grown.wait_for(
                lambda: self._latest.key.transaction >= end or self._horizon > end or self._renewed,
                until - time.monotonic(),
            )

    def begin(self) -> Mark:
        """Return the position behind everything that is visible now, and let the index have that.
        Raises StorageUnavailable, IndexUnavailable.
        """
        mark = self._order.now()
        self.space.follow()
        return mark

    def placed(self, start: Mark, newest: Newest) -> tuple[Mark, dict[str, int]]:
        """Return the position of a snapshot of the index, taken after `start`, and what of it comes
        behind that: the byte at which it begins, by conversation. Raises StorageUnavailable.
        """
        return self._order.placed(start, newest.cursor)


def _updates_of(change: OrderedChange, state: Conversation, end: Mark) -> list[Placed]:
    """Return the updates of a change of a conversation. That of its last line has the mark of its
    end; another one has its own, though it may be the last since lines behind it were redacted.
    """
    entries = {line.sequence: line.entry for line in change.lines if line.entry is not None}
    rows = updates_of(change.lines, change.time)
    placed: list[Placed] = []
    for kind, at_time, first, last in rows:
        mark = end
        if last < change.lines[-1].sequence:
            mark = replace(end, key=Key(change.transaction, change.number, last))
        row = UpdateRow(0, 0, kind, at_time, first, last, "")
        update = Update(str(mark), change.log, at_time, kind_of(row, state, entries))
        placed.append(Placed(mark, state.channel, update))
    return placed


def end_drafts(drafts: Drafts, update: Update) -> None:
    """Land the drafts that an update completes before it can be read, so that no stream sends more
    of them after it.
    """
    match update.kind:
        case Updated(draft_id=draft_id) if draft_id:
            drafts.land(update.conversation_id, draft_id)
        case ConversationDeleted():
            drafts.forget(update.conversation_id)
        case _:
            pass


def _ignore() -> None:
    """Ignore a signal: nobody listens yet."""
