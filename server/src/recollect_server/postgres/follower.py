"""The thread that follows the changes in a database, for the streams of all spaces.

A change has the number of its transaction. The oldest transaction that still runs is the horizon:
all before it have committed or never will, so what a query finds there is complete and stays so.
One transaction that writes and does not end therefore holds up every stream, and nothing else.
"""

import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import psycopg
import structlog

from recollect_server.kernel.domain.ids import Action, Kind
from recollect_server.kernel.log.lines import line_of, over
from recollect_server.kernel.log.order import (
    END,
    Key,
    Mark,
    OrderedChange,
    OrderedChanges,
    Part,
    SharedOrder,
    Take,
)
from recollect_server.kernel.log.store import LogUnavailable
from recollect_server.postgres.connections import Connection, first_row

log = structlog.get_logger("recollect.postgres")

_POLL = 0.01  # seconds between two looks for changes while somebody follows them
_AGAIN = 0.25  # seconds after a failure until the next look
_MOST_AGAIN = 5.0  # seconds between two looks for a space whose changes still cannot be read
_LAST_ANSWER = 1.0  # seconds that PostgreSQL has for a look once the server stops
_PART = 200  # changes that are given at once
_PART_BYTES = 4 << 20  # of their lines

SNAPSHOT = b"SELECT pg_current_snapshot()::text"
_NOTHING = "1:1:"  # a snapshot that sees no transaction
# PostgreSQL resets its statistics whenever it recovers from a crash, as it empties the drafts.
_LOOK = b"""
    SELECT pg_current_snapshot()::text, recollect.timeline(),
           extract(epoch FROM pg_stat_get_bgwriter_stat_reset_time())
"""

# Of all spaces at once, those where something came behind one moment. A space is an index scan of
# one partition, which takes PostgreSQL 7 us; LIMIT keeps it from reading all spaces' changes.
_CHANGED = b"""
    SELECT it.space, coalesce(c.is_there, false), coalesce(d.is_there, false)
    FROM unnest(%(spaces)s::text[]) AS it (space)
    LEFT JOIN LATERAL (
        SELECT true AS is_there FROM recollect.changes
        WHERE space = it.space AND xid >= %(from)s::text::xid8 AND xid < %(horizon)s::text::xid8
        LIMIT 1
    ) c ON true
    LEFT JOIN LATERAL (
        SELECT true AS is_there FROM recollect.drafts
        WHERE space = it.space AND replica <> %(replica)s
          AND xid >= pg_snapshot_xmin(%(snapshot)s::text::pg_snapshot)
          AND NOT pg_visible_in_snapshot(xid, %(snapshot)s::text::pg_snapshot)
        LIMIT 1
    ) d ON true
    WHERE c.is_there OR d.is_there
"""

# Of one space and below a horizon that was read before: each parameter is known when the statement
# begins, so that it opens one partition of each table. Of a deleted log no lines are left to give.
_AFTER = """
    SELECT c.xid::text::bigint, c.id, c.tag, c.log, c.kind, c.action, c."from", c.until,
           (extract(epoch FROM c."time") * 1000)::bigint, coalesce(c.channel, ''), c.is_last,
           c.total,
           l.offsets, l.numbers, l.bodies
    FROM (
        SELECT c.*, lead(c.xid) OVER (ORDER BY c.xid, c.id) IS DISTINCT FROM c.xid AS is_last,
               count(*) OVER () AS total,
               sum(greatest(c.until - c."from", 0)) OVER (ORDER BY c.xid, c.id)
                   - greatest(c.until - c."from", 0) AS bytes_before
        FROM (
            SELECT * FROM recollect.changes
            WHERE space = %(space)s AND (xid, id) > (%(xid)s::text::xid8, %(id)s)
              AND xid < %(horizon)s::text::xid8 {only}
            ORDER BY xid, id LIMIT %(limit)s
        ) c
    ) c
    LEFT JOIN LATERAL (
        SELECT array_agg(l."offset" ORDER BY l."offset") AS offsets,
               array_agg(l.line ORDER BY l."offset") AS numbers,
               array_agg(l.body ORDER BY l."offset") AS bodies
        FROM recollect.lines l
        WHERE l.space = %(space)s AND l.log = c.log
          AND l."offset" >= c."from" AND l."offset" < c.until
          AND NOT EXISTS (
              SELECT FROM recollect.changes d WHERE d.space = %(space)s
              AND d.log = c.log AND d.action = 'delete' AND d.xid > c.xid)
    ) l ON c.kind = %(kind)s AND c.action IN ('append', 'redact')
    WHERE c.bytes_before < %(bytes)s
    ORDER BY c.xid, c.id
"""
_PARTS = b"""
    SELECT log, draft, channel, "offset", text, done FROM recollect.drafts
    WHERE space = %s AND replica <> %s
      AND xid >= pg_snapshot_xmin(%s::text::pg_snapshot)
      AND NOT pg_visible_in_snapshot(xid, %s::text::pg_snapshot) ORDER BY id
"""
_BOTH, _NEITHER = (True, True), (False, False)  # what is read: changes, parts of drafts
_ONLY = "AND xid = ANY(%(only)s::text[]::xid8[])"


