"""A line of a transcript and the entry that it stands for."""

from typing import Any
from zlib import crc32

import orjson

from recollect_server.domain.conversation import (
    Abbreviated,
    AnchorForgotten,
    AnchorSet,
    Began,
    CommandRun,
    Compressed,
    Content,
    Continued,
    MetaUpdated,
    Party,
    SplitSuggested,
    TitleAssigned,
    Unknown,
)
from recollect_server.domain.external import (
    CommunicationBegan,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
    TrustSet,
)
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import MAX_LINES, is_communication_id
from recollect_server.domain.message import Message, Role, ToolCall, Usage
from recollect_server.domain.time import from_text, to_text
from recollect_server.storage.logs.external_record import external_content, external_fields
from recollect_server.storage.logs.fields import (
    attachment_fields,
    attachments,
    moment,
    number,
    optional,
    text,
    texts,
)

_SUFFIX = len(b',"crc":"00000000"}')
_HEX = frozenset(b"0123456789abcdef")
# of the bytes of a checksum: fewer are no checksum that a few flipped bits made unreadable
_LIKE_A_CHECKSUM = 14
# and what a lost byte leaves of the name: its line is still JSON
_CHECKSUM_NAMES = frozenset({"crc", "cr", "cc", "rc"})
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_MAX_DEPTH = 64  # of a plain line; a message's metadata has at most 24 levels
_MAX_TURN = (1 << 31) - 1
LOST_CHANNEL = "unknown"  # of a conversation whose first line is damaged, or does not say it


class Damaged(Exception):
    """The line is not one that this program wrote, or not any more; or a foreign one that cannot be
    read.
    """


@frozen
class Stamp:
    """Request that wrote a line, and the line's place in its batch (from 1, of how many)."""

    request_id: str = ""
    request_hash: str = ""
    batch: tuple[int, int] = (1, 1)
    draft_id: str = ""


@frozen
class Entry:
    """Content of a line, and its stamp."""

    content: Content
    stamp: Stamp = Stamp()


def encode(entry: Entry) -> bytes:
    """Return an entry's line with its checksum and newline. Raises ValueError for text that is not
    Unicode (lone surrogates).
    """
    fields = _fields(entry.content)
    stamp = entry.stamp
    if stamp.request_id:
        fields["requestId"] = stamp.request_id
        fields["requestHash"] = stamp.request_hash
    if stamp.draft_id:
        fields["draftId"] = stamp.draft_id
    if stamp.batch[1] > 1:
        fields["batch"] = stamp.batch
    return seal(fields)


def seal(fields: dict[str, Any]) -> bytes:
    """Return a line of these fields with its checksum and newline; `fields` is not empty. Raises
    ValueError as `encode`.
    """
    body = orjson.dumps(fields)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def unseal(line: bytes) -> Any:
    """Return the JSON value of a line without its newline. Raises Damaged if its checksum does not
    fit, ValueError if it is no JSON.
    """
    body, suffix = line[:-_SUFFIX], line[-_SUFFIX:]
    if suffix != b',"crc":"%08x"}' % crc32(body):
        raise Damaged(
            "the checksum does not fit"
            if suffix.startswith(b',"crc":"')
            else "there is no checksum"
        )
    return orjson.loads(body + b"}")


def has_checksum(line: bytes) -> bool:
    """Return whether a line without its newline ends in a checksum, or in what damage may have left
    of one.
    """
    suffix = line[-_SUFFIX:]
    if len(suffix) < _SUFFIX:
        return False
    if suffix.startswith(b',"crc":"') and suffix.endswith(b'"}') and _HEX.issuperset(suffix[8:16]):
        return True  # as nearly every line: not byte by byte
    same = sum(suffix[place] == byte for place, byte in enumerate(b',"crc":"')) + sum(
        it in _HEX for it in suffix[8:16]
    )
    return same + (suffix[16] == ord('"')) + (suffix[17] == ord("}")) >= _LIKE_A_CHECKSUM


def is_object(line: bytes) -> bool:
    """Return whether a line is a whole JSON object."""
    try:
        return isinstance(orjson.loads(line), dict)
    except ValueError:
        return False


def decode(line: bytes, sequence: int, *, lenient: bool = False) -> Entry:
    """Return the entry of a line without its newline; `sequence` is the line's number.

    A line with nothing like a checksum is in the plain form, which people and other programs write;
    `lenient` allows it to say neither turn nor time. Raises Damaged with the reason.
    """
    if not has_checksum(line):
        return _decode_plain(line, sequence, lenient=lenient)
    try:
        fields = unseal(line)
        return Entry(_content(fields, sequence), _stamp(fields))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(
            f"the checksum fits and the content does not: {type(error).__name__} {error}"
        ) from error


