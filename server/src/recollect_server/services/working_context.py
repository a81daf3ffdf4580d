"""The working context: what the agent's model sees of a conversation now, and pages of what it saw before.

Read from the transcript each time, with the index only saying where; without the index the whole transcript is read.
"""

from dataclasses import dataclass

import structlog

from recollect_server.domain.budget import message_tokens, newest_turns
from recollect_server.domain.conversation import Conversation
from recollect_server.domain.errors import IndexUnavailable, StorageUnavailable
from recollect_server.domain.message import Message, Role
from recollect_server.services.space.catching_up import read_unindexed
from recollect_server.services.space.head import Head
from recollect_server.services.space.space import Space
from recollect_server.storage.index.conversations import Filter
from recollect_server.storage.index.turns import Place
from recollect_server.storage.transcript.reader import around, messages_of, read_lines

log = structlog.get_logger("recollect.working_context")

_LAST = 1 << 31  # no turn has a higher number


@dataclass(frozen=True, slots=True)
class Turns:
    """Messages of whole turns, oldest first, and how many lines among them were damaged and left out."""

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
                last = min(before_turn - 1 if before_turn else _LAST, head.conversation.turn_count)
                wanted = (0, last) if has_more and last > after_turn else (after_turn + 1, last)
                return read_turns(self._space, head, places, *wanted), has_more
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
            return read_turns(space, head, space.index.turn_places(head.number, first, last), first, last)
        except IndexUnavailable as error:
            log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
    messages, damaged = _all_messages(space, head)
    return Turns([m for m in messages if first <= m.turn_number <= last], damaged)


def turns_among(space: Space, head: Head, turns: list[int], lines: list[int]) -> Turns:
    """The messages of these turns, and of those that these lines are of. Turns ascending; lines that are no messages give none."""
    if head.indexed and head.number is not None:
        try:
            places = space.index.places_of_turns(head.number, turns, lines)
            _check_taken_in(space, head)
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
            _check_taken_in(space, head)
            return found[0] if found else None
        except IndexUnavailable as error:
            log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
    return next((message for message in _all_messages(space, head)[0] if message.sequence == sequence), None)


def read_turns(space: Space, head: Head, places: list[Place], first: int, last: int) -> Turns:
    """Return the messages at these places, all that turns `first` (0: that of the first place) to `last` have; count damaged lines.

    Where a message seems to be left out the conversation is compared with its transcript. Raises IndexUnavailable if the index is
    wrong, or did not take in what was acknowledged; StorageUnavailable.
    """
    turns = read_places(space, head.conversation.id, places)
    if not turns.messages:
        seems_whole = turns.damaged > 0 or first > last
    else:
        opening = turns.messages[0]
        first = first or opening.turn_number
        seems_whole = opening.turn_number == first and (opening.role is Role.USER or first == 1)
    try:
        damaged, left_out = around(space.folder.path(head.conversation.id), places, head.size, (first, last))
    except OSError as error:
        raise StorageUnavailable(f"the transcript cannot be read: {error.strerror}") from error
    _check_taken_in(space, head)
    if left_out or not seems_whole:
        with space.locks.hold(head.conversation.id):
            space.compare(head.conversation.id)
    return Turns(turns.messages, turns.damaged + damaged)


def _check_taken_in(space: Space, head: Head) -> None:
    """Raise IndexUnavailable if the index refused lines: it may have done so after `head` was read, and before it answered."""
    if space.behind.has(head.conversation.id):
        raise IndexUnavailable("the index did not take in the newest lines")


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
    return messages_of(lines), sum(line.entry is None for line in lines)
