"""What the conversation that goes on gives to its context: its newest turns, and earlier ones."""

from dataclasses import dataclass

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.context import Candidate
from recollect_server.domain.message import Message
from recollect_server.domain.packing import HOT_TURNS
from recollect_server.domain.relevance import Weights, evenly, overlap
from recollect_server.services.space.head import Head
from recollect_server.services.space.space import Space
from recollect_server.services.working_context import Turns, turns_among, turns_of

WARM_TURNS = 50
"""Earlier turns that are all looked at. Of more, some are chosen."""
_LAST, _SPACED = 10, 12  # of a long conversation: its last turns before the hot ones, and others evenly spaced


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be answered, and what a message is worth for it."""

    words: frozenset[str]
    now: int
    weights: Weights
    strengths: dict[tuple[str, int], float]
    """How sure the anchors are, by the message that they came from."""

    def candidate(self, conversation_id: str, message: Message, reason: str) -> Candidate:
        """A message of this conversation: it is near to what was asked as far as it has the words."""
        strength = self.strengths.get((conversation_id, message.sequence), 0.0)
        relevance = self.weights.relevance(
            age=self.now - message.timestamp, similarity=overlap(self.words, message.content), anchor=strength
        )
        return Candidate(conversation_id, message, relevance, reason)


def newest(space: Space, head: Head, max_bytes: int) -> tuple[Turns, bool]:
    """The newest turns that no summary covers, and whether they were in memory. Hold the conversation's lock.

    Of more than `max_bytes` only the newest messages are read. Raises StorageUnavailable.
    """
    conversation = head.conversation
    if (kept := space.tails.get(conversation.id, head.lines)) is not None:
        return Turns([message for message in kept if message.turn_number > conversation.compressed_through]), True
    first = max(conversation.compressed_through, conversation.turn_count - HOT_TURNS) + 1
    found = turns_of(space, head, first, conversation.turn_count, max_bytes)
    if not found.damaged and first <= max(1, conversation.turn_count - HOT_TURNS + 1):
        space.tails.put(conversation.id, head.lines, found.messages)
    return found, False


def earlier(space: Space, head: Head, anchors: list[Anchor], max_bytes: int) -> tuple[Turns, dict[int, str]]:
    """Turns that no summary covers, the newest too, and why each was chosen. Raises StorageUnavailable."""
    first, last = head.conversation.compressed_through + 1, head.conversation.turn_count
    if last - first < WARM_TURNS + HOT_TURNS:
        return turns_of(space, head, first, last, max_bytes), dict.fromkeys(range(first, last + 1), "an earlier turn")
    chosen = dict.fromkeys(evenly(first, last, _SPACED), "one of turns evenly spaced")
    chosen |= dict.fromkeys(range(last - HOT_TURNS - _LAST + 1, last + 1), "one of the last turns before the newest")
    chosen[first] = "the first turn"
    lines = [it.sequence for it in anchors if it.conversation_id == head.conversation.id and it.sequence]
    found = turns_among(space, head, sorted(chosen), lines, max_bytes)
    spoken = {message.sequence: message.turn_number for message in found.messages}
    chosen |= {spoken[line]: "an anchor came from it" for line in lines if line in spoken and first <= spoken[line] <= last}
    kept = [message for message in found.messages if first <= message.turn_number <= last]
    return Turns(kept, found.damaged), chosen
