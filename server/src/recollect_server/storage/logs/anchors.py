"""The file of anchors, `<space>/anchors.jsonl`: those that callers set, and those kept of conversations that were deleted.

Its lines are those of a transcript, appended by the same writer and mended in the same way. What the writer of notes finds stands
in the transcript that it was found in, and not here. Unlike a transcript the file is written anew where something in it is to be
forgotten: a copy takes its name, so that the text is in no file of anchors any more.
"""

import os
import threading
from collections.abc import Callable

import structlog

from recollect_server.domain.conversation import AnchorForgotten, AnchorSet
from recollect_server.storage.failpoints import hit
from recollect_server.storage.logs.files import COPY, TORN, TranscriptFolder, make_folder, open_transcript, sync_folder
from recollect_server.storage.logs.ledger import ANCHORS
from recollect_server.storage.logs.reader import Line, scan
from recollect_server.storage.logs.record import Entry, encode
from recollect_server.storage.logs.repair import mend
from recollect_server.storage.logs.writer import TranscriptChanged, TranscriptWriter

log = structlog.get_logger("recollect.anchors")


class AnchorFile:
    """The file, read once and kept in memory: it has a line for each fact that a person set. Safe to call from any thread."""

    def __init__(self, folder: TranscriptFolder, writer: TranscriptWriter) -> None:
        """Reads it, with its tail mended. Raises OSError."""
        self.lock = threading.RLock()
        """Held while it is written to, and by who decides by what is in it."""
        self.version = 0
        """Grows with every change of an anchor, here or in a transcript (see `changed`)."""
        self._path = folder.ledger_path(ANCHORS)
        self._torn = self._path.with_name(self._path.name + TORN)
        self._writer = writer
        self._lines: list[Line] = []
        self._requests: dict[str, Line] = {}
        self._read()

    @property
    def entries(self) -> list[Entry]:
        """What its lines say, in order."""
        with self.lock:
            return [line.entry for line in self._lines if line.entry]

    def request(self, request_id: str) -> Entry | None:
        """The line that a request wrote."""
        line = self._requests.get(request_id)
        return line.entry if line else None

    def forgotten(self) -> dict[str, int]:
        """Up to when what was found for a key does not count, by key."""
        return {it.key: it.time for entry in self.entries if isinstance(it := entry.content, AnchorForgotten)}

    def changed(self) -> None:
        """An anchor changed: in this file, in a transcript, or in what the index has of them."""
        self.version += 1

    def append(self, entry: Entry) -> None:
        """Adds a line, durable when it returns. Raises OSError; then nothing is added."""
        data = encode(entry)
        with self.lock:
            size, sequence = (self._lines[-1].end, self._lines[-1].sequence) if self._lines else (0, 0)
            try:
                if self._path.exists():
                    self._writer.append(self._path, data, size)
                else:
                    make_folder(self._path.parent)
                    self._writer.create(self._path, data)
            except TranscriptChanged:
                self._read()  # something else wrote to it: the next call knows what
                raise
            self._take(Line(sequence + 1, size, len(data), entry))
            self.changed()

    def rewrite(self, change: Callable[[AnchorSet], AnchorSet | None], added: list[Entry] | None = None) -> int:
        """Writes it anew with every anchor changed, or left out (None), and lines added. Returns how many were left out.

        Damaged lines are left out too: they may have what is to be forgotten. Raises OSError; then it is as it was.
        """
        with self.lock:
            kept: list[Entry] = []
            gone = 0
            for entry in self.entries:
                content = entry.content
                if isinstance(content, AnchorSet):
                    after = change(content)
                    gone += after is None
                    kept += [Entry(after, entry.stamp)] if after else []
                elif not any(isinstance(new.content, AnchorForgotten) and _key(content) == new.content.key for new in added or ()):
                    kept.append(entry)
            self._replace(b"".join(map(encode, kept + (added or []))))
            return gone

    def drop_source(self, conversation_id: str) -> int:
        """A conversation goes: so do the anchors that came from it. Returns how many. Raises OSError."""
        with self.lock:
            if not any(isinstance(e.content, AnchorSet) and e.content.conversation_id == conversation_id for e in self.entries):
                return 0
            return self.rewrite(lambda anchor: None if anchor.conversation_id == conversation_id else anchor)

    def _read(self) -> None:
        self._lines, self._requests = [], {}
        self._path.with_name(self._path.name + COPY).unlink(missing_ok=True)
        if self._path.exists():
            if torn := mend(self._path, self._torn):
                log.warning("torn_tail_cut", file=self._path.name, bytes=torn.bytes_cut, reason=torn.reason)
            for line in scan(self._path):
                if line.entry is None:
                    log.warning("damaged_line", file=self._path.name, line=line.sequence, reason=line.damage)
                self._take(line)
        self.changed()

    def _take(self, line: Line) -> None:
        self._lines.append(line)
        if line.entry and line.entry.stamp.request_id:
            self._requests[line.entry.stamp.request_id] = line

    def _replace(self, data: bytes) -> None:
        copy = self._path.with_name(self._path.name + COPY)
        make_folder(self._path.parent)
        copy.unlink(missing_ok=True)
        handle = open_transcript(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        hit("anchors.copied")
        copy.rename(self._path)
        try:
            hit("anchors.replaced")
            self._torn.unlink(missing_ok=True)
            sync_folder(self._path.parent)
        finally:
            self._writer.forget(self._path)
            self._read()


def forgotten_keys(folder: TranscriptFolder) -> dict[str, int]:
    """As `AnchorFile.forgotten`, of a file that nobody has open. Raises OSError."""
    path = folder.ledger_path(ANCHORS)
    if not path.exists():
        return {}
    contents = [line.entry.content for line in scan(path) if line.entry]
    return {it.key: it.time for it in contents if isinstance(it, AnchorForgotten)}


def _key(content: object) -> str:
    return content.key if isinstance(content, AnchorForgotten) else ""
