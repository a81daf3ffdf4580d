"""Reads what the index has of external communications, to be compared with their transcripts or counted."""

from dataclasses import dataclass
from pathlib import Path

import apsw

from recollect_server.domain.external import Escalation
from recollect_server.storage.index import external
from recollect_server.storage.index.file import look
from recollect_server.storage.index.index import Index


class ExternalContents:
    """All that an index holds of them. Raises IndexUnavailable."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def places(self, number: int) -> list[tuple[int, int, int]]:
        """Where the messages of a communication are, in order."""
        return self._index.external_places(number, 1 << 62, 1 << 62)

    def deliveries(self, number: int) -> dict[str, int]:
        """What a provider delivered of it: the line by the provider's id."""
        with self._index.reading() as connection:
            query = "SELECT provider_message_id, sequence FROM external_deliveries WHERE number = ?"
            return {str(row[0]): int(row[1]) for row in connection.execute(query, (number,))}

    def escalations(self, number: int) -> dict[str, Escalation]:
        """Its escalations by id."""
        with self._index.reading() as connection:
            found = external.escalations(connection, number, 1 << 62, None, resolved=True)
            return {escalation.id: escalation for escalation in found}

    def requests(self, communication_id: str) -> dict[str, str]:
        """The requests that its lines carried: hash by id."""
        with self._index.reading() as connection:
            query = "SELECT request_id, hash FROM requests WHERE conversation_id = ?"
            return {str(row[0]): str(row[1]) for row in connection.execute(query, (communication_id,))}


@dataclass(frozen=True, slots=True)
class ExternalState:
    """What an index file says of them."""

    progress: dict[str, int]
    """Bytes of each transcript that are indexed."""
    messages: int = 0
    open_escalations: int = 0


def external_state_of(folder: Path) -> ExternalState:
    """Looks at the index in a folder without taking it from a server that runs."""
    return look(folder, _state, ExternalState({}))


def _state(connection: apsw.Connection) -> ExternalState:
    progress = {row[0]: row[1] for row in connection.execute("SELECT id, bytes FROM external_communications")}
    messages = int(connection.execute("SELECT count(*) FROM external_messages").get)
    waiting = int(connection.execute("SELECT count(*) FROM external_escalations WHERE resolve_time IS NULL").get)
    return ExternalState(progress, messages, waiting)
