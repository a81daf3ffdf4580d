"""A conversation and everything that can happen to it.

A transcript is a list of entries; `fold` applies one entry to what was known before. A live append
and a rebuild from the files use the same function, so they cannot come to different answers.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.message import Message, Role, Usage
from recollect_server.kernel.domain.time import updated

MAX_PARTICIPANTS = 64
MAX_OPEN_CALLS = 256  # unanswered tool calls of a conversation that a late result can still answer
MAX_OPENING = 240  # characters of a text that stand for all of it in a list
MAX_PREVIEW = 120  # characters of the newest message in a list of conversations
_MAX_TOKENS = (1 << 63) - 1  # totals stop at what the contract's and the index's numbers can hold
_MAX_COST = sys.float_info.max
ANYBODY = "user"
"""The participant of a conversation that is begun without naming one."""


@dataclass(frozen=True, slots=True)
class Party:
    """Counterpart of a channel's conversation, as the channel names it. Empty fields are unset."""

    contact: str = ""
    group_id: str = ""
    thread_id: str = ""
    subject: str = ""
    contact_name: str = ""
    """The contact's display name, as the channel gave it last, for people: nothing is routed by
    it.
    """
    group_name: str = ""
    """The group's, likewise."""


NOBODY = Party()
NO_USAGE = Usage()

RULE, CALLER = "extractive", "caller"
"""Writers of notes: the server's rule, and its callers. Any other that is named is a model's
API.
"""


@dataclass(frozen=True, slots=True)
class NoteRecord:
    """Writer, model and time of a note. An empty writer: an earlier version wrote it and kept no
    record.
    """

    writer: str = ""
    model: str = ""
    time: int = 0

    def stands_before(self, writer: str) -> bool:
        """Return whether the note may not be replaced by one of this writer: a rule's never
        replaces a model's or a caller's.
        """
        return writer == RULE and self.writer not in ("", RULE)


NO_RECORD = NoteRecord()


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Calls of a model's API for the server's own notes, their tokens, and US dollars."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0


OpenCall = tuple[int, str]
"""A tool call without a result: its turn and its id."""


@dataclass(frozen=True, slots=True)
class Split:
    """A suggestion to go on in several conversations, with titles for them. Empty: there is
    none.
    """

    reason: str = ""
    titles: tuple[str, ...] = ()


NO_SPLIT = Split()


@dataclass(frozen=True, slots=True)
class MessagePreview:
    """The beginning of a message, for lists. An empty text: there is none."""

    role: Role = Role.USER
    sender: str = ""
    """The sender's display name, else its id."""
    text: str = ""


NO_PREVIEW = MessagePreview()


@dataclass(frozen=True, slots=True)
class ConversationNaming:
    """Names of conversations without a title, by what is said in them. A feature registers it."""

    highest: int = 0
    """Rank of a message than which none names a conversation better."""
    request_of: Callable[[Message, int], tuple[int, str]] = lambda _, least: (least, "")
    """Returns the rank of a message, if it is above the given one, and the text that it names its
    conversation by.
    """
    name_of: Callable[[str, str, str, str, str], str] = lambda title, *_: title
    """Returns the name of a conversation with this title, channel, subject, party and text, of
    which each may be empty.
    """


_naming = ConversationNaming()


def register_naming(naming: ConversationNaming) -> None:
    """Let conversations be named so in this process."""
    global _naming
    _naming = naming


