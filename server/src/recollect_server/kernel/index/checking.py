"""Reads the whole index, to be compared with the transcripts."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apsw
import orjson

from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.ids import SEQUENCE_BITS, id_range, number_of, sequence_of
from recollect_server.kernel.index.columns import MESSAGES, MessageRow
from recollect_server.kernel.index.file import NAME, checked, looked_at, looking
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.sqlite import DAMAGE, FAILURES
from recollect_server.kernel.index.tokenizer import tokens

_MAX_TERM = 32_768  # bytes of a word that FTS5 keeps (FTS5_MAX_TOKEN_SIZE)

# As bytes: a word that is cut may end within a character. The empty word, which a lone accent is,
# comes as NULL.
_WORDS = "SELECT CAST(coalesce(term, '') AS BLOB), doc, offset FROM {}_occurrences"
_message_of = MESSAGES.reader()


class Words:
    """Digests of the words that a full-text table had at one moment for the messages of some logs:
    each word counts with its place, in any order. What the index took in since is not compared.
    """

    def __init__(
        self,
        index: Index,
        table: str,
        lines_of: str,
        numbers: Collection[int],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`table` has the words, and `lines_of` says how many lines of each log are indexed.
        `numbers` are those of the logs in the index. What `check` raises, which is called often,
        ends the reading of all words.
        """
        self._index = index
        self._of: dict[int, dict[int, int]] = {number: {} for number in numbers}
        chosen = (orjson.dumps(list(numbers)).decode(),)
        within = "number IN (SELECT value FROM json_each(?))"
        with index.moment(settled=True) as connection, checked(connection, check):
            query = f"SELECT number, lines FROM {lines_of} WHERE {within}"
            self._lines = {row[0]: int(row[1]) for row in connection.execute(query, chosen)}
            self._wordless: dict[int, int] = {}
            if table == "turns":
                query = f"SELECT number, line FROM wordless WHERE {within}"
                self._wordless = {row[0]: int(row[1]) for row in connection.execute(query, chosen)}
            bounds = id_range(min(numbers, default=0))[0], id_range(max(numbers, default=0))[1]
            query = f"{_WORDS.format(table)} WHERE doc BETWEEN ? AND ?"
            # row by row: a large index has many millions
            for term, document, place in connection.execute(query, bounds):
                if (words := self._of.get(number_of(document))) is not None:
                    words[document] = words.get(document, 0) + hash((term, place))

    def has(self, identity: int, text: str) -> bool:
        """Return True if the index had the words of a message's text (none where it was to have
        none), or if it took the message in later. Ask once for each.
        """
        number, sequence = number_of(identity), sequence_of(identity)
        digest = self._of.get(number, {}).pop(identity, 0)
        if sequence > self._lines.get(number, 0):
            return True
        is_wordless = sequence <= self._wordless.get(number, 0)
        return digest == self._digest_of("" if is_wordless else text)

    def _digest_of(self, text: str) -> int:
        with self._index.reading() as connection:
            words = tokens(connection, text.encode())
        return sum(
            hash((stem.encode()[:_MAX_TERM], place)) for place, (_, _, stem) in enumerate(words)
        )

    def left_of(self, number: int) -> int:
        """Return the number of a log's messages that had words and were not asked for."""
        return len(self._of.get(number, ()))


