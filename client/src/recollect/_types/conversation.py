# Generated from proto/recollect/v1 by scripts/client_types.py: edit that.
"""Data classes of the contract: conversation."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from recollect._types.message import Message
from recollect._types.message_parts import Role, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """The other side of a channel's conversation, as the channel itself names it. Every field
    may be unset.

    >>> Party(contact="alex@example.org", subject="The invoice")
    """

    contact: str = ""
    """The contact on a channel that has contacts: a phone number in digits, an e-mail address
    in lower case. At most 320 characters.
    """
    group_id: str = ""
    """The group, on a channel that has groups. At most 320 characters."""
    thread_id: str = ""
    """The thread, on a channel that has threads. At most 998 characters."""
    subject: str = ""
    """The subject line, on e-mail. At most 998 characters."""
    contact_name: str = ""
    """The newest display name of the contact, as the channel gave it ("Hanan"). It is for
    people: nothing is routed, filtered or trusted by it. At most 256 characters; line breaks
    and control characters become spaces.
    """
    group_name: str = ""
    """The newest display name of the group, channel or thread that others read too, as the
    channel gave it ("Flat hunters"). It is for people: nothing is routed, filtered or trusted
    by it. At most 256 characters; line breaks and control characters become spaces.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRecord:
    """Writer and time of a note."""

    writer: str = ""
    """`extractive`: the server's offline rules; `anthropic` or `openai`: a model behind such an
    API; `caller`: a caller, as by Rename or RecordAbbreviation; `unknown`: an earlier version
    wrote it and kept no record. A later version may name others.
    """
    model: str = ""
    """The id of the model at its API. At most 128 characters. Unset if no model wrote it."""
    write_time: datetime | None = None
    """Time at which it was written. Unset if that was not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Origin of a conversation's notes."""

    abbreviation: NoteRecord | None = None
    """Writer of the abbreviation. Unset while there is none."""
    title: NoteRecord | None = None
    """Writer of the title. Unset while there is none."""
    failure: str = ""
    """Reason why the server's last attempt to write notes failed, if nothing was written since:
    a sentence without any text of the conversation. The attempt is repeated (setting
    `sweep_interval`), and less and less often where the model itself refuses; then the server's
    rule writes the notes, until the conversation goes on. Only in responses of Get and List;
    unset elsewhere.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RegeneratedNotes:
    """The answer of `regenerate_notes`."""

    queued: int = 0
    """Number of conversations that are queued, or would be. Those without an abbreviation are
    not counted: they wait for their first notes.
    """
    kept: int = 0
    """Number of other matching conversations, which keep their notes: those of other `writers`,
    and those of models and callers if the server writes by offline rules.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOrigin:
    """Origin of a fork."""

    conversation_id: str = ""
    """The conversation that was copied. It may be deleted since."""
    turn_number: int = 0
    """The last turn that was copied."""


