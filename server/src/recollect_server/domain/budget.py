"""Token budgets, estimated."""

from collections.abc import Iterable
from typing import TypeVar

from recollect_server.domain.message import Message

T = TypeVar("T")

BYTES_PER_TOKEN = 4
"""The usual rule of thumb for English prose. Other scripts take more bytes a character and fewer characters a token."""


def estimate_tokens(text: str) -> int:
    """About how many tokens a model reads in the text: one for every four bytes of UTF-8, rounded up."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def message_tokens(message: Message) -> int:
    """About how many tokens a message takes in a working context: its content and its tool calls, not its thinking."""
    calls = sum(estimate_tokens(call.name) + estimate_tokens(call.arguments) for call in message.tool_calls)
    return estimate_tokens(message.content) + calls


def newest_turns(messages: Iterable[tuple[int, int, T]], *, after_turn: int, max_turns: int, max_tokens: int) -> list[T]:
    """The newest whole turns within both limits, the newest one in any case; what it answers is oldest first.

    `messages` are `(turn number, tokens, anything)`, newest first, and are read no further than needed. Turns up to `after_turn`
    are not taken.
    """
    chosen: list[T] = []
    turn: list[T] = []  # the messages of a turn that is not known to fit yet
    turn_number = tokens = turns = 0
    for number, size, message in messages:
        if number <= after_turn:
            break
        if number != turn_number:
            chosen += turn
            turn, turn_number = [], number
            turns += 1
            if turns > max_turns:
                break
        tokens += size
        if tokens > max_tokens and turns > 1:
            turn = []
            break
        turn.append(message)
    return (chosen + turn)[::-1]
