"""The ledger of tokens in a database: the lines of `tokens.jsonl` as rows, which every server over
the database reads; and the use of tokens: the counts of all servers over it, added up.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from recollect_server.access.token_log import TOKENS, Mark
from recollect_server.access.token_uses import USES, CallCount, CallGroup, TokenUse
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.lines import seal
from recollect_server.postgres.connections import Connection
from recollect_server.postgres.database import Runs
from recollect_server.postgres.sharing import failing, fetched


class PostgresTokenLedger:
    """The ledger of a database. Safe to call from any thread, beside other processes."""

    is_local = False
    """False: `mark` costs a round trip."""

    def __init__(self, database: Runs) -> None:
        self._database = database

    def mark(self) -> Mark:
        """Return the state of the table: another one after every change. Raises LogUnavailable."""
        # The count too: of two lines that are added at once, the later one may be seen first.
        newest = "SELECT count(*), coalesce(max(line), 0) FROM recollect.tokens"
        ((count, last),) = fetched(self._database, TOKENS, "read", newest)
        return count, last, 0

    def append(self, fields: dict[str, Any]) -> None:
        """Add a line, durable when it returns. Raises LogUnavailable."""
        hit("tokens.begun")
        fetched(
            *(self._database, TOKENS, "written"),
            "INSERT INTO recollect.tokens (append_id, body) VALUES (%s, %s)"
            " ON CONFLICT (append_id) DO NOTHING",
            *(uuid4(), seal(fields).removesuffix(b"\n")),
        )
        hit("tokens.synced")

    def raw(self) -> list[bytes]:
        """Return the lines without their newlines, oldest first. Raises LogUnavailable."""
        bodies = "SELECT body FROM recollect.tokens ORDER BY line"
        return [bytes(body) for (body,) in fetched(self._database, TOKENS, "read", bodies)]

    def fill(self, lines: Iterable[bytes], *, is_anew: bool = False) -> bool:
        """Add lines, without their newlines, unless there are some: then `is_anew` replaces them.
        Return whether they were added. Raises LogUnavailable.
        """
        bodies = list(lines)

        def work(connection: Connection, _: bool) -> bool:
            with connection.transaction():
                connection.execute("LOCK TABLE recollect.tokens IN EXCLUSIVE MODE")
                if is_anew:
                    connection.execute("DELETE FROM recollect.tokens")
                elif connection.execute("SELECT 1 FROM recollect.tokens LIMIT 1").fetchone():
                    return False
                for body in bodies:
                    connection.execute(
                        "INSERT INTO recollect.tokens (append_id, body) VALUES (%s, %s)",
                        [uuid4(), body],
                    )
            return bool(bodies)

        with failing(TOKENS, "written"):
            return self._database.run(work)


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
