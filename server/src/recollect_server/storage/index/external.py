"""The rows of external communications, of their messages, of what providers delivered, of
escalations, and their update log.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import apsw
import orjson

from recollect_server.domain.external import (
    Communication,
    Direction,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
    Trust,
    TrustSet,
    fold,
)
from recollect_server.domain.ids import MAX_LINES, SEQUENCE_BITS, message_id
from recollect_server.domain.text import segment
from recollect_server.storage.index import requests, words
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.requests import KnownRequest
from recollect_server.storage.index.words import Term
from recollect_server.storage.logs.lines import Line

_COLUMNS = (
    "id", "channel", "party", "trust", "scopes", "create_time", "update_time", "message_count", "open", "released", "bytes",
    "lines", "party_name", "subject", "acknowledged",
)  # fmt: skip
_FIXED = {"id", "channel", "party", "create_time"}  # from the first line on
_SELECT = f"SELECT number, {', '.join(_COLUMNS)} FROM external_communications"
_TAKE_IN = (
    f"INSERT INTO external_communications({', '.join(_COLUMNS)}) VALUES({', '.join('?' * len(_COLUMNS))})"
    f" ON CONFLICT(id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS if name not in _FIXED)}"
    " RETURNING number"
)
_ESCALATIONS = (
    "SELECT e.id, c.id, e.sequence, e.question, e.create_time, e.answer, e.resolve_time"
    " FROM external_escalations e JOIN external_communications c USING (number)"
)


class ExternalUpdate(StrEnum):
    """Kind of update."""

    MESSAGE = "message"
    CHANGED = "changed"
    ESCALATED = "escalated"


@dataclass(frozen=True, slots=True)
class ExternalRow:
    """A change: of which communication, when, in which line of its transcript, and of which
    escalation, if of any.
    """

    cursor: int
    number: int
    kind: str
    time: int
    sequence: int
    escalation_id: str


@dataclass(frozen=True, slots=True)
class StoredCommunication:
    """A communication in the index: its number here, and how far its transcript is indexed."""

    number: int
    communication: Communication
    bytes: int
    lines: int

    @property
    def state(self) -> Communication:
        """Return the state of the log, as every stored log has it."""
        return self.communication


@dataclass(frozen=True, slots=True)
class CommunicationFilter:
    """Filter of communications; every part that is set must match."""

    party: str = ""
    trust: Trust | None = None
    waiting: bool = False
    """Only those with an open escalation."""


# What changes -------------------------------------------------------------------------------------


def take_in(
    connection: apsw.Connection,
    before: Communication | None,
    after: Communication,
    lines: list[Line],
    time: int,
    *,
    log: bool,
) -> int:
    """Take in lines that follow what is indexed, and return the communication's number.

    `log` False leaves the update log out. Raises apsw.Error if the lines do not follow.
    """
    indexed = (
        connection.execute(
            "SELECT bytes FROM external_communications WHERE id = ?", (after.id,)
        ).get
        or 0
    )
    if indexed != lines[0].offset:
        raise apsw.AbortError("the lines before these are not indexed")
    number = connection.execute(
        _TAKE_IN,
        (
            after.id, after.channel, after.party, after.trust.value, orjson.dumps(after.scopes).decode(), after.create_time,
            after.update_time, after.message_count, orjson.dumps(after.open).decode(), int(after.released), lines[-1].end,
            lines[-1].sequence, after.party_name, after.subject, int(after.acknowledged),
        ),
    ).get  # fmt: skip
    known: dict[str, KnownRequest] = {}
    for line in lines:
        if line.entry is None:
            continue
        content, stamp = line.entry.content, line.entry.stamp
        if stamp.request_id:
            first = (
                known[stamp.request_id].first_sequence
                if stamp.request_id in known
                else line.sequence
            )
            known[stamp.request_id] = KnownRequest(
                stamp.request_id, stamp.request_hash, after.id, first, line.sequence
            )
        _take_in_line(connection, number, after.channel, line)
        before = fold(before, content)
        if log and (row := _update_of(line, before)) is not None:
            kind, escalation_id = row
            connection.execute(
                "INSERT INTO external_updates(number, kind, time, sequence, escalation_id) VALUES(?, ?, ?, ?, ?)",
                (number, kind.value, time, line.sequence, escalation_id),
            )
    for request in known.values():
        requests.add(connection, request)
    return int(number)


def searchable_text(message: ExternalMessage) -> str:
    """Return what is indexed of a message: its sender's name, its subject and its text."""
    mail = message.origin.email
    parts = (message.origin.sender_name, mail.subject if mail else "", message.text)
    return segment("\n".join(part for part in parts if part).replace("\0", " "))


def place_name(channel: str, group: str) -> str:
    """Return the name of a group on a channel, as rows of messages have it."""
    return f"{channel} {group}"


