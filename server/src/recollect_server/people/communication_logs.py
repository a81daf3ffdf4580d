"""Transcripts of third parties, what the index shows of them, and the store that writes them and
keeps the index up to them.

Nothing of them is held in memory: what is known of one is asked of the index, and where the index
cannot answer nothing is written either. A provider, or an owner's panel, comes again. What is
written and could not be indexed is brought up before anything else is asked, so no message that was
delivered twice is ever taken for a new one.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from recollect_server.kernel.domain.errors import (
    CommunicationNotFound,
    DataUnavailable,
    InvalidField,
    LogMisplaced,
)
from recollect_server.kernel.domain.ids import MAX_LINES, Kind, is_communication_id, message_id
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.checking import Contents
from recollect_server.kernel.index.derived import Erased, Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.log.lines import LOST_CHANNEL, Line
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
from recollect_server.kernel.space.logs import (
    IndexAhead,
    Logs,
    Reading,
    RedactedElsewhere,
    RequestKey,
)
from recollect_server.kernel.space.space import Space
from recollect_server.people.communication import (
    Communication,
    CommunicationBegan,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    ExternalContent,
    ExternalMessage,
    fold,
)
from recollect_server.people.communication_table import (
    CommunicationRemoval,
    external_of,
    place_name,
    row_of,
    searchable_text,
)


@dataclass(slots=True)
class CommunicationReading(Reading[Communication]):
    """A transcript of a third party that is read to its end. The words of a message are compared as
    it is read: many are long.
    """

    messages_read: list[tuple[Line, ExternalMessage]] = field(default_factory=list)
    wordless: list[int] = field(default_factory=list)
    """Lines whose words the index has otherwise."""
    deliveries: dict[tuple[str, str], int] = field(default_factory=dict)
    """The line of each delivery, by its place and the provider's id."""
    repeated: list[tuple[int, int]] = field(default_factory=list)
    """Lines with what another line before has, which was delivered once."""
    escalations: dict[str, Escalation] = field(default_factory=dict)

    @property
    def _channel(self) -> str:
        return self.state.channel if self.state else LOST_CHANNEL

    def add(self, line: Line) -> None:
        """Add a whole line."""
        assert line.entry is not None
        match line.entry.content:
            case ExternalMessage() as message:
                self.messages_read.append((line, message))
                if self.contents and self.number is not None:
                    identity = message_id(self.number, message.sequence)
                    if not self.contents.has_words(identity, searchable_text(message)):
                        self.wordless.append(line.sequence)
                if message.provider_message_id:
                    place = place_name(self._channel, message.origin.group)
                    delivery = (place, message.provider_message_id)
                    before = self.deliveries.setdefault(delivery, line.sequence)
                    if before != line.sequence:
                        self.repeated.append((line.sequence, before))
            case EscalationOpened() as it if self.state:
                self.escalations[it.id] = Escalation(
                    it.id, self.state.id, it.sequence, it.question, it.time
                )
            case EscalationResolved() as it if opened := self.escalations.get(it.id):
                self.escalations[it.id] = replace(opened, answer=it.answer, resolve_time=it.time)
            case _:
                pass

    def problems(self) -> Iterator[str]:
        """Yield what stands twice, and was delivered once."""
        for line, before in self.repeated:
            yield f"line {line} was delivered before, as line {before}"

    def differences(self, contents: Contents, number: int) -> Iterator[str]:
        """Yield messages, words, deliveries and escalations that the index has otherwise."""
        expected = [row_of(number, self._channel, *read) for read in self.messages_read]
        if (table := external_of(contents.index)).rows(number) != expected:
            yield "its messages stand in the index otherwise"
        if self.wordless:
            yield f"the index has other words than the transcript, as of line {self.wordless[0]}"
        if table.deliveries(number) != self.deliveries:
            yield "the index has other deliveries than the transcript"
        every = table.escalations(number, 1 << 62, resolved=True)
        if {it.id: it for it in every} != self.escalations:
            yield "the index has other escalations than the transcript"


class CommunicationLogs(Logs[Communication]):
    """Transcripts of third parties."""

    kind = Kind.COMMUNICATION
    noun = "communication"
    plural = "external communications"
    failpoints = ("external.repaired", "external.part")
    words = ("external", "external_communications")
    message = ExternalMessage
    reading = CommunicationReading

    def fold(
        self, before: Communication | None, content: object, name: str
    ) -> Communication | None:
        """Return the state after an entry; a lost first line is made up for."""
        if isinstance(content, CommunicationBegan):
            # a file that was copied under another name is another communication
            content = replace(content, id=name)
        after = fold(before, content)
        if after is None and isinstance(content, ExternalContent):
            # The first line is damaged. The log's name says which one it is, the lines that follow
            # say the rest.
            time = (
                content.timestamp
                if isinstance(content, ExternalMessage)
                else getattr(content, "time", 0)
            )
            after = fold(Communication(name, LOST_CHANNEL, "", time, time), content)
        return after

    def not_found(self, name: str) -> CommunicationNotFound:
        """Return the error for a communication of which no line can be read."""
        return CommunicationNotFound(name)

    def misplaced(self, name: str, reason: str) -> LogMisplaced:
        """Return the error for a transcript whose file belongs to another communication."""
        return LogMisplaced("external communication", name, f"{name}.jsonl", reason)

    def find(self, index: Index, name: str) -> Stored[Communication] | None:
        """Return what the index has of a communication."""
        return external_of(index).find(name)

    def removal(self, index: Index) -> CommunicationRemoval:
        """Return the removal of communications from the index."""
        return external_of(index).removal

    def redact(
        self,
        index: Index,
        stored: Stored[Communication],
        after: Communication,
        event: Line,
        erased: Erased,
        *,
        time: int,
    ) -> int:
        """Let the index take in the line that says what was redacted. It has no cursor."""
        external_of(index).redact(stored.number, stored.state, after, event, erased, time=time)
        return 0

    def progress(self, index: Index) -> dict[str, int]:
        """Return how many bytes of each transcript are indexed."""
        return {name: size for name, (size, _) in external_of(index).progress().items()}

    def goes_on(self, index: Index, stored: Stored[Communication]) -> bool:
        """Return whether the newest message still stands where the index says."""
        places = external_of(index).places(stored.number, 1 << 62, 1)
        lines = lines_at(self.store, stored.state.id, places) if places else []
        return all(line.entry and isinstance(line.entry.content, ExternalMessage) for line in lines)

    def add(
        self,
        index: Index,
        number: int | None,  # noqa: ARG002 - the index finds it by name
        before: Communication | None,
        after: Communication,
        lines: list[Line],
        *,
        time: int,
        failed: Callable[[str], None],  # noqa: ARG002 - the index has refused or taken in when this returns
        log: bool,
    ) -> int:
        """Let the index take lines in, and wait for it. Raises DataUnavailable; `failed` is never
        called.
        """
        return external_of(index).add(before, after, lines, time=time, log=log)


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
