"""The columns of the tables, each declared once with the attribute that it holds.

The rows that are written, the rows that are read, the trigger that takes in an append and the
comparison of the index with the transcripts derive from these declarations. Their order is part of
the format: the trigger in an index file reads the values by their position.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar, cast

import orjson

from recollect_server.kernel.domain.conversation import (
    Conversation,
    MessagePreview,
    NoteRecord,
    Party,
    Split,
)
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.message import Role, Usage

T = TypeVar("T")


class Column(NamedTuple):
    """A column of a table, and the attribute that it holds."""

    name: str
    attribute: str = ""
    """Path of the attribute, as `party.contact`; empty: the column's name."""
    is_fixed: bool = False
    """True if the first line of the transcript sets it, and no later one changes it."""
    load: Callable[[Any], object] | None = None
    """Make the attribute of the column's value."""
    dump: Callable[[Any], object] | None = None
    """Make the column's value of the attribute, where SQLite cannot take that."""
    is_derived: bool = False
    """True if it follows from other columns: statements choose by it, and no attribute is read."""
    expression: str = ""
    """Expression in a `SELECT`, of a column in another table; empty: the column itself."""

    @property
    def path(self) -> str:
        """Return the path of the attribute."""
        return self.attribute or self.name


class Columns(Generic[T]):
    """The columns of a table, in its order, and the objects that its rows hold."""

    def __init__(
        self, table: str, kind: type[T], *columns: Column, parts: Mapping[str, type] | None = None
    ) -> None:
        """`parts` are the types of attributes that are objects themselves, by name.

        Columns with an expression stand behind the others, and are only read.
        """
        self.table = table
        self.kind = kind
        self._parts = parts or {}
        self.columns = columns
        self._own = tuple(column for column in columns if not column.expression)
        self.names = tuple(column.name for column in self._own)
        self.changing = tuple(column.name for column in self._own if not column.is_fixed)
        self.list = ", ".join(self.names)
        self.marks = ", ".join("?" * len(self.names))
        self.insert = f"INTO {table}({self.list}) VALUES({self.marks})"
        """The statement that adds a row, behind its verb."""
        self.values: Callable[[T], tuple[Any, ...]] = self._writer()
        """Return the values of an object's own columns."""

    def select(self, alias: str = "") -> str:
        """Return the expressions of all columns, for a `SELECT`; `alias` is that of the table."""
        prefix = f"{alias}." if alias else ""
        return ", ".join(column.expression or prefix + column.name for column in self.columns)

    def _writer(self) -> Callable[[T], tuple[Any, ...]]:
        if len(self._own) > 1 and not any(column.dump for column in self._own):
            return cast(
                Callable[[T], tuple[Any, ...]], attrgetter(*(column.path for column in self._own))
            )
        names: dict[str, Any] = {f"dump_{at}": it.dump for at, it in enumerate(self._own)}
        values = [
            f"dump_{at}(it.{column.path})" if column.dump else f"it.{column.path}"
            for at, column in enumerate(self._own)
        ]
        return _compiled(f"lambda it: ({', '.join(values)},)", names)

    def reader(self, start: int = 0) -> Callable[[Any], T]:
        """Return the function that makes an object of a row of `select`, which begins at `start`.

        It is compiled, as `dataclasses` does: a loop over the columns took twice as long.
        """
        names: dict[str, Any] = {"kind": self.kind} | {
            f"{part}_type": kind for part, kind in self._parts.items()
        }
        arguments: dict[str, list[str]] = {"": [], **{part: [] for part in self._parts}}
        for at, column in enumerate(self.columns, start=start):
            if column.is_derived:
                continue
            part, _, name = column.path.rpartition(".")
            names[f"load_{at}"] = column.load
            arguments[part].append(
                f"{name}=load_{at}(row[{at}])" if column.load else f"{name}=row[{at}]"
            )
        parts = [f"{part}={part}_type({', '.join(arguments[part])})" for part in self._parts]
        return _compiled(f"lambda row: kind({', '.join(arguments[''] + parts)})", names)


