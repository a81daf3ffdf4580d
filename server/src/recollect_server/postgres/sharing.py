"""The part of a space's store that replicas share: changes, claims, leases and receipts (see
`kernel.log.store.Sharing`).
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from recollect_server.kernel.domain.ids import Action
from recollect_server.kernel.log.store import (
    Change,
    Changes,
    LogTaken,
    LogUnavailable,
    request_claim,
)
from recollect_server.postgres.connections import (
    BRIEFLY,
    Connection,
    DatabaseTaken,
    DatabaseUnavailable,
)
from recollect_server.postgres.database import PostgresDatabase, Runs

held_lease: ContextVar[tuple[str | None, int | None]] = ContextVar("lease", default=(None, None))
"""Lease of the work that this thread does: its purpose and its number."""
# A snapshot, the history, and what PostgreSQL calls that.
_HISTORY = (
    "(recollect.timeline() || ':' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))"
)
_MOMENT = f"pg_current_snapshot()::text || ' ' || {_HISTORY}"
# Of all spaces at once, those of which `changes` has something. It waits for no lock for long: then
# each is asked for by itself.
_CHANGED = f"""
    SELECT it.space
    FROM unnest(%s::text[], %s::text[]::pg_snapshot[], %s::text[]) AS it (space, snapshot, history)
    WHERE it.history <> {_HISTORY}
       OR pg_snapshot_xmax(it.snapshot) > pg_snapshot_xmax(pg_current_snapshot())
       OR EXISTS (SELECT FROM recollect.pruned p
                  WHERE p.space = it.space AND NOT pg_visible_in_snapshot(p.xid, it.snapshot))
       OR EXISTS (SELECT FROM recollect.changes c
                  WHERE c.space = it.space AND c.xid >= pg_snapshot_xmin(it.snapshot)
                    AND NOT pg_visible_in_snapshot(c.xid, it.snapshot))
