"""Redaction: the text of messages is removed for good, and the messages stay as tombstones.

Of a conversation, or of an exchange with a third party:

1. The transcript is written anew, without the text and with a last line that says what was
   redacted, by whom and when. It takes the transcript's name; what it was is kept beside it.
2. The index takes out the words, and everything else that it had of the text, with the new line.
3. Anchors that came from the messages go, then their vectors.
4. What the transcript was is removed, and what was cut off it before; the folder is synced.
5. The write-ahead log is cut, so that no page with the text is left there.

Up to the exchange of the files in step 1 nothing has happened; from there on a start-up finishes
what a crash interrupted. Each line is as long as it was, so who reads the transcript meanwhile
finds every message in its place. Numbers, times, roles, usage and cost stay, and with them all
sums.

Everything that was derived from the text goes: notes, titles that were not given by hand, summaries
of its turn, anchors, replies that quote it. The notes are queued to be made again. What people
wrote themselves about it elsewhere stays: other messages, a title by hand, metadata; so do forks,
which are conversations of their own.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from recollect_server.domain.conversation import Conversation, MessagesRedacted
from recollect_server.domain.entry import AnyContent
from recollect_server.domain.errors import (
    CommunicationNotFound,
    DataUnavailable,
    IndexUnavailable,
    InvalidField,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.domain.external import (
    Communication,
    Escalation,
    EscalationOpened,
    EscalationResolved,
    ExternalMessage,
)
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import MAX_LINES, is_communication_id
from recollect_server.domain.message import Message, Redaction
from recollect_server.domain.routing import mail_ids_of
from recollect_server.services.space.communication_logs import CommunicationLogs
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.deletion_steps import empty_log
from recollect_server.services.space.events import Appended, ExchangeRedacted, Redacted
from recollect_server.services.space.late_redactions import check_behind
from recollect_server.services.space.logs import Logs, check_unanswered, entries_of
from recollect_server.services.space.parts import Parts
from recollect_server.services.space.state import ConversationState, RequestKey
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.conversations import Stored
from recollect_server.storage.index.external_rows import StoredCommunication
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.removal import Erased
from recollect_server.storage.logs.anchors import AnchorLedger
from recollect_server.storage.logs.belonging import lines_of, over
from recollect_server.storage.logs.kinds import Action, Kind
from recollect_server.storage.logs.lines import Line, contents_of, encoded, line_of, messages_of
from recollect_server.storage.logs.redaction import erased as without_text
from recollect_server.storage.logs.store import (
    LogConflict,
    LogNotFound,
    LogStore,
    LogTaken,
    Position,
    Version,
    has_version,
    request_claim,
)

AnyMessage = TypeVar("AnyMessage", Message, ExternalMessage)

log = structlog.get_logger("recollect.redaction")


@frozen
class RedactionDone:
    """Result of a redaction: the tombstones, and the conversation behind it."""

    conversation: Conversation
    messages: list[Message]
    time: int
    cursor: int
    duplicate: bool


@frozen
class ExchangeDone:
    """Result of the redaction of a third party's message: what is left of it and of the escalation
    that it opened, and the communication behind it.
    """

    communication: Communication
    message: ExternalMessage
    escalation: Escalation | None
    time: int
    duplicate: bool


class LacksLines(IndexUnavailable):
    """The index does not have what the log has."""

    def __init__(self) -> None:
        super().__init__("it lacks lines of the log, which may have the text")


class Redactions:
    """The redactions of a space. Safe to call from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._communications = parts.communications
        self._store = parts.store
        self._projection = parts.projection
        self._pending = parts.pending
        self._states = parts.states
        self._writes = parts.writes
        self._requests = parts.requests
        self._anchors = parts.anchors
        self._locks = parts.locks
        self._clock = parts.clock
        self._publish = parts.publish
        self._doubts = parts.doubts
        self._counts: Counter[str] = Counter()

    def count(self, conversation_id: str) -> int:
        """Return how often a conversation was redacted since the start: who writes notes of what it
        read before compares it. Hold the conversation's lock.
        """
        return self._counts[conversation_id]

    def redact(
        self,
        conversation_id: str,
        *,
        sequence: int,
        turn: int,
        by: str,
        request: RequestKey | None = None,
    ) -> RedactionDone:
        """Remove the text of the message of a line, or, where that is 0, of all messages of a turn,
        for good; tombstones stay.

        Raises InvalidField where there is no such message; ConversationNotFound, DataUnavailable.
        Hold no lock.
        """
        # Decoded before the lock is held, which takes most of the time: writers of a long
        # conversation must not wait for it.
        read = self._read_ahead(conversation_id)
        with self._locks.exclusive(
            request=request.id if request else "", conversation=conversation_id
        ):
            state = self._writes.end(conversation_id)
            if self._pending.of(conversation_id):
                raise StorageUnavailable(
                    "the transcript cannot be written yet, and messages of it are held: try again"
                )
            if request and (earlier := self._requests.find(request, conversation_id)):
                lines, conversation = self._requests.replays.lines(earlier)
                if not isinstance(lines[-1].entry and lines[-1].entry.content, MessagesRedacted):
                    raise RequestIdReused(request.id)  # by a message that was redacted since
                return self._answer(conversation, lines[-1], earlier.cursor, duplicate=True)
            if state.number is None or not state.indexed:
                raise LacksLines
            raw, lines = self._whole(conversation_id, state.size, read)
            messages = _chosen(lines, state, sequence, turn)
            if all(message.redaction for message in messages):
                check_unanswered(self._store, request)
                return RedactionDone(state.conversation, messages, self._clock(), 0, duplicate=True)
            self._projection.index.settle()  # what it lacks after a crash would have it made anew
            sequences = tuple(it.sequence for it in messages)
            event, time, _ = self._begin(conversation_id, raw, lines, sequences, by, request)
            after, cursor = self._finish(conversation_id, time, lines)
            assert isinstance(after, Conversation)
            self._states.keep(
                ConversationState(after, event.end, event.sequence, state.number, indexed=True)
            )
            self._publish(Appended(conversation_id, [event]))
            hit("redact.log_emptied")
            return self._answer(after, event, cursor, duplicate=False)

    def redact_exchange(
        self, name: str, sequence: int, by: str, request: RequestKey | None
    ) -> ExchangeDone:
        """Remove the text of the message of a line of a communication for good; a tombstone stays.
        The index must have what was written.

        Raises InvalidField where there is no such message; CommunicationNotFound,
        DataUnavailable; LacksLines where it is to be indexed first. Hold no lock.
        """
        with self._locks.exclusive(request=request.id if request else "", conversation=name):
            index = self._projection.index
            if request and (earlier := self._requests.find(request)):
                if earlier.conversation_id != name:
                    raise RequestIdReused(request.id)  # by a message that was redacted since
                lines = lines_of(name, list(self._store.raw(name)))
                return self._exchanged(
                    name, lines, lines[earlier.last_sequence - 1], duplicate=True
                )
            if (stored := index.external.find(name)) is None:
                raise CommunicationNotFound(name)
            raw, lines = self._whole(name, stored.bytes)
            message = _message_at(lines, sequence, ExternalMessage)
            if message.redaction:
                check_unanswered(self._store, request)
                escalation = _escalation_of(name, lines, sequence)
                now = self._clock()
                return ExchangeDone(stored.communication, message, escalation, now, duplicate=True)
            self._communications.check_own(name)
            event, time, after = self._begin(name, raw, lines, (sequence,), by, request)
            self._finish(name, time, lines)
            hit("redact.log_emptied")
            lines = lines_of(name, [it[:-1] for it in after])
            return self._exchanged(name, [*lines, event], event, duplicate=False)

    def _exchanged(
        self, name: str, lines: list[Line], event: Line, *, duplicate: bool
    ) -> ExchangeDone:
        """Return the answer of the redaction that wrote an event."""
        content = event.entry.content if event.entry else None
        if not isinstance(content, MessagesRedacted):
            request_id = event.entry.stamp.request_id if event.entry else ""
            raise RequestIdReused(request_id)  # by a message that was redacted since
        communication: Communication | None = None
        for line in lines[: event.sequence]:
            communication = self._communications.folded(communication, line, name)
        assert communication is not None
        (sequence,) = content.sequences
        message = _message_at(lines, sequence, ExternalMessage)
        escalation = _escalation_of(name, lines, sequence)
        return ExchangeDone(communication, message, escalation, content.time, duplicate)

    def _read_ahead(self, conversation_id: str) -> tuple[list[bytes], list[Line]]:
        """Return what a transcript has, or nothing of one that cannot be read now: the call says
        why under the lock.
        """
        try:
            raw = list(self._store.raw(conversation_id))
        except StorageUnavailable:
            return [], []
        return raw, lines_of(conversation_id, raw)

    def _whole(
        self,
        conversation_id: str,
        size: int,
        read: tuple[list[bytes], list[Line]] = ([], []),
    ) -> tuple[list[bytes], list[Line]]:
        """Return the lines of a log of which no redaction is under way, and what they say; `read`:
        as they were read before. Raises LogConflict or LacksLines if it has another size than is
        known here.
        """
        if has_version(self._store, conversation_id, Version.REPLACED):
            raise StorageUnavailable(
                "an earlier redaction of it was interrupted, and ends with the next start"
                if self._store.sharing is None
                else "an earlier redaction of it has not reached every server: try again"
            )
        try:
            raw = list(self._store.raw(conversation_id))
        except LogNotFound:
            raise logs_of(self._store, conversation_id).not_found(conversation_id) from None
        lines = lines_of(conversation_id, raw, read)
        if self._store.sharing is not None:
            if size != (lines[-1].end if lines else 0):
                reason = "another server has written to it: try again"
                raise LogConflict(conversation_id, "read", reason)
        elif lines and lines[-1].end != size:
            self._states.forget(conversation_id)  # the next call takes in what there is
            raise LacksLines
        return raw, lines

    def _begin(
        self,
        conversation_id: str,
        raw: list[bytes],
        lines: list[Line],
        sequences: tuple[int, ...],
        by: str,
        request: RequestKey | None,
    ) -> tuple[Line, int, list[bytes]]:
        """Take step 1. Return the line that says what was redacted, the time, and the lines before
        that as they are now. Hold the conversation's lock.
        """
        if len(lines) == MAX_LINES:
            noun = "communication" if is_communication_id(conversation_id) else "conversation"
            raise InvalidField.of(f"{noun}_id", f"is full: delete the {noun}")
        time = self._clock()
        after = without_text(lines, raw, sequences, Redaction(by, time))
        entries = entries_of([MessagesRedacted(sequences, time, by)], request)
        size = lines[-1].end
        (event,), data = encoded(entries, len(lines), size, conversation_id)
        claim = request_claim(request.id) if request else ""
        try:
            with self._doubts.asking(Action.REDACT, conversation_id):
                self._store.swap(conversation_id, [*after, *data], size, request=claim, keep=True)
        except LogTaken:
            check_unanswered(self._store, request)
            raise
        return event, time, after

    def _finish(
        self, conversation_id: str, time: int, lines: list[Line]
    ) -> tuple[Conversation | Communication, int]:
        """Take the steps behind the first one."""
        index = self._projection.index
        self._counts[conversation_id] += 1
        try:
            return finish_redaction(
                self._store,
                index,
                self._anchors,
                conversation_id,
                time,
                self._publish,
                lines,
            )
        except DataUnavailable as error:
            if isinstance(error, LogNotFound) and self._store.sharing is not None:
                raise  # deleted by another process: to follow that removes all that is here of it
            # The index may have the text, and nothing in it says so.
            index.condemn(f"a redaction of {conversation_id} was interrupted: {error}")
            raise
        finally:
            self._states.forget(conversation_id)

    def follow(self, conversation_id: str) -> None:
        """Take the text out of the index that another process redacted, with its line. Raises
        DataUnavailable. Hold the conversation's lock.
        """
        self._doubts.settle((Action.REDACT, conversation_id))
        index = self._projection.index
        if (stored := index.indexed(conversation_id)) is None:
            self._store.drop(conversation_id, Version.REPLACED)
            return
        try:
            old = lines_of(
                conversation_id, list(self._store.raw(conversation_id, Version.REPLACED))
            )
        except LogNotFound:
            return  # to catch up with its line finds out whether the index has the text
        if behind := old[stored.lines :]:
            if isinstance(stored, StoredCommunication):
                _take_in_behind(self._store, index, conversation_id, self._clock())
            else:
                check_behind(index, conversation_id, behind, stored.lines)
                state = self._states.held(conversation_id)
                # A read may have met the redaction before, which the index could not take in.
                state = state and replace(state, indexed=True)
                self._writes.take_in(conversation_id, state, behind)
                index.settle()
        self._counts[conversation_id] += 1
        try:
            finish_redaction(
                self._store,
                index,
                self._anchors,
                conversation_id,
                self._clock(),
                self._publish,
            )
        except IndexUnavailable as error:
            index.condemn(f"a redaction of {conversation_id} was not followed: {error}")
            raise
        finally:
            self._states.forget(conversation_id)
        if stored.lines <= old[-1].sequence and isinstance(stored, Stored):
            end = Position(old[-1].sequence, old[-1].end)
            event = next(self._store.read(conversation_id, end))
            self._publish(Appended(conversation_id, [event]))

    def find_interrupted(self) -> None:
        """Finish the redactions that a process began and did not end. Raises DataUnavailable. Hold
        no lock.
        """
        for kind in (Kind.CONVERSATION, Kind.COMMUNICATION):
            for name, _ in self._store.logs(kind, Version.REPLACED):
                with self._locks.conversations.hold(name):
                    self.follow(name)

    def _answer(
        self, conversation: Conversation, event: Line, cursor: int, *, duplicate: bool
    ) -> RedactionDone:
        content = event.entry.content if event.entry else None
        assert isinstance(content, MessagesRedacted)
        raw = list(self._store.raw(conversation.id))
        there = (line_of(raw[it - 1], it, 0) for it in sorted(content.sequences) if it <= len(raw))
        messages = messages_of([*over(conversation.id, raw).lines(there)])
        return RedactionDone(conversation, messages, content.time, cursor, duplicate)


