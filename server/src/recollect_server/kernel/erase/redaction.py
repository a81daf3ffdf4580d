"""Redaction and unindexing: a conversation stays, and the text of messages, or its words in the
index, go. See `kernel.erase.erasing` for the steps of both.

Redaction removes the text of messages for good, and the messages stay as tombstones; of a
conversation, or of an exchange with a third party. Each line of the transcript is as long as it
was, so who reads it meanwhile finds every message in its place. Numbers, times, roles, usage and
cost stay, and with them all sums.

Everything that was derived from the text goes: notes, titles that were not given by hand, summaries
of its turn, anchors, replies that quote it; and what people said of the answer of its turn
(`page.feedback.7`). The notes are queued to be made again. What people wrote themselves about it
elsewhere stays: other messages, a title by hand, other metadata; so do forks, which are
conversations of their own.

Searches find nothing of an unindexed conversation until somebody writes to it. The transcript says
so, in an event: a new index leaves it out too, whatever the rules of retention are by then. The
words go right after the event, a part at a time: the conversation's lock is held for a part, so
that writers of it wait for no more; what a crash interrupts is finished by the next start, before
anybody searches. A message makes the conversation searchable again: it is indexed at once as every
message is, and a job brings the words of the earlier ones back.
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate
from typing import Any

from recollect_server.kernel.domain import conversation as domain
from recollect_server.kernel.domain.conversation import Conversation, MessagesRedacted
from recollect_server.kernel.domain.errors import (
    ConversationPinned,
    DataUnavailable,
    IndexUnavailable,
    InvalidField,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import MAX_LINES, Action, Kind
from recollect_server.kernel.domain.message import Redaction
from recollect_server.kernel.erase.deletion import NotConfirmed
from recollect_server.kernel.erase.erasing import (
    EDITED_PART_BYTES,
    PART,
    finish_redaction,
    follow_redaction,
    lines_as_indexed,
    part_bytes,
)
from recollect_server.kernel.failpoints import hit
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.derived import Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place, searchable_text
from recollect_server.kernel.index.removal import Words
from recollect_server.kernel.log.lines import (
    Line,
    contents_of,
    encoded,
    line_of,
    lines_of,
    messages_of,
    over,
)
from recollect_server.kernel.log.redaction import erased
from recollect_server.kernel.log.store import (
    LogConflict,
    LogNotFound,
    LogStore,
    LogTaken,
    Version,
    has_version,
    lines_at,
    request_claim,
)
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.events import Appended, Unindexed
from recollect_server.kernel.space.logs import Logs, RequestKey, check_unanswered, entries_of
from recollect_server.kernel.space.parts import Parts


@frozen
class RedactionDone:
    """Result of a redaction: the tombstones, and the conversation or the communication behind
    it.
    """

    state: Any
    messages: list[Any]
    time: int
    cursor: int
    duplicate: bool


class LacksLines(IndexUnavailable):
    """The index does not have what the log has."""

    def __init__(self) -> None:
        super().__init__("it lacks lines of the log, which may have the text")


class Redactions:
    """The redactions of a space. Safe to call from any thread."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._counts: Counter[str] = Counter()

    def count(self, conversation_id: str) -> int:
        """Return how often a conversation was redacted since the start: who writes notes of what it
        read before compares it. Hold the conversation's lock.
        """
        return self._counts[conversation_id]

    def redact(
        self,
        name: str,
        *,
        sequence: int,
        turn: int = 0,
        by: str,
        request: RequestKey | None = None,
    ) -> RedactionDone:
        """Remove the text of the message of a line, or, where that is 0, of all messages of a turn,
        for good; tombstones stay. The index must have what was written of a communication.

        Raises InvalidField where there is no such message; ConversationNotFound,
        CommunicationNotFound, DataUnavailable; LacksLines where it is to be indexed first. Hold no
        lock.
        """
        logs = self._parts.logs_of(name)
        is_conversation = logs.kind is Kind.CONVERSATION
        # Decoded before the lock is held, which takes most of the time: writers of a long
        # conversation must not wait for it.
        read = self._read_ahead(name)
        with self._parts.locks.exclusive(request=request.id if request else "", conversation=name):
            state = self._settled(name) if is_conversation else None
            earlier = (
                self._parts.requests.find(request, name if is_conversation else None)
                if request
                else None
            )
            if earlier and (done := self._repeated(logs, name, earlier)):
                return done
            stored = self._as_indexed(logs, name, state)
            raw, lines = self._whole(name, stored.bytes, read)
            messages = _chosen(logs, lines, stored.state, sequence, turn)
            if all(message.redaction for message in messages):
                check_unanswered(self._parts.store, request)
                return RedactionDone(stored.state, messages, self._parts.clock(), 0, duplicate=True)
            if earlier:
                raise RequestIdReused(earlier.request_id)  # its turn has other messages since
            if is_conversation:
                # what it lacks after a crash would have it made anew
                self._parts.projection.index.settle()
            else:
                logs.check_own(name)
            sequences = tuple(it.sequence for it in messages)
            event, time = self._begin(name, raw, lines, sequences, by, request)
            after, cursor = self._finish(logs, name, time, raw, lines)
            if is_conversation:
                self._parts.states.keep(
                    ConversationState(after, event.end, event.sequence, stored.number, indexed=True)
                )
                self._parts.publish(Appended(name, [event], after))
            hit("redact.log_emptied")
            return self._answer(logs, name, after, event, cursor, duplicate=False)

    def _settled(self, conversation_id: str) -> ConversationState:
        """Return the state of a conversation of which nothing is pending. One whose log refused a
        title alone goes on from there.
        """
        state = self._parts.writes.end(conversation_id)
        stuck = self._parts.pending.of(conversation_id)
        if stuck and stuck.batches:
            raise StorageUnavailable(
                f"the transcript cannot be written yet: {stuck.reason}. Messages of it are held: try"
                " again"
            )
        if stuck:
            self._parts.pending.release(conversation_id)
            self._parts.states.keep(state)
        return state

    def _as_indexed(
        self, logs: Logs[Any], name: str, state: ConversationState | None
    ) -> Stored[Any]:
        """Return what the index has; of a conversation, as much as its state says."""
        if state is None:
            if (stored := logs.find(self._parts.projection.index, name)) is None:
                raise logs.not_found(name)
            return stored
        if state.number is None or not state.indexed:
            raise LacksLines
        return Stored(state.number, state.conversation, state.size, state.lines)

    def _repeated(self, logs: Logs[Any], name: str, earlier: KnownRequest) -> RedactionDone | None:
        """Return the answer of a redaction that was carried out before; None if the line that says
        so was damaged since: the tombstones say it too.
        """
        lines: list[Line] = []
        if earlier.conversation_id == name:
            lines = lines_of(name, self._raw(name))[: earlier.last_sequence]
        event = lines[-1] if lines else None
        if event is not None and event.entry is None:
            return None
        content = event.entry.content if event and event.entry else None
        if event is None or not isinstance(content, MessagesRedacted):
            raise RequestIdReused(earlier.request_id)  # by a message that was redacted since
        state: Any = None
        for line in lines:
            state = logs.folded(state, line, name)
        return self._answer(logs, name, state, event, earlier.cursor, duplicate=True)

    def _read_ahead(self, name: str) -> tuple[list[bytes], list[Line]]:
        """Return what a transcript has, or nothing of one that cannot be read now: the call says
        why under the lock.
        """
        try:
            raw = list(self._parts.store.raw(name))
        except StorageUnavailable:
            return [], []
        return raw, lines_of(name, raw)

    def _raw(self, name: str) -> list[bytes]:
        try:
            return list(self._parts.store.raw(name))
        except LogNotFound:
            raise self._parts.logs_of(name).not_found(name) from None

    def _whole(
        self, name: str, size: int, read: tuple[list[bytes], list[Line]]
    ) -> tuple[list[bytes], list[Line]]:
        """Return the lines of a log of which no redaction is under way, and what they say; `read`:
        as they were read before. Raises LogConflict or LacksLines if it has another size than is
        known here.
        """
        if has_version(self._parts.store, name, Version.REPLACED):
            raise StorageUnavailable(
                "an earlier redaction of it was interrupted, and ends with the next start"
                if self._parts.store.sharing is None
                else "an earlier redaction of it has not reached every server: try again"
            )
        raw = self._raw(name)
        lines = lines_of(name, raw, read)
        if self._parts.store.sharing is not None:
            if size != (lines[-1].end if lines else 0):
                reason = "another server has written to it: try again"
                raise LogConflict(name, "read", reason)
        elif lines and lines[-1].end != size:
            self._parts.states.forget(name)  # the next call takes in what there is
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
    ) -> tuple[Line, int]:
        """Take step 1. Return the line that says what was redacted, and the time. Hold the
        conversation's lock.
        """
        if len(lines) == MAX_LINES:
            noun = self._parts.logs_of(conversation_id).noun
            raise InvalidField.of(f"{noun}_id", f"is full: delete the {noun}")
        time = self._parts.clock()
        after = erased(lines, raw, sequences, Redaction(by, time))
        entries = entries_of([MessagesRedacted(sequences, time, by)], request)
        size = lines[-1].end
        (event,), data = encoded(entries, len(lines), size, conversation_id)
        claim = request_claim(request.id) if request else ""
        try:
            with self._parts.doubts.asking(Action.REDACT, conversation_id):
                self._parts.store.swap(
                    conversation_id, [*after, *data], size, request=claim, keep=True
                )
        except LogTaken:
            check_unanswered(self._parts.store, request)
            raise
        return event, time

    def _finish(
        self, logs: Logs[Any], name: str, time: int, raw: list[bytes], lines: list[Line]
    ) -> tuple[Any, int]:
        """Take the steps behind the first one. Return the state, and the cursor."""
        index = self._parts.projection.index
        self._counts[name] += 1
        try:
            of = (logs, index, self._parts.participants, name, time, self._parts.publish)
            return finish_redaction(*of, raw, lines)[:2]
        except DataUnavailable as error:
            if isinstance(error, LogNotFound) and self._parts.store.sharing is not None:
                raise  # deleted by another process: to follow that removes all that is here of it
            # The index may have the text, and nothing in it says so.
            index.condemn(f"a redaction of {name} was interrupted: {error}")
            raise
        finally:
            self._parts.states.forget(name)

    def follow(self, name: str) -> None:
        """Take the text out of the index that another process redacted, with its line. Raises
        DataUnavailable. Hold the conversation's lock.
        """
        self._parts.doubts.settle((Action.REDACT, name))
        logs = self._parts.logs_of(name)
        index = self._parts.projection.index
        self._counts[name] += 1
        try:
            lines = follow_redaction(
                logs,
                index,
                self._parts.participants,
                name,
                self._parts.clock(),
                self._parts.publish,
            )
        except IndexUnavailable as error:
            index.condemn(f"a redaction of {name} was not followed: {error}")
            raise
        finally:
            self._parts.states.forget(name)
        if lines and logs.kind is Kind.CONVERSATION:
            stored = logs.find(index, name)
            assert stored is not None
            self._parts.publish(Appended(name, lines, stored.state))

    def find_interrupted(self) -> None:
        """Finish the redactions that a process began and did not end. Raises DataUnavailable. Hold
        no lock.
        """
        for logs in self._parts.kinds:
            for name, _ in self._parts.store.logs(logs.kind, Version.REPLACED):
                with self._parts.locks.conversations.hold(name):
                    self.follow(name)

    def _answer(
        self, logs: Logs[Any], name: str, state: Any, event: Line, cursor: int, *, duplicate: bool
    ) -> RedactionDone:
        content = event.entry.content if event.entry else None
        assert isinstance(content, MessagesRedacted)
        raw = list(self._parts.store.raw(name))
        there = [line_of(raw[it - 1], it, 0) for it in sorted(content.sequences) if it <= len(raw)]
        contents = contents_of([*over(name, raw).lines(there)])
        messages = [it for it in contents if isinstance(it, logs.message)]
        if not messages:  # damaged since
            numbers = ", ".join(map(str, sorted(content.sequences)))
            raise InvalidField.of(
                "sequence", f"is {numbers}, a line that is damaged: only a delete removes it"
            )
        return RedactionDone(state, messages, content.time, cursor, duplicate)


