"""Reads transcripts: from any line on, or one range of bytes. A damaged line is passed over and named, never raised."""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

from recollect_server.domain.conversation import Content
from recollect_server.domain.frozen import frozen
from recollect_server.domain.message import Message
from recollect_server.storage.logs.files import open_transcript
from recollect_server.storage.logs.record import Damaged, Entry, decode, has_checksum, unseal

_CHUNK = 1 << 18


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


def raw_lines(path: Path, offset: int = 0, until: int | None = None) -> Iterator[bytes]:
    """The whole lines from `offset` on, up to `until`, without their newlines. An unended tail is not a line. Raises OSError."""
    handle = open_transcript(path, os.O_RDONLY)
    try:
        rest: list[bytes] = []  # of a line that is longer than what is read at once: joined once, not with every part
        while chunk := os.pread(handle, _CHUNK if until is None else min(_CHUNK, until - offset), offset):
            offset += len(chunk)
            first, *others = chunk.split(b"\n")
            rest.append(first)
            if others:
                yield b"".join(rest)
                rest = [others.pop()]
                yield from others
    finally:
        os.close(handle)


def scan(path: Path, offset: int = 0, sequence: int = 1, *, lenient: bool = False) -> Iterator[Line]:
    """The whole lines from `offset` on, where line `sequence` begins. An unended tail is not a line. Raises OSError.

    `lenient` reads messages too that say neither turn nor time, as an import may.
    """
    for number, raw in enumerate(raw_lines(path, offset), sequence):
        yield line_of(raw, number, offset, lenient=lenient)
        offset += len(raw) + 1


def spoken(path: Path, wanted: Callable[[int], bool]) -> Iterator[tuple[int, int, tuple[str, str] | None]]:
    """The lines of these sequences, with where each ends and, of a message, its sender and content; None of a damaged line.

    Costs a quarter of `scan`, which reads every field. Raises OSError.
    """
    end = 0
    for sequence, raw in enumerate(raw_lines(path), 1):
        end += len(raw) + 1
        if wanted(sequence):
            yield sequence, end, _spoken(raw, sequence)


def _spoken(raw: bytes, sequence: int) -> tuple[str, str] | None:
    try:
        if not has_checksum(raw):
            content = decode(raw, sequence).content
            return (content.sender, content.content) if isinstance(content, Message) else None
        fields = unseal(raw)
        return (fields.get("sender", ""), fields["content"]) if fields["type"] == "turn" else None
    except (Damaged, ValueError, KeyError, TypeError, AttributeError):
        return None


def read_lines(path: Path, places: list[tuple[int, int, int]]) -> list[Line]:
    """The lines at `(sequence, offset, length)`, which the index knows. Raises OSError.

    Neighbours are read in one go. A line that is not there any more (the file is shorter) comes back as damaged.
    """
    lines: list[Line] = []
    handle = open_transcript(path, os.O_RDONLY)
    try:
        start = 0
        while start < len(places):
            end = start + 1
            while end < len(places) and places[end][1] - sum(places[end - 1][1:]) in range(_CHUNK):
                end += 1
            first, last = places[start], places[end - 1]
            block = os.pread(handle, last[1] + last[2] - first[1], first[1])
            for sequence, offset, length in places[start:end]:
                raw = block[offset - first[1] : offset - first[1] + length]
                if raw.endswith(b"\n"):
                    lines.append(line_of(raw[:-1], sequence, offset))
                else:
                    lines.append(Line(sequence, offset, length, None, "the line does not end where it did"))
            start = end
    finally:
        os.close(handle)
    return lines


def ends_a_line(path: Path, offset: int) -> bool:
    """Whether a line ends before this byte. Raises OSError."""
    handle = open_transcript(path, os.O_RDONLY)
    try:
        return offset == 0 or os.pread(handle, 1, offset - 1) == b"\n"
    finally:
        os.close(handle)


def around(path: Path, places: list[tuple[int, int, int]], size: int, turns: tuple[int, int]) -> tuple[int, bool]:
    """Look at the lines between these places, and behind the last one up to the next message or byte `size`.

    They are events, lines that the index could not read, and other turns': between a message and a late one of the same turn are
    other messages too, and from the first of these on the lines are other turns'. Return how many lines between the places are
    damaged, and whether there is a message of the turns from one to another, which the index then leaves out. Raises OSError.
    """
    damaged = 0
    left_out = False
    ordered = sorted(places, key=itemgetter(1))
    for before, after in pairwise(ordered):
        start = before[1] + before[2]
        if start < after[1]:
            for raw in raw_lines(path, start, after[1]):
                line = line_of(raw, before[0] + 1, start)
                if line.entry is None:
                    damaged += 1
                elif isinstance(line.entry.content, Message):
                    left_out = left_out or _is_of(line, turns)
                    break
    end = ordered[-1][1] + ordered[-1][2] if places else size
    if end < size:
        for raw in raw_lines(path, end, size):
            line = line_of(raw, ordered[-1][0] + 1, end)
            if line.entry and isinstance(line.entry.content, Message):
                left_out = left_out or _is_of(line, turns)
                break
    return damaged, left_out


def _is_of(line: Line, turns: tuple[int, int]) -> bool:
    content = line.entry.content if line.entry else None
    return isinstance(content, Message) and turns[0] <= content.turn_number <= turns[1]


def line_of(raw: bytes, sequence: int, offset: int, *, lenient: bool = False) -> Line:
    """The line whose bytes, without the newline, are these."""
    try:
        return Line(sequence, offset, len(raw) + 1, decode(raw, sequence, lenient=lenient))
    except Damaged as damage:
        return Line(sequence, offset, len(raw) + 1, None, str(damage))


def messages_of(lines: list[Line]) -> list[Message]:
    """The messages among the lines."""
    return [line.entry.content for line in lines if line.entry and isinstance(line.entry.content, Message)]


def contents_of(lines: list[Line]) -> list[Content]:
    """What the lines say, but for damaged ones."""
    return [line.entry.content for line in lines if line.entry]
