"""Transcripts of conversations, their state at the end, which a write of the next line starts from,
and what the index shows of them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from recollect_server.kernel.domain.conversation import (
    Began,
    Conversation,
    Event,
    fold,
    with_message,
)
from recollect_server.kernel.domain.errors import ConversationDamaged, ConversationNotFound
from recollect_server.kernel.domain.frozen import frozen
from recollect_server.kernel.domain.ids import Kind, time_of
from recollect_server.kernel.domain.message import Message, Role
from recollect_server.kernel.domain.time import arrival
from recollect_server.kernel.domain.wording import counted
from recollect_server.kernel.index.checking import Contents
from recollect_server.kernel.index.derived import Erased, Expected, Stored
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import row_of, searchable_text
from recollect_server.kernel.index.removal import Removal
from recollect_server.kernel.log.lines import LOST_CHANNEL, Line
from recollect_server.kernel.log.store import LogNotFound, Version, lines_at
from recollect_server.kernel.space.logs import Logs, Reading


@frozen
class ConversationState:
    """A conversation at the end of its transcript."""

    conversation: Conversation
    size: int
    """Bytes of the transcript."""
    lines: int
    number: int | None
    """Its number in the index; None if the index does not have it."""
    indexed: bool
    """True if the index has all of its lines."""


@frozen
class Committed:
    """A write that is durable."""

    state: ConversationState
    lines: list[Line]
    cursor: str
    """Position of the write in the live updates; empty if it is not known yet."""


@dataclass(slots=True)
class ConversationReading(Reading[Conversation]):
    """A transcript that is read to its end."""

    lines: list[Line] = field(default_factory=list)
    """All whole lines."""
    messages_read: list[tuple[Line, Message]] = field(default_factory=list)

    def add(self, line: Line) -> None:
        """Add a whole line."""
        assert line.entry is not None
        self.lines.append(line)
        if isinstance(message := line.entry.content, Message):
            self.messages_read.append((line, message))

    def problems(self) -> Iterator[str]:
        """Yield turn numbers that leave one out."""
        turn = 0
        for _, message in self.messages_read:
            if not 1 <= message.turn_number <= turn + 1:  # a late message is of an earlier turn
                yield f"line {message.sequence} is of turn {message.turn_number} and follows turn {turn}"
            turn = max(turn, message.turn_number)

    def differences(self, contents: Contents, number: int) -> Iterator[str]:
        """Yield messages and words that the index has otherwise, and what features derived."""
        rows, analysis = contents.rows(number), contents.index.tables.analysis
        last = self.messages_read[-1][1].sequence if self.messages_read else 0
        is_unindexed = self.state is not None and self.state.unindexed
        if (
            contents.compares_words
            and is_unindexed
            and contents.index.removal.wordless_line(number) < last
        ):
            yield "the index has words of a conversation that is unindexed"
        for line, message in self.messages_read:
            expected = row_of(number, line, message)
            row = rows.pop(expected.id, None)
            if row != expected:
                yield f"line {message.sequence} {'is not in the index' if row is None else 'stands in the index otherwise'}"
            if not contents.has_words(expected.id, searchable_text(analysis, message)):
                yield f"line {message.sequence}: the index has other words"
        if rows:
            yield f"the index has {counted(len(rows), 'message')} that the transcript has not"
        log = Expected(
            contents.index,
            self.store,
            number,
            self.state,
            self.lines,
            is_thorough=contents.compares_words,
        )
        for it in contents.index.tables.derived:
            yield from it.differences(log)


class ConversationLogs(Logs[Conversation]):
    """Transcripts of conversations."""

    kind = Kind.CONVERSATION
    noun = "conversation"
    plural = "conversations"
    failpoints = ("catch_up.repaired", "catch_up.part")
    words = ("turns", "progress")
    message = Message
    reading = ConversationReading

    def fold(self, before: Conversation | None, content: object, name: str) -> Conversation | None:
        """Return the state after an entry; a lost first line is made up for."""
        if before is not None and isinstance(content, Message):
            return with_message(before, content)
        if isinstance(content, Began):
            # A file that was copied under another name is another conversation. One that was
            # written by hand may not say when it began.
            content = replace(content, id=name, time=content.time or time_of(name))
        after = fold(before, content)
        if after is None and isinstance(content, Message | Event):
            # The first line is damaged. The log's name says which conversation it is, the lines
            # that follow say the rest.
            time = content.timestamp if isinstance(content, Message) else content.time
            after = fold(Conversation(name, LOST_CHANNEL, time, time), content)
        return after

    def not_found(self, name: str) -> ConversationNotFound:
        """Return why no line can be read: it never began or was deleted, or each of its lines is
        damaged.
        """
        if self.store.sharing is not None:
            with suppress(LogNotFound):
                # Another server may have begun it since it was looked for.
                entries = [line.entry for line in self.store.read(name)]
                if entries and not any(entries):
                    return ConversationDamaged(name, name)
            return ConversationNotFound(name)
        # Damaged lines at a file's end are cut off and kept.
        for version, suffix in ((Version.TORN, ".torn"), (Version.PRESENT, "")):
            with suppress(LogNotFound):
                if self.store.length(name, version):
                    return ConversationDamaged(name, f"{name}.jsonl{suffix}")
        return ConversationNotFound(name)

    def misplaced(self, name: str, reason: str) -> ConversationDamaged:
        """Return the error for a transcript whose file belongs to another conversation."""
        return ConversationDamaged(name, f"{name}.jsonl, and {reason}")

    def find(self, index: Index, name: str) -> Stored[Conversation] | None:
        """Return what the index has of a conversation."""
        return index.conversations.find(name)

    def removal(self, index: Index) -> Removal:
        """Return the removal of conversations from the index."""
        return index.removal

    def redact(
        self,
        index: Index,
        stored: Stored[Conversation],
        after: Conversation,
        event: Line,
        erased: Erased,
        *,
        time: int,
    ) -> int:
        """Let the index take in the line that says what was redacted. Return its cursor."""
        return index.redact(stored.number, stored.state, after, event, erased, time=time)

    def progress(self, index: Index) -> dict[str, int]:
        """Return how many bytes of each transcript are indexed."""
        return {name: size for name, (size, _) in index.conversations.progress().items()}

    def goes_on(self, index: Index, stored: Stored[Conversation]) -> bool:
        """Return True if the newest message still stands where the index says.

        What was put in or taken out before it moves it. Then nothing that the index knows is where
        it says.
        """
        if not (newest := index.messages.newest(stored.number)):
            return True
        place, turn_number, timestamp = newest
        entry = lines_at(self.store, stored.state.id, [place])[0].entry
        content = entry.content if entry else None
        return isinstance(content, Message) and (content.turn_number, content.timestamp) == (
            turn_number,
            timestamp,
        )

    def add(
        self,
        index: Index,
        number: int | None,
        before: Conversation | None,
        after: Conversation,
        lines: list[Line],
        *,
        time: int,
        failed: Callable[[str], None],
        log: bool,
    ) -> int:
        """Put lines in, to be taken in by the index later."""
        return index.add(number, before, after, lines, time=time, failed=failed, log=log)[0]


def placed(state: ConversationState, messages: list[Message], now: int) -> list[Message]:
    """Return the messages with their sequence, turn number and time.

    A user message opens a turn; so does a first message. A late message keeps the number of the
    turn that it names.
    """
    done: list[Message] = []
    turn = state.conversation.turn_count
    latest = state.conversation.update_time
    for sequence, message in enumerate(messages, start=state.lines + 1):
        if message.role is Role.USER or turn == 0:
            turn += 1
        # a late message names an earlier turn; no other brings a number
        done.append(
            replace(
                message,
                sequence=sequence,
                turn_number=message.turn_number or turn,
                timestamp=message.timestamp or now,
                arrived=arrival(message.timestamp, latest, now) if now else message.arrived,
            )
        )
    return done


def placed_again(
    state: ConversationState, messages: list[Message], turn_count: int
) -> list[Message]:
    """Return messages that were placed behind an end with `turn_count` turns, placed behind this
    end instead.

    A late message stays in its turn; the others move with the newest turn. The first one may have
    gone on with a turn that was never written: then it opens one.
    """
    newest = [it.turn_number for it in messages if it.turn_number >= turn_count]
    moved = max(state.conversation.turn_count - turn_count, 1 - min(newest, default=1))
    return [
        replace(
            it,
            sequence=sequence,
            turn_number=it.turn_number if it.turn_number < turn_count else it.turn_number + moved,
        )
        for sequence, it in enumerate(messages, start=state.lines + 1)
    ]