@frozen
class Conversation:
    """State of a conversation without its messages. Empty texts are unset."""

    id: str
    channel: str
    create_time: int
    update_time: int
    title: str = ""
    topics: tuple[str, ...] = ()
    turn_count: int = 0
    message_count: int = 0
    participants: tuple[str, ...] = ()
    abbreviation: str = ""
    abbreviated_through: int = 0
    """The newest turn that the abbreviation has all of: what lies after it waits for the next
    one.
    """
    manually_named: bool = False
    pinned: bool = False
    model: str = ""
    party: Party = NOBODY
    usage_total: Usage = NO_USAGE
    cost_total: float = 0.0
    compressed_through: int = 0
    compression_summary: str = ""
    request: str = ""
    """The text that names it without a title (see `ConversationNaming`)."""
    request_rank: int = 0
    """The rank of the message that it is of: one of a higher rank takes its place."""
    text_bytes: int = 0
    """Bytes of all contents together: the document length of conversation-level BM25."""
    open_calls: tuple[OpenCall, ...] = ()
    """The newest `MAX_OPEN_CALLS` tool calls that wait for their results, in the order in which
    they were made.
    """
    abbreviation_record: NoteRecord = NO_RECORD
    title_record: NoteRecord = NO_RECORD
    topics_by_hand: bool = False
    """True if a person set its topics: automatic notes leave them."""
    archived: bool = False
    metadata: dict[str, Any] | None = field(default=None, hash=False)
    """Values that callers keep with it. None: there are none."""
    origin_id: str = ""
    """The conversation that it was copied of; empty: it is no fork."""
    origin_turn: int = 0
    """The last turn that was copied."""
    earlier_origins: tuple[tuple[str, int], ...] = ()
    """Origins of the origin, nearest first, each with its last turn that is here. Those between
    may be deleted.
    """
    unindexed: bool = False
    """True if searches and the contexts of others leave it out, until somebody writes to it."""
    split: Split = NO_SPLIT
    """The newest suggestion, until another conversation follows or a person names this one."""
    latest_message: MessagePreview = NO_PREVIEW
    """The newest message of a person or the assistant that has a text: a redacted one has none."""

    @property
    def name(self) -> str:
        """Return its one name for people; empty while nothing was said and nobody is there."""
        party = self.party
        there = party.group_name or party.group_id or party.contact_name or party.contact
        return _naming.name_of(self.title, self.channel, party.subject, there, self.request)


@dataclass(frozen=True, slots=True)
class Began:
    """The first line: the conversation exists."""

    id: str
    channel: str
    time: int
    participants: tuple[str, ...] = ()
    party: Party = NOBODY
    model: str = ""
    pinned: bool = False
    arrived: int = 0
    """The server's time when it began, where `time` lies ahead of it; else 0."""
    origin_id: str = ""
    """The conversation that it is a copy of, up to the turn `origin_turn`."""
    origin_turn: int = 0
    earlier_origins: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TitleAssigned:
    """It was named automatically."""

    title: str
    topics: tuple[str, ...]
    time: int
    writer: str = ""
    model: str = ""
    model_use: ModelUse | None = None
    """Calls that the server made for it; None: none, or an earlier version wrote it."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """The agent shrank its working context: the summary stands for the turns up to
    `compressed_through`.
    """

    compressed_through: int
    summary: str
    time: int
    model_use: ModelUse | None = None
    """Calls that the server made for it; None: none, or an earlier version wrote it."""


@dataclass(frozen=True, slots=True)
class Abbreviated:
    """Notes were written. `topics` None keeps those it has."""

    text: str
    time: int
    topics: tuple[str, ...] | None = None
    writer: str = ""
    model: str = ""
    model_use: ModelUse | None = None
    """Calls that the server made for it; None: none, or an earlier version wrote it."""


@dataclass(frozen=True, slots=True)
class MetaUpdated:
    """Something about it was set by hand, or by its channel. None keeps what was."""

    time: int
    title: str | None = None
    manually_named: bool | None = None
    model: str | None = None
    pinned: bool | None = None
    topics: tuple[str, ...] | None = None
    """An empty list leaves them to the automatic notes again."""
    archived: bool | None = None
    metadata: dict[str, Any] | None = field(default=None, hash=False)
    """Values by key that are set; a value of None removes its key."""
    group_name: str | None = None
    """The group's display name: a message brought another one."""


@dataclass(frozen=True, slots=True)
class SplitSuggested:
    """It seems to be about several things, which could have these titles. Nobody splits it
    automatically.
    """

    reason: str
    titles: tuple[str, ...]
    time: int


@dataclass(frozen=True, slots=True)
class AnchorSet:
    """A lasting fact about the user: found in the message of line `sequence` of this transcript, or
    kept in the file of anchors.

    Only there it has what follows the time.
    """

    key: str
    value: str
    """Empty: the one that holds is taken back."""
    confidence: float
    sequence: int
    """0: without a message."""
    time: int
    """The time at which its message was said, or a caller set it."""
    conversation_id: str = ""
    by_caller: bool = False
    """A caller set it; else it was found in a conversation that was deleted since."""


@dataclass(frozen=True, slots=True)
class AnchorForgotten:
    """Stands in the file of anchors alone: what was found for this key up to then does not count
    any more.
    """

    key: str
    time: int
    requests: tuple[str, ...] = ()
    """The requests that had set what was forgotten: they are not carried out again."""


