"""The task of a context, and the question that it asks of the past."""

from dataclasses import dataclass, field

from recollect_server.domain.ids import message_id
from recollect_server.domain.rendering.form import Form
from recollect_server.domain.time import UNLIMITED, Deadline
from recollect_server.services.context.own import Weighing
from recollect_server.services.context.packing import Recalling
from recollect_server.services.context.parts import CallersParts
from recollect_server.storage.index.index import Index


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
    """Tokens that recalled turns may take where something is likely to fit."""
    own_budget: int
    """Tokens of the cold tier alone. Where it is doubtful by meaning that something fits, recalled
    turns may take less.
    """
    rules: Recalling
    excerpt_tokens: int
    """Tokens of a recalled message, at the most."""
    explain: bool = False
    """True if messages below the threshold are named."""
