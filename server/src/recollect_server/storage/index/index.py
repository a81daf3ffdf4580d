"""The door of the index: what the floors above may ask of it, in their words. Errors of SQLite become IndexUnavailable here.

Each of its parts is a class beside the tables that it knows: `search`, `log`, `removal`, `routing`, `note_queue`, `external_index`,
`tier_log`. Here is what is left: conversations with their messages, requests, and how an append comes in.
"""

import itertools
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path

import apsw

from recollect_server.domain.conversation import Conversation
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index import conversations, notes_words, requests, turns
from recollect_server.storage.index.conversations import Filter, Stored
from recollect_server.storage.index.external_index import ExternalIndex
from recollect_server.storage.index.file import seal
from recollect_server.storage.index.incoming import Added, document_of, updates_of
from recollect_server.storage.index.lengths import Lengths
from recollect_server.storage.index.migrations import expected_tables
from recollect_server.storage.index.note_queue import NoteQueue
from recollect_server.storage.index.removal import Removal
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.index.routing import Routing
from recollect_server.storage.index.search import Searching
from recollect_server.storage.index.tier_log import TierLog
from recollect_server.storage.index.turns import Place
from recollect_server.storage.logs.lines import Line


class Index(Searching, Removal, NoteQueue, Routing, ExternalIndex, TierLog):
    """The index of one space. Safe to call from any thread."""

    def __init__(self, folder: Path, numbers_after: int = 0) -> None:
        """Opens or makes `conversations.db` in the folder. Raises IndexUnavailable with the reason, OSError.

        The numbers of new conversations come behind `numbers_after`, and behind all that were used.
        """
        super().__init__(folder)
        self._numbers_after = numbers_after
        self._closed = threading.Event()
        try:
            self._read_state()
        except BaseException:
            self.close()
            raise

    def _read_state(self) -> None:
        with self.reading() as connection:
            self._lengths = Lengths(connection)
            self._seen = requests.all_seen(connection)
            last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'conversations'").get
            self._numbers = itertools.count(max(int(last or 0), self._numbers_after) + 1)
            self._read_epoch(connection)

    def last_number(self) -> int:
        """No conversation has a higher number than this."""
        return next(self._numbers)

    # What is known ------------------------------------------------------------------------------------------------------

    def find(self, conversation_id: str) -> Stored | None:
        """A conversation with how far its transcript is indexed, or None."""
        with self.reading() as connection:
            return conversations.find(connection, conversation_id)

    def select(
        self, chosen: Filter, limit: int, after: tuple[int, str] | None = None, *, newest_first: bool = True
    ) -> list[Stored]:
        """Conversations by update time then id, behind the place `after`."""
        with self.reading() as connection:
            return conversations.select(connection, chosen, limit, after, newest_first=newest_first)

    def progress(self) -> dict[str, tuple[int, int]]:
        """How far every transcript is indexed: bytes and lines by conversation."""
        with self.reading() as connection:
            rows = connection.execute("SELECT c.id, p.bytes, p.lines FROM conversations c JOIN progress p USING (number)")
            return {row[0]: (row[1], row[2]) for row in rows}

    def numbers(self, conversation_ids: list[str]) -> dict[str, int]:
        """The numbers of those of the conversations that are indexed."""
        with self.reading() as connection:
            return conversations.numbers(connection, conversation_ids)

    def puts(self) -> int:
        """How many times something was put in, ever: it grows while appends come."""
        return self._database.puts

    def request(self, request_id: str) -> KnownRequest | None:
        """A request that was carried out before, or None."""
        if request_id not in self._seen:
            return None
        with self.reading() as connection:
            return requests.find(connection, request_id)

    def tail(
        self,
        number: int,
        *,
        before_turn: int,
        before_sequence: int,
        after_turn: int,
        max_turns: int,
        max_tokens: int,
        max_bytes: int,
    ) -> tuple[list[Place], bool, bool]:
        """The newest whole turns within the limits (see `turns.tail`), whether older messages exist, and whether one is cut."""
        with self.reading() as connection:
            return turns.tail(
                connection,
                number,
                before_turn=before_turn,
                before_sequence=before_sequence,
                after_turn=after_turn,
                max_turns=max_turns,
                max_tokens=max_tokens,
                max_bytes=max_bytes,
            )

    def page_of_turns(self, number: int, first: int, last: int, after: int, max_bytes: int) -> tuple[list[Place], bool]:
        """Where the messages of these turns are, within so many bytes (see `turns.page_of_turns`), and whether there are more."""
        with self.reading() as connection:
            return turns.page_of_turns(connection, number, first, last, after, max_bytes)

    def turn_places(self, number: int, first: int, last: int) -> list[Place]:
        """Where the messages of these turns are."""
        with self.reading() as connection:
            return turns.turn_places(connection, number, first, last)

    def count_through(self, number: int, turn: int) -> int:
        """How many messages a conversation has in its turns up to this one."""
        with self.reading() as connection:
            return turns.count_through(connection, number, turn)

    def places_of_turns(self, number: int, chosen: list[int], lines: list[int]) -> list[Place]:
        """Where the messages of these turns are, and of those that these lines are of, ascending."""
        with self.reading() as connection:
            wanted = sorted({*chosen, *turns.turns_of_lines(connection, number, lines)})
            return [place for turn in wanted for place in turns.turn_places(connection, number, turn, turn)]

    def places(self, number: int, first: int, last: int) -> list[Place]:
        """Where the messages of these lines are."""
        with self.reading() as connection:
            return turns.places(connection, number, first, last)

    def newest(self, number: int) -> tuple[Place, int, int] | None:
        """Where the newest message of a conversation is, with its turn and its time."""
        with self.reading() as connection:
            return turns.newest(connection, number)

    def problem(self) -> str:
        """Why the index cannot be used as it is, or nothing. Looks at the tables, not at every page."""
        with self.reading() as connection:
            found = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
            if missing := expected_tables() - found:
                return f"tables are missing: {', '.join(sorted(missing))}"
            if connection.execute("SELECT 1 FROM conversations WHERE number NOT IN (SELECT number FROM progress) LIMIT 1").get:
                return "of some conversations it does not say how far they are indexed"
            return str(connection.execute("SELECT value FROM identity WHERE name = 'rebuild_wanted'").get or "")

    def miscount(self) -> str:
        """Return how the numbers of rows contradict each other, or nothing. Appends and deletes that are done keep them equal."""
        with self.reading() as connection:
            expected = int(connection.execute("SELECT coalesce(sum(message_count), 0) FROM conversations").get)
            for table in ("messages", "turns_fts_docsize"):  # the second has a row for each message whose words are indexed
                rows = int(connection.execute(f"SELECT count(*) FROM {table}").get)
                if rows != expected:
                    return f"{table} has {rows} rows for {expected} messages"
        return ""

    # What changes -------------------------------------------------------------------------------------------------------

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
        mail: Collection[int] = (),
    ) -> tuple[int, int]:
        """Puts in the lines that follow what is indexed, to be taken in all or none; every later read sees them.

        `before` and `after` are what is known without and with them; `number` is None for a conversation that is not indexed
        yet. `mail` are the Message-IDs that the lines name (see `domain.routing.mail_ids_of`). `time` is now, for the update log;
        `log` False leaves that out (a rebuild: nobody's cursor reaches there). `failed` is called with the reason, from another
        thread, if they cannot be taken in. Returns the conversation's number and the cursor of its last update (0: none). Raises
        IndexUnavailable if nothing is taken in any more.
        """
        self._check()
        own = next(self._numbers) if number is None else number
        for line in lines:
            if line.entry is not None and line.entry.stamp.request_id:
                self._seen.add(line.entry.stamp.request_id)
        updates = updates_of(lines, time) if log else []
        for name in mail:
            self._seen.add(name)
        words: list[notes_words.Entry] | None = None
        if notes_words.have_changed(before, after):
            with self.reading(settled=False) as connection:  # only its tokeniser is used
                words = notes_words.entries_of(connection, after)
        build = partial(document_of, own, before, after, lines, updates, mail, words)
        news = Added(own, after, lines, updates) if updates else None
        cursor = self._database.put(build, lines[-1].end - lines[0].offset, len(updates), failed, news)
        hit("index.put")
        self._lengths.set(own, after.text_bytes, after.message_count - (before.message_count if before else 0))
        return own, cursor

    def want_rebuild(self, reason: str) -> None:
        """Lets the next start make the index anew."""
        self._database.write(
            lambda connection, _: connection.execute("INSERT OR REPLACE INTO identity VALUES('rebuild_wanted', ?)", (reason,))
        )

    def remember(self, request: KnownRequest) -> None:
        """Remembers a request that wrote no line. Raises IndexUnavailable."""
        self._seen.add(request.request_id)
        self._database.write(lambda connection, _: requests.add(connection, request))

    def want_abbreviation(self, number: int, request: KnownRequest | None) -> None:
        """Queues a conversation's abbreviation, and remembers the request that asked for it."""
        if request:
            self._seen.add(request.request_id)

        def job(connection: apsw.Connection, _: int) -> None:
            conversations.want_abbreviation(connection, number)
            if request:
                requests.add(connection, request)

        self._database.write(job)

    def want_notes(self, numbers: list[int], request: KnownRequest | None) -> None:
        """Queue the notes of conversations to be written anew, and remember the request that asked for it."""
        if request:
            self._seen.add(request.request_id)

        def job(connection: apsw.Connection, _: int) -> None:
            connection.executemany(
                "INSERT OR IGNORE INTO notes_wanted SELECT number FROM conversations WHERE number = ?", [(it,) for it in numbers]
            )
            if request:
                requests.add(connection, request)

        self._database.write(job)

    def settle(self) -> None:
        """Waits until everything that was added before is taken in, or was refused and its `failed` called."""
        self._database.settle()

    def close(self, *, sound: bool = False) -> None:
        """Closes the file. Closing twice is harmless. `sound`: it is known to be right, and is sealed if it can be."""
        if not self._closed.is_set():
            self._closed.set()
            self._database.close()
            if sound:
                with suppress(OSError):
                    seal(self._database.path.parent)
