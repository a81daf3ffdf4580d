"""External communications in the index: their rows, how lines are taken in, how they are removed,
and what is asked of them.

A change of theirs is committed when `ExternalIndex.add` returns, so what is asked for here need not
wait for the appends of conversations that are not taken in yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw

from recollect_server.kernel.domain.conversation import MessagesRedacted
from recollect_server.kernel.domain.ids import MAX_LINES, SEQUENCE_BITS, Kind, message_id
from recollect_server.kernel.index import requests, updates
from recollect_server.kernel.index.columns import (
    Column,
    Columns,
    KnownRequest,
    UpdateRow,
    dump_json,
    load_texts,
)
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.index.derived import (
    Condition,
    Erased,
    KindTable,
    Removed,
    Stored,
    conditions,
    listed,
)
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.index.removal import WordRemoval
from recollect_server.kernel.index.requests import SeenNames
from recollect_server.kernel.index.updates import Added, Update
from recollect_server.kernel.log.lines import Line, line_of
from recollect_server.people.communication import (
    Communication,
    CommunicationFilter,
    CommunicationSearch,
    Direction,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
    Trust,
    TrustSet,
    fold,
)
from recollect_server.people.received import former_key_of_delivery
from recollect_server.text import words
from recollect_server.text.analysis import indexed_form, plain_form
from recollect_server.text.words import Term

_HANGING = {
    "escalations": "external_escalations",
    "deliveries": "external_deliveries",
}
"""Tables that have rows of a communication beside its messages, by their names in a receipt."""

COMMUNICATIONS = Columns(
    "external_communications",
    Communication,
    Column("id", is_fixed=True),
    Column("channel", is_fixed=True),
    Column("party", is_fixed=True),
    Column("trust", load=Trust, dump=str),
    Column("scopes", load=load_texts, dump=dump_json),
    Column("create_time", is_fixed=True),
    Column("update_time"),
    Column("message_count"),
    Column("open", load=load_texts, dump=dump_json),
    Column("released", load=bool, dump=int),
    Column("party_name"),
    Column("subject"),
    Column("acknowledged", load=bool, dump=int),
)


class ExternalMessageRow(NamedTuple):
    """A message of a communication in the index."""

    number: int
    sequence: int
    offset: int
    length: int
    """Place of its line in the transcript, in bytes."""
    time: int
    place: str
    """The channel and the group that it was written in (see `place_name`); empty: none."""


EXTERNAL_MESSAGES = Columns(
    "external_messages", ExternalMessageRow, *map(Column, ExternalMessageRow._fields)
)

ESCALATIONS = Columns(
    "external_escalations",
    Escalation,
    Column("id"),
    Column("sequence"),
    Column("question"),
    Column("create_time"),
    Column("answer"),
    Column("resolve_time"),
    Column("communication_id", expression="c.id"),
)


_SHOWN = (ExternalMessage, TrustSet, EscalationOpened, EscalationResolved, MessagesRedacted)

_changing = ", ".join(
    f"{name} = excluded.{name}" for name in (*COMMUNICATIONS.changing, "bytes", "lines")
)
_TAKE_IN = (
    f"INSERT INTO external_communications({COMMUNICATIONS.list}, bytes, lines)"
    f" VALUES({COMMUNICATIONS.marks}, ?, ?) ON CONFLICT(id) DO UPDATE SET {_changing}"
    " RETURNING number"
)


def searchable_text(message: ExternalMessage) -> str:
    """Return the text of a message that is indexed: its sender's name, its subject and its text."""
    mail = message.origin.email
    parts = (
        plain_form(message.origin.sender_name),
        indexed_form(mail.subject) if mail else "",
        indexed_form(message.text),
    )
    return "\n".join(part for part in parts if part)


def place_name(channel: str, group: str) -> str:
    """Return the name of a group on a channel, as rows of messages have it; empty for none."""
    return f"{channel} {group}" if group else ""


def row_of(number: int, channel: str, line: Line, message: ExternalMessage) -> ExternalMessageRow:
    """Return the row of a message."""
    place = place_name(channel, message.origin.group)
    return ExternalMessageRow(
        number, line.sequence, line.offset, line.length, message.timestamp, place
    )


