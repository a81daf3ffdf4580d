"""Removal of a conversation, or of an external communication (`external_removal`), from the index.

A conversation is removed in steps, each a short transaction, so that other writes take their turn
in between: first its row, then its entries in the update log, its requests and its activity, then
its messages, then the note that its removal has begun. At last the write-ahead log is cut, which
may still hold its words.

Words leave FTS5 in one of two ways. Its `secure-delete` edits the list of each word in each
segment: the cost grows with the text alone (7 us a byte), which suits a short conversation. For a
long one, delete markers are written as fast as messages are indexed, and then all segments are
merged in steps, which drops the markers with what they delete: the cost is that of rewriting the
index (some 40 MiB/s). 200,000 messages took 310 s by the first way and take 6 s by the second.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

import apsw
import orjson

from recollect_server.domain.ids import id_range, message_id, sequence_of
from recollect_server.storage.index import activity_tables, updates
from recollect_server.storage.index.columns import UpdateRow
from recollect_server.storage.index.conversations import Lengths
from recollect_server.storage.index.database import Database
from recollect_server.storage.index.file import patience
from recollect_server.storage.index.messages import searchable
from recollect_server.storage.logs.lines import spoken

_HANGING = (
    "conversations", "notes", "topics", "progress", "anchors", "mail", "continued", "contact_names",
    "notes_words", "note_records", "note_refusals", "notes_wanted", "turn_memories",
)  # fmt: skip
"""Tables that have rows of a conversation which its removal begins with. Those of `participants` go
with the row in `conversations`, which names them.
"""

Spoken = tuple[int, str, str]
"""Content of a message that its removal must know: sequence, sender and content."""

Removed = dict[str, int]
"""Number of entries removed, by place."""

_ROWS = 2000  # of the update log and the requests in one transaction
# bytes of text that are removed by `secure-delete` whatever the size of the index
_SHORT = 64 << 10
# so is a text of less than this part of the index: editing costs less than rewriting all
_SHARE = 256
# bytes: one longer message would keep the writer for more than 0.2 s by `secure-delete`
LONG_MESSAGE = 32 << 10
_STEP = 0.08  # seconds that one step of a merge should take
_MERGED = 2  # changes: a merge that makes fewer had nothing to do
_LOG_PATIENCE = 100  # milliseconds that cutting the log waits for a reader, while other writes wait
_LOG_TRIES = 50


class WordRemoval(ABC):
    """The steps in which words leave an index, the same for each kind of log."""

    words: ClassVar[str]
    """Table of the words."""
    prefix: ClassVar[str]
    """Text before the marker's name in `identity`: each kind has numbers of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def find(self, name: str) -> int | None:
        """Return the number of a log whose removal has begun, or None."""

    @abstractmethod
    def begin(self, number: int, name: str, time: int) -> Removed:
        """Remove a log's row, so that no call finds it. The methods below remove the rest."""

    @abstractmethod
    def remove_history(self, number: int, name: str) -> Removed:
        """Remove what stands in other tables about a log."""

    @abstractmethod
    def sequences(self, number: int, after: int, limit: int) -> list[int]:
        """Return the lines of a log that are indexed messages, behind line `after`."""

    @abstractmethod
    def spoken(
        self, lines: Iterable[bytes], is_wanted: Callable[[int], bool]
    ) -> Iterator[tuple[int, int, tuple[str, str] | None]]:
        """Yield the lines of these sequences: where each ends and, of a message, what
        `remove_messages` must know; None of a damaged line.
        """

    @abstractmethod
    def _sizes(self, connection: apsw.Connection, number: int) -> tuple[int, int]:
        """Return the bytes of a log's messages, and of the longest of them."""

    @abstractmethod
    def _remove(self, connection: apsw.Connection, number: int, messages: list[Spoken]) -> None:
        """Remove messages and their words, which must be what was added."""

    def is_long(self, number: int) -> bool:
        """Return whether a log's words are to be removed by markers and a merge, not one by one."""
        with self._database.reading() as connection:
            text, longest = self._sizes(connection, number)
            pages = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
        return longest > LONG_MESSAGE or text > _SHORT + pages // _SHARE

    def remove_messages(self, number: int, messages: list[Spoken], *, mark: bool = False) -> None:
        """Remove messages of a log with their words. With `mark` the words are only marked, and
        `purge_words` must follow.
        """

        def job(connection: apsw.Connection, _: int) -> None:
            with marking(connection, self.words, self._purge_of(number) if mark else ""):
                self._remove(connection, number, messages)

        self._database.write(job)

    def has_marked(self, number: int) -> bool:
        """Return whether words of a log are marked and not purged yet."""
        query = "SELECT 1 FROM identity WHERE name = ?"
        return self._database.value(query, (self._purge_of(number),)) is not None

    def purge_words(self, number: int) -> None:
        """Drop the marked words of a log from the index's segments. Does nothing if none are
        marked.

        The merge runs in steps of some `_STEP` seconds, so that other writes take their turn in
        between.
        """
        if not self.has_marked(number):
            return
        pages, first = 64, True

        def job(connection: apsw.Connection, _: int) -> bool:
            nonlocal pages, first
            before, began = connection.total_changes(), time.monotonic()
            # FTS5 takes a negative number of pages to begin a merge of all segments, and a positive
            # one to go on with it.
            merge = f"INSERT INTO {self.words}({self.words}, rank) VALUES('merge', ?)"
            connection.execute(merge, (-pages if first else pages,))
            seconds, first = time.monotonic() - began, False
            pages = max(
                8,
                min(
                    2048,
                    pages * 2 if seconds < _STEP / 2 else pages // 2 if seconds > _STEP else pages,
                ),
            )
            return connection.total_changes() - before >= _MERGED

        while self._database.write(job):
            pass

    def end(self, number: int) -> None:
        """Forget the log, of which nothing is left to remove."""
        self._database.write(lambda connection, _: self._end(connection, number))

    def _end(self, connection: apsw.Connection, number: int) -> None:
        connection.execute("DELETE FROM identity WHERE name = ?", (self._purge_of(number),))

    def _purge_of(self, number: int) -> str:
        return f"{self.prefix}{purge_of(number)}"

    def forget_requests(self, name: str) -> int:
        """Remove the requests of a log, and return their number."""

        def forget(connection: apsw.Connection, _: int) -> int:
            connection.execute("DELETE FROM requests_used_again WHERE conversation_id = ?", (name,))
            query = "SELECT request_id FROM requests WHERE conversation_id = ? LIMIT ?"
            connection.execute(f"DELETE FROM requests WHERE request_id IN ({query})", (name, _ROWS))
            return connection.changes()

        return self._in_parts(forget)

    def _in_parts(self, job: Callable[[apsw.Connection, int], int]) -> int:
        """Run a job until it changes nothing more, and return how much it changed."""
        changed = 0
        while count := self._database.write(job):
            changed += count
        return changed


