"""The ledger of tokens in a database: the lines of `tokens.jsonl` as rows, which every server over
the database reads.
"""

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from recollect_server.access.token_log import TOKENS, Mark
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.lines import seal
from recollect_server.postgres.connections import Connection
from recollect_server.postgres.session import Runs
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
