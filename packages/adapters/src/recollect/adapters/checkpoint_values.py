"""Values of a program under keys of a thread: large ones in pieces, many in a few requests."""

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from recollect import CheckpointRecord, Client
from recollect.adapters.clients import blocking

log = logging.getLogger("recollect.checkpoints")

PART = "part"
"""First part of the keys of pieces: `part/OWNER/DIGEST/NUMBER`."""

_MAX_RECORDS = 5000  # of a request
_WHOLE, _PIECES = b".", b"*"  # first byte of a value: all of it follows, or what its pieces are
_PIECE = 2 << 20
_MAX_BATCH = 6 << 20  # bytes of a request: one may have 8 MiB

Typed = tuple[str, bytes]
"""A serialised value and its type."""


class Values:
    """The values of all threads, read and written with a client. Safe to use from many threads."""

    def __init__(self, client: Client) -> None:
        self._checkpoints = blocking(client).checkpoints
        self._damaged: set[str] = set()

    def threads(self) -> Iterator[str]:
        """Yield the names of all threads."""
        for it in self._checkpoints.list_threads(page_size=500):
            yield it.thread_id

    def newest(self, thread_id: str, prefix: str) -> tuple[str, bytes] | None:
        """Return the last key below a prefix with its value; None if there is none."""
        page = self._checkpoints.list_records(thread_id, prefix=prefix, descending=True, limit=1)
        self._see(thread_id, page.damaged_lines)
        stored = self._whole(thread_id, {it.key: it.value for it in page.records})
        return next(iter(stored.items()), None)

    def keys(self, thread_id: str, prefix: str) -> list[str]:
        """Return the keys below a prefix, in their order."""
        keys: list[str] = []
        while True:
            page = self._checkpoints.list_records(
                thread_id, prefix=prefix, after_key=keys[-1] if keys else None, keys_only=True
            )
            self._see(thread_id, page.damaged_lines)
            keys += (it.key for it in page.records)
            if not page.has_more:
                return keys

    def below(self, thread_id: str, prefix: str) -> dict[str, bytes]:
        """Return the values below a prefix by key, in their order, of pieces put together."""
        stored = dict[str, bytes]()
        last: str | None = None
        while True:
            page = self._checkpoints.list_records(thread_id, prefix=prefix, after_key=last)
            self._see(thread_id, page.damaged_lines)
            stored |= {it.key: it.value for it in page.records}
            if not page.has_more:
                break
            last = page.records[-1].key
        return self._whole(thread_id, stored)

    def get(self, thread_id: str, keys: Collection[str]) -> dict[str, bytes]:
        """Return the values of those of the keys that are there, of pieces put together."""
        return self._whole(thread_id, self.get_raw(thread_id, keys))

    def _whole(self, thread_id: str, left: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return stored values put together of their pieces, as they are now."""
        values = dict[str, bytes]()
        while left:
            values |= self.assembled(thread_id, left)
            # A value may have been replaced before its pieces were read: then there is another one.
            missing = left.keys() - values.keys()
            again = self.get_raw(thread_id, missing)
            left = {key: again[key] for key in missing & again.keys() if again[key] != left[key]}
        return values

    def assembled(self, thread_id: str, values: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return stored values put together of their pieces."""
        pieces = {key: pieces_of(value) for key, value in values.items() if value[:1] == _PIECES}
        parts = self.get_raw(thread_id, [part for names in pieces.values() for part in names])
        return {
            key: b"".join(parts[part] for part in pieces[key]) if key in pieces else value[1:]
            for key, value in values.items()
            if parts.keys() >= set(pieces.get(key, ()))  # else a piece is damaged or gone
        }

    def get_raw(self, thread_id: str, keys: Collection[str]) -> dict[str, bytes]:
        """Return the values as they are stored, of those of the keys that are there."""
        left, values = [*keys], dict[str, bytes]()
        while left:
            answer = self._checkpoints.get_records(thread_id, left[:_MAX_RECORDS])
            self._see(thread_id, answer.damaged_lines)
            values |= {it.key: it.value for it in answer.records}
            left = left[answer.keys_answered :]
        return values

    def put(self, thread_id: str, records: Sequence[CheckpointRecord]) -> None:
        """Store records in their order, those of one request all or none."""
        batch: list[CheckpointRecord] = []
        room = _MAX_BATCH
        for record in records:
            size = len(record.value) + 4 * len(record.key) + 64
            if batch and (size > room or len(batch) == _MAX_RECORDS):
                self._checkpoints.put_records(thread_id, batch)
                batch, room = [], _MAX_BATCH
            batch.append(record)
            room -= size
        if batch:
            self._checkpoints.put_records(thread_id, batch)

    def get_json(self, thread_id: str, *parts: str) -> Any:
        """Return what `put_json` stored under a key of these parts; None if there is none."""
        key = key_of(*parts)
        stored = self.get(thread_id, [key])
        return json.loads(stored[key]) if key in stored else None

    def put_json(
        self, thread_id: str, value: Any, *parts: str, keep_existing: bool = False
    ) -> None:
        """Store a value as JSON under a key of these parts, unless one is there that is to be kept.

        Raises TypeError for what JSON cannot hold.
        """
        data = json.dumps(value).encode()
        self.put(thread_id, records_of(key_of(*parts), data, keep_existing=keep_existing))

    def remove(self, thread_id: str, keys: Sequence[str]) -> None:
        """Remove records for good."""
        for start in range(0, len(keys), _MAX_RECORDS):
            self._checkpoints.remove_records(thread_id, keys[start : start + _MAX_RECORDS])

    def delete(self, thread_id: str) -> None:
        """Delete a thread to its last byte."""
        self._checkpoints.delete_thread(thread_id)

    def _see(self, thread_id: str, damaged_lines: int) -> None:
        """Warn once of a damaged thread."""
        if damaged_lines and thread_id not in self._damaged:
            self._damaged.add(thread_id)
            log.warning(
                "%d lines of the log of thread %s are damaged: checkpoints, values or writes may be"
                " missing; `recollect-server verify` names them",
                damaged_lines,
                thread_id,
            )


def key_of(*parts: str) -> str:
    """Return parts as a key, with what would separate them escaped."""
    return "/".join(quote(part, safe=":|") for part in parts)


def parts_of(key: str) -> list[str]:
    """Return the parts of a key."""
    return [unquote(part) for part in key.split("/")]


def owner_of(key: str) -> str:
    """Return the owner in the keys of the pieces of a key's value."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def pieces_of(value: bytes) -> list[str]:
    """Return the keys of the pieces of a stored value; none if all of it is there."""
    names: list[str] = json.loads(value[1:]) if value[:1] == _PIECES else []
    return names


def records_of(key: str, value: bytes, *, keep_existing: bool = False) -> list[CheckpointRecord]:
    """Return a value as a record, behind its pieces if it is large."""
    if len(value) <= _PIECE:
        return [CheckpointRecord(key, _WHOLE + value, keep_existing)]
    digest = hashlib.sha256(value).hexdigest()[:32]
    pieces = [
        CheckpointRecord(
            key_of(PART, owner_of(key), digest, str(number)), value[start : start + _PIECE]
        )
        for number, start in enumerate(range(0, len(value), _PIECE))
    ]
    names = json.dumps([it.key for it in pieces]).encode()
    return [*pieces, CheckpointRecord(key, _PIECES + names, keep_existing)]


def packed(fields: dict[str, Any], *typed: Typed) -> bytes:
    """Return fields and serialised values as bytes: a line of JSON, and the values behind it."""
    head = {**fields, "values": [[kind, len(data)] for kind, data in typed]}
    return b"\n".join([json.dumps(head).encode(), b"".join(data for _, data in typed)])


def unpacked(value: bytes) -> tuple[dict[str, Any], list[Typed]]:
    """Return what `packed` was given."""
    line, _, rest = value.partition(b"\n")
    fields: dict[str, Any] = json.loads(line)
    typed: list[Typed] = []
    start = 0
    for kind, size in fields.pop("values"):
        typed.append((kind, rest[start : start + size]))
        start += size
    return fields, typed
