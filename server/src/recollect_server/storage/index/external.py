"""External communications in the index.

A change of theirs is committed when `ExternalIndex.add` returns, so what is asked for here need not
wait for the appends of conversations that are not taken in yet.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from recollect_server.domain.external import (
    Communication,
    Escalation,
    EscalationOpened,
    ExternalMessage,
    Trust,
)
from recollect_server.domain.filters import CommunicationFilter, CommunicationSearch
from recollect_server.domain.ids import MAX_LINES, SEQUENCE_BITS
from recollect_server.storage.index import words
from recollect_server.storage.index.columns import dump_json
from recollect_server.storage.index.conversations import Size
from recollect_server.storage.index.database import Database
from recollect_server.storage.index.external_rows import (
    COMMUNICATIONS,
    ESCALATIONS,
    StoredCommunication,
    place_name,
    take_in,
    updates_of,
)
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.removal import CommunicationRemoval, Erased
from recollect_server.storage.index.requests import SeenNames
from recollect_server.storage.index.updates import Added
from recollect_server.storage.index.words import Term
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.received import former_key_of_delivery

_SELECT = f"SELECT {COMMUNICATIONS.select()} FROM external_communications"
_ESCALATIONS = (
    f"SELECT {ESCALATIONS.select('e')}"
    " FROM external_escalations e JOIN external_communications c USING (number)"
)
_IDENTITIES = "(SELECT value ->> 0, value ->> 1 FROM json_each(?))"
_PLACE = "SELECT sequence, offset, length FROM external_messages"
_stored_of = COMMUNICATIONS.reader()
_escalation_of = ESCALATIONS.reader()


@dataclass(frozen=True, slots=True)
class WordHits:
    """The messages that a search found, best first, with their communications; the words that were
    searched; how many match.
    """

    hits: list[tuple[Communication, Place, float]]
    terms: list[Term]
    total: int


class ExternalIndex:
    """The indexed external communications."""

    def __init__(self, database: Database, names: SeenNames) -> None:
        self._database = database
        self._names = names
        self.removal = CommunicationRemoval(database)

    def add(
        self,
        before: Communication | None,
        after: Communication,
        lines: list[Line],
        *,
        time: int,
        log: bool = True,
    ) -> int:
        """Take in the lines that follow what is indexed, all or none. Return the communication's
        number when that is committed.

        `before` and `after` are the communication without and with them. `time` is now, for the
        update log; `log` False leaves it out.
        """
        self._database.check()
        for line in lines:
            if line.entry is None:
                continue
            if line.entry.stamp.request_id:
                self._names.add(line.entry.stamp.request_id)
            if isinstance(message := line.entry.content, ExternalMessage):
                self._names.add(former_key_of_delivery(after.channel, message.provider_message_id))
        changes = updates_of(before, lines, time) if log else []
        return self._database.writer.write(
            lambda connection, cursor: take_in(connection, after, lines, changes, cursor),
            updates=len(changes),
            notice=lambda: Added(after, lines, changes),
        )

    def redact(
        self,
        number: int,
        before: Communication,
        after: Communication,
        line: Line,
        erased: Erased,
        *,
        time: int,
    ) -> None:
        """Take the text of messages out, durably, and take in the line that says so. `before` is
        the communication as it is indexed, `after` as its transcript is now.
        """
        if line.entry is not None and line.entry.stamp.request_id:
            self._names.add(line.entry.stamp.request_id)
        questions: list[EscalationOpened] = erased.now(EscalationOpened)
        changes = updates_of(before, [line], time)

        def change(connection: apsw.Connection, cursor: int) -> None:
            connection.executemany(
                "UPDATE external_escalations SET question = ? WHERE id = ? AND number = ?",
                [(it.question, it.id, number) for it in questions],
            )
            take_in(connection, after, [line], changes, cursor)

        notice = Added(after, [line], changes)
        self.removal.redact(number, after.id, erased, change, len(changes), notice)

    # Communications ------------------------------------------------------------------------------

    def find(self, communication_id: str) -> StoredCommunication | None:
        """Return a communication with how far its transcript is indexed, or None."""
        row = self._database.row(f"{_SELECT} WHERE id = ?", (communication_id,), settled=False)
        return None if row is None else _stored_of(row)

    def with_party(self, channel: str, addresses: tuple[str, ...]) -> StoredCommunication | None:
        """Return the communication with a party on a channel, or None. Of several, which versions
        before began for one number in two spellings, a blocked one counts.
        """
        row = self._database.row(
            f"{_SELECT} WHERE party IN (SELECT value FROM json_each(?)) AND channel = ?"
            " ORDER BY trust = ? DESC, id LIMIT 1",
            (dump_json(addresses), channel, Trust.BLOCKED.value),
            settled=False,
        )
        return None if row is None else _stored_of(row)

    def select(
        self,
        chosen: CommunicationFilter,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        newest_first: bool = True,
    ) -> list[Communication]:
        """Return the communications that match, newest update first, or last, behind the place
        `after` = (update_time, id).
        """
        with self._database.reading(settled=False) as connection:
            rows = _select(connection, chosen, limit, after, newest_first=newest_first)
            return [it.communication for it in rows]

    def sizes(
        self, chosen: CommunicationFilter, limit: int, after: tuple[int, str] | None = None
    ) -> list[Size]:
        """Return the communications that match with the bytes of their transcripts, the longest
        unchanged first, behind the place `after` = (update_time, id).
        """
        with self._database.reading(settled=False) as connection:
            rows = _select(connection, chosen, limit, after, newest_first=False)
        of = ((it.communication, it.bytes) for it in rows)
        return [Size(it.id, it.channel, it.update_time, size) for it, size in of]

    def channels(self) -> list[str]:
        """Return the channels that have communications."""
        rows = self._database.rows(
            "SELECT DISTINCT channel FROM external_communications", settled=False
        )
        return sorted(row[0] for row in rows)

    def progress(self) -> dict[str, int]:
        """Return the number of bytes indexed of every communication's transcript."""
        rows = self._database.rows("SELECT id, bytes FROM external_communications", settled=False)
        return {row[0]: row[1] for row in rows}

    # Messages ------------------------------------------------------------------------------------

    def delivered(
        self, channel: str, addresses: tuple[str, ...], group: str, provider_message_id: str
    ) -> tuple[str, Place] | None:
        """Return the communication that has a message of a party, who wrote it in a group or, where
        that is empty, alone, and where; or None.
        """
        if former_key_of_delivery(channel, provider_message_id) not in self._names:
            return None
        row = self._database.row(
            "SELECT c.id, m.sequence, m.offset, m.length FROM external_communications c"
            " JOIN external_deliveries d USING (number)"
            " JOIN external_messages m ON m.number = d.number AND m.sequence = d.sequence"
            " WHERE c.channel = ? AND c.party IN (SELECT value FROM json_each(?))"
            " AND d.place = ? AND d.provider_message_id = ?",
            (channel, dump_json(addresses), place_name(channel, group), provider_message_id),
            settled=False,
        )
        return None if row is None else (row[0], row[1:])

    def places(self, number: int, before: int, limit: int) -> list[Place]:
        """Return the places of the newest messages before a line, in the order of the
        transcript.
        """
        rows = self._database.rows(
            f"{_PLACE} WHERE number = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?",
            (number, before, limit),
            settled=False,
        )
        return [(row[0], row[1], row[2]) for row in reversed(rows)]

    # Escalations ---------------------------------------------------------------------------------

    def escalation(self, escalation_id: str) -> Escalation | None:
        """Return an escalation, or None."""
        row = self._database.row(f"{_ESCALATIONS} WHERE e.id = ?", (escalation_id,), settled=False)
        return None if row is None else _escalation_of(row)

    def escalation_about(self, communication_id: str, sequence: int) -> Escalation | None:
        """Return the escalation that a message opened, or None."""
        row = self._database.row(
            f"{_ESCALATIONS} WHERE c.id = ? AND e.sequence = ?",
            (communication_id, sequence),
            settled=False,
        )
        return None if row is None else _escalation_of(row)

    def escalations(
        self,
        number: int | None,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        resolved: bool = False,
    ) -> list[Escalation]:
        """Return escalations, oldest first, behind the place `after` = (create_time, id): of one
        communication or of all (None).
        """
        where, values = ["1"], list[Any]()
        if number is not None:
            where.append("e.number = ?")
            values.append(number)
        if not resolved:
            where.append("e.resolve_time IS NULL")
        if after is not None:
            where.append("(e.create_time, e.id) > (?, ?)")
            values += after
        query = f"{_ESCALATIONS} WHERE {' AND '.join(where)} ORDER BY e.create_time, e.id LIMIT ?"
        return [
            _escalation_of(row)
            for row in self._database.rows(query, (*values, limit), settled=False)
        ]

    # Streams -------------------------------------------------------------------------------------

    def by_number(self, numbers: set[int]) -> dict[int, Communication]:
        """Return the communications of these numbers, without those that are gone."""
        with self._database.reading(settled=False) as connection:
            return _by_number(connection, numbers)

    def newest_through(self, number: int, sequence: int) -> Place | None:
        """Return the place of the newest message at or before a line, or None."""
        places = self.places(number, sequence + 1, 1)
        return places[0] if places else None

    def bytes_of_lines(self, number: int, first: int, last: int) -> int:
        """Return how many bytes the messages of these lines have."""
        query = (
            "SELECT coalesce(sum(length), 0) FROM external_messages"
            " WHERE number = ? AND sequence BETWEEN ? AND ?"
        )
        return int(self._database.value(query, (number, first, last), settled=False))

    def newest(self, limit: int) -> list[Communication]:
        """Return the newest communications."""
        with self._database.moment() as connection:
            rows = _select(connection, CommunicationFilter(), limit, None)
            return [it.communication for it in rows]

    # Search --------------------------------------------------------------------------------------

    def search(self, query: CommunicationSearch, limit: int) -> WordHits:
        """Return the messages of communications that have any of the words, best first."""
        with self._database.moment() as connection:
            return _search(connection, query, limit)

    def in_group(self, channel: str, group: str, limit: int) -> list[tuple[Communication, Place]]:
        """Return the newest messages that third parties wrote in a group, newest first, but for
        those of blocked ones.
        """
        with self._database.moment() as connection:
            return _in_group(connection, channel, group, limit)


