"""Reads plain Recollect JSONL for an import: one file a conversation, as the server and `export` write it."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

from recollect_server.cli.plan import Batch, Happened, Placed, Plan, Skip
from recollect_server.domain.conversation import Began, Content, Unknown
from recollect_server.domain.ids import is_conversation_id, time_of
from recollect_server.domain.message import Message
from recollect_server.storage.logs.files import SUFFIX, open_transcript
from recollect_server.storage.logs.lines import Line, line_of
from recollect_server.storage.logs.reader import scan
from recollect_server.storage.logs.record import LOST_CHANNEL, Stamp

PATTERN = f"conv-*{SUFFIX}"


def read(path: Path) -> Plan | Skip:
    """The conversation of a transcript. Damaged lines are left out and named."""
    try:
        found = list(scan(path.resolve(), lenient=True))  # scan itself follows no links: the server's own files are none
        tail = _tail(path, found)
    except OSError as error:
        return Skip(str(path), f"cannot be read: {error.strerror}")
    skips = [Skip(f"{path}:{line.sequence}", f"damaged line: {line.damage}") for line in found if line.entry is None]
    if tail and tail.entry:
        found.append(tail)
    elif tail:
        skips.append(Skip(f"{path}:{tail.sequence}", f"torn line: {tail.length - 1} bytes without an end"))
    began = next((line.entry.content for line in found if line.entry and isinstance(line.entry.content, Began)), None)
    if began is None:
        began = _lost_beginning(path, found)
        if began is None:
            return Skip(str(path), "; ".join(("no transcript of a conversation", *map(str, skips[:3]))))
        lost = f"the first line is lost, and channel, participants and model with it: imported on channel {LOST_CHANNEL}"
        skips.append(Skip(f"{path}:1", lost))
    name = path.name.removesuffix(SUFFIX)
    if is_conversation_id(name):  # as in the data folder: a file that was copied under another name is another conversation
        began = replace(began, id=name)
    if not began.time and is_conversation_id(began.id):
        began = replace(began, time=time_of(began.id))
    steps = _steps(path, found, skips)
    return Plan(("transcript", began.id or _hash(found)), f"{path}:1", began, steps, skips)


def _tail(path: Path, found: list[Line]) -> Line | None:
    """Return what stands behind the last newline, if anything does. Raise OSError."""
    whole = found[-1].end if found else 0
    handle = open_transcript(path.resolve(), os.O_RDONLY)
    try:
        raw = os.pread(handle, os.fstat(handle).st_size - whole, whole)
    finally:
        os.close(handle)
    return line_of(raw, len(found) + 1, whole, lenient=True) if raw.strip() else None


def _hash(found: list[Line]) -> str:
    """Return what names a conversation without an id in every run: its first two lines, for a file may grow."""
    return hashlib.sha256(repr([line.entry for line in found[:2]]).encode()).hexdigest()


def _steps(path: Path, found: list[Line], skips: list[Skip]) -> list[Batch | Happened]:
    """What the lines say, the messages in their batches. Lines of a kind that is not known are skipped."""
    steps: list[Batch | Happened] = []
    last: Stamp | None = None  # of the message that came right before
    for line in found:
        if line.entry is None:
            continue
        content, stamp, where = line.entry.content, line.entry.stamp, f"{path}:{line.sequence}"
        match content:
            case Message():
                placed = Placed(content, where)
                if last and _goes_on(last, stamp) and isinstance(steps[-1], Batch):
                    steps[-1].messages.append(placed)
                else:
                    steps.append(Batch(str(line.sequence), [placed]))
                last = stamp
                continue
            case Unknown():
                skips.append(Skip(where, "a line that this version does not know"))
            case Began():
                pass
            case _:
                steps.append(Happened(str(line.sequence), content, where))
        last = None
    return steps


def _goes_on(last: Stamp, stamp: Stamp) -> bool:
    """Whether a line is of the batch of the line before it. A damaged line between them is no end of it."""
    return (last.request_id, last.batch[1]) == (stamp.request_id, stamp.batch[1]) and last.batch[0] < stamp.batch[0]


def _lost_beginning(path: Path, found: list[Line]) -> Began | None:
    """What can be said of a conversation whose first line is lost: its name, by the file's, and the time of what is left."""
    name = path.name.removesuffix(SUFFIX)
    contents: list[Content] = [line.entry.content for line in found if line.entry]
    times = [it.timestamp if isinstance(it, Message) else it.time for it in contents if not isinstance(it, Unknown)]
    return Began(name, LOST_CHANNEL, times[0]) if times and is_conversation_id(name) else None