@dataclass(frozen=True, slots=True)
class SplitSuggestion:
    """A suggestion to go on in several conversations, as one seems to be about several
    subjects. Nothing splits it automatically. Only a model writes one (setting `notes`).
    """

    reason: str = ""
    """The reason."""
    titles: tuple[str, ...] = ()
    """Titles that the parts could have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePreview:
    """The beginning of a message, for lists."""

    role: Role
    """`Role.USER` or `Role.ASSISTANT`."""
    sender: str = ""
    """The sender's display name, else its id. Unset if the message has neither."""
    text: str = ""
    """The first words, on one line. 1 to 120 characters: a longer text is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation without its messages.

    It has no state: a conversation is never closed and can be resumed at any time.
    """

    id: str = ""
    """`conv-` and a ULID of 26 characters. Given at creation, never changed, never used again."""
    channel: str = ""
    """The channel it is on: `web`, `whatsapp`, `email`, `discord`, `cli` or any other label of
    1 to 32 lower-case letters, digits, `_` and `-`, beginning with a letter or digit.
    """
    title: str = ""
    """The title. 1 to 80 characters. Unset until somebody names it or the server does after the
    fifth turn.
    """
    topics: tuple[str, ...] = ()
    """Topics in kebab-case, most important first. At most 16, each at most 64 characters."""
    create_time: datetime
    """Time at which it began."""
    update_time: datetime
    """The time of its newest message, or `create_time` while it has none; a time ahead of the
    server's clock counts as the time of arrival. Renaming does not change it. It orders List
    and decides when a conversation counts as idle.
    """
    turn_count: int = 0
    """Number of turns: the number of its newest turn."""
    message_count: int = 0
    """Number of messages."""
    participants: tuple[str, ...] = ()
    """Participants, in the order given at creation, then senders in the order they first spoke.
    At most 64 are stored.
    """
    abbreviation: str = ""
    """The newest abbreviation: meeting notes of some 100 to 200 tokens. Unset until there is
    one.
    """
    manually_named: bool = False
    """True once a person named it with Rename: nothing automatic renames it after that."""
    pinned: bool = False
    """True while it is the conversation that new messages of its place join."""
    model: str = ""
    """The model that answers in it, an alias or an id, as the caller set it. Unset means the
    caller's default.
    """
    party: Party | None = None
    """The other side, on a channel that names one. Unset for the owner alone."""
    usage_total: Usage
    """The sum of its messages' usage."""
    cost_total: float = 0.0
    """The sum of its messages' cost in US dollars."""
    compressed_through: int = 0
    """The last turn that the newest compression summary covers. 0 means that nothing was
    compressed.
    """
    notes: Notes | None = None
    """Origin of its abbreviation and its title. Unset while it has neither and no attempt to
    write them failed.
    """
    topics_by_hand: bool = False
    """True if its topics were set by SetTopics: automatic notes leave them."""
    archived: bool = False
    """True while it is archived (see ConversationService.Archive)."""
    metadata: dict[str, Any] = field(default_factory=dict, hash=False)
    """Values that callers keep with it (see ConversationService.UpdateMetadata). Unset without
    any.
    """
    origin: ForkOrigin | None = None
    """The conversation that it began as a copy of (see ConversationService.Fork). Unset if it
    is no fork.
    """
    unindexed: bool = False
    """True while searches and the contexts of other conversations leave it out: a rule of
    retention unindexed it. A message ends that. Load, Get and List are the same, but for
    `latest_message`.
    """
    name: str = ""
    """Its one name for people, for lists, headings and notifications: the title; else the
    subject of its mails; else the contact or the group with the channel, "Hanan (WhatsApp)", on
    a channel on which others write; else what was asked for first, shortened as a title would
    be. At most 80 characters. Unset while it has none of these. Nothing is routed or trusted by
    it.
    """
    split_suggestion: SplitSuggestion | None = None
    """The newest suggestion to go on in several conversations. Unset if there is none: it ends
    with the conversation that follows (/new) and with Rename.
    """
    latest_message: MessagePreview | None = None
    """The beginning of its newest message with text, for lists. Messages of tools and redacted
    ones are passed over. Unset if there is none, and while `unindexed`.
    """


