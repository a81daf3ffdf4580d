"""Additions to the index by an append, as the one JSON document that the view `incoming` takes
in.
"""

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

import orjson

from recollect_server.domain.activity import facts_of
from recollect_server.domain.conversation import (
    NO_RECORD,
    Abbreviated,
    AnchorSet,
    Began,
    Compressed,
    Continued,
    Conversation,
    ConversationUnindexed,
    MessagesRedacted,
    MetaUpdated,
    SplitSuggested,
    TitleAssigned,
    TurnMemory,
)
from recollect_server.domain.external import Communication
from recollect_server.domain.message import Message
from recollect_server.storage.index.columns import CONVERSATIONS
from recollect_server.storage.index.messages import row_of, searchable_text
from recollect_server.storage.index.words import Entry
from recollect_server.storage.logs.lines import Line

_TOLD = (
    MetaUpdated,
    Began,
    TitleAssigned,
    Compressed,
    Abbreviated,
    Continued,
    SplitSuggested,
    MessagesRedacted,
    ConversationUnindexed,
    TurnMemory,
)
"""Events that watchers get an update of."""

Update = list[int]  # not a tuple: the last line of a batch is set as it grows
"""A row of the update log: time, first line, last line."""


@dataclass(frozen=True, slots=True)
class Added:
    """Additions for watchers: the log's state after them, the lines, and the rows of the update
    log.
    """

    state: Conversation | Communication
    lines: list[Line]
    updates: list[Update]


def document_of(
    number: int,
    before: Conversation | None,
    after: Conversation,
    lines: list[Line],
    updates: list[Update],
    mail: Collection[int],
    words: list[Entry] | None,
    cursor: int,
) -> str:
    """Return the document for these lines of a conversation.

    `before` and `after` are the conversation without and with them; `mail` the Message-IDs that
    they name; `words` those of its notes, where they changed; `cursor` is the one before that of
    the first of the `updates`.
    """
    # A new index reads a whole transcript at once: one that ends up unindexed never gets words.
    is_wordless = before is None and after.unindexed
    document = {
        "conversation": (number, *CONVERSATIONS.values(after)),
        "messages": [
            (*row_of(number, line, message), "" if is_wordless else searchable_text(message))
            for line in lines
            if line.entry is not None and isinstance(message := line.entry.content, Message)
        ],
        "updates": updates,
        "cursor": cursor,
        "requests": _requests_of(lines, updates),
        "progress": (lines[0].offset, lines[-1].end, lines[-1].sequence),
    }
    if is_wordless:
        document["wordless"] = lines[-1].sequence
    contents = (line.entry.content for line in lines if line.entry is not None)
    if facts := facts_of(before, after, contents):
        document["activity"] = [(*key, *counters) for key, counters in facts.items()]
    notes = (after.abbreviation, after.compression_summary)
    if notes != (("", "") if before is None else (before.abbreviation, before.compression_summary)):
        document["notes"] = notes
    records = (after.abbreviation_record, after.title_record)
    if records != (
        (NO_RECORD, NO_RECORD)
        if before is None
        else (before.abbreviation_record, before.title_record)
    ):
        document["records"] = [value for it in records for value in (it.writer, it.model, it.time)]
    if words is not None:
        document["words"] = words
    if anchors := [
        (line.sequence, anchor.key, anchor.value, anchor.confidence, anchor.sequence, anchor.time)
        for line in lines
        if line.entry is not None and isinstance(anchor := line.entry.content, AnchorSet)
    ]:
        document["anchors"] = anchors
    if memories := [
        (memory.turn, memory.tier, memory.summary)
        for line in lines
        if line.entry is not None and isinstance(memory := line.entry.content, TurnMemory)
    ]:
        document["turnMemories"] = memories
    if (name := after.party.contact_name) and (before is None or before.party.contact_name != name):
        document["contactName"] = name
    if mail:
        document["mail"] = list(mail)
    for line in lines:
        if line.entry is not None and isinstance(line.entry.content, Continued):
            document["continued"] = line.entry.content.conversation_id
    return orjson.dumps(document).decode()


def have_notes_changed(before: Conversation | None, after: Conversation) -> bool:
    """Return True if the notes have other words than before."""
    texts = (after.title, after.topics, after.abbreviation, after.unindexed)
    if before is None:
        return texts[:3] != ("", (), "")
    return texts != (before.title, before.topics, before.abbreviation, before.unindexed)


def updates_of(lines: list[Line], time: int) -> list[Update]:
    """Return one update for every batch of messages and for every event, in their order.

    A line between two messages parts them, whatever it says, so that they are in the same updates
    after it was redacted.
    """
    updates: list[Update] = []
    are_messages = False  # the last update is of messages
    for line in lines:
        if line.entry is None:
            continue
        match line.entry.content:
            case Message():
                if (
                    line.entry.stamp.batch[0] > 1
                    and are_messages
                    and updates[-1][2] == line.sequence - 1
                ):
                    updates[-1][2] = line.sequence
                else:
                    updates.append([time, line.sequence, line.sequence])
                are_messages = True
            case content if isinstance(content, _TOLD):
                updates.append([time, line.sequence, line.sequence])
                are_messages = False
            case _:
                pass
    return updates


def _requests_of(lines: list[Line], updates: list[Update]) -> list[list[object]]:
    """Return the requests that wrote these lines: id, hash, first and last line, and which of the
    updates is its last (from 1).
    """
    requests: dict[str, list[object]] = {}
    for line in lines:
        if line.entry is not None and (request_id := line.entry.stamp.request_id):
            first = requests.setdefault(
                request_id,
                [request_id, line.entry.stamp.request_hash, line.sequence, line.sequence],
            )
            first[3] = line.sequence
    for request in requests.values():
        # Both are in the order of the lines: a request's last update is the last that began with it
        # or before.
        request.append(bisect_right(updates, cast(int, request[3]), key=itemgetter(1)))
    return list(requests.values())
