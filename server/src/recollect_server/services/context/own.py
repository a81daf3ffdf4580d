"""Turns of the conversation that goes on, for its context: the newest, and earlier ones."""

import sys
from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from recollect_server.domain.anchors import Anchor
from recollect_server.domain.context import Candidate, Tier
from recollect_server.domain.message import Message
from recollect_server.domain.rendering.form import Form
from recollect_server.services.context.packing import HOT_TURNS, Preference
from recollect_server.services.context.recent_turns import RecentTurns
from recollect_server.services.context.relevance import evenly, overlap, relevance_of
from recollect_server.services.space.conversation_logs import ConversationState
from recollect_server.services.space.space import Space
from recollect_server.services.turns import Turns, turns_among, turns_of

_SHORT_TURN, _LEAST_TURNS = 20, 10
"""Tokens of a short turn, and how many of the last turns are looked at whatever the budget."""
_READ = 12
"""Bytes that are read of the last turns for each token: as JSON, and more than are packed."""
_SPACED = 12


@dataclass(frozen=True, slots=True)
class Window:
    """Numbers of turns of the conversation itself that a context considers."""

    hot_turns: int = HOT_TURNS
    warm_turns: int = 0
    """Of the last turns before the hot ones, at the most; 0: as many as the budget may hold."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """Question to answer, and the means to weigh a message for it."""

    words: frozenset[str]
    now: int
    strengths: dict[tuple[str, int], float]
    """Confidence of the anchors, by the message that they came from."""
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
        """Return a message of this conversation as a candidate, weighed by its age, its similarity
        and its anchor; `summary` is the recorded one of its turn.
        """
        strength = self.strengths.get((conversation_id, message.sequence), 0.0)
        relevance = relevance_of(
            age=self.now - message.timestamp, similarity=similarity, anchor=strength
        )
        return Candidate(
            conversation_id,
            message,
            relevance,
            reason,
            charge=max(1, self.form.own(message)),
            summary=summary,
        )


def newest(
    space: Space, recent: RecentTurns, head: ConversationState, max_bytes: int, hot_turns: int
) -> tuple[Turns, bool]:
    """Return the newest turns that no summary covers, and whether they were in memory. Hold the
    conversation's lock.

    Of more than `max_bytes` only the newest messages are read. Raises StorageUnavailable.
    """
    conversation = head.conversation
    if (cached := recent.get(conversation.id, head.lines)) is not None:
        return Turns(
            [message for message in cached if message.turn_number > conversation.compressed_through]
        ), True
    first = max(conversation.compressed_through, conversation.turn_count - hot_turns) + 1
    turns = turns_of(space, head, first, conversation.turn_count, max_bytes)
    if not turns.damaged and first <= max(1, conversation.turn_count - hot_turns + 1):
        recent.put(conversation.id, head.lines, turns.messages)
    return turns, False


def earlier(
    space: Space,
    head: ConversationState,
    anchors: list[Anchor],
    room: int,
    max_bytes: int,
    window: Window,
    tiers: Mapping[int, int],
    with_summary: AbstractSet[int],
    hot: Container[int],
) -> tuple[Turns, Preference]:
    """Return turns that no summary covers and what each is worth: the last ones before those that
    are `hot`, as many as `room` tokens may hold, and of those before them some, with those that
    the caller keeps, and the last ones that have a summary of their own. Raises StorageUnavailable.
    """
    first, last = head.conversation.compressed_through + 1, head.conversation.turn_count
    lines = [
        it.sequence for it in anchors if it.conversation_id == head.conversation.id and it.sequence
    ]
    before_hot = max(first, last - window.hot_turns)
    spaced = list(evenly(first, before_hot, _SPACED))
    most = min(window.warm_turns or sys.maxsize, max(_LEAST_TURNS, room // _SHORT_TURN))
    since = max(first, before_hot - most + 1)
    while last in hot:
        last -= 1
    read = Turns([])
    if since <= last:
        read = turns_of(space, head, since, last, min(max_bytes, _READ * room))
    messages, damaged = read.messages, read.damaged
    if messages and messages[0].turn_number > since:  # the oldest one may lack its beginning
        since = messages[0].turn_number + 1
        messages = [it for it in messages if it.turn_number >= since]
    callers = frozenset(turn for turn, tier in tiers.items() if tier in (Tier.HOT, Tier.WARM))
    short = sorted(turn for turn in with_summary if first <= turn < since)
    others = sorted({it for it in (first, *spaced, *callers, *short[-most:]) if it < since})
    if others:
        read = turns_among(space, head, others, lines, max_bytes)
        between = [
            it
            for it in read.messages
            if first <= it.turn_number < since or it.turn_number in callers.intersection(others)
        ]
        messages, damaged = [*between, *messages], damaged + read.damaged
    of_anchors = set(lines)
    anchored = frozenset(it.turn_number for it in messages if it.sequence in of_anchors)
    return Turns(messages, damaged), Preference(first, anchored, {}, spaced, callers=callers)