def take_in(
    connection: apsw.Connection,
    after: Communication,
    lines: list[Line],
    changes: list[Update],
    cursor: int,
) -> int:
    """Take in lines that follow what is indexed, and return the communication's number.

    `changes` are their rows in the update log, and `cursor` is the one before those. Raises
    apsw.Error if the lines do not follow.
    """
    query = "SELECT bytes FROM external_communications WHERE id = ?"
    if (connection.execute(query, (after.id,)).get or 0) != lines[0].offset:
        raise apsw.AbortError("the lines before these are not indexed")
    values = (*COMMUNICATIONS.values(after), lines[-1].end, lines[-1].sequence)
    number = int(connection.execute(_TAKE_IN, values).get)
    for line in lines:
        _take_in_line(connection, number, after.channel, line)
    for at, (time, begin, end) in enumerate(changes, start=cursor + 1):
        row = UpdateRow(at, number, Kind.COMMUNICATION, time, begin, end)
        updates.add(connection, row)
    for request_id, value, first, last in requests.carried_by(lines):
        requests.add(connection, KnownRequest(request_id, value, after.id, first, last))
    return number


def _take_in_line(connection: apsw.Connection, number: int, channel: str, line: Line) -> None:
    match line.entry.content if line.entry else None:
        case ExternalMessage(provider_message_id=delivery) as message:
            row = row_of(number, channel, line, message)
            connection.execute(f"INSERT {EXTERNAL_MESSAGES.insert}", row)
            connection.execute(
                "INSERT INTO external_fts(rowid, text) VALUES(?, ?)",
                (message_id(number, line.sequence), searchable_text(message)),
            )
            if delivery:
                connection.execute(
                    "INSERT OR IGNORE INTO external_deliveries VALUES(?, ?, ?, ?)",
                    (number, row.place, delivery, line.sequence),
                )
        case EscalationOpened() as opened:
            escalation = Escalation(opened.id, "", opened.sequence, opened.question, opened.time)
            connection.execute(
                f"INSERT OR IGNORE INTO external_escalations({ESCALATIONS.list}, number)"
                f" VALUES({ESCALATIONS.marks}, ?)",
                (*ESCALATIONS.values(escalation), number),
            )
        case EscalationResolved() as resolved:
            connection.execute(
                "UPDATE external_escalations SET answer = ?, resolve_time = ? WHERE id = ? AND number = ?",
                (resolved.answer, resolved.time, resolved.id, number),
            )


def updates_of(before: Communication | None, lines: list[Line], time: int) -> list[Update]:
    """Return an update for each line that panels get one of; `before` is the state without them."""
    changes: list[Update] = []
    for line in lines:
        if line.entry is not None:
            before = fold(before, line.entry.content)
            if before is not None and is_shown(line, before.trust):
                changes.append([time, line.sequence, line.sequence])
    return changes


def is_shown(line: Line, trust: Trust) -> bool:
    """Return whether panels get an update of a line, with which there was this trust: none of what
    a blocked party wrote.
    """
    match line.entry.content if line.entry else None:
        case ExternalMessage(direction=Direction.INBOUND):
            return trust is not Trust.BLOCKED
        case content:
            return isinstance(content, _SHOWN)


