"""The ledger of tokens in a database: the lines of `tokens.jsonl` as rows, which every server over
the database reads.
"""

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from recollect_server.storage.failpoints import hit
from recollect_server.storage.logs.lines import seal
from recollect_server.storage.logs.tokens import TOKENS, Mark, fields_of
from recollect_server.storage.postgres.connections import Connection
from recollect_server.storage.postgres.session import Work
from recollect_server.storage.postgres.sharing import failing

T = TypeVar("T")


class Runs(Protocol):
    """Protocol of what runs work on a connection."""

    def run(self, work: Work[T]) -> T:
        """Return the result of work. Raises DatabaseUnavailable."""


class PostgresTokenLedger:
    """The ledger of a database. Safe to call from any thread, beside other processes."""

    is_local = False
    """False: `mark` costs a round trip."""

    def __init__(self, database: Runs) -> None:
        self._database = database

    def mark(self) -> Mark:
        """Return the state of the table: another one after every change. Raises LogUnavailable."""

        def work(connection: Connection, _: bool) -> Mark:
            # The count too: of two lines that are added at once, the later one may be seen first.
            row = connection.execute(
                "SELECT count(*), coalesce(max(line), 0) FROM recollect.tokens"
            ).fetchone()
            assert row is not None
            return int(row[0]), int(row[1]), 0

        return self._run("read", work)

    def lines(self) -> list[dict[str, Any] | None]:
        """Return what the lines say, oldest first, None for a damaged one. Raises
        LogUnavailable.
        """
        return [fields_of(line) for line in self.raw()]

    def append(self, fields: dict[str, Any]) -> None:
        """Add a line, durable when it returns. Raises LogUnavailable."""
        name, body = uuid4(), seal(fields).removesuffix(b"\n")

        def work(connection: Connection, _: bool) -> None:
            connection.execute(
                "INSERT INTO recollect.tokens (append_id, body) VALUES (%s, %s)"
                " ON CONFLICT (append_id) DO NOTHING",
                [name, body],
            )

        hit("tokens.begun")
        self._run("written", work)
        hit("tokens.synced")

    def raw(self) -> list[bytes]:
        """Return the lines without their newlines. Raises LogUnavailable."""

        def work(connection: Connection, _: bool) -> list[bytes]:
            rows = connection.execute("SELECT body FROM recollect.tokens ORDER BY line")
            return [bytes(body) for (body,) in rows]

        return self._run("read", work)

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

        return self._run("written", work)

    def _run(self, action: str, work: Work[T]) -> T:
        with failing(TOKENS, action):
            return self._database.run(work)