""".encode()
_REQUEST = "%s, %s, %s, %s::uuid"  # a request that leaves no line (see `_request`)


class PostgresSharing:
    """The part of one space that replicas share (see `Sharing`)."""

    def __init__(self, database: PostgresDatabase, space: str) -> None:
        self._database = database
        self._space = space

    def moment(self, *, join: bool = False) -> str:
        """Return the present moment: a snapshot of the database, and its timeline."""
        if join:
            with failing("shared", "read"):  # its number is forgotten after a long silence
                self._database.run(lambda connection, _: self._database.sign(connection))
            self._rows(
                "INSERT INTO recollect.followers (space, replica) VALUES (%s, %s)"
                " ON CONFLICT DO NOTHING",
                *(self._space, self._database.number),
            )
        ((moment, newest),) = self._rows(
            f"SELECT {_MOMENT}, coalesce((SELECT xid FROM recollect.changes WHERE space = %s"
            " ORDER BY xid DESC LIMIT 1), (SELECT xid FROM recollect.pruned WHERE space = %s))::text",
            *(self._space, self._space),
        )
        return _durable(str(moment), int(newest or 0))

    def changes(self, after: str, *, is_first: bool = True) -> Changes:
        """Return everything that was committed between a moment and now, by one statement."""
        snapshot, _, timeline = after.partition(" ")
        rows = self._rows(
            f"SELECT {_MOMENT}, p.xid IS NOT NULL, c.xid::text,"
            ' c.log, c.kind, c.action, c."from", c.until, c.replica FROM (SELECT 1) one'
            " LEFT JOIN recollect.pruned p ON p.space = %s AND NOT pg_visible_in_snapshot(p.xid, %s)"
            " LEFT JOIN recollect.changes c ON c.space = %s"
            " AND c.xid >= pg_snapshot_xmin(%s) AND NOT pg_visible_in_snapshot(c.xid, %s)"
            " ORDER BY c.xid, c.id",
            *(self._space, snapshot, self._space, snapshot, snapshot),
        )
        moment, is_pruned = rows[0][:2]
        rows = [row[2:] for row in rows if row[2] is not None]
        newest = max((int(xid) for xid, *_ in rows), default=0)
        if is_first and _is_unnoted(moment, after):
            # A pooler led the connection to another server by itself.
            self._rows("SELECT recollect.enter()")
            return self.changes(after, is_first=False)
        is_taken_over = not (moment.endswith(f" {timeline}") and _follows(moment, snapshot))
        return Changes(
            [
                Change(log, kind, Action(action), start, end, replica == self._database.number)
                for _, log, kind, action, start, end, replica in rows
            ],
            _durable(moment, max(newest, int(snapshot.split(":")[1]) - 1)),
            not is_pruned and not is_taken_over,
            is_taken_over,
        )

    def changed(self, moments: Mapping[str, str]) -> set[str]:
        """Return those of the spaces that `changes` has something of, by one statement."""
        parts = [it.partition(" ") for it in moments.values()]
        values = [*moments], [it[0] for it in parts], [it[2] for it in parts]

        def work(connection: Connection, _: bool) -> set[str]:
            with connection.transaction():
                connection.execute(BRIEFLY)
                return {space for (space,) in connection.execute(_CHANGED, values)}

        with failing("shared", "read"):
            return self._database.run(work)

    def changed_since_takeover(self, moment: str) -> dict[str, int] | None:
        """Return where each log was first changed since the takeover that followed a moment."""
        timeline = moment.partition(" ")[2].partition(":")[0]
        rows = self._rows(
            "SELECT t.began::text, p.xid IS NOT NULL FROM recollect.timelines own"
            " JOIN LATERAL (SELECT began FROM recollect.timelines WHERE id > own.id"
            " ORDER BY id LIMIT 1) t ON true"
            " LEFT JOIN recollect.pruned p ON p.space = %s AND p.xid >= t.began"
            " WHERE own.tag = %s",
            *(self._space, int(timeline)),
        )
        if len(rows) != 1 or rows[0][1]:
            return None
        rows = self._rows(
            'SELECT log, min("from") FROM recollect.changes'
            " WHERE space = %s AND xid >= %s::xid8 GROUP BY log",
            *(self._space, rows[0][0]),
        )
        return {str(log): int(start) for log, start in rows}

    def claims(self, places: Sequence[str], *, anew: bool = False) -> tuple[tuple[str, str], ...]:
        """Return places with what claimed each last."""
        keys = {key_of(place): place for place in places}
        if anew:
            self._rows(
                "INSERT INTO recollect.claims (space, key, log, append)"
                " SELECT %s, key, '', gen_random_uuid() FROM unnest(%s::bytea[]) AS key"
                " ON CONFLICT (space, key) DO UPDATE"
                " SET log = '', append = excluded.append, \"time\" = now() RETURNING 1",
                *(self._space, list(keys)),
                action="written",
            )
        rows = self._rows(
            "SELECT key, append::text FROM recollect.claims WHERE space = %s AND key = ANY(%s)",
            *(self._space, list(keys)),
        )
        last = {keys[bytes(key)]: str(append) for key, append in rows}
        return tuple((place, last.get(place, "")) for place in keys.values())

    def begin_request(self, request_id: str, payload: str, log: str = "", note: str = "") -> bool:
        """Claim the id of a request, and keep that it is begun, and the note of a log."""
        begin, request = f"recollect.begin_request({_REQUEST})", self._request(request_id, payload)
        if not log:
            return bool(self._rows(f"SELECT {begin}", *request, action="written")[0][0])
        rows = self._rows(
            "INSERT INTO recollect.receipts (space, key, answer)"
            f" SELECT %s, %s, %s WHERE {begin}"
            " ON CONFLICT (space, key) DO UPDATE SET answer = excluded.answer RETURNING 1",
            *(self._space, _note_key(log), note, *request),
            action="written",
        )
        return bool(rows)

    def end_request(self, request_id: str, payload: str, answer: str | None) -> str:
        """Keep the answer of a request, and return the first one, or drop the claim of a request
        that has none.
        """
        request = self._request(request_id, payload)
        if answer is None:
            self._rows(f"SELECT recollect.give_up_request({_REQUEST})", *request, action="written")
            return ""
        keep = f"SELECT recollect.answer_request({_REQUEST}, %s)"
        return str(self._rows(keep, *request, answer, action="written")[0][0])

    def answer(self, request_id: str = "", payload: str = "", *, log: str = "") -> str | None:
        """Return what `end_request` kept of a request, or the note of a log."""
        statement = "SELECT answer FROM recollect.receipts WHERE space = %s AND key = %s"
        values: tuple[object, ...] = self._space, _note_key(log) if log else key_of(request_id)
        if payload:
            _, _, *claim = self._request(request_id, payload)
            # One of a server of the version before has no claim.
            statement += (
                " AND NOT (answer = '' AND EXISTS (SELECT FROM recollect.claims"
                " WHERE space = %s AND key = %s AND append <> %s))"
            )
            values = *values, self._space, *claim
        rows = self._rows(statement, *values)
        return str(rows[0][0]) if rows else None

    def _request(self, request_id: str, payload: str) -> tuple[str, bytes, bytes, UUID]:
        """Return the parameters of the schema's functions for a request that leaves no line."""
        claim = key_of(request_claim(request_id))
        return self._space, key_of(request_id), claim, UUID(payload)

    def is_deleted_with_space(self, log: str) -> bool:
        """Return whether a log was deleted before the delete of its space ended."""
        # The row of that delete was written last when it ended, and again once no line is left.
        ((is_deleted,),) = self._rows(
            "SELECT EXISTS (SELECT FROM recollect.deleted_spaces d"
            " JOIN recollect.changes c ON c.space = d.name AND c.log = %s AND c.action = 'delete'"
            " WHERE d.name = %s AND NOT d.emptied"
            " AND (NOT d.ended OR age(c.xid::xid) > age(d.xmin)))",
            *(log, self._space),
        )
        return bool(is_deleted)

    @contextmanager
    def lease(self, purpose: str, seconds: float) -> Iterator[int]:
        """Take a lease, or hold on to it. Give its number; 0: another replica has it."""
        ((number,),) = self._rows(
            "SELECT recollect.take_lease(%s, %s, %s::bigint, %s::double precision)",
            *(self._space, purpose, self._database.number, seconds),
        )
        if not number:
            yield 0
            return
        self._database.note_lease(self._space, purpose, time.monotonic() + seconds)
        before = held_lease.set((purpose, int(number)))
        try:
            yield int(number)
        finally:
            held_lease.reset(before)

    def vectors(self, model: str, texts: Sequence[tuple[str, bytes]]) -> dict[bytes, bytes]:
        """Return the vectors of texts, each by its log and hash."""
        rows = fetched(
            *(self._database, "vectors", "read"),
            "SELECT v.hash, v.body FROM unnest(%s::text[], %s::bytea[]) AS it (log, hash)"
            " JOIN recollect.vectors v ON v.space = %s AND v.log = it.log"
            " AND v.model = %s AND v.hash = it.hash",
            *([log for log, _ in texts], [it for _, it in texts], self._space, model),
        )
        return {bytes(name): bytes(body) for name, body in rows}

    def keep_vectors(
        self, model: str, log: str, vectors: Mapping[bytes, bytes], moment: str
    ) -> None:
        """Keep vectors of texts of a log."""
        self._rows(
            "SELECT recollect.keep_vectors(%s, %s, %s, %s::pg_snapshot, %s::bytea[], %s::bytea[])",
            *(self._space, log, model, moment.partition(" ")[0]),
            *(list(vectors), list(vectors.values())),
        )

    def prune_changes(self, max_age: float, most: int) -> int:
        """Remove old changes, none of a transaction that may still run."""
        ((count,),) = self._rows(
            "SELECT recollect.prune_changes(%s, %s::double precision, %s::bigint)",
            *(self._space, max_age, most),
        )
        return int(count)

    def _rows(self, statement: str, *values: object, action: str = "read") -> list[tuple[Any, ...]]:
        return fetched(self._database, "shared", action, statement, *values)


