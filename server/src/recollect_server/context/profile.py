"""The profile of a space's users: their statements in the words that they used, read from the
transcripts.

Where the statements stand is kept beside the vectors (`recall.embedding.statements`); the words are
read from the transcripts each time something changed, so a redacted or deleted sentence is gone at
once.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from recollect_server.anchors.service import Anchors, KeptAnchors
from recollect_server.kernel.domain.errors import (
    DataUnavailable,
    IndexUnavailable,
    StatementNotFound,
    StorageUnavailable,
)
from recollect_server.kernel.index.messages import Place
from recollect_server.kernel.space.events import Deleted, Redacted, Reloaded, Resting, Unindexed
from recollect_server.kernel.space.requests import key_of
from recollect_server.kernel.space.space import Space
from recollect_server.kernel.space.turns import read_several
from recollect_server.recall.embedding.statements import read_statements
from recollect_server.recall.meaning import Meaning
from recollect_server.recall.model.statement import (
    SURE_INSTRUCTION,
    ProfileStatement,
    StatementKind,
    StatementSpan,
    by_turns,
)
from recollect_server.recall.vectors.file import VectorsUnavailable
from recollect_server.text.text import one_line

_READ = 200  # statements that are read, in the order in which they get room
_SURE = (0.8, 0.6)
"""Probabilities from which statements are read, and get room, before others."""
_LAG = 3.0
"""Seconds in which searches may lack a new instruction: every statement is read for it."""


def _key(conversation_id: str, sequence: int, start: int) -> str:
    """Return the key of a statement in the ledger of anchors: no anchor's key has a slash."""
    return f"profile/{conversation_id}/{sequence}/{start}"


@dataclass(frozen=True, slots=True)
class _At:
    conversation_id: str
    line: int
    time: int
    statement: StatementSpan


class UserProfile:
    """The profile of a space. Safe to call from any thread."""

    def __init__(self, space: Space, meaning: Meaning, anchors: Anchors) -> None:
        self._space = space
        self._anchors = anchors
        self._meaning = meaning
        self._read: tuple[object, list[ProfileStatement]] = (None, [])
        self._enough: tuple[object, float] = (None, 0.0)
        self._removals = 0
        self._ledger = space.part(KeptAnchors).ledger
        for event in (Redacted, Deleted, Unindexed, Reloaded, Resting):
            space.subscribe(event, self._forget)

    def _forget(self, _event: object) -> None:
        """Drop the words that were read: some are gone, whatever became of their vectors."""
        self._removals += 1
        self._read = None, []

    @property
    def lack(self) -> str:
        """Reason why statements may be missing; empty if none are."""
        if not self._meaning.on:
            return "it is read with the embedding model, which is switched off"
        return self._meaning.backlog()

    def statements(self, as_of: int | None = None) -> list[ProfileStatement]:
        """Return what users said of themselves and how they want to be answered, in the order in
        which it gets room; what was said until a moment, if one is given. Empty where nothing is
        embedded. Raises DataUnavailable.
        """
        if not self._meaning.on:
            return []
        try:
            if as_of is not None:
                return self._from_transcripts(as_of)
            store = self._meaning.store()
            marks = self._ledger.version
            version = store, store.statements_version, self._removals, self._space.index, marks
            read_at, statements = self._read
            if read_at != version:
                statements = self._from_transcripts()
                self._read = version, statements
        except VectorsUnavailable as error:
            raise IndexUnavailable(str(error)) from error
        return statements

    def instructions(self) -> list[tuple[str, int]]:
        """Return the conversation and the line of each message with an instruction that is sure to
        be one; one of the last seconds may lack. Empty where nothing can be read.
        """
        marks = self._removals, self._ledger.version
        read_at, until = self._enough
        if read_at != marks or time.monotonic() >= until:
            try:
                self.statements()
            except DataUnavailable:
                return []
            self._enough = marks, time.monotonic() + _LAG
        return [
            (it.conversation_id, it.sequence)
            for it in self._read[1]
            if it.kind is StatementKind.INSTRUCTION and it.probability >= SURE_INSTRUCTION
        ]

    def leave_out(self, conversation_id: str, sequence: int, start: int, request_id: str) -> None:
        """Leave a statement, and every copy of it that was said until now, out of the profile from
        now on. Raises ConversationNotFound, StatementNotFound, RequestIdReused, DataUnavailable.
        """
        self._space.read(conversation_id)  # it is there
        place = _key(conversation_id, sequence, start)
        request = key_of("RemoveProfileStatement", request_id, {"place": place})
        if self._anchors.is_done(request):
            return
        if place not in self._ledger.forgotten() and not any(
            (it.conversation_id, it.sequence, it.start) == (conversation_id, sequence, start)
            for it in self.statements()
        ):
            raise StatementNotFound(conversation_id, sequence, start)
        self._anchors.leave_out(place, request)

    def _from_transcripts(self, as_of: int | None = None) -> list[ProfileStatement]:
        forgotten = self._ledger.forgotten()
        chosen = self._chosen(as_of, forgotten)
        by_conversation: defaultdict[str, set[int]] = defaultdict(set)
        for it in chosen:
            by_conversation[it.conversation_id].add(it.line)
        index = self._space.index
        numbers = index.conversations.numbers([*by_conversation])
        places: dict[str, list[Place]] = {
            name: [
                place
                for line in sorted(lines)
                for place in index.messages.of_lines(numbers[name], line, line)
            ]
            for name, lines in by_conversation.items()
            if name in numbers
        }
        texts: dict[tuple[str, int], tuple[str, str]] = {}
        for name, messages in read_several(self._space, places).items():
            if isinstance(messages, StorageUnavailable):
                raise messages
            for message in messages:
                texts[name, message.sequence] = message.content, message.sender
        by_text: dict[str, ProfileStatement] = {}
        left_out: dict[str, int] = {}
        for it in chosen:
            content, sender = texts.get((it.conversation_id, it.line), ("", ""))
            start = it.statement.start
            text = one_line(content[start : it.statement.end])
            if (until := forgotten.get(_key(it.conversation_id, it.line, start))) is not None:
                left_out[text.lower()] = max(until, left_out.get(text.lower(), 0))
            elif text and text.lower() not in by_text:
                by_text[text.lower()] = ProfileStatement(
                    text,
                    it.statement.kind,
                    it.time,
                    it.conversation_id,
                    it.line,
                    start,
                    it.statement.probability,
                    sender,
                )
        return by_turns(it for text, it in by_text.items() if it.time > left_out.get(text, -1))

    def _chosen(self, as_of: int | None, forgotten: Mapping[str, int]) -> list[_At]:
        """Return where the statements stand that are read: the surest before others, of about
        equally sure ones the newest first. Of a moment, those that were said until then, and those
        that were left out since, whose copies from before are left out with them.
        """
        every = [
            _At(it.conversation_id, it.line, it.time, statement)
            for it in self._meaning.store().stated()
            for statement in read_statements(it.statements)
            if as_of is None
            or it.time <= as_of
            or _key(it.conversation_id, it.line, statement.start) in forgotten
        ]
        every.sort(key=lambda it: sum(it.statement.probability < sure for sure in _SURE))
        return every[:_READ]
