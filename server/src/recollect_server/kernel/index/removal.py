"""Removal of text from the index: of whole logs, of messages that are redacted, and of the words of
conversations that searches leave out.

A log is removed in steps, each a short transaction, so that other writes take their turn in
between: first its row, then what other tables say about it, then its messages, then the note that
its removal has begun. At last the write-ahead log is cut, which may still hold its words.

A redaction is one transaction, which takes in the line that says that messages were redacted: how
far a transcript is indexed tells whether it was done. Their rows stay.

A conversation that is unindexed keeps its rows too. The table `wordless` says up to which line its
messages have no words; those behind have all of theirs. Words go from the first line on and come
back from the last, a part in a transaction, so the table is exact at any moment: a redaction, a
delete and the comparison with the transcripts know by it which words are there.

Words leave FTS5 in one of two ways. Its `secure-delete` edits the list of each word in each
segment: the cost grows with the text alone (7 us a byte), which suits a short conversation. For a
long one, delete markers are written as fast as messages are indexed, and then all segments are
merged in steps, which drops the markers with what they delete: the cost is that of rewriting the
index (some 40 MiB/s). 200,000 messages took 310 s by the first way and take 6 s by the second.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import apsw
import orjson

from recollect_server.kernel.domain.budget import message_tokens
from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.ids import (
    MAX_LINES,
    SEQUENCE_BITS,
    id_range,
    message_id,
    sequence_of,
)
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index import updates
from recollect_server.kernel.index.columns import UpdateRow
from recollect_server.kernel.index.conversations import Lengths
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Derived, Erased, Removed, Tables
from recollect_server.kernel.index.file import patience
from recollect_server.kernel.index.gaps import Wiped
from recollect_server.kernel.index.messages import searchable, searchable_text
from recollect_server.kernel.log.kinds import Kind
from recollect_server.kernel.log.lines import spoken
from recollect_server.kernel.log.redaction import ANY_HASH

Words = tuple[int, str]
"""Line of a message, and its text as it was indexed."""

_HANGING = (
    "conversations", "notes", "topics", "progress", "contact_names", "notes_words", "note_records",
    "note_refusals", "notes_wanted",
)  # fmt: skip
"""Tables that have rows of a conversation which its removal begins with. Those of `participants` go
with the row in `conversations`, which names them.
"""
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
    """Removal from the tables of one kind of log."""

    words: ClassVar[str]
    """Table of the words."""
    messages: ClassVar[str]
    """Table of the messages."""
    line: ClassVar[str]
    """Its column that says the line: of the id of a message, or of the line alone."""
    behind: ClassVar[str]
    """Condition of the messages of a log behind a line, by the names of `_bounds`."""
    among: ClassVar[str]
    """Condition of the messages in the document `:rows` (see `_take_out`)."""
    prefix: ClassVar[str]
    """Text before the marker's name in `identity`: each kind has numbers of its own."""
    message: ClassVar[type]

    def __init__(self, database: Database) -> None:
        self._database = database

    @abstractmethod
    def find(self, name: str) -> int | None:
        """Return the number of a log whose removal has begun, or None."""

    @abstractmethod
    def begin(self, number: int, name: str, time: int) -> Removed:
        """Remove a log's row, so that no call finds it. The methods below remove the rest."""

    @abstractmethod
    def end(self, number: int, name: str) -> None:
        """Forget a log, of which nothing is left to remove."""

    @abstractmethod
    def text_of(self, raw: bytes, sequence: int) -> str | None:
        """Return the text of a message as it was indexed, by its line; None of a damaged line."""

    @abstractmethod
    def searchable(self, message: Any) -> str:
        """Return the text of a message as it is indexed."""

    def remove_history(self, number: int, name: str) -> Removed:  # noqa: ARG002
        """Remove what stands in other tables about a log."""

        def forget(connection: apsw.Connection, _: int) -> int:
            connection.execute("DELETE FROM requests_used_again WHERE conversation_id = ?", (name,))
            query = "SELECT request_id FROM requests WHERE conversation_id = ? LIMIT ?"
            connection.execute(f"DELETE FROM requests WHERE request_id IN ({query})", (name, _ROWS))
            return connection.changes()

        return {"requests": self._in_parts(forget)}

    def sequences(self, number: int, after: int, limit: int) -> list[int]:
        """Return the lines of a log that are indexed messages, behind line `after`."""
        query = (
            f"SELECT {self.line} FROM {self.messages} WHERE {self.behind}"
            f" ORDER BY {self.line} LIMIT :limit"
        )
        rows = self._database.rows(query, _bounds(number, after) | {"limit": limit})
        return [sequence_of(row[0]) for row in rows]

    def is_long(self, number: int) -> bool:
        """Return whether a log's words are to be removed by markers and a merge, not one by one."""
        query = (
            "SELECT coalesce(sum(length), 0), coalesce(max(length), 0)"
            f" FROM {self.messages} WHERE {self.behind}"
        )
        with self._database.reading() as connection:
            text, longest = connection.execute(query, _bounds(number)).get
            pages = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
        return bool(longest > LONG_MESSAGE or text > _SHORT + pages // _SHARE)

    def remove_messages(self, number: int, messages: list[Words], *, mark: bool = False) -> None:
        """Remove messages of a log with their words. With `mark` the words are only marked, and
        `purge_words` must follow.
        """

        def job(connection: apsw.Connection, _: int) -> None:
            rows = self._take_out(connection, number, messages, mark)
            values = {"number": number, "rows": rows}
            connection.execute(f"DELETE FROM {self.messages} WHERE {self.among}", values)

        self._database.write(job)

    def redact(
        self,
        number: int,
        log: str,
        erased: Erased,
        change: Callable[[apsw.Connection, int], None],
        updates: int,
        notice: object,
    ) -> None:
        """Take the text of messages out, durably, in one transaction with what `change` does, which
        takes in the line that says so, with so many updates.
        """
        messages = [
            (line.sequence, self.searchable(before))
            for before, line in erased.changed
            if isinstance(before, self.message)
        ]

        def job(connection: apsw.Connection, cursor: int) -> None:
            self._empty(connection, number, messages)
            for table in ("requests", "requests_used_again"):
                connection.executemany(
                    f"UPDATE {table} SET hash = ? WHERE request_id = ? AND conversation_id = ?",
                    [(ANY_HASH, request, log) for request in erased.requests],
                )
            change(connection, cursor)

        self._database.writer.write(job, updates=updates, notice=lambda: notice)
        hit("redact.indexed")
        self.purge_words(number)

    def purge_words(self, number: int) -> None:
        """Drop the marked words of a log from the index's segments. Does nothing if none are
        marked.

        The merge runs in steps of some `_STEP` seconds, so that other writes take their turn in
        between. Words that one of these marks are purged by another merge.
        """
        name = self._purge_of(number)
        query = "SELECT value FROM identity WHERE name = ?"
        while (mark := self._database.value(query, (name,))) is not None:
            self._merge()
            self._execute("DELETE FROM identity WHERE name = ? AND value = ?", name, mark)

    def _merge(self) -> None:
        """Merge all segments of the words into one."""
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

    def _purge_of(self, number: int) -> str:
        """Return the name in `identity` that says that words of a log are marked and still
        there.
        """
        return f"{self.prefix}words_to_purge {number}"

    def _empty(
        self,
        connection: apsw.Connection,
        number: int,
        messages: Iterable[Words],
        *,
        mark: bool | None = None,
    ) -> None:
        """Take the words of messages out that stay (see `_take_out`)."""
        rows = self._take_out(connection, number, messages, mark)
        # Every message has a row there, without words too.
        connection.execute(
            f"INSERT INTO {self.words}(rowid, text) SELECT value ->> 0, '' FROM json_each(?)",
            (rows,),
        )

    def _take_out(
        self,
        connection: apsw.Connection,
        number: int,
        messages: Iterable[Words],
        mark: bool | None,
    ) -> str:
        """Take messages with their words, which must be what was added, out of the table of words.
        With `mark` the words are only marked; None: if one message is long. Return the messages as
        a document of rows: id, text and line.
        """
        last = self._wordless_line(connection, number)
        rows = [
            (message_id(number, line), text if line > last else "", line) for line, text in messages
        ]
        if mark is None:
            mark = any(len(text) > LONG_MESSAGE for _, text, _ in rows)
        # As one document: a statement for each message would take Python's global lock as often.
        document = orjson.dumps(rows).decode()
        with self._marking(connection, number, mark=mark):
            connection.execute(
                f"INSERT INTO {self.words}({self.words}, rowid, text)"
                " SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)",
                (document,),
            )
        return document

    def _wordless_line(self, connection: apsw.Connection, number: int) -> int:  # noqa: ARG002
        """Return the line up to which a log's messages have no words."""
        return 0

    @contextmanager
    def _marking(self, connection: apsw.Connection, number: int, *, mark: bool) -> Iterator[None]:
        """Only mark the words that the block deletes: `purge_words` must follow. Without `mark`
        they are edited out.
        """
        if not mark:
            yield
            return
        # In the transaction of the first markers: a start that follows a crash knows that words are
        # left to purge. Its value tells a purge whether some were marked since it began.
        connection.execute(
            "INSERT OR REPLACE INTO identity VALUES(?, hex(randomblob(8)))",
            (self._purge_of(number),),
        )
        connection.execute(
            f"INSERT INTO {self.words}({self.words}, rank) VALUES('secure-delete', 0)"
        )
        yield
        # Else the commit would flush, when `secure-delete` is on again.
        connection.execute(f"INSERT INTO {self.words}({self.words}) VALUES('flush')")
        connection.execute(
            f"INSERT INTO {self.words}({self.words}, rank) VALUES('secure-delete', 1)"
        )

    def _execute(self, statement: str, *values: object) -> None:
        self._database.write(lambda connection, _: connection.execute(statement, values))

    def _in_parts(self, job: Callable[[apsw.Connection, int], int]) -> int:
        """Run a job until it changes nothing more, and return how much it changed."""
        changed = 0
        while count := self._database.write(job):
            changed += count
        return changed


class Removal(WordRemoval):
    """Removal of conversations."""

    words = "turns_fts"
    messages = "messages"
    line = "id"
    behind = "id > :first AND id <= :last"
    among = "id IN (SELECT value ->> 0 FROM json_each(:rows))"
    prefix = ""
    message = Message

    def __init__(self, database: Database, lengths: Lengths, tables: Tables) -> None:
        super().__init__(database)
        self._lengths = lengths
        self._tables = tables

    def begin(self, number: int, name: str, time: int) -> Removed:
        """Remove the conversation's row."""
        rows: list[UpdateRow] = []

        def job(connection: apsw.Connection, cursor: int) -> Removed:
            channel = connection.execute(
                "SELECT channel FROM conversations WHERE number = ?", (number,)
            ).get
            rows.append(
                updates.deleted(cursor + 1, number, Kind.CONVERSATION, time, name, channel or "")
            )
            removed: Removed = {}
            tables = list(_HANGING)
            for it in self._tables.derived:
                removed |= it.count(connection, number)
                tables += it.hanging
            for table in tables:
                connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
            removed["conversations"] = 1
            connection.execute("INSERT INTO deletions VALUES(?, ?)", (number, name))
            updates.add(connection, rows[-1])
            return removed

        removed = self._database.writer.write(job, updates=1, notice=lambda: rows[-1])
        self._lengths.remove(number)
        return removed

    def remove_history(self, number: int, name: str) -> Removed:
        """Remove the conversation's entries in the update log, its requests, and what
        features derived from it.
        """
        removed = {
            "updates": self._in_parts(
                lambda connection, _: updates.remove(connection, number, Kind.CONVERSATION, _ROWS)
            )
        }
        removed |= super().remove_history(number, name)
        self._in_parts(
            lambda connection, _: sum(it.remove(connection, number) for it in self._tables.derived)
        )
        return removed

    def find(self, name: str) -> int | None:
        """Return the number of a conversation whose removal has begun, or None."""
        number: int | None = self._database.value(
            "SELECT number FROM deletions WHERE id = ?", (name,)
        )
        return number

    def text_of(self, raw: bytes, sequence: int) -> str | None:
        """Return the text of a message as it was indexed, by its line; None of a damaged line."""
        text = spoken(raw, sequence)
        return None if text is None else searchable(self._tables.analysis, *text)

    def searchable(self, message: Message) -> str:
        """Return the text of a message as it is indexed."""
        return searchable_text(self._tables.analysis, message)

    def remove_messages(self, number: int, messages: list[Words], *, mark: bool = False) -> None:
        """Remove messages of a conversation, and count them out."""
        super().remove_messages(number, messages, mark=mark)
        self._lengths.count(-len(messages))

    def end(self, number: int, name: str) -> None:  # noqa: ARG002
        """Forget a conversation, of which nothing is left to remove."""

        def job(connection: apsw.Connection, _: int) -> None:
            for table in ("wordless", "deletions"):
                connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))

        self._database.write(job)

    def _wordless_line(self, connection: apsw.Connection, number: int) -> int:
        query = "SELECT line FROM wordless WHERE number = ?"
        return int(connection.execute(query, (number,)).get or 0)

    def empty_log(self) -> bool:
        """Truncate the write-ahead log and wipe the gaps of pages, which may hold deleted text.
        Return False if a reader was in the way.

        It waits for readers in short tries, and wipes in parts: other writes wait meanwhile.
        """
        writer = self._database.writer

        def job(connection: apsw.Connection, _: int) -> Wiped:
            with patience(connection, _LOG_PATIENCE):
                return writer.gaps.wipe()

        tries = _LOG_TRIES
        while tries and (wiped := writer.write(job, alone=True)) is not Wiped.ALL:
            tries -= wiped is Wiped.NONE
        return tries > 0

    # Words that are left out ----------------------------------------------------------------------

    def wordless_line(self, number: int) -> int:
        """Return the line up to which a conversation's messages have no words; 0: all have."""
        with self._database.reading() as connection:
            return self._wordless_line(connection, number)

    def unsettled(self) -> list[str]:
        """Return the conversations whose words are to go or to come back."""
        rows = self._database.rows(
            "SELECT c.id FROM conversations c WHERE c.unindexed = 1 AND (EXISTS (SELECT 1 FROM messages WHERE"
            f" id > (c.number << {SEQUENCE_BITS}) + coalesce((SELECT line FROM wordless w WHERE w.number = c.number), 0)"
            f" AND id <= (c.number << {SEQUENCE_BITS}) + {MAX_LINES})"
            " OR EXISTS (SELECT 1 FROM identity WHERE name = 'words_to_purge ' || c.number))"
            " UNION SELECT c.id FROM wordless w JOIN conversations c ON c.number = w.number"
            " WHERE c.unindexed = 0"
        )
        return [str(row[0]) for row in rows]

    def take_out(self, number: int, messages: list[Words], line: int, *, mark: bool) -> None:
        """Take out the words of messages, the next ones up to `line`, which stay. With `mark` they
        are only marked, and `purge_words` must follow.
        """

        def job(connection: apsw.Connection, _: int) -> None:
            self._empty(connection, number, messages, mark=mark)
            connection.execute("INSERT OR REPLACE INTO wordless VALUES(?, ?)", (number, line))

        self._database.write(job)

    def bring_back(self, number: int, messages: list[Words], line: int) -> None:
        """Index the words of messages again, the last ones that lack them: those behind `line`."""

        def job(connection: apsw.Connection, _: int) -> None:
            for sequence, text in messages:
                identity = message_id(number, sequence)
                connection.execute(
                    "INSERT INTO turns_fts(turns_fts, rowid, text) VALUES('delete', ?, '')",
                    (identity,),
                )
                connection.execute(
                    "INSERT INTO turns_fts(rowid, text) VALUES(?, ?)", (identity, text)
                )
            if line:
                connection.execute("UPDATE wordless SET line = ? WHERE number = ?", (line, number))
            else:
                connection.execute("DELETE FROM wordless WHERE number = ?", (number,))

        self._database.write(job)


