"""The task of a context, with the parts of conversations that its caller chose (turns to include,
and to exclude), and the question that it asks of the past.
"""

from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from enum import IntEnum

from recollect_server.context.context import Candidate
from recollect_server.context.relevance import overlap
from recollect_server.context.rendering.form import Form
from recollect_server.kernel.domain.ids import message_id
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.time import UNLIMITED, Deadline
from recollect_server.kernel.index.index import Index

LAST_TURN = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """Turns of a conversation; all of them, if none are named."""

    conversation_id: str
    first: int = 1
    last: int = LAST_TURN

    def has(self, conversation_id: str, turn: int) -> bool:
        """Return whether a turn is of this part."""
        return self.conversation_id == conversation_id and self.first <= turn <= self.last


@dataclass(frozen=True, slots=True)
class CallersParts:
    """The parts that a caller chose."""

    include: tuple[ConversationPart, ...] = ()
    exclude: tuple[ConversationPart, ...] = ()

    def excludes(self, conversation_id: str, turn: int) -> bool:
        """Return whether a turn must not be shown."""
        return any(it.has(conversation_id, turn) for it in self.exclude)

    def excludes_all(self, conversation_id: str) -> bool:
        """Return whether nothing of a conversation may be shown."""
        return ConversationPart(conversation_id) in self.exclude

    def ids(self, index: Index) -> frozenset[int]:
        """Return the ids of what is not to be recalled: the caller decided about it already."""
        parts = (*self.include, *self.exclude)
        numbers = index.conversations.numbers([it.conversation_id for it in parts])
        return frozenset(
            message_id(number, line)
            for it in parts
            if (number := numbers.get(it.conversation_id)) is not None
            for line, _, _ in index.messages.of_turns(number, it.first, it.last)
        )


class RecallDial(IntEnum):
    """Amount of what a context recalls; the values are the contract's numbers."""

    ALL = 1
    """All that the budget holds, the likeliest first."""
    LIKELY = 2
    """Only what is likely to help."""
    NONE = 3


@dataclass(frozen=True, slots=True)
class ShownMessages:
    """The messages of the current conversation that the context shows already."""

    conversation_id: str
    number: int | None
    """Its number in the index; None where the index does not have it."""
    sequences: frozenset[int] = frozenset()
    """The lines of the messages that are packed."""
    lent: frozenset[int] = frozenset()
    """The lines of messages that are packed unless recall takes their room: they may be recalled
    then.
    """
    newest_turn: int = 0
    """The turn that is being answered: nothing of it answers itself, whether it is packed or
    not.
    """

    def ids(self, index: Index) -> frozenset[int]:
        """Return the ids in the index of what must not be recalled."""
        if self.number is None:
            return frozenset()
        newest = index.messages.of_turns(self.number, self.newest_turn, self.newest_turn)
        return frozenset(
            message_id(self.number, line)
            for line in (*self.sequences, *(line for line, _, _ in newest))
        )


@dataclass(frozen=True, slots=True)
class Weighing:
    """Question to answer, and the means to weigh a message for it."""

    words: frozenset[str]
    now: int
    form: Form = field(default_factory=Form)
    """Form that prices a message."""
    zone: tzinfo = UTC
    """Time zone of the dates in the question, and of those that are rendered."""

    def similarity(self, message: Message) -> float:
        """Return the share of the words of the message to be answered that this one has."""
        return overlap(self.words, message.content)

    def candidate(
        self,
        conversation_id: str,
        message: Message,
        reason: str,
        similarity: float,
        summary: str = "",
    ) -> Candidate:
        """Return a message of this conversation as a candidate; `summary` is the recorded one of
        its turn.
        """
        return Candidate(
            conversation_id,
            message,
            similarity,
            reason,
            charge=max(1, self.form.own(message)),
            summary=summary,
        )


@dataclass(frozen=True, slots=True)
class ContextTask:
    """A context that is being built: what it is for, and what it may miss."""

    conversation_id: str
    message: str
    """The message to be answered."""
    question: str
    """The text to look for: that message, with the one before where it leans on that."""
    weighing: Weighing
    deadline: Deadline = UNLIMITED
    degraded: dict[str, str] = field(default_factory=dict)
    """Reasons why a part may miss something, by its name; each part adds its own."""
    parts: CallersParts = field(default_factory=CallersParts)
    """Turns that the caller decides about, whatever they score."""

    @property
    def form(self) -> Form:
        return self.weighing.form


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Question that a context asks of the past."""

    task: ContextTask
    shown: ShownMessages
    budget: int
    """Tokens that recalled messages may take."""
    dial: RecallDial
    excerpt_tokens: int
    """Tokens of a recalled message, at the most."""
    explain: bool = False
    """True if messages that scored too low are named."""
