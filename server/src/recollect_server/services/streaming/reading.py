"""Rows of the log into updates. The rows say in which lines of a transcript a change stands; the
lines say the rest.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from recollect_server.domain.conversation import (
    Abbreviated,
    Began,
    Conversation,
    MessagesRedacted,
    MetaUpdated,
    Split,
    SplitSuggested,
    TitleAssigned,
    fold,
)
from recollect_server.domain.message import Message, Redaction
from recollect_server.domain.update import (
    Created,
    Deleted,
    Kind,
    NotesWritten,
    Redacted,
    Renamed,
    Update,
    Updated,
)
from recollect_server.storage.index.columns import UpdateRow
from recollect_server.storage.index.incoming import Added
from recollect_server.storage.index.log import Changes
from recollect_server.storage.index.updates import UpdateKind
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.record import Entry
from recollect_server.storage.logs.store import LogNotFound, Position

Lines = Callable[[str, Position], Iterator[Line]]
"""Yields the lines of a conversation behind a position, as `Space.lines`."""


@dataclass(frozen=True, slots=True)
class Placed:
    """An update with its place in the log, and what filters ask for."""

    cursor: int
    channel: str
    update: Update


def placed_updates(epoch: str, cursor: int, notice: object) -> list[Placed]:
    """Return the updates of what the index has just taken in behind a cursor."""
    if isinstance(notice, UpdateRow):
        return [_deleted(epoch, notice)]
    assert isinstance(notice, Added)
    entries = {line.sequence: line.entry for line in notice.lines if line.entry is not None}
    numbered = enumerate(notice.updates, start=cursor + 1)
    rows = (
        UpdateRow(at, notice.number, kind, time, first, last, "")
        for at, (kind, time, first, last) in numbered
    )
    return [_placed(epoch, row, notice.conversation, entries) for row in rows]


def read(epoch: str, lines: Lines, changes: Changes) -> list[Placed]:
    """Return the updates of a part of the log. Those of a conversation that is being deleted are
    left out, because its deletion follows.

    Raises LogUnavailable.
    """
    entries = {number: _entries(lines, changes, number) for number in changes.conversations}
    updates: list[Placed] = []
    for row in changes.rows:
        if row.kind == UpdateKind.DELETED:
            updates.append(_deleted(epoch, row))
        elif (by_sequence := entries.get(row.number)) is not None:
            updates.append(_placed(epoch, row, changes.conversations[row.number], by_sequence))
    return updates


def _entries(lines: Lines, changes: Changes, number: int) -> dict[int, Entry] | None:
    """Return the readable lines that a conversation's rows name; None if its transcript is gone."""
    named = [row for row in changes.rows if row.number == number]
    last = max(row.last for row in named)
    sequence, offset, _ = changes.starts.get(number, (1, 0, 0))
    by_sequence: dict[int, Entry] = {}
    try:
        for line in lines(changes.conversations[number].id, Position(sequence - 1, offset)):
            if line.entry is not None:
                by_sequence[line.sequence] = line.entry
            if line.sequence >= last:
                break
    except LogNotFound:
        return None
    return by_sequence


def _deleted(epoch: str, row: UpdateRow) -> Placed:
    conversation_id, _, channel = row.detail.partition(" ")
    return Placed(
        row.cursor, channel, Update(f"{epoch}-{row.cursor}", conversation_id, row.time, Deleted())
    )


def _placed(
    epoch: str, row: UpdateRow, conversation: Conversation, entries: Mapping[int, Entry]
) -> Placed:
    update = Update(
        f"{epoch}-{row.cursor}", conversation.id, row.time, kind_of(row, conversation, entries)
    )
    return Placed(row.cursor, conversation.channel, update)


def kind_of(row: UpdateRow, conversation: Conversation, entries: Mapping[int, Entry]) -> Kind:
    """Return what a row of the log says, by the lines that it names and the conversation."""
    first = entries.get(row.first)
    if row.kind == UpdateKind.MESSAGES:
        lines = [
            entries[sequence] for sequence in range(row.first, row.last + 1) if sequence in entries
        ]
        messages = tuple(line.content for line in lines if isinstance(line.content, Message))
        return Updated(conversation, messages, lines[0].stamp.draft_id if lines else "")
    match first.content if first else None:
        case Began() as began:
            return Created(fold(None, replace(began, id=conversation.id)) or conversation)
        case TitleAssigned(title=title, topics=topics) if not conversation.manually_named:
            return Renamed(title, manually_named=False, topics=topics or conversation.topics)
        case TitleAssigned():  # it came too late: a person had named it
            return Renamed(conversation.title, manually_named=True, topics=conversation.topics)
        case MetaUpdated(title=str() as title, manually_named=manually_named):
            return Renamed(title, manually_named=bool(manually_named), topics=conversation.topics)
        case Abbreviated(text=text, topics=topics):
            return NotesWritten(text, conversation.topics if topics is None else topics)
        case MessagesRedacted(sequences=sequences, time=time, by=by):
            return Redacted(conversation, sequences, Redaction(by, time))
        case SplitSuggested(reason=reason, titles=titles):
            return Split(reason, titles)
        case _:  # a model, a pin, a summary; or a line that cannot be read any more
            return Updated(conversation)
