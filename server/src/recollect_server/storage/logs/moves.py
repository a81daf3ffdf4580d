"""The mark of a place that all logs are copied to: the place they come from, and whether all are
there.

A place whose mark has no end holds a part of the logs: no server may serve it. A folder has the
mark in a file, `moved_from.json`; a database in a table (`storage.postgres.moves`).
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from recollect_server.storage.logs.files import make_folder, open_transcript, sync_folder

NAME = "moved_from.json"


@dataclass(frozen=True, slots=True)
class MoveMark:
    """Origin of the logs of a place."""

    source: str
    """Identity of the place that they are copied from."""
    ended: str = ""
    """Time at which all were there; empty while they are not."""


class Marked(Protocol):
    """Protocol of what keeps the mark of a place."""

    def mark(self) -> MoveMark | None:
        """Return the mark; None if nothing was moved there."""

    def set_mark(self, mark: MoveMark) -> None:
        """Replace the mark, durably."""


class FolderMark:
    """The mark of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._path = data_dir / NAME

    def mark(self) -> MoveMark | None:
        """Return the mark; one without an end if the file cannot be understood. Raises OSError."""
        try:
            with os.fdopen(open_transcript(self._path, os.O_RDONLY), "rb") as file:
                fields = orjson.loads(file.read())
            return MoveMark(str(fields["source"]), str(fields["ended"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return MoveMark("another place")

    def set_mark(self, mark: MoveMark) -> None:
        """Replace the file, durably. Raises OSError."""
        make_folder(self._path.parent)
        new = self._path.with_name(f"{NAME}.new")
        handle = open_transcript(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(handle, "wb") as file:
            file.write(orjson.dumps({"source": mark.source, "ended": mark.ended}) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        sync_folder(self._path.parent)


def refusal(marked: Marked, name: str) -> str:
    """Return why no server may serve a place; empty if one may."""
    mark = marked.mark()
    if mark is None or mark.ended:
        return ""
    return (
        f"{name} holds a part of what is moved from {mark.source}: run"
        " `recollect-server migrate` again with the same --from and --to"
    )
