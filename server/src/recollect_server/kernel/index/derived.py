"""Registration of features with the index: the tables that they have in it.

An index has tables of its own: of conversations with their notes, messages, requests and changes. A
feature brings tables that are `Derived` from the lines of conversations, written in the transaction
of the lines, and the `KindTable` of another kind of log. An index without any takes in and answers
the same lines.

What is known of a log of any kind without its messages is asked for in `LogTable`, once.
Conditions of queries are pairs of a condition and the value that it is about (`conditions`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import apsw

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.index.columns import dump_json
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.requests import SeenNames
from recollect_server.kernel.log.lines import Line, Place
from recollect_server.kernel.log.store import LogStore


class LogState(Protocol):
    """State of a log of any kind."""

    @property
    def id(self) -> str: ...


StateOut = TypeVar("StateOut", covariant=True)
State = TypeVar("State", bound=LogState)
Chosen = TypeVar("Chosen")

Condition = tuple[str, object]
"""A condition of a query, and its value, or the tuple of its values: None or an empty one where
nothing is asked. A condition without a question mark takes none.
"""


class Size(NamedTuple):
    """A log, and the bytes of its transcript."""

    id: str
    channel: str
    update_time: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Stored(Generic[StateOut]):
    """A log in the index: its number here, its state, and how far its transcript is indexed."""

    number: int
    state: StateOut
    bytes: int
    lines: int


def conditions(filters: Iterable[Condition]) -> tuple[str, list[Any]]:
    """Return the condition that all of these are, and its values: `1` if nothing is asked."""
    parts: list[str] = []
    values: list[Any] = []
    for condition, value in filters:
        if value is None or value in ("", ()):
            continue
        parts.append(condition)
        if "?" in condition:
            values += value if isinstance(value, tuple) else (value,)
    return " AND ".join(parts) or "1", values


def listed(values: Iterable[object]) -> str | None:
    """Return values as JSON, for `json_each(?)`; None if there are none."""
    every = list(values)
    return dump_json(every) if every else None


class LogTable(ABC, Generic[State, Chosen]):
    """The logs of one kind in the index. A log is a row `c` of its table."""

    tables: ClassVar[str]
    """Tables of the rows, with how far each log is indexed."""
    query: ClassVar[str]
    """Query of the rows: the number, the columns that `state_of` reads, bytes and lines."""
    settled: ClassVar[bool]
    """False if what is asked for need not wait for additions that are queued."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def state_of(self, row: Any) -> State:
        """Return the state of the log of a row of `query`."""

    @abstractmethod
    def conditions_of(self, chosen: Chosen) -> list[Condition]:
        """Return the conditions of a filter."""

    def _rows(self, query: str, values: Any = ()) -> list[Any]:
        return self._database.rows(query, values, settled=self.settled)

    def stored_of(self, row: Any) -> Stored[State]:
        """Return the log of a row of `query`."""
        return Stored(row[0], self.state_of(row), *row[-2:])

    def find(self, name: str) -> Stored[State] | None:
        """Return a log, or None."""
        rows = self._rows(f"{self.query} WHERE c.id = ?", (name,))
        return self.stored_of(rows[0]) if rows else None

    def select(
        self,
        chosen: Chosen,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        newest_first: bool = True,
    ) -> list[Stored[State]]:
        """Return the logs that match, by update time then id, behind the place `after` =
        (update_time, id).

        Not by number: a new index gives other numbers, and the same answers.
        """
        rest, values = self._page(chosen, limit, after, newest_first=newest_first)
        return [self.stored_of(row) for row in self._rows(f"{self.query} {rest}", values)]

    def sizes(self, chosen: Chosen, limit: int, after: tuple[int, str] | None = None) -> list[Size]:
        """Return the logs that match with the bytes of their transcripts, the longest unchanged
        first, behind the place `after` = (update_time, id).
        """
        rest, values = self._page(chosen, limit, after, newest_first=False)
        query = f"SELECT c.id, c.channel, c.update_time, bytes FROM {self.tables} {rest}"
        return [Size(*row) for row in self._rows(query, values)]

    def _page(
        self, chosen: Chosen, limit: int, after: tuple[int, str] | None, *, newest_first: bool
    ) -> tuple[str, list[Any]]:
        """Return the end of a query of the logs that match, and its values."""
        way, comparison = ("DESC", "<") if newest_first else ("ASC", ">")
        place: Condition = (f"(c.update_time, c.id) {comparison} (?, ?)", after)
        where, values = conditions([*self.conditions_of(chosen), place])
        order = f"ORDER BY c.update_time {way}, c.id {way} LIMIT ?"
        return f"WHERE {where} {order}", [*values, limit]

    def by_number(self, numbers: set[int]) -> dict[int, State]:
        """Return the logs of these numbers, without those that are gone."""
        query = f"{self.query} WHERE c.number IN (SELECT value FROM json_each(?))"
        every = map(self.stored_of, self._rows(query, (dump_json(list(numbers)),)))
        return {it.number: it.state for it in every}

    def bytes(self) -> int:
        """Return the bytes of all transcripts that are indexed."""
        return int(self._rows(f"SELECT coalesce(sum(bytes), 0) FROM {self.tables}")[0][0])

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return the indexed length of every transcript by its log: bytes and lines."""
        rows = self._rows(f"SELECT c.id, bytes, lines FROM {self.tables}")
        return {row[0]: (row[1], row[2]) for row in rows}


class KindTable(LogTable[State, Chosen]):
    """The logs of a kind that a feature brings, with their messages."""

    kind: ClassVar[Kind]
    names: ClassVar[str] = ""
    """Query of the names that `SeenNames` is to have of them."""

    def __init__(self, database: Database, names: SeenNames) -> None:
        super().__init__(database)
        self._names = names

    @abstractmethod
    def newest_through(self, number: int, sequence: int) -> Place | None:
        """Return the place of the newest message at or before a line, or None."""

    @abstractmethod
    def bytes_of_lines(self, number: int, first: int, last: int) -> int:
        """Return how many bytes the messages of these lines have."""


Removed = dict[str, int]
"""Number of entries removed, by place."""


@dataclass(frozen=True, slots=True)
class Erased:
    """Contents of the index that a redaction takes out."""

    changed: Collection[tuple[object, Line]]
    """Each line that says something else now: its content before, and the line as it is."""
    requests: Collection[str]
    """Requests whose payload is not known any more."""
    lines: list[Line]
    """All lines of the log as they are now."""

    def now(self, kind: type[Any]) -> list[Any]:
        """Return what the lines say now that said something of a kind."""
        contents = ((before, line.entry) for before, line in self.changed)
        return [it.content for before, it in contents if it and isinstance(before, kind)]


@dataclass(frozen=True, slots=True)
class Expected:
    """A conversation as its log says it, which tables are compared with."""

    database: Database
    store: LogStore
    number: int
    state: Conversation | None
    lines: list[Line]
    """Its whole lines."""
    is_thorough: bool
    """False beside calls: then only what changes with the lines is compared."""


def _nothing(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Tables of a feature that follow from the lines of conversations. The functions with a
    connection run in a transaction.
    """

    sections: Callable[
        [Conversation | None, Conversation, list[Line], list[object]], Mapping[str, object]
    ]
    """Returns the sections of a document (see `index.document_of`) that its triggers take in: of a
    conversation without these lines and with them, the lines, and their contents. None: no section.
    """
    contents: frozenset[type] = frozenset()
    """Entries of which its sections are; empty: of any."""
    channel: str = ""
    """Channel of the conversations that it is about; empty: any."""
    schema: str = ""
    """Statements that make its tables in a new index."""
    hanging: tuple[str, ...] = ()
    """Tables whose rows of a conversation go as its removal begins."""
    names: str = ""
    """Query of the names that `SeenNames` is to have of it."""
    names_of: Callable[[list[object]], Iterable[str | int]] | None = None
    """Returns those that contents add."""
    count: Callable[[apsw.Connection, list[int]], Removed] | None = None
    """Counts what goes with conversations of these numbers, for the receipt."""
    remove: Callable[[apsw.Connection, list[int]], bool] | None = None
    """Removes a part of the other rows of conversations of these numbers, and returns whether some
    are left.
    """
    forget: Callable[[apsw.Connection, int, Erased], object] = _nothing
    """Takes out what followed from redacted messages of a conversation."""
    differences: Callable[[Expected], Iterable[str]] = _nothing
    """Yields what the tables have otherwise than the log."""
    problems: Callable[[apsw.Connection], Iterable[str]] = _nothing
    """Yields what is wrong in the tables by themselves."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """Analysis of texts: the form in which the tokenizer gets each. The form depends on the text
    alone: removing a message takes the same form once more.
    """

    form: Callable[[str], str] = str
    """Returns a text as it is indexed."""
    plain: Callable[[str], str] = str
    """Returns a name as it is indexed."""
    notes: Callable[[apsw.Connection, Conversation], list[tuple[str, int]]] = lambda *_: []
    """Returns the stems of a conversation's notes, each with its weight."""


AS_IT_IS = Analysis()
"""Analysis of an index that takes texts as they are."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables of features in an index."""

    analysis: Analysis = AS_IT_IS
    derived: tuple[Derived, ...] = ()
    kinds: tuple[type[KindTable[Any, Any]], ...] = ()

    @property
    def schema(self) -> str:
        """Statements that make them in a new index."""
        return "".join(it.schema for it in self.derived)

    @property
    def names(self) -> Iterator[str]:
        """Queries of the names that `SeenNames` is to have of them."""
        yield from (it.names for it in self.derived if it.names)
        yield from (it.names for it in self.kinds if it.names)


NO_TABLES = Tables()
