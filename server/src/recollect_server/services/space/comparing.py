"""Compare the index with the transcripts: what `verify` reports, and what a server checks before it trusts an index again.

An index that a server did not close may have lost what no checksum of SQLite's covers. Two comparisons find that. The first looks
for the requests of every transcript: it is fast (more than 200 MB/s), runs before anybody calls, and keeps appends exactly-once.
The second compares one conversation in full.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import orjson

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import AnchorSet, Continued, Conversation
from recollect_server.domain.message import Message
from recollect_server.domain.routing import mail_ids_of
from recollect_server.services.space.catching_up import folded
from recollect_server.storage.index.checking import Contents
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.index import Index
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.store import LogStore

# Within a JSON string every quote is escaped, so this cannot match the text of a message.
_REQUEST = re.compile(rb'"requestId":"((?:[^"\\]|\\.)*)","requestHash":"([^"\\]*)"')


@dataclass(slots=True)
class Read:
    """A transcript that was read to its end."""

    conversation: Conversation | None = None
    size: int = 0
    lines: int = 0
    messages: list[tuple[Message, int, int]] = field(default_factory=list)
    """With offset and length."""
    requests: dict[str, str] = field(default_factory=dict)
    anchors: list[tuple[int, AnchorSet]] = field(default_factory=list)
    """With the event's line."""
    mail: set[int] = field(default_factory=set)
    continued: str = ""

    def add(self, line: Line, conversation_id: str) -> None:
        """Add the next line."""
        self.lines, self.size = line.sequence, line.end
        self.conversation = folded(self.conversation, line, conversation_id)
        if line.entry is None:
            return
        stamp, content = line.entry.stamp, line.entry.content
        if stamp.request_id:
            self.requests.setdefault(stamp.request_id, stamp.request_hash)
        if self.conversation and self.conversation.channel == EMAIL:
            self.mail |= mail_ids_of([content])
        match content:
            case Message():
                self.messages.append((content, line.offset, line.length))
            case AnchorSet():
                self.anchors.append((line.sequence, content))
            case Continued():
                self.continued = content.conversation_id
            case _:
                pass


def read_whole(logs: LogStore, conversation_id: str) -> Read:
    """Read a transcript to its end. Raises LogUnavailable."""
    read = Read()
    for line in logs.read(conversation_id):
        read.add(line, conversation_id)
    return read


def differences(logs: LogStore, contents: Contents, stored: Stored, read: Read, *, words: bool = True) -> Iterator[str]:
    """Yield what the index has otherwise than the transcript; `words` compares the words of every message too.

    Raises IndexUnavailable, LogUnavailable.
    """
    if (stored.bytes, stored.lines) != (read.size, read.lines):
        yield f"{stored.bytes} bytes and {stored.lines} lines are indexed of {read.size} bytes and {read.lines} lines"
    for part in fields(Conversation):
        if part.name == "open_calls" and stored.calls_unknown:
            continue  # an earlier version indexed it; they are read when it is next used
        if read.conversation and getattr(stored.conversation, part.name) != getattr(read.conversation, part.name):
            yield f"the index has another {part.name} than the transcript"
    rows = contents.rows(stored.number)
    for message, offset, length in read.messages:
        expected = contents.row_of(stored.number, message, offset, length)
        row = rows.pop(expected[0], None)
        if row != expected:
            yield f"line {message.sequence} {'is not in the index' if row is None else 'stands in the index otherwise'}"
        if words and contents.take_words(expected[0]) != contents.words_of(message):
            yield f"line {message.sequence}: the index has other words"
    if rows:
        yield f"the index has {len(rows)} messages that the transcript has not"
    if lost := _lost(logs, contents, stored.conversation.id, read.requests):
        yield f"the index does not know {len(lost)} of its requests, as {lost[0]}"
    if contents.mail(stored.number) != read.mail or contents.continued(stored.number) != read.continued:
        yield "the index leads other messages to it than the transcript"


def lost_requests(logs: LogStore, index: Index, conversation_id: str) -> list[str]:
    """Return the requests of a transcript that the index does not know. Raises IndexUnavailable, LogUnavailable."""
    contents = Contents(index)
    if not _lost(logs, contents, conversation_id, _stamps(logs, conversation_id)):
        return []
    return _lost(logs, contents, conversation_id, read_whole(logs, conversation_id).requests)  # without damaged lines


def _lost(logs: LogStore, contents: Contents, conversation_id: str, requests: dict[str, str]) -> list[str]:
    """Return those of a transcript's requests (hash by id) that the index does not know.

    Transcripts of two folders that were put into one may share ids. The index then knows each as one conversation's, which must
    be one whose transcript has it.
    """
    known = contents.requests(conversation_id)
    differing = [request_id for request_id, value in requests.items() if known.get(request_id) != value]
    return [request_id for request_id in differing if not _is_elsewhere(logs, contents, request_id)]


def _is_elsewhere(logs: LogStore, contents: Contents, request_id: str) -> bool:
    """Return whether the conversation that the index names for a request wrote it indeed."""
    request = contents.request(request_id)
    return request is not None and logs.has(request[0]) and _stamps(logs, request[0]).get(request_id) == request[1]


def _stamps(logs: LogStore, conversation_id: str) -> dict[str, str]:
    """Return the requests that a transcript's lines name, hash by id, without looking at checksums. Raises LogUnavailable."""
    requests: dict[str, str] = {}
    for name, value in _REQUEST.findall(logs.raw(conversation_id)):
        requests.setdefault(orjson.loads(b'"%b"' % name) if b"\\" in name else name.decode(errors="replace"), value.decode())
    return requests
