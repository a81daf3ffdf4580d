"""Limits of answers. A model pays for every character of them: what is cut is said, and how to
ask for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from recollect import Message

LISTING_TIMEOUT = 5.0
"""Seconds that a list waits for the server: an agent's start may wait for it."""
MAX_CHARACTERS = 20_000
"""Of messages in one answer: some 5,000 tokens."""
MAX_NOTES = 1_000
"""Of an abbreviation. Most have 400 to 800."""


def clipped(text: str, most: int, rest: str) -> str:
    """Return the text, or its beginning and the way to the `rest`."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… [{len(text) - most} more characters: {rest}]"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The turns that an answer has room for."""

    messages: list[Message]
    """Of whole turns, oldest first. A turn that alone is too long has its texts cut."""
    left: tuple[int, int] | None
    """The first and the last turn that had no room."""
    cut: list[int]
    """The turns with texts that were cut."""


def choose(messages: Sequence[Message], *, from_the_end: bool, rest: str) -> Chosen:
    """Choose as many turns as there is room for, from the first on or from the last back. `rest`
    says where a whole turn is.
    """
    turns = [list(group) for _, group in groupby(messages, key=lambda message: message.turn_number)]
    if from_the_end:
        turns.reverse()
    taken: list[list[Message]] = []
    cut: list[int] = []
    room = MAX_CHARACTERS
    for turn in turns:
        size = sum(map(_size, turn))
        if size > room and taken:
            break
        if size > room:
            cut.append(turn[0].turn_number)
            turn = _cut(turn, room, rest.format(turn=turn[0].turn_number))
            size = room
        taken.append(turn)
        room -= size
    left = [turn[0].turn_number for turn in turns[len(taken) :]]
    if from_the_end:
        taken.reverse()
    return Chosen(
        [message for turn in taken for message in turn],
        (min(left), max(left)) if left else None,
        cut,
    )


def _size(message: Message) -> int:
    return len(message.content) + sum(len(call.arguments) for call in message.tool_calls)


def _cut(turn: list[Message], room: int, rest: str) -> list[Message]:
    """Cut a turn that is too long: short messages stay whole, and the long ones share the remaining
    room.
    """
    share, others = 0, sorted(map(_size, turn))
    for index, size in enumerate(others):
        share = room // (len(others) - index)
        if size > share:
            break
        room -= size
    result = []
    for message in turn:
        if _size(message) > share:
            content = clipped(message.content, share, rest)
            left = max(0, share - len(message.content))
            calls = tuple(
                replace(call, arguments=clipped(call.arguments, left, rest))
                for call in message.tool_calls
            )
            message = replace(message, content=content, tool_calls=calls)
        result.append(message)
    return result