def _by_number(connection: apsw.Connection, numbers: Iterable[int]) -> dict[int, Communication]:
    """Return the communications of these numbers."""
    rows = connection.execute(
        f"{_SELECT} WHERE number IN (SELECT value FROM json_each(?))", (dump_json(list(numbers)),)
    )
    return {it.number: it.communication for it in map(_stored_of, rows)}


def _select(
    connection: apsw.Connection,
    chosen: CommunicationFilter,
    limit: int,
    after: tuple[int, str] | None,
    *,
    newest_first: bool = True,
) -> list[StoredCommunication]:
    where, values = ["1"], list[Any]()
    for column, allowed in (("id", chosen.ids), ("channel", chosen.channels)):
        if allowed:
            where.append(f"{column} IN (SELECT value FROM json_each(?))")
            values.append(dump_json(allowed))
    if chosen.parties:
        where.append(f"(channel, party) IN {_IDENTITIES}")
        values.append(dump_json(chosen.identities))
    if chosen.trust is not None:
        where.append("trust = ?")
        values.append(chosen.trust.value)
    if chosen.except_trust is not None:
        where.append("trust <> ?")
        values.append(chosen.except_trust.value)
    if chosen.updated_before is not None:
        where.append("update_time < ?")
        values.append(chosen.updated_before)
    if chosen.with_messages:
        where.append("message_count > 0")
    if chosen.waiting:
        where.append("open <> '[]'")
    if after is not None:
        where.append(f"(update_time, id) {'<' if newest_first else '>'} (?, ?)")
        values += after
    way = "DESC" if newest_first else "ASC"
    query = f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY update_time {way}, id {way} LIMIT ?"
    return [_stored_of(row) for row in connection.execute(query, (*values, limit))]


