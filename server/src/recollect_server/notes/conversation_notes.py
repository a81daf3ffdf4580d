"""Notes of conversations as callers see them: titles, abbreviations and summaries that they bring,
and those that they ask the server to write.
"""

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict

import orjson

from recollect_server.kernel.domain.conversation import (
    CALLER,
    Abbreviated,
    Compressed,
    Content,
    Conversation,
    NoteRecord,
    TitleAssigned,
    TurnMemory,
)
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    DataUnavailable,
    IndexUnavailable,
    InvalidField,
)
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.index.columns import KnownRequest
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.log.lines import contents_of
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.requests import key_of, share
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import (
    from_index,
    of_conversation,
    turns_among,
    unindexed_lines,
)
from recollect_server.notes.notes import notes_due
from recollect_server.notes.table import notes_of
from recollect_server.notes.turn_memories import TurnMemoryTable


class ConversationNotes:
    """The notes of a space's conversations. Raises the errors of `kernel.domain.errors`; safe to
    call from any thread.
    """

    def __init__(self, space: Space, *, by_rule: bool = False) -> None:
        """`by_rule`: the server writes notes without a model, which replaces no others."""
        self._space = space
        self._by_rule = by_rule

    def failures(self, conversation_ids: list[str]) -> dict[str, str]:
        """Return why the last try to write notes failed, for those of the conversations where it
        did.

        Empty where the index cannot answer: Get does without it.
        """
        with suppress(IndexUnavailable):
            return notes_of(self._space.index).failures(conversation_ids)
        return {}

    def regenerate(
        self, chosen: Filter, writers: tuple[str, ...], *, dry_run: bool, request_id: str
    ) -> tuple[int, int]:
        """Queue notes to be written anew. Return how many conversations are queued, and how many
        that match keep their notes.

        `writers`: those of the present notes, an empty one where none is recorded; none: all but
        callers. Raises ConversationNotFound for one that the filter names.
        """
        payload = {"chosen": asdict(chosen), "writers": writers, "dry_run": dry_run}
        request = key_of("RegenerateNotes", request_id, payload)
        with self._space.exclusive(request=request_id or "RegenerateNotes"):
            if request and (record := self._space.requests.answered(request)):
                queued, others = orjson.loads(record.answer)
                return queued, others
            if chosen.conversation_id:
                self._space.read(chosen.conversation_id)
            with self._space.requests.carrying_out(request):
                there = notes_of(self._space.index).choose(chosen, writers, by_rule=self._by_rule)
                counts = len(there.numbers), there.others
                record = (
                    KnownRequest(request.id, request.hash, "", answer=orjson.dumps(counts).decode())
                    if request
                    else None
                )
                if record or not dry_run:
                    notes_of(self._space.index).want_anew([] if dry_run else there.numbers, record)
                if record:
                    share(self._space.store, record)
                return counts

    def assign_title(
        self,
        conversation_id: str,
        title: str,
        topics: tuple[str, ...],
        by: NoteRecord,
        request_id: str,
    ) -> Conversation:
        """Name a conversation as the server itself does: a name that was given by hand stands."""
        payload = {
            "id": conversation_id,
            "title": title,
            "automatic": True,
            "topics": topics,
        } | _payload_of(by)
        request = key_of("Rename", request_id, payload)
        return self._space.record(
            conversation_id,
            lambda _: [TitleAssigned(title, topics, self._space.clock(), by.writer, by.model)],
            request,
        )

    def record_abbreviation(
        self,
        conversation_id: str,
        text: str,
        topics: tuple[str, ...],
        by: NoteRecord,
        request_id: str,
    ) -> Conversation:
        """Record notes that the caller wrote, or brings: then `by` says who did."""
        payload = {"id": conversation_id, "text": text, "topics": topics} | _payload_of(by)
        request = key_of("RecordAbbreviation", request_id, payload)
        return self._space.record(
            conversation_id,
            lambda _: [Abbreviated(text, self._space.clock(), topics or None, by.writer, by.model)],
            request,
        )

    def record_compression(
        self, conversation_id: str, through: int, summary: str, request_id: str
    ) -> Conversation:
        """Record that a summary replaces the turns up to `through`."""
        request = key_of(
            "RecordCompression",
            request_id,
            {"id": conversation_id, "through": through, "summary": summary},
        )

        def event(state: ConversationState) -> list[Content]:
            conversation = state.conversation
            if not max(1, conversation.compressed_through) <= through <= conversation.turn_count:
                raise InvalidField.of(
                    "compressed_through",
                    f"is {through}; a summary may cover from turn {max(1, conversation.compressed_through)} (what the last one"
                    f" covers) to turn {conversation.turn_count} (the newest)",
                )
            return [Compressed(through, summary, self._space.clock())]

        return self._space.record(conversation_id, event, request)

    def set_turn_memory(
        self,
        conversation_id: str,
        turn: int,
        tier: int | None,
        summary: str | None,
        request_id: str,
    ) -> Conversation:
        """Record the tier of a turn, or its summary, or both; None leaves what is recorded."""
        payload = {"id": conversation_id, "turn": turn, "tier": tier, "summary": summary}
        request = key_of("SetTurnMemory", request_id, payload)

        def event(state: ConversationState) -> list[Content]:
            newest = state.conversation.turn_count
            if turn > newest:
                raise InvalidField.of("turn_number", f"is {turn}; the newest turn is {newest}")
            # it was written of what is gone: the turn would have it back
            if summary and all(
                it.redaction for it in turns_among(self._space, state, [turn], []).messages
            ):
                raise InvalidField.of("summary", f"is of turn {turn}, which has no text any more")
            recorded = turn_memories(self._space, state, turn - 1, 1)
            before = recorded[0] if recorded and recorded[0].turn == turn else TurnMemory(turn)
            return [
                TurnMemory(
                    turn,
                    before.tier if tier is None else tier,
                    before.summary if summary is None else summary,
                    self._space.clock(),
                )
            ]

        return self._space.record(conversation_id, event, request)

    def turn_memories(self, conversation_id: str, after: int, limit: int) -> list[TurnMemory]:
        """Return what is recorded of the turns of a conversation behind one, at most `limit`."""
        return turn_memories(self._space, self._space.read(conversation_id), after, limit)

    def queue(self, conversation_id: str) -> None:
        """Queue the notes of a conversation that is left.

        One that is gone, or an index that refuses, is passed over: notes that are not queued are
        written once the conversation has been idle for a while.
        """
        with suppress(ConversationNotFound, DataUnavailable):
            state = self._space.read(conversation_id)
            if state.number is not None and notes_due(state.conversation):
                notes_of(self._space.index).want(state.number, None)

    def leave(
        self, conversation_id: str, following_id: str, max_turns: int, request_id: str
    ) -> None:
        """Queue the abbreviation of the conversation that a switch leaves. Do nothing if it is
        unset or the following one.
        """
        request = key_of(
            "Switch",
            request_id,
            {"id": conversation_id, "to": following_id, "max_turns": max_turns},
        )
        with self._space.exclusive(request=request_id):
            if request and self._space.requests.answered(request):
                return
            record = (
                KnownRequest(request.id, request.hash, conversation_id or following_id)
                if request
                else None
            )
            with self._space.requests.carrying_out(request):
                if conversation_id and conversation_id != following_id:
                    number = self._space.read(conversation_id).number
                    if number is not None:
                        notes_of(self._space.index).want(number, record)
                elif record:
                    self._space.index.requests.add(record)
                if record:
                    share(self._space.store, record)


