"""The order of changes in PostgreSQL (see `storage.logs.order`), and the thread that follows it.

A change has the number of its transaction. The oldest transaction that still runs is the horizon:
all before it have committed or never will, so what a query finds there is complete and stays so.
One transaction that writes and does not end therefore holds up every stream, and nothing else.
"""

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
import structlog

from recollect_server.storage.logs.lines import Line, line_of
from recollect_server.storage.logs.order import END, Change, Changes, Following, Key, Mark, Take
from recollect_server.storage.logs.store import Kind, LogUnavailable
from recollect_server.storage.postgres.database import Connection, Database, DatabaseUnavailable, said

log = structlog.get_logger("recollect.postgres")

_POLL = 0.01  # seconds between two looks for changes while somebody follows them
_AGAIN = 0.25  # seconds after a failure until the next look
_PART = 200  # changes that are given at once
_PART_BYTES = 4 << 20  # of their lines

# The snapshot in a row of its own, then the changes of each that is followed behind its place: in
# one statement, so that the horizon is that of the rows.
_AFTER = """
    SELECT 0::bigint AS n, pg_current_snapshot()::text AS snapshot, NULL::bigint AS transaction,
           NULL::bigint AS id, NULL::integer AS tag, NULL::text AS log, NULL::text AS kind,
           NULL::text AS action, NULL::bigint AS start, NULL::bigint AS until,
           NULL::bigint AS time, NULL::boolean AS is_last, NULL::bigint AS total,
           NULL::bigint[] AS offsets, NULL::integer[] AS numbers, NULL::bytea[] AS bodies
    UNION ALL
    SELECT f.n, NULL, c.xid::text::bigint, c.id, c.tag, c.log, c.kind, c.action, c."from", c.until,
           (extract(epoch FROM c."time") * 1000)::bigint, c.is_last, c.total,
           l.offsets, l.numbers, l.bodies
    FROM unnest(%(spaces)s::text[], %(kinds)s::text[], %(xids)s::text[], %(ids)s::bigint[])
         WITH ORDINALITY AS f (space, kind, xid, id, n)
    CROSS JOIN LATERAL (
        SELECT c.*, lead(c.xid) OVER (ORDER BY c.xid, c.id) IS DISTINCT FROM c.xid AS is_last,
               count(*) OVER () AS total,
               sum(greatest(c.until - c."from", 0)) OVER (ORDER BY c.xid, c.id)
                   - greatest(c.until - c."from", 0) AS bytes_before
        FROM (
            SELECT * FROM recollect.changes
            WHERE space = f.space AND (xid, id) > (f.xid::xid8, f.id)
              AND xid < pg_snapshot_xmin(pg_current_snapshot()) {only}
            ORDER BY xid, id LIMIT %(limit)s
        ) c
    ) c
    LEFT JOIN LATERAL (
        SELECT array_agg(l."offset" ORDER BY l."offset") AS offsets,
               array_agg(l.line ORDER BY l."offset") AS numbers,
               array_agg(l.body ORDER BY l."offset") AS bodies
        FROM recollect.lines l
        WHERE l.space = f.space AND l.log = c.log
          AND l."offset" >= c."from" AND l."offset" < c.until
          AND NOT EXISTS (
              SELECT FROM recollect.changes d
              WHERE d.space = f.space AND d.log = c.log AND d.action = 'delete' AND d.xid > c.xid)
    ) l ON c.kind = f.kind AND c.action IN ('append', 'redact')
    WHERE c.bytes_before < %(bytes)s
    ORDER BY 1, 3, 4
"""
_ONLY = "AND xid = ANY(%(only)s::text[]::xid8[])"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a statement can see: all transactions before `xmax` but for those that run."""

    xmin: int
    xmax: int
    running: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> "Snapshot":
        """Read the text of a pg_snapshot."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), tuple(map(int, running.split(",") if running else ())))

    def missing_before(self, transaction: int) -> tuple[int, ...]:
        """Return the transactions before one that it cannot see."""
        begun = range(self.xmax, transaction)  # after it was taken
        return (*(it for it in self.running if it < transaction), *begun)


