"""The log of changes: read by position, announced as it grows, and kept within bounds."""

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.index import updates
from recollect_server.kernel.index.columns import UpdateRow
from recollect_server.kernel.index.conversations import ConversationTable
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import KindTable
from recollect_server.kernel.index.messages import MessageTable, Place


@dataclass(frozen=True, slots=True)
class Changes:
    """A part of the log, at one moment."""

    last: int
    """Nothing is behind this cursor, at that moment."""
    more: bool
    """True if there may be more changes behind the last of the rows."""
    rows: list[UpdateRow]
    states: Mapping[int, Any]
    """Those of the rows, by number, but for deleted ones."""
    starts: dict[int, Place]
    """By number, the message at or before the first line of the log's rows: where to begin to read.
    None: at the top.
    """


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest conversations, and where the newest turns of the loaded one are, at one moment: at
    the cursor.
    """

    cursor: int
    conversations: list[Conversation]
    loaded: Conversation | None
    """None: no conversation was chosen."""
    places: list[Place]
    has_more: bool


class IndexLog:
    """The update log of an open index."""

    def __init__(
        self,
        database: Database,
        conversations: ConversationTable,
        messages: MessageTable,
        kinds: Iterable[KindTable[Any, Any]],
    ) -> None:
        self._database = database
        self._conversations = conversations
        self._messages = messages
        self._kinds = {it.kind: it for it in kinds}
        self.epoch = ""
        """Names this index among those that were made: a cursor of another one means nothing
        here.
        """
        with database.reading() as connection:
            self._read_epoch(connection)

    def _read_epoch(self, connection: apsw.Connection) -> None:
        self.epoch = str(connection.execute("SELECT value FROM identity WHERE name = 'epoch'").get)

    def claim_file(self, *, copied: bool) -> None:
        """Bind the epoch to this very file: a copy of it (`copied`, or another inode than recorded)
        gets a new epoch.

        Cursors of the original name changes that the copy may never have had.
        """
        inode = str(self._database.path.stat().st_ino)
        recorded = self._database.value("SELECT value FROM identity WHERE name = 'inode'")
        if recorded == inode and not copied:
            return

        def job(connection: apsw.Connection, _: int) -> None:
            if copied or recorded not in (None, inode):
                connection.execute(
                    "INSERT OR REPLACE INTO identity VALUES('epoch', ?)", (secrets.token_hex(6),)
                )
            connection.execute("INSERT OR REPLACE INTO identity VALUES('inode', ?)", (inode,))

        self._database.write(job)
        with self._database.reading() as connection:
            self._read_epoch(connection)

    def reaches_back_to(self, cursor: int, kind: Kind) -> bool:
        """Return whether every change of a kind of log behind a cursor is still here."""
        with self._database.reading(settled=False) as connection:
            return updates.reaches_back_to(connection, cursor, kind)

    def cursor_text(self, cursor: int) -> str:
        """Return a position in the log in the form that callers see, bound to this index."""
        return f"{self.epoch}-{cursor}" if cursor else ""  # as `Mark.numbered` writes it

    def last_cursor(self) -> int:
        """Return the cursor of the log's end, including everything that was added before this
        call.
        """
        with self._database.reading() as connection:
            return updates.last(connection)

    def changed_after(self, cursor: int) -> tuple[list[str] | None, int]:
        """Return the existing conversations that the log names behind a cursor, and the cursor of
        its end; None for the conversations if rows behind the cursor are pruned or lost.
        """
        with self._database.reading() as connection:
            end = max(cursor, updates.last(connection))
            if not updates.reaches_back_to(connection, cursor, Kind.CONVERSATION):
                return None, end
            query = (
                "SELECT DISTINCT c.id FROM updates u JOIN conversations c USING (number)"
                " WHERE u.cursor > ? AND u.cursor <= ? AND u.kind = ?"
            )
            rows = connection.execute(query, (cursor, end, Kind.CONVERSATION))
            return [row[0] for row in rows], end

    def changes(
        self,
        cursor: int,
        kind: Kind,
        limit: int,
        max_bytes: int,
    ) -> Changes:
        """Return the oldest changes of a kind of log behind a cursor (see `Changes`).

        Their messages have `max_bytes` together, unless those of the first change have more.

        Lines that are queued and not written yet are not among them; they are delivered later.
        """
        other = self._kinds.get(kind)
        logs, messages = other or self._conversations, other or self._messages
        with self._database.moment() as connection:
            last = updates.last(connection)
            rows = updates.after(connection, cursor, kind, limit)
            states = logs.by_number({row.number for row in rows})
            fitting = _within(rows, messages, max_bytes)
            first = {row.number: row.first for row in reversed(fitting)}
            starts = {
                n: place
                for n, sequence in first.items()
                if n in states and (place := messages.newest_through(n, sequence))
            }
            more = len(rows) == limit or len(fitting) < len(rows)
            return Changes(last, more, fitting, states, starts)

    def newest_conversations(
        self,
        listed: Filter,
        limit: int,
        *,
        loaded: Filter,
        max_turns: int,
        max_tokens: int,
        max_bytes: int,
    ) -> Newest:
        """Return the newest conversations of a filter and the working context of the newest one of
        another, at one moment.
        """
        with self._database.moment(settled=True) as connection:
            rows = self._conversations.select(listed, limit)
            first = rows[:1] if loaded == listed else self._conversations.select(loaded, 1)
            places: list[Place] = []
            more = False
            if first:
                places, more, _ = self._messages.tail(
                    first[0].number,
                    before_turn=0,
                    after_turn=first[0].state.compressed_through,
                    max_turns=max_turns,
                    max_tokens=max_tokens,
                    max_bytes=max_bytes,
                )
            newest = first[0].state if first else None
            return Newest(
                updates.last(connection),
                [stored.state for stored in rows],
                newest,
                places,
                more,
            )

    def prunable(self, kind: Kind, before: int, most: int) -> int:
        """Return the cursor up to which the changes of a kind of log may be pruned: those older
        than a time, or beyond the newest `most`; 0: none.
        """
        with self._database.reading() as connection:
            return updates.prunable(connection, kind, before, most)

    def oldest(self) -> int:
        """Return the time of the oldest change, in milliseconds; 0 without any."""
        oldest = "SELECT time FROM updates ORDER BY cursor LIMIT 1"
        return int(self._database.value(oldest) or 0)

    def prune(self, kind: Kind, through: int, limit: int) -> int:
        """Remove at most `limit` of the oldest changes of a kind of log up to a cursor, and return
        their number.
        """
        return self._database.write(
            lambda connection, _: updates.prune(connection, kind, through, limit)
        )


def _within(
    rows: list[UpdateRow], messages: MessageTable | KindTable[Any, Any], max_bytes: int
) -> list[UpdateRow]:
    """Return the first of these changes whose messages have `max_bytes` together, at least one."""
    total = 0
    for at, row in enumerate(rows):
        total += messages.bytes_of_lines(row.number, row.first, row.last) if row.first else 0
        if at and total > max_bytes:
            return rows[:at]
    return rows