@dataclass(frozen=True, slots=True)
class Continued:
    """Event after which inbound messages go to another conversation: this one is not pinned any
    more.
    """

    conversation_id: str
    time: int


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A slash command was answered: what was asked and said, so that a repeat is answered again and
    not run again.

    `before` is the conversation that it ended, which the command unpinned, or, where `cleared`,
    removed. `mail` are the ids that the command's headers named, on e-mail: they lead here from
    then on.
    """

    text: str
    reply: str
    time: int
    before: str = ""
    cleared: bool = False
    mail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MessagesRedacted:
    """The text of messages was removed, with everything that was derived from it."""

    sequences: tuple[int, ...]
    """Their lines, ascending."""
    time: int
    by: str = ""
    """Id of the token that asked for it."""


@dataclass(frozen=True, slots=True)
class ConversationUnindexed:
    """Its words and vectors left the index; the next message brings them back."""

    time: int


@dataclass(frozen=True, slots=True)
class TurnMemory:
    """A tier and a summary that a caller recorded of a turn, in place of earlier ones."""

    turn: int
    tier: int = 0
    """Its tier in contexts of the conversation, by the contract's number; 0: the server chooses."""
    summary: str = ""
    """Stands for the turn where a context has no room for its messages."""
    time: int = 0

    @property
    def is_set(self) -> bool:
        """Return whether anything is recorded: both may have been taken back."""
        return bool(self.tier or self.summary)


@dataclass(frozen=True, slots=True)
class NoteErased:
    """Remains of notes, a title, a summary or an anchor that came from a redacted message."""

    time: int
    model_use: ModelUse | None = None
    """Calls that the server made for what was here: they were spent."""


Event = (
    TitleAssigned
    | Compressed
    | Abbreviated
    | MetaUpdated
    | SplitSuggested
    | AnchorSet
    | AnchorForgotten
    | Continued
    | CommandRun
    | MessagesRedacted
    | NoteErased
    | ConversationUnindexed
    | TurnMemory
)
Content = Began | Message | Event
"""Entries of a conversation's log."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most messages and bytes that a conversation may have; 0: no limit."""

    messages: int = 0
    bytes: int = 0

    def exceeded(self, count: int, size: int, contents: Sequence[object]) -> str:
        """Return the name of the setting that refuses the messages among these contents to a
        conversation of so many messages and bytes; empty if none does.
        """
        added = [*map(type, contents)].count(Message)
        if self.messages and added and count + added > self.messages:
            return "max_conversation_messages"
        if self.bytes and added and size >= self.bytes:
            return "max_conversation_bytes"
        return ""


UNBOUNDED = Capacity()


def fold(before: Conversation | None, content: object) -> Conversation | None:
    """Return the state after one entry. Entries before `Began` are skipped (their file lost its
    first line).
    """
    match content:
        case Began():
            return before or Conversation(
                id=content.id,
                channel=content.channel,
                create_time=content.time,
                update_time=updated(None, content.time, content.arrived),
                participants=content.participants,
                party=content.party,
                model=content.model,
                pinned=content.pinned,
                origin_id=content.origin_id,
                origin_turn=content.origin_turn,
                earlier_origins=content.earlier_origins,
            )
        case _ if before is None:
            return None
        case Message():
            return with_message(before, content)
        case TitleAssigned():
            if before.manually_named:
                return before
            return replace(
                before,
                title=content.title,
                topics=before.topics if before.topics_by_hand else content.topics or before.topics,
                title_record=_record_of(content),
            )
        case Compressed():
            # a foreign line may say more than there is
            through = min(content.compressed_through, before.turn_count)
            return replace(before, compressed_through=through, compression_summary=content.summary)
        case Abbreviated():
            return replace(
                before,
                abbreviation=content.text,
                abbreviated_through=before.turn_count,
                topics=before.topics
                if content.topics is None or before.topics_by_hand
                else content.topics,
                abbreviation_record=_record_of(content),
            )
        case MetaUpdated():
            return replace(
                before,
                title=before.title if content.title is None else content.title,
                title_record=before.title_record if content.title is None else NO_RECORD,
                manually_named=before.manually_named
                if content.manually_named is None
                else content.manually_named,
                model=before.model if content.model is None else content.model,
                pinned=before.pinned if content.pinned is None else content.pinned,
                topics=before.topics if content.topics is None else content.topics,
                topics_by_hand=before.topics_by_hand
                if content.topics is None
                else bool(content.topics),
                archived=before.archived if content.archived is None else content.archived,
                metadata=merged(before.metadata, content.metadata),
                party=before.party
                if content.group_name is None
                else replace(before.party, group_name=content.group_name),
                split=NO_SPLIT if content.manually_named else before.split,
            )
        case SplitSuggested():
            return replace(before, split=Split(content.reason, content.titles))
        case Continued():
            return replace(before, pinned=False, split=NO_SPLIT)
        case ConversationUnindexed():
            # the index keeps none of its words
            return replace(before, unindexed=True, latest_message=NO_PREVIEW)
        case _:
            # nothing that the conversation itself shows, or a line of another kind of transcript
            return before


