"""The state of a conversation at its end, which a write of its next line starts from."""

from dataclasses import replace

from recollect_server.domain.conversation import Conversation
from recollect_server.domain.frozen import frozen
from recollect_server.domain.message import Message, Role
from recollect_server.domain.time import arrival
from recollect_server.storage.logs.lines import Line


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


@frozen
class RequestKey:
    """A caller's request id with the hash of its payload."""

    id: str
    hash: str


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
