"""The order of the changes of a space in PostgreSQL (see `kernel.log.order`)."""

from collections.abc import Callable, Sequence
from typing import Any

from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.log.order import END, Following, Key, Mark, OrderedChanges, Part, Take
from recollect_server.postgres.connections import Connection, first_row
from recollect_server.postgres.database import PostgresDatabase
from recollect_server.postgres.follower import SNAPSHOT, Followed, TransactionSnapshot, read_after
from recollect_server.postgres.sharing import failing, fetched


class PostgresOrder:
    """The order of the changes of one space in a database."""

    def __init__(self, database: PostgresDatabase, space: str) -> None:
        self._database = database
        self._follower = database.follower
        self._space = space

    def now(self) -> Mark:
        """Return the position behind everything that is visible now."""
        return self._newest("")

    def _newest(self, condition: str) -> Mark:
        row = self._rows(
            # Where every change is pruned, the newest of them: all of it is behind the position.
            "SELECT pg_current_snapshot()::text, coalesce(c.xid, p.xid)::text, c.tag,"
            " recollect.timeline() FROM (SELECT) AS one"
            " LEFT JOIN recollect.pruned p ON p.space = %s LEFT JOIN LATERAL ("
            f" SELECT xid, tag FROM recollect.changes WHERE space = %s {condition}"
            " ORDER BY xid DESC, id DESC LIMIT 1) c ON true",
            self._space,
            self._space,
        )[0]
        visible, xid, tag, timeline = row
        return self._mark(int(xid or 0), tag or 0, TransactionSnapshot.of(visible), timeline)

    def _mark(self, xid: int, tag: int, snapshot: TransactionSnapshot, timeline: int) -> Mark:
        return Mark(
            self._follower.epoch, timeline, Key(xid, END, END), tag, snapshot.missing_before(xid)
        )

    def reaches(
        self,
        mark: Mark,
        kind: Kind,  # noqa: ARG002 - all kinds are pruned together
    ) -> bool:
        """Return whether everything behind a mark is still here, and what is before it was never
        lost.
        """
        if mark.epoch != self._follower.epoch:
            return False
        oldest = min((mark.key, *mark.missing)).transaction
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
        pruned, tag, visible, next_one, timeline = row
        if oldest < int(pruned or 0) or mark.key.transaction >= int(next_one):
            return False
        if not mark.key.transaction or mark.key.transaction == int(pruned or 0):
            return True
        if tag is None:
            return False
        if timeline == mark.timeline:
            return True
        # A copy took over since. It has this change, and all that was seen when this was written;
        # of what ran beside it the mark may have seen some that the copy never got. What was rolled
        # back looks the same here, for PostgreSQL does not tell how a transaction ended that it
        # does not know as committed.
        beside = set(TransactionSnapshot.of(visible).missing_before(mark.key.transaction)) - set(
            mark.missing
        )
        return all(
            status == "committed"
            for (status,) in self._rows(
                "SELECT pg_xact_status(it::xid8) FROM unnest(%s::text[]) it",
                [str(it.transaction) for it in beside],
            )
        )

    def timeline(self) -> int:
        """Return the number of the present history."""
        return int(self._rows("SELECT recollect.timeline()")[0][0])

    def after(
        self, key: Key, kind: Kind, limit: int, max_bytes: int, only: Sequence[int] = ()
    ) -> OrderedChanges:
        """Return the oldest changes behind a key and below the horizon."""

        def work(connection: Connection, _: bool) -> OrderedChanges:
            snapshot = TransactionSnapshot.of(first_row(connection, SNAPSHOT)[0])
            return read_after(connection, self._space, key, kind, limit, max_bytes, snapshot, only)

        with failing("changes", "read"):
            return self._database.run(work)

    def placed(self, start: Mark, cursor: int) -> tuple[Mark, dict[str, int]]:  # noqa: ARG002
        """Return `start`, and the logs that were changed behind it, and where: the index may have
        had that already.
        """
        rows = self._rows(
            "SELECT log, CASE WHEN bool_or(action = 'delete') THEN -1 ELSE min(\"from\") END"
            " FROM recollect.changes WHERE space = %s"
            " AND (xid > %s::text::xid8 OR xid = ANY(%s::text[]::xid8[])) GROUP BY log",
            self._space,
            str(start.key.transaction),
            [str(it.transaction) for it in start.missing],
        )
        return start, {str(name): int(begin) for name, begin in rows}

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
        tag, visible, timeline = rows[0]
        return self._mark(xid, tag, TransactionSnapshot.of(visible), timeline)

    def of_change(self, text: str) -> Mark | None:
        """Return the position of a change by what `recollect.add_change` left of it."""
        if not text:
            return None
        xid, tag, visible = text.split(" ")
        return self._mark(
            int(xid), int(tag), TransactionSnapshot.of(visible), self._follower.timeline
        )

    def follow(
        self,
        kind: Kind,
        take: Take,
        lost: Callable[[], None],
        ready: Callable[[], None],  # noqa: ARG002
    ) -> Following:
        """Give the changes from now on from the thread of the follower."""
        return Followed(self._follower, self, self._space, kind, take, lost)

    def settled(self) -> Mark:
        """Return the position of the newest change below the horizon."""
        return self._newest("AND xid < pg_snapshot_xmin(pg_current_snapshot())")

    def publish(self, part: Part, whole: Callable[[], str], *, begins: bool) -> int:
        """Let other processes have a part of a draft. It waits for no disk."""
        if begins:
            self._rows(
                "DELETE FROM recollect.drafts WHERE space = %s"
                " AND ((log = %s AND draft = %s) OR time < now() - interval '1 hour') RETURNING 1",
                *(self._space, part.conversation_id, part.draft_id),
            )
        if not (rows := self._add(part)):
            # A crash of PostgreSQL, or the end of the draft's hour, took what was before the part.
            rows = self._add(part._replace(offset=0, text=whole()))
        return int(rows[0][0])

    def _add(self, part: Part) -> list[tuple[Any, ...]]:
        """Add a part, unless nothing is there of what is before it. Return the ceiling, if so."""
        return self._rows(
            "INSERT INTO recollect.drafts"
            ' (space, log, draft, channel, "offset", text, done, replica)'
            " SELECT %s::text, %s::text, %s::text, %s::text, %s::integer, %s::text, %s::boolean,"
            " %s::bigint WHERE %s::integer = 0 OR EXISTS (SELECT FROM recollect.drafts"
            " WHERE space = %s AND log = %s AND draft = %s)"
            " RETURNING pg_snapshot_xmax(pg_current_snapshot())::text",
            *(self._space, *part, self._database.number),
            *(part.offset, self._space, part.conversation_id, part.draft_id),
        )

    def parts(self, conversation_id: str = "", draft_id: str = "") -> tuple[list[Part], int]:
        """Return the parts of all drafts, or of one, in their order, and the ceiling."""
        chosen = "AND d.log = %s AND d.draft = %s" if conversation_id else ""
        rows = self._rows(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text,"
            ' d.log, d.draft, d.channel, d."offset", d.text, d.done'
            " FROM (SELECT) AS one LEFT JOIN recollect.drafts d"
            f" ON d.space = %s {chosen} ORDER BY d.id",
            *(self._space, *((conversation_id, draft_id) if conversation_id else ())),
        )
        return [Part(*row[1:]) for row in rows if row[1] is not None], int(rows[0][0])

    def end(self, conversation_id: str, draft_id: str = "") -> None:
        """Remove the parts of a draft, or of all of a conversation."""
        self._rows(
            "DELETE FROM recollect.drafts WHERE space = %s AND log = %s"
            " AND (draft = %s OR %s = '') RETURNING 1",
            *(self._space, conversation_id, draft_id, draft_id),
        )

    def hurry(self) -> None:
        """Look for changes at once."""
        self._follower.hurry()

    def _rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return fetched(self._database, "changes", "read", statement, *values)
