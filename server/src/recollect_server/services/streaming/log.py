"""Update log of a space: its changes in their order (see `followed`), the newest of them in memory,
encoded once for all who watch.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from recollect_server.domain.conversation import (
    Abbreviated,
    Began,
    Conversation,
    MessagesRedacted,
    MetaUpdated,
    Split,
    SplitSuggested,
    TitleAssigned,
    TurnMemory,
    fold,
)
from recollect_server.domain.errors import IndexUnavailable, InvalidField, StorageUnavailable
from recollect_server.domain.message import Message, Redaction
from recollect_server.domain.update import (
    ConversationDeleted,
    Created,
    NotesWritten,
    Renamed,
    TextRedacted,
    Update,
    Updated,
)
from recollect_server.domain.update import Kind as KindOfUpdate
from recollect_server.services.space import events
from recollect_server.services.space.events import Appended, Resting
from recollect_server.services.space.space import Space
from recollect_server.services.streaming.drafts import Drafts, Growth
from recollect_server.services.streaming.followed import FollowedLog, Placed
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
from recollect_server.storage.index.incoming import updates_of
from recollect_server.storage.index.updates import UpdateKind
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
from recollect_server.storage.logs.record import Entry as LogEntry
from recollect_server.storage.logs.store import Position


@dataclass(frozen=True, slots=True)
class _Incoming:
    """Updates that wait for `advance`, up to a mark."""

    placed: list[Placed[Update]]
    entries: list[Entry]
    latest: Mark
    horizon: int


class UpdateLog(FollowedLog[Conversation, Update]):
    """The update log of a space. Safe to call from any thread, but for `advance`, which one thread
    calls.
    """

    kind = Kind.CONVERSATION
    giver = "service"
    value = Update

    def __init__(self, space: Space, order: Order, drafts: Drafts, encode: Encode) -> None:
        states = Replaying(space, space.transcripts.folded, self._indexed)
        super().__init__(space, order, states, encode)
        self.drafts = drafts
        self.resets = 0
        """Number of times that every watcher had to begin again."""
        self._shared = space.store.order
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
        self._reached = 0  # everything below it came; below `_horizon`, once `advance` was called
        self._ring: Ring = Ring(Key())
        space.subscribe(Resting, lambda _: self._shrink())
        space.subscribe(Appended, self._appended)
        space.subscribe(events.Deleted, self._deleted)

    def _begin(self, following: Following) -> None:
        with self._guard:
            super()._begin(following)
            self._latest = following.mark
            self._timeline = following.mark.timeline
            self._reached = 0
            self._drop()
            self._waiting = dict.fromkeys(self.drafts.about(), 0)
        if self._shared:
            parts, ceiling = self._shared.parts()
            self.drafts.retain({(part.conversation_id, part.draft_id) for part in parts})
            self._add(parts, ceiling)

    def _clear(self) -> None:
        super()._clear()
        self._drop()

    def _drop(self) -> None:
        """Keep nothing in memory, what `advance` did not take neither."""
        with self._guard:
            self._inbox.clear()
            self._ring.clear(self._latest.key)
            self._answered = None

    # Drafts ---------------------------------------------------------------------------------------

    def grow(self, part: Part) -> None:
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
                return self.order.now().key.transaction + 1
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
        self.order.hurry()

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

    # What comes -----------------------------------------------------------------------------------

    def _take(self, changes: OrderedChanges) -> None:
        following = self._following
        if following is None:
            return
        if following.mark.timeline != self._timeline:
            # A copy of the store took over. The states may be of the index, which may have more.
            self.space.follow()
            with self._makes:
                self._states.clear()
            self._timeline = following.mark.timeline
        placed, mark = self._updates(following.mark, changes.rows)
        entries = [self._entry(it) for it in placed]
        self._add(changes.parts, changes.ceiling)
        horizon = changes.complete_before
        with self._guard:
            self._inbox.append(_Incoming(placed, entries, mark, horizon))
            self._reached = horizon
            self._release(horizon)
            if not self._is_collecting:
                self._signal()

    def _lost(self) -> None:
        super()._clear()
        with self._guard:
            self.resets += 1
            self._renewed = True
            if self._following is not None:
                self._latest = self._following.mark
            self._drop()
            self._guard.notify_all()
            self._signal()

    def advance(self) -> NewUpdates:
        """Make the updates that came readable, and return a summary of them."""
        with self._guard:
            self._is_awaited, self._is_collecting = False, True
            self._await()
        self._collect()
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
                deleted: dict[str, Key] = {}
                is_redacted = False
                for it in incoming.placed:
                    conversation_id = it.update.conversation_id
                    about.add((conversation_id, it.channel))
                    # Drafts that an update completes end before it can be read, so that no stream
                    # sends more of them after it.
                    match it.update.kind:
                        case Updated(draft_id=draft_id) if draft_id:
                            self.drafts.land(conversation_id, draft_id)
                        case ConversationDeleted():
                            self.drafts.forget(conversation_id)
                            deleted[conversation_id] = it.mark.key
                        case TextRedacted():
                            is_redacted = True
                        case _:
                            pass
                if deleted:
                    self._answered = None
                self._latest, self._horizon = incoming.latest, incoming.horizon
                self._ring.extend(incoming.entries, deleted, incoming.latest.key)
                if is_redacted:
                    # The ring may have the text. Watchers that are behind read the log.
                    self._shrink()
            if taken:
                self._guard.notify_all()
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
            if not self.order.reaches(position):
                raise Renewed
            if self.order.timeline() != latest.timeline:
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
            placed, end = self._missed(position, horizon, most)
        else:
            placed, end = self._older(position, latest, most)
        entries = map(self._entry, placed)
        return Batch([it.data for it in entries if interest.wants(it.about)]), end

    def _older(self, position: Mark, latest: Mark, most: int) -> tuple[list[Placed[Update]], Mark]:
        """Read updates from the store, up to what is in memory."""
        changes = self._read(position, position.key, most)
        rows = [row for row in changes.rows if row.transaction <= latest.key.transaction]
        placed, mark = self._updates(position, rows)
        end = mark if changes.more and len(rows) == len(changes.rows) else latest
        return [it for it in placed if it.mark.key > position.key], end

    def _updates_of(self, change: OrderedChange, end: Mark) -> list[Placed[Update]]:
        """Return the updates of a change. One of a line before its last one has its own mark, even
        if it comes last since lines behind it were redacted.
        """
        if change.action is Action.DELETE:
            self._states.forget(change.log)
            deletion = Update(str(end), change.log, change.time, ConversationDeleted())
            return [Placed(end, deletion, change.channel)]
        state = change.state or self._states.behind(change) if change.lines else None
        if state is None:
            return []
        entries = {line.sequence: line.entry for line in change.lines if line.entry is not None}
        placed: list[Placed[Update]] = []
        for kind, at_time, first, last in updates_of(change.lines, change.time):
            mark = end
            if last < change.lines[-1].sequence:
                mark = replace(end, key=Key(change.transaction, change.number, last))
            of_update = _kind_of(kind, range(first, last + 1), state, entries)
            update = Update(str(mark), change.log, at_time, of_update)
            placed.append(Placed(mark, update, state.channel))
        return placed

    def _entry(self, placed: Placed[Update]) -> Entry:
        return Entry(
            (placed.update.conversation_id, placed.channel),
            self.encode(placed.update),
            placed.mark,
        )

    def _indexed(self, conversation_id: str) -> tuple[Position, Conversation] | None:
        """Return what the index has of a conversation, and up to where."""
        try:
            stored = self.space.index.conversations.find(conversation_id)
        except IndexUnavailable:
            return None
        if stored is None:
            return None
        return Position(stored.lines, stored.bytes), stored.conversation

    # Positions ------------------------------------------------------------------------------------

    def _has(self, end: int) -> bool:
        return self._latest.key.transaction >= end or super()._has(end) or self._renewed


def _kind_of(
    kind: UpdateKind, written: range, conversation: Conversation, entries: Mapping[int, LogEntry]
) -> KindOfUpdate:
    """Return the change that lines of a transcript make, by what they say and the conversation."""
    first = entries.get(written[0])
    if kind == UpdateKind.MESSAGES:
        lines = [entries[sequence] for sequence in written if sequence in entries]
        messages = [line.content for line in lines if isinstance(line.content, Message)]
        return Updated(conversation, tuple(messages), lines[0].stamp.draft_id if lines else "")
    match first.content if first else None:
        case Began() as began:
            return Created(fold(None, replace(began, id=conversation.id)) or conversation)
        case TitleAssigned(title=title, topics=topics) if not conversation.manually_named:
            return Renamed(title, manually_named=False, topics=topics or conversation.topics)
        case TitleAssigned():  # it came too late: a person had named it
            return Renamed(conversation.title, manually_named=True, topics=conversation.topics)
        case MetaUpdated(title=str() as title, manually_named=manually_named):
            return Renamed(title, manually_named=bool(manually_named), topics=conversation.topics)
        case Abbreviated(text=text, topics=topics):
            return NotesWritten(text, conversation.topics if topics is None else topics)
        case MessagesRedacted(sequences=sequences, time=time, by=by):
            return TextRedacted(conversation, sequences, Redaction(by, time))
        case SplitSuggested(reason=reason, titles=titles):
            return Split(reason, titles)
        case TurnMemory() as memory:
            return Updated(conversation, memory=memory)
        case _:  # a model, a pin, a summary; or a line that cannot be read any more
            return Updated(conversation)
