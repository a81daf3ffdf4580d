"""Entries of logs, which is what a line can say, as the members of their lines: each field of each
type is declared here, once, in the order of the members in a line.

Those of conversations, of external communications and of threads have nothing in common, so that
nothing of a third party can come into a conversation, not even by a file in the wrong folder: each
kind of log passes over the entries of the others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recollect_server.domain.checkpoint import RecordPut, RecordsRemoved, ThreadBegan, ThreadContent
from recollect_server.domain.conversation import (
    Abbreviated,
    AnchorForgotten,
    AnchorSet,
    Began,
    CommandRun,
    Compressed,
    Content,
    Continued,
    ConversationUnindexed,
    MessagesRedacted,
    MetaUpdated,
    ModelUse,
    NoteErased,
    Party,
    SplitSuggested,
    TitleAssigned,
    TurnMemory,
)
from recollect_server.domain.external import (
    CommunicationBegan,
    Direction,
    EmailHeaders,
    EscalationOpened,
    EscalationResolved,
    ExternalContent,
    ExternalMessage,
    Provenance,
    Trust,
    TrustSet,
)
from recollect_server.domain.ids import is_communication_id
from recollect_server.domain.message import Attachment, Message, Redaction, Role, ToolCall, Usage
from recollect_server.storage.logs.codec import (
    ARRIVAL,
    BYTES,
    FLAG,
    NAMES,
    NUMBER,
    NUMBERS,
    OBJECT,
    REAL,
    SWITCH,
    TEXT,
    TEXTS,
    TIME,
    Codec,
    Field,
    Value,
    number,
    one_of,
)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A whole, undamaged line that this version does not know: kept, and passed over."""


AnyContent = Content | ExternalContent | ThreadContent | Unknown


_TURN = number((1 << 31) - 1)
_TIMESTAMP = Field("timestamp", TIME, "time")

_USAGE = Codec(
    Usage,
    Field("input", NUMBER, default=0, is_written=True),
    Field("output", NUMBER, default=0, is_written=True),
)
_TOOL_CALL = Codec(ToolCall, Field("id", TEXT), Field("name", TEXT), Field("arguments", TEXT))
_ATTACHMENT = Codec(
    Attachment,
    Field("mediaType", TEXT, "media_type"),
    Field("uri", TEXT),
    Field("bytesLength", NUMBER, "bytes_length", 0),
)
_ATTACHMENTS = Field("attachments", _ATTACHMENT.values, default=())
_ARRIVED = Field("arrived", ARRIVAL, default=0)

ERASED = "erased"
"""Member of a line whose text was removed; it has the room of what was there."""
NO_NOTE = 0
"""Its value where there is not even room for an empty text."""


def _redaction(value: Any, member: str) -> Redaction:
    if value == NO_NOTE and type(value) is int:
        return Redaction()
    time, _, by = TEXT.read(value, member).strip().partition(" ")
    return Redaction(by, int(time, 36) if time not in ("", "-") else 0)