class PostgresOrder:
    """The order of the changes of one space in a database."""

    def __init__(self, database: Database, follower: "Follower", space: str) -> None:
        self._database = database
        self._follower = follower
        self._space = space

    def now(self) -> Mark:
        """Return the position behind everything that is visible now."""
        return self._newest("")

    def _newest(self, condition: str) -> Mark:
        row = self._rows(
            "SELECT pg_current_snapshot()::text, c.xid::text, c.tag, recollect.timeline()"
            " FROM (SELECT) AS one LEFT JOIN LATERAL ("
            f" SELECT xid, tag FROM recollect.changes WHERE space = %s {condition}"
            " ORDER BY xid DESC, id DESC LIMIT 1) c ON true",
            self._space,
        )[0]
        snapshot, xid, tag, timeline = row
        return self._mark(int(xid or 0), tag or 0, Snapshot.of(snapshot), timeline)

    def _mark(self, xid: int, tag: int, seen: Snapshot, timeline: int) -> Mark:
        return Mark(
            self._follower.epoch, timeline, Key(xid, END, END), tag, seen.missing_before(xid)
        )

    def reaches(self, mark: Mark) -> bool:
        """Return whether everything behind a mark is still here, and what is before it was never
        lost.
        """
        if mark.epoch != self._follower.epoch:
            return False
        oldest = min((*mark.missing, mark.key.transaction))
        row = self._rows(
            "SELECT (SELECT xid::text FROM recollect.pruned WHERE space = %s), c.tag,"
            " c.seen::text, pg_snapshot_xmax(pg_current_snapshot())::text, recollect.timeline()"
            " FROM (SELECT) AS one LEFT JOIN recollect.changes c"
            " ON c.space = %s AND c.xid = %s::text::xid8 AND c.tag = %s LIMIT 1",
            self._space,
            self._space,
            str(mark.key.transaction),
            mark.tag,
        )[0]
        pruned, tag, seen, next_one, timeline = row
        if oldest < int(pruned or 0) or mark.key.transaction >= int(next_one):
            return False
        if not mark.key.transaction or mark.key.transaction == int(pruned or 0):
            return True
        if tag is None:
            return False
        if timeline == mark.timeline:
            return True
        # A copy took over since. It has this change, and all that was seen when this was written;
        # of what ran beside it the mark may have seen some that the copy never got.
        beside = set(Snapshot.of(seen).missing_before(mark.key.transaction)) - set(mark.missing)
        return all(
            status == "committed"
            for (status,) in self._rows(
                "SELECT pg_xact_status(it::xid8) FROM unnest(%s::text[]) it",
                [str(it) for it in beside],
            )
        )

    def after(
        self, key: Key, kind: Kind, limit: int, max_bytes: int, only: Sequence[int] = ()
    ) -> Changes:
        """Return the oldest changes behind a key and below the horizon."""
        values = {
            "spaces": [self._space],
            "kinds": [kind.value],
            **_places([key]),
            "limit": limit,
            "bytes": max_bytes,
            "only": [str(it) for it in only],
        }
        rows = self._named(_AFTER.format(only=_ONLY if only else ""), values)
        return _changes(rows, 1, limit)[0]

    def beyond(self, mark: Mark) -> dict[str, int]:
        """Return the logs that were changed behind a mark, and where."""
        rows = self._rows(
            "SELECT log, CASE WHEN bool_or(action = 'delete') THEN -1 ELSE min(\"from\") END"
            " FROM recollect.changes WHERE space = %s"
            " AND (xid > %s::text::xid8 OR xid = ANY(%s::text[]::xid8[])) GROUP BY log",
            self._space,
            str(mark.key.transaction),
            [str(it) for it in mark.missing],
        )
        return {str(name): int(start) for name, start in rows}

    def of_line(self, log: str, sequence: int) -> Mark | None:
        """Return the position of the change that wrote a line; None if it is not known any more."""
        # The row of the line says which transaction wrote it, by the low half of its number.
        rows = self._rows(
            'SELECT "offset", xmin::text, pg_snapshot_xmax(pg_current_snapshot())::text'
            " FROM recollect.lines WHERE space = %s AND log = %s AND line = %s",
            self._space,
            log,
            sequence,
        )
        if not rows:
            return None
        offset, low, next_one = int(rows[0][0]), int(rows[0][1]), int(rows[0][2])
        xid = next_one >> 32 << 32 | low
        xid -= (1 << 32) if xid >= next_one else 0
        rows = self._rows(
            "SELECT tag, seen::text, recollect.timeline() FROM recollect.changes"
            ' WHERE space = %s AND xid = %s::text::xid8 AND log = %s AND "from" <= %s AND until > %s',
            self._space,
            str(xid),
            log,
            offset,
            offset,
        )
        if not rows:
            return None
        tag, seen, timeline = rows[0]
        return self._mark(xid, tag, Snapshot.of(seen), timeline)

    def of_change(self, text: str) -> Mark | None:
        """Return the position of a change by what `recollect.add_change` left of it."""
        if not text:
            return None
        xid, tag, seen = text.split(" ")
        return self._mark(int(xid), int(tag), Snapshot.of(seen), self._follower.timeline)

    def follow(self, kind: Kind, take: Take, lost: Callable[[], None]) -> Following:
        """Give the changes from now on from the thread of the follower."""
        followed = _Followed(self._follower, self, self._space, kind, take, lost)
        self._follower.add(followed)
        return followed

    def settled(self) -> Mark:
        """Return the position of the newest change below the horizon."""
        return self._newest("AND xid < pg_snapshot_xmin(pg_current_snapshot())")

    def hurry(self) -> None:
        """Look for changes at once."""
        self._follower.hurry()

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._named(statement, values)

    def _named(
        self, statement: str, values: Sequence[object] | dict[str, object]
    ) -> list[tuple[Any, ...]]:
        def work(connection: Connection, _: bool) -> list[tuple[Any, ...]]:
            with connection.cursor(binary=True) as cursor:
                return cursor.execute(statement.encode(), values).fetchall()

        try:
            return self._database.run(work)
        except DatabaseUnavailable as error:
            raise LogUnavailable("changes", "read", str(error)) from error


