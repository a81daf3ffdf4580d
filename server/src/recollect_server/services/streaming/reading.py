"""Kinds of updates: a row of the log says in which lines of a transcript a change stands; the lines
say the rest.
"""

from collections.abc import Mapping
from dataclasses import replace

from recollect_server.domain.conversation import (
    Abbreviated,
    Began,
    Conversation,
    MessagesRedacted,
    MetaUpdated,
    Split,
    SplitSuggested,
    TitleAssigned,
    TurnMemory,
    fold,
)
from recollect_server.domain.message import Message, Redaction
from recollect_server.domain.update import (
    Created,
    Kind,
    NotesWritten,
    Renamed,
    TextRedacted,
    Updated,
)
from recollect_server.storage.index.columns import UpdateRow
from recollect_server.storage.index.updates import UpdateKind
from recollect_server.storage.logs.record import Entry


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
            return TextRedacted(conversation, sequences, Redaction(by, time))
        case SplitSuggested(reason=reason, titles=titles):
            return Split(reason, titles)
        case TurnMemory() as memory:
            return Updated(conversation, memory=memory)
        case _:  # a model, a pin, a summary; or a line that cannot be read any more
            return Updated(conversation)
