"""Writes the transcripts of external communications and keeps the index up to them.

Nothing of them is held in memory: what is known of one is asked of the index, and where the index
cannot answer nothing is written either. A provider, or an owner's panel, comes again. What is
written and could not be indexed is brought up before anything else is asked, so no message that was
delivered twice is ever taken for a new one.
"""

from contextlib import suppress

import structlog

from recollect_server.kernel.domain.errors import (
    CommunicationNotFound,
    DataUnavailable,
    InvalidField,
)
from recollect_server.kernel.domain.ids import MAX_LINES, is_communication_id
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.index.stored import Stored
from recollect_server.kernel.log.kinds import Kind
from recollect_server.kernel.log.store import (
    NO_CLAIM,
    START,
    Claim,
    LogConflict,
    LogNotFound,
    Position,
    Version,
    has_version,
    lines_at,
)
from recollect_server.kernel.space.events import ChangedElsewhere
from recollect_server.kernel.space.logs import IndexAhead, RedactedElsewhere, RequestKey
from recollect_server.kernel.space.space import Space
from recollect_server.people.communication import Communication, ExternalContent, ExternalMessage
from recollect_server.people.communication_logs import CommunicationLogs
from recollect_server.people.communication_table import external_of

log = structlog.get_logger("recollect.external")


class CommunicationStore:
    """The external communications of a space. A communication is written under
    `space.exclusive(conversation=…)`.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self._logs = CommunicationLogs(space.store)
        space.subscribe(ChangedElsewhere, self._changed)

    @property
    def behind(self) -> bool:
        """Return whether the index lacks something."""
        return bool(self.space.overlay.lagging(Kind.COMMUNICATION))

    def _changed(self, event: ChangedElsewhere) -> None:
        if event.kind == Kind.COMMUNICATION:
            self.space.overlay.note_lag(event.name)
            with suppress(DataUnavailable):  # the next read does it
                self.catch_up()

    def catch_up(self) -> None:
        """Index the lines that the index refused. Raises DataUnavailable. Hold no communication's
        lock.
        """
        overlay = self.space.overlay
        for communication_id, notice in sorted(overlay.lagging(Kind.COMMUNICATION).items()):
            with (
                self.space.exclusive(conversation=communication_id),
                suppress(CommunicationNotFound),
            ):
                self._catch_up(communication_id)
            overlay.caught_up(communication_id, notice)
            if not self.space.is_shared:
                log.warning("communication_caught_up", communication=communication_id)

    def _catch_up(self, communication_id: str) -> None:
        index = self.space.index
        try:
            try:
                self._index_rest(communication_id)
            except RedactedElsewhere:
                if not has_version(self.space.store, communication_id, Version.REPLACED):
                    raise
                self.space.redactions.follow(communication_id)
                self._index_rest(communication_id)
        except IndexAhead as error:
            index.condemn(str(error))  # the index's job rebuilds it
            raise

    def _index_rest(self, communication_id: str) -> None:
        index = self.space.index
        self._logs.catch_up(
            index,
            communication_id,
            external_of(index).find(communication_id),
            time=self.space.clock(),
            log_updates=True,
            wait=False,
        )

    def find(self, communication_id: str) -> Stored[Communication]:
        """Return a communication. Raises CommunicationNotFound."""
        stored = (
            external_of(self.space.index).find(communication_id)
            if is_communication_id(communication_id)
            else None
        )
        if stored is None:
            raise CommunicationNotFound(communication_id)
        return stored

    def write(
        self,
        communication_id: str,
        stored: Stored[Communication] | None,
        contents: list[ExternalContent],
        request: RequestKey | None = None,
        claim: Claim = NO_CLAIM,
    ) -> Communication:
        """Write lines behind those of a communication, or the first ones of a new one, all or none,
        durable on return. A message brings its sequence; `claim` is what no other process must
        have. Return the communication as it is now. Hold its lock.

        Raises DataUnavailable, also if they are written and not indexed.
        """
        if stored and stored.lines + len(contents) > MAX_LINES:
            raise InvalidField.of(
                "communication_id", f"the communication is full: {MAX_LINES} lines"
            )
        end = Position(stored.lines, stored.bytes) if stored else START
        if stored:
            self._logs.check_own(communication_id)
        try:
            lines, _ = self._logs.append(communication_id, end, contents, request, claim=claim)
        except LogConflict:
            self.space.overlay.note_lag(communication_id)
            raise
        hit("external.recorded")
        before = stored.state if stored else None
        communication = self._logs.behind(before, lines, communication_id)
        try:
            external_of(self.space.index).add(before, communication, lines, time=self.space.clock())
        except DataUnavailable as error:
            self.space.overlay.note_lag(communication_id)
            log.error(
                "communication_not_indexed", communication=communication_id, reason=str(error)
            )
            raise
        hit("external.indexed")
        return communication

    def messages(self, communication_id: str, places: list[Place]) -> list[ExternalMessage]:
        """Return the readable messages at these places. Raises StorageUnavailable;
        CommunicationNotFound if it was deleted since the index named them.
        """
        if not places:
            return []
        try:
            lines = lines_at(self.space.store, communication_id, places)
        except LogNotFound:
            is_left = external_of(self.space.index).find(communication_id)
            if is_left is None or self.space.deletions.is_left(communication_id):
                raise CommunicationNotFound(communication_id) from None
            raise
        return [
            line.entry.content
            for line in lines
            if line.entry and isinstance(line.entry.content, ExternalMessage)
        ]

    def as_it_was(
        self, communication_id: str, last_sequence: int
    ) -> tuple[Communication, list[ExternalMessage]]:
        """Return a communication as it was after a line, and the messages of the batch that ends
        there. Raises StorageUnavailable.
        """
        communication: Communication | None = None
        batch: list[ExternalMessage] = []
        for line in self.space.store.read(communication_id):
            communication = self._logs.folded(communication, line, communication_id)
            if line.entry and line.entry.stamp.batch[0] == 1:
                batch = []
            if line.entry and isinstance(line.entry.content, ExternalMessage):
                batch.append(line.entry.content)
            if line.sequence == last_sequence:
                break
        if communication is None:
            raise CommunicationNotFound(communication_id)
        return communication, batch
