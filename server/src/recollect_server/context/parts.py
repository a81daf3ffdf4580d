"""Parts of conversations that the caller of a context chose: turns to include, and to exclude."""

from dataclasses import dataclass

from recollect_server.kernel.domain.ids import message_id
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