def key_of(name: str) -> bytes:
    """Return the key of a claim or a receipt: it tells nobody who said what to whom."""
    return hashlib.sha256(name.encode()).digest()[:16]


def _note_key(log: str) -> bytes:
    return key_of(f"\n{log}")  # no request id has a newline


def fetched(
    database: Runs, log: str, action: str, statement: str, *values: object
) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, none of one that gives none. Raises LogUnavailable, with the
    log and the action.
    """

    def work(connection: Connection, _: bool) -> list[tuple[Any, ...]]:
        with connection.cursor(binary=True) as cursor:
            cursor.execute(statement.encode(), values)
            return [] if cursor.description is None else cursor.fetchall()

    with failing(log, action):
        return database.run(work)


@contextmanager
def failing(log: str, action: str) -> Iterator[None]:
    """Turn what the database refuses into the errors of a store."""
    try:
        yield
    except DatabaseTaken as error:
        raise LogTaken(log, action, "another server carries the same out") from error
    except DatabaseUnavailable as error:
        raise LogUnavailable(log, action, str(error)) from error


def _durable(moment: str, newest: int) -> str:
    """Return a moment that sees no transaction behind the `newest` change that is visible.

    Those behind it left nothing for the space, and may have left nothing at all: once it is killed,
    PostgreSQL gives the numbers of such transactions to others, whose changes are still to be seen.
    Of those before it the newest change, which is durable, lets it know.
    """
    snapshot, _, history = moment.partition(" ")
    xmin, xmax, running = snapshot.split(":")
    end = newest + 1
    if int(xmax) <= end:
        return moment
    before = ",".join(it for it in running.split(",") if it and int(it) < end)
    return f"{min(int(xmin), end)}:{end}:{before} {history}"


def _is_unnoted(moment: str, before: str) -> bool:
    """Return whether PostgreSQL has another name for the history than before, and the database has
    not.
    """
    (tag, _, place), (tag_before, _, place_before) = (
        it.partition(" ")[2].partition(":") for it in (moment, before)
    )
    return tag == tag_before and place != place_before


def _follows(moment: str, snapshot: str) -> bool:
    """Return whether a moment can lie behind a snapshot: transactions begin anew in a copy."""
    return int(moment.split(":")[1]) >= int(snapshot.split(":")[1])
