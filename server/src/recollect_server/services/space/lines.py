"""What is about to be written, as lines."""

from collections.abc import Sequence
from dataclasses import replace

from recollect_server.domain.conversation import Content, Conversation, fold
from recollect_server.domain.message import Message
from recollect_server.services.space.state import RequestKey
from recollect_server.storage.logs.reader import Line
from recollect_server.storage.logs.record import Entry, Stamp, encode


def folded_over(conversation: Conversation | None, lines: list[Line]) -> Conversation:
    """What is known of a conversation after lines that are all whole."""
    for line in lines:
        assert line.entry is not None
        conversation = fold(conversation, line.entry.content)
    assert conversation is not None
    return conversation


def encoded(
    contents: Sequence[Content], request: RequestKey | None, draft_id: str, *, offset: int, sequence: int
) -> tuple[list[Line], bytes]:
    """What is to be written at this place, as lines and as bytes. Messages bring their sequence, which must be the line's."""
    lines: list[Line] = []
    parts: list[bytes] = []
    stamp = Stamp(request.id, request.hash, draft_id=draft_id) if request else Stamp(draft_id=draft_id)
    count = len(contents)
    for index, content in enumerate(contents, start=1):
        assert not isinstance(content, Message) or content.sequence == sequence
        entry = Entry(content, stamp if count == 1 else replace(stamp, batch=(index, count)))
        data = encode(entry)
        lines.append(Line(sequence, offset, len(data), entry))
        parts.append(data)
        offset += len(data)
        sequence += 1
    return lines, b"".join(parts)