def _compiled(source: str, names: dict[str, Any]) -> Callable[[Any], Any]:
    function: Callable[[Any], Any] = eval(source, names)  # noqa: S307 - only names from declarations
    return function


def dump_json(value: Any) -> str:
    """Return a value as the text of JSON."""
    return orjson.dumps(value).decode()


def load_texts(text: str) -> tuple[str, ...]:
    """Return the tuple of texts that a JSON array holds."""
    return tuple(orjson.loads(text))


def _load_calls(text: str | None) -> tuple[tuple[int, str], ...]:
    return tuple((turn, name) for turn, name in orjson.loads(text)) if text else ()


def _load_origins(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, turn) for name, turn in orjson.loads(text))


def _load_object(text: str | None) -> dict[str, Any] | None:
    return cast(dict[str, Any], orjson.loads(text)) if text else None


CONVERSATIONS = Columns(
    "conversations",
    Conversation,
    Column("id", is_fixed=True),
    Column("channel", is_fixed=True),
    Column("create_time", is_fixed=True),
    Column("update_time"),
    Column("title"),
    Column("name", is_derived=True),
    Column("request"),
    Column("request_rank"),
    Column("topics", load=load_texts),
    Column("participants", load=load_texts),
    Column("turn_count"),
    Column("message_count"),
    Column("manually_named", load=bool),
    Column("pinned", load=bool),
    Column("model"),
    Column("contact", "party.contact", is_fixed=True),
    Column("group_id", "party.group_id", is_fixed=True),
    Column("thread_id", "party.thread_id", is_fixed=True),
    Column("subject", "party.subject", is_fixed=True),
    Column("group_name", "party.group_name"),
    Column("usage_input", "usage_total.input"),
    Column("usage_output", "usage_total.output"),
    Column("cost_total"),
    Column("text_bytes"),
    Column("compressed_through"),
    Column("abbreviated_through"),
    Column("open_calls", load=_load_calls),
    Column("topics_by_hand", load=bool),
    Column("archived", load=bool),
    Column("metadata", load=_load_object),
    Column("origin_id", is_fixed=True),
    Column("origin_turn", is_fixed=True),
    Column("earlier_origins", is_fixed=True, load=_load_origins),
    Column("unindexed", load=bool),
    Column("split_reason", "split.reason"),
    Column("split_titles", "split.titles", load=load_texts),
    Column("latest_role", "latest_message.role", load=Role),
    Column("latest_sender", "latest_message.sender"),
    Column("latest_text", "latest_message.text"),
    # In tables of their own, so that an append does not write them again.
    Column("abbreviation", expression="coalesce(n.abbreviation, '')"),
    Column("compression_summary", expression="coalesce(n.compression_summary, '')"),
    Column("contact_name", "party.contact_name", expression="coalesce(k.name, '')"),
    *(
        Column(
            f"{note}_{name}",
            f"{note}_record.{name}",
            expression=f"coalesce(r.{note}_{name}, {default})",
        )
        for note in ("abbreviation", "title")
        for name, default in (("writer", "''"), ("model", "''"), ("time", "0"))
    ),
    parts={
        "party": Party,
        "usage_total": Usage,
        "split": Split,
        "latest_message": MessagePreview,
        "abbreviation_record": NoteRecord,
        "title_record": NoteRecord,
    },
)
"""A conversation. JSON, in which an append brings them, turns arrays into text and truth values
into numbers.
"""


class MessageRow(NamedTuple):
    """A message of a conversation in the index."""

    id: int
    """Id by `kernel.domain.ids`: the conversation's number and the line."""
    turn_number: int
    time: int
    offset: int
    length: int
    """Place of its line in the transcript, in bytes."""
    tokens: int


