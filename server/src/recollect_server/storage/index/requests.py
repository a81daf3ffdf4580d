"""Requests that were carried out, so that a repeated one is answered again and stores nothing."""

import mmap
import threading

import apsw

from recollect_server.storage.index.columns import REQUESTS, KnownRequest
from recollect_server.storage.index.database import Database
from recollect_server.storage.logs.received import key_of_delivery

_BITS = 16  # of the Bloom filter, for each name
_LEAST_NAMES = 1 << 20  # 2 MB
_FIND = f"SELECT {REQUESTS.list} FROM requests WHERE request_id = ?"
_request_of = REQUESTS.reader()


class SeenNames:
    """A Bloom filter (Bloom 1970) of names that may be in the index, so that a new one needs no
    query.

    Names are texts, or numbers as `domain.routing.mail_number` makes them. With sixteen bits and
    two hashes a name, about one new name in seventy is taken for one that may be there, and then
    the database is queried. A name that was added is never missed.
    """

    def __init__(self, expected: int) -> None:
        """Make room for twice as many names as expected; beyond that false hits grow more frequent,
        until the next start.
        """
        self._size = max(_LEAST_NAMES, 2 * expected) * _BITS
        self._bits = mmap.mmap(-1, self._size // 8 + 1)  # takes memory as it fills
        self._guard = threading.Lock()  # guards the bits while they change

    def add(self, name: str | int) -> None:
        """Add a name."""
        first, second = self._places(name)
        with self._guard:
            self._bits[first >> 3] |= 1 << (first & 7)
            self._bits[second >> 3] |= 1 << (second & 7)

    def __contains__(self, name: str | int) -> bool:
        first, second = self._places(name)
        return bool(
            self._bits[first >> 3] >> (first & 7) & self._bits[second >> 3] >> (second & 7) & 1
        )

    def _places(self, name: str | int) -> tuple[int, int]:
        # The two halves of Python's hash. That of a text is keyed anew in every process; a number
        # is part of a hash already.
        value = hash(name)
        return (value & 0xFFFFFFFF) % self._size, (value >> 32 & 0xFFFFFFFF) % self._size


def all_names(connection: apsw.Connection) -> SeenNames:
    """Return the names in the index: ids of requests, Message-IDs, hashes of forgotten deliveries,
    keys of third parties' ones.
    """
    tables = ("requests", "forgotten", "external_deliveries", "mail")
    names = SeenNames(
        sum(int(connection.execute(f"SELECT count(*) FROM {table}").get) for table in tables)
    )
    for (text,) in connection.execute(
        "SELECT request_id FROM requests UNION ALL SELECT key FROM forgotten"
    ):
        names.add(text)
    for channel, delivered in connection.execute(
        "SELECT channel, provider_message_id FROM external_deliveries"
    ):
        names.add(key_of_delivery(channel, delivered))
    for (name,) in connection.execute("SELECT name FROM mail"):
        names.add(name)
    return names


def add(connection: apsw.Connection, request: KnownRequest) -> None:
    """Record a request. One that is recorded already (its line was indexed before) stays as it
    was.
    """
    connection.execute(f"INSERT OR IGNORE {REQUESTS.insert}", REQUESTS.values(request))


class RequestTable:
    """The requests that were carried out. Every method raises IndexUnavailable."""

    def __init__(self, database: Database, names: SeenNames) -> None:
        self._database = database
        self._names = names

    def find(self, request_id: str) -> KnownRequest | None:
        """Return a request that was carried out before, or None."""
        if request_id not in self._names:
            return None
        with self._database.reading() as connection:
            row = connection.execute(_FIND, (request_id,)).fetchone()
            return None if row is None else _request_of(row)

    def add(self, request: KnownRequest) -> None:
        """Record a request that wrote no line."""
        self._names.add(request.request_id)
        self._database.write(lambda connection, _: add(connection, request))