class _Followed:
    """What is followed of one space. The follower guards it."""

    def __init__(
        self,
        follower: "Follower",
        order: PostgresOrder,
        space: str,
        kind: Kind,
        take: Take,
        lost: Callable[[], None],
    ) -> None:
        self._follower = follower
        self._order = order
        self.space = space
        self.kind = kind
        self.mark = order.settled()
        self._take = take
        self._lost = lost

    def close(self) -> None:
        """Give no more changes."""
        self._follower.remove(self)

    def give(self, changes: Changes, timeline: int) -> None:
        """Give the next changes, and go behind them."""
        self._take(changes)
        if changes.rows:
            last = changes.rows[-1]
            place = Key(last.transaction, *((END, END) if last.is_last else (last.number, END)))
            self.mark = Mark(self.mark.epoch, timeline, place, last.tag)

    def verify(self) -> None:
        """Begin anew if the position is not that of this database any more: it was lost with a
        server of PostgreSQL.
        """
        if not self._order.reaches(self.mark):
            log.warning("changes_lost", space=self.space)
            self.mark = self._order.settled()
            self._lost()


class Follower:
    """Reads the changes of all spaces that are followed, by one query each few milliseconds, in a
    thread and on a connection that it has while anything is followed. Safe to call from any thread.
    """

    def __init__(self, database: Database) -> None:
        """Raises DatabaseUnavailable."""
        self._database = database
        connection = database.connected()
        try:
            self.epoch = epoch_of(connection)
            """Name of the database in cursors."""
            self.timeline = timeline_of(connection)
            """The timeline of the database when it was last asked for."""
        finally:
            connection.close()
        self._guard = threading.Condition()  # guards everything below
        self._followed: list[_Followed] = []
        self._busy: _Followed | None = None
        self._thread: threading.Thread | None = None
        self._is_hurried = self._is_closed = False

    def add(self, followed: _Followed) -> None:
        """Follow something more."""
        with self._guard:
            self._followed.append(followed)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._follow, name="follower", daemon=True)
                self._thread.start()
            self._guard.notify_all()

    def remove(self, followed: _Followed) -> None:
        """Follow it no more, and wait until it is given nothing."""
        with self._guard:
            if followed in self._followed:
                self._followed.remove(followed)
            if threading.current_thread() is not self._thread:
                self._guard.wait_for(lambda: self._busy is not followed)

    def hurry(self) -> None:
        """Look for changes at once, if anything is followed."""
        if self._followed:
            with self._guard:
                self._is_hurried = True
                self._guard.notify_all()

    def close(self) -> None:
        """Follow nothing any more."""
        with self._guard:
            self._is_closed = True
            self._followed.clear()
            self._guard.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    # The thread -----------------------------------------------------------------------------------

    def _follow(self) -> None:
        connection: Connection | None = None
        is_failing = False
        while followed := self._next():
            rest = _POLL
            try:
                if connection is None:
                    connection = self._database.connected()
                    self.timeline = timeline_of(connection)
                    if is_failing:
                        for it in followed:
                            it.verify()
                if self._look(connection, followed):
                    rest = 0.0
                if is_failing:
                    log.info("changes_followed_again")
                is_failing = False
            except (psycopg.Error, DatabaseUnavailable, LogUnavailable) as error:
                if not is_failing:
                    log.warning("changes_not_followed", reason=said(error))
                is_failing, rest = True, _AGAIN
                if connection is not None:
                    connection.close()
                    connection = None
            self._rest(rest)
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _next(self) -> list[_Followed]:
        """Return what is followed; nothing if the thread is to end."""
        with self._guard:
            if not self._followed:
                self._thread = None
            return list(self._followed)

    def _rest(self, seconds: float) -> None:
        with self._guard:
            if not self._is_hurried and self._followed and seconds:
                self._guard.wait(seconds)
            self._is_hurried = False

    def _look(self, connection: Connection, followed: list[_Followed]) -> bool:
        """Look for changes once, and give them. Return whether there are more."""
        values = {
            "spaces": [it.space for it in followed],
            "kinds": [it.kind.value for it in followed],
            **_places([it.mark.key for it in followed]),
            "limit": _PART,
            "bytes": _PART_BYTES,
        }
        with connection.cursor(binary=True) as cursor:
            rows = cursor.execute(_AFTER.format(only="").encode(), values).fetchall()
        more = False
        for it, changes in zip(followed, _changes(rows, len(followed), _PART), strict=True):
            with self._guard:
                if it not in self._followed:
                    continue
                self._busy = it
            try:
                it.give(changes, self.timeline)
                more = more or changes.more
            except LogUnavailable:
                raise
            except Exception:
                # Whatever one of them raises, the others are given theirs.
                log.exception("fault", space=it.space)
                time.sleep(_POLL)
            finally:
                with self._guard:
                    self._busy = None
                    self._guard.notify_all()
        return more


