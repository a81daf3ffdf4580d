"""Turns of a conversation, read from its transcript, with the index only saying where; without the
index the whole transcript is read.

`WorkingContext` is what the agent's model sees of a conversation now, and pages of what it saw
before. Its turns are read each time.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from heapq import heappop, heappush
from itertools import pairwise
from operator import itemgetter
from typing import Concatenate, ParamSpec, TypeVar

import structlog

from recollect_server.kernel.domain.conversation import Conversation
from recollect_server.kernel.domain.errors import (
    ConversationNotFound,
    IndexUnavailable,
    StorageUnavailable,
)
from recollect_server.kernel.domain.filters import Filter
from recollect_server.kernel.domain.live import Live
from recollect_server.kernel.domain.message import (
    Message,
    Role,
    first_turns,
    message_tokens,
    newest_turns,
    reading_order,
)
from recollect_server.kernel.index.index import Index
from recollect_server.kernel.index.messages import Place, newest_within
from recollect_server.kernel.log.lines import Line, messages_of
from recollect_server.kernel.log.store import LogNotFound, Position, lines_at
from recollect_server.kernel.space.conversation_logs import ConversationState
from recollect_server.kernel.space.space import Space

log = structlog.get_logger("recollect.working_context")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Turns:
    """Messages of whole turns, in reading order, and how many lines among them were damaged and
    left out.
    """

    messages: list[Message]
    damaged: int = 0


class KeptMessages:
    """Collector of the newest (or the first) messages, in reading order, that `max_bytes` hold, and
    one more, which shows that there are more. Add all messages, in the order of their lines.
    """

    def __init__(self, max_bytes: int, *, newest: bool) -> None:
        self.count = 0
        # a heap: on top the one to give up next
        self._heap: list[tuple[int, int, int, Message]] = []
        self._max_bytes = max_bytes
        self._bytes = 0
        self._sign = 1 if newest else -1

    def add(self, message: Message, length: int) -> None:
        """Take in the next message."""
        self.count += 1
        heappush(
            self._heap,
            (self._sign * message.turn_number, self._sign * message.sequence, length, message),
        )
        self._bytes += length
        while len(self._heap) > 2 and self._bytes - self._heap[0][2] > self._max_bytes:
            self._bytes -= heappop(self._heap)[2]

    def in_order(self) -> list[tuple[Message, int]]:
        """Return those that are kept in reading order, each with its bytes."""
        return sorted(
            ((it[3], it[2]) for it in self._heap), key=lambda entry: reading_order(entry[0])
        )

    def within(self) -> list[Message]:
        """Return the newest messages that `max_bytes` hold, oldest first; at least one."""
        messages = [message for message, _ in self.in_order()]
        return messages[1:] if len(messages) > 1 and self._bytes > self._max_bytes else messages


def of_conversation(
    read: Callable[Concatenate[Space, ConversationState, P], T],
) -> Callable[Concatenate[Space, ConversationState, P], T]:
    """Raise ConversationNotFound if the conversation is deleted between its head and its lines."""

    @wraps(read)
    def reading(
        space: Space, head: ConversationState, /, *arguments: P.args, **named: P.kwargs
    ) -> T:
        try:
            return read(space, head, *arguments, **named)
        except LogNotFound:
            raise ConversationNotFound(head.conversation.id) from None

    return reading


def from_index(space: Space, head: ConversationState, ask: Callable[[Index, int], T]) -> T | None:
    """Return what the index answers about a conversation, by its number there; None where it lacks
    lines of it or cannot answer: then the transcript is read.
    """
    if not head.indexed or head.number is None:
        return None
    try:
        answer = ask(space.index, head.number)
        _check_taken_in(space, head)
    except IndexUnavailable as error:
        log.warning("index_passed_over", conversation=head.conversation.id, reason=str(error))
        return None
    return answer


@of_conversation
def page_of_turns(
    space: Space, head: ConversationState, first: int, last: int, after: int, max_bytes: int
) -> tuple[Turns, bool]:
    """Return the messages of these turns behind line `after`, up to `max_bytes`, and whether there
    are more.

    Turns are whole, unless the first alone is larger (see `kernel.index.messages.page_of_turns`).
    """

    def ask(index: Index, number: int) -> tuple[Turns, bool]:
        places, more = index.messages.page_of_turns(number, first, last, after, max_bytes)
        newest = None if more else last
        return read_turns(space, head, places, None if after else first, newest), more

    if page := from_index(space, head, ask):
        return page
    at = message_at(space, head, after) if after else None
    bounded = KeptMessages(max_bytes, newest=False)
    damaged = 0
    for line in unindexed_lines(space, head):
        damaged += line.entry is None
        if (
            not line.entry
            or not isinstance(message := line.entry.content, Message)
            or not first <= message.turn_number <= last
        ):
            continue
        if reading_order(message) > reading_order(at) if at else message.sequence > after:
            bounded.add(message, line.length)
    messages, more = first_turns(
        ((it.turn_number, length, it) for it, length in bounded.in_order()), max_bytes
    )
    return Turns(messages, damaged), more


@of_conversation
def turns_of(
    space: Space,
    head: ConversationState,
    first: int,
    last: int,
    max_bytes: int = 0,
    *,
    is_locked: bool = False,
) -> Turns:
    """Return the messages of the turns from `first` to `last`; if they exceed `max_bytes` (0: no
    limit), the newest, at least one.

    `is_locked`: the caller holds the conversation's lock.
    """

    def ask(index: Index, number: int) -> Turns:
        rows = index.messages.of_turns(number, first, last)
        places = newest_within(rows, max_bytes)
        opening = first if len(places) == len(rows) else None
        return read_turns(space, head, places, opening, last, is_locked=is_locked)

    if turns := from_index(space, head, ask):
        return turns
    newest = KeptMessages(max_bytes or sys.maxsize, newest=True)
    damaged = 0
    for line in unindexed_lines(space, head):
        damaged += line.entry is None
        if (
            line.entry
            and isinstance(message := line.entry.content, Message)
            and first <= message.turn_number <= last
        ):
            newest.add(message, line.length)
    return Turns(newest.within(), damaged)


@of_conversation
def turns_among(
    space: Space, head: ConversationState, turns: list[int], lines: list[int], max_bytes: int = 0
) -> Turns:
    """Return the messages of these turns, and of the turns of these lines; if they exceed
    `max_bytes` (0: no limit), the newest.

    Turns ascending; lines that are no messages give none.
    """

    def ask(index: Index, number: int) -> Turns:
        places = newest_within(index.messages.of_turns_and_lines(number, turns, lines), max_bytes)
        return read_places(space, head.conversation.id, places)

    if among := from_index(space, head, ask):
        return among
    messages, damaged = _all_messages(space, head)
    numbers = {*turns, *(message.turn_number for message in messages if message.sequence in lines)}
    return Turns([message for message in messages if message.turn_number in numbers], damaged)


@of_conversation
def message_at(space: Space, head: ConversationState, sequence: int) -> Message | None:
    """Return the message of a line, or None if the line holds none. Raises StorageUnavailable."""

    def ask(index: Index, number: int) -> list[Message]:
        places = index.messages.of_lines(number, sequence, sequence)
        return read_places(space, head.conversation.id, places).messages

    messages = from_index(space, head, ask)
    if messages is None:
        messages = [it for it in _all_messages(space, head)[0] if it.sequence == sequence]
    return messages[0] if messages else None


def read_turns(
    space: Space,
    head: ConversationState,
    places: list[Place],
    first: int | None,
    last: int | None,
    *,
    is_locked: bool = False,
) -> Turns:
    """Return the messages at these places, which the index says are all of some turns, and count
    damaged lines among them.

    They begin with turn `first` (0: with any, None: within one) and end with turn `last` (None:
    before it). Where a message seems to be left out the conversation is compared with its
    transcript, under its lock, which the caller holds if `is_locked`. Raises DataUnavailable, also
    if the index is wrong.
    """
    turns = read_places(space, head.conversation.id, places)
    if turns.messages:
        opening, newest = turns.messages[0], turns.messages[-1]
        seems_whole = first is None or (
            first in (0, opening.turn_number)
            and (opening.role is Role.USER or opening.turn_number == 1)
        )
        range_of_turns = (opening.turn_number, newest.turn_number if last is None else last)
    else:
        seems_whole = turns.damaged > 0 or None in (first, last) or (first or 0) > (last or 0)
        range_of_turns = (0, 0)
    end = head.size if last is not None else 0
    damaged, left_out = _around(space, head.conversation.id, places, end, range_of_turns)
    if left_out or not seems_whole:
        space.compare(head.conversation.id, is_locked=is_locked)
    return Turns(turns.messages, turns.damaged + damaged)


def _around(
    space: Space, conversation_id: str, places: list[Place], size: int, turns: tuple[int, int]
) -> tuple[int, bool]:
    """Look at the lines between these places, and behind the last one up to the next message or
    byte `size`.

    They are events, lines that the index could not read, and other turns': between a message and a
    late one of the same turn are other messages too, and from the first of these on the lines are
    other turns'. Return how many lines between the places are damaged, and whether there is a
    message of the turns from one to another, which the index then leaves out.
    """
    damaged = 0
    left_out = False
    ordered = sorted(places, key=itemgetter(1))
    gaps = [
        (sequence, offset + length, after[1])
        for (sequence, offset, length), after in pairwise(ordered)
    ]
    if ordered:
        sequence, offset, length = ordered[-1]
        gaps.append((sequence, offset + length, size))
    for at, (sequence, start, end) in enumerate(gaps, start=1):
        for line in (
            space.store.read(conversation_id, Position(sequence, start), end) if start < end else ()
        ):
            content = line.entry.content if line.entry else None
            if isinstance(content, Message):
                left_out = left_out or turns[0] <= content.turn_number <= turns[1]
                break
            damaged += line.entry is None and at < len(gaps)
    return damaged, left_out


def _check_taken_in(space: Space, head: ConversationState) -> None:
    """Raise IndexUnavailable if the index refused lines: it may have done so after `head` was read,
    and before it answered.
    """
    if space.overlay.is_lagging(head.conversation.id):
        raise IndexUnavailable("the index did not take in the newest lines")


def read_places(space: Space, conversation_id: str, places: list[Place]) -> Turns:
    """Return the messages at these places of a transcript. Raises StorageUnavailable."""
    if not places:
        return Turns([])
    lines = lines_at(space.store, conversation_id, places)
    messages = messages_of(lines)
    return Turns(messages, len(lines) - len(messages))


def read_found(space: Space, conversation_id: str, places: list[Place]) -> list[Message] | None:
    """Return the messages at these places; None if the conversation was deleted since the index
    named it. Raises StorageUnavailable.
    """
    try:
        return read_places(space, conversation_id, places).messages
    except LogNotFound:
        return None


def read_several(
    space: Space, places: Mapping[str, list[Place]]
) -> dict[str, list[Message] | StorageUnavailable]:
    """Return for each conversation its messages at places, or why they cannot be read; none of one
    that was deleted since the index named it.
    """
    messages: dict[str, list[Message] | StorageUnavailable] = {}
    for name, lines in space.store.read_at(places).items():
        if isinstance(lines, LogNotFound):
            messages[name] = []
        else:
            messages[name] = lines if isinstance(lines, StorageUnavailable) else messages_of(lines)
    return messages


def unindexed_lines(space: Space, head: ConversationState) -> Iterator[Line]:
    """Yield the whole lines of a conversation, from its transcript alone. Raises
    StorageUnavailable.
    """
    for line in space.store.read(head.conversation.id):
        if line.sequence > head.lines:
            return
        yield line


def _all_messages(space: Space, head: ConversationState) -> tuple[list[Message], int]:
    lines = list(unindexed_lines(space, head))
    return sorted(messages_of(lines), key=reading_order), sum(line.entry is None for line in lines)


_LAST = 1 << 31  # no turn has a higher number


@dataclass(frozen=True, slots=True)
class LoadResult:
    conversation: Conversation | None = None
    turns: Turns = field(default_factory=lambda: Turns([]))
    has_more: bool = False
    compression_summary: str = ""
    cut_before: int = 0
    """The first line answered, where the turn that it is of is cut."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Limits of a load: turns, estimated tokens, and bytes as stored."""

    max_turns: int
    max_tokens: int
    max_bytes: int


