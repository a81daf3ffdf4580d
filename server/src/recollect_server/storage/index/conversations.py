"""The rows of conversations: what is known of each without its messages, and the lists made of
them.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import orjson

from recollect_server.domain.conversation import NOBODY, Conversation, Party
from recollect_server.storage.index.columns import SELECT, conversation_of
from recollect_server.storage.index.database import Database

_FIND = (
    SELECT.replace(" FROM", ", c.open_calls IS NULL, p.bytes, p.lines FROM", 1)
    + " JOIN progress p ON p.number = c.number WHERE c.id = ?"
)


class Outline(NamedTuple):  # made by the hundred: cheaper than a frozen dataclass
    """Facts about a conversation that a search needs."""

    number: int
    id: str
    create_time: int
    message_count: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Filter of conversations; every part that is set must match. Times in milliseconds,
    `updated_before` excluded.
    """

    channels: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    participants: tuple[str, ...] = ()
    party: Party = NOBODY
    pinned: bool | None = None
    updated_after: int | None = None
    updated_before: int | None = None
    title: str = ""
    notes_failed: bool | None = None
    conversation_id: str = ""
    conversation_ids: tuple[str, ...] = ()
    identities: tuple[tuple[str, str], ...] = ()
    """Channels and addresses there that count as participants."""

    def with_identities(self, identities: tuple[tuple[str, str], ...]) -> "Filter":
        """The same, where these count as participants too."""
        return replace(self, identities=identities)

    def where(self) -> tuple[str, list[Any]]:
        """A condition over `conversations c`, and its values."""
        parts: list[str] = []
        values: list[Any] = []

        def add(condition: str, *parameters: object) -> None:
            parts.append(condition)
            values.extend(parameters)

        if self.conversation_id:
            add("c.id = ?", self.conversation_id)
        if self.conversation_ids:
            add(
                "c.id IN (SELECT value FROM json_each(?))",
                orjson.dumps(self.conversation_ids).decode(),
            )
        if self.channels:
            add(f"c.channel IN ({_marks(self.channels)})", *self.channels)
        if self.topics:
            add(
                f"c.number IN (SELECT number FROM topics WHERE topic IN ({_marks(self.topics)}))",
                *self.topics,
            )
        if self.participants:
            found = [
                f"SELECT number FROM participants WHERE participant IN ({_marks(self.participants)})"
            ]
            values.extend(self.participants)
            if self.identities:
                pairs = orjson.dumps(self.identities).decode()
                found.append(
                    "SELECT p.number FROM json_each(?) j JOIN participants p ON p.participant = j.value ->> 1"
                    " JOIN conversations x ON x.number = p.number AND x.channel = j.value ->> 0"
                )
                found.append(
                    "SELECT x.number FROM json_each(?) j JOIN conversations x"
                    " ON x.contact = j.value ->> 1 AND x.channel = j.value ->> 0 AND x.contact <> ''"
                )
                values.extend((pairs, pairs))
            add(f"c.number IN ({' UNION ALL '.join(found)})")
        for column in ("contact", "group_id", "thread_id", "subject"):
            if value := getattr(self.party, column):
                add(f"c.{column} = ?", value)
        if self.pinned is not None:
            add("c.pinned = ?", int(self.pinned))
        if self.notes_failed is not None:
            add("c.needs_abbreviation <> ''" if self.notes_failed else "c.needs_abbreviation = ''")
        if self.updated_after is not None:
            add("c.update_time >= ?", self.updated_after)
        if self.updated_before is not None:
            add("c.update_time < ?", self.updated_before)
        if self.title:
            # instr, not LIKE: no character of the text is a pattern. Lower case on both sides, by
            # SQLite for ASCII alone.
            add("instr(casefold(c.title), ?) > 0", self.title.casefold())
        return " AND ".join(parts) or "1", values


@dataclass(frozen=True, slots=True)
class Stored:
    """A conversation in the index: its number here, and how far its transcript is indexed."""

    number: int
    conversation: Conversation
    bytes: int = 0
    lines: int = 0
    calls_unknown: bool = False
    """True if an earlier version indexed it, which did not note its unanswered tool calls."""

    @property
    def state(self) -> Conversation:
        """Return the state of the log, as every stored log has it."""
        return self.conversation


def _marks(values: tuple[str, ...]) -> str:
    return ", ".join("?" * len(values))


class ConversationTable:
    """The indexed conversations. Every method raises IndexUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, conversation_id: str) -> Stored | None:
        """Return a conversation with the indexed length of its transcript, or None."""
        with self._database.reading() as connection:
            row = connection.execute(_FIND, (conversation_id,)).fetchone()
            return (
                None
                if row is None
                else Stored(
                    row[0], conversation_of(row), row[-2], row[-1], calls_unknown=bool(row[-3])
                )
            )

    def select(
        self,
        chosen: Filter,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        newest_first: bool = True,
    ) -> list[Stored]:
        """Return the conversations that match, by update time then id, behind the place `after` =
        (update_time, id).

        Not by number: a new index gives other numbers, and the same answers.
        """
        where, values = chosen.where()
        order, comparison = ("DESC", "<") if newest_first else ("ASC", ">")
        if after is not None:
            where += f" AND (c.update_time, c.id) {comparison} (?, ?)"
            values += after
        query = f"{SELECT} WHERE {where} ORDER BY c.update_time {order}, c.id {order} LIMIT ?"
        with self._database.reading() as connection:
            return [
                Stored(row[0], conversation_of(row))
                for row in connection.execute(query, (*values, limit))
            ]

    def by_number(self, numbers: set[int]) -> dict[int, Conversation]:
        """Return the conversations of these numbers, without those that are gone."""
        with self._database.reading() as connection:
            query = f"{SELECT} WHERE c.number IN (SELECT value FROM json_each(?))"
            return {
                row[0]: conversation_of(row)
                for row in connection.execute(query, (orjson.dumps(list(numbers)).decode(),))
            }

    def outlines(self, numbers: Collection[int]) -> dict[int, Outline]:
        """Return the outlines of the conversations of these numbers, without those that are
        gone.
        """
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT json_group_array(json_array(number, id, create_time, message_count)) FROM conversations"
                " WHERE number IN (SELECT value FROM json_each(?))",
                (orjson.dumps(list(numbers)).decode(),),
            ).get
        return {row[0]: Outline(*row) for row in orjson.loads(rows)}

    def numbers(self, conversation_ids: list[str]) -> dict[str, int]:
        """Return the numbers of those of the conversations that are indexed."""
        with self._database.reading() as connection:
            query = (
                "SELECT id, number FROM conversations WHERE id IN (SELECT value FROM json_each(?))"
            )
            return {
                row[0]: row[1]
                for row in connection.execute(query, (orjson.dumps(conversation_ids).decode(),))
            }

    def progress(self) -> dict[str, tuple[int, int]]:
        """Return the indexed length of every transcript by conversation: bytes and lines."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT c.id, p.bytes, p.lines FROM conversations c JOIN progress p USING (number)"
            )
            return {row[0]: (row[1], row[2]) for row in rows}
