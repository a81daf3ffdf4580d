"""Contents that are about to be written, as entries of a log."""

from collections.abc import Sequence

from recollect_server.domain.conversation import Content, Conversation, fold
from recollect_server.services.space.state import RequestKey
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.record import Entry, Stamp


def folded_over(conversation: Conversation | None, lines: list[Line]) -> Conversation:
    """Return what is known of a conversation after lines that are all whole."""
    for line in lines:
        assert line.entry is not None
        conversation = fold(conversation, line.entry.content)
    assert conversation is not None
    return conversation


def entries_of(contents: Sequence[Content], request: RequestKey | None, draft_id: str = "") -> list[Entry]:
    """Return contents as the entries of one batch of a request."""
    request_id, value = (request.id, request.hash) if request else ("", "")
    count = len(contents)
    return [Entry(it, Stamp(request_id, value, (at, count), draft_id)) for at, it in enumerate(contents, start=1)]