def _chosen(logs: Logs[Any], lines: list[Line], state: Any, sequence: int, turn: int) -> list[Any]:
    """Return the messages that are to be redacted. Raises InvalidField if there are none."""
    if not sequence and logs.kind is Kind.CONVERSATION:
        chosen = [message for message in messages_of(lines) if message.turn_number == turn]
        if not chosen:
            newest = state.turn_count
            raise InvalidField.of("turn_number", f"is {turn}; the newest turn is {newest}")
        return chosen
    line = lines[sequence - 1] if sequence <= len(lines) else None
    if line is not None and line.entry is None:
        raise InvalidField.of(
            "sequence",
            f"is {sequence}, a line that is damaged ({line.damage}): only a delete removes it",
        )
    content = line.entry.content if line and line.entry else None
    if isinstance(content, logs.message):
        return [content]
    raise InvalidField.of("sequence", f"is {sequence}, and no message has that line")


# Seconds between two parts: a lock that is taken again at once leaves no turn to a thread that
# waits for it, such as an append to the conversation.
_TURN = 0.001


class Unindexing:
    """Takes the words of a space's conversations out of the index, and brings them back."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def unindex(self, conversation_id: str, confirm: Callable[[Conversation], bool]) -> None:
        """Take a conversation out of searches until somebody writes to it.

        `confirm` is asked under the conversation's lock: NotConfirmed is raised if it returns
        False, if the conversation is unindexed already, or if the index lacks lines of it. Raises
        ConversationPinned, ConversationNotFound, DataUnavailable. Hold no lock.
        """
        with self._parts.locks.conversations.hold(conversation_id):
            state = self._parts.writes.end(conversation_id)
            if self._parts.pending.of(conversation_id) or not state.indexed:
                raise NotConfirmed
            if state.conversation.pinned:
                raise ConversationPinned(conversation_id)
            if state.conversation.unindexed or not confirm(state.conversation):
                raise NotConfirmed
            self._parts.writes.append(state, [domain.ConversationUnindexed(self._parts.clock())])
            hit("unindex.recorded")
        self._settle(conversation_id)

    def settle(self) -> bool:
        """Make the words in the index follow one conversation's state. Return False if nothing is
        to do. Raises DataUnavailable.
        """
        due = self._parts.projection.index.removal.unsettled()
        for conversation_id in due[:1]:
            self._settle(conversation_id)
        return bool(due)

    def _settle(self, conversation_id: str) -> None:
        """Take out all words, or bring all back. Hold no lock."""
        index = self._parts.projection.index
        with suppress(LogNotFound):
            while self._settle_part(index, conversation_id):
                time.sleep(_TURN)
        if (stored := index.conversations.find(conversation_id)) is not None:
            index.removal.purge_words(stored.number)

    def _settle_part(self, index: Index, conversation_id: str) -> bool:
        """Take out or bring back a part of the words. Return True if there is more to do."""
        with self._parts.locks.conversations.hold(conversation_id):
            stored = index.conversations.find(conversation_id)
            if stored is None:
                return False
            if not stored.state.unindexed:
                return bring_back_part(self._parts.store, index, conversation_id, stored)
            if take_out_part(self._parts.store, index, conversation_id, stored):
                return True
            hit("unindex.words_gone")
            self._parts.publish(Unindexed(conversation_id, stored.number))
            return False


def settle_all(store: LogStore, index: Index) -> None:
    """Take out what an index has of the words of conversations that are unindexed. Nobody may write
    meanwhile. Raises DataUnavailable.
    """
    for conversation_id in index.conversations.unindexed():
        if (stored := index.conversations.find(conversation_id)) is not None:
            with suppress(LogNotFound):
                while take_out_part(store, index, conversation_id, stored):
                    pass
                index.removal.purge_words(stored.number)


def take_out_part(
    store: LogStore, index: Index, conversation_id: str, stored: Stored[Conversation]
) -> bool:
    """Take out the first words of a conversation that are there. Return False if none is left.
    Hold its lock. Raises LogNotFound.
    """
    number, lines = stored.number, stored.lines
    if (before := index.removal.wordless_line(number)) >= lines:
        return False
    mark = index.removal.is_long([conversation_id])
    last = min(before + PART, lines)
    places = index.messages.of_lines(number, before + 1, last)
    part = _first_part(places, part_bytes(mark=mark))
    if len(part) < len(places):
        last = part[-1][0]
    spoken = _spoken(store, index, conversation_id, part, stored)
    if len(spoken) < len(part):
        # Its words are in the index and cannot be named any more.
        index.want_rebuild(f"a line of {conversation_id} is damaged")
    index.removal.take_out(number, spoken, last, mark=mark)
    hit("unindex.part")
    return last < lines


def bring_back_part(
    store: LogStore, index: Index, conversation_id: str, stored: Stored[Conversation]
) -> bool:
    """Bring back the last words that a conversation lacks in the index. Return False if it lacks
    none. Hold its lock. Raises LogNotFound.
    """
    number = stored.number
    if not (line := index.removal.wordless_line(number)):
        return False
    first = max(1, line - PART + 1)
    newest = index.messages.of_lines(number, first, line)[::-1]
    part = _first_part(newest, EDITED_PART_BYTES)
    before = part[-1][0] - 1 if len(part) < len(newest) else first - 1
    spoken = _spoken(store, index, conversation_id, part[::-1], stored)
    index.removal.bring_back(number, spoken, before)
    hit("reindex.part")
    return before > 0


def _first_part(places: list[Place], most: int) -> list[Place]:
    """Return the first places, until their messages have about `most` bytes together."""
    ends = accumulate(length for _, _, length in places)
    return places[: next((at for at, end in enumerate(ends, 1) if end >= most), None)]


def _spoken(
    store: LogStore,
    index: Index,
    conversation_id: str,
    places: list[Place],
    stored: Stored[Conversation],
) -> list[Words]:
    """Return what the lines at these places say, but for damaged ones, as the index has them."""
    there = lines_at(store, conversation_id, places)
    if (old := lines_as_indexed(store, index, conversation_id, stored)) is not None:
        raw = (line_of(old[place[0] - 1], place[0], place[1]) for place in places)
        there = [*over(conversation_id, old).lines(raw)]
    messages = messages_of(there)
    analysis = index.tables.analysis
    return [(it.sequence, searchable_text(analysis, it)) for it in messages]
