"""The work of StreamUpdates and PublishDelta: live updates of a space's conversations, with the
drafts of answers, and their watchers, who begin with a snapshot: the newest conversations and the
working context of the first, as of one place in the log.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from recollect_server.kernel.domain.conversation import (
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
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    ConversationReadOnly,
    IndexUnavailable,
    InvalidField,
    StorageUnavailable,
)
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.domain.last_used import LastUsed
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import Message, Redaction
from recollect_server.kernel.domain.update import (
    ConversationList,
    ConversationLoaded,
    Created,
    NotesWritten,
    Renamed,
    TextRedacted,
    Update,
    Updated,
)
from recollect_server.kernel.domain.update import Kind as KindOfUpdate
from recollect_server.kernel.index.index import updates_of
from recollect_server.kernel.log.lines import Entry, Line
from recollect_server.kernel.log.order import Following, OrderedChange, OrderedChanges, Part
from recollect_server.kernel.log.store import START, Position
from recollect_server.kernel.space.events import Appended, Deleted
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import LoadLimits, WorkingContext, read_places
from recollect_server.kernel.stream.drafts import Drafts, Growth, Sent
from recollect_server.kernel.stream.drafts import Key as DraftKey
from recollect_server.kernel.stream.log import Encode, Snapshot, UpdateLog, Watcher
from recollect_server.kernel.stream.ring import About, Interest

_CONVERSATIONS = 50
_KEPT = 8  # snapshots that many may begin with at once, after a restart


@dataclass(frozen=True, slots=True)
class Choice:
    """Choice of conversations in a watcher's snapshot: by default all of them, and the newest one
    loaded.
    """

    load_channel: str = ""
    """Loads the newest conversation on this channel."""
    load_conversation_id: str = ""
    """Loads this conversation."""
    list_channels: tuple[str, ...] = ()
    """Lists those on these channels alone."""


class Snapshots:
    """Takes snapshots. Safe to call from any thread."""

    def __init__(self, log: UpdateLog[Conversation], limits: Live[LoadLimits]) -> None:
        self._log = log
        self._limits = limits
        self._guard = threading.Lock()  # guards `_cache`; nothing slow happens under it
        self._cache: LastUsed[tuple[Interest, Choice, LoadLimits, bool], Snapshot] = LastUsed(_KEPT)

    def take(self, interest: Interest, choice: Choice, max_turns: int, *, reset: bool) -> Snapshot:
        """Take a snapshot as of now.

        Raises DataUnavailable; and, but for a `reset`, ConversationNotFound if the chosen
        conversation is not there, or not wanted.
        """
        limits = self._limits.now  # which may change while the log stands still
        limits = replace(limits, max_turns=max_turns or limits.max_turns)
        key = (interest, choice, limits, reset)
        with self._guard:
            cached = self._cache.get(key)
        # What the index did not take in moves no cursor.
        if (
            cached
            and cached.position == self._log.begin()
            and not self._log.space.overlay.lagging()
        ):
            return cached
        for _ in range(3):
            try:
                taken = self._take(*key)
                break
            except StorageUnavailable:  # the first conversation may have been deleted just now
                continue
        else:
            taken = self._take(*key)
        with self._guard:
            self._cache.keep(key, taken)
        return taken

    def _take(
        self, interest: Interest, choice: Choice, limits: LoadLimits, reset: bool
    ) -> Snapshot:
        space = self._log.space
        start = self._log.begin()
        index = space.index
        chosen = Filter(
            conversation_ids=tuple(sorted(interest.conversation_ids)),
            channels=tuple(sorted(interest.channels)),
            archived=False,
        )
        newest = index.log.newest_conversations(
            replace(chosen, channels=choice.list_channels) if choice.list_channels else chosen,
            _CONVERSATIONS,
            loaded=_loaded(chosen, choice),
            max_turns=limits.max_turns,
            max_tokens=limits.max_tokens,
            max_bytes=limits.max_bytes,
        )
        position, behind = self._log.order.placed(start, newest.cursor)
        loaded = ConversationLoaded()
        if newest.loaded is not None and space.overlay.is_lagging(newest.loaded.id):
            window = WorkingContext(space, self._limits).load(
                newest.loaded.id, max_turns=limits.max_turns
            )
            loaded = ConversationLoaded(
                window.conversation, tuple(window.turns.messages), window.has_more
            )
        elif newest.loaded is not None:
            end = behind.get(newest.loaded.id)
            places = [place for place in newest.places if end is None or place[1] < end]
            messages = read_places(space, newest.loaded.id, places).messages
            conversation = newest.loaded
            if end is not None:
                conversation = self._as_of(conversation.id, end) or conversation
            loaded = ConversationLoaded(conversation, tuple(messages), newest.has_more)
        elif choice.load_conversation_id and not reset:
            raise ConversationNotFound(choice.load_conversation_id)
        now = space.clock()
        listed = Update(
            "",
            "",
            now,
            ConversationList(
                tuple(space.current(it) for it in newest.conversations if behind.get(it.id) != 0)
            ),
            reset=reset,
        )
        second = Update(
            str(position), loaded.conversation.id if loaded.conversation else "", now, loaded
        )
        return Snapshot(position, (self._log.encode(listed), self._log.encode(second)))

    def _as_of(self, conversation_id: str, end: int) -> Conversation | None:
        """Return a conversation as it was up to a byte of its transcript."""
        transcripts = self._log.space.transcripts
        conversation: Conversation | None = None
        for line in transcripts.store.read(conversation_id, START, end):
            conversation = transcripts.folded(conversation, line, conversation_id)
        return conversation


def _loaded(chosen: Filter, choice: Choice) -> Filter:
    """Return which conversations the loaded one is the newest of."""
    if choice.load_conversation_id:
        return replace(chosen, conversation_id=choice.load_conversation_id, archived=None)
    return replace(chosen, channels=(choice.load_channel,)) if choice.load_channel else chosen


class LiveUpdates(UpdateLog[Conversation]):
    """Live updates of the conversations of a space. Raises the errors of `kernel.domain.errors`."""

    kind = Kind.CONVERSATION
    giver = "service"

    def __init__(
        self,
        space: Space,
        limits: Live[LoadLimits],
        encode: Encode,
        *,
        draft_timeout: int,
        max_draft: int,
    ) -> None:
        """`limits` of a snapshot; `encode` makes what is sent; `draft_timeout` in milliseconds;
        `max_draft` in characters.
        """
        super().__init__(space, encode)
        self.drafts = Drafts(space.clock, timeout=draft_timeout, max_length=max_draft)
        self._snapshots = Snapshots(self, limits)
        self._shared = space.store.order
        # guarded by `_guard`
        self._shown: set[str] = set()  # conversations whose drafts may be shown now
        self._waiting: dict[About, int] = {}  # grown ones, until the horizon reaches this
        self._reached = 0  # everything below it came; below `_horizon`, once `advance` was called
        space.subscribe(Appended, self._appended)
        space.subscribe(Deleted, self._deleted)

    def subscribe(
        self, interest: Interest, choice: Choice, cursor: str, max_turns: int
    ) -> "Subscription":
        """Begin a subscription; call `unsubscribe` once at its end.

        Raises InvalidField, ConversationNotFound, DataUnavailable.
        """
        snapshot = partial(self._snapshots.take, interest, choice, max_turns)
        # before the position is taken: from here on the newest updates are kept in memory
        return self.subscribed(lambda: Subscription(self, snapshot, cursor, interest))

    def publish(
        self,
        conversation_id: str,
        draft_id: str,
        offset: int,
        text: str,
        *,
        done: bool,
        speaks_from: str = "",
    ) -> None:
        """Publish more text of an unfinished answer. Raises InvalidField, ConversationNotFound,
        StorageUnavailable.
        """
        with suppress(IndexUnavailable):
            # so that earlier changes are delivered before the draft
            self.space.index.settle()
        with self.space.reading(conversation_id) as state:
            channel = state.conversation.channel
            if state.conversation.pinned and speaks_from not in ("", channel):
                raise ConversationReadOnly(conversation_id, channel)
            self._grow(Part(conversation_id, draft_id, channel, offset, text, done))
        self._touch((conversation_id, channel))

    def tick(self) -> None:
        """Do the periodic work, and drop the drafts that did not grow for too long."""
        super().tick()
        for conversation_id, channel, draft_id in self.drafts.expire():
            if self._following is not None:  # else it may have grown on another process
                self._end(conversation_id, draft_id)
            self._touch((conversation_id, channel))

    @property
    def is_unfinished(self) -> bool:
        """Return whether something is on its way to the watchers, or a draft may still grow."""
        return super().is_unfinished or bool(self.drafts.about())

    # Updates --------------------------------------------------------------------------------------

    def _folded(self, before: Conversation | None, line: Line, name: str) -> Conversation | None:
        return self.space.transcripts.folded(before, line, name)

    def _indexed(self, name: str) -> tuple[Position, Conversation] | None:
        try:
            stored = self.space.index.conversations.find(name)
        except IndexUnavailable:
            return None
        if stored is None:
            return None
        return Position(stored.lines, stored.bytes), stored.state

    def _kinds_of(
        self, change: OrderedChange, state: Conversation
    ) -> Iterator[tuple[int, int, KindOfUpdate]]:
        entries = {line.sequence: line.entry for line in change.lines if line.entry is not None}
        for at_time, first, last in updates_of(change.lines, change.time):
            written = [entries[it] for it in range(first, last + 1) if it in entries]
            yield last, at_time, _kind_of(written, state)

    def _begin(self, following: Following) -> None:
        with self._guard:
            super()._begin(following)
            self._reached = 0
            self._waiting = dict.fromkeys(self.drafts.about(), 0)
        if self._shared:
            parts, ceiling = self._shared.parts()
            self.drafts.retain({(part.conversation_id, part.draft_id) for part in parts})
            self._add(parts, ceiling)

    def _take(self, changes: OrderedChanges) -> None:
        if self._following is None:
            return
        # before the changes are signalled: a draft of a conversation that these delete ends with it
        self._add(changes.parts, changes.ceiling)
        super()._take(changes)
        with self._guard:
            self._reached = changes.complete_before
            self._release()

    def _delivers(self, changes: list[OrderedChange]) -> None:
        # Drafts that a change completes end before it can be read, so that no stream sends more of
        # them after it.
        for change in changes:
            if change.action is Action.DELETE:
                self.drafts.forget(change.log)
            for draft_id in _drafts_of(change.lines):
                self.drafts.land(change.log, draft_id)
        if self._shown:
            self.drafts.show(self._shown)
            self._shown = set()

    # Drafts ---------------------------------------------------------------------------------------

    def _grow(self, part: Part) -> None:
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
            self._release()
        self.order.hurry()

    def _release(self) -> None:
        """Let `advance` show the drafts that wait for nothing more. Hold the guard."""
        for about in [it for it, ceiling in self._waiting.items() if ceiling <= self._reached]:
            del self._waiting[about]
            self._shown.add(about[0])
            self._touch(about)

    def _touch(self, about: About) -> None:
        """Note that a draft of this conversation grew or ended."""
        with self._guard:
            self._touched.add(about)
            self._signal()

    def _appended(self, event: Appended) -> None:
        """Remove the drafts that an append here completes. Streams learn it from its update."""
        for draft_id in _drafts_of(event.lines):
            self._end(event.conversation_id, draft_id)
            if self._following is None:
                self.drafts.land(event.conversation_id, draft_id)
            else:
                self.drafts.complete(event.conversation_id, draft_id)

    def _deleted(self, event: Deleted) -> None:
        for name in event.numbers:
            if self._following is None:
                self.drafts.forget(name)
            self._end(name)

    def _end(self, conversation_id: str, draft_id: str = "") -> None:
        """Let the other processes have no more of a draft, or of all of a conversation."""
        if self._shared:
            with suppress(StorageUnavailable):  # it is not given after an hour
                self._shared.end(conversation_id, draft_id)


class Subscription(Watcher):
    """Subscription of one watcher, who is sent drafts too."""

    __slots__ = ("_drafts_seen", "_sent")

    def __init__(
        self,
        log: LiveUpdates,
        snapshot: Callable[..., Snapshot],
        cursor: str,
        interest: Interest,
    ) -> None:
        self._sent: dict[DraftKey, Sent] = {}
        self._drafts_seen = -1
        super().__init__(log, snapshot, cursor, interest)

    def _begin(self, *, reset: bool) -> None:
        super()._begin(reset=reset)
        self._sent.clear()
        self._drafts_seen = -1

    def _unplaced(self) -> list[bytes]:
        drafts = cast(LiveUpdates, self._log).drafts
        version = drafts.version  # before what is read with it
        if version == self._drafts_seen:
            return []
        updates = drafts.new_parts(self._sent, self.interest.wants, self._log.encode)
        self._drafts_seen = version
        return updates


def _drafts_of(lines: Sequence[Line]) -> set[str]:
    """Return the drafts that lines complete."""
    return {line.entry.stamp.draft_id for line in lines if line.entry} - {""}


def _kind_of(written: list[Entry], conversation: Conversation) -> KindOfUpdate:
    """Return the change that lines of a transcript make, by what they say and the conversation."""
    match written[0].content:
        case Message():
            messages = [it.content for it in written if isinstance(it.content, Message)]
            return Updated(conversation, tuple(messages), written[0].stamp.draft_id)
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
        case _:  # a model, a pin, a summary
            return Updated(conversation)
