"""Changes of external communications for panels: a snapshot, then every change in its order (see
`kernel.stream.log`).
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from recollect_server.kernel.domain.conversation import MessagesRedacted
from recollect_server.kernel.domain.errors import DataUnavailable
from recollect_server.kernel.domain.ids import Kind
from recollect_server.kernel.domain.update import Update
from recollect_server.kernel.log.lines import Line
from recollect_server.kernel.log.order import OrderedChange
from recollect_server.kernel.space.events import Redacting
from recollect_server.kernel.stream.log import Encode, Snapshot, UpdateLog, Watcher
from recollect_server.kernel.stream.ring import Interest
from recollect_server.people.communication import (
    Changed,
    Communication,
    CommunicationFilter,
    Escalated,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    Exchanged,
    ExternalMessage,
    Listed,
    MessageRedacted,
    Trust,
)
from recollect_server.people.communication_logs import CommunicationStore
from recollect_server.people.communication_table import external_of, is_shown

_LISTED = 50  # communications in a snapshot


@dataclass(frozen=True, slots=True)
class _State:
    """A communication with its escalations, those that are answered too."""

    communication: Communication
    escalations: dict[str, Escalation]
    trusts: tuple[tuple[int, Trust], ...] = ()
    """Each line that changed the trust, and what it set."""
    tombstones: tuple[ExternalMessage, ...] = ()
    """The messages whose text was removed."""

    @property
    def channel(self) -> str:
        """Return the channel of the communication."""
        return self.communication.channel

    def trust_at(self, sequence: int) -> Trust:
        """Return the trust that held at a line."""
        trust = Trust.UNTRUSTED
        for line, it in self.trusts:
            trust = it if line <= sequence else trust
        return trust

    def redacted(self, sequence: int) -> MessageRedacted:
        """Return what is left of the message of a line."""
        messages = (it for it in self.tombstones if it.sequence == sequence)
        opened = (it for it in self.escalations.values() if it.sequence == sequence)
        return MessageRedacted(self.communication, next(messages, None), next(opened, None))


class LiveCommunications(UpdateLog[_State]):
    """Changes of external communications, for watchers. Safe to call from any thread."""

    kind = Kind.COMMUNICATION
    prefix = "x"  # a cursor of this stream is never one of the conversations' updates
    giver = "stream"
    keeps_newest = False  # of no log the state is known without its lines

    def __init__(self, store: CommunicationStore, encode: Encode) -> None:
        """`encode` makes what is sent."""
        super().__init__(store.space, encode)
        self._store = store
        store.space.subscribe(Redacting, lambda it: self._redacted(it.name))

    def subscribe(self, cursor: str) -> Watcher:
        """Begin a subscription, behind a cursor or with a snapshot. Raises InvalidField,
        DataUnavailable.
        """
        self._store.catch_up()
        return self.subscribed(lambda: Watcher(self, self._snapshot, cursor, Interest()))

    def tick(self) -> None:
        """Do the periodic work, and try again what the index refused."""
        super().tick()
        if self._store.behind:
            # it was logged when it was refused
            with suppress(DataUnavailable):
                self._store.catch_up()

    def _kinds_of(self, change: OrderedChange, state: _State) -> Iterator[tuple[int, int, object]]:
        for line in change.lines:
            if line.entry is not None and is_shown(line, state.trust_at(line.sequence)):
                yield line.sequence, change.time, _kind_of(line.entry.content, state)

    def _folded(self, before: _State | None, line: Line, name: str) -> _State | None:
        """Return the state behind a line."""
        logs = self.space.logs_of(name)
        after = logs.folded(before.communication if before else None, line, name)
        if after is None:
            return None
        escalations = before.escalations if before else {}
        tombstones = before.tombstones if before else ()
        match line.entry.content if line.entry else None:
            case EscalationOpened() as it:
                opened = Escalation(it.id, name, it.sequence, it.question, it.time)
                escalations = escalations | {it.id: opened}
            case EscalationResolved() as it if it.id in escalations:
                closed = replace(escalations[it.id], answer=it.answer, resolve_time=it.time)
                escalations = escalations | {it.id: closed}
            case ExternalMessage() as it if it.redaction:
                tombstones = (*tombstones, it)
            case _:
                pass
        trusts = before.trusts if before else ()
        if before is None or before.communication.trust is not after.trust:
            trusts = (*trusts, (line.sequence, after.trust))
        return _State(after, escalations, trusts, tombstones)

    def _snapshot(self, *, reset: bool) -> Snapshot:
        """Return the newest communications. Raises DataUnavailable."""
        mark = self.begin()
        newest = external_of(self.space.index).select(CommunicationFilter(), _LISTED)
        listed = Listed(tuple(it.state for it in newest))
        update = Update(self.cursor(mark), "", self.space.clock(), listed, reset=reset)
        return Snapshot(mark, (self.encode(update),))


def _kind_of(content: object, state: _State) -> Exchanged | MessageRedacted | Escalated | Changed:
    """Return the change that a line makes, by what it says and the communication."""
    match content:
        case ExternalMessage() as message:
            return Exchanged(state.communication, message)
        case MessagesRedacted(sequences=sequences):
            return state.redacted(sequences[0])
        case EscalationOpened(id=name) | EscalationResolved(id=name) if name in state.escalations:
            return Escalated(state.escalations[name])
        case _:
            return Changed(state.communication)
