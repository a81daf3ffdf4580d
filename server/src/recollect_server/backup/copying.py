"""Copies of single logs, with their sizes and checksums, in both directions."""

import os
import zlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.log.files import Syncs, open_transcript, opened
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.repair import whole_end

CHUNK = 1 << 20
"""Bytes that are read at once."""


@dataclass(slots=True)
class Copied:
    """Result of a copy, and the problems it met."""

    logs: Counter[Kind] = field(default_factory=Counter)
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


def copy_log(
    source: Path, target: Path, damages: list[Line], syncs: Syncs | None = None
) -> tuple[int, int]:
    """Copy a transcript up to the end of a whole batch. Return its size and its checksum. Raises
    OSError.

    It is durable, but for its name, when this returns, or when `syncs` is left. Its damaged lines
    are added to `damages`.
    """
    with opened(source) as reading:
        writing = open_transcript(target, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            size, left, checksum = 0, os.fstat(reading).st_size, 0
            while left and (part := os.read(reading, min(left, CHUNK))):
                left -= len(part)
                checksum = zlib.crc32(part, checksum)
                while part:
                    count = os.write(writing, part)
                    size, part = size + count, part[count:]

            # The copy itself is looked at: of the file that is being written, the next look could
            # show something else.
            whole = whole_batches(target, size, damages)
            if whole < size:
                os.ftruncate(writing, whole)
                checksum = size_and_checksum(target)[1]
            if syncs is None:
                os.fsync(writing)
        except BaseException:
            os.close(writing)
            raise
        if syncs is None:
            os.close(writing)
        else:
            syncs.sync(writing)
    return whole, checksum


def whole_batches(log: Path | int, size: int, damages: list[Line]) -> int:
    """Return where the last whole batch of a log of `size` bytes ends. The damaged lines before
    that are added to `damages`. Raises OSError.
    """

    def see(line: Line) -> None:
        if line.entry is None:
            damages.append(line)

    whole = min(size, whole_end(log, 0, 1, size, see)[0])
    damages[:] = [line for line in damages if line.end <= whole]
    return whole


def damage_texts(name: str, damages: list[Line]) -> list[str]:
    """Return a text for each damaged line of a log."""
    return [f"{name}: line {line.sequence} is damaged: {line.damage}" for line in damages]


def change_text(name: str, there: tuple[int, int], expected: tuple[int, int]) -> str:
    """Return the text of a log whose size or checksum is not that of the manifest."""
    return f"{name}: is not as it was backed up: {there[0]} of {expected[0]} bytes"


def size_and_checksum(path: Path) -> tuple[int, int]:
    """Read a file, from the disk where the system allows it: what is in its cache was never wrong.
    Raises OSError.
    """
    with os.fdopen(open_transcript(path, os.O_RDONLY), "rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return size_and_checksum_of(file)


def size_and_checksum_of(file: IO[bytes]) -> tuple[int, int]:
    """Read a file to its end. Raises OSError."""
    size, value = 0, 0
    while part := file.read(CHUNK):
        size, value = size + len(part), zlib.crc32(part, value)
    return size, value