def _take_in_line(connection: apsw.Connection, number: int, channel: str, line: Line) -> None:
    match line.entry.content if line.entry else None:
        case ExternalMessage(provider_message_id=delivered) as message:
            group = place_name(channel, message.origin.group) if message.origin.group else ""
            row = (number, line.sequence, line.offset, line.length, message.timestamp, group)
            connection.execute("INSERT INTO external_messages VALUES(?, ?, ?, ?, ?, ?)", row)
            words_of_it = (message_id(number, line.sequence), searchable_text(message))
            connection.execute("INSERT INTO external_fts(rowid, text) VALUES(?, ?)", words_of_it)
            if delivered:
                connection.execute(
                    "INSERT OR IGNORE INTO external_deliveries VALUES(?, ?, ?, ?)",
                    (channel, delivered, number, line.sequence),
                )
        case EscalationOpened() as opened:
            connection.execute(
                "INSERT OR IGNORE INTO external_escalations VALUES(?, ?, ?, ?, ?, '', NULL)",
                (opened.id, number, opened.sequence, opened.question, opened.time),
            )
        case EscalationResolved() as resolved:
            connection.execute(
                "UPDATE external_escalations SET answer = ?, resolve_time = ? WHERE id = ? AND number = ?",
                (resolved.answer, resolved.time, resolved.id, number),
            )


def _update_of(line: Line, now: Communication | None) -> tuple[ExternalUpdate, str] | None:
    """Return the update that panels get of a line; `now` is the state with it. None for the text of
    a blocked party.
    """
    match line.entry.content if line.entry else None:
        case ExternalMessage(direction=Direction.INBOUND) if now and now.trust is Trust.BLOCKED:
            return None
        case ExternalMessage():
            return ExternalUpdate.MESSAGE, ""
        case TrustSet():
            return ExternalUpdate.CHANGED, ""
        case EscalationOpened(id=name) | EscalationResolved(id=name):
            return ExternalUpdate.ESCALATED, name
        case _:
            return None


# What is known ------------------------------------------------------------------------------------


def find(connection: apsw.Connection, communication_id: str) -> StoredCommunication | None:
    """A communication, or None."""
    row = connection.execute(f"{_SELECT} WHERE id = ?", (communication_id,)).fetchone()
    return None if row is None else _stored(row)


def of_party(connection: apsw.Connection, channel: str, party: str) -> StoredCommunication | None:
    """The communication with a party on a channel, or None."""
    row = connection.execute(
        f"{_SELECT} WHERE party = ? AND channel = ? ORDER BY id LIMIT 1", (party, channel)
    ).fetchone()
    return None if row is None else _stored(row)


def by_number(connection: apsw.Connection, numbers: set[int]) -> dict[int, Communication]:
    """The communications of these numbers."""
    values = (orjson.dumps(list(numbers)).decode(),)
    rows = connection.execute(f"{_SELECT} WHERE number IN (SELECT value FROM json_each(?))", values)
    return {row[0]: _stored(row).communication for row in rows}


def select(
    connection: apsw.Connection,
    chosen: CommunicationFilter,
    limit: int,
    after: tuple[int, str] | None = None,
) -> list[Communication]:
    """Those that match, newest update first, behind the place `after` = (update_time, id)."""
    where, values = ["1"], list[Any]()
    if chosen.party:
        where.append("party = ?")
        values.append(chosen.party)
    if chosen.trust is not None:
        where.append("trust = ?")
        values.append(chosen.trust.value)
    if chosen.waiting:
        where.append("open <> '[]'")
    if after is not None:
        where.append("(update_time, id) < (?, ?)")
        values += after
    query = f"{_SELECT} WHERE {' AND '.join(where)} ORDER BY update_time DESC, id DESC LIMIT ?"
    return [_stored(row).communication for row in connection.execute(query, (*values, limit))]


def delivered(
    connection: apsw.Connection, channel: str, provider_message_id: str
) -> tuple[str, int] | None:
    """The communication and the line of a message that a provider delivered, or None."""
    return connection.execute(
        "SELECT c.id, d.sequence FROM external_deliveries d JOIN external_communications c USING (number)"
        " WHERE d.channel = ? AND d.provider_message_id = ?",
        (channel, provider_message_id),
    ).fetchone()


def places_before(
    connection: apsw.Connection, number: int, sequence: int, limit: int
) -> list[Place]:
    """Return the places of the newest messages before a line, in the order of the transcript."""
    rows = connection.execute(
        "SELECT sequence, offset, length FROM external_messages WHERE number = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?",
        (number, sequence, limit),
    ).fetchall()
    return [(row[0], row[1], row[2]) for row in reversed(rows)]


def place(connection: apsw.Connection, number: int, sequence: int) -> Place | None:
    """Return the place of a line's message, or None."""
    return connection.execute(
        "SELECT sequence, offset, length FROM external_messages WHERE number = ? AND sequence = ?",
        (number, sequence),
    ).fetchone()


@dataclass(frozen=True, slots=True)
class Words:
    """A search for messages by words; every filter that is set must match. Times in milliseconds,
    `end` excluded.
    """

    query: str
    party: str = ""
    channel: str = ""
    trust: Trust | None = None
    start: int | None = None
    end: int | None = None
    communication_id: str = ""


