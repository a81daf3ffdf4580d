"""Writes the notes of conversations: abbreviation, title, topics and anchors, as events of the
transcript.

The transcript is read and the model asked without any lock: appends meanwhile are not held up,
and a conversation that went on is not written to but waits again. What is due is in the index
(`notes/table.py`), so nothing needs to be remembered.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import structlog

from recollect_server.anchors.service import Anchors
from recollect_server.kernel.domain.conversation import (
    CALLER,
    RULE,
    Abbreviated,
    AnchorSet,
    Conversation,
    Event,
    ModelUse,
    SplitSuggested,
    TitleAssigned,
)
from recollect_server.kernel.domain.errors import ConversationNotFound
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import Message, reading_order
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.store import LogNotFound, LogUnavailable
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.space import Space
from recollect_server.notes.hosted.language_model import CannotWrite, LanguageModel
from recollect_server.notes.notes import FoundAnchor, Notes, notes_due, title_due
from recollect_server.notes.table import Waiting, notes_of
from recollect_server.text.topics import MAX_LABELS, MAX_OFFLINE_TOPICS, shared

log = structlog.get_logger("recollect.naming")

_TRIES = 3  # of one conversation by a model that answers no notes of it
_SLOWER = 4  # times as long as the one before is each wait for another try

# conversations with offline notes that are looked up at once: new notes go before the next ones
_REDONE = 4


class Outcome(Enum):
    WRITTEN = "written"
    WENT_ON = "went_on"
    """It changed meanwhile, and waits again."""
    NOTHING_DUE = "nothing_due"


@dataclass(frozen=True, slots=True)
class Material:
    """Material of a transcript for the writer of notes."""

    conversation: Conversation
    """As it was known before the lines were read, with those that are damaged now: by it the index
    decides what is due.
    """
    messages: list[Message]
    titled_turn: int
    """Its newest turn when it got its last title; 0 for none."""
    anchors: dict[str, AnchorSet]
    """Those that stand in it: of each key the one that was said last."""
    split_suggested: bool
    """True if a split was suggested before: that is done once."""
    is_redacted: bool = False
    """True if messages of it are redacted."""
    redactions: int = 0
    """Number of its redactions until then."""
    number: int | None = None
    """Its number in the index: one that gets the id of a deleted conversation has another."""

    def is_new(self, anchor: FoundAnchor, time: int) -> bool:
        """Return whether an anchor that was found in a message of this time changes its key: the
        conversation has none for it, or an earlier one with another value.
        """
        last = self.anchors.get(anchor.key)
        return last is None or (time >= last.time and anchor.value != last.value)

    def is_of(self, space: Space, state: ConversationState) -> bool:
        """Return whether notes of this material may be recorded: the conversation was not redacted
        since, nor deleted. Hold its lock.
        """
        redactions = space.redactions.count(self.conversation.id)
        return (redactions, state.number) == (self.redactions, self.number)


class Naming:
    """Finds conversations that wait for notes and writes them. Safe to call from any thread, for
    different conversations.
    """

    def __init__(
        self,
        space: Space,
        model: LanguageModel,
        idle_timeout: Live[int],
        may_redo: Callable[[], bool] = lambda: False,
        *,
        offline: LanguageModel | None = None,
        retry_after: Live[int],
        title_turns: Live[int],
        first_title_turn: Live[int],
    ) -> None:
        """`idle_timeout` and `retry_after`, the shortest wait for another try, are in milliseconds;
        `may_redo` tells whether offline notes may be written anew just now. `offline` writes where
        the model is given up. `title_turns` are those after which a title is looked at again;
        `first_title_turn` is the turn from which an idle conversation gets its first one.
        """
        self._space = space
        self._model = model
        self._idle_timeout = idle_timeout
        self._may_redo = may_redo
        self._offline = offline
        self._retry_after = retry_after
        self._title_turns = title_turns
        self._first_title_turn = first_title_turn

    def due(self, now: int, limit: int) -> list[Waiting]:
        """Return up to `limit` conversations that wait at a time, the longest idle first.

        If none waits, return a few whose offline notes may be rewritten.
        """
        timeout = self._idle_timeout.now
        idle_before = now - timeout
        waiting = notes_of(self._space.index).due(
            idle_before, now + timeout, limit, by_rule=self._model.writer == RULE
        )
        if waiting or not self._may_redo():
            return waiting
        return notes_of(self._space.index).offline(idle_before, min(limit, _REDONE))

    def failed(self, now: int) -> list[Waiting]:
        """Return conversations whose last try failed and that are to be tried again by now."""
        timeout = self._idle_timeout.now
        return notes_of(self._space.index).failed(
            now - timeout, now + timeout, now, self._model.name
        )

    def any_waits(self) -> bool:
        """Return whether the last try of some conversation failed and it is to be tried again."""
        return notes_of(self._space.index).next_try(self._model.name) is not None

    def due_at(self, sweep: int) -> int | None:
        """Return when a conversation waits next, given the time of the next sweep; None if none
        will before something is written.
        """
        now, notes = self._space.clock(), notes_of(self._space.index)
        if self.due(now, 1):
            return now
        idle = notes.idle_next(by_rule=self._model.writer == RULE)
        times = [] if idle is None else [idle + self._idle_timeout.now]
        if (next_try := notes.next_try(self._model.name)) is not None:
            times.append(max(sweep, next_try))
        return min(times, default=None)

    def note_failure(self, waiting: Waiting, reason: str, *, alone: bool) -> None:  # noqa: ARG002 - either way it is tried again
        """Record the reason of a failure: the next sweep tries again."""
        notes_of(self._space.index).keep_failure(waiting.number, reason)

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Write the notes that are due for a conversation, unless the task was `given_up` before
        the model answered.

        Raises CannotWrite (this one failed), and what says that others would fail too:
        ModelUnavailable, DataUnavailable.
        """
        try:
            material = read_material(self._space, waiting.conversation_id)
            conversation = material.conversation
            waiting = replace(waiting, redo=waiting.redo or self._is_redone(conversation))
            if not conversation.message_count or not (
                self._wants_title(conversation, material, waiting, self._model)
                or self._wants_notes(conversation, waiting, self._model)
            ):
                notes_of(self._space.index).forget_wish(waiting.number)
                return Outcome.NOTHING_DUE
            if not material.messages:
                raise CannotWrite(
                    "its messages are redacted"
                    if material.is_redacted
                    else "none of its messages can be read"
                )
            return self._ask(material, waiting, given_up)
        except ConversationNotFound:
            # deleted; or somebody took the file away, and the index still waits for its notes
            notes_of(self._space.index).keep_failure(waiting.number, "its transcript is not there")
            return Outcome.NOTHING_DUE

    def _ask(self, material: Material, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Ask the model for the notes and record them. After too many tries the offline writer
        writes what the model did not.
        """
        notes = notes_of(self._space.index)
        try:
            outcome = self._written_by(self._model, material, waiting, given_up)
        except CannotWrite as error:
            if self._offline is None or given_up():
                raise
            name = self._model.name
            tries = notes.refusals(waiting.number, name) + 1
            retry_after = self._retry_after.now
            wait = retry_after * _SLOWER ** (tries - 1) - retry_after // 2
            next_try = self._space.clock() + wait if tries < _TRIES else None
            messages = material.conversation.message_count
            notes.keep_refusal(waiting.number, name, messages, tries, next_try)
            if next_try is not None:
                raise
            waiting = replace(waiting, redo=False)
            self._written_by(self._offline, material, waiting, given_up)
            notes.forget_wish(waiting.number)
            reason = f"{error}; the model was given up after {tries} tries, until it goes on"
            raise CannotWrite(reason) from error
        if outcome is Outcome.WRITTEN and notes.refusals(waiting.number, self._model.name):
            notes.forget_refusals(waiting.number)
        return outcome

    def _written_by(
        self, by: LanguageModel, material: Material, waiting: Waiting, given_up: Callable[[], bool]
    ) -> Outcome:
        labels = notes_of(self._space.index).labels(MAX_LABELS)
        by.take_use()  # of a try that came to nothing
        notes = by.write_notes(material.messages, material.conversation.abbreviation, labels)
        topics: Sequence[str] = notes.topics
        if by.writer == RULE:
            everywhere = notes_of(self._space.index).said_everywhere(topics)
            topics = [it for it in topics if it not in everywhere]
        notes = replace(notes, topics=shared(topics, labels)[:MAX_OFFLINE_TOPICS])
        if given_up():
            return Outcome.WENT_ON
        return self._record(material, notes, waiting, by, by.take_use())

    def _wants_notes(self, conversation: Conversation, waiting: Waiting, by: LanguageModel) -> bool:
        if conversation.abbreviation_record.stands_before(by.writer):
            return False
        return waiting.redo or (waiting.idle and notes_due(conversation))

    def _wants_title(
        self, conversation: Conversation, material: Material, waiting: Waiting, by: LanguageModel
    ) -> bool:
        if conversation.title_record.writer == CALLER or conversation.title_record.stands_before(
            by.writer
        ):
            return False
        if title_due(
            conversation,
            material.titled_turn,
            idle=waiting.idle,
            every_turns=self._title_turns.now,
            first_turn=self._first_title_turn.now,
        ):
            return True
        redo = waiting.redo and self._wants_notes(conversation, waiting, by)
        return redo and bool(conversation.title) and not conversation.manually_named

    def _is_redone(self, conversation: Conversation) -> bool:
        """Return whether offline notes that have everything are written anew just now."""
        offline = conversation.abbreviation_record.writer == RULE != self._model.writer
        return offline and not notes_due(conversation) and self._may_redo()

    def _record(
        self,
        material: Material,
        notes: Notes,
        waiting: Waiting,
        by: LanguageModel,
        use: ModelUse | None,
    ) -> Outcome:
        idle = waiting.idle
        conversation_id = material.conversation.id
        with self._space.writing(conversation_id) as state:
            if not material.is_of(self._space, state):
                return Outcome.WENT_ON
            went_on = state.conversation.message_count != material.conversation.message_count
            due = self._wants_title(state.conversation, material, waiting, by)
            events: list[Event] = []
            time = self._space.clock()
            if not went_on and self._wants_notes(state.conversation, waiting, by):
                events.append(
                    Abbreviated(
                        notes.abbreviation, time, notes.topics or None, by.writer, by.model, use
                    )
                )
                times = {it.sequence: it.timestamp for it in material.messages}
                events += [
                    AnchorSet(it.key, it.value, it.confidence, it.sequence, times[it.sequence])
                    for it in notes.anchors
                    if material.is_new(it, times[it.sequence]) and (it.value or self._holds(it))
                ]
                if notes.split and not material.split_suggested:
                    events.append(SplitSuggested(notes.split.reason, notes.split.titles, time))
            titled = state.conversation.title, state.conversation.title_record.writer
            is_new = bool(notes.title) and titled != (notes.title, by.writer)
            if due and is_new and not (went_on and (idle or waiting.redo)):
                # both are of the same calls: the first has them
                own_use = None if events else use
                events.append(
                    TitleAssigned(notes.title, notes.topics, time, by.writer, by.model, own_use)
                )
            if events:
                hit("event.begun")
                self._space.append(state, events)
                hit("event.recorded")
        untitled = due and not notes.title and not state.conversation.title
        if untitled and by is not self._offline:
            raise CannotWrite("there is no title of 2 to 6 words")
        if waiting.redo and not went_on:
            notes_of(self._space.index).forget_wish(waiting.number)
        return Outcome.WENT_ON if went_on else Outcome.WRITTEN

    def _holds(self, denial: FoundAnchor) -> bool:
        """Return whether anything holds that a message takes back."""
        return bool(Anchors(self._space).listed(denial.key, include_superseded=False))


def read_material(space: Space, conversation_id: str) -> Material:
    """Return the material of a transcript. Raises ConversationNotFound, StorageUnavailable;
    CannotWrite if this one cannot be read.
    """
    with space.writing(conversation_id) as state:
        conversation, number = state.conversation, state.number
        redactions = space.redactions.count(conversation_id)
    try:
        lines = list(space.store.read(conversation_id))
    except LogNotFound:
        raise ConversationNotFound(conversation_id) from None
    except LogUnavailable as error:
        raise CannotWrite(str(error)) from error
    messages: list[Message] = []
    anchors: dict[str, AnchorSet] = {}
    titled_turn = 0
    split_suggested = is_redacted = False
    for line in lines:
        match line.entry.content if line.entry else None:
            case Message() as message if message.redaction is None:
                messages.append(message)
            case Message():
                is_redacted = True
            case TitleAssigned():
                titled_turn = max((message.turn_number for message in messages), default=0)
            case AnchorSet() as anchor:
                anchors[anchor.key] = anchor
            case SplitSuggested():
                split_suggested = True
    messages.sort(key=reading_order)
    return Material(
        conversation,
        messages,
        titled_turn,
        anchors,
        split_suggested,
        is_redacted,
        redactions,
        number,
    )
