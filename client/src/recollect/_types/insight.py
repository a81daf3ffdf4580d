"""Answers of insight: counts of what was written and what it cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from recollect._types.conversation import Conversation
from recollect._types.message import Usage


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
    """The channel that each message came over."""
    TOPIC = "topic"
    """The topics that conversations have now. One with several counts in each."""
    CONVERSATION = "conversation"
    """Conversations."""
    MODEL = "model"
    """The conversation's model when a message was stored. Empty: none."""
    SPACE = "space"
    """Everything in one group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteActivity:
    """Calls of a model's API for the server's own notes."""

    calls: int
    """Number of calls."""
    usage: Usage
    """Tokens that they read and wrote."""
    cost: float
    """US dollars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """Counts of a group within a time."""

    conversations: int
    """Conversations that began."""
    turns: int
    """Turns that began."""
    user_messages: int
    """Messages of the person."""
    assistant_messages: int
    """Messages of the agent."""
    tool_messages: int
    """Results of tool calls."""
    usage: Usage
    """Tokens, as the callers counted them."""
    cost: float
    """US dollars, as the callers counted them."""
    notes: NoteActivity
    """Calls that the server made for its own notes."""

    @property
    def messages(self) -> int:
        """Return the messages of all roles."""
        return self.user_messages + self.assistant_messages + self.tool_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """Activity of a group within a bucket."""

    bucket_start: datetime
    """First moment of the bucket."""
    group: str
    """The group: a channel, a topic, a model, a conversation's id or the name of the space."""
    activity: Activity
    """The counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageTotal:
    """A group over the whole range."""

    group: str
    """The group, as in UsageRow."""
    label: str
    """Its name for people: of a conversation its name."""
    activity: Activity
    """The counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Activity by time and group."""

    rows: tuple[UsageRow, ...]
    """In the order of time, then of `groups`. Buckets and groups without any are left out."""
    groups: tuple[UsageTotal, ...]
    """The groups, the one with the most messages first, with their sums."""
    more_groups: int
    """Groups with activity that were left out."""
    bucket_starts: tuple[datetime, ...]
    """First moments of all buckets, those without activity included."""
    end: datetime
    """End of the last bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeries:
    """Messages of a topic over time."""

    topic: str
    """The topic."""
    messages: tuple[int, ...]
    """Messages in each bucket."""
    turns: tuple[int, ...]
    """Turns that began in each bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReport:
    """Topics over time."""

    bucket_starts: tuple[datetime, ...]
    """First moments of all buckets."""
    end: datetime
    """End of the last bucket."""
    topics: tuple[TopicSeries, ...]
    """The topics, the one with the most messages first."""
    more_topics: int
    """Topics with activity that were left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourActivity:
    """Activity in one hour of the week, added up over all weeks of a range."""

    weekday: int
    """1 is Monday, 7 is Sunday."""
    hour: int
    """From 0 to 23, of the local day."""
    turns: int
    """Turns that began."""
    messages: int
    """Messages of all roles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHours:
    """Activity of a channel by the hours of the week."""

    channel: str
    """The channel."""
    messages: int
    """Messages over the whole range."""
    hours: tuple[HourActivity, ...]
    """Hours that have messages, from Monday's first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyConversation:
    """A conversation with its activity in a range."""

    conversation: Conversation
    """The conversation as it is now."""
    activity: Activity
    """Its counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """A value of a property of conversations."""

    value: str
    """The value."""
    conversations: int
    """Conversations that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FacetList:
    """The most common values of a property."""

    facets: tuple[Facet, ...]
    """The values, the most common first."""
    total: int
    """Number of values, those that are left out included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Conversations by their properties."""

    channels: FacetList
    """Their channels."""
    topics: FacetList
    """Their topics."""
    models: FacetList
    """The models that answer in them now."""
    participants: FacetList
    """Their participants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic in a list."""

    label: str
    """The label, in kebab-case."""
    conversations: int
    """Conversations that have it."""
    last_use_time: datetime
    """Beginning of the hour in which one of them was last active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPage:
    """A page of topics."""

    topics: tuple[Topic, ...]
    """The topics, those of the most conversations first."""
    next_page_token: str
    """Asks for the page that follows; empty: there is none."""

    def __iter__(self) -> Iterator[Topic]:
        return iter(self.topics)

    def __len__(self) -> int:
        return len(self.topics)
