"""The columns of a conversation, declared once.

The document of an append, the trigger that takes it in and the rows that are read derive from
`COLUMNS`. Its order is part of the format: the trigger in an index file reads the values by their
position.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from recollect_server.domain.conversation import Conversation, NoteRecord, Party
from recollect_server.domain.message import Usage


def _strings(text: str) -> tuple[str, ...]:
    return tuple(orjson.loads(text))


def _calls(text: str | None) -> tuple[tuple[int, str], ...]:
    return tuple((turn, name) for turn, name in orjson.loads(text)) if text else ()


class Column(NamedTuple):
    """A column of the table `conversations`, and the attribute that it holds. JSON arrays are kept
    as their text.
    """

    name: str
    attribute: str
    is_fixed: bool = False
    """True if the first line of the transcript sets it, and no later one changes it."""
    load: Callable[[Any], object] | None = None
    """Makes the attribute of the column's value."""


COLUMNS = (
    Column("id", "id", is_fixed=True),
    Column("channel", "channel", is_fixed=True),
    Column("create_time", "create_time", is_fixed=True),
    Column("update_time", "update_time"),
    Column("title", "title"),
    Column("opening", "opening"),
    Column("topics", "topics", load=_strings),
    Column("participants", "participants", load=_strings),
    Column("turn_count", "turn_count"),
    Column("message_count", "message_count"),
    Column("manually_named", "manually_named", load=bool),
    Column("pinned", "pinned", load=bool),
    Column("model", "model"),
    Column("contact", "party.contact", is_fixed=True),
    Column("group_id", "party.group_id", is_fixed=True),
    Column("thread_id", "party.thread_id", is_fixed=True),
    Column("subject", "party.subject", is_fixed=True),
    Column("usage_input", "usage_total.input"),
    Column("usage_output", "usage_total.output"),
    Column("cost_total", "cost_total"),
    Column("text_bytes", "text_bytes"),
    Column("compressed_through", "compressed_through"),
    Column("abbreviated_through", "abbreviated_through"),
    Column("open_calls", "open_calls", load=_calls),
)

# Attributes in tables of their own, so that an append does not write them again, each with its
# expression in `SELECT`.
_BESIDE = {
    "abbreviation": "coalesce(n.abbreviation, '')",
    "compression_summary": "coalesce(n.compression_summary, '')",
    "party.contact_name": "coalesce(k.name, '')",
    "abbreviation_record.writer": "coalesce(r.abbreviation_writer, '')",
    "abbreviation_record.model": "coalesce(r.abbreviation_model, '')",
    "abbreviation_record.time": "coalesce(r.abbreviation_time, 0)",
    "title_record.writer": "coalesce(r.title_writer, '')",
    "title_record.model": "coalesce(r.title_model, '')",
    "title_record.time": "coalesce(r.title_time, 0)",
}
_NESTED = {
    "party": Party,
    "usage_total": Usage,
    "abbreviation_record": NoteRecord,
    "title_record": NoteRecord,
}
_ATTRIBUTES = (*(column.attribute for column in COLUMNS), *_BESIDE)

SELECT = (
    f"SELECT c.number, {', '.join((*(f'c.{column.name}' for column in COLUMNS), *_BESIDE.values()))}"
    " FROM conversations c LEFT JOIN notes n ON n.number = c.number LEFT JOIN contact_names k ON k.number = c.number"
    " LEFT JOIN note_records r ON r.number = c.number "
)
"""Rows of conversations: the number, then what `conversation_of` reads."""

values_of: Callable[[Conversation], tuple[object, ...]] = attrgetter(
    *(column.attribute for column in COLUMNS)
)
"""The values of a conversation's columns. JSON turns arrays into text and truth values into
numbers.
"""


def _reader() -> Callable[[Any], Conversation]:
    """Compile `conversation_of` from the declarations, as `dataclasses` does: a loop over the
    columns took twice as long.
    """
    names: dict[str, Any] = {
        "Conversation": Conversation,
        **{f"{part}_type": kind for part, kind in _NESTED.items()},
    }
    arguments: dict[str, list[str]] = {"": [], **{part: [] for part in _NESTED}}
    loads = [column.load for column in COLUMNS] + [None] * len(_BESIDE)
    for at, (attribute, load) in enumerate(zip(_ATTRIBUTES, loads, strict=True), start=1):
        part, _, name = attribute.rpartition(".")
        names[f"load_{at}"] = load
        arguments[part].append(f"{name}=load_{at}(row[{at}])" if load else f"{name}=row[{at}]")
    nested = [f"{part}={part}_type({', '.join(arguments[part])})" for part in _NESTED]
    reader: Callable[[Any], Conversation] = eval(  # noqa: S307 - only names from above
        f"lambda row: Conversation({', '.join(arguments[''] + nested)})", names
    )
    return reader


conversation_of = _reader()
"""Returns the conversation of a row of `SELECT`."""


def take_in_trigger() -> str:
    """Return the trigger by which the document of an append comes in."""
    names = ("number", *(column.name for column in COLUMNS))
    changing = (column.name for column in COLUMNS if not column.is_fixed)
    return f"""
    CREATE TRIGGER take_in INSTEAD OF INSERT ON incoming BEGIN
        SELECT RAISE(ABORT, 'the lines before these are not indexed')
            WHERE coalesce((SELECT bytes FROM progress WHERE number = NEW.document ->> '$.conversation[0]'), 0)
                <> NEW.document ->> '$.progress[0]';
        INSERT INTO conversations({", ".join(names)})
            SELECT {", ".join(f"NEW.document ->> '$.conversation[{i}]'" for i in range(len(names)))} WHERE true
            ON CONFLICT(number) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in changing)};
        INSERT OR REPLACE INTO notes
            SELECT NEW.document ->> '$.conversation[0]', NEW.document ->> '$.notes[0]', NEW.document ->> '$.notes[1]'
            WHERE NEW.document -> '$.notes' IS NOT NULL;
        INSERT INTO messages
            SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5
            FROM json_each(NEW.document, '$.messages');
        INSERT INTO turns_fts(rowid, text) SELECT value ->> 0, value ->> 6 FROM json_each(NEW.document, '$.messages');
        INSERT INTO updates
            SELECT (NEW.document ->> '$.cursor') + key + 1, NEW.document ->> '$.conversation[0]', value ->> 0, value ->> 1,
                value ->> 2, value ->> 3, ''
            FROM json_each(NEW.document, '$.updates');
        INSERT OR IGNORE INTO requests
            SELECT value ->> 0, value ->> 1, NEW.document ->> '$.conversation[1]', value ->> 2, value ->> 3,
                iif(value ->> 4 = 0, 0, (NEW.document ->> '$.cursor') + (value ->> 4)), ''
            FROM json_each(NEW.document, '$.requests');
        INSERT OR REPLACE INTO progress
            SELECT NEW.document ->> '$.conversation[0]', NEW.document ->> '$.progress[1]', NEW.document ->> '$.progress[2]';
    END;
    """
