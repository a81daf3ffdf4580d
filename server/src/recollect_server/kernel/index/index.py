"""The index of one space: its parts, its write path and its life from opening to closing.

Each append comes in as one JSON document, which the view `incoming` takes in.
"""

import errno
import itertools
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import apsw
import orjson

from recollect_server.kernel.domain.conversation import (
    NO_RECORD,
    Abbreviated,
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
from recollect_server.kernel.domain.errors import IndexUnavailable
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index import requests
from recollect_server.kernel.index.columns import CONVERSATIONS
from recollect_server.kernel.index.conversations import ConversationTable, Lengths
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Analysis, Derived, Erased, KindTable, Tables
from recollect_server.kernel.index.file import seal
from recollect_server.kernel.index.log import IndexLog
from recollect_server.kernel.index.messages import MessageTable, row_of, searchable_text
from recollect_server.kernel.index.migrations import expected_tables
from recollect_server.kernel.index.removal import WANT_REBUILD, Removal, forget_derived
from recollect_server.kernel.index.requests import RequestTable
from recollect_server.kernel.index.updates import Added, Update
from recollect_server.kernel.log.lines import Line, contents_of


class Index(Database):
    """The index of one space. Safe to call from any thread.

    Its parts answer queries and write what no transcript says; lines of conversations come in by
    `add`, those of other kinds by the table of theirs in `kinds`.
    """

    def __init__(self, folder: Path, tables: Tables, numbers_after: int = 0) -> None:
        """Open or make `conversations.db` in the folder, with the tables of features. Raise
        OSError.

        The numbers of new conversations come behind `numbers_after`, and behind all that were used.
        """
        super().__init__(folder, tables.schema)
        self.tables = tables
        self._closed = threading.Event()
        try:
            with self.reading() as connection:
                self.lengths = Lengths(connection)
                """Of conversations: what BM25 of them needs."""
                self.names = requests.all_names(connection, tables.names)
                """Names that may be in the index."""
                last = connection.execute(
                    "SELECT seq FROM sqlite_sequence WHERE name = 'conversations'"
                ).get
            self._numbers = itertools.count(max(int(last or 0), numbers_after) + 1)
            self.conversations = ConversationTable(self)
            self.messages = MessageTable(self)
            self.kinds: dict[Kind, KindTable[Any, Any]] = {
                it.kind: it(self, self.names) for it in tables.kinds
            }
            """Logs of the kinds that features bring."""
            self.log = IndexLog(self, self.conversations, self.messages, self.kinds.values())
        except BaseException:
            self.close()
            raise
        self.requests = RequestTable(self, self.names)
        self.removal = Removal(self, self.lengths, tables)

    def stored(self) -> tuple[int, int]:
        """Return the number of conversations, and the bytes of all logs that are indexed."""
        conversations, stored = self.value("SELECT count(*), coalesce(sum(bytes), 0) FROM progress")
        return int(conversations), int(stored) + sum(it.bytes() for it in self.kinds.values())

    # Additions ------------------------------------------------------------------------------------

    def add(
        self,
        number: int | None,
        before: Conversation | None,
        after: Conversation,
        lines: list[Line],
        *,
        time: int,
        failed: Callable[[str], None],
        log: bool = True,
    ) -> tuple[int, int]:
        """Queue the lines that follow what is indexed, to be taken in all or none; every later read
        sees them.

        `before` and `after` are the conversation without and with them; `number` is None for one
        that is not indexed yet. `time` is now, for the update log; `log` False leaves that out (a
        rebuild: nobody's cursor reaches there). `failed` is called with the reason, from another
        thread, if they cannot be taken in. Return the conversation's number and the cursor
        of its last update (0: none).
        """
        self.check()
        tables = self.tables
        own = next(self._numbers) if number is None else number
        self.names.add_requests(lines)
        updates = updates_of(lines, time) if log else []
        derived = self._derived(after, lines)
        for names_of in filter(None, map(attrgetter("names_of"), derived)):
            for name in names_of(contents_of(lines)):
                self.names.add(name)
        entries: list[tuple[str, int]] | None = None
        if have_notes_changed(before, after):
            with self.reading(settled=False) as connection:  # only its tokeniser is used
                entries = tables.analysis.notes(connection, after)
        build = partial(
            document_of, tables.analysis, own, before, after, lines, updates, derived, entries
        )
        notice = Added(Kind.CONVERSATION, after, lines, updates) if updates else None
        cursor = self.writer.put(
            own, build, lines[-1].end - lines[0].offset, len(updates), failed, notice
        )
        hit("index.put")
        self.lengths.set(
            own, after.text_bytes, after.message_count - (before.message_count if before else 0)
        )
        return own, cursor

    def redact(
        self,
        number: int,
        before: Conversation,
        after: Conversation,
        line: Line,
        erased: Erased,
        *,
        time: int,
    ) -> int:
        """Take the text of messages out, durably, and take in the line that says so. Return its
        cursor.

        `before` is the conversation as it is indexed, `after` as its transcript is now.
        """
        tables = self.tables
        entries: list[tuple[str, int]] | None = None
        if have_notes_changed(before, after):
            with self.reading() as connection:
                entries = tables.analysis.notes(connection, after)
        updates = updates_of([line], time)
        derived = self._derived(after, [line])
        self.names.add_requests([line])
        cursors: list[int] = []

        def change(connection: apsw.Connection, cursor: int) -> None:
            document = document_of(
                tables.analysis, number, before, after, [line], updates, derived, entries, cursor
            )
            forget_derived(connection, number, before, after, erased, tables.derived, document)
            cursors.append(cursor + len(updates))

        notice = Added(Kind.CONVERSATION, after, [line], updates)
        self.removal.redact(number, after.id, erased, change, len(updates), notice)
        self.lengths.set(number, after.text_bytes, 0)
        return cursors[0]

    def _derived(self, after: Conversation, lines: list[Line]) -> list[Derived]:
        """Return the tables that lines of a conversation concern."""
        kinds: set[type] = set()
        for line in lines:
            if line.entry is not None:
                kinds.add(type(line.entry.content))
        concerned: list[Derived] = []
        for it in self.tables.derived:
            if it.channel in ("", after.channel) and not (
                it.contents and it.contents.isdisjoint(kinds)
            ):
                concerned.append(it)  # noqa: PERF401 - a comprehension is one call more
        return concerned

    def settle(self) -> None:
        """Wait until everything that was added before is taken in, or was refused and its `failed`
        called.
        """
        self.writer.settle()

    def taken(self) -> tuple[int, int]:
        """Return how many additions are taken in or were refused, and how many were put in: both
        only grow.
        """
        return self.writer.taken, self.writer.puts

    def last_number(self) -> int:
        """Return a number above those of all conversations."""
        return next(self._numbers)

    # Condition ------------------------------------------------------------------------------------

    def problem(self) -> str:
        """Return why the index cannot be used as it is, or nothing. Looks at the tables, not at
        every page.
        """
        with self.reading() as connection:
            tables = {
                row[0]
                for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            }
            if missing := expected_tables(self.tables.schema) - tables:
                return f"tables are missing: {', '.join(sorted(missing))}"
            if connection.execute(
                "SELECT 1 FROM conversations WHERE number NOT IN (SELECT number FROM progress) LIMIT 1"
            ).get:
                return "of some conversations it does not say how far they are indexed"
            return str(
                connection.execute("SELECT value FROM identity WHERE name = 'rebuild_wanted'").get
                or ""
            )

    def miscount(self) -> str:
        """Return how the numbers of rows contradict each other, or nothing. Appends and deletes
        that are done keep them equal.
        """
        expected = self.value("SELECT coalesce(sum(message_count), 0) FROM conversations")
        # the second has a row for each message whose words are indexed
        for table in ("messages", "turns_fts_docsize"):
            if (rows := self.value(f"SELECT count(*) FROM {table}")) != expected:
                return f"{table} has {rows} rows for {expected} messages"
        return ""

    def condemn(self, reason: str) -> None:
        """Mark the index as lost, here and for the next start: its content is wrong, and may have
        words that nobody can name any more. It goes on until it is given up.
        """
        self.writer.damage = reason
        with suppress(IndexUnavailable):
            self.want_rebuild(reason)

    def want_rebuild(self, reason: str) -> None:
        """Let the next start make the index anew."""
        self.execute((WANT_REBUILD, (reason,)))

    def timeline(self) -> str:
        """Return the history of a shared store that the index follows (see
        `kernel.log.store.timeline_of`); empty if that was never noted.
        """
        return str(self.value("SELECT value FROM identity WHERE name = 'timeline'") or "")

    def note_timeline(self, timeline: str) -> None:
        """Note that the index has nothing that is not in this history."""
        if timeline != self.timeline():
            self.execute(("INSERT OR REPLACE INTO identity VALUES('timeline', ?)", (timeline,)))

    def rest(self) -> None:
        """Take in what is queued, and close and seal the file until it is used again. No call may
        be under way, and the index is known to be right.

        What is added meanwhile waits for company for some seconds. Raise OSError of the seal; then
        it rests all the same. Raise IndexUnavailable if the writer had stopped.
        """
        super().rest()
        self._seal()

    def _seal(self) -> None:
        """Seal the file, which is closed. Raises OSError, also if another file has its name now:
        that is not this server's to seal.
        """
        if reason := self.writer.moved():
            raise OSError(errno.ESTALE, reason)
        seal(self.folder)

    def waiting(self) -> tuple[int, int]:
        """Return the number of additions that wait to be taken in, and their size in bytes."""
        return self.writer.waiting()

    def close(self, *, sound: bool = False) -> bool:
        """Close the file. Closing twice is harmless. A `sound` one is known to be right, and is
        sealed if it can be, unless it lacks something that was queued: then return False.
        """
        if self._closed.is_set():
            return True
        self._closed.set()
        is_whole = super().close()
        if sound and is_whole and not self.writer.is_resting:  # then it is sealed
            with suppress(OSError):
                self._seal()
        return is_whole


_LOGGED = (
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


def document_of(
    analysis: Analysis,
    number: int,
    before: Conversation | None,
    after: Conversation,
    lines: list[Line],
    updates: list[Update],
    derived: Iterable[Derived],
    words: list[tuple[str, int]] | None,
    cursor: int,
) -> str:
    """Return the document for these lines of a conversation.

    `before` and `after` are the conversation without and with them; `derived` the tables of
    features that they concern; `words` those of its notes, where they changed; `cursor` is the
    one before that of the first of the `updates`.
    """
    # A new index reads a whole transcript at once: one that ends up unindexed never gets words.
    is_wordless = before is None and after.unindexed
    notes = (after.abbreviation, after.compression_summary)
    old_notes = (before.abbreviation, before.compression_summary) if before else ("", "")
    records = (after.abbreviation_record, after.title_record)
    old_records = (
        (before.abbreviation_record, before.title_record) if before else (NO_RECORD, NO_RECORD)
    )
    name, old_name = after.party.contact_name, before.party.contact_name if before else ""
    sections: dict[str, object] = {
        "conversation": (number, *CONVERSATIONS.values(after)),
        "messages": [
            (
                *row_of(number, line, message),
                "" if is_wordless else searchable_text(analysis, message),
            )
            for line in lines
            if line.entry is not None and isinstance(message := line.entry.content, Message)
        ],
        "updates": updates,
        "cursor": cursor,
        # with which of the updates, from 1, is the last that began with the request or before
        "requests": [
            (*request, bisect_right(updates, request[3], key=itemgetter(1)))
            for request in requests.carried_by(lines)
        ],
        "progress": (lines[0].offset, lines[-1].end, lines[-1].sequence),
        "wordless": lines[-1].sequence if is_wordless else None,
        "notes": notes if notes != old_notes else None,
        "records": [value for it in records for value in (it.writer, it.model, it.time)]
        if records != old_records
        else None,
        "words": words,
        "contactName": name if name not in ("", old_name) else None,
    }
    contents = contents_of(lines)
    for it in derived:
        sections |= it.sections(before, after, lines, contents)
    # A trigger takes a section that is there, were it null.
    present = {key: section for key, section in sections.items() if section is not None}
    return orjson.dumps(present).decode()


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
            case content if isinstance(content, _LOGGED):
                updates.append([time, line.sequence, line.sequence])
                are_messages = False
            case _:
                pass
    return updates
