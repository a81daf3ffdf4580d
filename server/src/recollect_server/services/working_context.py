"""The working context: what the agent's model sees of a conversation now, and pages of what it saw before.

Read from the transcript each time, with the index only saying where; without the index the whole transcript is read.
"""

from dataclasses import dataclass

import structlog

from recollect_server.domain.budget import message_tokens, newest_turns
from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.message import Message, reading_order
from recollect_server.services.space.catching_up import read_unindexed
from recollect_server.services.space.head import Head
from recollect_server.services.space.space import Space
from recollect_server.storage.index.conversations import Filter
from recollect_server.storage.index.turns import Place
from recollect_server.storage.transcript.reader import damaged_between, messages_of, read_lines

log = structlog.get_logger("recollect.working_context")


@dataclass(frozen=True, slots=True)
class Turns:
    """Messages of whole turns, in reading order, and how many lines among them were damaged and left out."""

    messages: list[Message]
    damaged: int = 0


@dataclass(frozen=True, slots=True)
class Loaded:
    """What Load answers."""

    conversation: Conversation | None = None
    turns: Turns = Turns([])
    has_more: bool = False
    compression_summary: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a conversation is loaded: turns, and estimated tokens."""

    max_turns: int
    max_tokens: int


class WorkingContext:
    """Loads working contexts. Raises the errors of `domain.errors`; safe to call from any thread."""

    def __init__(self, space: Space, defaults: Limits) -> None:
        self._space = space
        self._defaults = defaults

    def most_recent(self, channel: str) -> str | None:
        """The conversation of a channel with the newest message, or None."""
        found = self._space.index.select(Filter(channels=(channel,)), 1)
        return found[0].conversation.id if found else None

    def load(self, conversation_id: str, *, max_turns: int = 0, max_tokens: int = 0, before_turn: int = 0) -> Loaded:
        """The newest turns of a conversation, or those before a turn. 0 means the default."""
        limits = Limits(max_turns or self._defaults.max_turns, max_tokens or self._defaults.max_tokens)
        with self._space.locks.hold(conversation_id):
            head = self._space.head(conversation_id)
        conversation = head.conversation
        after_turn = 0 if before_turn else conversation.compressed_through
        summary = "" if before_turn else conversation.compression_summary
        turns, has_more = self._tail(head, before_turn, after_turn, limits)
        return Loaded(conversation, turns, has_more, summary)

    def _tail(self, head: Head, before_turn: int, after_turn: int, limits: Limits) -> tuple[Turns, bool]:
        if head.indexed and head.number is not None:
            try:
                places, has_more = self._space.index.tail(
                    head.number,
                    before_turn=before_turn,
                    after_turn=after_turn,
                    max_turns=limits.max_turns,
                    max_tokens=limits.max_tokens,
                )
                return read_turns(self._space, head.conversation.id, places), has_more
            except IndexUnavailable as error:
                log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
        messages, damaged = _all_messages(self._space, head)
        offered = [m for m in messages if not before_turn or m.turn_number < before_turn]
        chosen = newest_turns(
            ((m.turn_number, message_tokens(m), m) for m in reversed(offered)),
            after_turn=after_turn,
            max_turns=limits.max_turns,
            max_tokens=limits.max_tokens,
        )
        return Turns(chosen, damaged), len(chosen) < len(offered)


def turns_of(space: Space, head: Head, first: int, last: int) -> Turns:
    """The messages of the turns from `first` to `last`."""
    if head.indexed and head.number is not None:
        try:
            return read_turns(space, head.conversation.id, space.index.turn_places(head.number, first, last))
        except IndexUnavailable as error:
            log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
    messages, damaged = _all_messages(space, head)
    return Turns([m for m in messages if first <= m.turn_number <= last], damaged)


def turns_among(space: Space, head: Head, turns: list[int], lines: list[int]) -> Turns:
    """The messages of these turns, and of those that these lines are of. Turns ascending; lines that are no messages give none."""
    if head.indexed and head.number is not None:
        try:
            places = space.index.places_of_turns(head.number, turns, lines)
            return read_places(space, head.conversation.id, places)
        except IndexUnavailable as error:
            log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
    messages, damaged = _all_messages(space, head)
    wanted = {*turns, *(message.turn_number for message in messages if message.sequence in lines)}
    return Turns([message for message in messages if message.turn_number in wanted], damaged)


def message_at(space: Space, head: Head, sequence: int) -> Message | None:
    """The message of a line; None if the line is none. Raises StorageUnavailable."""
    if head.indexed and head.number is not None:
        try:
            found = read_places(space, head.conversation.id, space.index.places(head.number, sequence, sequence)).messages
            return found[0] if found else None
        except IndexUnavailable as error:
            log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
    return next((message for message in _all_messages(space, head)[0] if message.sequence == sequence), None)


def read_turns(space: Space, conversation_id: str, places: list[Place]) -> Turns:
    """The messages at these places, which are whole turns; damaged lines among them are counted. Raises StorageUnavailable."""
    turns = read_places(space, conversation_id, places)
    try:
        lost = damaged_between(space.folder.path(conversation_id), places)
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    return Turns(turns.messages, turns.damaged + lost)


def read_places(space: Space, conversation_id: str, places: list[Place]) -> Turns:
    """The messages at these places of a transcript. Raises StorageUnavailable."""
    if not places:
        return Turns([])
    try:
        lines = read_lines(space.folder.path(conversation_id), places)
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    messages = messages_of(lines)
    return Turns(messages, len(lines) - len(messages))


def read_found(space: Space, conversation_id: str, places: list[Place]) -> list[Message] | None:
    """The messages at these places; None of a conversation that was deleted since the index named it. Raises StorageUnavailable."""
    try:
        return read_places(space, conversation_id, places).messages
    except StorageUnavailable as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def _all_messages(space: Space, head: Head) -> tuple[list[Message], int]:
    try:
        lines, _ = read_unindexed(space.folder, head.conversation.id, head.lines)
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    return sorted(messages_of(lines), key=reading_order), sum(line.entry is None for line in lines)
