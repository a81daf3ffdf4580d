"""Rows of external communications: the columns of their tables, and how lines are taken in."""

from dataclasses import dataclass
from typing import NamedTuple

import apsw

from recollect_server.domain.conversation import MessagesRedacted
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
from recollect_server.domain.ids import message_id
from recollect_server.storage.index import requests, updates
from recollect_server.storage.index.analysis import indexed_form, plain_form
from recollect_server.storage.index.columns import (
    Column,
    Columns,
    KnownRequest,
    UpdateRow,
    dump_json,
    load_texts,
)
from recollect_server.storage.index.updates import Update
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.lines import Line


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


COMMUNICATIONS = Columns(
    "external_communications",
    StoredCommunication,
    Column("id", "communication.id", is_fixed=True),
    Column("channel", "communication.channel", is_fixed=True),
    Column("party", "communication.party", is_fixed=True),
    Column("trust", "communication.trust", load=Trust, dump=str),
    Column("scopes", "communication.scopes", load=load_texts, dump=dump_json),
    Column("create_time", "communication.create_time", is_fixed=True),
    Column("update_time", "communication.update_time"),
    Column("message_count", "communication.message_count"),
    Column("open", "communication.open", load=load_texts, dump=dump_json),
    Column("released", "communication.released", load=bool, dump=int),
    Column("bytes"),
    Column("lines"),
    Column("party_name", "communication.party_name"),
    Column("subject", "communication.subject"),
    Column("acknowledged", "communication.acknowledged", load=bool, dump=int),
    Column("number", expression="number"),
    parts={"communication": Communication},
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

_TAKE_IN = (
    f"INSERT {COMMUNICATIONS.insert} ON CONFLICT(id) DO UPDATE SET"
    f" {', '.join(f'{name} = excluded.{name}' for name in COMMUNICATIONS.changing)} RETURNING number"
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
    stored = StoredCommunication(0, after, lines[-1].end, lines[-1].sequence)
    number = int(connection.execute(_TAKE_IN, COMMUNICATIONS.values(stored)).get)
    first: dict[str, KnownRequest] = {}
    for line in lines:
        if line.entry is None:
            continue
        if (stamp := line.entry.stamp).request_id:
            first_line = first.get(stamp.request_id)
            first[stamp.request_id] = KnownRequest(
                stamp.request_id,
                stamp.request_hash,
                after.id,
                first_line.first_sequence if first_line else line.sequence,
                line.sequence,
            )
        _take_in_line(connection, number, after.channel, line)
    for at, (time, begin, end) in enumerate(changes, start=cursor + 1):
        row = UpdateRow(at, number, Kind.COMMUNICATION, time, begin, end)
        updates.add(connection, row)
    for request in first.values():
        requests.add(connection, request)
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