def epoch_of(connection: Connection) -> str:
    """Return the name of a database in cursors: of its contents, in this cluster of PostgreSQL.
    Another cluster numbers its transactions anew.
    """
    row = connection.execute(
        "SELECT identity::text, system_identifier::text FROM recollect.owner, pg_control_system()"
    ).fetchone()
    assert row is not None
    return hashlib.sha256(f"{row[0]} {row[1]}".encode()).hexdigest()[:12]


def timeline_of(connection: Connection) -> int:
    """Return the timeline of the database."""
    row = connection.execute("SELECT recollect.timeline()").fetchone()
    assert row is not None
    return int(row[0])


def _places(keys: list[Key]) -> dict[str, object]:
    """Return keys as the parameters of `_AFTER`. A change that was given in part is given again."""
    return {
        "xids": [str(it.transaction) for it in keys],
        "ids": [it.change if it.line == END else it.change - 1 for it in keys],
    }


def _changes(rows: list[tuple[Any, ...]], count: int, limit: int) -> list[Changes]:
    """Return the rows of `_AFTER` as the changes of each that is followed."""
    snapshot = Snapshot.of(rows[0][1])
    parts: list[list[Change]] = [[] for _ in range(count)]
    totals = [0] * count
    for n, _, xid, number, tag, name, kind, action, start, until, at, is_last, total, *lines in rows[
        1:
    ]:
        offsets, numbers, bodies = (it or [] for it in lines)
        parts[n - 1].append(
            Change(
                *(xid, number, tag, name, kind, action, start, until, at),
                [
                    line_of(bytes(body), line, offset)
                    for offset, line, body in zip(offsets, numbers, bodies, strict=True)
                ],
                is_last,
            )
        )
        totals[n - 1] = total
    result: list[Changes] = []
    for part, total in zip(parts, totals, strict=True):
        is_cut = len(part) < total
        if len(part) == limit > 1:  # the next one may be of the same transaction as the last
            part.pop()
            is_cut = True
        result.append(Changes(part, is_cut, snapshot.xmin, snapshot.xmax))
    return result
