"""Entries of logs, which is what a line can say, as the members of their lines: each field of each
type is declared here, once, in the order of the members in a line.

A kind of log registers its `Vocabulary`; that of conversations is here. Those of different kinds
have nothing in common but what they say, so that nothing of a third party can come into a
conversation, not even by a file in the wrong folder: each kind of log passes over the entries of
the others.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    AnchorForgotten,
    AnchorSet,
    Began,
    CommandRun,
    Compressed,
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
from recollect_server.kernel.domain.ids import is_conversation_id
from recollect_server.kernel.domain.message import (
    Attachment,
    Message,
    Redaction,
    Role,
    ToolCall,
    Usage,
)
from recollect_server.kernel.log.codec import (
    ARRIVAL,
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


Redact = Callable[[Any, bytes, Collection[int], Redaction], bytes]
"""Returns the line of an entry without the text of the messages of these lines: the entry, its
line, the lines, and who redacted them when. It is as long as it was.
"""


def _unchanged(_entry: Any, raw: bytes, _sequences: Collection[int], _by: Redaction) -> bytes:
    return raw


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Entries of one kind of log."""

    is_name: Callable[[str], bool]
    """Tells whether a text is the name of such a log."""
    begins: type
    """Entry of a first line."""
    log_of: Callable[[Any], str]
    """Returns the name of the log that such an entry begins."""
    codecs: tuple[Codec[Any], ...]
    """Codecs of its entries, but for those that it shares."""
    shared: tuple[type, ...] = ()
    """Entries that another kind declares and this one has too."""
    redact: Redact = _unchanged
    contents: tuple[type, ...] = field(init=False)
    """Types of its entries."""

    def __post_init__(self) -> None:
        contents = (*(it.kind for it in self.codecs), *self.shared, Unknown)
        object.__setattr__(self, "contents", contents)


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
ATTACHMENTS = Field("attachments", _ATTACHMENT.values, default=())
ARRIVED = Field("arrived", ARRIVAL, default=0, is_kept=True)

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


ERASED_BY = Field(ERASED, Value(_redaction, note_of), "redaction", None)
"""Says that the text of a message was removed, when and by whom."""

