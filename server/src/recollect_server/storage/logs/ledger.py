"""A log of lines that are true of a space and of no conversation: only the ledger says them.

`<space>/<name>.jsonl` in a folder, with lines as a transcript's: one JSON object, ended by its
checksum. `identities` says who is an owner; `forgotten` which messages of providers were in
conversations that are deleted. `anchors` is beside them, and replaced where something is to be
forgotten (see `anchors`).
"""

import threading
from collections.abc import Iterator
from typing import Any

import structlog

from recollect_server.storage.logs.record import Damaged, seal, unseal
from recollect_server.storage.logs.store import LogNotFound, LogStore, Position

_guard = threading.Lock()  # one write of a ledger at a time, whoever opened it

log = structlog.get_logger("recollect.ledger")


class Ledger:
    """An append-only ledger of a space. Safe to call from any thread."""

    def __init__(self, store: LogStore, name: str) -> None:
        """Open the ledger of this name. It need not be there yet."""
        self.name = name
        self._store = store

    def recover(self) -> None:
        """Cut off what a crash left half-written, and keep it beside the ledger. Raises
        LogUnavailable.
        """
        try:
            torn = self._store.recover(self.name)
        except LogNotFound:
            return
        if torn:
            log.warning("torn_tail_cut", ledger=self.name, bytes=torn.bytes_cut, reason=torn.reason)
        self._store.remove_empty(self.name)

    def size(self) -> int:
        """Return the ledger's bytes; 0 if there is none."""
        try:
            return self._store.length(self.name)
        except LogNotFound:
            return 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield what the lines say, oldest first. A damaged line is passed over with a warning.
        Raises LogUnavailable.
        """
        try:
            raw = self._store.raw(self.name)
        except LogNotFound:
            return
        for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n") if raw else (), start=1):
            try:
                fields = unseal(line)
            except (Damaged, ValueError) as damage:
                log.warning("damaged_line", ledger=self.name, line=number, reason=str(damage))
                continue
            if isinstance(fields, dict):
                yield fields

    def append(self, *lines: dict[str, Any]) -> None:
        """Add lines, all or none, durable when it returns. Raises LogUnavailable."""
        count = len(lines)
        sealed = [
            seal({**line, "batch": (at, count)} if count > 1 else line)
            for at, line in enumerate(lines, start=1)
        ]
        with _guard:
            # How many lines there are is not counted: a ledger has one writer, and its bytes say
            # where it ends.
            self._store.append(self.name, Position(bytes=self.size()), sealed)