class Removal(WordRemoval):
    """The steps that remove a conversation."""

    words = "turns_fts"
    prefix = ""

    def __init__(self, database: Database, lengths: Lengths) -> None:
        super().__init__(database)
        self._lengths = lengths

    def begin(self, number: int, name: str, time: int) -> Removed:
        """Remove the conversation's row."""
        rows: list[UpdateRow] = []

        def job(connection: apsw.Connection, cursor: int) -> Removed:
            channel = connection.execute(
                "SELECT channel FROM conversations WHERE number = ?", (number,)
            ).get
            rows.append(updates.deleted(cursor + 1, number, time, name, channel or ""))
            anchors = connection.execute(
                "SELECT count(*) FROM anchors WHERE number = ?", (number,)
            ).get
            for table in _HANGING:
                connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
            removed = {"anchors": anchors} if anchors else {}
            removed["conversations"] = 1
            connection.execute("INSERT INTO deletions VALUES(?, ?)", (number, name))
            updates.add_deleted(connection, rows[-1])
            return removed

        removed = self._database.writer.write(job, updates=1, notice=lambda: rows[-1])
        self._lengths.remove(number)
        return removed

    def remove_history(self, number: int, name: str) -> Removed:
        """Remove the conversation's entries in the update log, its requests, and what it added to
        sums of activity.
        """
        removed = {
            "updates": self._in_parts(
                lambda connection, _: updates.remove(connection, number, _ROWS)
            ),
            "requests": self.forget_requests(name),
        }
        self._in_parts(lambda connection, _: activity_tables.remove(connection, number))
        return removed

    def find(self, name: str) -> int | None:
        """Return the number of a conversation whose removal has begun, or None."""
        number: int | None = self._database.value(
            "SELECT number FROM deletions WHERE id = ?", (name,)
        )
        return number

    def sequences(self, number: int, after: int, limit: int) -> list[int]:
        """Return the lines of a conversation that are indexed messages, behind line `after`."""
        query = "SELECT id FROM messages WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
        rows = self._database.rows(query, (message_id(number, after), id_range(number)[1], limit))
        return [sequence_of(row[0]) for row in rows]

    def spoken(
        self, lines: Iterable[bytes], is_wanted: Callable[[int], bool]
    ) -> Iterator[tuple[int, int, tuple[str, str] | None]]:
        """Yield of messages their sender and content."""
        return spoken(lines, is_wanted)

    def _sizes(self, connection: apsw.Connection, number: int) -> tuple[int, int]:
        query = "SELECT coalesce(sum(length), 0), coalesce(max(length), 0) FROM messages WHERE id BETWEEN ? AND ?"
        text, longest = connection.execute(query, id_range(number)).get
        return int(text), int(longest)

    def remove_messages(self, number: int, messages: list[Spoken], *, mark: bool = False) -> None:
        """Remove messages of a conversation, and count them out."""
        super().remove_messages(number, messages, mark=mark)
        self._lengths.count(-len(messages))

    def _remove(self, connection: apsw.Connection, number: int, messages: list[Spoken]) -> None:
        line = wordless_line(connection, number)
        # As one document: a statement for each message would take Python's global lock as often.
        lines = orjson.dumps(
            [
                (message_id(number, at), searchable(*spoken) if at > line else "")
                for at, *spoken in messages
            ]
        ).decode()
        connection.execute(
            "INSERT INTO turns_fts(turns_fts, rowid, text) SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)",
            (lines,),
        )
        connection.execute(
            "DELETE FROM messages WHERE id IN (SELECT value ->> 0 FROM json_each(?))", (lines,)
        )

    def _end(self, connection: apsw.Connection, number: int) -> None:
        super()._end(connection, number)
        connection.execute(
            "DELETE FROM wordless WHERE number IN (SELECT number FROM deletions WHERE number = ?)",
            (number,),
        )
        connection.execute("DELETE FROM deletions WHERE number = ?", (number,))

    def empty_log(self) -> bool:
        """Truncate the write-ahead log, which may hold deleted text. Return False if a reader was
        in the way.

        It waits for readers in short tries, because other writes wait meanwhile.
        """

        def job(connection: apsw.Connection, _: int) -> bool:
            with patience(connection, _LOG_PATIENCE):
                return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]

        return any(self._database.writer.write(job, alone=True) for _ in range(_LOG_TRIES))