MESSAGE = Codec(
    Message,
    Field("role", one_of(Role), is_kept=True),
    Field("content", TEXT),
    Field("timestamp", TIME, is_written=False, is_kept=True),
    Field("turnNumber", _TURN, "turn_number", is_written=False, is_kept=True),
    Field("thinkingText", TEXT, "thinking_text", ""),
    Field("usage", _USAGE.value, default=None, is_kept=True),
    Field("cost", REAL, default=None, is_kept=True),
    Field("channel", TEXT, default="", is_kept=True),
    Field("sender", TEXT, default=""),
    Field("senderName", TEXT, "sender_name", ""),
    Field("toolCalls", _TOOL_CALL.values, "tool_calls", ()),
    Field("toolCallId", TEXT, "tool_call_id", "", is_kept=True),
    ATTACHMENTS,
    Field("metadata", OBJECT, default=None),
    ARRIVED,
    ERASED_BY,
    head={"type": "turn"},
    numbered="sequence",
    text="content",
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
    ARRIVED,
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


def event(kind: type, name: str, *fields: Field) -> Codec[Any]:
    """Return the codec of an event, which has a time."""
    return Codec(kind, *fields, _TIMESTAMP, head={"type": "event", "event": name})


_EVENTS = (
    event(
        TitleAssigned,
        "title_assigned",
        Field("title", TEXT),
        Field("topics", NAMES, default=(), is_written=True),
        *_WRITER,
        _MODEL_USE,
    ),
    event(
        Compressed,
        "compression",
        Field("compressedThrough", _TURN, "compressed_through"),
        Field("summary", TEXT),
        _MODEL_USE,
    ),
    event(
        Abbreviated,
        "abbreviation",
        Field("text", TEXT),
        Field("topics", NAMES, default=None),
        *_WRITER,
        _MODEL_USE,
    ),
    event(
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
    event(SplitSuggested, "split_suggested", Field("reason", TEXT), Field("titles", TEXTS)),
    event(
        AnchorSet,
        "anchor",
        Field("key", TEXT),
        Field("value", TEXT),
        Field("confidence", REAL),
        Field("sequence", NUMBER),
        Field("conversation", TEXT, "conversation_id", ""),
        Field("byCaller", FLAG, "by_caller", False),
    ),
    event(
        AnchorForgotten,
        "anchor_forgotten",
        Field("key", TEXT),
        Field("requests", TEXTS, default=(), is_written=True),
    ),
    event(Continued, "continued", Field("conversation", TEXT, "conversation_id")),
    event(
        CommandRun,
        "command",
        Field("text", TEXT),
        Field("reply", TEXT),
        Field("before", TEXT, default=""),
        Field("cleared", FLAG, default=False),
        Field("mail", TEXTS, default=()),
    ),
    event(
        MessagesRedacted,
        "redacted",
        Field("sequences", NUMBERS),
        Field("by", TEXT, default=""),
    ),
    event(NoteErased, ERASED, _MODEL_USE),
    event(ConversationUnindexed, "unindexed"),
    event(
        TurnMemory,
        "turn_memory",
        Field("turn", _TURN),
        Field("tier", number(3), default=0),
        Field("summary", TEXT, default=""),
    ),
)

VOCABULARIES: list[Vocabulary] = []
"""Those that are registered."""
_FIRST: list[tuple[Callable[[str], bool], Codec[Any]]] = []  # lines of the type `meta`
_TYPES: dict[str, Codec[Any]] = {}  # of other lines but events
_NAMES: dict[str, Codec[Any]] = {}  # of events
_OF: dict[type, Vocabulary] = {}


def _refuse(_: Unknown) -> dict[str, Any]:
    raise ValueError("a line that this version does not know cannot be written by it")


MEMBERS: dict[type, Callable[[Any], dict[str, Any]]] = {Unknown: _refuse}
"""Functions that return the members of an entry's line, by its type. They raise ValueError for one
that cannot be written.
"""


def register(vocabulary: Vocabulary) -> None:
    """Let lines of a kind of log be read and written. Until then a line of it is `Unknown`."""
    if vocabulary in VOCABULARIES:
        return
    VOCABULARIES.append(vocabulary)
    for codec in vocabulary.codecs:
        MEMBERS[codec.kind] = codec.fields
        _OF[codec.kind] = vocabulary
        if "event" in codec.head:
            _NAMES[codec.head["event"]] = codec
        elif codec.head == BEGAN.head:
            _FIRST.append((vocabulary.is_name, codec))
        else:
            _TYPES[codec.head["type"]] = codec


register(Vocabulary(is_conversation_id, Began, attrgetter("id"), (MESSAGE, BEGAN, *_EVENTS)))


def kinds() -> frozenset[str]:
    """Return the kinds of lines, by the name of the event or of the type; a new one raises
    `FORMAT`.
    """
    return frozenset((BEGAN.head["type"], *_TYPES, *_NAMES))


def begun_by(content: object) -> str:
    """Return the log that a first line begins; empty for another line."""
    of = _OF.get(type(content))
    return of.log_of(content) if of and isinstance(content, of.begins) else ""


def without_text(
    content: object, raw: bytes, sequences: Collection[int], redaction: Redaction
) -> bytes:
    """Return the line of an entry as a redaction leaves it by its kind of log (see `Redact`)."""
    of = _OF.get(type(content))
    return of.redact(content, raw, sequences, redaction) if of else raw


def content_of(fields: dict[str, Any], line: int) -> object:
    """Return the entry of a line's members; the line has this number. Raises KeyError, TypeError,
    ValueError if it is not as it must be.
    """
    codec: Codec[Any] | None = None
    match fields["type"]:
        case "event":
            name = fields["event"]
            codec = _NAMES.get(name) if isinstance(name, str) else None
            if codec is None:
                TIME.read(fields["timestamp"], "timestamp")
        case "meta":
            first = (it for is_name, it in _FIRST if is_name(fields["id"]))
            codec = next(first, BEGAN)
        case str(name):
            codec = _TYPES.get(name)
    if codec is None:
        return Unknown()
    if codec.text and ERASED in fields:
        fields = fields | {codec.text: ""}
    entry: object = codec.entry(fields, line)
    return entry


def message_fields(message: Message) -> dict[str, Any]:
    """Return the members of a message's line but its type."""
    fields = MESSAGE.fields(message)
    del fields["type"]
    return fields