def _search(connection: apsw.Connection, query: CommunicationSearch, limit: int) -> WordHits:
    """Find the messages that have any of the words, best first: by BM25, then the newest."""
    count = int(connection.execute("SELECT count(*) FROM external_messages").get)
    terms = words.choose_terms(connection, query.text, count, words.EXTERNAL).chosen
    finding = [term for term in terms if not term.only_ranks]
    if not finding:
        return WordHits([], terms, 0)
    where, values = _conditions(query)
    matching = (
        f" FROM external_fts JOIN external_messages m ON m.number = external_fts.rowid >> {SEQUENCE_BITS}"
        f" AND m.sequence = external_fts.rowid & {MAX_LINES} JOIN external_communications c ON c.number = m.number"
        f" WHERE external_fts MATCH ?{where}"
    )
    match = " OR ".join(term.match for term in finding)
    total = int(connection.execute(f"SELECT count(*){matching}", (match, *values)).get)
    best = (
        f"SELECT m.number, m.sequence, m.offset, m.length, -rank{matching}"
        " ORDER BY rank, m.time DESC, c.id, m.sequence DESC LIMIT ?"
    )
    rows: list[Any] = connection.execute(best, (match, *values, limit)).fetchall()
    if ranking := [term for term in terms if term.only_ranks]:
        # Of what the rarer words find, what has the common ones too is better: its score is the sum
        # over both kinds.
        both = f"({match}) AND ({' OR '.join(term.match for term in ranking)})"
        scored = {row[:2]: row for row in rows} | {
            row[:2]: row for row in connection.execute(best, (both, *values, limit))
        }
        rows = sorted(scored.values(), key=lambda row: -row[4])[:limit]
    of = _by_number(connection, {row[0] for row in rows})
    return WordHits([(of[row[0]], (row[1], row[2], row[3]), row[4]) for row in rows], terms, total)


