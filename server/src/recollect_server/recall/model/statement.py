"""The profile of a person: what users said of themselves and how they want to be answered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

SURE_INSTRUCTION = 0.97
"""Probability from which an instruction is sure to be one: a task that was taken for one has words
in common with the questions about it.
"""


class StatementKind(IntEnum):
    """Subject of a statement; the values are the contract's numbers."""

    INSTRUCTION = 1
    IDENTITY = 2
    PEOPLE = 3
    HOME = 4
    WORK = 5
    HEALTH = 6
    PREFERENCE = 7
    POSSESSION = 8
    PLAN = 9


@dataclass(frozen=True, slots=True)
class StatementSpan:
    """Place of a sentence in a message that says something lasting of its writer, or how the
    assistant is to answer.
    """

    start: int
    """Its first character in the text."""
    end: int
    """The character behind its last."""
    kind: StatementKind
    probability: float
    """Probability that it is a statement of any kind."""


@dataclass(frozen=True, slots=True)
class ProfileStatement:
    """A statement in the words that were said."""

    text: str
    kind: StatementKind
    time: int
    """Time of its message, in milliseconds."""
    conversation_id: str
    sequence: int
    """Line of its message in the transcript."""
    start: int
    """Its first character in the message's content."""
    probability: float
    sender: str = ""


def by_turns(statements: Iterable[ProfileStatement]) -> list[ProfileStatement]:
    """Return statements in the order in which they get room: the first instructions, then in turns
    one of each kind; of a kind those first that come first.
    """
    kinds: dict[StatementKind, list[ProfileStatement]] = {kind: [] for kind in _ORDER}
    for it in statements:
        kinds[it.kind].append(it)
    instructions = kinds[StatementKind.INSTRUCTION]
    ordered, kinds[StatementKind.INSTRUCTION] = instructions[:_FOREMOST], instructions[_FOREMOST:]
    for at in range(max(map(len, kinds.values()))):
        ordered += [of_kind[at] for of_kind in kinds.values() if at < len(of_kind)]
    return ordered


def as_shown(statements: Sequence[ProfileStatement]) -> list[ProfileStatement]:
    """Return statements in the order in which they are shown: by kind, the newest first."""
    return sorted(statements, key=lambda it: (_ORDER.index(it.kind), -it.time, -it.sequence))


_ORDER = (
    StatementKind.INSTRUCTION,
    StatementKind.IDENTITY,
    StatementKind.HEALTH,
    StatementKind.PEOPLE,
    StatementKind.WORK,
    StatementKind.HOME,
    StatementKind.PLAN,
    StatementKind.PREFERENCE,
    StatementKind.POSSESSION,
)
"""Kinds, by how much an answer may depend on them."""
_FOREMOST = 6
"""Instructions that get room before anything else."""
