"""The lines of a transcript, as the server keeps them and `export` writes them: JSON with a
checksum.
"""

import codecs
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any
from zlib import crc32

from recollect import (
    Attachment,
    ContextTier,
    LoadedConversation,
    Message,
    NoteRecord,
    Party,
    Role,
    ToolCall,
    TurnMemory,
    Usage,
)
from recollect._shared.plain import camel, json_text, plain, time_text

LOST_CHANNEL = "unknown"
"""The channel of a conversation whose first line is lost or names none."""
TIERS = tuple(ContextTier)
"""Tiers of turns, which lines count from 1."""
_CHECKSUM = len(b',"crc":"00000000"}')
_ERASED = "erased"
_MAX_DEPTH = 64  # levels of nesting in a line; the server takes metadata of 24
_CONVERSATION_ID = re.compile(r"conv-[0-7][0-9A-HJKMNP-TV-Z]{25}")
_DIGITS = str.maketrans("ABCDEFGHJKMNPQRSTVWXYZ", "ABCDEFGHIJKLMNOPQRSTUV")
"""Digits of Crockford's base 32, and those that `int` takes for them."""
_LINE_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_JOINERS = {"\u200c", "\u200d"}  # invisible, and part of words and of emoji


class Damaged(Exception):
    """The line is none of a transcript, or not as it was written."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The facts with which a conversation is created."""

    id: str
    """The id that the conversation has in its file, in whatever form; empty where it has none."""
    channel: str
    create_time: datetime | None = None
    participants: tuple[str, ...] = ()
    party: Party | None = None
    model: str = ""
    pinned: bool = False


def is_conversation_id(text: str) -> bool:
    """Return whether a text has the form of a conversation's id."""
    return _CONVERSATION_ID.fullmatch(text) is not None


def one_line(text: str) -> str:
    """Return a text on one line, without control characters and marks that reverse it.

    Senders and participants of earlier versions may hold such; the server takes none now.
    """
    text = "".join(it for it in text if it in _JOINERS or unicodedata.category(it) != "Cf")
    return " ".join(_LINE_BREAKING.sub(" ", text).split())


def encode(fields: dict[str, Any]) -> bytes:
    """Return a line with its checksum: the CRC-32 of all bytes before it."""
    body = json_text(fields).encode()[:-1]
    return b'%b,"crc":"%08x"}\n' % (body, crc32(body))


def decode(line: bytes) -> dict[str, Any]:
    """Return the fields of a line. People write lines without a checksum. Raises Damaged."""
    line = line.removeprefix(codecs.BOM_UTF8).strip()
    try:
        # `json` guesses the encoding of bytes; a line of half a UTF-16 file is none of ours.
        fields = json.loads(line.decode("utf-8", "surrogatepass"))
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
    """Refuse a value so deep that walking through it would overflow the stack. Raises Damaged."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        nested = [it for it in level if isinstance(it, dict | list)]
        level = [each for it in nested for each in (it.values() if isinstance(it, dict) else it)]
        if not level:
            return
    raise Damaged(f"nested deeper than {_MAX_DEPTH} levels")


def lines_of(
    now: LoadedConversation, messages: list[Message], memories: Iterable[TurnMemory] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the lines of a conversation, with all its messages and what holds now besides them:
    `memories` are what is recorded of its turns.
    """
    it = now.conversation
    assert it is not None
    beginning: dict[str, Any] = {"type": "meta", "id": it.id, "channel": it.channel}
    beginning |= {"created": time_text(it.create_time), "participants": list(it.participants)}
    if it.model:
        beginning["model"] = it.model
    if it.party:
        beginning["party"] = plain(it.party)
    if it.origin:
        beginning["originId"] = it.origin.conversation_id
        beginning["originTurn"] = it.origin.turn_number
    yield beginning
    for _, group in groupby(messages, key=lambda message: message.turn_number):
        turn = list(group)
        for index, message in enumerate(turn, start=1):
            # A turn is a batch: it is stored whole or not at all where it is imported.
            yield _line_of(message) | ({"batch": [index, len(turn)]} if len(turn) > 1 else {})
    time = time_text(it.update_time)
    for event in (*_events_of(now), *map(_memory, memories)):
        yield {"type": "event"} | event | {"timestamp": time}


def _line_of(message: Message) -> dict[str, Any]:
    fields = {"type": "turn", "role": message.role.value, "content": message.content}
    fields |= plain(message)
    del fields["sequence"]
    if fields.pop("redaction", None) is not None:
        fields[_ERASED] = ""  # as the server marks a message without its text
    if message.metadata:  # on the wire it has no order, and two exports shall be equal
        fields["metadata"] = json.loads(json.dumps(message.metadata, sort_keys=True))
    return fields


