"""Redaction: the text of messages is removed for good, and the messages stay as tombstones.

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
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace

import structlog

from recollect_server.domain.addresses import EMAIL
from recollect_server.domain.conversation import Conversation, MessagesRedacted
from recollect_server.domain.errors import (
    ConversationNotFound,
    DataUnavailable,
    IndexUnavailable,
    InvalidField,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.domain.frozen import frozen
from recollect_server.domain.ids import MAX_LINES
from recollect_server.domain.message import Message, Redaction
from recollect_server.domain.routing import mail_ids_of
from recollect_server.services.space.conversation_logs import ConversationLogs
from recollect_server.services.space.events import Appended, Redacted
from recollect_server.services.space.late_redactions import check_behind
from recollect_server.services.space.logs import check_unanswered, entries_of
from recollect_server.services.space.parts import Parts
from recollect_server.services.space.state import ConversationState, RequestKey
from recollect_server.storage.failpoints import hit
from recollect_server.storage.index.index import Index
from recollect_server.storage.index.redaction import Erased
from recollect_server.storage.logs.anchors import AnchorLedger
from recollect_server.storage.logs.belonging import lines_of, over
from recollect_server.storage.logs.kinds import Kind
from recollect_server.storage.logs.lines import Line, contents_of, encoded, line_of, messages_of
from recollect_server.storage.logs.redaction import erased
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
from recollect_server.storage.vectors.file import VectorsUnavailable
from recollect_server.storage.vectors.store import ABBREVIATION, forget_lines

log = structlog.get_logger("recollect.redaction")


@frozen
class RedactionDone:
    """Result of a redaction: the tombstones, and the conversation behind it."""

    conversation: Conversation
    messages: list[Message]
    time: int
    cursor: int
    duplicate: bool


class Redactions:
    """The redactions of a space. Safe to call from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._transcripts = parts.transcripts
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
        self._counts: Counter[str] = Counter()
        self._doubtful: set[str] = set()
        """Conversations of which the store was asked to begin one, and did not answer for sure."""

    def count(self, conversation_id: str) -> int:
        """Return how often a conversation was redacted since the start: who writes notes of what it
        read before compares it. Hold the conversation's lock.
        """
        return self._counts[conversation_id]

    def is_doubtful(self, conversation_id: str) -> bool:
        """Return whether a redaction may have begun here although the store did not say so, as
        where its answer was lost with the connection. It is followed as one of another process.
        """
        return conversation_id in self._doubtful

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
                raise IndexUnavailable(
                    "it lacks lines of the conversation, which may have the text"
                )
            raw = self._raw(conversation_id)
            lines = lines_of(conversation_id, raw, read)
            if self._store.sharing is not None and lines[-1].end != state.size:
                reason = "another server has written to it: try again"
                raise LogConflict(conversation_id, "read", reason)
            messages = _chosen(lines, state, sequence, turn)
            if all(message.redaction for message in messages):
                check_unanswered(self._store, request)
                return RedactionDone(state.conversation, messages, self._clock(), 0, duplicate=True)
            if state.lines == MAX_LINES:
                raise InvalidField.of(
                    "conversation_id",
                    "is full: delete the conversation, or another one of its lines",
                )
            time = self._clock()
            sequences = tuple(it.sequence for it in messages)
            after = erased(lines, raw, sequences, Redaction(by, time))
            entries = entries_of([MessagesRedacted(sequences, time, by)], request)
            event, data = encoded(entries, state.lines, state.size, conversation_id)
            self._projection.index.settle()  # what it lacks after a crash would have it made anew
            self._begin(conversation_id, [*after, *data], state.size, request)
            return self._finish(state, event[0], time, lines)

    def _read_ahead(self, conversation_id: str) -> tuple[list[bytes], list[Line]]:
        """Return what a transcript has, or nothing of one that cannot be read now: the call says
        why under the lock.
        """
        try:
            raw = list(self._store.raw(conversation_id))
        except StorageUnavailable:
            return [], []
        return raw, lines_of(conversation_id, raw)

    def _raw(self, conversation_id: str) -> list[bytes]:
        if has_version(self._store, conversation_id, Version.REPLACED):
            raise StorageUnavailable(
                "an earlier redaction of it was interrupted, and ends with the next start"
                if self._store.sharing is None
                else "an earlier redaction of it has not reached every server: try again"
            )
        try:
            return list(self._store.raw(conversation_id))
        except LogNotFound:
            raise ConversationNotFound(conversation_id) from None

    def _begin(
        self, conversation_id: str, lines: list[bytes], size: int, request: RequestKey | None
    ) -> None:
        """Take step 1. Hold the conversation's lock."""
        claim = request_claim(request.id) if request else ""
        self._doubtful.add(conversation_id)
        try:
            self._store.swap(conversation_id, lines, size, request=claim, keep=True)
        except (LogNotFound, LogConflict) as error:
            self._doubtful.discard(conversation_id)
            if isinstance(error, LogTaken):
                check_unanswered(self._store, request)
            raise
        self._doubtful.discard(conversation_id)

    def _finish(
        self, state: ConversationState, event: Line, time: int, lines: list[Line]
    ) -> RedactionDone:
        conversation_id, index = state.conversation.id, self._projection.index
        self._counts[conversation_id] += 1
        try:
            done = finish_redaction(
                self._transcripts,
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
        conversation, cursor = done
        self._states.keep(
            ConversationState(conversation, event.end, event.sequence, state.number, indexed=True)
        )
        self._publish(Appended(conversation_id, [event]))
        hit("redact.log_emptied")
        return self._answer(conversation, event, cursor, duplicate=False)

    def follow(self, conversation_id: str) -> None:
        """Take the text out of the index that another process redacted, with its line. Raises
        DataUnavailable. Hold the conversation's lock.
        """
        self._doubtful.discard(conversation_id)
        index = self._projection.index
        if (stored := index.conversations.find(conversation_id)) is None:
            self._store.drop(conversation_id, Version.REPLACED)
            return
        try:
            old = lines_of(
                conversation_id, list(self._store.raw(conversation_id, Version.REPLACED))
            )
        except LogNotFound:
            return  # to catch up with its line finds out whether the index has the text
        if behind := old[stored.lines :]:
            check_behind(index, conversation_id, behind, stored.lines)
            state = self._states.held(conversation_id)
            # A read may have met the redaction before, which the index could not take in.
            state = state and replace(state, indexed=True)
            self._writes.take_in(conversation_id, state, behind)
            index.settle()
        self._counts[conversation_id] += 1
        try:
            finish_redaction(
                self._transcripts,
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
        if stored.lines <= old[-1].sequence:
            end = Position(old[-1].sequence, old[-1].end)
            event = next(self._store.read(conversation_id, end))
            self._publish(Appended(conversation_id, [event]))

    def find_interrupted(self) -> None:
        """Finish the redactions that a process began and did not end. Raises DataUnavailable. Hold
        no lock.
        """
        for conversation_id, _ in self._store.logs(Kind.CONVERSATION, Version.REPLACED):
            with self._locks.conversations.hold(conversation_id):
                self.follow(conversation_id)

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
        line = lines[sequence - 1] if sequence <= len(lines) else None
        if line is not None and line.entry is None:
            raise InvalidField.of(
                "sequence",
                f"is {sequence}, a line that is damaged ({line.damage}): only Delete removes it",
            )
        chosen = messages_of([line]) if line else []
        if not chosen:
            raise InvalidField.of("sequence", f"is {sequence}, and no message has that line")
        return chosen
    chosen = [message for message in messages_of(lines) if message.turn_number == turn]
    if not chosen:
        raise InvalidField.of(
            "turn_number", f"is {turn}; the newest turn is {state.conversation.turn_count}"
        )
    return chosen


def finish_redaction(
    transcripts: ConversationLogs,
    index: Index,
    anchors: AnchorLedger,
    conversation_id: str,
    time: int,
    publish: Callable[[object], None],
    old: list[Line] | None = None,
) -> tuple[Conversation, int]:
    """Take steps 2 to 5; to take them again after a crash is harmless. Return the conversation and
    the cursor of the redaction, 0 if the index had it.

    `old` are the lines as they were; None: they are read. Raises DataUnavailable: then the next
    start finishes it. Hold the conversation's lock.
    """
    store = transcripts.store
    raw = list(store.raw(conversation_id, Version.REPLACED))
    old = old or lines_of(conversation_id, raw)
    now = list(store.raw(conversation_id))
    lines = lines_of(conversation_id, now, (raw, old))
    conversation: Conversation | None = None
    event = lines[len(old)]
    for line in lines[: len(old) + 1]:  # another process may have written behind it
        conversation = transcripts.folded(conversation, line, conversation_id)
    redacted = event.entry.content if event.entry else None
    stored = index.conversations.find(conversation_id)
    if conversation is None or not isinstance(redacted, MessagesRedacted) or stored is None:
        raise IndexUnavailable(f"it does not have {conversation_id} as it was before a redaction")
    cursor = 0
    if stored.lines < event.sequence:
        if (stored.lines, stored.bytes) != (old[-1].sequence, old[-1].end):
            raise IndexUnavailable(f"it lacks lines of {conversation_id}")
        cursor = index.redact(
            stored.number,
            stored.conversation,
            conversation,
            event,
            _erased(old, lines, redacted.sequences, conversation),
            time=time,
        )
    else:
        index.removal.purge_words(stored.number)
        index.removal.end(stored.number)
    anchors.drop_messages(conversation_id, redacted.sequences)
    anchors.changed()
    publish(Redacted(conversation_id, stored.number, redacted.sequences))
    hit("redact.forgotten")
    store.drop(conversation_id, Version.REPLACED)
    if not index.removal.empty_log():
        log.warning("log_not_emptied", conversation=conversation_id)
    return conversation, cursor


def _erased(
    old: list[Line], new: list[Line], sequences: Collection[int], conversation: Conversation
) -> Erased:
    messages: list[tuple[Message, Message]] = []
    events: list[int] = []
    requests: set[str] = set()
    for before, after in zip(old, new, strict=False):
        if before is after or before.entry is None or after.entry is None:
            continue
        if before.entry == after.entry:
            continue
        if before.entry.stamp != after.entry.stamp:
            requests.add(after.entry.stamp.request_id)
        one, other = before.entry.content, after.entry.content
        if not isinstance(one, Message) or not isinstance(other, Message):
            events.append(after.sequence)
        elif after.sequence in sequences:
            messages.append((one, other))
    mail = mail_ids_of(contents_of(new)) if conversation.channel == EMAIL else ()
    return Erased(messages, events, requests - {""}, mail)


def finish_interrupted(
    store: LogStore, index: Index, conversation_id: str, time: int, *, is_rebuilt: bool
) -> None:
    """Finish, or take back, a redaction that a crash interrupted, or that other processes have not
    ended. No other call of this one may be under way. `is_rebuilt`: the index was just made from
    the logs.

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

    def forget(event: object) -> None:
        assert isinstance(event, Redacted)
        with suppress(VectorsUnavailable):  # a file that cannot be used is made anew
            forget_lines(index.folder, event.conversation_id, (*event.sequences, ABBREVIATION))

    logs, anchors = ConversationLogs(store), AnchorLedger(store)
    try:
        if store.sharing is not None:
            _take_in_behind(logs, index, conversation_id, time)
        finish_redaction(logs, index, anchors, conversation_id, time, forget)
    except LogNotFound:
        if store.sharing is None:
            raise
        # Other processes have ended it, or deleted the conversation: to catch up with that, or to
        # follow it, finds out whether the index has the text.


def _take_in_behind(
    transcripts: ConversationLogs, index: Index, conversation_id: str, time: int
) -> None:
    """Let an index take in what it lacks of a conversation as it was before a redaction. Raises
    LogNotFound, IndexUnavailable.
    """
    stored = index.conversations.find(conversation_id)
    old = lines_of(conversation_id, list(transcripts.store.raw(conversation_id, Version.REPLACED)))
    if stored is None or not (behind := old[stored.lines :]):
        return
    check_behind(index, conversation_id, behind, stored.lines)
    refused: list[str] = []
    before = stored.conversation
    after = transcripts.behind(before, behind, conversation_id)
    transcripts.add(
        *(index, stored.number, before, after, behind), time=time, failed=refused.append, log=True
    )
    index.settle()
    if refused:
        raise IndexUnavailable(f"it refused lines of {conversation_id}: {refused[0]}")
