"""Reads what the index has of external communications, to be compared with their transcripts or
counted.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import apsw

from recollect_server.domain.external import Escalation, ExternalMessage
from recollect_server.domain.ids import message_id
from recollect_server.storage.index import external
from recollect_server.storage.index.file import look
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.words import tokens


class ExternalContents:
    """All that an index holds of them. Raises IndexUnavailable."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._words: dict[int, int] | None = None

    def places(self, number: int) -> list[tuple[int, int, int]]:
        """Return the places of a communication's messages, in order."""
        return self._index.external.places(number, 1 << 62, 1 << 62)

    def deliveries(self, number: int) -> dict[str, int]:
        """Return the line of each delivery of a communication, by the provider's id."""
        with self._index.reading() as connection:
            query = "SELECT provider_message_id, sequence FROM external_deliveries WHERE number = ?"
            return {str(row[0]): int(row[1]) for row in connection.execute(query, (number,))}

    def has_words(self, number: int, message: ExternalMessage) -> bool:
        """Return whether the index has the words of a message: each counts with its place, in any
        order.
        """
        if self._words is None:
            digests: defaultdict[int, int] = defaultdict(int)
            with self._index.reading() as connection:
                for document, place, term in connection.execute(
                    "SELECT doc, offset, term FROM external_occurrences"
                ):
                    digests[document] += hash((term, place))
            self._words = dict(digests)
        with self._index.reading() as connection:
            found = tokens(connection, external.searchable_text(message).encode())
        expected = sum(hash((stem, place)) for place, (_, _, stem) in enumerate(found))
        return self._words.get(message_id(number, message.sequence), 0) == expected

    def escalations(self, number: int) -> dict[str, Escalation]:
        """Its escalations by id."""
        with self._index.reading() as connection:
            found = external.escalations(connection, number, 1 << 62, None, resolved=True)
            return {escalation.id: escalation for escalation in found}


@dataclass(frozen=True, slots=True)
class ExternalState:
    """State of an index file, as far as communications go."""

    progress: dict[str, int]
    """Bytes of each transcript that are indexed."""
    messages: int = 0
    open_escalations: int = 0


def external_state_of(folder: Path) -> ExternalState:
    """Looks at the index in a folder without taking it from a server that runs."""
    return look(folder, _state, ExternalState({}))


def _state(connection: apsw.Connection) -> ExternalState:
    progress = {
        row[0]: row[1]
        for row in connection.execute("SELECT id, bytes FROM external_communications")
    }
    messages = int(connection.execute("SELECT count(*) FROM external_messages").get)
    waiting = int(
        connection.execute(
            "SELECT count(*) FROM external_escalations WHERE resolve_time IS NULL"
        ).get
    )
    return ExternalState(progress, messages, waiting)