def _events_of(now: LoadedConversation) -> Iterator[dict[str, Any]]:
    it = now.conversation
    assert it is not None
    topics = list(it.topics)
    if it.title and (not it.manually_named or (topics and not it.abbreviation)):
        by = _written_by(it.notes.title if it.notes else None)
        yield {"event": "title_assigned", "title": it.title, "topics": topics} | by
    if it.compressed_through:
        summary = {"compressedThrough": it.compressed_through, "summary": now.compression_summary}
        yield {"event": "compression"} | summary
    if it.abbreviation:
        notes = {"text": it.abbreviation} | ({"topics": topics} if topics else {})
        yield (
            {"event": "abbreviation"}
            | notes
            | _written_by(it.notes.abbreviation if it.notes else None)
        )
    if it.manually_named:
        yield {"event": "meta_update", "title": it.title, "manuallyNamed": True}
    if it.topics_by_hand:
        yield {"event": "meta_update", "topics": topics}
    if it.pinned:
        yield {"event": "meta_update", "pinned": True}
    if it.metadata:
        metadata = json.loads(json.dumps(it.metadata, sort_keys=True))
        yield {"event": "meta_update", "metadata": metadata}
    if it.archived:
        yield {"event": "meta_update", "archived": True}
    if it.unindexed:
        yield {"event": "unindexed"}


def _memory(it: TurnMemory) -> dict[str, Any]:
    tier = {"tier": TIERS.index(it.tier) + 1} if it.tier else {}
    summary = {"summary": it.summary} if it.summary else {}
    return {"event": "turn_memory", "turn": it.turn_number} | tier | summary


def _written_by(record: NoteRecord | None) -> dict[str, Any]:
    """Return the writer of a note as a line has it: nothing where nothing is recorded."""
    if record is None or record.writer == "unknown":
        return {}
    return {"writer": record.writer} | ({"model": record.model} if record.model else {})


def message_of(fields: dict[str, Any]) -> Message:
    """Return the message of a line. Raises Damaged."""
    try:
        usage, turn = fields.get("usage"), fields.get("turnNumber", 0)
        if not isinstance(turn, int):
            raise TypeError(f"turnNumber is {turn!r:.50}")
        return Message(
            role=Role(fields["role"]),
            content="[redacted]" if _ERASED in fields else fields.get("content", ""),
            timestamp=time_of(fields["timestamp"]) if "timestamp" in fields else None,
            thinking_text=fields.get("thinkingText", ""),
            usage=None if usage is None else Usage(usage.get("input", 0), usage.get("output", 0)),
            cost=fields.get("cost"),
            channel=fields.get("channel", ""),
            sender=one_line(fields.get("sender") or ""),
            sender_name=fields.get("senderName", ""),
            tool_calls=tuple(
                ToolCall(it["id"], it["name"], it.get("arguments", ""))
                for it in fields.get("toolCalls", ())
            ),
            tool_call_id=fields.get("toolCallId", ""),
            attachments=tuple(
                Attachment(it["mediaType"], it["uri"], it.get("bytesLength", 0))
                for it in fields.get("attachments", ())
            ),
            metadata=fields.get("metadata") or {},
            turn_number=turn,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"no message: {type(error).__name__} {error}") from None


def stamp_of(fields: dict[str, Any]) -> tuple[str, int, int]:
    """Return the request of a line, its place in the batch and the batch's size. Raises Damaged."""
    match fields.get("batch", [1, 1]):
        case [int(index), int(size)] if 1 <= index <= size:
            return str(fields.get("requestId", "")), index, size
        case batch:
            raise Damaged(f"no batch: {batch!r:.50}")


def beginning_of(fields: dict[str, Any]) -> Beginning:
    """Return the beginning that a line of the type `meta` describes. Raises Damaged.

    Where the line tells no time, the conversation's id does.
    """
    own, participants = str(fields.get("id") or ""), fields.get("participants") or []
    if not isinstance(participants, list) or not all(isinstance(it, str) for it in participants):
        raise Damaged("no beginning: participants is no list of names")
    try:
        created = time_of(fields["created"]) if "created" in fields else _time_of_id(own)
    except ValueError as error:
        raise Damaged(f"no beginning: created: {error}") from None
    party = fields.get("party")
    names = {camel(it.name): it.name for it in dataclass_fields(Party)}
    try:
        party = Party(**{names[key]: value for key, value in party.items()}) if party else None
    except (KeyError, AttributeError) as error:
        raise Damaged(f"no beginning: party: {error}") from None
    return Beginning(
        own,
        str(fields.get("channel", LOST_CHANNEL)),
        created,
        tuple(map(one_line, participants)),
        party,
        fields.get("model") or "",
        bool(fields.get("pinned")),
    )


def _time_of_id(conversation_id: str) -> datetime | None:
    """Return the time of a conversation's id, a ULID; None for another text or a time beyond
    clocks.
    """
    if not is_conversation_id(conversation_id):
        return None
    milliseconds = int(conversation_id[5:15].translate(_DIGITS), 32)
    try:
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None


def time_of(text: Any) -> datetime:
    """Return a time as a line has it. Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError(f"{text!r} is no time")
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from None
