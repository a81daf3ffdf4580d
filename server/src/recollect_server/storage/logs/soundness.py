"""What is wrong with a transcript by itself, whatever it is of: a torn tail, damaged lines, batches that are not whole."""

from collections.abc import Iterator
from pathlib import Path

from recollect_server.storage.logs.reader import Line, scan
from recollect_server.storage.logs.repair import whole_end


def look_through(path: Path, size: int) -> Iterator[Line | str]:
    """Every line up to the torn tail, damaged ones too, and in its place what is wrong. Raises OSError."""
    good, why, _ = whole_end(path, 0, 1, size)
    if good < size:
        yield f"the last {size - good} bytes are torn: {why}"
    elif good > size:
        yield "the last line has no newline"
    batch: tuple[int, int] | None = None  # of the line before; None where it cannot be told
    for line in scan(path):
        if line.offset >= good:
            break
        yield line
        if line.entry is None:
            yield f"line {line.sequence} is damaged: {line.damage}"
            batch = None
            continue
        stamp = line.entry.stamp
        expected = batch and ((1, stamp.batch[1]) if batch[0] == batch[1] else (batch[0] + 1, batch[1]))
        if expected and stamp.batch != expected:
            yield f"line {line.sequence} is {stamp.batch[0]} of {stamp.batch[1]} of a batch, and {expected[0]} should be here"
        batch = stamp.batch
