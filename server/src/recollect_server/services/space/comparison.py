"""Comparison of logs with what the index has of them, line by line."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Generic, TypeVar

import orjson

from recollect_server.services.space.logs import Indexed, Logs, Reading
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.store import LogUnavailable, Position, has_conversation

State = TypeVar("State")

# Within a JSON string every quote is escaped, so this cannot match the text of a message.
_REQUEST = re.compile(rb'"requestId":"((?:[^"\\]|\\.)*)","requestHash":"([^"\\]*)"')


class Comparison(Generic[State]):
    """A comparison of the logs of a kind with the contents of an index.

    Every method raises DataUnavailable.
    """

    def __init__(self, logs: Logs[State], contents: Contents) -> None:
        self._logs = logs
        self._contents = contents

    def read(self, name: str, stored: Indexed[State], *, words: bool = True) -> Reading[State]:
        """Read a log to its end, to be compared with what the index has of it; `words` as in
        `differences`.
        """
        of = (self._contents, stored.number) if words else (None, None)
        reading = self._logs.reading(*of)
        # Another process may have written behind it since.
        until = None if self._logs.store.sharing is None else stored.bytes
        for line in self._logs.store.read(name, until=until):
            see(self._logs, reading, line, name)
        return reading

    def differences(
        self, name: str, stored: Indexed[State], reading: Reading[State], *, words: bool = True
    ) -> Iterator[str]:
        """Yield what the index has otherwise than the log; `words` compares the words of every
        message too.
        """
        if (stored.lines, stored.bytes) != reading.end:
            lines, size = reading.end
            yield f"{stored.bytes} bytes and {stored.lines} lines are indexed of {size} bytes and {lines} lines"
        if reading.state is not None:
            expected, indexed = reading.state, stored.state
            for part in fields(expected):  # type: ignore[arg-type]  # every state is a dataclass
                if getattr(indexed, part.name) != getattr(expected, part.name):
                    yield f"the index has another {part.name} than the transcript"
        yield from reading.differences(self._contents, stored.number, words=words)
        if lost := self._lost(name, reading.requests):
            yield f"the index does not know {len(lost)} of its requests, as {lost[0]}"

    def doubtful(self, names: Sequence[str]) -> set[str]:
        """Return those of these logs of which the index may lack a request, or which cannot be
        read: the others it lacks none of. They need not be locked.

        Fast, for it decodes no line: until the requests of every log are known, no request can be
        called new that names no conversation.
        """
        indexed = self._contents.requests(names)
        return {name for name in names if not self._has_all(name, indexed[name])}

    def _has_all(self, name: str, indexed: dict[str, str]) -> bool:
        try:
            return self._stamps(name).items() <= indexed.items()
        except LogUnavailable:
            return False

    def _lost(self, name: str, requests: dict[str, str]) -> list[str]:
        """Return those of a log's requests (hash by id) that the index does not know.

        Logs of two folders that were put into one may share ids. The index then knows each as one
        log's, which must be one that has it.
        """
        indexed = self._contents.requests([name])[name]
        return [
            request_id
            for request_id, value in requests.items()
            if indexed.get(request_id) != value and not self._is_elsewhere(request_id)
        ]

    def _is_elsewhere(self, request_id: str) -> bool:
        request = self._contents.request(request_id)
        return (
            request is not None
            and has_conversation(self._logs.store, request[0])
            and self._stamps(request[0]).get(request_id) == request[1]
        )

    def _stamps(self, name: str) -> dict[str, str]:
        """Return the requests that a log's lines name, hash by id, without looking at checksums:
        those of a damaged line may be other ones.
        """
        requests: dict[str, str] = {}
        for raw, value in _REQUEST.findall(b"\n".join(self._logs.store.raw(name))):
            request_id = raw.decode(errors="replace")
            if b"\\" in raw:
                with suppress(ValueError):  # an escape that bits flipped in
                    request_id = orjson.loads(b'"%b"' % raw)
            requests.setdefault(request_id, value.decode(errors="replace"))
        return requests


def see(logs: Logs[State], reading: Reading[State], line: Line, name: str) -> None:
    """Add the next line of a log to what is read of it."""
    reading.end = Position(line.sequence, line.end)
    reading.state = logs.folded(reading.state, line, name)
    if line.entry is None:
        return
    if line.entry.mark:
        reading.see_number(line.sequence, int(line.entry.mark.partition(".")[0]))
    if line.entry.stamp.request_id:
        reading.requests.setdefault(line.entry.stamp.request_id, line.entry.stamp.request_hash)
    reading.messages += isinstance(line.entry.content, logs.message)
    reading.add(line)
