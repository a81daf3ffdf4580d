"""What an import is about to do, in the house's types: readers of files make plans, `sending` carries them out."""

from dataclasses import dataclass, field

from recollect_server.domain.conversation import Began, Event
from recollect_server.domain.message import Message


@dataclass(frozen=True, slots=True)
class Skip:
    """Something that was not brought in or not written, where it stands, and why."""

    where: str
    """`file:line`, or what else names it."""
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Placed:
    """A message, and where it stands."""

    message: Message
    where: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages that belong into one append, as far as one may hold them. `number` names it in its conversation, in every run."""

    number: str
    messages: list[Placed]


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of the conversation, after the batches before it. `number` as in Batch."""

    number: str
    event: Event
    where: str


@dataclass(frozen=True, slots=True)
class Plan:
    """One conversation to bring in."""

    key: tuple[str, ...]
    """What names it in every run, wherever the file lies. The request ids are made of it."""
    where: str
    began: Began
    """Its id is the one that it has at home, empty where it has none."""
    steps: list[Batch | Happened]
    """In their order."""
    skips: list[Skip] = field(default_factory=list)
    """What was found wrong when reading."""

    @property
    def message_count(self) -> int:
        """How many messages there are to send."""
        return sum(len(step.messages) for step in self.steps if isinstance(step, Batch))


@dataclass(slots=True)
class Tally:
    """What came of it."""

    conversations_new: int = 0
    conversations_known: int = 0
    messages_new: int = 0
    messages_known: int = 0
    ids_given: int = 0
    """New conversations that have another id than at home, or had none there."""
    skips: list[Skip] = field(default_factory=list)

    def skip(self, where: str, reason: str) -> None:
        """Notes that something stays behind."""
        self.skips.append(Skip(where, reason))

    def add(self, other: "Tally") -> None:
        """Adds what came of another conversation."""
        self.conversations_new += other.conversations_new
        self.conversations_known += other.conversations_known
        self.messages_new += other.messages_new
        self.messages_known += other.messages_known
        self.ids_given += other.ids_given
        self.skips += other.skips
