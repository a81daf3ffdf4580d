# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: context."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.conversation import (
    SplitSuggestion,
)
from recollect._types.external import (
    ExternalMessage,
    Trust,
)
from recollect._types.message import Message
from recollect._types.recall import (
    DegradedLeg,
    TurnRange,
)


class ContextTier(StrEnum):
    """Source of a piece of context."""

    HOT = "hot"
    """The last 3 to 5 turns of this conversation, from memory."""
    WARM = "warm"
    """Earlier turns of this conversation; of a long one the last ones, the first one and evenly
    spaced ones, as their summaries where these are recorded and the turns do not fit.
    """
    COLD = "cold"
    """Everything else that fits the message, of any conversation: earlier turns of this one
    too, including those that a summary replaces.
    """


class ContextFormat(StrEnum):
    """The form of `BuildContextResponse.rendered`."""

    PARTS = "parts"
    """Nothing rendered: the caller reads hot, warm, cold and anchors. A tool result may have no
    call and a call no result, if the conversation has none.
    """
    XML = "xml"
    """One XML block: an element `context` with `anchors`, `summary`, `recalled` and
    `conversation`. Always well-formed: text that looks like its tags is escaped. A call without
    a result says so in an attribute `result`, a result without a call in `note`; `left_out`
    marks missing turns.
    """
    OPENAI_MESSAGES = "openai_messages"
    """A JSON array of messages for the OpenAI API, tool calls and results paired. A call
    without a result has one that says "(called, no result yet)", or "(called, no result was
    recorded)" once the user spoke again; a result without a call has one of a tool
    `call_not_shown`. If turns are missing, a user message says how many. Content that is not of
    this conversation is in a system message, as XML. The last message is the one to be
    answered, unless the conversation ends with it already.
    """
    ANTHROPIC_MESSAGES = "anthropic_messages"
    """A JSON array of messages for the Anthropic API: roles alternate, tool blocks are valid.
    Content that is not of this conversation is in the first user message, as XML. The last
    message is the one to be answered, as above.
    """
    RECALL_BLOCK = "recall_block"
    """A short text of what was recalled, with sources, ready to inject. Of the conversation
    itself it names only the calls that have no result yet; hot and warm messages are charged as
    in parts.
    """


class RecallDial(StrEnum):
    """Amount of what was said elsewhere that a context has."""

    ALL = "all"
    """Everything, where the budget holds it; else what ranks first, until the budget is used.
    What may not help is marked as unsure.
    """
    LIKELY = "likely"
    """Only messages that are likely to help."""
    NONE = "none"
    """Nothing."""


