"""Repairs the tail of a transcript after a crash.

Only a tail is repaired: an append that was never acknowledged may have left an unended line, a
damaged last line (the pages of one write reach the disk in any order), or a batch of which the last
lines are missing. They are cut off into `<name>.torn`, and what was cut is reported. A damaged line
with good ones behind it is damage to something acknowledged: it stays where it is, readers pass
over it, and nothing here touches it. So do foreign lines that cannot be read, at a file's end too
(see `_is_foreign`).

What is whole and was perhaps never synced is made durable before it counts. A sync that failed
before the crash may have left it in the system's cache alone, marked as written: the next sync
would report it done. So the last batch is written once more.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from recollect_server.kernel.failpoints import hit, hit_half_way
from recollect_server.kernel.log.files import open_transcript, opened, sync_folder
from recollect_server.kernel.log.lines import Line, has_checksum, is_object, line_of
from recollect_server.kernel.log.reader import ends_a_line, scan
from recollect_server.kernel.log.store import TornTail

_CHECKSUM_AND_NEWLINE = 19  # bytes at a line's end


def repair_tail(
    path: Path,
    torn: Path,
    offset: int = 0,
    sequence: int = 1,
    see: Callable[[Line], None] | None = None,
    acknowledged: int = 0,
) -> TornTail | None:
    """Move a torn tail into the file `torn`. The lines before `offset` (line `sequence` begins
    there) are known to be whole, and those up to byte `acknowledged` to be no torn write.

    A last line that is whole but for its newline gets it back. Returns None if there was nothing to
    cut. `see` is called with each line that is ended, before anything is cut. Raises OSError.
    """
    size = path.stat().st_size
    good, why, last = whole_end(path, offset, sequence, size, see, acknowledged)
    if good == size and not why:
        if good > offset:
            make_durable(path, last, good)
        return None
    with opened(path, os.O_RDWR) as handle:
        if good > size:  # only the newline was missing
            os.pwrite(handle, b"\n", size)
            hit("repair.newline")
            make_durable(path, last, good)
            return None
        hit("repair.begun")
        _keep(torn, os.pread(handle, size - good, good))
        hit("repair.kept")
        os.ftruncate(handle, good)
        hit("repair.cut")
        make_durable(path, last, good)
    return TornTail(size - good, why)


def make_durable(path: Path, start: int, end: int) -> None:
    """Rewrite the bytes from `start` to `end` unchanged, and sync the file. Raises OSError."""
    try:
        handle = open_transcript(path, os.O_RDWR)
    except OSError:
        handle = open_transcript(path, os.O_RDONLY)  # nobody can have written to it
        start = end
    try:
        while start < end and (part := os.pread(handle, end - start, start)):
            start += os.pwrite(handle, part, start)
        os.fsync(handle)
    finally:
        os.close(handle)


def whole_end(
    path: Path | int,
    offset: int,
    sequence: int,
    size: int,
    see: Callable[[Line], None] | None = None,
    acknowledged: int = 0,
) -> tuple[int, str, int]:
    """Return the end of the whole batches of the first `size` bytes (one past the end of the file:
    its newline is missing), the reason for it, and the begin of the last batch. What is damaged
    before byte `acknowledged`, where a line ends, is no torn write.

    A number is the handle of an open file. `see` is called with each line that is ended. Raises
    OSError.
    """
    end = _end_of_batches(path, offset, sequence, size, see)
    if end[0] < acknowledged <= size and ends_a_line(path, acknowledged):
        return _end_of_batches(path, acknowledged, 1, size)
    return end


def _end_of_batches(
    path: Path | int,
    offset: int,
    sequence: int,
    size: int,
    see: Callable[[Line], None] | None = None,
) -> tuple[int, str, int]:
    good, why, last = offset, "", offset
    batch: list[Line] = []
    end = offset
    for line in scan(path, offset, sequence, size):
        end, sequence = line.end, line.sequence + 1
        if see is not None:
            see(line)
        if line.entry is None:
            batch.append(line)
            why = why or line.damage
            continue
        index, count = line.entry.stamp.batch
        if index == 1:
            # What came before is complete, or damaged in the middle of the file: no longer a tail.
            good, why, batch = line.offset, "", []
        batch.append(line)
        if index == count and _is_whole(batch):
            good, why, last, batch = line.end, "", batch[0].offset, []
        else:
            why = why or f"only {len(batch)} of the {count} lines of a batch are there"
    if end == size:
        return (
            (good, why, last)
            if good < size and not _is_foreign(path, good, size)
            else (size, "", last)
        )
    tail = _tail(path, end, size)
    unended = line_of(tail, sequence, end)
    if unended.entry is not None:
        batch = [unended] if unended.entry.stamp.batch[0] == 1 else [*batch, unended]
        if _is_whole(batch):
            return size + 1, "", batch[0].offset
    return (
        (size + 1, "", last)
        if _is_foreign(path, good, size)
        else (good, "the last line is not ended", last)
    )


def _is_whole(batch: list[Line]) -> bool:
    """Return whether these lines are a batch from its first line to its last, each undamaged."""
    places = [line.entry.stamp.batch for line in batch if line.entry is not None]
    return places == [(index, len(batch)) for index in range(1, len(batch) + 1)]


def _is_foreign(path: Path | int, good: int, size: int) -> bool:
    """Return whether another program wrote the tail behind the good lines; False for what is left
    of a write of this program.

    No line of it has a checksum. Each is an object, which no part of a line is; or it follows upon
    a line that is not ours either. One unended line and nothing else may be a create that was cut
    short. Raises OSError.
    """
    start = max(0, good - _CHECKSUM_AND_NEWLINE)
    data = _tail(path, start, size)
    before, tail = data[: good - start], data[good - start :]
    lines = [line for line in tail.split(b"\n") if line.strip()]
    if any(map(has_checksum, lines)):
        return False
    if all(map(is_object, lines)):
        return True
    return not has_checksum(before.removesuffix(b"\n")) if good else b"\n" in tail


def _tail(path: Path | int, start: int, size: int) -> bytes:
    with opened(path) as handle:
        return os.pread(handle, size - start, start)


def _keep(torn: Path, data: bytes) -> None:
    """Append the cut bytes to those of earlier cuts, durable before the transcript is cut."""
    with opened(torn, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as handle:
        hit_half_way("repair.half_kept", data, lambda part: os.write(handle, part))
        os.write(handle, data)
        os.fsync(handle)
    sync_folder(torn.parent)


def look_through(
    path: Path, size: int, read: Callable[[int], Iterable[Line]], acknowledged: int = 0
) -> Iterator[Line | str]:
    """Yield every line up to the torn tail, damaged ones too, and in its place what is wrong.
    `read` returns the lines up to a byte. Raises OSError.
    """
    good, why, _ = whole_end(path, 0, 1, size, acknowledged=acknowledged)
    if good < size:
        yield f"the last {size - good} bytes are torn: {why}"
    elif good > size:
        yield "the last line has no newline"
    batch: tuple[int, int] | None = None  # of the line before; None where it is not known
    for line in read(good):
        yield line
        if line.entry is None:
            yield f"line {line.sequence} is damaged: {line.damage}"
            batch = None
            continue
        stamp = line.entry.stamp
        expected = batch and (
            (1, stamp.batch[1]) if batch[0] == batch[1] else (batch[0] + 1, batch[1])
        )
        if expected and stamp.batch != expected:
            yield f"line {line.sequence} is {stamp.batch[0]} of {stamp.batch[1]} of a batch, and {expected[0]} should be here"
        batch = stamp.batch