def _chosen(lines: list[Line], state: ConversationState, sequence: int, turn: int) -> list[Message]:
    """Return the messages that are to be redacted. Raises InvalidField if there are none."""
    if sequence:
        return [_message_at(lines, sequence, Message)]
    chosen = [message for message in messages_of(lines) if message.turn_number == turn]
    if not chosen:
        raise InvalidField.of(
            "turn_number", f"is {turn}; the newest turn is {state.conversation.turn_count}"
        )
    return chosen


def _message_at(lines: list[Line], sequence: int, kind: type[AnyMessage]) -> AnyMessage:
    """Return the message of a line. Raises InvalidField if there is none."""
    line = lines[sequence - 1] if sequence <= len(lines) else None
    if line is not None and line.entry is None:
        raise InvalidField.of(
            "sequence",
            f"is {sequence}, a line that is damaged ({line.damage}): only a delete removes it",
        )
    content = line.entry.content if line and line.entry else None
    if not isinstance(content, kind):
        raise InvalidField.of("sequence", f"is {sequence}, and no message has that line")
    return content


def _escalation_of(name: str, lines: list[Line], sequence: int) -> Escalation | None:
    """Return the escalation that a message opened, as it is behind these lines."""
    escalation: Escalation | None = None
    for content in contents_of(lines):
        match content:
            case EscalationOpened(sequence=about) as it if about == sequence:
                escalation = Escalation(it.id, name, sequence, it.question, it.time)
            case EscalationResolved() as it if escalation and it.id == escalation.id:
                escalation = replace(escalation, answer=it.answer, resolve_time=it.time)
            case _:
                pass
    return escalation


