"""The working context: what the agent's model sees of a conversation now, and pages of what it saw
before. Its turns are read each time (`turns`).
"""

from dataclasses import dataclass, field

from recollect_server.kernel.domain.budget import message_tokens, newest_turns
from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import ConversationNotFound
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import Message, reading_order
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.store import LogNotFound
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import (
    KeptMessages,
    Turns,
    from_index,
    message_at,
    read_turns,
    unindexed_lines,
)

_LAST = 1 << 31  # no turn has a higher number


@dataclass(frozen=True, slots=True)
class LoadResult:
    conversation: Conversation | None = None
    turns: Turns = field(default_factory=lambda: Turns([]))
    has_more: bool = False
    compression_summary: str = ""
    cut_before: int = 0
    """The first line answered, where the turn that it is of is cut."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Limits of a load: turns, estimated tokens, and bytes as stored."""

    max_turns: int
    max_tokens: int
    max_bytes: int


class WorkingContext:
    """Loads working contexts. Raises the errors of `kernel.domain.errors`; safe to call from any
    thread.
    """

    def __init__(self, space: Space, defaults: Live[LoadLimits]) -> None:
        self._space = space
        self._defaults = defaults

    def most_recent(self, channel: str) -> str | None:
        """Return the conversation of a channel with the newest message, or None."""
        newest = self._space.index.conversations.select(
            Filter(channels=(channel,), archived=False), 1
        )
        return newest[0].state.id if newest else None

    def load(
        self,
        conversation_id: str,
        *,
        max_turns: int = 0,
        max_tokens: int = 0,
        before_turn: int = 0,
        before_sequence: int = 0,
    ) -> LoadResult:
        """Return the newest turns of a conversation, or those before a turn or a line. 0 means the
        default.
        """
        defaults = self._defaults.now
        limits = LoadLimits(
            max_turns or defaults.max_turns, max_tokens or defaults.max_tokens, defaults.max_bytes
        )
        head = self._space.read(conversation_id)
        conversation = head.conversation
        history = bool(before_turn or before_sequence)
        after_turn = 0 if history else conversation.compressed_through
        summary = "" if history else conversation.compression_summary
        try:
            turns, has_more, cut = self._tail(
                head, before_turn, before_sequence, after_turn, limits
            )
        except LogNotFound:  # deleted since `head` was read
            raise ConversationNotFound(conversation_id) from None
        cut_before = turns.messages[0].sequence if cut and turns.messages else 0
        return LoadResult(conversation, turns, has_more, summary, cut_before)

    def _tail(
        self,
        head: ConversationState,
        before_turn: int,
        before_sequence: int,
        after_turn: int,
        limits: LoadLimits,
    ) -> tuple[Turns, bool, bool]:
        """Return the turns, whether there are older messages, and whether the only turn is cut."""

        def ask(index: Index, number: int) -> tuple[Turns, bool, bool]:
            places, has_more, cut = index.messages.tail(
                number,
                before_turn=before_turn,
                before_sequence=before_sequence,
                after_turn=after_turn,
                max_turns=limits.max_turns,
                max_tokens=limits.max_tokens,
                max_bytes=limits.max_bytes,
            )
            last = min(before_turn - 1 if before_turn else _LAST, head.conversation.turn_count)
            first = None if cut else 0 if has_more and last > after_turn else after_turn + 1
            newest = None if before_sequence else last
            return read_turns(self._space, head, places, first, newest), has_more, cut

        if tail := from_index(self._space, head, ask):
            return tail
        at = message_at(self._space, head, before_sequence) if before_sequence else None

        def offered(message: Message) -> bool:
            if before_turn and message.turn_number >= before_turn:
                return False
            if at is not None:
                return reading_order(message) < reading_order(at)
            return not before_sequence or message.sequence < before_sequence

        newest = KeptMessages(limits.max_bytes, newest=True)
        damaged = 0
        for line in unindexed_lines(self._space, head):
            damaged += line.entry is None
            if (
                line.entry
                and isinstance(message := line.entry.content, Message)
                and offered(message)
            ):
                newest.add(message, line.length)
        chosen, cut = newest_turns(
            (
                (m.turn_number, message_tokens(m), length, m)
                for m, length in reversed(newest.in_order())
            ),
            after_turn=after_turn,
            max_turns=limits.max_turns,
            max_tokens=limits.max_tokens,
            max_bytes=limits.max_bytes,
        )
        return Turns(chosen, damaged), len(chosen) < newest.count, cut