def note_of(redaction: Redaction) -> str:
    """Return a redaction as the value of its member. Never empty: that would not be written."""
    digits, rest = "", redaction.time
    while rest:
        rest, digit = divmod(rest, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{digits or '-'} {redaction.by}".rstrip()


_REDACTION = Value(_redaction, note_of)

MESSAGE = Codec(
    Message,
    Field("role", one_of(Role)),
    Field("content", TEXT),
    Field("timestamp", TIME, is_written=False),
    Field("turnNumber", _TURN, "turn_number", is_written=False),
    Field("thinkingText", TEXT, "thinking_text", ""),
    Field("usage", _USAGE.value, default=None),
    Field("cost", REAL, default=None),
    Field("channel", TEXT, default=""),
    Field("sender", TEXT, default=""),
    Field("senderName", TEXT, "sender_name", ""),
    Field("toolCalls", _TOOL_CALL.values, "tool_calls", ()),
    Field("toolCallId", TEXT, "tool_call_id", ""),
    _ATTACHMENTS,
    Field("metadata", OBJECT, default=None),
    _ARRIVED,
    Field(ERASED, _REDACTION, "redaction", None),
    head={"type": "turn"},
    numbered="sequence",
)

_PARTY = Codec(
    Party,
    Field("contact", TEXT, default=""),
    Field("groupId", TEXT, "group_id", ""),
    Field("threadId", TEXT, "thread_id", ""),
    Field("subject", TEXT, default=""),
    Field("contactName", TEXT, "contact_name", ""),
    Field("groupName", TEXT, "group_name", ""),
)


def _origins(value: Any, member: str) -> tuple[tuple[str, int], ...]:
    if type(value) is not list:
        raise TypeError(f"{member} is not a list")
    return tuple((TEXT.read(name, member), _TURN.read(turn, member)) for name, turn in value)


_ORIGINS = Value(_origins)

BEGAN = Codec(
    Began,
    Field("id", TEXT),
    Field("channel", TEXT),
    Field("created", TIME, "time"),
    Field("participants", NAMES, default=(), is_written=True),
    Field("model", TEXT, default=""),
    Field("pinned", FLAG, default=False),
    _ARRIVED,
    Field("party", _PARTY.value, default=Party()),
    Field("originId", TEXT, "origin_id", ""),
    Field("originTurn", _TURN, "origin_turn", 0),
    Field("earlierOrigins", _ORIGINS, "earlier_origins", ()),
    head={"type": "meta"},
)

_MODEL_USE = Field(
    "modelUse",
    Codec(
        ModelUse,
        Field("calls", NUMBER, default=0),
        Field("input", NUMBER, default=0),
        Field("output", NUMBER, default=0),
        Field("cost", REAL, default=0.0),
    ).value,
    "model_use",
    None,
)
_WRITER = (Field("writer", TEXT, default=""), Field("model", TEXT, default=""))


def _event(kind: type, name: str, *fields: Field) -> Codec[Any]:
    return Codec(kind, *fields, _TIMESTAMP, head={"type": "event", "event": name})


_EVENTS: dict[str, Codec[Any]] = {
    codec.head["event"]: codec
    for codec in (
        _event(
            TitleAssigned,
            "title_assigned",
            Field("title", TEXT),
            Field("topics", NAMES, default=(), is_written=True),
            *_WRITER,
            _MODEL_USE,
        ),
        _event(
            Compressed,
            "compression",
            Field("compressedThrough", _TURN, "compressed_through"),
            Field("summary", TEXT),
            _MODEL_USE,
        ),
        _event(
            Abbreviated,
            "abbreviation",
            Field("text", TEXT),
            Field("topics", NAMES, default=None),
            *_WRITER,
            _MODEL_USE,
        ),
        _event(
            MetaUpdated,
            "meta_update",
            Field("title", TEXT, default=None),
            Field("manuallyNamed", SWITCH, "manually_named", None),
            Field("model", TEXT, default=None),
            Field("pinned", SWITCH, default=None),
            Field("topics", NAMES, default=None),
            Field("archived", SWITCH, default=None),
            Field("metadata", OBJECT, default=None),
            Field("groupName", TEXT, "group_name", None),
        ),
        _event(SplitSuggested, "split_suggested", Field("reason", TEXT), Field("titles", TEXTS)),
        _event(
            AnchorSet,
            "anchor",
            Field("key", TEXT),
            Field("value", TEXT),
            Field("confidence", REAL),
            Field("sequence", NUMBER),
            Field("conversation", TEXT, "conversation_id", ""),
            Field("byCaller", FLAG, "by_caller", False),
        ),
        _event(
            AnchorForgotten,
            "anchor_forgotten",
            Field("key", TEXT),
            Field("requests", TEXTS, default=(), is_written=True),
        ),
        _event(Continued, "continued", Field("conversation", TEXT, "conversation_id")),
        _event(
            CommandRun,
            "command",
            Field("text", TEXT),
            Field("reply", TEXT),
            Field("before", TEXT, default=""),
            Field("cleared", FLAG, default=False),
            Field("mail", TEXTS, default=()),
        ),
        _event(
            MessagesRedacted,
            "redacted",
            Field("sequences", NUMBERS),
            Field("by", TEXT, default=""),
        ),
        _event(NoteErased, ERASED, _MODEL_USE),
        _event(ConversationUnindexed, "unindexed"),
        _event(
            TurnMemory,
            "turn_memory",
            Field("turn", _TURN),
            Field("tier", number(3), default=0),
            Field("summary", TEXT, default=""),
        ),
        _event(
            TrustSet,
            "trust_set",
            Field("trust", one_of(Trust)),
            Field("scopes", TEXTS, default=(), is_written=True),
        ),
        _event(
            EscalationOpened,
            "escalation_opened",
            Field("id", TEXT),
            Field("sequence", NUMBER),
            Field("question", TEXT),
        ),
        _event(
            EscalationResolved,
            "escalation_resolved",
            Field("id", TEXT),
            Field("answer", TEXT, default=""),
        ),
    )
}

_COMMUNICATION_BEGAN = Codec(
    CommunicationBegan,
    Field("id", TEXT),
    Field("channel", TEXT),
    Field("party", TEXT),
    Field("created", TIME, "time"),
    head={"type": "meta"},
)

_EMAIL = Codec(
    EmailHeaders,
    Field("messageId", TEXT, "message_id", ""),
    Field("inReplyTo", TEXT, "in_reply_to", ""),
    Field("references", TEXTS, default=()),
    Field("subject", TEXT, default=""),
)

_EXTERNAL_MESSAGE = Codec(
    ExternalMessage,
    Field("direction", one_of(Direction)),
    Field("text", TEXT),
    Field("timestamp", TIME),
    Field("providerMessageId", TEXT, "provider_message_id", ""),
    _ATTACHMENTS,
    Field("scope", TEXT, default=""),
    Field("acknowledgement", FLAG, default=False),
    _ARRIVED,
    Field("senderName", TEXT, "origin.sender_name", ""),
    Field("groupId", TEXT, "origin.group_id", ""),
    Field("threadId", TEXT, "origin.thread_id", ""),
    Field("email", _EMAIL.value, "origin.email", None),
    Field(ERASED, _REDACTION, "redaction", None),
    head={"type": "message"},
    parts={"origin": Provenance},
    numbered="sequence",
)

_THREAD: dict[str, Codec[Any]] = {
    codec.head["type"]: codec
    for codec in (
        Codec(
            ThreadBegan,
            Field("id", TEXT, "thread_id"),
            Field("created", TIME, "time"),
            head={"type": "thread"},
        ),
        Codec(
            RecordPut,
            Field("key", TEXT),
            Field("value", BYTES),
            head={"type": "record"},
        ),
        Codec(
            RecordsRemoved,
            Field("timestamp", TIME, "time"),
            Field("requests", TEXTS, default=()),
            head={"type": "records_removed"},
        ),
    )
}

_ALL: tuple[Codec[Any], ...] = (
    MESSAGE,
    BEGAN,
    _COMMUNICATION_BEGAN,
    _EXTERNAL_MESSAGE,
    *_EVENTS.values(),
    *_THREAD.values(),
)
KINDS = frozenset(codec.head.get("event", codec.head["type"]) for codec in _ALL)
"""Kinds of lines, by the name of the event or of the type; a new one raises `FORMAT`."""


def _refuse(_: Unknown) -> dict[str, Any]:
    raise ValueError("a line that this version does not know cannot be written by it")


MEMBERS: dict[type, Callable[[Any], dict[str, Any]]] = {codec.kind: codec.fields for codec in _ALL}
"""Functions that return the members of an entry's line, by its type. They raise ValueError for one
that cannot be written.
"""
MEMBERS[Unknown] = _refuse


def content_of(fields: dict[str, Any], line: int) -> AnyContent:
    """Return the entry of a line's members; the line has this number. Raises KeyError, TypeError,
    ValueError if it is not as it must be.
    """
    codec: Codec[Any] | None = None
    match fields["type"]:
        case "turn":
            codec = MESSAGE
            if ERASED in fields:
                fields = fields | {"content": ""}
        case "event":
            name = fields["event"]
            codec = _EVENTS.get(name) if isinstance(name, str) else None
            if codec is None:
                TIME.read(fields["timestamp"], "timestamp")
        case "meta":
            codec = _COMMUNICATION_BEGAN if is_communication_id(fields["id"]) else BEGAN
        case "message":
            codec = _EXTERNAL_MESSAGE
            if ERASED in fields:
                fields = fields | {"text": ""}
        case "thread" | "record" | "records_removed":
            codec = _THREAD[fields["type"]]
    content: AnyContent = codec.entry(fields, line) if codec else Unknown()
    return content


def message_fields(message: Message) -> dict[str, Any]:
    """Return the members of a message's line but its type."""
    fields = MESSAGE.fields(message)
    del fields["type"]
    return fields
