"""A line of a transcript and the entry that it stands for."""

from typing import Any, TypeVar
from zlib import crc32

import orjson

from recollect_server.domain.conversation import (
    Abbreviated,
    AnchorForgotten,
    AnchorSet,
    Began,
    Compressed,
    Content,
    MetaUpdated,
    Party,
    SplitSuggested,
    TitleAssigned,
    Unknown,
)
from recollect_server.domain.frozen import frozen
from recollect_server.domain.message import Attachment, Message, Role, ToolCall, Usage
from recollect_server.domain.time import from_text, to_text

T = TypeVar("T")

_SUFFIX = len(b',"crc":"00000000"}')
_MAX_TURN = (1 << 31) - 1
_MAX_NUMBER = (1 << 63) - 1


class Damaged(Exception):
    """The line is not one that this program wrote, or not any more."""


@frozen
class Stamp:
    """Which request wrote a line, and the line's place in its batch (from 1, of how many)."""

    request_id: str = ""
    request_hash: str = ""
    batch: tuple[int, int] = (1, 1)
    draft_id: str = ""


@frozen
class Entry:
    """What a line says, and who wrote it."""

    content: Content
    stamp: Stamp = Stamp()


def encode(entry: Entry) -> bytes:
    """The line with its checksum and newline. Raises ValueError for text that is not Unicode (lone surrogates)."""
    fields = _fields(entry.content)
    stamp = entry.stamp
    if stamp.request_id:
        fields["requestId"] = stamp.request_id
        fields["requestHash"] = stamp.request_hash
    if stamp.draft_id:
        fields["draftId"] = stamp.draft_id
    if stamp.batch[1] > 1:
        fields["batch"] = stamp.batch
    body = orjson.dumps(fields)[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def decode(line: bytes, sequence: int) -> Entry:
    """The entry of a line without its newline; `sequence` is the line's number. Raises Damaged with the reason."""
    body, suffix = line[:-_SUFFIX], line[-_SUFFIX:]
    if suffix != b',"crc":"%08x"}' % crc32(body):
        raise Damaged("the checksum does not fit" if suffix.startswith(b',"crc":"') else "there is no checksum")
    try:
        fields = orjson.loads(body + b"}")
        return Entry(_content(fields, sequence), _stamp(fields))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"the checksum fits and the content does not: {type(error).__name__} {error}") from error


