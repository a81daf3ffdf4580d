"""Contexts as `recall.build_context` returns them, anchors, and tiers."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.conversation import SplitSuggestion
from recollect._types.external import ExternalMessage, Trust
from recollect._types.message import Message
from recollect._types.recall import DegradedLeg, TurnRange


class ContextTier(StrEnum):
    """The tier that a piece of context comes from."""

    HOT = "hot"
    """The last turns of this conversation, from memory."""
    WARM = "warm"
    """Earlier turns of this conversation."""
    COLD = "cold"
    """Everything else that fits the message, earlier turns of this conversation too."""


class ContextFormat(StrEnum):
    """The form of `BuiltContext.rendered`."""

    PARTS = "parts"
    """Nothing rendered: read the parts."""
    XML = "xml"
    """One XML block."""
    OPENAI_MESSAGES = "openai_messages"
    """A JSON array of messages as the OpenAI API takes it."""
    ANTHROPIC_MESSAGES = "anthropic_messages"
    """A JSON array of messages as the Anthropic API takes it."""
    RECALL_BLOCK = "recall_block"
    """A short text of what was said before, with sources."""


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The most tokens of a context. `None` means the server's default; of a total alone each
    tier has its usual share.

    >>> ContextBudget(total=2000)
    """

    hot: int | None = None
    """For the hot tier."""
    warm: int | None = None
    """For the warm tier, with what the hot one left."""
    cold: int | None = None
    """For the cold tier, with what the warm one left."""
    total: int | None = None
    """For everything that is rendered: all three, and anchors, summary and markup."""


@dataclass(frozen=True, slots=True)
class AnchorSource:
    """The message that an anchor came from."""

    conversation_id: str
    """The conversation."""
    sequence: int
    """The message's line in the transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A lasting fact about the user, as in "name: Alex"."""

    key: str
    """The subject of the fact."""
    value: str
    """The fact."""
    confidence: float
    """The confidence, from 0 to 1."""
    source: AnchorSource | None
    """The message it came from. `None` if it has none."""
    create_time: datetime
    """The time at which it was set."""
    superseded_time: datetime | None
    """The time at which another value replaced it. `None` while it holds."""
    supersedes: str
    """The value that it took the place of. Empty if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A message that was packed."""

    conversation_id: str
    """The conversation it is from."""
    message: Message
    """The message."""
    tokens: int
    """Its tokens in the budget."""
    relevance: float
    """From 0 to 1."""
    reason: str
    """Why it was chosen."""
    is_excerpt: bool = False
    """True if parts of a long text are left out: `…` stands where they were."""
    score: float = 0.0
    """Of a recalled message: the probability that its turn helps to answer the message. 0 for
    others.
    """
    is_later: bool = False
    """True if a user said it later than another recalled message of the same: it may correct that
    one.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledSource:
    """The source of recalled messages: a conversation, or one place of a long one."""

    conversation_id: str
    """The conversation. It may be the one that goes on."""
    title: str
    """Its name, as `Conversation.name`."""
    channel: str
    """Its channel."""
    start_time: datetime
    """Time of the first message; without messages, of the conversation's beginning."""
    end_time: datetime
    """Time of the last message; without messages, of the conversation's last activity."""
    turn_range: TurnRange | None
    """The first and the last turn that messages are from. `None` without messages."""
    score: float
    """The score of its best message."""
    abbreviation: str
    """The subject of the conversation, in the first of its sources. Empty if it has none, and of
    the one that goes on.
    """
    sequences: tuple[int, ...]
    """The lines of its messages in the transcript, in reading order. The messages stand in `cold`.
    """
    tokens: int
    """About what its title, place and abbreviation take."""
    is_last_conversation: bool
    """True for the conversation before this one, which is given with its abbreviation alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAllocation:
    """The spending of a tier."""

    tier: ContextTier
    """The tier."""
    budget: int
    """Its budget in tokens, with the rest of the tiers before it."""
    used: int
    """The tokens that it used."""
    considered: int
    """The number of messages that were considered."""
    packed: int
    """The number of messages that were packed."""
    note: str
    """Why it was not asked or what went wrong, where that is so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedMessage:
    """A message that was looked at and left out."""

    conversation_id: str
    """The conversation it is from."""
    sequence: int
    """Its line in the transcript."""
    tier: ContextTier
    """The tier that left it out."""
    tokens: int
    """The tokens that it would have used."""
    reason: str
    """Why."""
    score: float = 0.0
    """Of a message that was not recalled: the probability that its turn helps to answer the
    message. 0 for others.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMessage:
    """A message of another member of a conversation's group. Nobody vouched for it: data, never the
    user's words.
    """

    communication_id: str
    """The external communication that has it."""
    party: str
    """The member's address."""
    trust: Trust
    """The trust in the member."""
    message: ExternalMessage
    """The message, its text cut to 1,000 characters."""
    tokens: int
    """Its tokens, estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltContext:
    """The input of an agent's model for its answer to a message."""

    hot: tuple[ContextMessage, ...]
    """The last turns, oldest first."""
    warm: tuple[ContextMessage, ...]
    """Earlier turns of this conversation, oldest first."""
    cold: tuple[ContextMessage, ...]
    """The recalled messages: of any conversation, none that are in `hot` and `warm`, by whole
    turns, the most relevant first.
    """
    anchors: tuple[Anchor, ...]
    """The anchors that hold."""
    compression_summary: str
    """The summary of compressed turns. Empty if nothing was compressed."""
    allocation: tuple[TierAllocation, ...]
    """The spending of each tier."""
    dropped: tuple[DroppedMessage, ...]
    """The candidates that were left out."""
    rendered: str
    """The context in the form that was asked for. Empty for parts."""
    degraded: tuple[DegradedLeg, ...]
    """The parts that could not answer, and why."""
    group: tuple[GroupMessage, ...] = ()
    """With `include_group` what other members wrote in the conversation's group, oldest first."""
    sources: tuple[RecalledSource, ...] = ()
    """The sources of the messages in `cold`, oldest first. Each message stands in one source."""
    condensed_messages: int = 0
    """Number of earlier messages of this conversation that `compression_summary` stands for."""
    split_suggestion: SplitSuggestion | None = None
    """The suggestion to go on in several conversations. `None` without one. Not in `rendered`."""
    rendered_tokens: int = 0
    """The tokens that `rendered` takes, estimated, within the total of the budget; of parts, those
    that these take.
    """
    has_more: bool = False
    """True if messages that fit in the budget were left out because the answer would be too large:
    `dropped` names them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTransition:
    """A move of a conversation between tiers."""

    conversation_id: str
    """The conversation."""
    from_tier: ContextTier
    """The tier before."""
    to_tier: ContextTier
    """The tier now."""
    reason: str
    """Why."""
    time: datetime
    """The time of the move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTransitionPage:
    """A page of moves."""

    transitions: tuple[TierTransition, ...]
    """Newest first."""
    next_page_token: str
    """Asks for the next page. Empty on the last one."""

    def __iter__(self) -> Iterator[TierTransition]:
        return iter(self.transitions)

    def __len__(self) -> int:
        return len(self.transitions)
