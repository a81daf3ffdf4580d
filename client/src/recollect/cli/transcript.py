"""The lines of a transcript, as the server keeps them and `recollect-server export` writes them: JSON with a checksum.

A file may hold several conversations, one after the other: each begins with its `meta` line.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import Any
from zlib import crc32

from recollect import Attachment, Conversation, LoadedConversation, Message, NoteRecord, Party, Role, ToolCall, Usage
from recollect._shared.plain import camel, plain, time_text

_CHECKSUM = len(b',"crc":"00000000"}')


_MAX_DEPTH = 64  # of what a line holds; the server takes metadata of 24 levels


class Damaged(Exception):
    """The line is none of a transcript, or not as it was written."""


def encode(fields: dict[str, Any]) -> bytes:
    """A line with its checksum: CRC-32 of all bytes before it."""
    body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def decode(line: bytes) -> dict[str, Any]:
    """What a line says. One without a checksum is taken at its word: people write such. Raises Damaged."""
    line = line.strip()
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise Damaged(f"not JSON: {error}") from None
    except RecursionError:
        raise Damaged(f"nested deeper than {_MAX_DEPTH} levels") from None
    _check_depth(fields)
    if not isinstance(fields, dict):
        raise Damaged("not a JSON object")
    if "crc" in fields and line[-_CHECKSUM:] != b',"crc":"%08x"}' % crc32(line[:-_CHECKSUM]):
        raise Damaged("the checksum does not fit")
    return fields


def _check_depth(value: Any) -> None:
    """Refuse what is nested so deeply that to walk through it would overflow the stack. Raises Damaged."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        nested = [it for it in level if isinstance(it, dict | list)]
        level = [each for it in nested for each in (it.values() if isinstance(it, dict) else it)]
        if not level:
            return
    raise Damaged(f"nested deeper than {_MAX_DEPTH} levels")


def beginning(it: Conversation) -> dict[str, Any]:
    """The first line of a conversation."""
    fields: dict[str, Any] = {"type": "meta", "id": it.id, "channel": it.channel, "created": time_text(it.create_time)}
    fields |= {"participants": list(it.participants)}
    if it.model:
        fields["model"] = it.model
    if it.party:
        fields["party"] = plain(it.party)
    return fields


def said(messages: list[Message]) -> Iterator[dict[str, Any]]:
    """The lines of messages. Those of one turn are a batch: it is stored whole or not at all where it is imported."""
    for _, group in groupby(messages, key=lambda message: message.turn_number):
        turn = list(group)
        for index, message in enumerate(turn, start=1):
            fields = {"type": "turn", "role": message.role.value, "content": message.content} | plain(message)
            del fields["sequence"]
            yield fields | ({"batch": [index, len(turn)]} if len(turn) > 1 else {})


def happened(now: LoadedConversation) -> Iterator[dict[str, Any]]:
    """The lines of what happened to a conversation besides its messages, as far as it still holds."""
    it = now.conversation
    assert it is not None
    time, topics = time_text(it.update_time), list(it.topics)
    if it.title and (not it.manually_named or (topics and not it.abbreviation)):
        title = {"title": it.title, "topics": topics} | _written_by(it.notes.title if it.notes else None)
        yield {"type": "event", "event": "title_assigned"} | title | {"timestamp": time}
    if it.compressed_through:
        compression = {"compressedThrough": it.compressed_through, "summary": now.compression_summary}
        yield {"type": "event", "event": "compression"} | compression | {"timestamp": time}
    if it.abbreviation:
        notes = {"text": it.abbreviation} | ({"topics": topics} if topics else {})
        notes |= _written_by(it.notes.abbreviation if it.notes else None)
        yield {"type": "event", "event": "abbreviation"} | notes | {"timestamp": time}
    if it.manually_named:
        yield {"type": "event", "event": "meta_update", "title": it.title, "manuallyNamed": True, "timestamp": time}
    if it.pinned:
        yield {"type": "event", "event": "meta_update", "pinned": True, "timestamp": time}


def _written_by(record: NoteRecord | None) -> dict[str, Any]:
    """Return what a line says of who wrote a note: nothing where nothing is recorded."""
    if record is None or record.writer == "unknown":
        return {}
    return {"writer": record.writer} | ({"model": record.model} if record.model else {})


_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # what a sender of earlier versions may hold, and none may now


def message_of(fields: dict[str, Any]) -> Message:
    """The message of a line. Raises Damaged."""
    try:
        usage = fields.get("usage")
        return Message(
            role=Role(fields["role"]),
            content=fields.get("content", ""),
            timestamp=time_of(fields["timestamp"]) if "timestamp" in fields else None,
            thinking_text=fields.get("thinkingText", ""),
            usage=None if usage is None else Usage(usage.get("input", 0), usage.get("output", 0)),
            cost=fields.get("cost"),
            channel=fields.get("channel", ""),
            sender=" ".join(_CONTROLS.sub(" ", fields.get("sender") or "").split()),
            sender_name=fields.get("senderName", ""),
            tool_calls=tuple(ToolCall(it["id"], it["name"], it.get("arguments", "")) for it in fields.get("toolCalls", ())),
            tool_call_id=fields.get("toolCallId", ""),
            attachments=tuple(
                Attachment(it["mediaType"], it["uri"], it.get("bytesLength", 0)) for it in fields.get("attachments", ())
            ),
            metadata=fields.get("metadata") or {},
            turn_number=fields.get("turnNumber", 0),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"no message: {type(error).__name__} {error}") from None


def party_of(fields: dict[str, Any]) -> Party | None:
    """The party of a first line. Raises Damaged."""
    given = fields.get("party")
    if not given:
        return None
    names = {camel(name): name for name in ("contact", "group_id", "thread_id", "subject", "contact_name")}
    try:
        return Party(**{names[key]: value for key, value in given.items()})
    except (KeyError, AttributeError) as error:
        raise Damaged(f"no party: {error}") from None


def time_of(text: Any) -> datetime:
    """A time of a line. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no time")
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from None
