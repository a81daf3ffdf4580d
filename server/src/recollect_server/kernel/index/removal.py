"""Removal of text from the index: of whole logs, of messages that are redacted, and of the words of
conversations that searches leave out.

Logs are removed by one job of the writer, many short ones at once: their rows, what other tables
say about them, and their messages, in one transaction, with the receipt; behind it the write-ahead
log is cut, which may still hold their words. One that is long goes in several jobs, so that other
writes take their turn in between: the first one takes its row, and notes that its removal has
begun; the last one takes the note.

A redaction is one transaction, which takes in the line that says that messages were redacted: how
far a transcript is indexed tells whether it was done. Their rows stay.

A conversation that is unindexed keeps its rows too. The table `wordless` says up to which line its
messages have no words; those behind have all of theirs. Words go from the first line on and come
back from the last, a part in a transaction, so the table is exact at any moment: a redaction, a
delete and the comparison with the transcripts know by it which words are there.

Words leave FTS5 in one of two ways. Its `secure-delete` edits the list of each word in each
segment: the cost grows with the text alone (7 us a byte), which suits a short conversation. For a
long one, or many that are long together, delete markers are written as fast as messages are
indexed, and then all segments are merged in steps, which drops the markers with what they delete:
the cost is that of rewriting the index (some 40 MiB/s). 200,000 messages took 310 s by the first
way and take 6 s by the second.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import apsw

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.ids import (
    MAX_LINES,
    SEQUENCE_BITS,
    Kind,
    id_range,
    message_id,
    sequence_of,
)
from recollect_server.kernel.domain.message import Message, message_tokens
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index import requests, updates
from recollect_server.kernel.index.columns import KnownRequest, UpdateRow, dump_json
from recollect_server.kernel.index.conversations import Lengths
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Derived, Erased, Removed, Tables
from recollect_server.kernel.index.file import patience
from recollect_server.kernel.index.gaps import Wiped
from recollect_server.kernel.index.messages import searchable, searchable_text
from recollect_server.kernel.log.lines import spoken
from recollect_server.kernel.log.redaction import ANY_HASH

Words = tuple[int, str]
"""Line of a message, and its text as it was indexed."""
Text = tuple[str, int, str]
"""Log of a message, its line, and its text as it was indexed."""
Receipt = Callable[[Removed], KnownRequest | None]
"""Makes the request, with its answer, that is to be recorded of what was removed last; None: of
nothing.
"""


@dataclass(slots=True)
class RemovalStep:
    """Result of one job of a removal."""

    removed: Removed
    marked: list[int]
    """Logs of which nothing but marked words is left."""
    is_whole: bool = False
    """True if nothing is left of the logs that ended."""
    is_cut: bool = False
    """True if no page of the file or of its write-ahead log has the words any more."""


WANT_REBUILD = "INSERT OR REPLACE INTO identity VALUES('rebuild_wanted', ?)"
"""Statement that lets the next start make the index anew."""
_EACH = "(SELECT value FROM json_each(?))"

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

    kind: ClassVar[Kind]
    logs: ClassVar[str]
    """Table of the logs."""
    words: ClassVar[str]
    """Table of the words."""
    messages: ClassVar[str]
    """Table of the messages."""
    line: ClassVar[str]
    """Its column that says the line: of the id of a message, or of the line alone."""
    of_log: ClassVar[str]
    """Condition of the messages of a log, by the names of `_bounds`."""
    has: ClassVar[str]
    """Condition of a row of a document (see `_take_out`) whose message is indexed."""
    among: ClassVar[str]
    """Condition of the messages in a document."""
    prefix: ClassVar[str]
    """Text before the marker's name in `identity`: each kind has numbers of its own."""
    message: ClassVar[type]

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, name: str) -> int | None:
        """Return the number of a log whose removal has begun, or None."""
        with self._database.reading() as connection:
            return self._begun(connection, [name]).get(name)

    @abstractmethod
    def _begun(self, connection: apsw.Connection, names: Sequence[str]) -> dict[str, int]:
        """Return those of these logs whose removal has begun, by their numbers."""

    @abstractmethod
    def _begin(self, connection: apsw.Connection, numbers: list[int]) -> Removed:
        """Remove the rows of logs, so that no call finds them. Return how much that was."""

    @abstractmethod
    def _note(self, connection: apsw.Connection, name: str, number: int) -> None:
        """Note that the removal of a log has begun."""

    @abstractmethod
    def _end(self, connection: apsw.Connection, name: str, number: int) -> None:
        """Drop that note of a log of which nothing is left to remove."""

    def _count_out(self, began: list[int], messages: int) -> None:  # noqa: B027
        """Count out the rows of logs of these numbers, and so many messages."""

    def remove(
        self,
        logs: Mapping[str, bool],
        texts: Sequence[Text],
        ended: Collection[str],
        time: int,
        *,
        mark: bool = False,
        receipt: Receipt | None = None,
    ) -> RemovalStep:
        """Remove the rows of logs, a part of what stands in other tables about them, and messages
        with their words, in one transaction.

        `logs`: each with whether its row may be there. `texts` are the next ones of their messages;
        what of these the index does not have is passed over. `ended` are the logs of which they are
        the last. With `mark` the words are only marked. `receipt`: once nothing is left, record the
        request that it makes of what was removed, and cut the write-ahead log.
        """
        rows: list[UpdateRow] = []
        fresh = [name for name, is_fresh in logs.items() if is_fresh]
        step = RemovalStep({}, [])

        def job(connection: apsw.Connection, cursor: int) -> int:
            numbers = self._begun(connection, [*logs])
            query = f"SELECT id, number, channel FROM {self.logs} WHERE id IN {_EACH}"
            for name, number, channel in connection.execute(query, (dump_json(fresh),)):
                at = cursor + len(rows) + 1
                rows.append(updates.deleted(at, number, self.kind, time, name, channel))
                numbers[name] = number
            began = [row.number for row in rows]
            removed = Counter(self._begin(connection, began) if began else {})
            for row in rows:
                updates.add(connection, row)
            removed.update(self._forget_history(connection, numbers))
            is_left = max(removed["updates"], removed["requests"]) >= _ROWS
            is_left |= self._forget_derived(connection, numbers)
            count = self._drop_messages(connection, numbers, texts, mark=mark)
            last = {name: numbers[name] for name in ended if name in numbers}
            step.marked = self._marked(connection, last.values())
            step.is_whole = not (is_left or step.marked)
            for name, number in numbers.items():
                if step.is_whole and name in last:
                    self._end(connection, name, number)
                else:
                    self._note(connection, name, number)
            step.removed = dict(removed)
            if receipt and step.is_whole and (record := receipt(step.removed)):
                requests.add(connection, record)
            return count

        def cut(connection: apsw.Connection) -> None:
            if receipt and step.is_whole:
                step.is_cut = self._wipe(connection) is Wiped.ALL

        count = self._database.writer.write(job, updates=len(fresh), notices=rows, then=cut)
        self._count_out([row.number for row in rows], count)
        return step

    def _forget_history(self, connection: apsw.Connection, numbers: Mapping[str, int]) -> Removed:
        """Remove a part of the changes and the requests of logs, and return how many."""
        names = dump_json([*numbers])
        of_updates = updates.remove(connection, dump_json([*numbers.values()]), self.kind, _ROWS)
        connection.execute(
            f"DELETE FROM requests_used_again WHERE conversation_id IN {_EACH}", (names,)
        )
        # but for receipts of deletes, of what had a name before or has it now
        query = (
            f"SELECT request_id FROM requests WHERE conversation_id IN {_EACH}"
            """ AND answer NOT LIKE '{"removed":%' LIMIT ?"""
        )
        connection.execute(f"DELETE FROM requests WHERE request_id IN ({query})", (names, _ROWS))
        return {"updates": of_updates, "requests": connection.changes()}

    def _forget_derived(self, connection: apsw.Connection, numbers: Mapping[str, int]) -> bool:  # noqa: ARG002
        """Remove a part of what features derived from logs. Return True if something is left."""
        return False

    def _drop_messages(
        self,
        connection: apsw.Connection,
        numbers: Mapping[str, int],
        texts: Iterable[Text],
        *,
        mark: bool,
    ) -> int:
        """Remove messages with their words. Return how many there were."""
        every = [(numbers[name], line, text) for name, line, text in texts if name in numbers]
        if not every:
            return 0
        rows = self._take_out(connection, every, mark=mark)
        connection.execute(f"DELETE FROM {self.messages} WHERE {self.among}", (rows,))
        return connection.changes()

    def _want_rebuild(self, connection: apsw.Connection, name: str, number: int) -> None:
        """Want a new index if it has messages left of a removed log: their lines were damaged, so
        that nobody can name their words.
        """
        query = f"SELECT {self.line} FROM {self.messages} WHERE {self.of_log} LIMIT 1"
        if (line := connection.execute(query, _bounds(number)).get) is not None:
            reason = f"line {sequence_of(line)} of {name} was damaged before it was deleted"
            connection.execute(WANT_REBUILD, (reason,))

    def _wipe(self, connection: apsw.Connection) -> Wiped:
        """Truncate the write-ahead log and wipe a part of the gaps of pages, which may hold deleted
        text, in the writer's thread. It waits for readers for a short time.
        """
        with patience(connection, _LOG_PATIENCE):
            return self._database.writer.gaps.wipe()

    def empty_log(self) -> bool:
        """Truncate the write-ahead log and wipe all gaps of pages. Return False if a reader was in
        the way.

        It waits for readers in short tries, and wipes in parts: other writes wait meanwhile.
        """
        tries = _LOG_TRIES
        while tries:
            wiped = self._database.writer.write(lambda it, _: self._wipe(it), alone=True)
            if wiped is Wiped.ALL:
                return True
            tries -= wiped is Wiped.NONE
        return False

    @abstractmethod
    def text_of(self, raw: bytes, sequence: int) -> str | None:
        """Return the text of a message as it was indexed, by its line; None of a damaged line."""

    @abstractmethod
    def searchable(self, message: Any) -> str:
        """Return the text of a message as it is indexed."""

    def is_long(self, names: Sequence[str]) -> bool:
        """Return whether the words of logs that go together are to be removed by markers and a
        merge, not one by one.
        """
        query = (
            "SELECT coalesce(sum(length), 0), coalesce(max(length), 0)"
            f" FROM {self.messages} WHERE {self.of_log}"
        )
        with self._database.reading() as connection:
            there = f"SELECT number FROM {self.logs} WHERE id IN {_EACH}"
            numbers = {it for (it,) in connection.execute(there, (dump_json(names),))}
            numbers.update(self._begun(connection, names).values())
            sizes = [connection.execute(query, _bounds(it)).get for it in numbers]
            pages = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
        text = sum(it for it, _ in sizes)
        longest = max((it for _, it in sizes), default=0)
        return bool(longest > LONG_MESSAGE or text > _SHORT + pages // _SHARE)

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
            (number, line.sequence, self.searchable(before))
            for before, line in erased.changed
            if isinstance(before, self.message)
        ]

        def job(connection: apsw.Connection, cursor: int) -> None:
            self._empty(connection, messages)
            for table in ("requests", "requests_used_again"):
                connection.executemany(
                    f"UPDATE {table} SET hash = ? WHERE request_id = ? AND conversation_id = ?",
                    [(ANY_HASH, request, log) for request in erased.requests],
                )
            change(connection, cursor)

        self._database.writer.write(job, updates=updates, notices=[notice])
        hit("redact.indexed")
        self.purge_words(number)

    def purge_words(self, *numbers: int) -> None:
        """Drop the marked words of logs from the index's segments. Does nothing if none are
        marked.

        One merge purges the words of all logs of the kind. It runs in steps of some `_STEP`
        seconds, so that other writes take their turn in between. Words that are marked meanwhile
        are purged by another merge.
        """
        own = {self._purge_of(it) for it in numbers}
        query = "SELECT name, value FROM identity WHERE name GLOB ?"
        while own & (marks := dict(self._database.rows(query, (self._purge_of("*"),)))).keys():
            self._merge()
            self._database.execute(
                (
                    "DELETE FROM identity WHERE (name, value) IN"
                    " (SELECT value ->> 0, value ->> 1 FROM json_each(?))",
                    (dump_json([*marks.items()]),),
                )
            )

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

    def _marked(self, connection: apsw.Connection, numbers: Iterable[int]) -> list[int]:
        """Return those of these logs of which marked words are still there."""
        names = {self._purge_of(number): number for number in numbers}
        query = f"SELECT name FROM identity WHERE name IN {_EACH}"
        return [names[name] for (name,) in connection.execute(query, (dump_json([*names]),))]

    def _purge_of(self, number: int | str) -> str:
        """Return the name in `identity` that says that words of a log are marked and still
        there; of "*", the pattern of all of them.
        """
        return f"{self.prefix}words_to_purge {number}"

    def _empty(
        self,
        connection: apsw.Connection,
        messages: Collection[tuple[int, int, str]],
        *,
        mark: bool | None = None,
    ) -> None:
        """Take the words of messages out that stay (see `_take_out`)."""
        rows = self._take_out(connection, messages, mark)
        # Every message has a row there, without words too.
        connection.execute(
            f"INSERT INTO {self.words}(rowid, text) SELECT value ->> 0, '' FROM json_each(?)",
            (rows,),
        )

    def _take_out(
        self,
        connection: apsw.Connection,
        messages: Collection[tuple[int, int, str]],
        mark: bool | None,
    ) -> str:
        """Take messages with their words, which must be what was added, out of the table of words,
        those that the index has: number of the log, line and text. With `mark` the words are only
        marked; None: if one message is long. Return the messages as a document of rows: id, text,
        line and number.
        """
        numbers = {number for number, _, _ in messages}
        last = {number: self._wordless_line(connection, number) for number in numbers}
        if mark is None:
            mark = any(len(text) > LONG_MESSAGE for _, _, text in messages)
        # As one document: a statement for each message would take Python's global lock as often.
        document = dump_json(
            [
                (message_id(number, line), text if line > last[number] else "", line, number)
                for number, line, text in messages
            ]
        )
        with self._marking(connection, numbers, mark=mark):
            connection.execute(
                f"INSERT INTO {self.words}({self.words}, rowid, text)"
                " SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)"
                f" WHERE EXISTS (SELECT 1 FROM {self.messages} WHERE {self.has})",
                (document,),
            )
        return document

    def _wordless_line(self, connection: apsw.Connection, number: int) -> int:  # noqa: ARG002
        """Return the line up to which a log's messages have no words."""
        return 0

    @contextmanager
    def _marking(
        self, connection: apsw.Connection, numbers: Collection[int], *, mark: bool
    ) -> Iterator[None]:
        """Only mark the words of logs that the block deletes: `purge_words` must follow. Without
        `mark` they are edited out.
        """
        if not mark:
            yield
            return
        # In the transaction of the first markers: a start that follows a crash knows that words are
        # left to purge. Its value tells a purge whether some were marked since it began.
        connection.executemany(
            "INSERT OR REPLACE INTO identity VALUES(?, hex(randomblob(8)))",
            [(self._purge_of(it),) for it in numbers],
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


class Removal(WordRemoval):
    """Removal of conversations."""

    kind = Kind.CONVERSATION
    logs = "conversations"
    words = "turns_fts"
    messages = "messages"
    line = "id"
    of_log = "id > :first AND id <= :last"
    has = "id = value ->> 0"
    among = "id IN (SELECT value ->> 0 FROM json_each(?))"
    prefix = ""
    message = Message

    def __init__(self, database: Database, lengths: Lengths, tables: Tables) -> None:
        super().__init__(database)
        self._lengths = lengths
        self._tables = tables

    def _begun(self, connection: apsw.Connection, names: Sequence[str]) -> dict[str, int]:
        query = f"SELECT id, number FROM deletions WHERE id IN {_EACH}"
        rows = connection.execute(query, (dump_json(names),)).fetchall()
        return {str(name): cast(int, number) for name, number in rows}

    def _begin(self, connection: apsw.Connection, numbers: list[int]) -> Removed:
        removed = Counter(conversations=len(numbers))
        tables = list(_HANGING)
        for it in self._tables.derived:
            if it.count:
                removed.update(it.count(connection, numbers))
            tables += it.hanging
        own = dump_json(numbers)
        for table in tables:
            connection.execute(f"DELETE FROM {table} WHERE number IN {_EACH}", (own,))
        return removed

    def _note(self, connection: apsw.Connection, name: str, number: int) -> None:
        connection.execute("INSERT OR IGNORE INTO deletions VALUES(?, ?)", (number, name))

    def _end(self, connection: apsw.Connection, name: str, number: int) -> None:
        for table in ("wordless", "deletions"):
            connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
        self._want_rebuild(connection, name, number)

    def _forget_derived(self, connection: apsw.Connection, numbers: Mapping[str, int]) -> bool:
        removals = [it.remove for it in self._tables.derived if it.remove]
        own = [*numbers.values()]
        return any(remove(connection, own) for remove in removals)

    def _count_out(self, began: list[int], messages: int) -> None:
        for number in began:
            self._lengths.remove(number)
        self._lengths.count(-messages)

    def text_of(self, raw: bytes, sequence: int) -> str | None:
        """Return the text of a message as it was indexed, by its line; None of a damaged line."""
        text = spoken(raw, sequence)
        return None if text is None else searchable(self._tables.analysis, *text)

    def searchable(self, message: Message) -> str:
        """Return the text of a message as it is indexed."""
        return searchable_text(self._tables.analysis, message)

    def _wordless_line(self, connection: apsw.Connection, number: int) -> int:
        query = "SELECT line FROM wordless WHERE number = ?"
        return int(connection.execute(query, (number,)).get or 0)

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
            every = [(number, at, text) for at, text in messages]
            self._empty(connection, every, mark=mark)
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


def _bounds(number: int) -> dict[str, int]:
    """Return the values of `WordRemoval.of_log`."""
    first, last = id_range(number)
    return {"number": number, "first": first, "last": last}
