"""A log of lines that are true of a space and of no conversation: only the ledger says them.

`<space>/<name>.jsonl` in a folder, with lines as a transcript's: one JSON object, ended by its
checksum. `identities` says who is an owner; `forgotten` which messages of providers were in
conversations that are deleted. `anchors` is beside them, and replaced where something is to be
forgotten (see `anchors`).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Generic, TypeVar

import structlog

from recollect_server.kernel.log.codec import Codec
from recollect_server.kernel.log.lines import Damaged, seal, unseal
from recollect_server.kernel.log.store import LogConflict, LogNotFound, LogStore, LogTaken, Position

E = TypeVar("E")
T = TypeVar("T")

TRIES = 20
"""Tries of a change that others keep from its place."""
_guard = threading.Lock()  # one write at a time, whichever object opened the ledger

log = structlog.get_logger("recollect.ledger")


def tried_again(change: Callable[[], T], tries: int = TRIES) -> T:
    """Return the result of a change, which is made again if another process was faster. Raises
    LogConflict if it was faster each time, LogTaken if it carries out the same request.
    """
    for _ in range(tries - 1):
        try:
            return change()
        except LogTaken:
            raise
        except LogConflict:
            continue
    return change()


class Ledger(Generic[E]):
    """An append-only ledger of a space. Safe to call from any thread."""

    def __init__(self, store: LogStore, name: str, codec: Codec[E]) -> None:
        """Open the ledger of this name, whose lines the codec reads and writes. It need not be
        there yet.
        """
        self.name = name
        self._store = store
        self._codec = codec

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

    def size(self) -> int:
        """Return the ledger's bytes; 0 if there is none."""
        try:
            return self._store.length(self.name)
        except LogNotFound:
            return 0

    def entries(self, until: int | None = None) -> Iterator[E]:
        """Yield what the lines say, oldest first; `until`: those of the first bytes. A line that is
        damaged, or of another version, is passed over with a warning. Raises LogUnavailable.
        """
        return self._entries(self._raw(until))

    def read(self) -> tuple[list[E], int]:
        """Return what `entries` yields, and the bytes that it was read from. Raises
        LogUnavailable.
        """
        raw = self._raw()
        return list(self._entries(raw)), sum(len(line) + 1 for line in raw)

    def _raw(self, until: int | None = None) -> list[bytes]:
        with suppress(LogNotFound):
            return list(self._store.raw(self.name, until=until))
        return []

    def _entries(self, raw: list[bytes]) -> Iterator[E]:
        for number, line in enumerate(raw, start=1):
            try:
                yield self._entry(unseal(line), number)
            except (Damaged, ValueError, KeyError, TypeError, AttributeError) as damage:
                reason = str(damage) if isinstance(damage, Damaged) else repr(damage)
                log.warning("damaged_line", ledger=self.name, line=number, reason=reason)

    def _entry(self, fields: dict[str, Any], number: int) -> E:
        if fields["type"] != self._codec.head["type"]:
            raise Damaged("it is a line of another ledger")
        return self._codec.entry(fields, number)

    def misplaced(self) -> Iterator[str]:
        """Yield the lines that are whole, and say nothing that belongs here. Raises
        LogUnavailable.
        """
        for number, line in enumerate(self._raw(), start=1):
            try:
                fields = unseal(line)
            except (Damaged, ValueError):
                continue  # named by a look through the file
            try:
                self._entry(fields, number)
            except (Damaged, ValueError, KeyError, TypeError, AttributeError):
                yield f"line {number} is none of the {self.name}"

    def append(self, entry: E, after: int) -> int:
        """Add a line behind so many bytes, durable when it returns. Return the bytes with it.
        Raises LogConflict if the ledger has another length, LogUnavailable.
        """
        with _guard:
            return self._write(entry, after)

    def _write(self, entry: E, after: int) -> int:
        line = seal(self._codec.fields(entry))
        # How many lines there are is not counted: its bytes say where it ends.
        self._store.append(self.name, Position(bytes=after), [line])
        return after + len(line)

    def add(self, entry: E) -> None:
        """Add a line that is true whatever the lines before it say. Raises LogUnavailable."""

        def write() -> None:
            with _guard:
                self._write(entry, self.size())

        tried_again(write)
