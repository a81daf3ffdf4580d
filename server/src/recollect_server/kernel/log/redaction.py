"""Lines whose text is removed for good: what stays of each, in as many bytes as it had.

A line keeps its number, its offset and its length, so a place that anybody holds still leads to the
same line while the file is exchanged. Spaces, which JSON allows between its signs, make up for what
was there. The member `erased` of a message says when its text was removed and by whom, if there is
room: an event at the end of the file always says so.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson

from recollect_server.kernel.domain.conversation import (
    Abbreviated,
    AnchorSet,
    CommandRun,
    Compressed,
    MetaUpdated,
    SplitSuggested,
    TitleAssigned,
    TurnMemory,
)
from recollect_server.kernel.domain.message import Message, Redaction
from recollect_server.kernel.log.codec import Codec
from recollect_server.kernel.log.entries import ERASED, MESSAGE, NO_NOTE, note_of, without_text
from recollect_server.kernel.log.lines import MARK, Line, has_checksum, seal, unseal

ANY_HASH = "-"
"""Hash of a request whose payload is not known any more: it was redacted. A repeat is answered
whatever its payload is, for that could be guessed from a hash.
"""

_STAMP = ("requestId", "requestHash", "draftId", "batch", MARK)
"""Members of a line, whatever it says, that a redaction leaves."""
_OF_EVENT = ("type", "timestamp", "modelUse", *_STAMP)
_FEEDBACK = re.compile(r"(?:.*\.)?feedback\.([0-9]{1,9})", re.DOTALL)
"""A key of a conversation's metadata under which a program keeps what a person says of the answer
of a turn, as the page does (`page.feedback.7`).
"""
_NOT_NAMED = "_"  # a tool's name: no shorter one is valid, and so it always fits


def erased(
    lines: Sequence[Line], raw: Sequence[bytes], sequences: Collection[int], redaction: Redaction
) -> list[bytes]:
    """Return a transcript's lines, with their newlines, without the text of the messages in
    `sequences`.

    `raw` are the bytes of the lines, without newlines. What the server or a caller wrote from the
    messages goes too: titles that were not given by hand, notes, summaries that cover them, anchors
    found in them, summaries of their turns, what people say of their answers, replies to commands,
    which may quote them, and the questions to the owner that do.
    """
    first = min(sequences)
    messages = [
        line.entry.content
        for line in lines
        if line.entry and line.sequence in sequences and isinstance(line.entry.content, Message)
    ]
    turns = {message.turn_number for message in messages}
    requests = {
        line.entry.stamp.request_id for line in lines if line.entry and line.sequence in sequences
    } - {""}
    made: list[bytes] = []
    for line, text in zip(lines, raw, strict=True):
        content = line.entry.content if line.entry else None
        after = text
        if line.sequence in sequences and isinstance(content, Message):
            after = text if content.redaction else _message(text, redaction)
        elif (left := without_text(content, text, sequences, redaction)) != text:
            after = left
        elif line.sequence > first and _is_derived(content, sequences, min(turns, default=0)):
            after = _event(text)
        elif line.sequence > first and isinstance(content, CommandRun):
            after = _with(text, {"reply": ""})
        elif isinstance(content, TurnMemory) and content.turn in turns and content.summary:
            after = _with(text, {"summary": ""})
        elif isinstance(content, MetaUpdated) and _has_feedback(content, turns):
            after = _with(text, {"metadata": _without_feedback(content, turns)})
        elif line.entry and line.entry.stamp.request_id in requests:
            after = fitted(text, members_of(text)) or text
        made.append(after + b"\n")
    return made


def _has_feedback(update: MetaUpdated, turns: Collection[int]) -> bool:
    return len(_without_feedback(update, turns)) < len(update.metadata or {})


def _without_feedback(update: MetaUpdated, turns: Collection[int]) -> dict[str, Any]:
    """Return the metadata that an update sets, but for feedback on these turns: a key that no line
    sets is not there.
    """
    return {
        key: value
        for key, value in (update.metadata or {}).items()
        if not ((match := _FEEDBACK.fullmatch(key)) and int(match[1]) in turns)
    }


def _is_derived(content: object, sequences: Collection[int], turn: int) -> bool:
    match content:
        case TitleAssigned() | Abbreviated() | SplitSuggested():
            return True
        case Compressed(compressed_through=through):
            return through >= turn
        case AnchorSet(sequence=sequence):
            return sequence in sequences
        case _:
            return False


def _message(raw: bytes, redaction: Redaction) -> bytes:
    calls = [  # their results name them
        {"id": call["id"], "name": _NOT_NAMED, "arguments": ""}
        for call in members_of(raw).get("toolCalls") or ()
    ]
    return tombstone(raw, MESSAGE, redaction, {"toolCalls": calls} if calls else {})


def tombstone(
    raw: bytes,
    codec: Codec[Any],
    redaction: Redaction,
    others: Mapping[str, object] = MappingProxyType({}),
) -> bytes:
    """Return what is left of the line of a message of a codec: what it keeps, other members, and as
    much of the note on the redaction as it has room for. A line that has room for none had no text.
    """
    members = members_of(raw)
    left = {name: members[name] for name in (*codec.lasting, *_STAMP) if name in members}
    notes = (note_of(redaction), note_of(Redaction(time=redaction.time)), "", NO_NOTE)
    lines = (fitted(raw, left | dict(others) | {ERASED: note}) for note in notes)
    return next((line for line in lines if line is not None), raw)


def _event(raw: bytes) -> bytes:
    fields = members_of(raw)
    left = {name: fields[name] for name in _OF_EVENT if name in fields}
    line = fitted(raw, left | {"event": ERASED})
    assert line is not None  # no other event has a shorter name
    return line


def _with(raw: bytes, members: Mapping[str, object]) -> bytes:
    """Return a line with other values, which are shorter, in some of its members."""
    line = fitted(raw, members_of(raw) | dict(members))
    assert line is not None
    return line


def members_of(raw: bytes) -> dict[str, Any]:
    """Return the members of a line, without the hash of its request's payload."""
    fields: dict[str, Any] = (
        unseal(raw) if has_checksum(raw) else orjson.loads(raw.removeprefix(b"\xef\xbb\xbf"))
    )
    fields.pop("crc", None)
    if fields.get("requestHash"):
        fields["requestHash"] = ANY_HASH
    return fields


def fitted(raw: bytes, fields: dict[str, Any]) -> bytes | None:
    """Return a line of these members that is as long as `raw`; None if they have no room there.
    Neither has a newline.
    """
    is_sealed = has_checksum(raw)
    room = len(raw) - (len(seal(fields)) - 1 if is_sealed else len(orjson.dumps(fields)))
    if room < 0:
        return None
    return seal(fields, room)[:-1] if is_sealed else orjson.dumps(fields) + b" " * room
