"""The format of a data folder: a number, in `recollect.format`, that grows with every kind of line
that an older server would pass over.

A server keeps lines that it does not know, and answers as if they were not there: a redaction that
it passes over would give back the text. So a folder that a newer server has opened is refused by an
older one, which names the version that can open it. A folder without the file is of format 1.
"""

import os
from pathlib import Path

import orjson
import structlog

from recollect_server import __version__
from recollect_server.kernel.log.files import opened, write_private

log = structlog.get_logger("recollect.format")

FORMAT = 3
"""2: what callers record of turns, of which an older server would redact no summary.

3: third parties' messages that are redacted, which an older server would take for others' lines.
"""
NAME = "recollect.format"
_MOST_BYTES = 1000


class NewerFormat(Exception):
    """Data that a newer server wrote; the text says what to do."""


def check_format(data_dir: Path) -> int:
    """Return the format of a data folder, 0 where it is not said. Raises NewerFormat if this server
    does not know it, OSError.
    """
    path = data_dir / NAME
    try:
        with opened(path) as handle:
            text = os.read(handle, _MOST_BYTES)
    except FileNotFoundError:
        return 0
    try:
        value = orjson.loads(text)
        number, version = value["format"], value["version"]
        if type(number) is not int or type(version) is not str:
            raise TypeError("format is not a number, or version is not a text")
    except (ValueError, KeyError, TypeError) as error:
        raise NewerFormat(
            f"{path} cannot be read ({error}): remove it if no server newer than {__version__} has"
            " used the folder"
        ) from error
    check_number(number, version, f"the data folder {data_dir}")
    return number


def check_number(number: object, version: object, place: str) -> None:
    """Raise NewerFormat if this server does not know a format; `version` wrote it, in `place`."""
    if type(number) is not int or number > FORMAT:
        raise NewerFormat(
            f"{place} was written by Recollect {version}, in format {number}, and this server"
            f" ({__version__}) reads formats up to {FORMAT}: run {version} or a later version, or"
            " restore a backup that is older than the upgrade into another folder"
        )


def _has_logs(data_dir: Path) -> bool:
    """Return whether a data folder without a format has what an earlier server wrote."""
    return any(True for it in ("*", "*/*") for _ in data_dir.glob(f"{it}/*.jsonl"))


def mark_format(data_dir: Path, *, is_new: bool = False) -> None:
    """Write down that this server has used a data folder, so that an older one refuses it; of one
    that has data and is not `is_new`, made by this server, say so first. Raises NewerFormat,
    OSError.
    """
    before = check_format(data_dir)
    if before == FORMAT:
        return
    if not is_new and (before or _has_logs(data_dir)):
        log.warning(
            "format_raised",
            folder=str(data_dir),
            before=before or 1,
            now=FORMAT,
            reason=f"servers older than this one ({__version__}) refuse the folder from here on;"
            " only a backup from before leads back to them",
        )
    try:
        write_private(data_dir / NAME, orjson.dumps({"format": FORMAT, "version": __version__}))
    except OSError as error:
        # A disk that takes nothing takes no lines of a newer format either.
        log.warning("format_not_written", reason=str(error))