MESSAGES = Columns("messages", MessageRow, *map(Column, MessageRow._fields))


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A request that was carried out: the lines it wrote (0 to 0: none) and, where no line tells
    it, its answer.
    """

    request_id: str
    hash: str
    conversation_id: str
    first_sequence: int = 0
    last_sequence: int = 0
    cursor: int = 0
    answer: str = ""


REQUESTS = Columns(
    "requests",
    KnownRequest,
    Column("request_id"),
    Column("hash"),
    Column("conversation_id"),
    Column("first_sequence"),
    Column("last_sequence"),
    Column("cursor"),
    Column("answer"),
)


@dataclass(frozen=True, slots=True)
class UpdateRow:
    """A change: of which log, when, and in which of its lines (0 to 0: none)."""

    cursor: int
    number: int
    """The number of the log among those of its kind."""
    kind: str
    """The kind of log (see `kernel.domain.ids.Kind`)."""
    time: int
    first: int
    last: int
    detail: str = ""
    """Of a deleted log: its id and its channel, which stand nowhere else any more."""


UPDATES = Columns(
    "updates",
    UpdateRow,
    Column("cursor"),
    Column("number"),
    Column("kind"),
    Column("time"),
    Column("first_sequence", "first"),
    Column("last_sequence", "last"),
    Column("detail"),
)


def take_in_trigger() -> str:
    """Return the trigger by which the document of an append comes in (see `index.document_of`)."""
    names = ("number", *CONVERSATIONS.names)
    number = "NEW.document ->> '$.conversation[0]'"
    cursor = "(NEW.document ->> '$.cursor')"
    updates = {
        "cursor": f"{cursor} + key + 1",
        "number": number,
        "kind": f"'{Kind.CONVERSATION}'",
        "time": "value ->> 0",
        "first_sequence": "value ->> 1",
        "last_sequence": "value ->> 2",
        "detail": "''",
    }
    requests = {
        "request_id": "value ->> 0",
        "hash": "value ->> 1",
        "conversation_id": "NEW.document ->> '$.conversation[1]'",
        "first_sequence": "value ->> 2",
        "last_sequence": "value ->> 3",
        "cursor": f"iif(value ->> 4 = 0, 0, {cursor} + (value ->> 4))",
        "answer": "''",
    }
    return f"""
    CREATE TRIGGER take_in INSTEAD OF INSERT ON incoming BEGIN
        SELECT RAISE(ABORT, 'the lines before these are not indexed')
            WHERE coalesce((SELECT bytes FROM progress WHERE number = {number}), 0) <> NEW.document ->> '$.progress[0]';
        INSERT INTO conversations({", ".join(names)})
            SELECT {", ".join(f"NEW.document ->> '$.conversation[{i}]'" for i in range(len(names)))} WHERE true
            ON CONFLICT(number) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in CONVERSATIONS.changing)};
        INSERT OR REPLACE INTO notes
            SELECT {number}, NEW.document ->> '$.notes[0]', NEW.document ->> '$.notes[1]'
            WHERE NEW.document -> '$.notes' IS NOT NULL;
        INSERT INTO messages({MESSAGES.list})
            SELECT {", ".join(f"value ->> {at}" for at in range(len(MESSAGES.names)))} FROM json_each(NEW.document, '$.messages');
        INSERT INTO turns_fts(rowid, text)
            SELECT value ->> 0, value ->> {len(MESSAGES.names)} FROM json_each(NEW.document, '$.messages');
        INSERT INTO updates({UPDATES.list})
            SELECT {", ".join(updates[name] for name in UPDATES.names)} FROM json_each(NEW.document, '$.updates');
        -- The request of a conversation that another process deleted is free before it is out.
        DELETE FROM requests WHERE EXISTS (SELECT 1 FROM deletions)
            AND request_id IN (SELECT value ->> 0 FROM json_each(NEW.document, '$.requests'))
            AND conversation_id IN (SELECT id FROM deletions);
        INSERT OR IGNORE INTO requests({REQUESTS.list})
            SELECT {", ".join(requests[name] for name in REQUESTS.names)} FROM json_each(NEW.document, '$.requests');
        INSERT OR REPLACE INTO progress SELECT {number}, NEW.document ->> '$.progress[1]', NEW.document ->> '$.progress[2]';
    END;
    """