def message_fields(message: Message, **before: str) -> dict[str, Any]:
    """A message as it stands in a line, behind the fields `before`; without what only the line knows."""
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
    if message.tool_calls:
        fields["toolCalls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    if message.tool_call_id:
        fields["toolCallId"] = message.tool_call_id
    if message.attachments:
        fields["attachments"] = [
            {"mediaType": a.media_type, "uri": a.uri} | ({"bytesLength": a.bytes_length} if a.bytes_length else {})
            for a in message.attachments
        ]
    if message.metadata is not None:
        fields["metadata"] = message.metadata
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
            if content.party != Party():
                names = {"contact": "contact", "group_id": "groupId", "thread_id": "threadId", "subject": "subject"}
                began["party"] = {json: value for field, json in names.items() if (value := getattr(content.party, field))}
            return began
        case TitleAssigned():
            event: dict[str, Any] = {"event": "title_assigned", "title": content.title, "topics": content.topics}
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
        case MetaUpdated():
            event = {"event": "meta_update"}
            names = {"title": "title", "manually_named": "manuallyNamed", "model": "model", "pinned": "pinned"}
            event |= {json: value for field, json in names.items() if (value := getattr(content, field)) is not None}
        case SplitSuggested():
            event = {"event": "split_suggested", "reason": content.reason, "titles": content.titles}
        case AnchorSet():
            event = {"event": "anchor", "key": content.key, "value": content.value}
            event |= {"confidence": content.confidence, "sequence": content.sequence}
            event |= {"conversation": content.conversation_id} if content.conversation_id else {}
            event |= {"byCaller": True} if content.by_caller else {}
        case AnchorForgotten():
            event = {"event": "anchor_forgotten", "key": content.key, "requests": content.requests}
        case Unknown():
            raise ValueError("a line that this version does not know cannot be written by it")
    return {"type": "event"} | event | {"timestamp": to_text(content.time)}


def _stamp(fields: dict[str, Any]) -> Stamp:
    index, count = fields.get("batch", (1, 1))
    if not 1 <= index <= count:
        raise ValueError(f"line {index} of {count} of a batch")
    return Stamp(_text(fields, "requestId", ""), _text(fields, "requestHash", ""), (index, count), _text(fields, "draftId", ""))


def _content(fields: dict[str, Any], sequence: int) -> Content:
    kind = fields["type"]
    if kind == "turn":
        return _message(fields, sequence)
    if kind == "meta":
        party = fields.get("party", {})
        return Began(
            id=_text(fields, "id"),
            channel=_text(fields, "channel"),
            time=from_text(fields["created"]),
            participants=_texts(fields.get("participants", ())),
            party=Party(*(_text(party, name, "") for name in ("contact", "groupId", "threadId", "subject"))),
            model=_text(fields, "model", ""),
        )
    if kind == "event":
        return _event(fields)
    return Unknown()


def _event(fields: dict[str, Any]) -> Content:
    time = from_text(fields["timestamp"])
    match fields["event"]:
        case "title_assigned":
            return TitleAssigned(_text(fields, "title"), _texts(fields.get("topics", ())), time)
        case "compression":
            return Compressed(_number(fields["compressedThrough"], _MAX_TURN), _text(fields, "summary"), time)
        case "abbreviation":
            topics = fields.get("topics")
            return Abbreviated(_text(fields, "text"), time, None if topics is None else _texts(topics))
        case "meta_update":
            return MetaUpdated(
                time,
                _optional(fields, "title", str),
                _optional(fields, "manuallyNamed", bool),
                _optional(fields, "model", str),
                _optional(fields, "pinned", bool),
            )
        case "split_suggested":
            return SplitSuggested(_text(fields, "reason"), _texts(fields["titles"]), time)
        case "anchor":
            confidence = float(fields["confidence"])
            return AnchorSet(
                _text(fields, "key"), _text(fields, "value"), confidence, _number(fields["sequence"]), time,
                _text(fields, "conversation", ""), bool(_optional(fields, "byCaller", bool)),
            )  # fmt: skip
        case "anchor_forgotten":
            return AnchorForgotten(_text(fields, "key"), time, _texts(fields.get("requests", ())))
        case _:
            return Unknown()


def _message(fields: dict[str, Any], sequence: int) -> Message:
    usage = fields.get("usage")
    cost = fields.get("cost")
    return Message(
        role=Role(fields["role"]),
        content=_text(fields, "content"),
        timestamp=from_text(fields["timestamp"]),
        sequence=sequence,
        turn_number=_number(fields["turnNumber"], _MAX_TURN),
        thinking_text=_text(fields, "thinkingText", ""),
        usage=None if usage is None else Usage(_number(usage.get("input", 0)), _number(usage.get("output", 0))),
        cost=None if cost is None else float(cost),
        channel=_text(fields, "channel", ""),
        sender=_text(fields, "sender", ""),
        tool_calls=tuple(ToolCall(_text(c, "id"), _text(c, "name"), _text(c, "arguments")) for c in fields.get("toolCalls", ())),
        tool_call_id=_text(fields, "toolCallId", ""),
        attachments=tuple(
            Attachment(_text(a, "mediaType"), _text(a, "uri"), _number(a.get("bytesLength", 0)))
            for a in fields.get("attachments", ())
        ),
        metadata=_optional(fields, "metadata", dict),
    )


# A line with a good checksum may still be another program's: what is not of its type is damage, here and not further in.


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields[name] if default is None else fields.get(name, default)
    if type(value) is not str:
        raise TypeError(f"{name} is not a text")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    if any(type(value) is not str for value in values):
        raise TypeError("an entry of a list is not a text")
    return tuple(values)


def _number(value: Any, most: int = _MAX_NUMBER) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise TypeError(f"{value!r} is not a number from 0 to {most}")
    return value


def _optional(fields: dict[str, Any], name: str, kind: type[T]) -> T | None:
    value = fields.get(name)
    if value is not None and type(value) is not kind:
        raise TypeError(f"{name} is not a {kind.__name__}")
    return value