@dataclass(frozen=True, slots=True)
class WordHits:
    """The messages that a search found, best first, with their communications; the words that were
    searched; how many match.
    """

    hits: list[tuple[Communication, Place, float]]
    terms: list[Term]
    total: int


def search(connection: apsw.Connection, asked: Words, limit: int) -> WordHits:
    """Find the messages that have any of the words, best first: by BM25, then the newest."""
    count = int(connection.execute("SELECT count(*) FROM external_messages").get)
    terms = words.choose_terms(connection, asked.query, count, words.EXTERNAL)
    finding = [term for term in terms if not term.only_ranks]
    if not finding:
        return WordHits([], terms, 0)
    where, values = _words_where(asked)
    found = (
        f" FROM external_fts JOIN external_messages m ON m.number = external_fts.rowid >> {SEQUENCE_BITS}"
        f" AND m.sequence = external_fts.rowid & {MAX_LINES} JOIN external_communications c ON c.number = m.number"
        f" WHERE external_fts MATCH ?{where}"
    )
    match = " OR ".join(term.match for term in finding)
    total = int(connection.execute(f"SELECT count(*){found}", (match, *values)).get)
    best = (
        f"SELECT m.number, m.sequence, m.offset, m.length, -rank{found}"
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
    known = by_number(connection, {row[0] for row in rows})
    return WordHits(
        [(known[row[0]], (row[1], row[2], row[3]), row[4]) for row in rows], terms, total
    )


def _words_where(asked: Words) -> tuple[str, list[Any]]:
    conditions = {
        "c.party = ?": asked.party or None,
        "c.channel = ?": asked.channel or None,
        "c.trust = ?": asked.trust.value if asked.trust else None,
        "c.id = ?": asked.communication_id or None,
        "m.time >= ?": asked.start,
        "m.time < ?": asked.end,
    }
    chosen = {condition: value for condition, value in conditions.items() if value is not None}
    return "".join(f" AND {condition}" for condition in chosen), list(chosen.values())


def in_group(
    connection: apsw.Connection, channel: str, group: str, limit: int
) -> list[tuple[Communication, Place]]:
    """The newest messages of members of a group who are not blocked, newest first, with their
    communications.
    """
    rows: list[Any] = connection.execute(
        "SELECT m.number, m.sequence, m.offset, m.length FROM external_messages m JOIN external_communications c USING (number)"
        " WHERE m.place = ? AND m.place <> '' AND c.trust <> ? ORDER BY m.time DESC, c.id DESC, m.sequence DESC LIMIT ?",
        (place_name(channel, group), Trust.BLOCKED.value, limit),
    ).fetchall()
    known = by_number(connection, {row[0] for row in rows})
    return [(known[row[0]], (row[1], row[2], row[3])) for row in rows]


def escalation(connection: apsw.Connection, escalation_id: str) -> Escalation | None:
    """An escalation, or None."""
    row = connection.execute(f"{_ESCALATIONS} WHERE e.id = ?", (escalation_id,)).fetchone()
    return None if row is None else Escalation(*row)


def escalation_about(
    connection: apsw.Connection, communication_id: str, sequence: int
) -> Escalation | None:
    """The escalation that a message opened, or None."""
    row = connection.execute(
        f"{_ESCALATIONS} WHERE c.id = ? AND e.sequence = ?", (communication_id, sequence)
    ).fetchone()
    return None if row is None else Escalation(*row)


def escalations(
    connection: apsw.Connection,
    number: int | None,
    limit: int,
    after: tuple[int, str] | None,
    *,
    resolved: bool,
) -> list[Escalation]:
    """Escalations, oldest first, behind the place `after` = (create_time, id): of one communication
    or of all.
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
    return [Escalation(*row) for row in connection.execute(query, (*values, limit))]


def escalations_by_id(connection: apsw.Connection, names: set[str]) -> dict[str, Escalation]:
    """The escalations of these ids."""
    values = (orjson.dumps(list(names)).decode(),)
    rows = connection.execute(
        f"{_ESCALATIONS} WHERE e.id IN (SELECT value FROM json_each(?))", values
    )
    return {row[0]: Escalation(*row) for row in rows}


def updates_after(connection: apsw.Connection, cursor: int, limit: int) -> list[ExternalRow]:
    """The oldest changes behind a cursor."""
    rows = connection.execute(
        "SELECT * FROM external_updates WHERE cursor > ? ORDER BY cursor LIMIT ?", (cursor, limit)
    )
    return [ExternalRow(*row) for row in rows]


def _stored(row: tuple[Any, ...]) -> StoredCommunication:
    known = Communication(
        id=row[1],
        channel=row[2],
        party=row[3],
        trust=Trust(row[4]),
        scopes=tuple(orjson.loads(row[5])),
        create_time=row[6],
        update_time=row[7],
        message_count=row[8],
        open=tuple(orjson.loads(row[9])),
        released=bool(row[10]),
        party_name=row[13],
        subject=row[14],
        acknowledged=bool(row[15]),
    )
    return StoredCommunication(row[0], known, row[11], row[12])