@dataclass(frozen=True, slots=True)
class TransactionSnapshot:
    """The transactions that a statement sees: those before `xmax`, but for those that run."""

    xmin: int
    xmax: int
    running: tuple[int, ...]

    @classmethod
    def of(cls, text: str) -> "TransactionSnapshot":
        """Read the text of a pg_snapshot."""
        xmin, xmax, running = text.split(":")
        return cls(int(xmin), int(xmax), tuple(map(int, running.split(",") if running else ())))

    def missing_before(self, transaction: int) -> tuple[Key, ...]:
        """Return the transactions before one that it cannot see."""
        later = range(self.xmax, transaction)  # after it was taken
        return (*(Key(it) for it in self.running if it < transaction), *map(Key, later))


class Followed:
    """A kind of log of one space that is followed. The follower guards it."""

    def __init__(
        self,
        follower: "Follower",
        order: SharedOrder,
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
        self.horizon = 0
        """Everything below it was given."""
        self.snapshot = _NOTHING
        """The moment at which the parts of drafts were read last. Those that come again change
        nothing.
        """
        self.is_in_doubt = False
        """True if a takeover or a crash of PostgreSQL may have lost the position."""
        self.failure = ""
        """Reason for which its changes could not be read or given last; empty if they could."""
        self.tries_at = 0.0
        """End of the pause behind a failure, on the monotonic clock."""
        self._pause = 0.0
        self._take = take
        self._lost = lost

    def start(self) -> None:
        """Give changes from here on."""
        self._follower.add(self)

    def collect(self) -> None:
        """Do nothing: the follower gives the changes."""

    def await_next(self, *, awaited: bool) -> None:
        """Do nothing: the follower looks for changes all the time."""

    def close(self) -> None:
        """Give no more changes."""
        self._follower.remove(self)

    def give(self, changes: OrderedChanges, timeline: int) -> None:
        """Give the next changes, and go behind them."""
        if self.horizon != changes.horizon or changes.rows or changes.parts:
            self._take(changes)
        self.horizon = 0 if changes.more else changes.horizon
        if changes.rows:
            last = changes.rows[-1]
            self.mark = Mark(self.mark.epoch, timeline, last.end, last.tag)

    def verify(self, timeline: int) -> None:
        """Begin anew if the position is not that of this database any more: it was lost with a
        server of PostgreSQL. Raises LogUnavailable.
        """
        # One that was killed may give the numbers below these to others. It has lost all parts of
        # before; those that come again change nothing.
        self.horizon, self.snapshot = 0, _NOTHING
        if self._order.reaches(self.mark, self.kind):
            self.mark = replace(self.mark, timeline=timeline)
        else:
            log.warning("changes_lost", space=self.space)
            self.mark = self._order.settled()
            self._lost()
        self.is_in_doubt = False

    def fail(self, error: Exception) -> None:
        """Pause behind a failure, longer behind each."""
        self._pause = min(2 * self._pause or _AGAIN, _MOST_AGAIN)
        self.tries_at = time.monotonic() + self._pause
        reason = _reason(error)
        if reason != self.failure:
            is_foreseen = isinstance(error, psycopg.Error | LogUnavailable)
            log.warning(
                "changes_not_followed",
                space=self.space,
                reason=reason,
                error=type(error).__name__,
                exc_info=not is_foreseen,
            )
        self.failure = reason

    def recover(self) -> None:
        """Note that its changes were read and given."""
        if self.failure:
            log.info("changes_followed_again", space=self.space)
            self.failure, self.tries_at, self._pause = "", 0.0, 0.0


class Follower:
    """Reads the changes of all spaces that are followed, in a thread and on a connection that it
    has while anything is followed. Safe to call from any thread.

    Each few milliseconds it looks whether anything in the database changed, and then asks by one
    statement in which of the spaces. Only those are read, and those that are not level: they are
    new, have more than was read at once, may have lost their position, or failed. A space that
    fails has a pause and is then read by itself; it holds up no other.
    """

    def __init__(
        self, connect: Callable[[], Connection], connection: Connection, replica: int
    ) -> None:
        """`connect` makes a connection of its own; `connection` is used now; `replica` is the
        number of this process. Raises psycopg.Error.
        """
        self._connect = connect
        self._replica = replica
        self.epoch = epoch_of(connection)
        """Name of the database in cursors."""
        self.timeline = timeline_of(connection)
        """The timeline of the database when it was last asked for."""
        self._guard = threading.Condition()  # guards everything below
        self._followed: list[Followed] = []
        self._busy: Followed | None = None
        self._thread: threading.Thread | None = None
        self._is_hurried = self._is_closed = False
        self._connection: Connection | None = None  # of the thread, while it looks for changes
        self._recovered: object = None  # the last crash of PostgreSQL, as of the last look
        self._level = _NOTHING, 0  # snapshot and horizon of the last look
        self._reason = ""  # for which they were read one by one in the last look

    def add(self, followed: Followed) -> None:
        """Follow something more."""
        with self._guard:
            self._followed.append(followed)
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(
                    target=self._follow, name="change-follower", daemon=True
                )
                self._thread.start()
            self._guard.notify_all()

    def remove(self, followed: Followed) -> None:
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
        """Follow nothing any more, and do not wait long for a PostgreSQL that does not answer."""
        with self._guard:
            self._is_closed = True
            self._followed.clear()
            self._guard.notify_all()
            thread = self._thread
        if thread is None:
            return
        thread.join(_LAST_ANSWER)
        while thread.is_alive():
            if (connection := self._connection) is not None:
                sever(connection)
            thread.join(_AGAIN)

    # The thread -----------------------------------------------------------------------------------

    def _follow(self) -> None:
        connection: Connection | None = None
        failure = ""  # the last look's
        while followed := self._next():
            rest = _POLL
            try:
                if connection is None:
                    connection = self._connection = self._connect()
                    self.timeline = timeline_of(connection)
                    self._recovered = None
                    if failure:
                        for it in followed:
                            it.is_in_doubt = True
                if self._look(connection, followed):
                    rest = 0.0
                if failure:
                    log.info("changes_followed_again")
                failure = ""
            except Exception as error:  # noqa: BLE001 - all streams wait for this thread, whatever one look raises
                rest = _AGAIN
                reason = _reason(error)
                if reason != failure:
                    failure = reason
                    log.warning("changes_not_followed", reason=reason, error=type(error).__name__)
                if connection is not None:
                    self._connection = None
                    connection.close()
                    connection = None
            self._rest(rest)
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _next(self) -> list[Followed]:
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

    def _look(self, connection: Connection, followed: list[Followed]) -> bool:
        """Look for changes once, and give them. Return whether there are more. Raises
        psycopg.Error if the connection is lost.
        """
        text, timeline, recovered = first_row(connection, _LOOK)
        snapshot = TransactionSnapshot.of(text)
        if self.timeline != timeline or self._recovered not in (None, recovered):
            # A standby took over, or a crash passed, behind a pooler, whose connections stay.
            for it in followed:
                it.is_in_doubt = True
        self.timeline, self._recovered = timeline, recovered
        now = time.monotonic()
        due = [it for it in followed if it.tries_at <= now]
        changed = self._changed(connection, due, snapshot, text)
        more = False
        for it in due:
            try:
                read = changed.get(it, _NEITHER)
                if it.is_in_doubt:
                    it.verify(timeline)
                    read = _BOTH
                elif read is _NEITHER and self._level == (text, snapshot.xmin):
                    continue
                changes = self._read(connection, it, snapshot, *read)
                self._give(it, changes, text)
            except Exception as error:
                if connection.closed:
                    raise
                # Whatever one of them raises, the others are given theirs.
                it.fail(error)
                continue
            it.recover()
            more = more or changes.more
        self._level = text, snapshot.xmin
        return more

    def _changed(
        self,
        connection: Connection,
        due: list[Followed],
        snapshot: TransactionSnapshot,
        text: str,
    ) -> dict[Followed, tuple[bool, bool]]:
        """Return what is to be read, each with whether it has changes and parts of drafts."""
        level = [it for it in due if (it.snapshot, it.horizon) == self._level and not it.failure]
        changed = dict.fromkeys({*due}.difference(level), _BOTH)
        if not level or self._level == (text, snapshot.xmin):
            return changed
        before, horizon = self._level
        values = {
            "spaces": list({it.space for it in level}),
            "from": str(horizon),
            "horizon": str(snapshot.xmin),
            "replica": self._replica,
            "snapshot": before,
        }
        try:
            rows = {space: read for space, *read in connection.execute(_CHANGED, values)}
        except psycopg.Error as error:
            if connection.closed:
                raise
            # The changes of one space may be damaged: each is read, and that one fails alone.
            if self._reason != (reason := _reason(error)):
                log.warning("changes_read_one_by_one", reason=reason)
            self._reason = reason
            return dict.fromkeys(due, _BOTH)
        self._reason = ""
        return changed | {it: tuple(rows[it.space]) for it in level if it.space in rows}

    def _read(
        self,
        connection: Connection,
        it: Followed,
        snapshot: TransactionSnapshot,
        has_changes: bool,
        has_parts: bool,
    ) -> OrderedChanges:
        if has_changes and it.horizon != snapshot.xmin:
            changes = read_after(
                connection, it.space, it.mark.key, it.kind, _PART, _PART_BYTES, snapshot
            )
        else:
            changes = OrderedChanges([], False, snapshot.xmin, snapshot.xmax)
        if has_parts and it.kind is Kind.CONVERSATION:
            parts = connection.execute(_PARTS, [it.space, self._replica, it.snapshot, it.snapshot])
            changes.parts.extend(Part(*part) for part in parts)
        return changes

    def _give(self, it: Followed, changes: OrderedChanges, text: str) -> None:
        """Give changes, as of a snapshot, to one that is still followed."""
        with self._guard:
            if it not in self._followed:
                return
            self._busy = it
        try:
            it.give(changes, self.timeline)
            it.snapshot = text
        finally:
            with self._guard:
                self._busy = None
                self._guard.notify_all()


def read_after(
    connection: Connection,
    space: str,
    key: Key,
    kind: Kind,
    limit: int,
    max_bytes: int,
    snapshot: TransactionSnapshot,
    only: Sequence[int] = (),
) -> OrderedChanges:
    """Read the oldest changes behind a key and below the horizon of a snapshot (see
    `kernel.log.order.Order.after`).
    """
    values = {
        "space": space,
        "kind": kind.value,
        "xid": str(key.transaction),
        # One that was given in part is given again.
        "id": key.change if key.line == END else key.change - 1,
        "horizon": str(snapshot.xmin),
        "limit": limit,
        "bytes": max_bytes,
        "only": [str(it) for it in only],
    }
    statement = _AFTER.format(only=_ONLY if only else "").encode()
    with connection.cursor(binary=True) as cursor:
        rows = cursor.execute(statement, values).fetchall()
    part: list[OrderedChange] = []
    total = 0
    for (
        xid,
        number,
        tag,
        name,
        log_kind,
        action,
        start,
        until,
        at,
        channel,
        is_last,
        count,
        *lines,
    ) in rows:
        total = count
        offsets, numbers, bodies = (it or [] for it in lines)
        there = (
            line_of(bytes(body), line, offset)
            for offset, line, body in zip(offsets, numbers, bodies, strict=True)
        )
        written = [*over(name, ()).lines(there)]
        part.append(
            OrderedChange(
                *(xid, number, tag, name, log_kind, Action(action), start, until, at, channel),
                written,
                is_last,
            )
        )
    is_cut = len(part) < total
    if len(part) == limit > 1:  # the next one may be of the same transaction as the last
        part.pop()
        is_cut = True
    return OrderedChanges(part, is_cut, snapshot.xmin, snapshot.xmax)


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def sever(connection: Connection) -> None:
    """End the wait for an answer of a connection with the error that it is lost."""
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(connection.pgconn.socket)) as handle,
    ):
        handle.shutdown(socket.SHUT_RDWR)


def epoch_of(connection: Connection) -> str:
    """Return the name of a database in cursors: of its contents, in this cluster of PostgreSQL.
    Another cluster numbers its transactions anew.
    """
    identity, system = first_row(
        connection,
        "SELECT identity::text, system_identifier::text FROM recollect.owner, pg_control_system()",
    )
    return hashlib.sha256(f"{identity} {system}".encode()).hexdigest()[:12]


def timeline_of(connection: Connection) -> int:
    """Return the timeline of the database."""
    return int(first_row(connection, "SELECT recollect.timeline()")[0])