def _is_deep(value: Any) -> bool:
    """Return whether a JSON value is nested so deeply that other encoders refuse it."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        nested = [it for it in level if isinstance(it, dict | list)]
        level = [each for it in nested for each in (it.values() if isinstance(it, dict) else it)]
        if not level:
            return False
    return True


def _decode_plain(line: bytes, sequence: int, *, lenient: bool) -> Entry:
    if not line.strip():
        raise Damaged("the line is empty")
    try:
        fields = orjson.loads(line.removeprefix(_BYTE_ORDER_MARK))
    except ValueError as error:
        raise Damaged(f"there is no checksum, and it is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise Damaged("there is no checksum, and it is no JSON object")
    if _is_deep(fields):
        raise Damaged(f"it is nested deeper than {_MAX_DEPTH} levels")
    if not _CHECKSUM_NAMES.isdisjoint(fields):
        raise Damaged(
            "the checksum is not at the line's end, where it can be compared: take it off to have the line read"
        )
    try:
        match fields.get("type"):
            case "meta":
                fields = {"id": "", "channel": LOST_CHANNEL, "created": _NOT_GIVEN} | fields
            case "turn":
                fields = ({"timestamp": _NOT_GIVEN, "turnNumber": 1} if lenient else {}) | fields
                if number(fields["turnNumber"], MAX_LINES) == 0:
                    raise ValueError("turnNumber is 0: turns count from 1")
        content = _content(fields, sequence)
        stamp = _stamp(fields)
    except KeyError as error:
        raise Damaged(f"{error.args[0]} is missing") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise Damaged(f"{error}") from error
    if isinstance(content, Unknown):
        raise Damaged("it is of a type that is not known")
    return Entry(content, stamp)


_NOT_GIVEN = to_text(0)


def message_fields(message: Message, **before: str) -> dict[str, Any]:
    """Return the fields of a message's line, after the fields `before`, without those that derive
    from the line.
    """
    fields: dict[str, Any] = {**before, "role": message.role.value, "content": message.content}
    if message.timestamp:
        fields["timestamp"] = to_text(message.timestamp)
    if message.turn_number:
        fields["turnNumber"] = message.turn_number
    if message.thinking_text:
        fields["thinkingText"] = message.thinking_text
    if message.usage is not None:
        fields["usage"] = {"input": message.usage.input, "output": message.usage.output}
    if message.cost is not None:
        fields["cost"] = message.cost
    if message.channel:
        fields["channel"] = message.channel
    if message.sender:
        fields["sender"] = message.sender
    if message.sender_name:
        fields["senderName"] = message.sender_name
    if message.tool_calls:
        fields["toolCalls"] = [
            {"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls
        ]
    if message.tool_call_id:
        fields["toolCallId"] = message.tool_call_id
    if message.attachments:
        fields["attachments"] = attachment_fields(message.attachments)
    if message.metadata is not None:
        fields["metadata"] = message.metadata
    if message.arrived:
        fields["arrived"] = to_text(message.arrived)
    return fields


def _fields(content: Content) -> dict[str, Any]:
    match content:
        case Message():
            return message_fields(content, type="turn")
        case Began():
            began: dict[str, Any] = {
                "type": "meta",
                "id": content.id,
                "channel": content.channel,
                "created": to_text(content.time),
                "participants": content.participants,
            }
            if content.model:
                began["model"] = content.model
            if content.pinned:
                began["pinned"] = True
            if content.arrived:
                began["arrived"] = to_text(content.arrived)
            if content.party != Party():
                names = {
                    "contact": "contact",
                    "group_id": "groupId",
                    "thread_id": "threadId",
                    "subject": "subject",
                }
                names["contact_name"] = "contactName"
                began["party"] = {
                    json: value
                    for field, json in names.items()
                    if (value := getattr(content.party, field))
                }
            return began
        case TitleAssigned():
            event: dict[str, Any] = {
                "event": "title_assigned",
                "title": content.title,
                "topics": content.topics,
            }
            event |= _writer_fields(content)
        case Compressed():
            event = {
                "event": "compression",
                "compressedThrough": content.compressed_through,
                "summary": content.summary,
            }
        case Abbreviated():
            event = {"event": "abbreviation", "text": content.text}
            if content.topics is not None:
                event["topics"] = content.topics
            event |= _writer_fields(content)
        case MetaUpdated():
            event = {"event": "meta_update"}
            names = {
                "title": "title",
                "manually_named": "manuallyNamed",
                "model": "model",
                "pinned": "pinned",
            }
            event |= {
                json: value
                for field, json in names.items()
                if (value := getattr(content, field)) is not None
            }
        case SplitSuggested():
            event = {"event": "split_suggested", "reason": content.reason, "titles": content.titles}
        case AnchorSet():
            event = {"event": "anchor", "key": content.key, "value": content.value}
            event |= {"confidence": content.confidence, "sequence": content.sequence}
            event |= {"conversation": content.conversation_id} if content.conversation_id else {}
            event |= {"byCaller": True} if content.by_caller else {}
        case AnchorForgotten():
            event = {"event": "anchor_forgotten", "key": content.key, "requests": content.requests}
        case Continued():
            event = {"event": "continued", "conversation": content.conversation_id}
        case CommandRun():
            event = {"event": "command", "text": content.text, "reply": content.reply}
            event |= {"before": content.before} if content.before else {}
            event |= {"cleared": True} if content.cleared else {}
            event |= {"mail": content.mail} if content.mail else {}
        case (
            CommunicationBegan()
            | ExternalMessage()
            | TrustSet()
            | EscalationOpened()
            | EscalationResolved()
        ):
            return external_fields(content)
        case Unknown():
            raise ValueError("a line that this version does not know cannot be written by it")
    return {"type": "event"} | event | {"timestamp": to_text(content.time)}


def _writer_fields(note: TitleAssigned | Abbreviated) -> dict[str, str]:
    return {
        name: value for name, value in (("writer", note.writer), ("model", note.model)) if value
    }


def _stamp(fields: dict[str, Any]) -> Stamp:
    index, count = fields.get("batch", (1, 1))
    if not 1 <= index <= count:
        raise ValueError(f"line {index} of {count} of a batch")
    return Stamp(
        text(fields, "requestId", ""),
        text(fields, "requestHash", ""),
        (index, count),
        text(fields, "draftId", ""),
    )


def _content(fields: dict[str, Any], sequence: int) -> Content:
    kind = fields["type"]
    if kind == "turn":
        return _message(fields, sequence)
    if kind == "meta" and not is_communication_id(text(fields, "id")):
        party = fields.get("party", {})
        return Began(
            id=text(fields, "id"),
            channel=text(fields, "channel"),
            time=from_text(fields["created"]),
            participants=texts(fields.get("participants", ())),
            party=Party(
                *(
                    text(party, name, "")
                    for name in ("contact", "groupId", "threadId", "subject", "contactName")
                )
            ),
            model=text(fields, "model", ""),
            pinned=bool(optional(fields, "pinned", bool)),
            arrived=moment(fields, "arrived"),
        )
    if kind == "event":
        return _event(fields, sequence)
    return external_content(fields, sequence)


def _event(fields: dict[str, Any], sequence: int) -> Content:
    time = from_text(fields["timestamp"])
    match fields["event"]:
        case "title_assigned":
            return TitleAssigned(
                text(fields, "title"),
                texts(fields.get("topics", ())),
                time,
                text(fields, "writer", ""),
                text(fields, "model", ""),
            )
        case "compression":
            return Compressed(
                number(fields["compressedThrough"], _MAX_TURN), text(fields, "summary"), time
            )
        case "abbreviation":
            topics = fields.get("topics")
            return Abbreviated(
                text(fields, "text"),
                time,
                None if topics is None else texts(topics),
                text(fields, "writer", ""),
                text(fields, "model", ""),
            )
        case "meta_update":
            return MetaUpdated(
                time,
                optional(fields, "title", str),
                optional(fields, "manuallyNamed", bool),
                optional(fields, "model", str),
                optional(fields, "pinned", bool),
            )
        case "split_suggested":
            return SplitSuggested(text(fields, "reason"), texts(fields["titles"]), time)
        case "anchor":
            confidence = float(fields["confidence"])
            return AnchorSet(
                text(fields, "key"), text(fields, "value"), confidence, number(fields["sequence"]), time,
                text(fields, "conversation", ""), bool(optional(fields, "byCaller", bool)),
            )  # fmt: skip
        case "anchor_forgotten":
            return AnchorForgotten(text(fields, "key"), time, texts(fields.get("requests", ())))
        case "continued":
            return Continued(text(fields, "conversation"), time)
        case "command":
            return CommandRun(
                text(fields, "text"),
                text(fields, "reply"),
                time,
                text(fields, "before", ""),
                bool(optional(fields, "cleared", bool)),
                texts(fields.get("mail", ())),
            )
        case _:
            return external_content(fields, sequence)


def _message(fields: dict[str, Any], sequence: int) -> Message:
    usage = fields.get("usage")
    cost = fields.get("cost")
    return Message(
        role=Role(fields["role"]),
        content=text(fields, "content"),
        timestamp=from_text(fields["timestamp"]),
        sequence=sequence,
        turn_number=number(fields["turnNumber"], _MAX_TURN),
        thinking_text=text(fields, "thinkingText", ""),
        usage=None
        if usage is None
        else Usage(number(usage.get("input", 0)), number(usage.get("output", 0))),
        cost=None if cost is None else float(cost),
        channel=text(fields, "channel", ""),
        sender=text(fields, "sender", ""),
        sender_name=text(fields, "senderName", ""),
        tool_calls=tuple(
            ToolCall(text(c, "id"), text(c, "name"), text(c, "arguments"))
            for c in fields.get("toolCalls", ())
        ),
        tool_call_id=text(fields, "toolCallId", ""),
        attachments=attachments(fields),
        metadata=optional(fields, "metadata", dict),
        arrived=moment(fields, "arrived"),
    )
