"""Routes of channels' messages: what the index knows of them, and which conversation takes a
message that comes in.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw
import orjson

from recollect_server.kernel.domain.conversation import (
    Began,
    CommandRun,
    Continued,
    Conversation,
    MetaUpdated,
)
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import Derived, Erased, Expected
from recollect_server.kernel.index.file import look
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.requests import SeenNames
from recollect_server.kernel.log.lines import Line, contents_of
from recollect_server.kernel.log.store import has_conversation
from recollect_server.kernel.space.events import Appended, CaughtUp
from recollect_server.kernel.space.projection import Key, Overlay
from recollect_server.kernel.space.space import Space
from recollect_server.people.routing import Place, mail_ids_of, place_of
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
        self._database.execute(
            (
                "INSERT OR IGNORE INTO forgotten SELECT value FROM json_each(?)",
                (orjson.dumps(keys).decode(),),
            ),
            ("INSERT OR REPLACE INTO identity VALUES(?, ?)", (_LEDGER, str(size))),
        )

    def forgotten_bytes(self) -> int:
        """Return the number of bytes known of the ledger."""
        return int(
            self._database.value("SELECT value FROM identity WHERE name = ?", (_LEDGER,)) or 0
        )

    def note_limited(self, channel: str, sender: str, refused: int, time: int) -> None:
        """Count messages of a sender that came too fast. The newest senders are kept."""
        self._database.execute(
            (
                "INSERT INTO limited VALUES(?, ?, ?, ?) ON CONFLICT(channel, sender)"
                " DO UPDATE SET refused = refused + excluded.refused, time = excluded.time",
                (channel, sender, refused, time),
            ),
            (
                "DELETE FROM limited WHERE (channel, sender) IN"
                " (SELECT channel, sender FROM limited ORDER BY time DESC LIMIT -1 OFFSET ?)",
                (_MAX_LIMITED,),
            ),
        )


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


_MAX_STEPS = 1000  # from one conversation to the one that continues it


class Routes:
    """Routes of messages that come in over channels. Safe to call from any thread; what reads them
    raises DataUnavailable.

    A message that comes in must be routed at once, and an index that is asked waits until it has
    taken in everything that was added before. So it is asked for what it has, without waiting, and
    the overlay, which is asked before it, has what was added since.
    """

    def __init__(
        self,
        index: Callable[[], Index],
        overlay: Overlay,
        exists: Callable[[str], bool],
        is_pinned: Callable[[str], bool],
    ) -> None:
        """`index` returns the one that is used now. `exists` tells whether there is a conversation
        of that id.

        `is_pinned` tells whether there is, and it is known to be pinned: nothing continues it then.
        """
        self._index = index
        self._overlay = overlay
        self._exists = exists
        self._is_pinned = is_pinned

    @classmethod
    def of(cls, space: Space) -> "Routes":
        """Return the routes of a space, which learn what is written to it from now on."""
        exists = partial(has_conversation, space.store)
        routes = cls(lambda: space.index, space.overlay, exists, space.is_pinned)
        routing = frozenset({Began, MetaUpdated, Continued})
        space.subscribe(Appended, routes.learn, of=routing, channel=EMAIL)
        # lines that another process wrote, and that came into the index without an event each
        space.subscribe(CaughtUp, lambda _: space.overlay.prune_facts(space.index))
        return routes

    def learn(self, event: Appended) -> None:
        """Note lines that may route messages, and the Message-IDs that they name. They are put into
        the index.
        """
        name, after = event.conversation_id, event.conversation
        contents = contents_of(event.lines)
        mail = mail_ids_of(contents) if after.channel == EMAIL else ()
        facts: dict[Key, str] = dict.fromkeys(mail, name)
        place = place_of(after.channel, after.party)
        for content in contents:
            if isinstance(content, Continued):
                facts[name] = content.conversation_id
            elif isinstance(content, Began | MetaUpdated) and content.pinned and place.known:
                facts[place] = name
        if facts:
            self._overlay.add_facts(self._index(), facts)

    def pinned(self, place: Place) -> str | None:
        """Return the conversation that messages of a place join.

        Hold the place's lock: nobody else pins one there meanwhile.
        """
        if added := self._overlay.conversations_of(place):
            return added[-1]
        return next(iter(routing_of(self._index()).pinned(place, settled=False)), None)

    def all_pinned(self, place: Place) -> set[str]:
        """Return the conversations that are pinned at a place: one, or two after a crash. Hold the
        place's lock.
        """
        newest = self.pinned(place)
        indexed = routing_of(self._index()).pinned(place, settled=True)
        return {*indexed, *([newest] if newest else [])}

    def threads(self, mails: Iterable[int]) -> set[str]:
        """Return the conversations that e-mails with these ids belong to
        (`people.routing.mail_number`).
        """
        names = list(mails)
        threads = {it for name in names for it in self._overlay.conversations_of(name)}
        threads.update(routing_of(self._index()).mail(names, settled=False))
        # One that is deleted may be among them still.
        return {
            end
            for it in threads
            if self._is_pinned(end := it) or self._exists(end := self.successor(it))
        }

    def successor(self, conversation_id: str) -> str:
        """Return the conversation that takes what comes in for this one: itself, or the last that
        continues it.

        One that is gone has nothing behind it: the last that is there takes it.
        """
        routing = routing_of(self._index())
        chain = [conversation_id]
        while len(chain) < _MAX_STEPS:
            added = self._overlay.conversations_of(chain[-1])
            following = added[-1] if added else routing.continued(chain[-1], settled=False)
            if following is None or following in chain or not self._exists(following):
                break
            chain.append(following)
        return chain[-1]