def with_message(before: Conversation, message: Message) -> Conversation:
    """Return the state after a message."""
    participants = before.participants
    if (
        message.sender
        and message.sender not in participants
        and len(participants) < MAX_PARTICIPANTS
    ):
        participants = (*participants, message.sender)
    party = before.party
    if (
        message.sender_name
        and message.sender == party.contact
        and message.sender_name != party.contact_name
    ):
        party = replace(party, contact_name=message.sender_name)
    usage = before.usage_total
    if message.usage:
        usage = Usage(
            min(usage.input + message.usage.input, _MAX_TOKENS),
            min(usage.output + message.usage.output, _MAX_TOKENS),
        )
    request, rank = before.request, before.request_rank
    if rank < _naming.highest and (better := _naming.request_of(message, rank))[0] > rank:
        rank, request = better
    latest = before.latest_message
    if message.role is not Role.TOOL:
        start = message.content[:MAX_PREVIEW]
        if not start.isprintable() or "  " in start or start.startswith(" "):  # few texts
            start = " ".join(message.content[: 4 * MAX_PREVIEW].split())[:MAX_PREVIEW]
        if text := start.rstrip():
            latest = MessagePreview(message.role, message.sender_name or message.sender, text)
    first = before.message_count == 0
    # Written out, not with `replace`: this runs for every message that is stored, and takes a third
    # of the time.
    return Conversation(
        id=before.id,
        channel=before.channel,
        create_time=before.create_time,
        update_time=updated(
            None if first else before.update_time, message.timestamp, message.arrived
        ),
        title=before.title,
        topics=before.topics,
        turn_count=max(before.turn_count, message.turn_number),
        message_count=before.message_count + 1,
        participants=participants,
        abbreviation=before.abbreviation,
        # its turn went on
        abbreviated_through=min(before.abbreviated_through, message.turn_number - 1),
        manually_named=before.manually_named,
        pinned=before.pinned,
        model=before.model,
        party=party,
        usage_total=usage,
        cost_total=min(before.cost_total + (message.cost or 0.0), _MAX_COST),
        compressed_through=before.compressed_through,
        compression_summary=before.compression_summary,
        request=request,
        request_rank=rank,
        text_bytes=before.text_bytes + len(message.content.encode()),
        open_calls=open_calls_after(before.open_calls, message)
        if message.tool_calls or message.tool_call_id
        else before.open_calls,
        abbreviation_record=before.abbreviation_record,
        title_record=before.title_record,
        topics_by_hand=before.topics_by_hand,
        # a person who writes wants it back
        archived=before.archived and message.role is not Role.USER,
        metadata=before.metadata,
        origin_id=before.origin_id,
        origin_turn=before.origin_turn,
        earlier_origins=before.earlier_origins,
        split=before.split,
        latest_message=latest,
    )


def merged(before: dict[str, Any] | None, changes: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return metadata after changes by key; None if nothing is left."""
    if changes is None:
        return before
    both = (before or {}) | changes
    return {key: value for key, value in both.items() if value is not None} or None


def _record_of(note: TitleAssigned | Abbreviated) -> NoteRecord:
    return NoteRecord(note.writer, note.model, note.time) if note.writer else NO_RECORD


def open_calls_after(before: tuple[OpenCall, ...], message: Message) -> tuple[OpenCall, ...]:
    """Return the unanswered tool calls after a message: without the one it answers, with those it
    makes.
    """
    if message.role is Role.TOOL:
        answered = (message.turn_number, message.tool_call_id)
        return tuple(call for call in before if call != answered)
    made = dict.fromkeys((message.turn_number, call.id) for call in message.tool_calls)
    return (*(call for call in before if call not in made), *made)[-MAX_OPEN_CALLS:]


def opening_of(content: str, most: int = MAX_OPENING) -> str:
    """Return the first `most` characters of a text on one line."""
    words = " ".join(content[: 4 * most].split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"
