"""A conversation, and what the calls about conversations answer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from recollect._types.message import Message, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """The other side of a channel's conversation, as the channel itself names it. Every field may
    be empty.

    >>> Party(contact="alex@example.org", subject="The invoice")
    """

    contact: str = ""
    """The contact: a phone number in digits, an e-mail address in lower case."""
    group_id: str = ""
    """The group, on a channel that has groups."""
    thread_id: str = ""
    """The thread, on a channel that has threads."""
    subject: str = ""
    """The subject line, on e-mail."""
    contact_name: str = ""
    """The contact's display name, as the channel gave it last. For people: nothing is routed or
    trusted by it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """The writer of a note of a conversation, its model and its time."""

    writer: str
    """`extractive` (the server's rule), `anthropic`, `openai` (a model of such an API), `caller`,
    or `unknown`.
    """
    model: str = ""
    """The id of the model. Empty where none wrote it."""
    write_time: datetime | None = None
    """Time of writing. `None` where it was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """The origin of a conversation's notes."""

    abbreviation: NoteRecord | None = None
    """The record of the abbreviation. `None` while there is none."""
    title: NoteRecord | None = None
    """The record of the title. `None` while there is none."""
    failure: str = ""
    """Why the server's last try to write notes failed. Only where `get` and `list` answer; it is
    tried again.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RegeneratedNotes:
    """The answer of `regenerate_notes`."""

    queued: int
    """Number of conversations that get new notes."""
    kept: int
    """Number of others that match and keep their notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """The origin of a fork."""

    conversation_id: str
    """The conversation that was copied. It may be deleted since."""
    turn_number: int
    """The last turn that was copied."""


@dataclass(frozen=True, slots=True)
class SplitSuggestion:
    """A suggestion to go on in several conversations. Nothing splits one automatically."""

    reason: str
    """The reason."""
    titles: tuple[str, ...]
    """Titles that the parts could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The facts about a conversation, without its messages.

    There is no state: a conversation is never closed and can be resumed at any time.
    """

    id: str
    """`conv-` and a ULID. Never changed, never used again."""
    channel: str
    """The channel it is on: `web`, `whatsapp`, `email`, …"""
    title: str
    """The title. Empty until somebody names it or the server does."""
    topics: tuple[str, ...]
    """The topics, in kebab-case, most important first."""
    create_time: datetime
    """The time at which it began."""
    update_time: datetime
    """The time of its newest message, or `create_time` while it has none."""
    turn_count: int
    """The number of its turns: that of its newest turn."""
    message_count: int
    """The number of its messages."""
    participants: tuple[str, ...]
    """The participants."""
    abbreviation: str
    """The newest meeting notes. Empty until there are some."""
    manually_named: bool
    """True once a person named it: nothing automatic renames it after that."""
    pinned: bool
    """True while it is the one that its channel's new messages join."""
    model: str
    """The model that answers in it. Empty means the caller's default."""
    party: Party | None
    """The other side, on a channel that names one. `None` for the owner alone."""
    usage_total: Usage
    """The sum of its messages' usage."""
    cost_total: float
    """The sum of its messages' cost in US dollars."""
    compressed_through: int
    """The last turn that the newest compression summary covers. 0 means that nothing was
    compressed.
    """
    notes: Notes | None = None
    """The origin of its abbreviation and its title. `None` while it has neither."""
    topics_by_hand: bool = False
    """True if its topics were set by `set_topics`: automatic notes leave them."""
    archived: bool = False
    """True while it is archived, and left out of lists."""
    unindexed: bool = False
    """True while searches and the contexts of other conversations leave it out."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    """Values that callers keep with it."""
    origin: ForkOrigin | None = None
    """The conversation that it began as a copy of. `None` if it is no fork."""
    split_suggestion: SplitSuggestion | None = None
    """The newest suggestion to go on in several conversations. `None` without one."""
    name: str = ""
    """Its one name for people: the title; else the subject of its mails; else the contact or the
    group with the channel; else what was asked for first. Empty while it has none of these.
    """


class ArchiveFilter(StrEnum):
    """Choice of conversations by whether they are archived. Without one those that are not."""

    ARCHIVED = "archived"
    """Those that are archived."""
    ALL = "all"
    """Both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """One page of a list of conversations. Iterating over it gives the conversations."""

    conversations: tuple[Conversation, ...]
    """Newest `update_time` first."""
    next_page_token: str
    """Asks for the next page. Empty on the last one."""

    def __iter__(self) -> Iterator[Conversation]:
        return iter(self.conversations)

    def __len__(self) -> int:
        return len(self.conversations)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConversation:
    """The working context of a conversation, or a page of its history."""

    conversation: Conversation | None
    """The conversation. `None` if the channel has none yet, or none was named."""
    messages: tuple[Message, ...]
    """Whole turns, oldest first, unless `cut_before_sequence` is set."""
    has_more: bool
    """True if older messages exist; ask for them with `before_turn`."""
    compression_summary: str
    """The summary of the turns up to `conversation.compressed_through`. Empty if nothing was
    compressed.
    """
    damaged_lines: int = 0
    """The number of damaged lines of the transcript in that range, which were left out. 0 is what
    is normal.
    """
    cut_before_sequence: int = 0
    """Set where one turn alone is larger than an answer may be: ask for its earlier messages with
    it as `before_sequence`.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTurn:
    """The messages that an append stored. A repeated request is answered with what the first one
    stored.
    """

    conversation: Conversation
    """The conversation after the append."""
    messages: tuple[Message, ...]
    """The messages as stored, with sequence, turn number and timestamp."""
    turn_number: int
    """The turn of the last of these messages."""
    cursor: str
    """The position of this append in the live updates. Empty if the index could not take it yet."""
    duplicate: bool
    """True if this `request_id` had been stored before, so that nothing was stored now."""


class AnchorDisposition(StrEnum):
    """The fate of the anchors that came from a deleted conversation."""

    KEEP = "keep"
    """They stay, without the message they came from."""
    DELETE = "delete"
    """They go with it."""


@dataclass(frozen=True, slots=True)
class RemovedFrom:
    """One place that a deleted conversation was removed from."""

    place: str
    """The place: `transcript`, `conversations`, `messages`, …"""
    count: int
    """The number of entries that were there (for `transcript`: bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReceipt:
    """The receipt of a deletion: the number of entries removed from each part of the service."""

    conversation_id: str
    """The conversation that is gone."""
    removed: tuple[RemovedFrom, ...]
    """Every place that it was removed from."""
    delete_time: datetime
    """The time of the deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedMessages:
    """The result of `redact_message`."""

    conversation: Conversation
    """The conversation, without what came from the text."""
    messages: tuple[Message, ...]
    """The messages, without their text."""
    redact_time: datetime
    """The time of the removal."""
    duplicate: bool
    """True if nothing was removed now: this had been done before."""
    copied_in: tuple[str, ...]
    """Conversations that may have copies: forks, and the one that this is a fork of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedConversations:
    """The receipt of `delete_many`."""

    conversation_ids: tuple[str, ...]
    """The conversations that are gone, or with `dry_run` would be."""
    left: tuple[tuple[str, str], ...]
    """Those that match and were left, each with the reason: `CONVERSATION_PINNED` or
    `ANCHORS_PRESENT`.
    """
    removed: tuple[RemovedFrom, ...]
    """Every place that they were removed from, added up."""
    has_more: bool
    """True if more match: ask again."""
    delete_time: datetime
    """The time of the deletion."""
    failure: str = ""
    """The conversation at which it ended early, and why: ask again. Empty: it did not."""
