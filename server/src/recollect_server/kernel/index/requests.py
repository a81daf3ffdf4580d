"""Requests that were carried out, so that a repeated one is answered again and stores nothing."""

import mmap
import threading
from collections.abc import Iterable

import apsw

from recollect_server.kernel.index.columns import REQUESTS, KnownRequest
from recollect_server.kernel.index.database import Database
from recollect_server.kernel.log.lines import Line

_BITS = 32  # of the Bloom filters, for each name
_LEAST_NAMES = 1 << 12  # 16 KiB: a server has many spaces, and most of them are small
_GROWTH = 4  # room of each further filter, in that of the one before
# A request of a conversation that is being removed is free.
_FIND = f"""
    SELECT * FROM (SELECT {REQUESTS.list} FROM requests WHERE request_id = ?1
        UNION ALL SELECT {REQUESTS.list} FROM requests_used_again WHERE request_id = ?1)
    WHERE first_sequence = 0 OR conversation_id NOT IN (SELECT id FROM deletions) LIMIT 1
"""
_request_of = REQUESTS.reader()


class SeenNames:
    """Bloom filters (Bloom 1970) of names that may be in the index, so that a new one needs no
    query.

    Names are texts, or numbers as `people.routing.mail_number` makes them. With 32 bits and four
    places a name, a full filter takes one new name in 5,000 for one that may be there; then an
    append waits for the index, and queries it. A name that was added is never missed. A filter that
    is full is followed by a larger one.
    """

    def __init__(self, expected: int) -> None:
        """Make room for as many names as expected."""
        self._filters: tuple[_Filter, ...] = (_Filter(max(_LEAST_NAMES, expected)),)
        self._guard = threading.Lock()  # guards the filters while they change

    def add(self, name: str | int) -> None:
        """Add a name."""
        value = hash(name)
        with self._guard:
            newest = self._filters[-1]
            if newest.names >= newest.room:
                newest = _Filter(_GROWTH * newest.room)
                self._filters += (newest,)
            for at in _places(value, newest.size):
                newest.bits[at >> 3] |= 1 << (at & 7)
            newest.names += 1

    def add_requests(self, lines: list[Line]) -> None:
        """Add the requests that wrote lines."""
        request_id = ""  # the lines of one follow each other
        for line in lines:
            if line.entry is not None and line.entry.stamp.request_id not in ("", request_id):
                request_id = line.entry.stamp.request_id
                self.add(request_id)

    def __contains__(self, name: str | int) -> bool:
        value = hash(name)
        for it in self._filters:
            for at in _places(value, it.size):
                if not it.bits[at >> 3] >> (at & 7) & 1:
                    break
            else:
                return True
        return False


class _Filter:
    """A Bloom filter of hashes."""

    __slots__ = ("bits", "names", "room", "size")

    def __init__(self, room: int) -> None:
        self.room = room
        self.names = 0
        self.size = room * _BITS
        self.bits = mmap.mmap(-1, self.size // 8 + 1)  # takes memory as it fills


def _places(value: int, size: int) -> tuple[int, int, int, int]:
    """Return the places of a hash in a filter: sums of the two halves of Python's hash (Kirsch and
    Mitzenmacher 2006), as that of a text is keyed anew in every process, and a number is part of a
    hash already.
    """
    one, other = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF
    return one % size, (one + other) % size, (one + 2 * other) % size, (one + 3 * other) % size


def all_names(connection: apsw.Connection, queries: Iterable[str]) -> SeenNames:
    """Return the names in the index: ids of requests, and those of features' tables, by the queries
    of them.
    """
    queries = ["SELECT request_id FROM requests", *queries]
    counts = (connection.execute(f"SELECT count(*) FROM ({it})").get for it in queries)
    names = SeenNames(sum(map(int, counts)))
    for query in queries:
        for (name,) in connection.execute(query):
            names.add(name)
    return names


def carried_by(lines: list[Line]) -> list[tuple[str, str, int, int]]:
    """Return the requests that wrote lines: id, hash, first and last line of each."""
    carried: dict[str, tuple[str, str, int, int]] = {}
    for line in lines:
        if line.entry is not None and (name := line.entry.stamp.request_id):
            new = (name, line.entry.stamp.request_hash, line.sequence, line.sequence)
            carried[name] = (*carried.get(name, new)[:3], line.sequence)
    return list(carried.values())


def add(connection: apsw.Connection, request: KnownRequest) -> None:
    """Record a request. One that is recorded already (its line was indexed before) stays as it
    was.
    """
    connection.execute(f"INSERT OR IGNORE {REQUESTS.insert}", REQUESTS.values(request))


class RequestTable:
    """The requests that were carried out."""

    def __init__(self, database: Database, names: SeenNames) -> None:
        self._database = database
        self._names = names

    def find(self, request_id: str) -> KnownRequest | None:
        """Return a request that was carried out before, or None."""
        if request_id not in self._names:
            return None
        row = self._database.row(_FIND, (request_id,))
        return None if row is None else _request_of(row)

    def add(self, request: KnownRequest) -> None:
        """Record a request that wrote no line."""
        self._names.add(request.request_id)
        self._database.write(lambda connection, _: add(connection, request))
