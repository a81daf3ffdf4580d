"""Writes of conversations: lines go to the transcript, then to the index and to the subscribers.

A transcript that refuses messages makes them pending (`kernel.space.states`); they are written
before the conversation's next line. An index that refuses lines fails no write: they are indexed
later, from the transcript.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import structlog

from recollect_server.kernel.domain.conversation import Capacity, Content
from recollect_server.kernel.domain.errors import (
    ConversationFull,
    ConversationNotFound,
    DataUnavailable,
    IndexUnavailable,
    InvalidField,
    MessagesHeld,
    RequestIdReused,
    StorageUnavailable,
)
from recollect_server.kernel.domain.ids import MAX_LINES
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import Message
from recollect_server.kernel.domain.telemetry import UNMEASURED, Step, Telemetry
from recollect_server.kernel.domain.time import Clock
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.log.lines import Line, encoded
from recollect_server.kernel.log.redaction import ANY_HASH
from recollect_server.kernel.log.store import (
    NO_CLAIM,
    START,
    Claim,
    LogConflict,
    LogNotFound,
    LogTaken,
    LogUnavailable,
    Position,
)
from recollect_server.kernel.space.conversation_logs import (
    Committed,
    ConversationLogs,
    ConversationState,
    placed_again,
)
from recollect_server.kernel.space.events import Appended
from recollect_server.kernel.space.logs import RequestKey, entries_of
from recollect_server.kernel.space.projection import Projection
from recollect_server.kernel.space.states import Batch, PendingWrites, States, Stuck

log = structlog.get_logger("recollect.space")


class Writes:
    """Writes the conversations of a space. Hold a conversation's lock for what concerns it."""

    def __init__(
        self,
        transcripts: ConversationLogs,
        projection: Projection,
        pending: PendingWrites,
        states: States,
        clock: Clock,
        publish: Callable[[object], None],
        capacity: Live[Capacity],
        telemetry: Telemetry = UNMEASURED,
    ) -> None:
        self._capacity = capacity
        self._telemetry = telemetry
        self._transcripts = transcripts
        self._projection = projection
        self._pending = pending
        self._states = states
        self._clock = clock
        self._publish = publish

    def begin(
        self,
        conversation_id: str,
        contents: list[Content],
        request: RequestKey | None,
        claim: Claim,
    ) -> Committed:
        """Write the first lines of a new conversation. Raises StorageUnavailable."""
        return self._write(conversation_id, None, contents, request, claim=claim)

    def append(
        self,
        state: ConversationState,
        contents: Sequence[Content],
        request: RequestKey | None = None,
        *,
        draft_id: str = "",
    ) -> Committed:
        """Append lines behind the state that `Space.writing` gave, all or none, durable on return.

        Messages bring their sequence, which must be what follows. Raises ConversationFull;
        StorageUnavailable: then messages are pending and may be written later, and an event is not
        written. An index that fails does not fail this: the lines are indexed later.
        """
        conversation_id = state.conversation.id
        count = state.conversation.message_count
        if limit := self._capacity.now.exceeded(count, state.size, contents):
            raise ConversationFull(conversation_id, limit)
        if state.lines + len(contents) > MAX_LINES:
            raise InvalidField.of(
                "conversation_id", f"the conversation is full: {MAX_LINES} lines. Begin a new one"
            )
        stuck = self._pending.of(conversation_id)
        if stuck and stuck.batches:
            raise self._hold(
                state,
                contents,
                request,
                draft_id,
                f"it still refuses what came before: {stuck.reason}",
            )
        try:
            done = self._write(conversation_id, state, contents, request, draft_id)
        except (LogConflict, LogNotFound):
            self._states.forget(conversation_id)
            self._pending.release(conversation_id)
            raise
        except LogUnavailable as error:
            raise self._hold(state, contents, request, draft_id, error.reason) from error
        if stuck:
            self._pending.release(conversation_id)
        return done

    def end(self, conversation_id: str) -> ConversationState:
        """Return the state where the next line goes, behind pending messages that still cannot be
        written.

        Raises ConversationNotFound, StorageUnavailable.
        """
        stuck = self._pending.of(conversation_id)
        if stuck is None or not stuck.batches:
            return self._states.get(conversation_id)
        return stuck.written if self._is_written(stuck) else stuck.end

    def settle(self, conversation_id: str) -> bool:
        """Write what is pending of a conversation whose log is shared, to the same place as before,
        so that an append whose answer was lost is recognised. Return False if it is still refused.
        """
        if self._pending.of(conversation_id):
            with suppress(ConversationNotFound):
                self.end(conversation_id)
            if (stuck := self._pending.of(conversation_id)) and stuck.batches:
                return False
            self._pending.release(conversation_id)
            self._states.forget(conversation_id)
        return True

    def flush(self, conversation_id: str, *, is_last: bool) -> None:
        """Try once more to write the pending messages of a conversation. The rest stays pending,
        and is logged as lost if this is the last try: before that a transcript may be away for a
        moment.
        """
        stuck = self._pending.of(conversation_id)
        if stuck is None or not stuck.batches:
            return
        with suppress(ConversationNotFound, DataUnavailable):  # the first is logged
            if not is_last:
                self._transcripts.store.length(conversation_id)
            self._is_written(stuck)
        if is_last and stuck.batches:
            reason = f"the transcript cannot be written: {stuck.reason}"
            _log_lost(conversation_id, stuck.batches, reason)

    def _is_written(self, stuck: Stuck) -> bool:
        """Write what is pending of a conversation, and return whether its log took all of it. A
        refusal is logged if its reason is new.

        Raises ConversationNotFound, StorageUnavailable.
        """
        conversation_id = stuck.written.conversation.id
        try:
            self._write_pending(stuck)
        except LogUnavailable as error:
            is_new = _kind_of(error.reason) != _kind_of(stuck.reason)
            self._pending.refused(stuck, error.reason)
            if is_new:
                log.warning(
                    "held_messages_refused", conversation=conversation_id, reason=error.reason
                )
            return False
        self._pending.release(conversation_id)
        return True

    def _write(
        self,
        conversation_id: str,
        state: ConversationState | None,
        contents: Sequence[Content],
        request: RequestKey | None,
        draft_id: str = "",
        claim: Claim = NO_CLAIM,
    ) -> Committed:
        end = Position(state.lines, state.size) if state else START
        with self._telemetry.step(Step.WRITE):
            lines, place = self._transcripts.append(
                conversation_id, end, contents, request, draft_id, claim
            )
        with self._telemetry.step(Step.INDEX):
            return self.take_in(conversation_id, state, lines, place)

    def _write_pending(self, stuck: Stuck) -> None:
        conversation_id = stuck.written.conversation.id
        while stuck.batches:
            batch = stuck.batches[0]
            messages: list[Content] = [
                *placed_again(stuck.written, batch.messages, batch.turn_count)
            ]
            try:
                done = self._write(
                    conversation_id, stuck.written, messages, batch.request, batch.draft_id
                )
            except RequestIdReused:
                self._lose_first(stuck)
                continue
            except (LogConflict, LogNotFound) as changed:
                # Something else wrote to the file. It may have put these very messages there.
                log.warning(
                    "transcript_changed", conversation=conversation_id, reason=changed.reason
                )
                self._states.forget(conversation_id)
                try:
                    stuck.written = self._states.load(conversation_id)
                except ConversationNotFound:
                    _log_lost(conversation_id, stuck.batches, "the transcript is gone")
                    self._pending.release(conversation_id)
                    raise
                request = batch.request
                earlier = request and self._projection.index.requests.find(request.id)
                if request and earlier:
                    if _is_same(request, earlier, conversation_id):
                        self._pending.drop(stuck)
                    else:
                        self._lose_first(stuck)
                elif isinstance(changed, LogTaken):
                    # To try again now would be refused again: the index does not know it yet.
                    raise
                continue
            self._pending.written(stuck, done.state)

    def _lose_first(self, stuck: Stuck) -> None:
        """Drop the first pending batch: another server carried out another request with its id, so
        its caller's repeat is refused. Those behind it are still written.
        """
        reason = "another server carried out another request with the same request_id"
        _log_lost(stuck.written.conversation.id, stuck.batches[:1], reason)
        self._pending.drop(stuck)

    def _hold(
        self,
        state: ConversationState,
        contents: Sequence[Content],
        request: RequestKey | None,
        draft_id: str,
        reason: str,
    ) -> StorageUnavailable:
        """Make the messages among the contents pending. Return the error for their caller."""
        stuck = self._pending.keep(state)
        messages = [content for content in contents if isinstance(content, Message)]
        refusal = f"the transcript cannot be written: {reason}"
        if not messages:
            return StorageUnavailable(refusal)
        conversation = state.conversation
        lines, data = encoded(
            entries_of(contents, request, draft_id), state.lines, state.size, conversation.id
        )
        end = replace(
            state,
            conversation=self._transcripts.behind(conversation, lines, conversation.id),
            size=lines[-1].end,
            lines=lines[-1].sequence,
        )
        batch = Batch(messages, conversation.turn_count, request, draft_id, sum(map(len, data)))
        if self._pending.hold(stuck, end, batch, reason):
            return MessagesHeld(
                f"{refusal}. The messages are held and may be written later: repeat with the same request_id",
                stuck.reason,
            )
        return StorageUnavailable(f"{refusal}, and no more messages can be held")

    def take_in(
        self,
        conversation_id: str,
        state: ConversationState | None,
        lines: list[Line],
        place: str = "",
    ) -> Committed:
        """Index durable lines behind a state, remember the state behind them, and tell subscribers
        of them.
        """
        before = state.conversation if state else None
        after = self._transcripts.behind(before, lines, conversation_id)
        number = state.number if state else None
        cursor = 0
        indexed = state is None or state.indexed
        index = self._projection.index
        if indexed:
            try:
                failed = partial(self._states.not_indexed, after.id, lines)
                number, cursor = index.add(
                    number, before, after, lines, time=self._clock(), failed=failed
                )
            except IndexUnavailable as error:
                indexed = False
                self._states.not_indexed(after.id, lines, str(error))
        else:
            self._states.not_indexed(after.id, lines, "")
        done = ConversationState(after, lines[-1].end, lines[-1].sequence, number, indexed=indexed)
        self._states.keep(done)
        self._publish(Appended(after.id, lines, after))
        return Committed(done, lines, place or index.log.cursor_text(cursor))


def _is_same(request: RequestKey, earlier: KnownRequest, conversation_id: str) -> bool:
    """Return whether a request of a conversation is one that was carried out."""
    is_same_payload = earlier.hash in (request.hash, ANY_HASH)
    return is_same_payload and earlier.conversation_id == conversation_id


def _kind_of(reason: str) -> str:
    """Return a reason without the number of free bytes, which is another one each time."""
    return reason.partition(" (")[0]


def _log_lost(conversation_id: str, batches: Sequence[Batch], reason: str) -> None:
    log.error(
        "held_messages_lost",
        conversation=conversation_id,
        messages=sum(len(batch.messages) for batch in batches),
        reason=reason,
    )