def logs_of(store: LogStore, name: str) -> Logs[Any]:
    """Return the logs of the kind that a name is of."""
    return CommunicationLogs(store) if is_communication_id(name) else ConversationLogs(store)


def finish_redaction(
    store: LogStore,
    index: Index,
    anchors: AnchorLedger,
    conversation_id: str,
    time: int,
    publish: Callable[[object], None],
    old: list[Line] | None = None,
) -> tuple[Conversation | Communication, int]:
    """Take steps 2 to 5; to take them again after a crash is harmless. Return the conversation, or
    the communication, and the cursor of a conversation's redaction, 0 if the index had it.

    `old` are the lines as they were; None: they are read. Raises DataUnavailable: then the next
    start finishes it. Hold the conversation's lock.
    """
    logs = logs_of(store, conversation_id)
    raw = list(store.raw(conversation_id, Version.REPLACED))
    old = old or lines_of(conversation_id, raw)
    now = list(store.raw(conversation_id))
    lines = lines_of(conversation_id, now, (raw, old))
    conversation: Conversation | Communication | None = None
    event = lines[len(old)]
    for line in lines[: len(old) + 1]:  # another process may have written behind it
        conversation = logs.folded(conversation, line, conversation_id)
    redacted = event.entry.content if event.entry else None
    stored = index.indexed(conversation_id)
    if conversation is None or not isinstance(redacted, MessagesRedacted) or stored is None:
        raise IndexUnavailable(f"it does not have {conversation_id} as it was before a redaction")
    cursor = 0
    if stored.lines < event.sequence:
        if (stored.lines, stored.bytes) != (old[-1].sequence, old[-1].end):
            raise IndexUnavailable(f"it lacks lines of {conversation_id}")
        cursor = _take_out(index, stored, conversation, event, _erased(old, lines), time)
    else:
        index.removal_of(conversation_id).purge_words(stored.number)
    if isinstance(conversation, Conversation):
        anchors.drop_messages(conversation_id, redacted.sequences)
        anchors.changed()
        publish(Redacted(conversation_id, stored.number, redacted.sequences))
    else:
        publish(ExchangeRedacted(conversation_id))
    hit("redact.forgotten")
    store.drop(conversation_id, Version.REPLACED)
    empty_log(index, conversation_id)
    return conversation, cursor


