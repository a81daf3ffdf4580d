"""Removal of an external communication from the index: the steps of a conversation's (`removal`),
over the tables of third parties.

Its first step takes everything but its messages with their words. A note in `identity` says from
there on that the rest is to go.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

import apsw
import orjson

from recollect_server.domain.external import Communication, EscalationOpened, ExternalMessage
from recollect_server.domain.ids import message_id
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.external_rows import (
    EXTERNAL_UPDATES,
    ExternalRow,
    ExternalUpdate,
    searchable_text,
    take_in,
)
from recollect_server.storage.index.redaction import forget_payloads
from recollect_server.storage.index.removal import Removed, Spoken, WordRemoval, take_out_words
from recollect_server.storage.logs.lines import Line, line_of

_HANGING = {
    "escalations": "external_escalations",
    "deliveries": "external_deliveries",
    "updates": "external_updates",
}
"""Tables that have rows of a communication beside its messages, by their names in a receipt."""


@dataclass(frozen=True, slots=True)
class ErasedExchange:
    """Contents of the index that a redaction takes out."""

    messages: Collection[ExternalMessage]
    """Each message as it was."""
    questions: Collection[EscalationOpened]
    """Each question to the owner that quoted one, as it is."""
    requests: Collection[str]
    """Requests whose payload is not known any more."""


class CommunicationRemoval(WordRemoval):
    """The steps that remove an external communication."""

    words = "external_fts"
    prefix = "external_"

    def begin(self, number: int, name: str, time: int) -> Removed:
        """Remove the communication's row, and all that hangs on it but its messages."""
        rows: list[ExternalRow] = []

        def job(connection: apsw.Connection, cursor: int) -> Removed:
            removed = {"communications": 1}
            connection.execute("DELETE FROM external_communications WHERE number = ?", (number,))
            for place, table in _HANGING.items():
                connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
                removed[place] = connection.changes()
            connection.execute("INSERT INTO identity VALUES(?, ?)", (_begun(name), str(number)))
            row = ExternalRow(cursor + 1, number, ExternalUpdate.DELETED.value, time, 0, name)
            rows.append(row)
            connection.execute(f"INSERT {EXTERNAL_UPDATES.insert}", row)
            return removed

        return self._database.writer.write(job, updates=1, notice=lambda: rows[-1])

    def redact(
        self,
        number: int,
        before: Communication,
        after: Communication,
        line: Line,
        erased: ErasedExchange,
        *,
        time: int,
    ) -> None:
        """Take the text of messages out, and take in the line that says so."""
        texts = {message_id(number, it.sequence): searchable_text(it) for it in erased.messages}

        def job(connection: apsw.Connection, cursor: int) -> None:
            take_out_words(connection, self.words, texts, self._purge_of(number))
            connection.executemany(
                "UPDATE external_escalations SET question = ? WHERE id = ? AND number = ?",
                [(it.question, it.id, number) for it in erased.questions],
            )
            forget_payloads(connection, after.id, erased.requests)
            take_in(connection, before, after, [line], time, cursor, log=True)

        self._database.writer.write(job, updates=1, notice=lambda: after)
        hit("redact.indexed")
        self.purge_words(number)
        self.end(number)

    def remove_history(self, number: int, name: str) -> Removed:  # noqa: ARG002
        """Remove the requests of the communication."""
        return {"requests": self.forget_requests(name)}

    def find(self, name: str) -> int | None:
        """Return the number of a communication whose removal has begun, or None."""
        query = "SELECT value FROM identity WHERE name = ?"
        number = self._database.value(query, (_begun(name),))
        return None if number is None else int(number)

    def sequences(self, number: int, after: int, limit: int) -> list[int]:
        """Return the lines of a communication that are indexed messages, behind line `after`."""
        query = (
            "SELECT sequence FROM external_messages WHERE number = ? AND sequence > ?"
            " ORDER BY sequence LIMIT ?"
        )
        return [row[0] for row in self._database.rows(query, (number, after, limit))]

    def spoken(
        self, lines: Iterable[bytes], is_wanted: Callable[[int], bool]
    ) -> Iterator[tuple[int, int, tuple[str, str] | None]]:
        """Yield of messages nothing, for a sender, and the text that was indexed."""
        end = 0
        for sequence, raw in enumerate(lines, 1):
            if is_wanted(sequence):
                entry = line_of(raw, sequence, end).entry
                text = None
                if entry is not None and isinstance(entry.content, ExternalMessage):
                    text = "", searchable_text(entry.content)
                yield sequence, end + len(raw) + 1, text
            end += len(raw) + 1

    def _sizes(self, connection: apsw.Connection, number: int) -> tuple[int, int]:
        query = (
            "SELECT coalesce(sum(length), 0), coalesce(max(length), 0) FROM external_messages"
            " WHERE number = ?"
        )
        text, longest = connection.execute(query, (number,)).get
        return int(text), int(longest)

    def _remove(self, connection: apsw.Connection, number: int, messages: list[Spoken]) -> None:
        rows = [(message_id(number, at), text, at) for at, _, text in messages]
        lines = orjson.dumps(rows).decode()
        connection.execute(
            "INSERT INTO external_fts(external_fts, rowid, text)"
            " SELECT 'delete', value ->> 0, value ->> 1 FROM json_each(?)",
            (lines,),
        )
        connection.execute(
            "DELETE FROM external_messages WHERE number = ?"
            " AND sequence IN (SELECT value ->> 2 FROM json_each(?))",
            (number, lines),
        )

    def _end(self, connection: apsw.Connection, number: int) -> None:
        super()._end(connection, number)
        connection.execute(
            "DELETE FROM identity WHERE name GLOB ? AND value = ?", (_begun("*"), str(number))
        )


def _begun(name: str) -> str:
    """Return the name in `identity` that says that a communication's removal has begun."""
    return f"removing {name}"
