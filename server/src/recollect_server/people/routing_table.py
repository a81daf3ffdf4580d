"""Routes of channels' messages, as the index knows them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import apsw
import orjson

from recollect_server.kernel.domain.conversation import CommandRun, Continued, Conversation
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Derived, Erased, Expected
from recollect_server.kernel.index.file import look
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.requests import SeenNames
from recollect_server.kernel.log.lines import Line, contents_of
from recollect_server.people.routing import Place, mail_ids_of
from recollect_server.text.addresses import EMAIL

_LEDGER = "forgotten_bytes"  # in `identity`: how much of the ledger is in the table
_MAX_LIMITED = 1000  # senders that are named at the most


class Routing:
    """The conversations that messages of channels belong to.

    `settled` False reads what is taken in now, without waiting: the caller knows what was added
    last.
    """

    def __init__(self, database: Database, filter_of_names: SeenNames) -> None:
        self._database = database
        self._names = filter_of_names

    def pinned(self, place: Place, *, settled: bool) -> list[str]:
        """Return the pinned conversations of a place, newest first. Only a crash leaves more than
        one.
        """
        with self._database.reading(settled=settled) as connection:
            rows = connection.execute(
                "SELECT id FROM conversations WHERE pinned = 1 AND channel = ? AND contact = ? AND group_id = ? AND thread_id = ?"
                " ORDER BY id DESC",
                (place.channel, place.contact, place.group_id, place.thread_id),
            )
            return [row[0] for row in rows]

    def mail(self, names: Iterable[int], *, settled: bool) -> list[str]:
        """Return the conversations of these Message-IDs (see `people.routing.mail_number`)."""
        possible = [name for name in names if name in self._names]
        if not possible:
            return []
        with self._database.reading(settled=settled) as connection:
            rows = connection.execute(
                "SELECT c.id FROM json_each(?) j CROSS JOIN mail m ON m.name = j.value JOIN conversations c USING (number)",
                (orjson.dumps(possible).decode(),),
            )
            return [row[0] for row in rows]

    def continued(self, conversation_id: str, *, settled: bool) -> str | None:
        """Return the conversation that receives this one's messages; None if it is the same."""
        with self._database.reading(settled=settled) as connection:
            following: str | None = connection.execute(
                "SELECT k.id FROM conversations c JOIN continued k USING (number) WHERE c.id = ?",
                (conversation_id,),
            ).get
            return following

    def is_forgotten(self, key: str) -> bool:
        """Return whether this message of a provider was in a conversation that was deleted."""
        if key not in self._names:
            return False
        query = "SELECT EXISTS(SELECT 1 FROM forgotten WHERE key = ?)"
        return bool(self._database.value(query, (key,), settled=False))

    def forget_deliveries(self, keys: Iterable[str], size: int) -> None:
        """Record messages whose conversation is deleted: then the index has `size` bytes of the
        ledger.
        """
        keys = list(keys)
        for key in keys:
            self._names.add(key)

        def job(connection: apsw.Connection, _: int) -> None:
            connection.executemany(
                "INSERT OR IGNORE INTO forgotten VALUES(?)", ((key,) for key in keys)
            )
            connection.execute("INSERT OR REPLACE INTO identity VALUES(?, ?)", (_LEDGER, str(size)))

        self._database.write(job)

    def forgotten_bytes(self) -> int:
        """Return the number of bytes known of the ledger."""
        return int(
            self._database.value("SELECT value FROM identity WHERE name = ?", (_LEDGER,)) or 0
        )

    def note_limited(self, channel: str, sender: str, refused: int, time: int) -> None:
        """Count messages of a sender that came too fast. The newest senders are kept."""

        def job(connection: apsw.Connection, _: int) -> None:
            connection.execute(
                "INSERT INTO limited VALUES(?, ?, ?, ?) ON CONFLICT(channel, sender)"
                " DO UPDATE SET refused = refused + excluded.refused, time = excluded.time",
                (channel, sender, refused, time),
            )
            connection.execute(
                "DELETE FROM limited WHERE (channel, sender) IN"
                " (SELECT channel, sender FROM limited ORDER BY time DESC LIMIT -1 OFFSET ?)",
                (_MAX_LIMITED,),
            )

        self._database.write(job)


def routing_of(index: Index) -> Routing:
    """Return the routes that an index knows."""
    return Routing(index, index.names)


def _mail_sections(
    _before: Conversation | None,
    _after: Conversation,
    _lines: list[Line],
    contents: list[object],
) -> Mapping[str, object]:
    return {"mail": list(mail_ids_of(contents)) or None}


def _forget_mail(connection: apsw.Connection, number: int, erased: Erased) -> None:
    left = mail_ids_of(contents_of(erased.lines))
    connection.execute(
        "DELETE FROM mail WHERE number = ? AND name NOT IN (SELECT value FROM json_each(?))",
        (number, orjson.dumps(list(left)).decode()),
    )


def _mail_differences(expected: Expected) -> Iterator[str]:
    is_mail = expected.state is not None and expected.state.channel == EMAIL
    mail = mail_ids_of(contents_of(expected.lines)) if is_mail else set()
    rows = expected.database.rows("SELECT name FROM mail WHERE number = ?", (expected.number,))
    if {row[0] for row in rows} != mail:
        yield "the index leads other messages to it than the transcript"


MAIL = Derived(
    sections=_mail_sections,
    contents=frozenset({Message, CommandRun}),
    channel=EMAIL,
    hanging=("mail",),
    names="SELECT name FROM mail UNION ALL SELECT key FROM forgotten",
    names_of=mail_ids_of,
    forget=_forget_mail,
    differences=_mail_differences,
)
"""Conversations by the Message-IDs that lead to them. Its names are those of forgotten
deliveries too.
"""


def _successor(contents: list[object]) -> str:
    """Return the conversation that goes on for one, by what it says; empty: none does."""
    names = [it.conversation_id for it in contents if isinstance(it, Continued)]
    return names[-1] if names else ""


def _continued_sections(
    _before: Conversation | None,
    _after: Conversation,
    _lines: list[Line],
    contents: list[object],
) -> Mapping[str, object]:
    return {"continued": _successor(contents) or None}


def _continued_differences(expected: Expected) -> Iterator[str]:
    query = "SELECT id FROM continued WHERE number = ?"
    if (expected.database.value(query, (expected.number,)) or "") != _successor(
        contents_of(expected.lines)
    ):
        yield "the index leads other messages to it than the transcript"


CONTINUED = Derived(
    sections=_continued_sections,
    contents=frozenset({Continued}),
    hanging=("continued",),
    differences=_continued_differences,
)
"""Conversations that go on for others."""


@dataclass(frozen=True, slots=True)
class Limited:
    """A sender that wrote faster than allowed: how many messages were refused, and when the last
    time.
    """

    channel: str
    sender: str
    refused: int
    time: int


def limited_of(folder: Path, most: int) -> tuple[int, list[Limited]]:
    """Return the number of limited senders, and those with the most refusals, without taking the
    index from a server that runs.
    """

    def read(connection: apsw.Connection) -> tuple[int, list[Limited]]:
        count = int(connection.execute("SELECT count(*) FROM limited").get)
        query = "SELECT channel, sender, refused, time FROM limited ORDER BY refused DESC, channel, sender LIMIT ?"
        return count, [Limited(*row) for row in connection.execute(query, (most,))]

    nobody: tuple[int, list[Limited]] = (0, [])
    return look(folder, read, nobody)
