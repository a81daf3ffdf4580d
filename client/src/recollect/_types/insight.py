# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: insight."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.conversation import (
    Conversation,
)
from recollect._types.message_parts import Usage


class TimeBucket(StrEnum):
    """Unit of the calendar by which activity is counted."""

    DAY = "day"
    """From midnight to midnight."""
    WEEK = "week"
    """Seven days from Monday."""
    MONTH = "month"
    """A month of the calendar."""


class UsageGroup(StrEnum):
    """Key by which activity is grouped."""

    CHANNEL = "channel"
    """The channel that each message came over: its own, else that of its conversation."""
    TOPIC = "topic"
    """The topics that conversations have now. A conversation with several counts in each of
    them, so the groups together may have more than there is.
    """
    CONVERSATION = "conversation"
    """Conversations."""
    MODEL = "model"
    """The model that the conversation had when a message was stored (`Conversation.model`).
    Empty: none was named.
    """
    SPACE = "space"
    """Everything of the space in one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteActivity:
    """Calls of a model's API for the server's own notes."""

    calls: int = 0
    """Number of calls."""
    usage: Usage
    """Tokens that they read and wrote."""
    cost: float = 0.0
    """US dollars, by the prices that the server was given (settings `abbreviation_input_price`
    and `abbreviation_output_price`).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Counts of a group within a time. A message counts at its own time, the caller's if it
    gave one; a turn with its first message; a conversation when it began. What is deleted is
    not counted any more; what was compressed is.
    """

    conversations: int = 0
    """Conversations that began."""
    turns: int = 0
    """Turns that began."""
    user_messages: int = 0
    """Messages of the person."""
    assistant_messages: int = 0
    """Messages of the agent."""
    tool_messages: int = 0
    """Results of tool calls."""
    usage: Usage
    """Tokens as the callers counted them (`Message.usage`). A message without a count adds
    nothing.
    """
    cost: float = 0.0
    """US dollars as the callers counted them (`Message.cost`)."""
    notes: NoteActivity
    """Calls that the server made for its own notes: abbreviations, titles and summaries that it
    wrote by a model. Calls whose answer could not be used are not among them; the server's
    daily budget counts those too.
    """

    @property
    def messages(self) -> int:
        """Return the messages of all roles."""
        return self.user_messages + self.assistant_messages + self.tool_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Activity of a group within a bucket."""

    bucket_start: datetime
    """First moment of the bucket."""
    group: str = ""
    """The group: a channel, a topic, a model, the id of a conversation or the name of the
    space.
    """
    activity: Activity
    """The counts, of which one at least is not 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """A group over the whole range."""

    group: str = ""
    """The group, as in UsageRow."""
    label: str = ""
    """Name of the group for people: that of a conversation (see Conversation.name), else
    `group` itself.
    """
    activity: Activity
    """The counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Activity by time and group."""

    rows: tuple[UsageRow, ...] = ()
    """Rows in the order of time, then of the groups in `groups`."""
    groups: tuple[UsageTotal, ...] = ()
    """The groups, the one with the most messages first, each with its sum over all buckets."""
    more_groups: int = 0
    """Groups with activity in the range that were left out."""
    bucket_starts: tuple[datetime, ...] = ()
    """First moments of all buckets, those without activity included."""
    end: datetime
    """End of the last bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeries:
    """Messages of a topic over time."""

    topic: str = ""
    """The topic."""
    messages: tuple[int, ...] = ()
    """Messages of its conversations in each bucket, one number for each of `bucket_starts`."""
    turns: tuple[int, ...] = ()
    """Turns that began in them, in each bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """Topics over time."""

    bucket_starts: tuple[datetime, ...] = ()
    """First moments of all buckets."""
    end: datetime
    """End of the last bucket."""
    topics: tuple[TopicSeries, ...] = ()
    """The topics, the one with the most messages first."""
    more_topics: int = 0
    """Topics with activity in the range that were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourActivity:
    """Activity in one hour of the week, added up over all weeks of a range."""

    weekday: int = 0
    """Day of the week: 1 is Monday, 7 is Sunday."""
    hour: int = 0
    """Hour of the local day, from 0 to 23. When clocks are set back, two hours count as one."""
    turns: int = 0
    """Turns that began."""
    messages: int = 0
    """Messages of all roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHours:
    """Activity of a channel by the hours of the week."""

    channel: str = ""
    """The channel."""
    messages: int = 0
    """Messages over the whole range."""
    hours: tuple[HourActivity, ...] = ()
    """Hours of the week that have messages, from Monday's first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyConversation:
    """A conversation with its activity in a range."""

    conversation: Conversation
    """The conversation as it is now."""
    activity: Activity
    """Its counts in the range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """A value of a property of conversations, and how many have it."""

    value: str = ""
    """The value."""
    conversations: int = 0
    """Conversations that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetList:
    """The most common values of a property."""

    facets: tuple[Facet, ...] = ()
    """The values, the most common first; those that are equally common in alphabetical order."""
    total: int = 0
    """Number of values, those that are left out included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Conversations by their properties."""

    channels: FacetList
    """The conversations' channels."""
    topics: FacetList
    """Their topics."""
    models: FacetList
    """The models that answer in them now. Conversations that name none are left out."""
    participants: FacetList
    """Their participants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic in a list."""

    label: str = ""
    """The label, in kebab-case."""
    conversations: int = 0
    """Conversations that have it."""
    last_use_time: datetime
    """Time at which one of them was last active: the beginning of that hour (UTC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """A page of topics."""

    topics: tuple[Topic, ...] = ()
    """The topics."""
    next_page_token: str = ""
    """Asks for the page that follows; empty: there is none. A topic whose count changes between
    two pages may be listed twice or not at all.
    """

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)