class WorkingContext:
    """Loads working contexts. Raises the errors of `kernel.domain.errors`; safe to call from any
    thread.
    """

    def __init__(self, space: Space, defaults: Live[LoadLimits]) -> None:
        self._space = space
        self._defaults = defaults

    def most_recent(self, channel: str) -> str | None:
        """Return the conversation of a channel with the newest message, or None."""
        newest = self._space.index.conversations.select(
            Filter(channels=(channel,), archived=False), 1
        )
        return newest[0].state.id if newest else None

    def load(
        self,
        conversation_id: str,
        *,
        max_turns: int = 0,
        max_tokens: int = 0,
        before_turn: int = 0,
        before_sequence: int = 0,
    ) -> LoadResult:
        """Return the newest turns of a conversation, or those before a turn or a line. 0 means the
        default.
        """
        defaults = self._defaults.now
        limits = LoadLimits(
            max_turns or defaults.max_turns, max_tokens or defaults.max_tokens, defaults.max_bytes
        )
        head = self._space.read(conversation_id)
        conversation = head.conversation
        history = bool(before_turn or before_sequence)
        after_turn = 0 if history else conversation.compressed_through
        summary = "" if history else conversation.compression_summary
        try:
            turns, has_more, cut = self._tail(
                head, before_turn, before_sequence, after_turn, limits
            )
        except LogNotFound:  # deleted since `head` was read
            raise ConversationNotFound(conversation_id) from None
        cut_before = turns.messages[0].sequence if cut and turns.messages else 0
        return LoadResult(conversation, turns, has_more, summary, cut_before)

    def _tail(
        self,
        head: ConversationState,
        before_turn: int,
        before_sequence: int,
        after_turn: int,
        limits: LoadLimits,
    ) -> tuple[Turns, bool, bool]:
        """Return the turns, whether there are older messages, and whether the only turn is cut."""

        def ask(index: Index, number: int) -> tuple[Turns, bool, bool]:
            places, has_more, cut = index.messages.tail(
                number,
                before_turn=before_turn,
                before_sequence=before_sequence,
                after_turn=after_turn,
                max_turns=limits.max_turns,
                max_tokens=limits.max_tokens,
                max_bytes=limits.max_bytes,
            )
            last = min(before_turn - 1 if before_turn else _LAST, head.conversation.turn_count)
            first = None if cut else 0 if has_more and last > after_turn else after_turn + 1
            newest = None if before_sequence else last
            return read_turns(self._space, head, places, first, newest), has_more, cut

        if tail := from_index(self._space, head, ask):
            return tail
        at = message_at(self._space, head, before_sequence) if before_sequence else None

        def offered(message: Message) -> bool:
            if before_turn and message.turn_number >= before_turn:
                return False
            if at is not None:
                return reading_order(message) < reading_order(at)
            return not before_sequence or message.sequence < before_sequence

        newest = KeptMessages(limits.max_bytes, newest=True)
        damaged = 0
        for line in unindexed_lines(self._space, head):
            damaged += line.entry is None
            if (
                line.entry
                and isinstance(message := line.entry.content, Message)
                and offered(message)
            ):
                newest.add(message, line.length)
        chosen, cut = newest_turns(
            (
                (m.turn_number, message_tokens(m), length, m)
                for m, length in reversed(newest.in_order())
            ),
            after_turn=after_turn,
            max_turns=limits.max_turns,
            max_tokens=limits.max_tokens,
            max_bytes=limits.max_bytes,
        )
        return Turns(chosen, damaged), len(chosen) < newest.count, cut