class ArchiveFilter(StrEnum):
    """Choice of conversations by whether they are archived."""

    ARCHIVED = "archived"
    """Those that are archived."""
    ALL = "all"
    """Both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationPage:
    """One page of a list of conversations. Iterating over it gives the conversations."""

    conversations: tuple[Conversation, ...] = ()
    """The conversations, newest `update_time` first. One that gets a message while the pages
    are read moves to the front: a reader may have seen it already, or may miss it.
    """
    next_page_token: str = ""
    """Token of the next page. Unset on the last one."""

    def __iter__(self) -> Iterator[Conversation]:
        return iter(self.conversations)

    def __len__(self) -> int:
        return len(self.conversations)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedConversation:
    """The working context of a conversation, or a page of its history."""

    conversation: Conversation | None = None
    """The conversation. Unset if `channel` has none yet."""
    messages: tuple[Message, ...] = ()
    """Whole turns, oldest first (by turn, then by sequence), unless `cut_before_sequence` is
    set. Without `before_turn` only those after the turns that `compression_summary` covers; a
    message that joined a covered turn late is in the history only.
    """
    has_more: bool = False
    """True if older messages exist than those answered, whether a summary covers them or not.
    Ask with `before_turn`.
    """
    compression_summary: str = ""
    """The summary that replaces the turns up to `conversation.compressed_through`. Unset if
    nothing was compressed.
    """
    damaged_lines: int = 0
    """Number of damaged lines of the transcript in the answered range, which are left out.
    Normally 0.
    """
    cut_before_sequence: int = 0
    """Set if a single turn is larger than an answer may be (see ConversationService), so that
    only its last messages are here: ask with it as `before_sequence` for those before them. 0
    if every turn is whole.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedTurn:
    """The messages that an append stored. A repeated request is answered with what the first
    one stored.
    """

    conversation: Conversation
    """The conversation after the append."""
    messages: tuple[Message, ...] = ()
    """The messages as stored, with sequence, turn number and timestamp."""
    turn_number: int = 0
    """The turn of the last of these messages."""
    cursor: str = ""
    """The position of this append in the live updates. Unset if the index could not take it
    yet.
    """
    duplicate: bool = False
    """True if this `request_id` had been stored before, so that nothing was stored now."""


class AnchorDisposition(StrEnum):
    """Fate of the anchors that came from a deleted conversation."""

    KEEP = "keep"
    """They stay, without the message they came from."""
    DELETE = "delete"
    """They are deleted with it."""


@dataclass(frozen=True, slots=True)
class RemovedFrom:
    """One place that a deleted conversation was removed from."""

    place: str = ""
    """The place: `transcript`, `torn_tail` (an incomplete write that a crash left at its end),
    `conversations`, `messages`, `search_terms`, `updates`, `requests`, `vectors`, `anchors`. A
    later version may name others.
    """
    count: int = 0
    """Number of entries that were there (for `transcript` and `torn_tail`: bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionReceipt:
    """The receipt of a deletion: the number of entries removed from each part of the service."""

    conversation_id: str = ""
    """The conversation that was deleted."""
    removed: tuple[RemovedFrom, ...] = ()
    """Every place that it was removed from. Its text is overwritten there, not only unlinked
    from the index.
    """
    delete_time: datetime
    """Time at which it was deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedMessages:
    """The result of `redact_message`."""

    conversation: Conversation
    """The conversation, without what came from the text."""
    messages: tuple[Message, ...] = ()
    """The tombstones, in the order of their sequences."""
    redact_time: datetime
    """Time at which the text was removed; of messages that had none any more, now."""
    duplicate: bool = False
    """True if nothing was removed now: this `request_id` had done it before, or no message had
    text any more.
    """
    copied_in: tuple[str, ...] = ()
    """Conversations that may have copies of the messages: forks of the same conversation, forks
    of forks, and that conversation itself, also where one between them is deleted. At most 100.
    Their copies stay until they are redacted there.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedConversations:
    """The receipt of `delete_many`."""

    conversation_ids: tuple[str, ...] = ()
    """The conversations that were deleted, or with `dry_run` would be."""
    left: tuple[tuple[str, str], ...] = ()
    """Those that match and were left, at most 1000."""
    removed: tuple[RemovedFrom, ...] = ()
    """Every place that they were removed from, added up. Empty with `dry_run`."""
    has_more: bool = False
    """True if more conversations match than `limit`: ask again, with another `request_id`. True
    too if it ended early (see `failure`): ask again, with the same `request_id`.
    """
    delete_time: datetime
    """Time at which they were deleted."""
    failure: str = ""
    """The conversation at which it ended early, and why, in a sentence; empty: it did not. The
    conversations above are deleted; ask again, with the same `request_id`, for the rest.
    """
