"""External communications in the index.

A change of theirs is committed when `ExternalIndex.add` returns, so what is asked for here need not
wait for the appends of conversations that are not taken in yet.
"""

from dataclasses import dataclass
from itertools import accumulate

import apsw

from recollect_server.domain.external import Communication, Escalation, ExternalMessage
from recollect_server.storage.index import external, updates
from recollect_server.storage.index.database import Database
from recollect_server.storage.index.external import (
    CommunicationFilter,
    ExternalRow,
    StoredCommunication,
    WordHits,
    Words,
)
from recollect_server.storage.index.messages import Place
from recollect_server.storage.index.requests import SeenNames
from recollect_server.storage.logs.lines import Line
from recollect_server.storage.logs.received import key_of_delivery


@dataclass(frozen=True, slots=True)
class ExternalChanges:
    """A part of the log, at one moment."""

    whole: bool
    """True if everything behind the requested cursor is still here."""
    last: int
    """Nothing is behind this cursor, at that moment."""
    rows: list[ExternalRow]
    communications: dict[int, Communication]
    """Those of the rows, by number."""
    escalations: dict[str, Escalation]
    """Those of the rows, by id."""
    places: dict[int, Place]
    """Places of the rows' messages, by cursor."""


class ExternalIndex:
    """The indexed external communications. Every method raises IndexUnavailable."""

    def __init__(self, database: Database, seen: SeenNames) -> None:
        self._database = database
        self._seen = seen

    def add(
        self,
        before: Communication | None,
        after: Communication,
        lines: list[Line],
        *,
        time: int,
        log: bool = True,
    ) -> int:
        """Take in the lines that follow what is indexed, all or none. Return the communication's
        number when that is committed.

        `before` and `after` are what is known without and with them. `time` is now, for the update
        log; `log` False leaves it out.
        """
        self._database.check()
        for line in lines:
            if line.entry is not None and line.entry.stamp.request_id:
                self._seen.add(line.entry.stamp.request_id)
            if line.entry is not None and isinstance(
                message := line.entry.content, ExternalMessage
            ):
                self._seen.add(key_of_delivery(after.channel, message.provider_message_id))
        return self._database.write(
            lambda connection, _: external.take_in(connection, before, after, lines, time, log=log)
        )

    def find(self, communication_id: str) -> StoredCommunication | None:
        """A communication with how far its transcript is indexed, or None."""
        with self._database.reading(settled=False) as connection:
            return external.find(connection, communication_id)

    def with_party(self, channel: str, party: str) -> StoredCommunication | None:
        """The communication with a party on a channel, or None."""
        with self._database.reading(settled=False) as connection:
            return external.of_party(connection, channel, party)

    def select(
        self, chosen: CommunicationFilter, limit: int, after: tuple[int, str] | None = None
    ) -> list[Communication]:
        """Communications, newest update first, behind the place `after` = (update_time, id)."""
        with self._database.reading(settled=False) as connection:
            return external.select(connection, chosen, limit, after)

    def progress(self) -> dict[str, int]:
        """Return the number of bytes indexed of every communication's transcript."""
        with self._database.reading(settled=False) as connection:
            return {
                row[0]: row[1]
                for row in connection.execute("SELECT id, bytes FROM external_communications")
            }

    def delivered(self, channel: str, provider_message_id: str) -> tuple[str, Place] | None:
        """The communication that has a provider's message, and where; or None."""
        with self._database.moment() as connection:
            found = external.delivered(connection, channel, provider_message_id)
            stored = external.find(connection, found[0]) if found else None
            place = (
                external.place(connection, stored.number, found[1]) if found and stored else None
            )
            return (found[0], place) if found and place else None

    def places(self, number: int, before: int, limit: int) -> list[Place]:
        """Return the places of the newest messages before a line, in the order of the
        transcript.
        """
        with self._database.reading(settled=False) as connection:
            return external.places_before(connection, number, before, limit)

    def escalation(self, escalation_id: str) -> Escalation | None:
        """An escalation, or None."""
        with self._database.reading(settled=False) as connection:
            return external.escalation(connection, escalation_id)

    def escalation_about(self, communication_id: str, sequence: int) -> Escalation | None:
        """The escalation that a message opened, or None."""
        with self._database.reading(settled=False) as connection:
            return external.escalation_about(connection, communication_id, sequence)

    def escalations(
        self,
        number: int | None,
        limit: int,
        after: tuple[int, str] | None = None,
        *,
        resolved: bool = False,
    ) -> list[Escalation]:
        """Escalations, oldest first, behind the place `after` = (create_time, id): of one
        communication or of all (None).
        """
        with self._database.reading(settled=False) as connection:
            return external.escalations(connection, number, limit, after, resolved=resolved)

    def changes(self, cursor: int, limit: int, max_bytes: int) -> ExternalChanges:
        """Return the oldest changes behind a cursor; see `ExternalChanges`.

        Their messages have `max_bytes` together, unless that of the first change alone has more.
        """
        with self._database.moment() as connection:
            whole = updates.reaches_back_to(connection, cursor, updates.EXTERNAL)
            last = updates.last(connection, updates.EXTERNAL)
            rows = external.updates_after(connection, cursor, limit) if whole else []
            known = external.by_number(connection, {row.number for row in rows})
            asked = external.escalations_by_id(
                connection, {row.escalation_id for row in rows if row.escalation_id}
            )
            found = {
                row.cursor: external.place(connection, row.number, row.sequence) for row in rows
            }
            places = {at: place for at, place in found.items() if place is not None}
            sizes = accumulate(places[row.cursor][2] if row.cursor in places else 0 for row in rows)
            rows = [
                row
                for at, (row, size) in enumerate(zip(rows, sizes, strict=True))
                if at == 0 or size <= max_bytes
            ]
            return ExternalChanges(whole, last, rows, known, asked, places)

    def newest(self, limit: int) -> tuple[int, list[Communication]]:
        """The newest communications, and the end of their log at that moment."""
        with self._database.moment() as connection:
            last = updates.last(connection, updates.EXTERNAL)
            return last, external.select(connection, CommunicationFilter(), limit)

    def search(self, asked: Words, limit: int) -> WordHits:
        """The messages of communications that have any of the words, best first."""
        with self._database.moment() as connection:
            return external.search(connection, asked, limit)

    def in_group(self, channel: str, group: str, limit: int) -> list[tuple[Communication, Place]]:
        """The newest messages that third parties wrote in a group, newest first."""
        with self._database.moment() as connection:
            return external.in_group(connection, channel, group, limit)

    def skip_cursors(self) -> None:
        """Leaves out the cursors that may have been told of changes which a power failure took from
        the index.
        """

        def job(connection: apsw.Connection, _: int) -> None:
            begin = updates.last(connection, updates.EXTERNAL)
            updates.skip(connection, begin, begin + updates.CRASH_GAP, updates.EXTERNAL)

        self._database.write(job)
