"""The ledger of tokens: `tokens.jsonl` in the data folder, for its owner alone (0600). Over
PostgreSQL the same lines are in a table instead (`postgres.tokens`).

Its lines are sealed as those of the other ledgers: one JSON object, ended by its checksum. Each is
one event: a token was created, or revoked. Unlike other ledgers it belongs to no space, and has
several writers: the server and commands beside it. A writer holds a lock of the file (flock) while
it appends. An append that was cut short was never acknowledged; the next one cuts its bytes off.
"""

import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import structlog

from recollect_server.kernel.failpoints import hit, hit_half_way
from recollect_server.kernel.log.files import (
    make_folder,
    open_transcript,
    opened,
    read_file,
    sync_folder,
)
from recollect_server.kernel.log.folder import failing
from recollect_server.kernel.log.lines import fields_of, seal
from recollect_server.kernel.log.store import LogNotFound

log = structlog.get_logger("recollect.tokens")

TOKENS = "tokens"
Mark = tuple[int, int, int]
"""State of the file: inode, size and time of its last change."""
NO_FILE: Mark = (0, 0, 0)


class TokenLines(Protocol):
    """Protocol of a ledger of tokens: a file, or a table of a database."""

    @property
    def is_local(self) -> bool:
        """Return whether `mark` costs microseconds, and no round trip."""

    def mark(self) -> Mark:
        """Return its state: another one after every change. Raises LogUnavailable."""

    def raw(self) -> list[bytes]:
        """Return the lines without their newlines, oldest first. Raises LogUnavailable."""

    def append(self, fields: dict[str, Any]) -> None:
        """Add a line, durable when it returns. Raises LogUnavailable."""


class TokenLedger:
    """The ledger of a data folder. Safe to call from any thread, beside other processes."""

    is_local = True
    """True: `mark` costs some microseconds."""

    def __init__(self, data_dir: Path) -> None:
        """Name the ledger. It need not be there yet, nor its folder."""
        self.path = data_dir / f"{TOKENS}.jsonl"

    def mark(self) -> Mark:
        """Return the state of the file: another one after every change. Raises LogUnavailable."""
        with failing(TOKENS, "read"):
            try:
                status = self.path.stat(follow_symlinks=False)
            except FileNotFoundError:
                return NO_FILE
        return status.st_ino, status.st_size, status.st_mtime_ns

    def raw(self) -> list[bytes]:
        """Return the lines without their newlines, oldest first. An unended tail is no line. Raises
        LogUnavailable.
        """
        with suppress(LogNotFound), failing(TOKENS, "read"):
            return read_file(self.path).split(b"\n")[:-1]
        return []

    def fill(self, lines: Iterable[bytes]) -> None:
        """Let the file have these lines, without their newlines, and no others, durably. Raises
        LogUnavailable.
        """
        new = self.path.with_name(f"{self.path.name}.new")
        with failing(TOKENS, "written"):
            make_folder(self.path.parent)
            handle = open_transcript(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with os.fdopen(handle, "wb") as file:
                self._hand_over(handle)
                file.writelines(line + b"\n" for line in lines)
                file.flush()
                os.fsync(handle)
            new.replace(self.path)
            sync_folder(self.path.parent)

    def append(self, fields: dict[str, Any]) -> None:
        """Add a line, durable when it returns. Raises LogUnavailable; then nothing is added."""
        with failing(TOKENS, "written"):
            make_folder(self.path.parent)
            with opened(self.path, os.O_RDWR | os.O_CREAT | os.O_DSYNC) as handle:
                os.fchmod(handle, 0o600)
                self._hand_over(handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
                self._append(handle, seal(fields))

    def _hand_over(self, handle: int) -> None:
        """Give a file that root writes to the owner of its folder, who runs the server."""
        if os.geteuid() == 0:
            owner = self.path.parent.stat()
            os.fchown(handle, owner.st_uid, owner.st_gid)

    def _append(self, handle: int, line: bytes) -> None:
        hit("tokens.begun")
        end = self._recover(handle)
        hit_half_way("tokens.half_written", line, lambda part: os.pwrite(handle, part, end))
        try:
            size = os.pwrite(handle, line, end)
            if size < len(line):
                raise OSError("the disk took a part of the line only")
            hit("tokens.written")
            if not end:  # the name of a new file
                sync_folder(self.path.parent)
        except OSError:
            with suppress(OSError):
                os.ftruncate(handle, end)
            raise
        hit("tokens.synced")

    def _recover(self, handle: int) -> int:
        """Return where the last whole line ends, with what an append left behind it cut off. A last
        line that lost its newline alone gets it again.
        """
        data = os.pread(handle, os.fstat(handle).st_size, 0)
        end = data.rfind(b"\n") + 1
        if end == len(data):
            return end
        if fields_of(data[end:]) is not None:
            os.pwrite(handle, b"\n", len(data))
            hit("tokens.recovered")
            return len(data) + 1
        log.warning("torn_tail_cut", ledger=TOKENS, bytes=len(data) - end)
        os.ftruncate(handle, end)
        os.fsync(handle)
        hit("tokens.recovered")
        return end
