"""Spaces that are removed from a data folder, and their receipts.

The folder of a space is renamed first, to a name that no space has: from then on the space is gone,
whatever dies. Then its receipt is written to `deleted_spaces.jsonl`, and the files are removed. The
next start ends what a crash interrupted.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from recollect_server.domain.ids import new_ulid
from recollect_server.domain.time import from_text, to_text
from recollect_server.storage.failpoints import hit
from recollect_server.storage.logs.files import open_transcript, read_file, sync_folder
from recollect_server.storage.logs.folder import FolderStore
from recollect_server.storage.logs.store import Kind

RECEIPTS = "deleted_spaces.jsonl"
_GOING = ".deleted-"  # before the name of a space whose files are being removed


@dataclass(frozen=True, slots=True)
class SpaceReceipt:
    """Receipt of a removed space."""

    name: str
    time: int
    conversations: int
    communications: int
    size: int
    """Bytes of its transcripts."""


def remove_space(data_dir: Path, name: str, now: int) -> SpaceReceipt:
    """Remove a space with everything in its folder, durably. Nobody has it open, and nobody may
    open it meanwhile. Raises OSError.
    """
    going = data_dir / f"{_GOING}{name}.{new_ulid()}"
    hit("space.begun")
    (data_dir / name).rename(going)
    hit("space.renamed")
    sync_folder(data_dir)
    return _finish(data_dir, going, now)


def finish_removals(data_dir: Path, now: int) -> list[SpaceReceipt]:
    """Remove what is left of spaces whose removal was interrupted. Raises OSError."""
    return [_finish(data_dir, going, now) for going in sorted(data_dir.glob(f"{_GOING}*"))]


def receipts(data_dir: Path) -> list[SpaceReceipt]:
    """Return the receipts of all removed spaces, oldest first. Raises OSError."""
    return [_receipt(line) for line in _lines(data_dir)]


def _finish(data_dir: Path, going: Path, now: int) -> SpaceReceipt:
    line = next((it for it in _lines(data_dir) if it["folder"] == going.name), None)
    if line is None:  # all of it is there still
        line = _described(data_dir, going, now)
        _append(data_dir, line)
    hit("space.receipt_written")
    shutil.rmtree(going)
    hit("space.removed")
    sync_folder(data_dir)
    return _receipt(line)


def _described(data_dir: Path, going: Path, now: int) -> dict[str, Any]:
    store = FolderStore.of(data_dir, going.name)
    conversations = (
        [size for _, size in store.logs(Kind.CONVERSATION)] if store.root.exists() else []
    )
    communications = [size for _, size in store.logs(Kind.COMMUNICATION)]
    return {
        "name": going.name.removeprefix(_GOING).rpartition(".")[0],
        "time": to_text(now),
        "folder": going.name,
        "conversations": len(conversations),
        "communications": len(communications),
        "bytes": sum(conversations) + sum(communications),
    }


def _append(data_dir: Path, line: dict[str, Any]) -> None:
    handle = open_transcript(data_dir / RECEIPTS, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(handle).st_size
        # a line that a crash cut off is left alone, and nothing is joined to it
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" * torn + orjson.dumps(line) + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)
    sync_folder(data_dir)


def _lines(data_dir: Path) -> Iterator[dict[str, Any]]:
    try:
        data = read_file(data_dir / RECEIPTS)
    except FileNotFoundError:
        return
    for text in data.splitlines():
        try:
            line = orjson.loads(text)
            _receipt(line)
        except (ValueError, KeyError, TypeError):
            continue  # a crash cut it off
        yield line


def _receipt(line: dict[str, Any]) -> SpaceReceipt:
    return SpaceReceipt(
        str(line["name"]),
        from_text(line["time"]),
        int(line["conversations"]),
        int(line["communications"]),
        int(line["bytes"]),
    )
