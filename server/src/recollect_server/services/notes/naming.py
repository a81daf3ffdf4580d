"""Writes the notes of conversations: abbreviation, title, topics and anchors, as events of the transcript.

The transcript is read and the model asked without any lock: whoever talks meanwhile is not held up, and a conversation that went on
is not written to but waits again. What is due is in the index (`storage/index/note_queue.py`), so nothing needs to be remembered.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import structlog

from recollect_server.domain.conversation import Abbreviated, AnchorSet, Conversation, Event, SplitSuggested, TitleAssigned
from recollect_server.domain.errors import ConversationNotFound
from recollect_server.domain.message import Message, reading_order
from recollect_server.domain.naming import notes_due, title_due
from recollect_server.domain.notes import Notes
from recollect_server.inference.language_model import CannotWrite, LanguageModel
from recollect_server.services.space.catching_up import read_unindexed
from recollect_server.services.space.space import Space
from recollect_server.storage.index.note_queue import Waiting
from recollect_server.storage.points import reach

log = structlog.get_logger("recollect.naming")


class Outcome(Enum):
    """What became of a conversation that waited."""

    WRITTEN = "written"
    WENT_ON = "went_on"
    """It changed meanwhile, and waits again."""
    NOTHING_DUE = "nothing_due"


@dataclass(frozen=True, slots=True)
class Material:
    """What a transcript tells the one who writes notes."""

    conversation: Conversation
    """As it was known before the lines were read, with those that are damaged now: by it the index decides what is due."""
    messages: list[Message]
    titled_turn: int
    """Its newest turn when it got its last title; 0 for none."""
    anchors: dict[str, str]
    """Those that stand in it: the newest value of each key."""
    split_suggested: bool
    """Whether it was suggested to split it: that is done once."""


class Naming:
    """Finds conversations that wait for notes and writes them. Safe to call from any thread, for different conversations."""

    def __init__(self, space: Space, model: LanguageModel, idle_timeout: int) -> None:
        """`idle_timeout` is in milliseconds."""
        self._space = space
        self._model = model
        self._idle_timeout = idle_timeout

    def due(self, limit: int) -> list[Waiting]:
        """Conversations that wait now, the longest idle first; some `limit` of them. Raises IndexUnavailable."""
        now = self._space.clock()
        return self._space.index.notes_due(now - self._idle_timeout, now, limit)

    def failed(self) -> list[Waiting]:
        """Conversations whose last try failed. Raises IndexUnavailable."""
        now = self._space.clock()
        return self._space.index.notes_failed(now - self._idle_timeout, now)

    def note_failure(self, waiting: Waiting, reason: str, *, alone: bool) -> None:  # noqa: ARG002 - either way it is tried again
        """Keeps why it could not be done: it is tried again with the next sweep. Raises IndexUnavailable."""
        self._space.index.note_failure(waiting.number, reason)

    def write(self, waiting: Waiting, given_up: Callable[[], bool]) -> Outcome:
        """Writes what is due for a conversation, unless it was given up when the model is done.

        Raises CannotWrite (this one failed), and what says that others would fail too: ModelUnavailable, StorageUnavailable,
        IndexUnavailable.
        """
        try:
            material = read_material(self._space, waiting.conversation_id)
            known = material.conversation
            wants_notes = waiting.idle and notes_due(known)
            if not known.message_count or not (wants_notes or title_due(known, material.titled_turn, idle=waiting.idle)):
                self._space.index.forget_wish(waiting.number)
                return Outcome.NOTHING_DUE
            if not material.messages:
                raise CannotWrite("none of its messages can be read")
            notes = self._model.write_notes(material.messages, known.abbreviation)
            return Outcome.WENT_ON if given_up() else self._record(material, notes, idle=waiting.idle)
        except ConversationNotFound:  # deleted; or somebody took the file away, and the index still waits for its notes
            self._space.index.note_failure(waiting.number, "its transcript is not there")
            return Outcome.NOTHING_DUE

    def _record(self, material: Material, notes: Notes, *, idle: bool) -> Outcome:
        conversation_id = material.conversation.id
        with self._space.locks.hold(conversation_id):
            head = self._space.end(conversation_id)
            went_on = head.conversation.message_count != material.conversation.message_count
            due = title_due(head.conversation, material.titled_turn, idle=idle)
            events: list[Event] = []
            time = self._space.clock()
            if idle and not went_on and notes_due(head.conversation):
                events.append(Abbreviated(notes.abbreviation, time, notes.topics or None))
                events += [
                    AnchorSet(anchor.key, anchor.value, anchor.confidence, anchor.sequence, time)
                    for anchor in notes.anchors
                    if material.anchors.get(anchor.key) != anchor.value
                ]
                if notes.split and not material.split_suggested:
                    events.append(SplitSuggested(notes.split.reason, notes.split.titles, time))
            if due and notes.title and not (went_on and idle):
                events.append(TitleAssigned(notes.title, notes.topics, time))
            if events:
                reach("event.begun")
                self._space.commit(head, [*events], None)
                self._space.anchors.changed()
                reach("event.recorded")
        if due and not notes.title and not head.conversation.title:
            raise CannotWrite("there is no title of 2 to 8 words")
        return Outcome.WENT_ON if went_on else Outcome.WRITTEN


def read_material(space: Space, conversation_id: str) -> Material:
    """What the transcript tells. Raises ConversationNotFound, StorageUnavailable; CannotWrite if this one cannot be read."""
    with space.locks.hold(conversation_id):
        conversation = space.end(conversation_id).conversation
    try:
        lines, _ = read_unindexed(space.folder, conversation_id, None)
    except FileNotFoundError:
        raise ConversationNotFound(conversation_id) from None
    except OSError as error:
        raise CannotWrite(f"the transcript cannot be read: {error.strerror}") from error
    messages: list[Message] = []
    anchors: dict[str, str] = {}
    titled_turn = 0
    split_suggested = False
    for line in lines:
        match line.entry.content if line.entry else None:
            case Message() as message:
                messages.append(message)
            case TitleAssigned():
                titled_turn = max((message.turn_number for message in messages), default=0)
            case AnchorSet() as anchor:
                anchors[anchor.key] = anchor.value
            case SplitSuggested():
                split_suggested = True
    messages.sort(key=reading_order)
    return Material(conversation, messages, titled_turn, anchors, split_suggested)