def forget_derived(
    connection: apsw.Connection,
    number: int,
    before: Conversation,
    after: Conversation,
    erased: Erased,
    derived: Iterable[Derived],
    document: str,
) -> None:
    """Take what was derived from redacted messages out of the tables, and take in the document of
    the line that says so.
    """
    messages: list[Message] = erased.now(Message)
    connection.executemany(
        "UPDATE messages SET tokens = ? WHERE id = ?",
        [(message_tokens(it), message_id(number, it.sequence)) for it in messages],
    )
    for it in derived:
        it.forget(connection, number, erased)
    if not after.party.contact_name:
        connection.execute("DELETE FROM contact_names WHERE number = ?", (number,))
    if after.compressed_through < before.compressed_through:
        connection.execute(
            "UPDATE conversations SET compaction_from = 0 WHERE number = ?", (number,)
        )
    connection.execute("DELETE FROM note_refusals WHERE number = ?", (number,))
    connection.execute("INSERT INTO incoming SELECT jsonb(?)", (document,))
    # As in an index that is made anew: no row where there is nothing.
    connection.execute(
        "DELETE FROM notes WHERE number = ? AND abbreviation = '' AND compression_summary = ''",
        (number,),
    )
    connection.execute(
        "DELETE FROM note_records WHERE number = ? AND abbreviation_writer = '' AND title_writer = ''",
        (number,),
    )
    # The notes that are left were written without what the messages said: they are made again.
    connection.execute(
        "UPDATE conversations SET abbreviation_wanted = 1 WHERE number = ? AND turn_count > abbreviated_through",
        (number,),
    )


def _bounds(number: int, after: int = 0) -> dict[str, Any]:
    """Return the values of `WordRemoval.behind`."""
    last = id_range(number)[1]
    return {
        "number": number,
        "after": after,
        "first": message_id(number, after),
        "last": last,
    }
