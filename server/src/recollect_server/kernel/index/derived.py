"""Registration of features with the index: the tables that they have in it.

An index has tables of its own: of conversations with their notes, messages, requests and changes. A
feature brings tables that are `Derived` from the lines of conversations, written in the transaction
of the lines, and the `KindTable` of another kind of log. An index without any takes in and answers
the same lines.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.stored import KindTable
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.store import LogStore

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