def _payload_of(by: NoteRecord) -> dict[str, str]:
    """Return what a record adds to the payload of a request. The caller's own notes have the
    payload of earlier versions.
    """
    return (
        {}
        if by.writer in ("", CALLER) and not by.model
        else {"writer": by.writer, "writer_model": by.model}
    )


@of_conversation
def turn_memories(
    space: Space, head: ConversationState, after: int = 0, limit: int = sys.maxsize
) -> list[TurnMemory]:
    """Return what is recorded of the turns behind one, by turn; at most `limit`. Raises
    StorageUnavailable.
    """

    def ask(index: Index, number: int) -> list[TurnMemory]:
        return TurnMemoryTable(index).of(number, after, limit)

    if (memories := from_index(space, head, ask)) is not None:
        return memories
    recorded = {
        it.turn: it
        for it in contents_of([*unindexed_lines(space, head)])
        if isinstance(it, TurnMemory)
    }
    there = [it for turn, it in sorted(recorded.items()) if turn > after and it.is_set]
    return there[:limit]


@of_conversation
def turn_marks(space: Space, head: ConversationState) -> list[tuple[int, int, bool]]:
    """Return the turns of which anything is recorded, each with its tier, and whether it has a
    summary. Raises StorageUnavailable.
    """

    def ask(index: Index, number: int) -> list[tuple[int, int, bool]]:
        return TurnMemoryTable(index).marks(number)

    if (marks := from_index(space, head, ask)) is not None:
        return marks
    return [(it.turn, it.tier, bool(it.summary)) for it in turn_memories(space, head)]


@of_conversation
def turn_summaries(space: Space, head: ConversationState, turns: Iterable[int]) -> dict[int, str]:
    """Return the summaries of those of the turns that have one. Raises StorageUnavailable."""
    if not (numbers := set(turns)):
        return {}

    def ask(index: Index, number: int) -> dict[int, str]:
        summaries = TurnMemoryTable(index).summaries([(number, turn) for turn in numbers])
        return {turn: summary for (_, turn), summary in summaries.items()}

    if (summaries := from_index(space, head, ask)) is not None:
        return summaries
    return {it.turn: it.summary for it in turn_memories(space, head) if it.turn in numbers}
