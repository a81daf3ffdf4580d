"""Answers of recall: conversations and messages that a search found."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from recollect._types.conversation import Conversation
from recollect._types.message import Message, Role

MATCH_START = "\ue000"
"""Stands in a snippet before words that match."""
MATCH_END = "\ue001"
"""Stands in a snippet after words that match."""


class RecentOrder(StrEnum):
    """The order of `recall.recent`."""

    NEWEST_FIRST = "newest_first"
    """The newest `update_time` first."""
    OLDEST_FIRST = "oldest_first"
    """The oldest `update_time` first."""


@dataclass(frozen=True, slots=True)
class DateRange:
    """A span of time. An end that is `None` is open.

    >>> DateRange(start=datetime(2026, 2, 1, tzinfo=UTC))
    """

    start: datetime | None = None
    """At or after this moment."""
    end: datetime | None = None
    """Before this moment."""


@dataclass(frozen=True, slots=True)
class TurnRange:
    """A span of turns, both ends included."""

    first: int
    """The first turn, from 1."""
    last: int
    """The last turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegScore:
    """The part of one retriever in a result's score."""

    leg: str
    """The leg: `keyword_messages`, …"""
    rank: int
    """The result's place in that leg, from 1."""
    score: float
    """The leg's own score. Comparable only within the leg and the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedLeg:
    """A part of search that could not answer."""

    leg: str
    """The leg."""
    reason: str
    """Why, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A conversation that was found."""

    conversation_id: str
    """The conversation."""
    conversation_name: str
    """Its name, as `Conversation.name`."""
    channel: str
    """Its channel."""
    snippet: str
    """The part of its best message that fits. Words that match stand between `MATCH_START` and
    `MATCH_END`.
    """
    turn_range: TurnRange | None
    """The turns around the best match, for `fetch_context`. None where only its notes matched."""
    matched_turns: tuple[int, ...]
    """The turns with the best matching messages, best first."""
    date: datetime
    """The time of its best message."""
    score: float
    """The probability that the question is answered in this conversation or further down. Below 0.3
    most likely nothing answers.
    """
    topics: tuple[str, ...]
    """Its topics."""
    abbreviation: str
    """Its abbreviation. Empty if it has none."""
    explanation: tuple[LegScore, ...]
    """The part of each retriever, with `explain`."""
    snippet_from_notes: bool = False
    """True if `snippet` is a part of its abbreviation, title or topics: none of its messages has
    the words.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A message that was found, whatever its conversation's place among the results."""

    conversation_id: str
    """The conversation it belongs to."""
    sequence: int
    """Its line in the transcript."""
    turn_number: int
    """Its turn."""
    role: Role
    """The speaker."""
    sender: str
    """The speaker's name, where one was stored."""
    snippet: str
    """The part of it that fits, marked as in `SearchResult`."""
    date: datetime
    """The time of the message."""
    score: float
    """The probability that the question is answered in this message or further down."""
    explanation: tuple[LegScore, ...]
    """The part of each retriever, with `explain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The answer of a search."""

    results: tuple[SearchResult, ...]
    """The conversations, best first."""
    hits: tuple[SearchHit, ...]
    """The messages, best first, whatever their conversation."""
    total_matches: int
    """The number of conversations that matched, before the limit."""
    legs_run: tuple[str, ...]
    """The parts of search that answered."""
    degraded: tuple[DegradedLeg, ...]
    """The parts that could not, and why."""
    has_more: bool = False
    """True if results or hits were left out because the answer would be too large: ask with a
    smaller limit.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedContext:
    """Turns of a conversation, around something that was found."""

    conversation_id: str
    """The conversation."""
    conversation_name: str
    """Its name, as `Conversation.name`."""
    channel: str
    """Its channel."""
    messages: tuple[Message, ...]
    """The messages of those turns, oldest first."""
    total_turns: int
    """The number of the conversation's turns."""
    damaged_lines: int
    """The number of damaged lines of the transcript in that range, which were left out."""
    has_more: bool = False
    """True if the last messages of those turns are left out: ask with the last `sequence` as
    `after_sequence`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentConversation:
    """A conversation as a browser of the past sees it."""

    conversation: Conversation
    """The conversation, with its abbreviation where it has one."""
    snippet: str
    """The beginning of its newest message, where it has no abbreviation."""


class RecentPage(tuple[RecentConversation, ...]):
    """The answer of `recall.recent`: a tuple of the conversations, in the order asked for."""

    has_more: bool = False
    """True if some were left out because the answer would be too large: ask for those after the
    last one.
    """

    @classmethod
    def of(cls, entries: Iterable[RecentConversation], *, has_more: bool) -> Self:
        """Return the page of these conversations."""
        page = cls(entries)
        page.has_more = has_more
        return page
