"""Spaces of a database that are made and deleted, the receipts of the deleted ones, and the mark of
a database that all logs are copied to (see `kernel.log.moves`).

A space is deleted log by log, as others delete a log. The receipt is written first, with the
numbers of what is there then, and tells the other replicas, which ask for it every second
(`follow`): each closes the space and removes its local folder; the last one removes the lines. A
delete that was interrupted is ended by the next start of a server. Rows that died stay in the
tables' files until a vacuum, which autovacuum begins within `autovacuum_naptime`, a minute unless
it is set otherwise.
"""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.log.files import read_file
from recollect_server.kernel.log.moves import MoveMark
from recollect_server.kernel.log.space_removal import SpaceReceipt
from recollect_server.kernel.log.store import LogNotFound, Version
from recollect_server.postgres.connections import Connection, first_row
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.sharing import failing, fetched
from recollect_server.postgres.store import PostgresStore

_AT_ONCE = 8  # logs that are deleted
_PAGE = 1000
_OTHER_TABLES = ("drafts", "claims", "leases", "receipts", "vectors")
"""Tables that have rows of a space beside its logs. `changes` keeps the names of the deleted
logs until they are pruned: by them other replicas know what to remove.
"""
_RECEIPT = 'name, "time", conversations, communications, bytes'


