"""Spaces that are removed from a data folder, and their receipts.

The folder of a space is renamed first, to a name that no space has: from then on the space is gone,
whatever dies. Then its receipt is written to `deleted_spaces.jsonl`, and the files are removed. The
next start ends what a crash interrupted.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import structlog

from recollect_server.kernel.domain.ids import Kind, new_ulid
from recollect_server.kernel.domain.time import from_text, to_text
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.files import opened, read_file, sync_folder
from recollect_server.kernel.log.folder import FolderStore

log = structlog.get_logger("recollect.spaces")

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
    """Remove what is left of spaces whose removal was interrupted."""
    finished: list[SpaceReceipt] = []
    for going in sorted(data_dir.glob(f"{_GOING}*")):
        try:
            finished.append(_finish(data_dir, going, now))
        except OSError as error:  # the others are served, and the next start tries again
            log.error("space_not_removed", folder=going.name, reason=str(error))
    return finished


def receipts(data_dir: Path) -> list[SpaceReceipt]:
    """Return the receipts of all removed spaces, oldest first. Raises OSError."""
    return [_receipt(line) for line in _lines(data_dir)]


def _finish(data_dir: Path, going: Path, now: int) -> SpaceReceipt:
    line = next((it for it in _lines(data_dir) if it["folder"] == going.name), None)
    if line is None:  # all of it is there still
        line = _described(data_dir, going, now)
        _append(data_dir, line)
    hit("space.receipt_written")
    _erase(going)
    hit("space.removed")
    sync_folder(data_dir)
    return _receipt(line)


def _erase(folder: Path, depth: int = 0) -> None:
    """Remove a folder with everything in it, also where it is a link or has links to folders: what
    they lead to is a part of the space. An empty folder is left at a link's end. Raises OSError.
    """
    is_link = folder.is_symlink()
    for path in list(folder.iterdir()) if folder.is_dir() else ():
        if path.is_dir() and not (path.is_symlink() and depth):
            _erase(path, depth + 1)
        else:
            path.unlink()
    if is_link:
        folder.unlink()
    else:
        folder.rmdir()


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
    with opened(data_dir / RECEIPTS, os.O_RDWR | os.O_APPEND | os.O_CREAT) as handle:
        size = os.fstat(handle).st_size
        # a line that a crash cut off is left alone, and nothing is joined to it
        torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
        os.write(handle, b"\n" * torn + orjson.dumps(line) + b"\n")
        os.fsync(handle)
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
