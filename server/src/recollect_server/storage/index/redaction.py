"""Redaction in the index: the words of messages go, their rows stay, and the conversation is as its
transcript says from then on.

All of it is one transaction. It takes in the line that says that the messages were redacted: how
far a transcript is indexed tells whether it was done.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import apsw
import orjson

from recollect_server.domain.budget import message_tokens
from recollect_server.domain.conversation import Conversation
from recollect_server.domain.ids import message_id
from recollect_server.domain.message import Message
from recollect_server.storage.index.messages import searchable_text
from recollect_server.storage.index.removal import purge_of, take_out_words, wordless_line
from recollect_server.storage.logs.redaction import ANY_HASH

_TAKE_IN = "INSERT INTO incoming SELECT jsonb(?)"


@dataclass(frozen=True, slots=True)
class Erased:
    """Contents of the index that a redaction takes out."""

    messages: Collection[tuple[Message, Message]]
    """Each message as it was, and as it is."""
    events: Collection[int]
    """Lines of events that were erased."""
    requests: Collection[str]
    """Requests whose payload is not known any more."""
    mail: Collection[int]
    """Message-IDs that still lead to the conversation."""


def redact(
    connection: apsw.Connection,
    number: int,
    before: Conversation,
    after: Conversation,
    erased: Erased,
    document: Callable[[], str],
) -> None:
    """Take the text out of the tables, and take in the document of the line that says so."""
    line = wordless_line(connection, number)
    texts = {
        message_id(number, old.sequence): searchable_text(old) if old.sequence > line else ""
        for old, _ in erased.messages
    }
    take_out_words(connection, "turns_fts", texts, purge_of(number))
    connection.executemany(
        "UPDATE messages SET tokens = ? WHERE id = ?",
        [(message_tokens(new), message_id(number, new.sequence)) for _, new in erased.messages],
    )
    of_lines = (number, orjson.dumps(list(erased.events)).decode())
    connection.execute(
        "DELETE FROM anchors WHERE number = ? AND line IN (SELECT value FROM json_each(?))",
        of_lines,
    )
    turns = orjson.dumps([new.turn_number for _, new in erased.messages]).decode()
    connection.execute(
        "UPDATE turn_memories SET summary = ''"
        " WHERE number = ? AND turn IN (SELECT value FROM json_each(?))",
        (number, turns),
    )
    forget_payloads(connection, after.id, erased.requests)
    connection.execute(
        "DELETE FROM mail WHERE number = ? AND name NOT IN (SELECT value FROM json_each(?))",
        (number, orjson.dumps(list(erased.mail)).decode()),
    )
    if not after.party.contact_name:
        connection.execute("DELETE FROM contact_names WHERE number = ?", (number,))
    if after.compressed_through < before.compressed_through:
        connection.execute(
            "UPDATE conversations SET compaction_from = 0 WHERE number = ?", (number,)
        )
    connection.execute("DELETE FROM note_refusals WHERE number = ?", (number,))
    connection.execute(_TAKE_IN, (document(),))
    # As in an index that is made anew: no row where there is nothing.
    connection.execute(
        "DELETE FROM notes WHERE number = ? AND abbreviation = '' AND compression_summary = ''",
        (number,),
    )
    connection.execute(
        "DELETE FROM note_records WHERE number = ? AND abbreviation_writer = '' AND title_writer = ''",
        (number,),
    )
    # The notes that are left were written without what the messages said: they are made again.
    connection.execute(
        "UPDATE conversations SET abbreviation_wanted = 1 WHERE number = ? AND turn_count > abbreviated_through",
        (number,),
    )


def forget_payloads(connection: apsw.Connection, log: str, requests: Iterable[str]) -> None:
    """Forget the payloads of requests that wrote to a log."""
    for table in ("requests", "requests_used_again"):
        connection.executemany(
            f"UPDATE {table} SET hash = ? WHERE request_id = ? AND conversation_id = ?",
            [(ANY_HASH, request, log) for request in requests],
        )