class Contents:
    """All that an index holds."""

    def __init__(self, index: Index, words: Words | None = None) -> None:
        """`words` are those that messages are compared with; None: they are not compared."""
        self.index = index
        self._words = words

    @property
    def compares_words(self) -> bool:
        """True if the words of messages are compared."""
        return self._words is not None

    def problems(self, check: Callable[[], None]) -> Iterator[str]:
        """Yield what SQLite finds in its own pages and trees, and FTS5 in its segments, and what
        features find in their tables.

        Each table is read by itself, so that others write in between. What `check` raises, which is
        called often, ends the search.
        """
        path = self.index.folder / NAME
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid"
        names = [str(row[0]) for row in self.index.rows(tables)]
        for name in names:
            # A new connection: in one that read before, FTS5 takes the list of segments that it
            # remembers for damage.
            try:
                with looking(path) as connection, checked(connection, check):
                    query = "SELECT * FROM pragma_integrity_check(?)"
                    rows = [str(row[0]) for row in connection.execute(query, (name,))]
            except DAMAGE as error:  # which the check cannot read past
                rows = [str(error)]
            except FAILURES as error:
                raise IndexUnavailable(f"the index cannot answer: {error}") from error
            yield from rows if rows != ["ok"] else ()
        with self.index.reading() as connection:
            wrong = [it for own in self.index.tables.derived for it in own.problems(connection)]
        yield from wrong

    def of_nobody(self) -> tuple[int, int]:
        """Return the numbers of orphans: messages, and indexed texts, whose conversation neither
        exists nor is being removed.
        """
        nobodys = (
            "SELECT count(*) FROM {} WHERE (id >> ?) NOT IN (SELECT number FROM conversations"
            " UNION ALL SELECT number FROM deletions)"
        )
        with self.index.moment(settled=True) as connection:
            messages, texts = (
                int(connection.execute(nobodys.format(table), (SEQUENCE_BITS,)).get)
                for table in ("messages", "turns_fts_docsize")
            )
        return messages, texts

    def rows(self, number: int) -> dict[int, MessageRow]:
        """Return the messages of a conversation by id."""
        query = f"SELECT {MESSAGES.list} FROM messages WHERE id BETWEEN ? AND ?"
        rows = map(_message_of, self.index.rows(query, id_range(number)))
        return {row.id: row for row in rows}

    def requests(self, name: str) -> dict[str, str]:
        """Return the requests that the lines of a log carried: hash by id."""
        query = " UNION ALL ".join(
            f"SELECT request_id, hash FROM {table} WHERE conversation_id = ?1"
            for table in ("requests", "requests_used_again")
        )
        return {str(row[0]): str(row[1]) for row in self.index.rows(query, (name,))}

    def request(self, request_id: str) -> tuple[str, str] | None:
        """Return the conversation and the hash of a request, or None if the index does not know
        it.
        """
        query = "SELECT conversation_id, hash FROM requests WHERE request_id = ?"
        row = self.index.row(query, (request_id,))
        return None if row is None else (str(row[0]), str(row[1]))

    def has_words(self, identity: int, text: str) -> bool:
        """Return True if the index has the words of a message's text, or if they are not compared.
        Ask once for each.
        """
        return self._words is None or self._words.has(identity, text)


@dataclass(frozen=True, slots=True)
class State:
    """State of an index file by itself."""

    problem: str
    """The problem that it has, and what becomes of it; empty: none."""
    progress: dict[str, int] = field(default_factory=dict)
    """Bytes of each transcript that are indexed, of third parties too."""
    messages: int = 0
    size: int = 0
    lines: dict[str, int] = field(default_factory=dict)
    """Lines of each transcript that are indexed, but for those of unindexed conversations and of
    third parties.
    """
    external_messages: int = 0
    open_escalations: int = 0


def state_of(folder: Path) -> State:
    """Look at the index in a folder without taking it from a server that runs."""
    problem, state = looked_at(folder, _state)
    if state is None:
        return State(problem)
    if problem:
        return replace(state, problem=problem, lines={})
    return replace(state, size=sum(file.stat().st_size for file in folder.glob(f"{NAME}*")))


def _state(connection: apsw.Connection) -> State:
    query = (
        "SELECT c.id, p.bytes, p.lines, c.unindexed FROM conversations c"
        " JOIN progress p USING (number)"
    )
    rows: list[Any] = connection.execute(query).fetchall()
    communications = connection.execute("SELECT id, bytes FROM external_communications")
    counts = (
        "SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM external_messages),"
        " (SELECT count(*) FROM external_escalations WHERE resolve_time IS NULL)"
    )
    messages, external_messages, open_escalations = connection.execute(counts).get
    return State(
        "",
        {row[0]: row[1] for row in rows} | dict(communications),
        messages,
        lines={name: each for name, _, each, is_unindexed in rows if not is_unindexed},
        external_messages=external_messages,
        open_escalations=open_escalations,
    )


@dataclass(frozen=True, slots=True)
class SpaceTotals:
    """Totals of a space, as its index knows them."""

    conversations: int = 0
    messages: int = 0
    communications: int = 0
    size: int = 0
    """Bytes of all transcripts."""
    problem: str = ""
    """Problem of the index; empty: none."""


def totals_of(folder: Path) -> SpaceTotals:
    """Count what the index in a folder knows, without taking it from a server that runs."""
    problem, totals = looked_at(folder, _totals)
    return replace(totals or SpaceTotals(), problem=problem)


def _totals(connection: apsw.Connection) -> SpaceTotals:
    query = (
        "SELECT (SELECT count(*) FROM progress), (SELECT count(*) FROM messages),"
        " (SELECT count(*) FROM external_communications),"
        " (SELECT coalesce(sum(bytes), 0) FROM progress)"
        " + (SELECT coalesce(sum(bytes), 0) FROM external_communications)"
    )
    return SpaceTotals(*connection.execute(query).get)
