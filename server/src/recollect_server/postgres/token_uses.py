"""The use of tokens in a database: the counts of all servers over it, added up."""

from collections.abc import Iterator, Mapping
from uuid import uuid4

from recollect_server.access.token_use_file import USES, CallCount, CallGroup, TokenUse
from recollect_server.postgres.session import Runs
from recollect_server.postgres.sharing import fetched


class PostgresTokenUses:
    """The counts in a database. Safe to call from any thread, beside other servers."""

    def __init__(self, database: Runs) -> None:
        self._database = database

    def add(self, day: int, counts: Mapping[CallGroup, CallCount]) -> None:
        """Add counts to those of a day, durably. Raises LogUnavailable."""
        # In one order: servers that add at once must not wait for each other's rows.
        rows = [(*it, n.admitted, n.refused, n.last) for it, n in sorted(counts.items())]
        fetched(
            *(self._database, USES, "written"),
            "INSERT INTO recollect.token_uses AS it"
            " (day, batch, token, space, method, peer, calls, refused, last)"
            " SELECT %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[],"
            " %s::bigint[], %s::bigint[], %s::bigint[])"
            " ON CONFLICT (token, day, space, method, peer) DO UPDATE"
            " SET calls = it.calls + excluded.calls, refused = it.refused + excluded.refused,"
            " last = greatest(it.last, excluded.last), batch = excluded.batch"
            # the statement is repeated where its connection was lost
            " WHERE it.batch <> excluded.batch",
            *(day, uuid4(), *map(list, zip(*rows, strict=True))),
        )

    def read(self, token_id: str, first: int, last: int) -> Iterator[TokenUse]:
        """Yield the use of a token from one day to another, in any order. Raises LogUnavailable."""
        for day, space, method, peer, *count in fetched(
            *(self._database, USES, "read"),
            "SELECT day, space, method, peer, calls, refused, last FROM recollect.token_uses"
            " WHERE token = %s AND day BETWEEN %s AND %s",
            *(token_id, first, last),
        ):
            yield TokenUse(day, CallGroup(token_id, space, method, peer), CallCount(*count))

    def forget(self, before: int) -> None:
        """Remove the counts of all days before one. Raises LogUnavailable."""
        statement = "DELETE FROM recollect.token_uses WHERE day < %s"
        fetched(self._database, USES, "removed", statement, before)
