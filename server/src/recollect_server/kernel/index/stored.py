"""The logs of either kind in the index: what is known of each without its messages.

A kind declares its tables (`LogTable`); the questions are asked here once. Conditions of queries
are pairs of a condition and the value that it is about (`conditions`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from recollect_server.kernel.index.columns import dump_json
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.requests import SeenNames
from recollect_server.kernel.log.kinds import Kind
from recollect_server.kernel.log.lines import Place


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
