"""Lines of a log: their number and place, and what they say."""

from collections.abc import Sequence

from recollect_server.domain.entry import AnyContent
from recollect_server.domain.frozen import frozen
from recollect_server.domain.message import Message
from recollect_server.storage.logs.entries import ERASED
from recollect_server.storage.logs.record import (
    Damaged,
    Entry,
    decode,
    encode,
    has_checksum,
    tag_of,
    unseal,
)

Place = tuple[int, int, int]
"""Line of a log as its store finds it again: number, offset and length in bytes. Opaque to all but
a store.
"""


@frozen
class Line:
    """One line: its number from 1, where it is, and what it says (or why that cannot be read)."""

    sequence: int
    offset: int
    length: int
    """In bytes, with the newline."""
    entry: Entry | None
    damage: str = ""

    @property
    def end(self) -> int:
        """The offset behind the line."""
        return self.offset + self.length


def line_of(raw: bytes, sequence: int, offset: int) -> Line:
    """Return the line whose bytes, without the newline, are these."""
    try:
        return Line(sequence, offset, len(raw) + 1, decode(raw, sequence))
    except Damaged as damage:
        return Line(sequence, offset, len(raw) + 1, None, str(damage))


def encoded(
    entries: Sequence[Entry], lines: int = 0, offset: int = 0, log: str = ""
) -> tuple[list[Line], list[bytes]]:
    """Return entries as the lines behind so many lines and bytes of a log, and the bytes of each.
    Messages bring their sequence. Without the log's name the lines have no mark of it.
    """
    tag = tag_of(log)
    made: list[Line] = []
    parts: list[bytes] = []
    for sequence, entry in enumerate(entries, start=lines + 1):
        assert not isinstance(entry.content, Message) or entry.content.sequence == sequence
        data = encode(entry, f"{sequence}{tag}" if log else "")
        made.append(Line(sequence, offset, len(data), entry))
        parts.append(data)
        offset += len(data)
    return made, parts


def messages_of(lines: list[Line]) -> list[Message]:
    """Return the messages among the lines."""
    return [
        line.entry.content
        for line in lines
        if line.entry and isinstance(line.entry.content, Message)
    ]


def contents_of(lines: list[Line]) -> list[AnyContent]:
    """Return what the lines say, except damaged ones."""
    return [line.entry.content for line in lines if line.entry]


def spoken(raw: bytes, sequence: int) -> tuple[str, str] | None:
    """Return the sender and the content of a message by its line; None of a damaged line, and of
    another one. Costs a quarter of decoding every field.
    """
    try:
        if not has_checksum(raw):
            content = decode(raw, sequence).content
            return (content.sender, content.content) if isinstance(content, Message) else None
        fields = unseal(raw)
        if fields["type"] != "turn":
            return None
        # a message that was redacted may have no content
        content_of = fields.get("content", "") if ERASED in fields else fields["content"]
        return fields.get("sender", ""), content_of
    except (Damaged, ValueError, KeyError, TypeError, AttributeError):
        return None
