"""Updates, as `client.conversations.watch` yields them."""

from dataclasses import dataclass
from datetime import datetime

from recollect._types.conversation import Conversation, LoadedConversation
from recollect._types.message import Message, Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationList:
    """The first part of a snapshot: the newest conversations that pass the filters."""

    conversations: tuple[Conversation, ...]
    """Newest `update_time` first, at most 50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCreated:
    """A conversation began."""

    conversation: Conversation
    """As it was at that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationUpdated:
    """A conversation grew, or its model, pin or compression changed."""

    conversation: Conversation
    """As it is now."""
    messages: tuple[Message, ...]
    """The messages of one append, all of them. Empty if something else changed."""
    draft_id: str
    """The live draft that these messages complete. Empty if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRenamed:
    """A conversation has a new title."""

    title: str
    """The title."""
    manually_named: bool
    """True if a person gave it."""
    topics: tuple[str, ...]
    """Its topics now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAbbreviated:
    """A conversation has new notes."""

    abbreviation: str
    """The notes."""
    topics: tuple[str, ...]
    """Its topics now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationDeleted:
    """A conversation is gone. Drop everything known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRedacted:
    """The text of messages was removed for good. Drop it."""

    conversation: Conversation
    """As it is now: without a title, notes or a summary that came from the text."""
    sequences: tuple[int, ...]
    """The messages, by their `sequence`, ascending."""
    redaction: Redaction
    """By whom and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSuggested:
    """A conversation seems to be about several things."""

    reason: str
    """Why."""
    titles: tuple[str, ...]
    """Titles that the parts could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta:
    """More text of an answer that is still being written."""

    draft_id: str
    """The draft."""
    offset: int
    """The number of characters before `text`. 0 begins anew."""
    text: str
    """The text. May be empty."""
    done: bool
    """True if the draft is complete; its messages follow in a `ConversationUpdated`."""
    dropped: bool
    """True if the draft was given up: drop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One change of one conversation, or one part of a snapshot."""

    cursor: str
    """The position behind it, to come back with. Empty in a `MessageDelta` and in the first part of
    a snapshot.
    """
    conversation_id: str
    """The conversation it is about. Empty in a `ConversationList`."""
    time: datetime
    """The time of the update."""
    reset: bool
    """True with the first part of a snapshot that replaces everything known: the server could not
    tell what was missed.
    """
    kind: (
        ConversationList
        | LoadedConversation
        | ConversationCreated
        | ConversationUpdated
        | ConversationRenamed
        | ConversationAbbreviated
        | ConversationDeleted
        | MessagesRedacted
        | SplitSuggested
        | MessageDelta
    )
    """The change. A `LoadedConversation` is the second part of a snapshot."""