class PostgresSpaces:
    """The spaces of a database. Safe to call from any thread. Raises LogUnavailable."""

    def __init__(self, database: PostgresDatabase, data_dir: Path) -> None:
        """`data_dir` has the local folders of derived files."""
        self._database = database
        self._data_dir = data_dir
        self._done: set[int] = set()
        """Ids of deletes after which this replica has nothing of the space: all up to `_base`, and
        these.
        """
        self._file = data_dir / f"postgres-{database.identity[:8]}.removals"
        try:
            self._base = int(read_file(self._file))
        except (OSError, ValueError):  # what is removed once more is indexed anew
            self._base = 0

    def names(self) -> list[str]:
        """Return the names of all spaces, in order."""
        made = {name for (name,) in self._rows("listed", "SELECT space FROM recollect.made_spaces")}
        # Rows of a deleted log stay while another replica has words of it.
        deleted_names = {it.name for it in self.receipts()} - made
        names = {name for name in self._with_logs() if name not in deleted_names or self._has(name)}
        return sorted(names | made)

    def _with_logs(self) -> list[str]:
        # From each name to the next one in the index: one step for each space, not for each log.
        rows = self._rows(
            "listed",
            "WITH RECURSIVE names AS ("
            " (SELECT space FROM recollect.logs ORDER BY space LIMIT 1) UNION ALL"
            " SELECT (SELECT l.space FROM recollect.logs l WHERE l.space > names.space"
            " ORDER BY l.space LIMIT 1) FROM names WHERE names.space IS NOT NULL)"
            " SELECT space FROM names WHERE space IS NOT NULL",
        )
        return [name for (name,) in rows]

    def awaited(self) -> list[str]:
        """Return the spaces where others wait for this replica to remove what they deleted."""
        awaited = "SELECT DISTINCT space FROM recollect.traces WHERE replica = %s"
        return [name for (name,) in self._rows("listed", awaited, self._database.number)]

    def has(self, name: str) -> bool:
        """Return whether a space has a log, or was made."""
        return self._has(name) or self.is_made(name)

    def has_rows(self, name: str) -> bool:
        """Return whether a space has a log, or a part of one that is deleted."""
        return self._is("logs WHERE space = %s", name)

    def make(self, name: str) -> bool:
        """Let a space be there without a log; return whether it was not there."""
        is_new = not self.has(name)
        insert = "INSERT INTO recollect.made_spaces (space) VALUES (%s) ON CONFLICT DO NOTHING"
        self._rows("written", insert, name)
        return is_new

    def remove(self, name: str, now: int) -> SpaceReceipt:
        """Delete a space with everything in it, durably. Nobody has it open in this process. Raises
        OSError.
        """
        hit("space.begun")
        self._rows(
            "deleted",
            f"INSERT INTO recollect.deleted_spaces ({_RECEIPT})"
            " SELECT %s, %s, count(*) FILTER (WHERE kind = 'conversations'),"
            " count(*) FILTER (WHERE kind = 'external'),"
            " coalesce(sum(bytes) FILTER (WHERE kind IN ('conversations', 'external')), 0)"
            " FROM recollect.logs WHERE space = %s AND NOT deleting ON CONFLICT DO NOTHING",
            *(name, now, name),
        )
        hit("space.receipt_written")
        return self._finish(name)

    def follow(self, close: Callable[[str, Callable[[], None]], None]) -> None:
        """Remove what this replica has of spaces that others deleted. `close` closes a space, and
        calls a function while nobody can open it. Raises OSError, and what `close` raises.
        """
        rows = self._rows(
            "read",
            "SELECT id, name, ended, emptied FROM recollect.deleted_spaces"
            " WHERE id > %s OR NOT emptied ORDER BY id",
            self._base,
        )
        is_whole = True
        for number, name, is_ended, is_emptied in rows:
            is_whole = is_whole and is_ended
            if is_ended and number > self._base and number not in self._done:
                close(name, lambda name=name: self._remove_folder(name))  # type: ignore[misc]
                self._done.add(number)
            if is_whole and number > self._base:
                self._base = number
                self._done.discard(number)
                self._file.write_text(str(number))
            if is_ended and not is_emptied:
                self._empty(number, name)

    def finish_removals(self) -> list[SpaceReceipt]:
        """End the deletes that were interrupted, and remove local folders of spaces that other
        servers deleted. Raises OSError.
        """
        unfinished = "SELECT name FROM recollect.deleted_spaces WHERE NOT ended"
        ended = [self._finish(name) for (name,) in self._rows("read", unfinished)]
        # What is indexed anew at its next use has nothing of what was deleted while this was away.
        self.follow(lambda _, remove: remove())
        return ended

    def receipts(self) -> list[SpaceReceipt]:
        """Return the receipts of all deleted spaces, oldest first."""
        rows = self._rows("read", f"SELECT {_RECEIPT} FROM recollect.deleted_spaces ORDER BY id")
        return [SpaceReceipt(name, *map(int, numbers)) for name, *numbers in rows]

    def mark(self) -> MoveMark | None:
        """Return the mark of the database, if all logs are copied to it."""
        select = "SELECT source, ended FROM recollect.moved_from"
        rows = fetched(self._database, "shared", "read", select)
        return MoveMark(*rows[0]) if rows else None

    def set_mark(self, mark: MoveMark) -> None:
        """Replace the mark."""
        fetched(
            *(self._database, "shared", "written"),
            "INSERT INTO recollect.moved_from (source, ended) VALUES (%s, %s)"
            " ON CONFLICT (alone) DO UPDATE"
            " SET source = excluded.source, ended = excluded.ended",
            *(mark.source, mark.ended),
        )

    def _finish(self, name: str) -> SpaceReceipt:
        store = PostgresStore(self._database, name, self._data_dir / name)

        def delete(log: str) -> None:
            with suppress(LogNotFound):
                store.swap(log, None)

        with ThreadPoolExecutor(_AT_ONCE, "space-delete") as pool:
            for logs in self._logs(name):
                for _ in pool.map(delete, logs):
                    pass

        self._remove_folder(name)

        def end(connection: Connection, _: bool) -> tuple[int, SpaceReceipt]:
            with connection.transaction():
                connection.execute("DELETE FROM recollect.made_spaces WHERE space = %s", [name])
                for table in _OTHER_TABLES:
                    connection.execute(
                        f"DELETE FROM recollect.{table} WHERE space = %s".encode(), [name]
                    )
                connection.execute(
                    "UPDATE recollect.deleted_spaces SET ended = true WHERE name = %s", [name]
                )
            number, _, *numbers = first_row(
                connection,
                f"SELECT id, {_RECEIPT} FROM recollect.deleted_spaces WHERE name = %s"
                " ORDER BY id DESC LIMIT 1".encode(),
                [name],
            )
            return int(number), SpaceReceipt(name, *map(int, numbers))

        with failing(Kind.CONVERSATION, "deleted"):
            number, receipt = self._database.run(end)
        self._done.add(number)
        hit("space.removed")
        self._empty(number, name)
        return receipt

    def _empty(self, number: int, name: str) -> None:
        """Remove the lines of deleted logs that no other replica has words of."""
        store = PostgresStore(self._database, name, self._data_dir / name)
        for logs in self._logs(name, "AND deleting"):
            for log in logs:
                store.drop(log, Version.DELETED)
        if not any(self._logs(name, "AND deleting")):
            emptied = "UPDATE recollect.deleted_spaces SET emptied = true WHERE id = %s"
            self._rows("deleted", emptied, number)

    def _remove_folder(self, name: str) -> None:
        """Remove the derived files of a space, and follow it no more."""
        store = PostgresStore(self._database, name, self._data_dir / name)
        with suppress(FileNotFoundError):
            shutil.rmtree(store.root)
        with suppress(OSError):  # of another store, there is more in it
            store.root.parent.rmdir()
        leave = "DELETE FROM recollect.followers WHERE space = %s AND replica = %s"
        self._rows("left", leave, name, self._database.number)

    def _logs(self, name: str, condition: str = "") -> Iterator[list[str]]:
        """Yield the logs of a space, a page at a time."""
        page = (
            f"SELECT log FROM recollect.logs WHERE space = %s AND log > %s {condition}"
            f" ORDER BY log LIMIT {_PAGE}"
        )
        last = ""
        while logs := [log for (log,) in self._rows("listed", page, name, last)]:
            yield logs
            last = logs[-1]

    def _has(self, name: str) -> bool:
        return self._is("logs WHERE space = %s AND NOT deleting", name)

    def is_made(self, name: str) -> bool:
        """Return whether a space was made: it stays without a log."""
        return self._is("made_spaces WHERE space = %s", name)

    def _is(self, rows: str, name: str) -> bool:
        return bool(self._rows("read", f"SELECT 1 FROM recollect.{rows} LIMIT 1", name))

    def _rows(self, action: str, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return fetched(self._database, Kind.CONVERSATION, action, statement, *values)
