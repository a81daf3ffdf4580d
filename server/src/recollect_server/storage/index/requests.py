"""Which requests were answered, so that a repeated one is answered again and stores nothing."""

from dataclasses import dataclass

import apsw

from recollect_server.storage.index.seen import Seen
from recollect_server.storage.logs.received import key_of_delivery


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """A request that was carried out: the lines it wrote (0 to 0: none) and, where no line tells it, its answer."""

    request_id: str
    hash: str
    conversation_id: str
    first_sequence: int = 0
    last_sequence: int = 0
    cursor: int = 0
    answer: str = ""


def all_seen(connection: apsw.Connection) -> Seen:
    """The ids of all requests; the hashes of deliveries that are forgotten, and the keys of those of third parties; Message-IDs."""
    tables = ("requests", "forgotten", "external_deliveries", "mail")
    seen = Seen(sum(int(connection.execute(f"SELECT count(*) FROM {table}").get) for table in tables))
    for (text,) in connection.execute("SELECT request_id FROM requests UNION ALL SELECT key FROM forgotten"):
        seen.add(text)
    for channel, delivered in connection.execute("SELECT channel, provider_message_id FROM external_deliveries"):
        seen.add(key_of_delivery(channel, delivered))
    for (name,) in connection.execute("SELECT name FROM mail"):
        seen.add(name)
    return seen


def find(connection: apsw.Connection, request_id: str) -> KnownRequest | None:
    """The request of this id, or None."""
    row = connection.execute("SELECT * FROM requests WHERE request_id = ?", (request_id,)).fetchone()
    return None if row is None else KnownRequest(*row)


def add(connection: apsw.Connection, request: KnownRequest) -> None:
    """Remembers a request. One that is known already (its line was indexed before) is kept as it was."""
    connection.execute(
        "INSERT OR IGNORE INTO requests VALUES(?, ?, ?, ?, ?, ?, ?)",
        (
            request.request_id, request.hash, request.conversation_id, request.first_sequence, request.last_sequence,
            request.cursor, request.answer,
        ),
    )  # fmt: skip


def remove(connection: apsw.Connection, conversation_id: str, limit: int) -> int:
    """Forgets at most `limit` of a conversation's requests. Returns how many."""
    query = "SELECT request_id FROM requests WHERE conversation_id = ? LIMIT ?"
    connection.execute(f"DELETE FROM requests WHERE request_id IN ({query})", (conversation_id, limit))
    return connection.changes()