def _take_out(
    index: Index,
    stored: Stored | StoredCommunication,
    after: Conversation | Communication,
    event: Line,
    erased: Erased,
    time: int,
) -> int:
    """Let the index take in the line that says what was redacted, and have none of its text."""
    number = stored.number
    if isinstance(stored, Stored):
        assert isinstance(after, Conversation)
        return index.redact(number, stored.conversation, after, event, erased, time=time)
    assert isinstance(after, Communication)
    index.external.redact(number, stored.communication, after, event, erased, time=time)
    return 0


def _erased(old: list[Line], new: list[Line]) -> Erased:
    """Return what the lines of a log say otherwise than before."""
    changed: list[tuple[AnyContent, Line]] = []
    requests: set[str] = set()
    for before, after in zip(old, new, strict=False):
        if before is after or before.entry is None or after.entry is None:
            continue
        if before.entry.stamp != after.entry.stamp:
            requests.add(after.entry.stamp.request_id)
        if before.entry.content != after.entry.content:
            changed.append((before.entry.content, after))
    return Erased(changed, requests - {""}, mail_ids_of(contents_of(new)))


def finish_interrupted(
    store: LogStore,
    index: Index,
    anchors: AnchorLedger,
    conversation_id: str,
    time: int,
    publish: Callable[[object], None],
    *,
    is_rebuilt: bool,
) -> None:
    """Finish, or take back, a redaction that a crash or a lost index interrupted, or that other
    processes have not ended. `is_rebuilt`: the index was just made from the logs. Hold the
    conversation's lock.

    Raises IndexUnavailable: then a new index helps; StorageUnavailable.
    """
    log.warning("finishing_interrupted_redaction", conversation=conversation_id)
    try:
        if store.take_back(conversation_id):
            return
    except LogNotFound:  # it was deleted meanwhile
        with suppress(LogNotFound):
            store.drop(conversation_id, Version.REPLACED)
        if is_rebuilt:
            return  # its delete is to be followed
        raise IndexUnavailable(
            f"it may have words of {conversation_id}, which is deleted"
        ) from None
    if not has_version(store, conversation_id, Version.REPLACED):
        return  # another process was the last that had the text
    try:
        if store.sharing is not None:
            _take_in_behind(store, index, conversation_id, time)
        finish_redaction(store, index, anchors, conversation_id, time, publish)
    except LogNotFound:
        if store.sharing is None:
            raise
        # Other processes have ended it, or deleted the conversation: to catch up with that, or to
        # follow it, finds out whether the index has the text.


def _take_in_behind(store: LogStore, index: Index, conversation_id: str, time: int) -> None:
    """Let an index take in what it lacks of a log as it was before a redaction. Raises LogNotFound,
    IndexUnavailable.
    """
    logs = logs_of(store, conversation_id)
    stored = index.indexed(conversation_id)
    old = lines_of(conversation_id, list(store.raw(conversation_id, Version.REPLACED)))
    if stored is None or not (behind := old[stored.lines :]):
        return
    check_behind(index, conversation_id, behind, stored.lines)
    refused: list[str] = []
    before = stored.state
    after = logs.behind(before, behind, conversation_id)
    logs.add(
        *(index, stored.number, before, after, behind), time=time, failed=refused.append, log=True
    )
    logs.settle(index, conversation_id, refused)