@contextmanager
def marking(connection: apsw.Connection, table: str, purge: str) -> Iterator[None]:
    """Only mark the words that the block deletes from a full-text table: `purge_words` must follow,
    as the note `purge` says. Without one they are edited out.
    """
    if not purge:
        yield
        return
    # In the transaction of the first markers: a start that follows a crash knows that words are
    # left to purge.
    connection.execute("INSERT OR REPLACE INTO identity VALUES(?, '')", (purge,))
    connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('secure-delete', 0)")
    yield
    # Else the commit would flush, when `secure-delete` is on again.
    connection.execute(f"INSERT INTO {table}({table}) VALUES('flush')")
    connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('secure-delete', 1)")


def take_out_words(
    connection: apsw.Connection,
    table: str,
    texts: Mapping[int, str],
    purge: str,
    *,
    mark: bool | None = None,
) -> None:
    """Take the words of messages, by id, out of a full-text table, by the texts that were indexed.
    With `mark` they are only marked (see `marking`); None: if one of them is long.
    """
    if mark is None:
        mark = any(len(text) > LONG_MESSAGE for text in texts.values())
    with marking(connection, table, purge if mark else ""):
        connection.executemany(
            f"INSERT INTO {table}({table}, rowid, text) VALUES('delete', ?, ?)", list(texts.items())
        )
    # Every message has a row there, without words too.
    connection.executemany(
        f"INSERT INTO {table}(rowid, text) VALUES(?, '')", [(identity,) for identity in texts]
    )


def wordless_line(connection: apsw.Connection, number: int) -> int:
    """Return the line up to which a conversation's messages have no words (see `wordless`)."""
    return int(connection.execute("SELECT line FROM wordless WHERE number = ?", (number,)).get or 0)


def purge_of(number: int) -> str:
    """Return the name in `identity` that says that words of a removed conversation are marked and
    still there.
    """
    return f"words_to_purge {number}"