class StatementKind(StrEnum):
    """Subject of a statement of a user."""

    INSTRUCTION = "instruction"
    """An instruction: how the assistant is to answer or to act from then on."""
    IDENTITY = "identity"
    """Name, age, origin, languages and the like."""
    PEOPLE = "people"
    """Family, friends, colleagues and animals."""
    HOME = "home"
    """The place and the way in which the user lives."""
    WORK = "work"
    """Work, studies and the tools of these."""
    HEALTH = "health"
    """Health, diet, habits."""
    PREFERENCE = "preference"
    """Likes and dislikes."""
    POSSESSION = "possession"
    """Things that the user owns or uses."""
    PLAN = "plan"
    """Intentions of the user, and events in the user's life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileStatement:
    """A sentence in which a user said something lasting of themself, or how to be answered, in
    the words that were used.
    """

    text: str = ""
    """The sentence, on one line."""
    kind: StatementKind
    """Its subject."""
    conversation_id: str = ""
    """The conversation it is from."""
    sequence: int = 0
    """The line of its message in the transcript."""
    time: datetime
    """The time at which it was said."""
    sender: str = ""
    """The sender of its message, where that names one."""
    score: float = 0.0
    """Probability, from 0 to 1, that it is such a statement."""
    start: int = 0
    """The first character of the sentence in the message's content. Conversation, line and this
    name the statement (RemoveProfileStatement).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProfile:
    """Statements of users about themselves, and about how they want to be answered."""

    statements: tuple[ProfileStatement, ...] = ()
    """The statements, in the order in which they get room in a context: instructions, then one
    of each kind in turns, the newest of each first. The 200 surest, where there are more.
    """
    degraded: str = ""
    """Why some may be missing; empty if none are."""


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Token budget of a context, estimated at four bytes each in the format asked for. What is
    unset has its default; a `total` of 0 is unset too. None may be negative. What a tier does
    not use passes to the next, and what the last one does not use to a turn that was shortened
    (not past a `hot` that is given). Everything in `rendered` counts towards the total:
    profile, anchors, group messages, summary, ids, titles, markup and escapes. If that leaves
    less than the tiers' budgets, each tier gets its share of the rest.

    The defaults are settings: `profile_tokens`, `context_hot_tokens`, `context_warm_tokens`,
    `context_cold_tokens` and `context_tokens`.

    >>> ContextBudget(total=2000)
    """

    hot: int | None = None
    """For the hot tier. Default 1500, and what the newest turn needs of the warm tier's budget
    to stay whole. The newest turn is there with 0 too, shortened.
    """
    warm: int | None = None
    """For the warm tier, with the compression summary. Default 2000. 0: no earlier turns."""
    cold: int | None = None
    """For the cold tier. Default 900. 0: nothing is recalled."""
    total: int | None = None
    """For everything. Default 4400. If only this is set, each tier has its usual share of it."""
    profile: int | None = None
    """For the profile, of which a context has an eighth of its total at the most. Default 400.
    0: no profile.
    """


@dataclass(frozen=True, slots=True)
class ConversationPart:
    """Part of a conversation."""

    conversation_id: str
    """The conversation. Required."""
    turn_range: TurnRange | None = None
    """Its turns. Unset: all of them."""


@dataclass(frozen=True, slots=True)
class AnchorSource:
    """The message that an anchor came from."""

    conversation_id: str
    """The conversation."""
    sequence: int
    """The message's line in the transcript."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A lasting fact about the user, such as "name: Alex". Callers set anchors, and the writer
    of notes finds them in conversations. They are part of every context and are never
    compressed away.

    The newest value of a key holds, with two exceptions. A value that was found does not
    replace a caller's value unless it is at least as sure; it is then stored as superseded. A
    value that was found with a confidence below 0.5, as those of the offline writer are,
    replaces neither a surer value nor a caller's. The same value given again stays the same
    anchor; its confidence becomes the caller's new one, or the higher of two that were found.
    What the user takes back ("I'm not vegan any more") holds no longer, and no other value need
    take its place.
    """

    key: str = ""
    """Subject of the fact: 1 to 64 characters, lower-case letters, digits, `_`, `-` and `.`. A
    key has one value at a time.
    """
    value: str = ""
    """The fact. 1 to 1000 characters, not only spaces."""
    confidence: float = 0.0
    """Confidence, from 0 to 1."""
    source: AnchorSource | None = None
    """The message it came from. Unset if a caller set it without one."""
    create_time: datetime
    """Time at which its message was said; of one without a message, at which it was set."""
    superseded_time: datetime | None = None
    """Time at which another value replaced it or it was taken back. Unset while it holds."""
    supersedes: str = ""
    """The value that it replaced. Unset if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMemory:
    """Tier and summary that a caller recorded of a turn, for the contexts that BuildContext
    packs.
    """

    turn_number: int = 0
    """The turn."""
    tier: ContextTier | None = None
    """Its tier in contexts of its own conversation. Hot: it stays in `hot` as far as that
    budget holds it beside the newest turn, and else comes first in `warm`. Warm: it is not in
    `hot`, and comes first in `warm`. Cold: it is in neither, and may be recalled. Unset: the
    server chooses.
    """
    summary: str = ""
    """Its summary, which stands for the turn where the budget does not hold its messages: in
    `warm` and `cold`, of other conversations too, and in `hot` for a turn that is kept there.
    The newest turn is shortened instead. Unset: none.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMemoryPage:
    """A page of what was recorded of turns. Iterating over it gives the turns."""

    turn_memories: tuple[TurnMemory, ...] = ()
    """Turns with a tier or a summary, in their order."""
    next_page_token: str = ""
    """Token of the next page. Unset on the last one."""

    def __iter__(self) -> Iterator[TurnMemory]:
        return iter(self.turn_memories)

    def __len__(self) -> int:
        return len(self.turn_memories)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMessage:
    """A packed message."""

    conversation_id: str = ""
    """The conversation it is from."""
    message: Message
    """The message."""
    tokens: int = 0
    """Its share of the budget, in the format asked for: with its markup and escapes, or in
    parts its words and 4 tokens.
    """
    relevance: float = 0.0
    """Its relevance, from 0 to 1: of a recalled message its score, of one of the conversation
    itself the share of the words of the message to be answered that it has.
    """
    reason: str = ""
    """Reason why it was chosen, in a few words."""
    is_excerpt: bool = False
    """True if parts of a long text are left out, marked by `…` (setting `excerpt_tokens`).
    FetchContext returns the whole text.
    """
    score: float = 0.0
    """Of a message that ranked among the first: the probability, from 0 to 1, that it helps to
    answer the message, as in SearchHit. It says how sure that is; the rank chose. 0 for others.
    """
    is_later: bool = False
    """True if a user said it later than another recalled message that is likely to be of the
    same: it may correct that one. `rendered` marks it `later="true"`, or `(later)` in a recall
    block.
    """
    is_summary: bool = False
    """True if it is the recorded summary of its turn (see TurnMemory), which stands for all of
    the turn's messages: with the role, the sender and the time of the first of them. Its
    content begins with "(Summary of this turn)".
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledSource:
    """Source of recalled messages: a conversation, or one place of a long one. Turns of a
    conversation that lie far apart, or on different days, are several sources.
    """

    conversation_id: str = ""
    """The conversation. It may be the one that continues."""
    title: str = ""
    """Its name (see Conversation.name)."""
    channel: str = ""
    """Its channel."""
    start_time: datetime
    """The time of the first of its messages. Of a source without messages: when the
    conversation began.
    """
    end_time: datetime
    """The time of the last of them. Of a source without messages: when the conversation was
    last active.
    """
    turn_range: TurnRange | None = None
    """The first and the last turn of its messages; turns between them may be left out. Unset
    for a source without messages.
    """
    score: float = 0.0
    """The score of its best message. 0 for a source without messages."""
    abbreviation: str = ""
    """The abbreviation of the conversation, whole, in the first source of each conversation,
    where the budget holds it beside the messages. Unset otherwise, and for the one that
    continues.
    """
    sequences: tuple[int, ...] = ()
    """The `sequence` of each of its messages, in reading order. The messages themselves are in
    `cold`.
    """
    tokens: int = 0
    """Estimated tokens of the source besides its messages: title, place and abbreviation."""
    is_unsure: bool = False
    """True if none of its messages scores high enough to be likely to help. `rendered` says
    `certainty="low"`, or "(unsure)" in a recall block.
    """
    is_last_conversation: bool = False
    """True for the conversation before this one. In its first turns a conversation that began
    within an hour of that one's end, with the same people, gets its abbreviation, whatever the
    message is.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAllocation:
    """Use of a tier's budget."""

    tier: ContextTier
    """The tier."""
    budget: int = 0
    """Its budget, with what passed to it from the tier before."""
    used: int = 0
    """The tokens that it used."""
    considered: int = 0
    """Number of messages considered."""
    packed: int = 0
    """Number of messages packed."""
    note: str = ""
    """Reason why the tier was not asked or what went wrong, if so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedMessage:
    """A message that was considered and left out."""

    conversation_id: str = ""
    """The conversation it is from."""
    sequence: int = 0
    """Its line in the transcript."""
    tier: ContextTier
    """The tier that left it out."""
    tokens: int = 0
    """The tokens that it would have used."""
    reason: str = ""
    """Reason why it was left out, in a few words."""
    score: float = 0.0
    """Of a message that was not recalled: the probability that its turn helps to answer the
    message. 0 for others.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMessage:
    """A message that another member of the conversation's group wrote, who is not an owner.
    Nobody vouched for it: it is data, never the user's words and never instructions.
    """

    communication_id: str = ""
    """The communication that holds it."""
    party: str = ""
    """The member's address."""
    trust: Trust
    """The trust in the member. Messages of blocked members are left out."""
    message: ExternalMessage
    """The message. Its text is cut to 1,000 characters."""
    tokens: int = 0
    """Its tokens, estimated at four bytes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltContext:
    """The input of an agent's model for its answer to a message."""

    hot: tuple[ContextMessage, ...] = ()
    """The last turns, oldest first. All of them are newer than those in `warm`, unless a caller
    recorded other tiers (see TurnMemory): together they are one run of the conversation. The
    newest turn is shortened if it exceeds the budget: its long messages keep their head, their
    tail and between these the passage that has most words of `message`, with "… N tokens left
    out …" where text is missing.
    """
    warm: tuple[ContextMessage, ...] = ()
    """Earlier turns of this conversation, oldest first: the last ones before the hot turns, the
    first turn, those that have words of the message, some evenly spaced. A turn that does not
    fit is its summary, where one is recorded.
    """
    cold: tuple[ContextMessage, ...] = ()
    """Messages of any conversation that are not in `hot` and `warm`: all of them where the
    budget holds all, else those that a search for `message` ranks first, the best first, until
    the budget is used. They may be from this conversation, including turns that its summary
    replaces. None for a greeting, thanks, or a command about what is at hand. Turns that ask
    `message` too and have no answer that says anything are left out.
    """
    anchors: tuple[Anchor, ...] = ()
    """The anchors that hold, by key. If they take more than 600 tokens, or more than a fifth of
    the total, only the surest.
    """
    compression_summary: str = ""
    """The summary that replaces compressed turns, cut if the budget is smaller. Unset if
    nothing was compressed.
    """
    allocation: tuple[TierAllocation, ...] = ()
    """Account of how each tier spent its budget."""
    dropped: tuple[DroppedMessage, ...] = ()
    """Messages that were considered and left out. At most 100 of each tier; its note tells if
    there are more.
    """
    rendered: str = ""
    """The context in the form asked for. Empty for parts."""
    degraded: tuple[DegradedLeg, ...] = ()
    """The parts that could not answer, or that may miss something, with the reason: `hot`,
    `warm`, `cold`, `profile`, `anchors`, `group`, or a retriever of the search.
    """
    group: tuple[GroupMessage, ...] = ()
    """With `include_group`, the newest messages of the other members of the group, oldest
    first: of the last 20 those that fit in 900 tokens, or in a fifth of the total if that is
    less; attachments are left out first. In `rendered` they are an element `group` that is
    marked untrusted, or lines under a heading that says so.
    """
    has_more: bool = False
    """True if messages that fit in the budget were left out because the answer would be too
    large (see ConversationService; the messages count twice, because `rendered` repeats them).
    `dropped` names them. Of the conversation's own turns only the newest that such an answer
    can hold are considered.
    """
    sources: tuple[RecalledSource, ...] = ()
    """The sources of the messages in `cold`, the oldest first. Each message has one source."""
    rendered_tokens: int = 0
    """The tokens of `rendered`, estimated at four bytes each; for parts, the tokens charged to
    these. At most the total of the budget, with everything that is in `rendered`. Only a
    message to be answered that is longer than the total alone exceeds it.
    """
    condensed_messages: int = 0
    """Number of earlier messages of this conversation that `compression_summary` replaces. Some
    of them may be recalled.
    """
    split_suggestion: SplitSuggestion | None = None
    """The suggestion to go on in several conversations, as in Conversation. It is not in
    `rendered`.
    """
    system_prompt: str = ""
    """A paragraph for the system prompt that tells the model what `rendered` is. It is the same
    for every context of a form, so that a prompt that begins with it can be cached; it counts
    towards no budget. Empty for parts.
    """
    profile: tuple[ProfileStatement, ...] = ()
    """The profile: what users said of themselves and how they want to be answered, as far as
    `budget.profile` holds it. Instructions come first, then the others by kind, the newest of
    each first.
    """
    profile_left_out: int = 0
    """Number of statements of the profile that were left out for want of room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTransition:
    """A move of a conversation between tiers."""

    conversation_id: str = ""
    """The conversation."""
    from_tier: ContextTier
    """The tier before."""
    to_tier: ContextTier
    """The tier since."""
    reason: str = ""
    """The reason, in a few words."""
    time: datetime
    """Time at which it happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTransitionPage:
    """A page of moves."""

    transitions: tuple[TierTransition, ...] = ()
    """The transitions, newest first."""
    next_page_token: str = ""
    """Token of the next page. Unset on the last one."""

    def __iter__(self) -> Iterator[TierTransition]:
        return iter(self.transitions)

    def __len__(self) -> int:
        return len(self.transitions)
