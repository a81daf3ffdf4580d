"""Activity: counts of what was written and what it cost, for charts and lists.

A fact counts what one conversation did within a quarter of an hour, on one channel and with one
model. Facts follow from the lines of a log alone, so a rebuilt index has the same.
"""

from collections.abc import Iterable
from operator import add
from typing import NamedTuple

from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    Began,
    Compressed,
    Conversation,
    MetaUpdated,
    ModelUse,
    NoteErased,
    TitleAssigned,
)
from recollect_server.kernel.domain.message import Message, Role

QUARTER = 900_000
"""Quarter of an hour in milliseconds: the precision of facts. Every time zone of today begins its
days at one.
"""
NANO = 1_000_000_000
"""Costs are counted in billionths of a US dollar, for sums of whole numbers are exact."""

_MOST = 10**15  # of one message: sums of many still fit into 63 bits
_LAST_SLOT = 253_402_300_799_999 // QUARTER


class ActivityCounts(NamedTuple):  # made by the hundred: cheaper than a frozen dataclass
    """Counts of a group within a time."""

    conversations: int = 0
    """Conversations that began."""
    turns: int = 0
    """Turns that began."""
    user_messages: int = 0
    assistant_messages: int = 0
    tool_messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int = 0
    """Billionths of a US dollar."""
    note_calls: int = 0
    """Calls of a model for the server's own notes."""
    note_input_tokens: int = 0
    note_output_tokens: int = 0
    note_cost: int = 0

    @property
    def messages(self) -> int:
        return self.user_messages + self.assistant_messages + self.tool_messages

    def plus(self, other: "ActivityCounts") -> "ActivityCounts":
        """Return the sum of both."""
        return ActivityCounts(*map(add, self, other))


COUNTERS = ActivityCounts._fields
"""Names of the counters, in the order of the tables' columns."""

_AT = {name: at for at, name in enumerate(COUNTERS)}
_ROLES = {
    Role.USER: _AT["user_messages"],
    Role.ASSISTANT: _AT["assistant_messages"],
    Role.TOOL: _AT["tool_messages"],
}
_CONVERSATIONS, _TURNS, _COST = _AT["conversations"], _AT["turns"], _AT["cost"]
_INPUT, _OUTPUT = _AT["input_tokens"], _AT["output_tokens"]
_CALLS, _NOTE_INPUT = _AT["note_calls"], _AT["note_input_tokens"]
_NOTE_OUTPUT, _NOTE_COST = _AT["note_output_tokens"], _AT["note_cost"]

Key = tuple[int, str, str]
"""Slot (quarters of an hour since 1970), channel and model of a fact."""


class Tally:
    """Counts the facts of a conversation's lines, in their order."""

    def __init__(self, before: Conversation | None) -> None:
        """`before` is the conversation without these lines."""
        self.facts: dict[Key, list[int]] = {}
        self._is_begun = before is not None
        self._turns = before.turn_count if before else 0
        self._model = before.model if before else ""

    def add(self, content: object, channel: str) -> None:
        """Count an entry of a conversation that is on a channel."""
        match content:
            case Message():
                fact = self._fact(content.timestamp, content.channel or channel)
                fact[_ROLES[content.role]] += 1
                if content.turn_number > self._turns:
                    self._turns = content.turn_number
                    fact[_TURNS] += 1
                if content.usage is not None:
                    fact[_INPUT] += min(content.usage.input, _MOST)
                    fact[_OUTPUT] += min(content.usage.output, _MOST)
                if content.cost:
                    fact[_COST] += nano(content.cost)
            case Began() if not self._is_begun:
                self._model = content.model
            case MetaUpdated(model=str() as model):
                self._model = model
            case TitleAssigned() | Abbreviated() | Compressed() | NoteErased() if (
                content.model_use is not None
            ):
                self._charge(content.time, channel, content.model_use)
        self._is_begun = True

    def begin(self, conversation: Conversation) -> None:
        """Count that the conversation began. Call it once, after its first line."""
        self._fact(conversation.create_time, conversation.channel)[_CONVERSATIONS] += 1

    def _charge(self, time: int, channel: str, use: ModelUse) -> None:
        if not (use.calls or use.input or use.output or nano(use.cost)):
            return
        fact = self._fact(time, channel)
        fact[_CALLS] += min(use.calls, _MOST)
        fact[_NOTE_INPUT] += min(use.input, _MOST)
        fact[_NOTE_OUTPUT] += min(use.output, _MOST)
        fact[_NOTE_COST] += nano(use.cost)

    def _fact(self, time: int, channel: str) -> list[int]:
        key = (slot_of(time), channel, self._model)
        fact = self.facts.get(key)
        if fact is None:
            fact = self.facts[key] = [0] * len(COUNTERS)
        return fact


def facts_of(
    before: Conversation | None, after: Conversation, contents: Iterable[object]
) -> dict[Key, list[int]]:
    """Return the facts of the contents that make `after` of `before`."""
    tally = Tally(before)
    first = before is None
    for content in contents:
        tally.add(content, after.channel)
        if first:
            tally.begin(after)
            first = False
    return tally.facts


def slot_of(time: int) -> int:
    """Return the quarter of an hour of a time; one that no calendar has counts as the nearest."""
    return min(max(time // QUARTER, 0), _LAST_SLOT)


def nano(dollars: float) -> int:
    """Return an amount of US dollars in billionths."""
    return round(min(max(dollars, 0.0) * NANO, float(_MOST)))
