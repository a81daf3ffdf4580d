# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: recall."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.conversation import (
    Conversation,
)
from recollect._types.message import Message
from recollect._types.message_parts import Role


class RecentOrder(StrEnum):
    """Order of Recent."""

    NEWEST_FIRST = "newest_first"
    """The newest `update_time` first."""
    OLDEST_FIRST = "oldest_first"
    """The oldest `update_time` first."""


@dataclass(frozen=True, slots=True)
class DateRange:
    """A span of time. An unset end is open.

    >>> DateRange(start=datetime(2026, 2, 1, tzinfo=UTC))
    """

    start: datetime | None = None
    """At or after this moment."""
    end: datetime | None = None
    """Before this moment. Later than `start` if both are set."""


@dataclass(frozen=True, slots=True)
class TurnRange:
    """A span of turns, both ends included."""

    first: int
    """The first turn, from 1."""
    last: int = 0
    """The last turn. Not before `first`."""


@dataclass(frozen=True, slots=True)
class TextRange:
    """A span of a text, in Unicode code points: neither bytes nor UTF-16 units."""

    start: int = 0
    """The first character, from 0."""
    end: int = 0
    """One past the last character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LegScore:
    """Score that one retriever ("leg") gave to a result."""

    leg: str = ""
    """The retriever: `keyword_messages`, `keyword_conversations` (all words of a conversation,
    with those of its title, topics and abbreviation), `vector_messages` (a message by its
    meaning), `vector_abbreviations`. `SearchResponse.legs_run` names those that ran.
    `similar_words` is no retriever: it compares the word pieces of the best messages with the
    question's, one by one.
    """
    rank: int = 0
    """The result's rank in that retriever, from 1."""
    score: float = 0.0
    """The retriever's own score, which is not a probability. Higher is better; comparable only
    within the retriever and the response. By words: the share of the best result's score. By
    meaning: the cosine to the question. `similar_words`: the mean of the highest cosines that
    the question's pieces have in the message or beside it, each weighed by how rare its word
    is.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedLeg:
    """A part of search that could not answer, or that may miss results; in the second case it
    is in `legs_run` too.
    """

    leg: str = ""
    """The retriever."""
    reason: str = ""
    """The reason, in one sentence. It begins with `keyword_budget:` if a question has so many
    words, or words so common, that a part of their places was searched.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A conversation that a search found."""

    conversation_id: str = ""
    """The conversation."""
    conversation_name: str = ""
    """Its name (see Conversation.name)."""
    channel: str = ""
    """Its channel."""
    snippet: str = ""
    """`snippet_text` with each of its `snippet_matches` enclosed in U+E000 and U+E001, which
    have no meaning in stored text.
    """
    turn_range: TurnRange | None = None
    """The turns around its best match, for FetchContext: from the first to the last of those
    `matched_turns` that lie within five turns of each other, the best one among them. Unset if
    only its notes matched.
    """
    matched_turns: tuple[int, ...] = ()
    """The turns with the best matching messages, best first. At most 10. Empty if only its
    notes matched.
    """
    date: datetime
    """The time of its best message; if only its notes matched, of its newest message."""
    score: float = 0.0
    """The probability, from 0 to 1, that this conversation answers the question: at least that
    of each one behind it, so the first result's score says whether anything found answers, and
    it means the same in every response: below 0.3 most likely nothing does. Where words were
    not compared one by one (by words alone, in other languages than English, before the best
    message is embedded), that this conversation or one further down the ranking answers.
    """
    topics: tuple[str, ...] = ()
    """Its topics."""
    abbreviation: str = ""
    """Its abbreviation. Unset if it has none."""
    explanation: tuple[LegScore, ...] = ()
    """The score of each retriever, if `explain` was set."""
    snippet_from_notes: bool = False
    """True if `snippet_text` is a part of its abbreviation, title or topics: these matched, and
    none of its messages has the words.
    """
    snippet_text: str = ""
    """The part of its best message that fits the query, on one line, at most some 240
    characters. If a message of more than some 250 words has none of the words, the part nearest
    in meaning; of a shorter one the beginning. Of very long messages, the first parts with the
    words are compared: some 30,000 characters of each, and some 260,000 more in a response.
    """
    snippet_matches: tuple[TextRange, ...] = ()
    """The words of `snippet_text` that match, by their letters or by their meaning, in order;
    none overlaps another.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideMessage:
    """A message that stands right before or behind one which was found."""

    sequence: int = 0
    """Its line in the transcript."""
    turn_number: int = 0
    """Its turn."""
    role: Role
    """The role of its speaker."""
    sender: str = ""
    """The speaker's name, if one was stored."""
    date: datetime
    """Time at which it was said."""
    text: str = ""
    """Its beginning, on one line: at most some 600 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A message that a search found, independent of its conversation's rank. It may contain
    none of the words: an answer often stands next to a message that has them.
    """

    conversation_id: str = ""
    """The conversation it belongs to."""
    sequence: int = 0
    """Its line in the transcript."""
    turn_number: int = 0
    """Its turn."""
    role: Role
    """The role of its speaker."""
    sender: str = ""
    """The speaker's name, if one was stored."""
    snippet: str = ""
    """`snippet_text` with its `snippet_matches` marked, as in SearchResult."""
    date: datetime
    """Time at which it was said."""
    score: float = 0.0
    """The probability, from 0 to 1, that this message answers the question, at least that of
    each one behind it, as in SearchResult.
    """
    explanation: tuple[LegScore, ...] = ()
    """The score of each retriever, if `explain` was set."""
    snippet_text: str = ""
    """The part of it that fits the query, as in SearchResult."""
    snippet_matches: tuple[TextRange, ...] = ()
    """The words of `snippet_text` that match, as in SearchResult."""
    before: BesideMessage | None = None
    """The message right before it, if `moment` was set. Unset where there is none in
    `date_range`.
    """
    after: BesideMessage | None = None
    """The message right behind it: the reply, if this one asks something and the next one is by
    somebody else, and in any case if `moment` was set. Unset where there is none in
    `date_range`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAnswer:
    """The answer of a search."""

    results: tuple[SearchResult, ...] = ()
    """The conversations, best first."""
    hits: tuple[SearchHit, ...] = ()
    """The messages, best first, independent of their conversation."""
    total_matches: int = 0
    """Number of conversations that have any of the words or are near in meaning, before
    `limit`. If rarer words are present, words so common that reading all their places would
    take long are left out of the search and of this count. Every search does a bounded amount
    of work, whatever is asked of however much: where all words are common, or more than 1024, a
    part is searched, and `degraded` says so.
    """
    legs_run: tuple[str, ...] = ()
    """The retrievers that answered."""
    degraded: tuple[DegradedLeg, ...] = ()
    """The retrievers that could not answer, with the reason."""
    has_more: bool = False
    """True if results or hits were left out because the answer would be too large (see
    ConversationService): ask with a smaller `limit` or a narrower filter.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedContext:
    """Turns of a conversation, around something that was found."""

    conversation_id: str = ""
    """The conversation."""
    conversation_name: str = ""
    """Its name (see Conversation.name)."""
    channel: str = ""
    """Its channel."""
    messages: tuple[Message, ...] = ()
    """The messages of those turns, oldest first."""
    total_turns: int = 0
    """Number of turns of the conversation."""
    damaged_lines: int = 0
    """Number of damaged lines of the transcript in that range, which are left out."""
    has_more: bool = False
    """True if the answer would be too large with all of those messages (see
    ConversationService), so that the last ones are left out: ask for the same turns, with the
    last `sequence` of this response as `after_sequence`. Turns are whole, unless a single one
    is too large.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentConversation:
    """A conversation in the list of Recent."""

    conversation: Conversation
    """The conversation, with its abbreviation if it has one."""
    snippet: str = ""
    """The beginning of its newest message, if it has no abbreviation. At most some 240
    characters.
    """