class CommunicationRemoval(WordRemoval):
    """Removal of external communications. Its first step takes everything but the messages with
    their words. A note in `identity` says from there on that the rest is to go.
    """

    kind = Kind.COMMUNICATION
    logs = "external_communications"
    words = "external_fts"
    messages = "external_messages"
    line = "sequence"
    of_log = "number = :number"
    has = "number = value ->> 3 AND sequence = value ->> 2"
    among = "(number, sequence) IN (SELECT value ->> 3, value ->> 2 FROM json_each(?))"
    prefix = "external_"
    message = ExternalMessage

    def _begun(self, connection: apsw.Connection, names: Sequence[str]) -> dict[str, int]:
        notes = {_begun(name): name for name in names}
        query = "SELECT name, value FROM identity WHERE name IN (SELECT value FROM json_each(?))"
        rows = connection.execute(query, (dump_json([*notes]),))
        return {notes[name]: int(number) for name, number in rows}

    def _begin(self, connection: apsw.Connection, numbers: list[int]) -> Removed:
        removed = {"communications": len(numbers)}
        own = dump_json(numbers)
        for place, table in ("", self.logs), *_HANGING.items():
            query = f"DELETE FROM {table} WHERE number IN (SELECT value FROM json_each(?))"
            connection.execute(query, (own,))
            if place:
                removed[place] = connection.changes()
        return removed

    def _note(self, connection: apsw.Connection, name: str, number: int) -> None:
        connection.execute(
            "INSERT OR IGNORE INTO identity VALUES(?, ?)", (_begun(name), str(number))
        )

    def _end(self, connection: apsw.Connection, name: str, number: int) -> None:
        connection.execute("DELETE FROM identity WHERE name = ?", (_begun(name),))
        self._want_rebuild(connection, name, number)

    def text_of(self, raw: bytes, sequence: int) -> str | None:
        """Return the text of a message as it was indexed, by its line; None of a damaged line."""
        entry = line_of(raw, sequence, 0).entry
        content = entry.content if entry else None
        return self.searchable(content) if isinstance(content, ExternalMessage) else None

    def searchable(self, message: ExternalMessage) -> str:
        """Return the text of a message as it is indexed."""
        return searchable_text(message)


def _begun(name: str) -> str:
    """Return the name in `identity` that says that a communication's removal has begun."""
    return f"removing {name}"


_ESCALATIONS = (
    f"SELECT {ESCALATIONS.select('e')}"
    " FROM external_escalations e JOIN external_communications c USING (number)"
)
_IDENTITIES = "(SELECT value ->> 0, value ->> 1 FROM json_each(?))"
_PLACE = "SELECT sequence, offset, length FROM external_messages"
_communication_of = COMMUNICATIONS.reader(1)
_escalation_of = ESCALATIONS.reader()
_message_of = EXTERNAL_MESSAGES.reader()


@dataclass(frozen=True, slots=True)
class WordHits:
    """The messages that a search found, best first, with their communications; the words that were
    searched; how many match.
    """

    hits: list[tuple[Communication, Place, float]]
    terms: list[Term]
    total: int


