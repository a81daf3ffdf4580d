"""Reads files of lines: from any line on, or at places. A damaged line is passed over and named,
never raised.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect_server.kernel.log.files import opened
from recollect_server.kernel.log.lines import Line, Place, line_of

_CHUNK = 1 << 18


def raw_lines(path: Path | int, offset: int = 0, until: int | None = None) -> Iterator[bytes]:
    """Yield the whole lines between two bytes, without their newlines. An unended tail is not a
    line. A number is the handle of an open file. Raises OSError.
    """
    with opened(path) as handle:
        # of a line that is longer than what is read at once: joined once, not with every part
        rest: list[bytes] = []
        while chunk := os.pread(
            handle, _CHUNK if until is None else min(_CHUNK, until - offset), offset
        ):
            offset += len(chunk)
            first, *others = chunk.split(b"\n")
            rest.append(first)
            if others:
                yield b"".join(rest)
                rest = [others.pop()]
                yield from others


def scan(
    path: Path | int, offset: int = 0, sequence: int = 1, until: int | None = None
) -> Iterator[Line]:
    """Yield the whole lines from `offset` on, where line `sequence` begins. An unended tail is not
    a line. Raises OSError.
    """
    for number, raw in enumerate(raw_lines(path, offset, until), sequence):
        yield line_of(raw, number, offset)
        offset += len(raw) + 1


def read_places(path: Path, places: Sequence[Place]) -> list[Line]:
    """Return the lines at places, which the index keeps. Raises OSError.

    Neighbours are read in one go. A line that is not there any more (the file is shorter) comes
    back as damaged.
    """
    lines: list[Line] = []
    with opened(path) as handle:
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
                    lines.append(
                        Line(sequence, offset, length, None, "the line does not end where it did")
                    )
            start = end
    return lines


def ends_a_line(path: Path | int, offset: int) -> bool:
    """Return whether a line ends before this byte. Raises OSError."""
    with opened(path) as handle:
        return offset == 0 or os.pread(handle, 1, offset - 1) == b"\n"