def _conditions(query: CommunicationSearch) -> tuple[str, list[Any]]:
    conditions = {
        f"(c.channel, c.party) IN {_IDENTITIES}": None
        if query.identities is None
        else dump_json(query.identities),
        "c.channel = ?": query.channel or None,
        "c.trust = ?": query.trust.value if query.trust else None,
        "c.id = ?": query.communication_id or None,
        "m.time >= ?": query.start,
        "m.time < ?": query.end,
    }
    chosen = {condition: value for condition, value in conditions.items() if value is not None}
    return "".join(f" AND {condition}" for condition in chosen), list(chosen.values())


def _in_group(
    connection: apsw.Connection, channel: str, group: str, limit: int
) -> list[tuple[Communication, Place]]:
    """Return the newest messages of members of a group who are not blocked, newest first, with
    their communications.
    """
    rows: list[Any] = connection.execute(
        "SELECT m.number, m.sequence, m.offset, m.length FROM external_messages m JOIN external_communications c USING (number)"
        " WHERE m.place = ? AND m.place <> '' AND c.trust <> ? ORDER BY m.time DESC, c.id DESC, m.sequence DESC LIMIT ?",
        (place_name(channel, group), Trust.BLOCKED.value, limit),
    ).fetchall()
    of = _by_number(connection, {row[0] for row in rows})
    return [(of[row[0]], (row[1], row[2], row[3])) for row in rows]