class ExternalIndex(KindTable[Communication, CommunicationFilter]):
    """The indexed external communications."""

    kind = Kind.COMMUNICATION
    names = (
        "SELECT channel || ' ' || provider_message_id"
        " FROM external_deliveries JOIN external_communications USING (number)"
    )
    """As `former_key_of_delivery` makes them."""

    tables = "external_communications c"
    query = f"SELECT c.number, {COMMUNICATIONS.select('c')}, c.bytes, c.lines FROM {tables}"
    settled = False

    def __init__(self, database: Database, names: SeenNames) -> None:
        super().__init__(database, names)
        self.removal = CommunicationRemoval(database)

    def state_of(self, row: Any) -> Communication:
        """Return the communication of a row of `query`."""
        return _communication_of(row)

    def conditions_of(self, chosen: CommunicationFilter) -> list[Condition]:
        """Return the conditions of a filter."""
        return [
            ("c.id IN (SELECT value FROM json_each(?))", listed(chosen.ids)),
            ("c.channel IN (SELECT value FROM json_each(?))", listed(chosen.channels)),
            (
                f"(c.channel, c.party) IN {_IDENTITIES}",
                dump_json(chosen.identities) if chosen.parties else None,
            ),
            ("c.trust = ?", chosen.trust),
            ("c.trust <> ?", chosen.except_trust),
            ("c.update_time < ?", chosen.updated_before),
            ("c.message_count > 0", chosen.with_messages or None),
            ("c.open <> '[]'", chosen.waiting or None),
        ]

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
        self._names.add_requests(lines)
        for line in lines:
            if line.entry and isinstance(message := line.entry.content, ExternalMessage):
                self._names.add(former_key_of_delivery(after.channel, message.provider_message_id))
        changes = updates_of(before, lines, time) if log else []
        return self._database.writer.write(
            lambda connection, cursor: take_in(connection, after, lines, changes, cursor),
            updates=len(changes),
            notices=[Added(Kind.COMMUNICATION, after, lines, changes)],
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
        self._names.add_requests([line])
        questions: list[EscalationOpened] = erased.now(EscalationOpened)
        changes = updates_of(before, [line], time)

        def change(connection: apsw.Connection, cursor: int) -> None:
            connection.executemany(
                "UPDATE external_escalations SET question = ? WHERE id = ? AND number = ?",
                [(it.question, it.id, number) for it in questions],
            )
            take_in(connection, after, [line], changes, cursor)

        notice = Added(Kind.COMMUNICATION, after, [line], changes)
        self.removal.redact(number, after.id, erased, change, len(changes), notice)

    # Communications ------------------------------------------------------------------------------

    def with_party(self, channel: str, addresses: tuple[str, ...]) -> Stored[Communication] | None:
        """Return the communication with a party on a channel, or None. Of several, which versions
        before began for one number in two spellings, a blocked one counts.
        """
        rows = self._rows(
            f"{self.query} WHERE c.party IN (SELECT value FROM json_each(?)) AND c.channel = ?"
            " ORDER BY c.trust = ? DESC, c.id LIMIT 1",
            (dump_json(addresses), channel, Trust.BLOCKED.value),
        )
        return self.stored_of(rows[0]) if rows else None

    def channels(self) -> list[str]:
        """Return the channels that have communications."""
        rows = self._rows("SELECT DISTINCT channel FROM external_communications")
        return sorted(row[0] for row in rows)

    # Messages ------------------------------------------------------------------------------------

    def delivered(
        self, channel: str, addresses: tuple[str, ...], group: str, provider_message_id: str
    ) -> tuple[str, Place] | None:
        """Return the communication that has a message of a party, who wrote it in a group or, where
        that is empty, alone, and where; or None.
        """
        if former_key_of_delivery(channel, provider_message_id) not in self._names:
            return None
        rows = self._rows(
            "SELECT c.id, m.sequence, m.offset, m.length FROM external_communications c"
            " JOIN external_deliveries d USING (number)"
            " JOIN external_messages m ON m.number = d.number AND m.sequence = d.sequence"
            " WHERE c.channel = ? AND c.party IN (SELECT value FROM json_each(?))"
            " AND d.place = ? AND d.provider_message_id = ?",
            (channel, dump_json(addresses), place_name(channel, group), provider_message_id),
        )
        return (rows[0][0], rows[0][1:]) if rows else None

    def places(self, number: int, before: int, limit: int) -> list[Place]:
        """Return the places of the newest messages before a line, in the order of the
        transcript.
        """
        rows = self._rows(
            f"{_PLACE} WHERE number = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?",
            (number, before, limit),
        )
        return [(row[0], row[1], row[2]) for row in reversed(rows)]

    def rows(self, number: int) -> list[ExternalMessageRow]:
        """Return the messages of a communication, in order."""
        query = (
            f"SELECT {EXTERNAL_MESSAGES.list} FROM external_messages WHERE number = ?"
            " ORDER BY sequence"
        )
        return [_message_of(row) for row in self._rows(query, (number,))]

    def deliveries(self, number: int) -> dict[tuple[str, str], int]:
        """Return the line of each delivery of a communication, by its place and the provider's
        id.
        """
        query = (
            "SELECT place, provider_message_id, sequence FROM external_deliveries WHERE number = ?"
        )
        return {(str(row[0]), str(row[1])): int(row[2]) for row in self._rows(query, (number,))}

    # Escalations ---------------------------------------------------------------------------------

    def escalation(self, escalation_id: str) -> Escalation | None:
        """Return an escalation, or None."""
        return next(iter(self._escalations("e.id = ?", (escalation_id,))), None)

    def escalation_about(self, communication_id: str, sequence: int) -> Escalation | None:
        """Return the escalation that a message opened, or None."""
        about = "c.id = ? AND e.sequence = ?"
        return next(iter(self._escalations(about, (communication_id, sequence))), None)

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
        filters: list[Condition] = [
            ("e.number = ?", number),
            ("e.resolve_time IS NULL", not resolved or None),
            ("(e.create_time, e.id) > (?, ?)", after),
        ]
        where, values = conditions(filters)
        return self._escalations(f"{where} ORDER BY e.create_time, e.id LIMIT ?", (*values, limit))

    def _escalations(self, rest: str, values: tuple[Any, ...]) -> list[Escalation]:
        return [_escalation_of(row) for row in self._rows(f"{_ESCALATIONS} WHERE {rest}", values)]

    # Streams -------------------------------------------------------------------------------------

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

    # Search --------------------------------------------------------------------------------------

    def search(self, query: CommunicationSearch, limit: int) -> WordHits:
        """Return the messages of communications that have any of the words, best first: by BM25,
        then the newest.
        """
        with self._database.moment() as connection:
            count = int(connection.execute("SELECT count(*) FROM external_messages").get)
            terms = words.choose_terms(
                connection, query.text, count, words.EXTERNAL, is_typed=True
            ).chosen
            finding = [term for term in terms if not term.only_ranks]
            if not finding:
                return WordHits([], terms, 0)
            filters: list[Condition] = [
                (f"(c.channel, c.party) IN {_IDENTITIES}", _json_or_none(query.identities)),
                ("c.channel = ?", query.channel),
                ("c.trust = ?", query.trust),
                ("c.id = ?", query.communication_id),
                ("m.time >= ?", query.start),
                ("m.time < ?", query.end),
            ]
            where, values = conditions(filters)
            matching = (
                f" FROM external_fts JOIN external_messages m ON m.number = external_fts.rowid >> {SEQUENCE_BITS}"
                f" AND m.sequence = external_fts.rowid & {MAX_LINES} JOIN external_communications c ON c.number = m.number"
                f" WHERE external_fts MATCH ? AND {where}"
            )
            match = " OR ".join(term.match for term in finding)
            total = int(connection.execute(f"SELECT count(*){matching}", (match, *values)).get)
            best = (
                f"SELECT m.number, m.sequence, m.offset, m.length, -rank{matching}"
                " ORDER BY rank, m.time DESC, c.id, m.sequence DESC LIMIT ?"
            )
            rows: list[Any] = connection.execute(best, (match, *values, limit)).fetchall()
            if ranking := [term for term in terms if term.only_ranks]:
                # Of what the rarer words find, what has the common ones too is better: its score
                # is the sum over both kinds.
                both = f"({match}) AND ({' OR '.join(term.match for term in ranking)})"
                scored = {row[:2]: row for row in rows} | {
                    row[:2]: row for row in connection.execute(best, (both, *values, limit))
                }
                rows = sorted(scored.values(), key=lambda row: -row[4])[:limit]
            of = self.by_number({row[0] for row in rows})
            hits = [(of[row[0]], (row[1], row[2], row[3]), row[4]) for row in rows]
            return WordHits(hits, terms, total)

    def in_group(self, channel: str, group: str, limit: int) -> list[tuple[Communication, Place]]:
        """Return the newest messages that third parties wrote in a group, newest first, but for
        those of blocked ones.
        """
        query = (
            "SELECT m.number, m.sequence, m.offset, m.length FROM external_messages m JOIN external_communications c USING (number)"
            " WHERE m.place = ? AND m.place <> '' AND c.trust <> ? ORDER BY m.time DESC, c.id DESC, m.sequence DESC LIMIT ?"
        )
        with self._database.moment():
            rows = self._rows(query, (place_name(channel, group), Trust.BLOCKED.value, limit))
            of = self.by_number({row[0] for row in rows})
            return [(of[row[0]], (row[1], row[2], row[3])) for row in rows]


def _json_or_none(values: object) -> str | None:
    return None if values is None else dump_json(values)


def external_of(index: Index) -> ExternalIndex:
    """Return the external communications of an index."""
    table = index.kinds[Kind.COMMUNICATION]
    assert isinstance(table, ExternalIndex)
    return table
