"""The marks of a place that logs are copied to, by a move or by a restore: where they come from,
and whether all are there.

A place whose mark says that they are not holds a part of the logs: no server may serve it. A folder
has the mark of a move in a file, `moved_from.json`; a database in a table
(`postgres.spaces`). The mark of a restore is a file too, `restoring.json`, which goes when
all is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import orjson

from recollect_server.kernel.domain.ids import is_space_name
from recollect_server.kernel.log.files import make_folder, read_file, sync_folder, write_private

NAME = "moved_from.json"
RESTORING = "restoring.json"


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
            fields = orjson.loads(read_file(self._path))
            return MoveMark(str(fields["source"]), str(fields["ended"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError):
            return MoveMark("another place")

    def set_mark(self, mark: MoveMark) -> None:
        """Replace the file, durably. Raises OSError."""
        make_folder(self._path.parent)
        fields = {"source": mark.source, "ended": mark.ended}
        write_private(self._path, orjson.dumps(fields) + b"\n")


@dataclass(frozen=True, slots=True)
class RestoreMark:
    """A restore that has not ended."""

    backup: str
    """Path of the backup."""
    spaces: Sequence[str] = ()
    """Spaces that nothing was in before it began: what they hold is of the backup."""


def restore_mark(data_dir: Path) -> RestoreMark | None:
    """Return the mark of a restore into a data folder; None if there is none. Raises OSError."""
    try:
        fields = orjson.loads(read_file(data_dir / RESTORING))
        spaces = [str(space) for space in fields["spaces"] if is_space_name(space)]
        return RestoreMark(str(fields["backup"]), spaces)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        return RestoreMark(f"that {RESTORING} would name, if it could be read")


def set_restore_mark(data_dir: Path, mark: RestoreMark | None) -> None:
    """Replace or remove the mark of a restore, durably. Raises OSError."""
    if mark is None:
        (data_dir / RESTORING).unlink(missing_ok=True)
        sync_folder(data_dir)
        return
    fields = {"backup": mark.backup, "spaces": [*mark.spaces]}
    write_private(data_dir / RESTORING, orjson.dumps(fields) + b"\n")


def folder_refusal(data_dir: Path) -> str:
    """Return why no server may serve a data folder; empty if one may. Raises OSError."""
    return restore_refusal(data_dir) or refusal(FolderMark(data_dir), f"the data folder {data_dir}")


def restore_refusal(data_dir: Path) -> str:
    """Return why nobody may use a data folder where a restore has not ended; empty if one may.
    Raises OSError.
    """
    if (mark := restore_mark(data_dir)) is None:
        return ""
    return (
        f"the data folder {data_dir} holds a part of the backup {mark.backup}: run"
        " `recollect-server restore` again with the same DIR and --data-dir"
    )


def refusal(marked: Marked, name: str) -> str:
    """Return why no server may serve a place; empty if one may."""
    mark = marked.mark()
    if mark is None or mark.ended:
        return ""
    return (
        f"{name} holds a part of what is moved from {mark.source}: run"
        " `recollect-server migrate` again with the same --from and --to"
    )
