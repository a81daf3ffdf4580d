"""A file of lines beside a space's conversations, for what is true of the space and of no conversation: only the ledger says it.

`<space>/<name>.jsonl`, with lines as a transcript's: one JSON object, ended by its checksum. It is only added to, each write synced
before it counts. `identities` says who is an owner; `forgotten` which messages of providers were in conversations that are deleted.
`anchors` is beside them, and written anew where something is to be forgotten (see `anchors`).
"""

import os
import threading
from collections.abc import Iterator
from typing import Any

import structlog

from recollect_server.storage.logs.files import TORN, TranscriptFolder, open_transcript
from recollect_server.storage.logs.record import Damaged, seal, unseal
from recollect_server.storage.logs.repair import mend
from recollect_server.storage.logs.writer import TranscriptWriter

_guard = threading.Lock()  # one write of a ledger at a time, whoever opened it

log = structlog.get_logger("recollect.ledger")

IDENTITIES, FORGOTTEN, ANCHORS = "identities", "forgotten", "anchors"
LEDGERS = (IDENTITIES, FORGOTTEN, ANCHORS)


class Ledger:
    """An append-only file of a space. Safe to call from any thread of the one process that has the space open."""

    def __init__(self, folder: TranscriptFolder, name: str, *, sync: bool = True) -> None:
        """The ledger of this name beside a folder of transcripts. It need not be there yet."""
        self.path = folder.ledger_path(name)
        self._writer = TranscriptWriter(sync=sync)

    def mend(self) -> None:
        """Cuts off what a crash left half-written, and keeps it beside the file. Raises OSError."""
        if not self.path.exists():
            return
        torn = mend(self.path, self.path.with_name(self.path.name + TORN))
        if torn:
            log.warning("torn_tail_cut", ledger=self.path.name, bytes=torn.bytes_cut, reason=torn.reason)
        if self.path.stat().st_size == 0:
            self.path.unlink()

    def size(self) -> int:
        """Bytes of the file; 0 if there is none."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """What the lines say, oldest first. A damaged line is passed over with a warning. Raises OSError."""
        try:
            handle = open_transcript(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return
        with os.fdopen(handle, "rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    said = unseal(line.removesuffix(b"\n"))
                except (Damaged, ValueError) as damage:
                    log.warning("damaged_line", ledger=self.path.name, line=number, reason=str(damage))
                    continue
                if isinstance(said, dict):
                    yield said

    def append(self, *lines: dict[str, Any]) -> None:
        """Adds lines, all or none, durable when it returns. Raises OSError."""
        data = b"".join(
            seal({**line, "batch": (number, len(lines))} if len(lines) > 1 else line) for number, line in enumerate(lines, start=1)
        )
        with _guard:
            if size := self.size():
                self._writer.append(self.path, data, size)
            else:
                self._writer.create(self.path, data)

    def close(self) -> None:
        """Closes the file."""
        self._writer.close()
