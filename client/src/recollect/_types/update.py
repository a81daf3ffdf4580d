# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: update."""

from dataclasses import dataclass
from datetime import datetime

from recollect._types.context import (
    TurnMemory,
)
from recollect._types.conversation import (
    Conversation,
    LoadedConversation,
)
from recollect._types.message import Message
from recollect._types.message_parts import Redaction


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationList:
    """The newest conversations that pass the stream's filters."""

    conversations: tuple[Conversation, ...] = ()
    """Newest `update_time` first. At most 50."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCreated:
    """A conversation began."""

    conversation: Conversation
    """The conversation as it was at that moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationUpdated:
    """A conversation grew or changed."""

    conversation: Conversation
    """The conversation as it is now."""
    messages: tuple[Message, ...] = ()
    """The messages of one append, all of them. Empty if something else changed."""
    draft_id: str = ""
    """The draft that these messages complete. Unset if there was none."""
    turn_memory: TurnMemory | None = None
    """The turn whose tier or summary changed, as it is from now on. Unset if something else
    changed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRenamed:
    """A conversation has a new title."""

    title: str = ""
    """The title."""
    manually_named: bool = False
    """True if a person gave it."""
    topics: tuple[str, ...] = ()
    """Its topics now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationAbbreviated:
    """A conversation has new notes."""

    abbreviation: str = ""
    """The abbreviation."""
    topics: tuple[str, ...] = ()
    """Its topics now."""


@dataclass(frozen=True, slots=True)
class ConversationDeleted:
    """A conversation was deleted. Drop everything known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagesRedacted:
    """The text of messages was removed for good. Drop it, and what was made of it. Updates that
    came before and are read again from a cursor show tombstones.
    """

    conversation: Conversation
    """The conversation as it is now: without a title, notes or a summary that came from the
    text.
    """
    sequences: tuple[int, ...] = ()
    """The messages, by their `sequence`, ascending."""
    redaction: Redaction
    """By whom and when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSuggested:
    """A conversation seems to be about several subjects. Nothing splits it automatically."""

    reason: str = ""
    """The reason."""
    titles: tuple[str, ...] = ()
    """Titles that the parts could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelta:
    """More text of an answer that is still being written. Never stored."""

    draft_id: str = ""
    """The draft."""
    offset: int = 0
    """Number of characters (Unicode code points) that come before `text`. 0 starts over."""
    text: str = ""
    """The text. May be empty."""
    done: bool = False
    """True if the draft is complete; its messages follow in conversation_updated."""
    dropped: bool = False
    """True if the draft was abandoned: drop it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One change of one conversation, or one part of a snapshot.

    Updates are ordered, unique (none is sent twice), atomic (the messages of one append come in
    one update), reliable (none is left out), resumable (from any cursor) and bookmarkable (a
    heartbeat moves the cursor on when nothing happens). After a conversation is deleted, its
    pending updates are no longer delivered, only that it is gone.
    """

    cursor: str = ""
    """The position after this update, from which a stream can resume. Opaque. Unset in
    message_delta, which is not part of the log, and in conversation_list: a snapshot is
    complete with conversation_loaded.
    """
    conversation_id: str = ""
    """The conversation it is about. Unset in conversation_list, in heartbeat, and in
    conversation_loaded if there is none.
    """
    time: datetime
    """Time at which it happened."""
    reset: bool = False
    """True with the first part of a snapshot that replaces everything the subscriber has: the
    log did not reach back to its cursor.
    """
    kind: (
        ConversationList
        | LoadedConversation
        | ConversationCreated
        | ConversationUpdated
        | ConversationRenamed
        | ConversationAbbreviated
        | ConversationDeleted
        | SplitSuggested
        | MessageDelta
        | MessagesRedacted
    )
    """The kind of change."""
